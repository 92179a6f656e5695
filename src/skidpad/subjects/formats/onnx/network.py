"""An ONNX model as onnxruntime runs it: how it is opened, its sessions, its limits and its errors."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError, optional
from skidpad.subjects.description import Description
from skidpad.subjects.formats.onnx.observing import RECURRENT, ObservedLayer, observed_layers
from skidpad.subjects.formats.onnx.reading import OnnxModel, read_model
from skidpad.subjects.formats.onnx.wire import chunk_field, number_field, text_field
from skidpad.subjects.inputs import check_shape, described_shape
from skidpad.subjects.network_subject import usable_device
from skidpad.subjects.probe import Activations, LayerKind, NeuronUnit, joined_activations

_SILENT = 4
_MEMORY_SHARE = 0.5
_SOURCE = re.compile(r"\S+\.(?:cc|cpp|h):\d+ .*?\)(?: const)?(?: \[with [^\]]*\])? ")
"""`/path/of/a/file.cc:12 the function that was in it(...) `."""
_CUDA, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


class CannotRunError(RuntimeError):
    """onnxruntime refused a model or an input; the message is one sentence of what it said."""


class Session:
    """A model that onnxruntime runs, on one thread of the CPU or on one GPU.

    One thread, since campaigns ask from several: each then has a core to itself, nothing waits for another, and answers do
    not hang on how many there are.
    """

    def __init__(self, data: bytes, device: torch.device, input_name: str) -> None:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _SILENT
        if _limited():
            options.add_session_config_entry("session.use_env_allocators", "1")
        self._device = device
        self._input_name = input_name
        try:
            self._session = runtime.InferenceSession(data, options, providers=_providers(device), enable_fallback=False)
        except _errors() as error:
            raise CannotRunError(_sentence(error)) from error

    def run(self, inputs: torch.Tensor, outputs: Sequence[str], element_type: type[np.generic]) -> list[NDArray[Any]]:
        """Returns the outputs by their names; the input is contiguous and on the session's device."""
        try:
            if self._device.type == "cpu":
                given = inputs.numpy()
                given = given if given.dtype == element_type else given.astype(element_type)
                return list(self._session.run(outputs, {self._input_name: given}))
            return self._run_on_gpu(inputs, outputs, element_type)
        except _errors() as error:
            raise CannotRunError(_sentence(error)) from error

    def _run_on_gpu(self, inputs: torch.Tensor, outputs: Sequence[str], element_type: type[np.generic]) -> list[NDArray[Any]]:
        binding = self._session.io_binding()
        given = inputs.to(getattr(torch, element_type.__name__)).contiguous()
        binding.bind_input(self._input_name, "cuda", self._device.index or 0, element_type, tuple(given.shape), given.data_ptr())
        for name in outputs:
            binding.bind_output(name)
        torch.cuda.current_stream(self._device).synchronize()  # onnxruntime works on a stream of its own
        self._session.run_with_iobinding(binding)
        return list(binding.copy_outputs_to_cpu())


def check_device(device: torch.device) -> None:
    """Refuses a GPU that this build of onnxruntime cannot use."""
    if device.type != "cpu" and _CUDA not in _runtime().get_available_providers():
        raise BadSubjectError(
            f"onnxruntime {_runtime().__version__} has no {_CUDA}, so {device} cannot be used; install onnxruntime-gpu or use cpu"
        )


def _providers(device: torch.device) -> list[Any]:
    if device.type == "cpu":
        return [_CPU]
    # Rounding products to 10 bits, the default, would move answers by a thousandth from one device to the other.
    return [(_CUDA, {"device_id": str(device.index or 0), "use_tf32": "0"}), _CPU]


@cache
def _runtime() -> Any:
    return optional("onnxruntime", "onnxruntime", "onnx", "running an ONNX file")


@cache
def _errors() -> tuple[type[Exception], ...]:
    state = import_module(f"{_runtime().__name__}.capi.onnxruntime_pybind11_state")
    own = (found for found in vars(state).values() if isinstance(found, type) and issubclass(found, Exception))
    return (*own, RuntimeError, ValueError, TypeError, UnicodeDecodeError, MemoryError)


@cache
def _limited() -> bool:
    """Lets all sessions together take at most half of the machine's memory, so that a file that asks for more gets an error."""
    runtime = _runtime()
    expected: tuple[type[Exception], ...] = (AttributeError, OSError, *_errors())
    try:
        limit = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_SHARE)
        memory = runtime.OrtMemoryInfo("Cpu", runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, runtime.OrtMemType.DEFAULT)
        grow_as_needed = {"max_mem": limit, "arena_extend_strategy": 1, "initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1}
        runtime.create_and_register_allocator(memory, runtime.OrtArenaCfg(grow_as_needed))
    except expected:
        return False  # an operating system that does not tell, or a process that has set its own limit
    return True


def _sentence(error: Exception) -> str:
    """Keeps of onnxruntime's message what a user can read: no codes, no names of its own source files."""
    text = " ".join(str(error).split()) or type(error).__name__
    for mark in ("Status Message: ", " : FAIL : ", " : INVALID_GRAPH : ", " : INVALID_ARGUMENT : ", " : NOT_IMPLEMENTED : "):
        text = text.rpartition(mark)[2]
    return _SOURCE.sub("", text)[:160].rstrip(" .;")


Arrays = list[NDArray[Any]]

_CPU_PIECE = 16
"""Images that one thread runs at once. Always the same, so that answers do not hang on the number of threads; with fewer, the
weights of a large dense layer are fetched too often."""


class OnnxNetwork:
    """Runs an ONNX model, piece by piece; a batch of several pieces goes over as many threads as torch may use.

    plain, observed: the model giving its answers alone, and giving the values of its layers as well. answers, values: the names of
    these outputs. piece: the only number of images that the model takes; what is missing of it is filled up and taken away again.
    """

    def __init__(
        self,
        plain: Session,
        observed: Session,
        answers: tuple[str, ...],
        values: tuple[str, ...],
        layers: Sequence[ObservedLayer],
        device: torch.device,
        *,
        parameters: int,
        element_type: type[np.generic],
        piece: int | None,
    ) -> None:
        self.device = device
        self.parameters = parameters
        self.fixed_batch: int | None = None
        self.by_maps = True
        self._plain, self._observed, self._answers, self._values = plain, observed, answers, values
        self._layers = tuple(layers)
        self._element_type = element_type
        self._fixed_piece = piece
        self._threads = ThreadPoolExecutor(max(1, torch.get_num_threads()), "skidpad-onnx")

    def answer(self, inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the graph's outputs in order."""
        parts = self._run(self._plain, self._answers, inputs)
        return tuple(self._joined([part[place] for part in parts]) for place in range(len(self._answers)))

    def record(self, inputs: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], Activations]:
        """Returns the outputs and the value of every neuron, of one pass."""
        parts = self._run(self._observed, (*self._answers, *self._values), inputs)
        columns = [self._joined([part[place] for part in parts]) for place in range(len(parts[0]))]
        answers, values = columns[: len(self._answers)], columns[len(self._answers) :]
        layers = [(layer.kind, value.to(torch.float32)) for layer, value in zip(self._layers, values, strict=True)]
        return tuple(answers), joined_activations(layers, inputs)

    def _joined(self, arrays: Arrays) -> torch.Tensor:
        return torch.from_numpy(arrays[0] if len(arrays) == 1 else np.concatenate(arrays)).to(self.device)

    def _run(self, session: Session, names: Sequence[str], inputs: torch.Tensor) -> list[Arrays]:
        inputs = inputs.contiguous()
        size = self._fixed_piece or (_CPU_PIECE if self.device.type == "cpu" else len(inputs))
        pieces = [inputs[start : start + size] for start in range(0, len(inputs), size)]

        steps = inputs.shape[1] if inputs.ndim == 5 else 0
        count = len(self._answers)

        def run(piece: torch.Tensor) -> Arrays:
            missing = (self._fixed_piece or 0) - len(piece)
            whole = piece if missing <= 0 else torch.cat([piece, piece[-1:].expand(missing, *piece.shape[1:])])
            given = session.run(whole, names, self._element_type)
            answers = [np.atleast_1d(array) for array in given[:count]]
            values = [_neurons(array, len(whole), steps, layer.kind) for array, layer in zip(given[count:], self._layers, strict=False)]
            return [array[: len(piece)] for array in (*answers, *values)]

        if len(pieces) == 1 or torch.get_num_threads() == 1 or self.device.type != "cpu":
            return [run(piece) for piece in pieces]
        return list(self._threads.map(run, pieces))


def _neurons(array: NDArray[Any], images: int, steps: int, kind: LayerKind) -> NDArray[Any]:
    """Gives a layer's value a row for each image, (N, neurons) or, where it runs once a step, (N, steps, neurons)."""
    rows = len(array)
    if rows % images:
        raise ValueError(f"a layer's value of shape {array.shape} has no row for each of {images} images")
    if kind in RECURRENT:
        return array.reshape(images, array.shape[1], -1)
    repeated = steps > 1 and (rows == images * steps or array.shape[1:-1] == (steps,))
    return array.reshape(images, steps, -1) if repeated else array.reshape(images, -1)


_INTS = 7
"""The attribute holds whole numbers."""


def written_model(model: OnnxModel, *, any_batch: bool, layers: tuple[ObservedLayer, ...] = (), means: bool = True) -> bytes:
    """Writes the model so that it takes any number of images, or as many as the file says, and also gives the layers' values.

    With `means`, a filter's value is its map's mean, taken within the graph: a thousandth of the bytes come out. Shapes of
    outputs and inner values are left out, since they may hold the old batch; onnxruntime works them out again.
    """
    nodes = [chunk_field(1, node.message) for node in model.nodes]
    for layer in layers:
        name = _output(layer)
        nodes.append(chunk_field(1, text_field(1, layer.tensor), text_field(2, name), text_field(3, name), *_operation(layer, means=means)))
    graph: tuple[bytes | memoryview, ...] = (
        *nodes,
        text_field(2, "skidpad"),
        *(chunk_field(5, tensor.message) for tensor in model.weights),
        _input(model, any_batch=any_batch),
        *model.listed_weights,
        *(chunk_field(12, text_field(1, name)) for name in (*model.outputs, *map(_output, layers))),
    )
    head = number_field(1, model.ir_version) + chunk_field(8, text_field(1, ""), number_field(2, model.opset))
    return head + chunk_field(7, *graph)


def _output(layer: ObservedLayer) -> str:
    """Names the output of a layer's value for itself: the same tensor may be an answer or belong to two layers."""
    return f"skidpad.observed.{layer.name}"


def _operation(layer: ObservedLayer, *, means: bool) -> tuple[bytes, ...]:
    if layer.kind in RECURRENT:
        order = b"".join(number_field(8, axis) for axis in (2, 0, 1, 3))  # (steps, directions, N, neurons): the images come first
        return text_field(4, "Transpose"), chunk_field(5, text_field(1, "perm"), order, number_field(20, _INTS))
    return (text_field(4, "GlobalAveragePool" if layer.kind is LayerKind.CONV and means else "Identity"),)


def _input(model: OnnxModel, *, any_batch: bool) -> bytes:
    value = model.input
    shape = b""
    if value.shape is not None:
        sizes = (None, *value.shape[1:]) if any_batch else value.shape
        dims = (text_field(2, f"axis{axis}") if size is None else number_field(1, size) for axis, size in enumerate(sizes))
        shape = chunk_field(2, *(chunk_field(1, dim) for dim in dims))
    kind = chunk_field(1, number_field(1, value.element_type), shape)
    return chunk_field(11, text_field(1, value.name), chunk_field(2, kind))


_ELEMENT_TYPES: dict[int, type[np.generic]] = {1: np.float32, 2: np.uint8, 10: np.float16, 11: np.float64}

_LARGEST_BATCH = 256


def open_onnx(file: Path, description: Description, device: str, unit: NeuronUnit) -> OnnxNetwork:
    """Opens an ONNX file on `cpu` or `cuda`."""
    model = read_model(file)
    _check_input(file, model, description)
    place = usable_device(device)
    check_device(place)
    element_type = _ELEMENT_TYPES.get(model.input.element_type)
    if element_type is None:
        raise BadSubjectError(f"{file} takes numbers of ONNX's type {model.input.element_type}; export it with an input of 32-bit floats")
    try:
        any_batch = _takes_any_batch(model, description, place, element_type)
        layers = observed_layers(model)
        asked = written_model(model, any_batch=any_batch, layers=layers, means=unit is NeuronUnit.FILTER)
        plain, observed = (Session(data, place, model.input.name) for data in (written_model(model, any_batch=any_batch), asked))
    except CannotRunError as error:
        raise BadSubjectError(f"{file} is no network that onnxruntime can run ({error}); export it again") from error
    piece = None if any_batch else _batch(model)
    values = tuple(map(_output, layers))
    return OnnxNetwork(
        plain, observed, model.outputs, values, layers, place, parameters=model.parameters, element_type=element_type, piece=piece
    )


def _check_input(file: Path, model: OnnxModel, description: Description) -> None:
    batch = _batch(model)
    if batch is not None and batch > _LARGEST_BATCH:
        raise BadSubjectError(f"{file} takes {batch} images at once; export it for one, or for any number up to {_LARGEST_BATCH}")
    check_shape(file, None if model.input.shape is None else model.input.shape[1:], description.input)


def _batch(model: OnnxModel) -> int | None:
    return model.input.shape[0] if model.input.shape else None


def _takes_any_batch(model: OnnxModel, description: Description, device: torch.device, element_type: type[np.generic]) -> bool:
    """Tells whether a model saved for a fixed number of images answers alike for twice as many at once."""
    batch = _batch(model)
    if batch is None:
        return True
    spec = description.input
    noise = torch.rand((2 * batch, *described_shape(spec)), generator=torch.Generator().manual_seed(0))
    low, high = min(*spec.range.low, *spec.range.high), max(*spec.range.low, *spec.range.high)
    inputs = (noise * (high - low) + low).to(device)
    fixed = Session(written_model(model, any_batch=False), device, model.input.name)
    apart = [fixed.run(part, model.outputs, element_type) for part in (inputs[:batch], inputs[batch:])]
    try:
        free = Session(written_model(model, any_batch=True), device, model.input.name)
        together = free.run(inputs, model.outputs, element_type)
    except CannotRunError:
        return False
    return all(
        np.ndim(one) > 0
        and one.shape == (2 * batch, *first.shape[1:])
        and np.allclose(one, np.concatenate((first, second)), rtol=1e-4, atol=1e-5, equal_nan=True)
        for one, first, second in zip(together, *apart, strict=True)
    )
