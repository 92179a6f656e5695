"""TensorFlow Lite files, run by LiteRT: one image after another, and the values of the layers of the same pass.

LiteRT checks a file's structure before it uses it, and runs operations of its own alone. Operations that the file takes from TensorFlow
itself ("Flex", as Donkey's recurrent and 3-D pilots have) or brings along are refused by name before anything is allocated.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError, optional
from skidpad.subjects.description import Description
from skidpad.subjects.formats.recognition import reason_of
from skidpad.subjects.inputs import check_shape
from skidpad.subjects.network_subject import usable_device
from skidpad.subjects.probe import Activations, LayerKind, NeuronUnit, joined_activations

_LAYERS = {
    **dict.fromkeys(("CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"), LayerKind.CONV),
    "FULLY_CONNECTED": LayerKind.DENSE,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": LayerKind.LSTM,
    "UNIDIRECTIONAL_SEQUENCE_RNN": LayerKind.RNN,
}
_NAMES = "ELU GELU HARD_SWISH LEAKY_RELU LOGISTIC PRELU RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 TANH"
_ACTIVATIONS = frozenset(_NAMES.split())
"""The same functions as the probe of torch networks knows; most files have them inside the layer."""
_MAX_BATCH = 256


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """What a file states: its input, its outputs in the order of the signature, and the tensors that hold its layers' values.

    shape: with the batch, None for a size that may be any. piece: how many images it takes at once. layers: kind, tensor and what the
    layer's operation is called.
    """

    data: bytes
    shape: tuple[int | None, ...]
    piece: int
    outputs: tuple[str, ...]
    answers: tuple[int, ...]
    layers: tuple[tuple[LayerKind, int], ...]
    parameters: int


def read_tflite(file: Path) -> TfliteModel:
    """Reads and checks a file; refuses one that LiteRT cannot run, or that takes more than pictures."""
    data = file.read_bytes()
    interpreter = _interpreter(file, data)
    operations = [operation for operation in interpreter._get_ops_details() if operation["op_name"] != "DELEGATE"]  # noqa: SLF001 - LiteRT has no public list
    foreign = sorted({name for operation in operations if (name := operation["op_name"]).startswith("Flex") or name == "CUSTOM"})
    if foreign:
        raise BadSubjectError(
            f"{file} uses operations that LiteRT does not have ({', '.join(foreign)}): it was converted with TensorFlow's own operations "
            "added; give the .h5 file that it was converted from, or convert it with unrolled recurrent layers"
        )
    inputs = interpreter.get_input_details()
    if len(inputs) != 1:
        names = ", ".join(str(each["name"]) for each in inputs)
        raise BadSubjectError(f"{file} takes {len(inputs)} inputs ({names}); only networks that take camera frames alone can be tested")
    given = inputs[0]
    shape = tuple(int(size) if size > 0 else None for size in given["shape_signature"])
    piece = (shape[0] if shape else None) or 1
    if piece > _MAX_BATCH:
        raise BadSubjectError(f"{file} takes {piece} images at once; convert it for one")
    named = _named_outputs(interpreter)
    constants = {int(tensor["index"]): int(np.prod(tensor["shape"])) for tensor in interpreter.get_tensor_details()}
    for index in (int(given["index"]), *(int(index) for operation in operations for index in operation["outputs"])):
        constants.pop(index, None)
    return TfliteModel(
        data,
        shape,
        piece,
        tuple(named),
        tuple(named.values()),
        tuple(_layers(operations, constants)),
        sum(constants.get(index, 0) for index in {int(i) for each in operations if each["op_name"] in _LAYERS for i in each["inputs"]}),
    )


def open_tflite(file: Path, description: Description, device: str, unit: NeuronUnit) -> TfliteNetwork:
    """Opens a TensorFlow Lite file, on the CPU."""
    if usable_device(device).type != "cpu":
        raise BadSubjectError(f"a TensorFlow Lite file runs on the CPU alone; use cpu, not {device}")
    model = read_tflite(file)
    check_shape(file, model.shape[1:], description.input)
    return TfliteNetwork(file, model, unit)


class TfliteNetwork:
    """Runs a TensorFlow Lite model in pieces of as many images as it takes, most often one, so that answers know no batch.

    Each thread has interpreters of its own, since one runs one image at a time: the first answers, on LiteRT's fast kernels; the
    second keeps every tensor, for the values of the layers.
    """

    def __init__(self, file: Path, model: TfliteModel, unit: NeuronUnit) -> None:
        self.device = torch.device("cpu")
        self.parameters = model.parameters
        self.fixed_batch: int | None = None
        self.by_maps = False
        self._file, self._model, self._unit = file, model, unit
        self._mine = threading.local()

    def answer(self, inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the outputs in the order of the signature."""
        interpreter = self._ready("plain")
        parts = [[_value(interpreter, index)[:count] for index in self._model.answers] for count in self._run(interpreter, inputs)]
        return _concatenated(parts)

    def record(self, inputs: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], Activations]:
        """Returns the outputs and the value of every neuron, of one pass."""
        interpreter = self._ready("observed")
        steps = inputs.shape[1] if inputs.ndim == 5 else 0
        answers, values = [], []
        for count in self._run(interpreter, inputs):
            answers.append([_value(interpreter, index)[:count] for index in self._model.answers])
            values.append([self._neurons(_value(interpreter, index), kind, steps)[:count] for kind, index in self._model.layers])
        kinds = [kind for kind, _ in self._model.layers]
        return _concatenated(answers), joined_activations(list(zip(kinds, _concatenated(values), strict=True)), inputs)

    def _ready(self, name: str) -> Any:
        if not hasattr(self._mine, name):
            interpreter = _interpreter(self._file, self._model.data, observed=name == "observed")
            setattr(self._mine, name, interpreter)
        return getattr(self._mine, name)

    def _run(self, interpreter: Any, inputs: torch.Tensor) -> Iterator[int]:
        """Runs piece by piece, and yields how many images of each are asked for; tensors are read between two pieces."""
        given, piece = interpreter.get_input_details()[0], self._model.piece
        numbers = inputs.contiguous().numpy()
        if (piece, *numbers.shape[1:]) != tuple(given["shape"]):
            raise ValueError(f"the network takes {tuple(map(int, given['shape']))} numbers; got {(piece, *numbers.shape[1:])}")
        for start in range(0, len(numbers), piece):
            part = numbers[start : start + piece]
            whole = part if len(part) == piece else np.concatenate([part, np.repeat(part[-1:], piece - len(part), 0)])
            interpreter.set_tensor(given["index"], _quantised(whole, given))
            interpreter.invoke()
            yield len(part)

    def _neurons(self, value: NDArray[np.float32], kind: LayerKind, steps: int) -> NDArray[np.float32]:
        """Gives a layer's value a row for each image, (piece, neurons), or (piece, steps, neurons) where it runs once a frame."""
        if kind is LayerKind.CONV:
            value = np.moveaxis(value, -1, 1)
            value = value.reshape(*value.shape[:2], -1).mean(2) if self._unit is NeuronUnit.FILTER else value.reshape(len(value), -1)
        piece = self._model.piece
        if kind not in {LayerKind.CONV, LayerKind.DENSE} or (steps > 1 and value.size // value.shape[-1] == piece * steps):
            return value.reshape(piece, -1, value.shape[-1])
        return value.reshape(piece, -1)


def _interpreter(file: Path, data: bytes, *, observed: bool = True) -> Any:
    runtime = _runtime()
    kernels = runtime.OpResolverType
    try:
        # Delegates run several operations as one, so that no value between them can be seen.
        chosen = kernels.BUILTIN_WITHOUT_DEFAULT_DELEGATES if observed else kernels.AUTO
        made = runtime.Interpreter(
            model_content=data, num_threads=1, experimental_preserve_all_tensors=observed, experimental_op_resolver_type=chosen
        )
        if not any(str(operation["op_name"]).startswith("Flex") for operation in made._get_ops_details()):  # noqa: SLF001 - as above
            made.allocate_tensors()
    except (RuntimeError, ValueError, TypeError) as error:
        raise BadSubjectError(f"{file} is no network that LiteRT can run ({reason_of(error)}); convert it again") from error
    return made


@cache
def _runtime() -> Any:
    return optional("ai_edge_litert.interpreter", "ai-edge-litert", "tflite", "running a TensorFlow Lite file")


def _named_outputs(interpreter: Any) -> dict[str, int]:
    """Returns names and tensors in the order of the only signature; the file's own order, where it has none, may be another."""
    signatures = interpreter.get_signature_list()
    if len(signatures) == 1:
        details = interpreter.get_signature_runner(next(iter(signatures))).get_output_details()
        return {str(name): int(details[name]["index"]) for name in next(iter(signatures.values()))["outputs"]}
    return {str(each["name"]): int(each["index"]) for each in interpreter.get_output_details()}


def _layers(operations: Sequence[Mapping[str, Any]], constants: Mapping[int, int]) -> Iterator[tuple[LayerKind, int]]:
    """Yields the layers in order of execution, each with the tensor that holds its value after a directly following activation."""
    for place, operation in enumerate(operations):
        kind = _LAYERS.get(operation["op_name"])
        if kind is None or int(operation["inputs"][1]) not in constants:
            continue
        value = int(operation["outputs"][0])
        following = next((later for later in operations[place + 1 :] if value in map(int, later["inputs"])), None)
        if kind in {LayerKind.CONV, LayerKind.DENSE} and following is not None and following["op_name"] in _ACTIVATIONS:
            value = int(following["outputs"][0])
        yield kind, value


def _quantised(numbers: NDArray[np.float32], tensor: Mapping[str, Any]) -> NDArray[Any]:
    scale, zero = tensor["quantization"]
    type_ = np.dtype(tensor["dtype"])
    if type_.kind == "f" or not scale:
        return numbers.astype(type_, copy=False)
    limits = np.iinfo(type_)
    return np.asarray(np.clip(np.rint(numbers / scale + zero), limits.min, limits.max), type_)


def _value(interpreter: Any, index: int) -> NDArray[np.float32]:
    value = np.atleast_1d(interpreter.get_tensor(index))
    scale, zero = interpreter._get_tensor_details(index, 0)["quantization"]  # noqa: SLF001 - the public one lists all tensors each time
    if value.dtype.kind == "f" or not scale:
        return value.astype(np.float32, copy=False)
    return np.asarray((value.astype(np.float32) - zero) * scale, np.float32)


def _concatenated(parts: Sequence[Sequence[NDArray[np.float32]]]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True))
