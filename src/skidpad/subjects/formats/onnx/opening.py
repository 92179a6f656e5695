"""From an ONNX file to a network: the checked model is written anew for onnxruntime with any batch and the values of its layers."""

from pathlib import Path

import numpy as np
import torch

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description
from skidpad.subjects.formats.onnx.network import CannotRunError, OnnxNetwork, Session, check_device
from skidpad.subjects.formats.onnx.observing import RECURRENT, ObservedLayer, observed_layers
from skidpad.subjects.formats.onnx.reading import Model, read_model
from skidpad.subjects.formats.onnx.wire import chunk_field, number_field, text_field
from skidpad.subjects.network import usable_device
from skidpad.subjects.probe import Kind, NeuronUnit
from skidpad.subjects.windows import check_shape, described_shape

_INTS = 7
"""The attribute holds whole numbers."""


def written_model(model: Model, *, any_batch: bool, layers: tuple[ObservedLayer, ...] = (), means: bool = True) -> bytes:
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
    return (text_field(4, "GlobalAveragePool" if layer.kind is Kind.CONV and means else "Identity"),)


def _input(model: Model, *, any_batch: bool) -> bytes:
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


def _check_input(file: Path, model: Model, description: Description) -> None:
    batch = _batch(model)
    if batch is not None and batch > _LARGEST_BATCH:
        raise BadSubjectError(f"{file} takes {batch} images at once; export it for one, or for any number up to {_LARGEST_BATCH}")
    check_shape(file, None if model.input.shape is None else model.input.shape[1:], description.input)


def _batch(model: Model) -> int | None:
    return model.input.shape[0] if model.input.shape else None


def _takes_any_batch(model: Model, description: Description, device: torch.device, element_type: type[np.generic]) -> bool:
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
