"""A checked model written anew for onnxruntime: another batch, more outputs, and nothing that is not needed."""

from dataclasses import dataclass

from skidpad.subjects.onnx.observing import ObservedLayer
from skidpad.subjects.onnx.operations import RECURRENT
from skidpad.subjects.onnx.reading import Model
from skidpad.subjects.onnx.wire import chunk_field, number_field, text_field
from skidpad.subjects.operations import Kind

_INTS = 7
"""The attribute holds whole numbers."""
_PREFIX = "skidpad.observed."


@dataclass(frozen=True, slots=True)
class Asked:
    """The model's bytes, and the names of the outputs that hold the layers' values."""

    data: bytes
    observed: tuple[str, ...]


def written_model(model: Model, *, any_batch: bool, layers: tuple[ObservedLayer, ...] = (), means: bool = True) -> Asked:
    """Writes the model so that it takes any number of images, or as many as the file says, and also gives the layers' values.

    With `means`, a filter's value is its map's mean, taken within the graph: a thousandth of the bytes come out. Shapes of
    outputs and inner values are left out, since they may hold the old batch; onnxruntime works them out again.
    """
    names: list[str] = []
    nodes = [chunk_field(1, node.message) for node in model.nodes]
    for layer in layers:
        name = f"{_PREFIX}{layer.name}"  # a name of its own: the same tensor may be an answer or belong to two layers
        nodes.append(chunk_field(1, text_field(1, layer.tensor), text_field(2, name), text_field(3, name), *_operation(layer, means=means)))
        names.append(name)
    graph: tuple[bytes | memoryview, ...] = (
        *nodes,
        text_field(2, "skidpad"),
        *(chunk_field(5, tensor.message) for tensor in model.weights),
        _input(model, any_batch=any_batch),
        *model.listed_weights,
        *(chunk_field(12, text_field(1, name)) for name in (*model.outputs, *names)),
    )
    head = number_field(1, model.ir_version) + chunk_field(8, text_field(1, ""), number_field(2, model.opset))
    return Asked(head + chunk_field(7, *graph), tuple(names))


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
