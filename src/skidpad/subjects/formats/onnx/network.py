"""An ONNX model as onnxruntime runs it: its sessions, its limits and its errors."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError, MissingExtraError
from skidpad.subjects.base import Layer
from skidpad.subjects.formats.onnx.observing import RECURRENT
from skidpad.subjects.probe import Activations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.subjects.formats.onnx.observing import ObservedLayer
    from skidpad.subjects.probe import Kind


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
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtraError.of("onnxruntime", "onnx", "running an ONNX file") from error


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
        if not self._layers:
            raise BadSubjectError("the network has no convolution and no dense layer that could be observed; test it without coverage")
        names = (*self._answers, *self._values)
        parts = self._run(self._observed, names, inputs)
        count = len(self._answers)
        answers = tuple(self._joined([part[place] for part in parts]) for place in range(count))
        layers: list[Layer] = []
        kept: list[NDArray[np.float32]] = []
        start = 0
        for place, observed in enumerate(self._layers, count):
            values = np.concatenate([part[place] for part in parts]).astype(np.float32, copy=False)
            steps = [f".t{step:03d}" for step in range(values.shape[1])] if values.ndim == 3 else [""]
            for step in steps:
                layers.append(Layer(f"{observed.name}{step}", start, start + values.shape[-1]))
                start += values.shape[-1]
            kept.append(values.reshape(len(inputs), -1))
        return answers, Activations(torch.from_numpy(np.concatenate(kept, 1)).to(self.device), tuple(layers))

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


def _neurons(array: NDArray[Any], images: int, steps: int, kind: Kind) -> NDArray[Any]:
    """Gives a layer's value a row for each image, (N, neurons) or, where it runs once a step, (N, steps, neurons)."""
    rows = len(array)
    if rows % images:
        raise ValueError(f"a layer's value of shape {array.shape} has no row for each of {images} images")
    if kind in RECURRENT:
        return array.reshape(images, array.shape[1], -1)
    repeated = steps > 1 and (rows == images * steps or array.shape[1:-1] == (steps,))
    return array.reshape(images, steps, -1) if repeated else array.reshape(images, -1)
