"""The graph of an ONNX file, read without running or trusting it. The numbers of fields are those of onnx.proto."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.onnx.wire import CHUNK, FIXED32, FIXED64, Field, MalformedError, chunk_field, fields, number_field, text_field

_MAX_FILE_BYTES = (1 << 31) - 1
"""What a protocol buffer can be."""
_MAX_FIELDS = 250_000
"""Of one message: a hundred times what a large network has. A file of nothing but tiny fields would keep the reader busy for minutes."""
_STANDARD_DOMAINS = frozenset(("", "ai.onnx"))

_NAMES = """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BitShift
    BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Clip Col2Im Compress Concat
    Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear
    Det Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND
    Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow
    HannWindow HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean
    MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow QLinearConv
    QLinearMatMul QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round
    STFT Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth
    Split Sqrt Squeeze Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where
    Xor
"""
_OPERATIONS = frozenset(_NAMES.split())
"""What is run: ONNX's own operations that compute tensors from tensors. Left out are branches and loops (their bodies are graphs that
nothing here looks into, and a loop need not end), random numbers (the same frame must give the same answer), texts, sequences, pictures."""


FloatValues = NDArray[np.floating[Any]]

_FLOAT, _STRING, _FLOAT16, _DOUBLE, _BFLOAT16 = 1, 8, 10, 11, 16
_FLOATING: Mapping[int, str] = {_FLOAT: "<f4", _FLOAT16: "<f2", _DOUBLE: "<f8", _BFLOAT16: "<u2"}
_ITEM_BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16}
_SMALLEST_NORMAL = {_FLOAT: np.finfo(np.float32).smallest_normal, _DOUBLE: np.finfo(np.float64).smallest_normal}


class _Parts(dict[int, list[Field]]):
    """The fields of a message by number; a message that comes in several pieces is their joined fields."""

    def __init__(self, *messages: memoryview) -> None:
        super().__init__()
        for count, part in enumerate(chain.from_iterable(map(fields, messages))):
            if count >= _MAX_FIELDS:
                raise MalformedError(f"one message has more than {_MAX_FIELDS:,} fields")
            self.setdefault(part.number, []).append(part)

    def all(self, *numbers: int) -> list[Field]:
        return [part for number in numbers for part in self.get(number, ())]

    def chunks(self, *numbers: int) -> list[memoryview]:
        return [part.chunk() for part in self.all(*numbers)]

    def texts(self, number: int) -> tuple[str, ...]:
        return tuple(part.text() for part in self.all(number))

    def text(self, number: int) -> str:
        return (self.texts(number) or ("",))[-1]

    def integer(self, number: int) -> int:
        return [0, *(part.integer() for part in self.all(number))][-1]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as the file holds it; `external` names the file beside the model that holds its bytes."""

    name: str
    dims: tuple[int, ...]
    data_type: int
    raw: memoryview | None
    typed: tuple[Field, ...]
    external: Mapping[str, str] | None
    message: memoryview = field(repr=False)

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return prod(self.dims)

    def floats(self) -> FloatValues | None:
        """Returns its numbers, flat, where they are floating-point numbers; bfloat16 as float32."""
        if self.data_type not in _FLOATING:
            return None
        if self.raw is not None:
            values = np.frombuffer(self.raw, _FLOATING[self.data_type])
        elif self.data_type in {_FLOAT, _DOUBLE}:
            values = np.frombuffer(b"".join(part.payload for part in self.typed), _FLOATING[self.data_type])
        else:  # half precision in 32-bit numbers, as the format has it
            bits = np.array([number for part in self.typed for number in part.integers()], np.int64).astype(np.uint16)
            values = bits.view(_FLOATING[self.data_type])
        return (values.astype(np.uint32) << 16).view(np.float32) if self.data_type == _BFLOAT16 else values

    def with_bytes(self, raw: bytes) -> "Tensor":
        """Returns the tensor with other bytes, within the model."""
        dims = b"".join(number_field(1, size) for size in self.dims)
        message = b"".join((dims, number_field(2, self.data_type), text_field(8, self.name), chunk_field(9, raw)))
        return replace(self, raw=memoryview(raw), typed=(), external=None, message=memoryview(message))


def _tensor(message: memoryview) -> Tensor:
    """Reads one tensor and checks that it holds as many bytes as its shape says."""
    parts = _Parts(message)
    entries = [_Parts(entry) for entry in parts.chunks(13)]
    external = {entry.text(1): entry.text(2) for entry in entries}
    dims = tuple(size for part in parts.all(1) for size in part.integers())
    tensor = Tensor(
        parts.text(8),
        dims,
        parts.integer(2),
        next(reversed(parts.chunks(9)), None),
        tuple(parts.all(4, 5, 6, 7, 10, 11)),
        external if parts.integer(14) == 1 or external else None,
        message,
    )
    bits = _ITEM_BITS.get(tensor.data_type)
    if any(size < 0 for size in dims):
        raise MalformedError(f"the tensor {tensor.name!r} has the shape {dims}")
    if tensor.raw is not None and bits is not None and tensor.count * bits != len(tensor.raw) * 8:
        raise MalformedError(f"the tensor {tensor.name!r} of shape {dims} holds {len(tensor.raw)} bytes")
    if tensor.data_type in {_FLOAT, _DOUBLE} and tensor.raw is None and tensor.external is None:
        kind = FIXED32 if tensor.data_type == _FLOAT else FIXED64
        if any(part.kind not in {kind, CHUNK} for part in tensor.typed):
            raise MalformedError(f"the tensor {tensor.name!r} holds other numbers than its type says")
        if sum(len(part.payload) for part in tensor.typed) * 8 != tensor.count * (bits or 0):
            raise MalformedError(f"the tensor {tensor.name!r} of shape {dims} holds too few or too many numbers")
    return tensor


def _check_values(file: Path, tensor: Tensor, name: str) -> None:
    """Refuses texts, and weights that are no finite numbers; a single infinite number may be a bound and stays."""
    if tensor.data_type == _STRING:
        raise BadSubjectError(f"{file} holds texts in {name!r}; skidpad runs networks of numbers")
    values = tensor.floats() if tensor.external is None else None
    if values is not None and not (np.isfinite(values).all() or (tensor.count == 1 and not np.isnan(values).any())):
        raise BadSubjectError(f"{file}: the weights {name!r} hold NaN or infinity; train or export the network again")


def _brought_in(file: Path, tensor: Tensor) -> Tensor:
    """Returns the tensor with its bytes, read from the file beside the model where they are there."""
    if tensor.external is None:
        return tensor
    location = tensor.external.get("location", "")
    folder = file.resolve().parent
    target = (folder / location).resolve()
    if not location or not target.is_relative_to(folder):
        raise BadSubjectError(
            f"{file} keeps {tensor.name!r} in {location!r}, outside its own folder, where skidpad does not look; "
            "save it with its weights inside"
        )
    bits = _ITEM_BITS.get(tensor.data_type)
    try:
        offset = int(tensor.external.get("offset", "0"))
        if bits is None or offset < 0:
            raise MalformedError("neither its type nor its place can be read")
        size = tensor.count * bits // 8
        if not target.is_file() or offset + size > target.stat().st_size:
            raise MalformedError(f"{size} bytes are not there")
        with target.open("rb") as stream:
            stream.seek(offset)
            return tensor.with_bytes(stream.read(size))
    except (OSError, ValueError) as error:
        raise BadSubjectError(f"{file} keeps {tensor.name!r} in {location!r}, which cannot be read ({error}); copy both files") from error


def _without_subnormals(tensor: Tensor) -> Tensor:
    """Returns the tensor with numbers too small for full precision (below 1.2e-38) set to zero.

    They change no answer, but processors take a hundred times as long for each: a network whose training drove its weights
    towards zero can run ten times slower for them.
    """
    smallest, values = _SMALLEST_NORMAL.get(tensor.data_type), tensor.floats()
    if smallest is None or values is None:
        return tensor
    tiny = (np.abs(values) < smallest) & (values != 0)
    return tensor.with_bytes(np.where(tiny, np.zeros((), values.dtype), values).tobytes()) if tiny.any() else tensor


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """One operation: what it takes, what it makes, and the tensors that it carries itself."""

    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[Tensor, ...]
    message: memoryview = field(repr=False)


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input of the graph: its element type and shape, whose sizes are None where the file leaves them open."""

    name: str
    element_type: int
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """What is kept of a file: everything that answers depend on, and nothing else.

    input: the one that is no weight. listed_weights: files of the first versions name their weights among the inputs, too.
    """

    ir_version: int
    opset: int
    nodes: tuple[OnnxNode, ...]
    weights: tuple[Tensor, ...]
    input: GraphInput
    listed_weights: tuple[memoryview, ...]
    outputs: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """How many weights it has; the running statistics of batch norms are none."""
        statistics = {name for node in self.nodes if node.operation == "BatchNormalization" for name in node.inputs[3:5]}
        return sum(tensor.count for tensor in self.weights if tensor.data_type in _FLOATING and tensor.name not in statistics)


def read_model(file: Path) -> OnnxModel:
    """Reads and checks a file: whole, plain operations of ONNX's own set, finite weights, one input."""
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise MalformedError("no such file is larger than 2 GB")
        parts = _Parts(memoryview(file.read_bytes()))
        opsets = [_Parts(opset) for opset in parts.chunks(8)]
        opset = [0, *(each.integer(2) for each in opsets if each.text(1) in _STANDARD_DOMAINS)][-1]
        graph = _Parts(*parts.chunks(7))
        if not graph or parts.integer(1) < 1 or opset < 1:
            raise MalformedError("it holds no graph, or does not say of which version")
        return _model(file, parts.integer(1), opset, graph)
    except (OSError, ValueError, OverflowError) as error:
        raise BadSubjectError(f"{file} is no whole ONNX file ({error}); copy or export it again") from error


def weight_files(file: Path) -> tuple[Path, ...]:
    """Returns the files beside the model that hold weights of it, in the order of their names."""
    tensors = [_tensor(tensor) for tensor in _Parts(*_Parts(memoryview(file.read_bytes())).chunks(7)).chunks(5)]
    names = {tensor.external.get("location", "") for tensor in tensors if tensor.external is not None}
    return tuple(file.parent / name for name in sorted(names))


def _model(file: Path, ir_version: int, opset: int, graph: _Parts) -> OnnxModel:
    if graph.all(15):
        raise BadSubjectError(f"{file} holds sparse weights, which skidpad does not read; export it with dense ones")
    nodes = tuple(_node(file, message) for message in graph.chunks(1))
    weights: list[Tensor] = []
    for message in graph.chunks(5):
        tensor = _brought_in(file, _tensor(message))
        _check_values(file, tensor, tensor.name)
        weights.append(_without_subnormals(tensor))
    inputs = [(_value(part.chunk()), part.whole) for part in graph.all(11)]
    outputs = tuple(_value(message).name for message in graph.chunks(12))
    names = {tensor.name for tensor in weights}
    real = [value for value, _ in inputs if value.name not in names]
    if len(real) != 1 or not outputs or not nodes:
        listed = ", ".join(value.name for value in real) or "none"
        raise BadSubjectError(
            f"{file} takes {len(real)} inputs ({listed}) and gives {len(outputs)} outputs; skidpad runs networks of one input"
        )
    listed_weights = tuple(message for value, message in inputs if value.name in names)
    return OnnxModel(ir_version, opset, nodes, tuple(weights), real[0], listed_weights, outputs)


def _node(file: Path, message: memoryview) -> OnnxNode:
    parts = _Parts(message)
    operation, domain, outputs = parts.text(4), parts.text(7), parts.texts(2)
    parts.text(3)  # onnxruntime puts the name into its errors, which must be text
    constants = [tensor for attribute in parts.chunks(5) for tensor in _constants(file, attribute, outputs)]
    if domain not in _STANDARD_DOMAINS or operation not in _OPERATIONS:
        of = f" of {domain!r}" if domain not in _STANDARD_DOMAINS else ""
        raise BadSubjectError(
            f"{file} uses the operation {operation!r}{of}, which skidpad does not run; export the network with "
            "plain tensor operations of ONNX's own set"
        )
    return OnnxNode(operation, parts.texts(1), outputs, tuple(constants), message)


def _constants(file: Path, attribute: memoryview, outputs: tuple[str, ...]) -> Iterator[Tensor]:
    parts = _Parts(attribute)
    parts.text(1)
    if parts.all(6, 11, 22, 23):
        raise BadSubjectError(f"{file} hides a graph or sparse weights in an operation; export it without branches and loops")
    for message in parts.chunks(5, 10):
        tensor = _tensor(message)
        if tensor.external is not None:
            raise BadSubjectError(f"{file} keeps a constant in another file; save it with its constants inside")
        _check_values(file, tensor, tensor.name or next(iter(outputs), ""))
        yield tensor


def _value(message: memoryview) -> GraphInput:
    parts = _Parts(message)
    name, kinds = parts.text(1), _Parts(*parts.chunks(2))
    if kinds.keys() - {1, 6}:  # 6 is a remark for readers
        raise MalformedError(f"{name!r} is no tensor")
    tensor = _Parts(*kinds.chunks(1))
    shapes = tensor.chunks(2)
    sizes = (_Parts(size).integer(1) for size in _Parts(shapes[-1]).chunks(1)) if shapes else ()
    return GraphInput(name, tensor.integer(1), tuple(size if size > 0 else None for size in sizes) if shapes else None)
