"""The graph of an ONNX file, read without running or trusting it."""

from dataclasses import dataclass, field
from pathlib import Path

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.onnx.operations import OPERATIONS, STANDARD_DOMAINS
from skidpad.subjects.formats.onnx.tensors import (
    FLOATING,
    Field,
    MalformedError,
    Tensor,
    brought_in,
    check_values,
    fields,
    read_tensor,
    without_subnormals,
)

_MAX_FILE_BYTES = (1 << 31) - 1
"""What a protocol buffer can be."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: what it takes, what it makes, and the tensors that it carries itself."""

    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[Tensor, ...]
    message: memoryview = field(repr=False)


@dataclass(frozen=True, slots=True)
class Value:
    """An input of the graph: its element type and shape, whose sizes are None where the file leaves them open."""

    name: str
    element_type: int
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Model:
    """What is kept of a file: everything that answers depend on, and nothing else.

    input: the one that is no weight. listed_weights: files of the first versions name their weights among the inputs, too.
    """

    ir_version: int
    opset: int
    nodes: tuple[Node, ...]
    weights: tuple[Tensor, ...]
    input: Value
    listed_weights: tuple[memoryview, ...]
    outputs: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """How many weights it has; the running statistics of batch norms are none."""
        statistics = {name for node in self.nodes if node.operation == "BatchNormalization" for name in node.inputs[3:5]}
        return sum(tensor.count for tensor in self.weights if tensor.data_type in FLOATING and tensor.name not in statistics)


def read_model(file: Path) -> Model:
    """Reads and checks a file: whole, plain operations of ONNX's own set, finite weights, one input."""
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise MalformedError("no such file is larger than 2 GB")
        data = file.read_bytes()
        return _Reader(file).model(memoryview(data))
    except (OSError, ValueError, OverflowError) as error:
        raise BadSubjectError(f"{file} is no whole ONNX file ({error}); copy or export it again") from error


def weight_files(file: Path) -> tuple[Path, ...]:
    """Returns the files beside the model that hold weights of it, in the order of their names."""
    names: set[str] = set()
    for part in fields(memoryview(file.read_bytes())):
        if part.number == 7:
            tensors = [read_tensor(tensor.chunk()) for tensor in fields(part.chunk()) if tensor.number == 5]
            names |= {tensor.external.get("location", "") for tensor in tensors if tensor.external is not None}
    return tuple(file.parent / name for name in sorted(names))


class _Reader:
    """Reads one file; errors about what it holds name it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def model(self, message: memoryview) -> Model:
        ir_version, opset = 0, 0
        graph: list[Field] = []
        for part in fields(message):
            match part.number:
                case 1:
                    ir_version = part.integer()
                case 7:
                    graph += fields(part.chunk())  # a message that comes in several parts is their joined fields
                case 8:
                    domain, version = _opset(part.chunk())
                    opset = version if domain in STANDARD_DOMAINS else opset
        if not graph or ir_version < 1 or opset < 1:
            raise MalformedError("it holds no graph, or does not say of which version")
        return self._graph(ir_version, opset, graph)

    def _graph(self, ir_version: int, opset: int, graph: list[Field]) -> Model:
        nodes: list[Node] = []
        weights: list[Tensor] = []
        inputs: list[tuple[Value, memoryview]] = []
        outputs: list[str] = []
        for part in graph:
            match part.number:
                case 1:
                    nodes.append(self._node(part.chunk()))
                case 5:
                    weights.append(self._weights(part.chunk()))
                case 11:
                    inputs.append((_value(part.chunk()), part.whole))
                case 12:
                    outputs.append(_value(part.chunk()).name)
                case 15:
                    raise BadSubjectError(f"{self._file} holds sparse weights, which skidpad does not read; export it with dense ones")
        names = {tensor.name for tensor in weights}
        real = [value for value, _ in inputs if value.name not in names]
        if len(real) != 1 or not outputs or not nodes:
            listed = ", ".join(value.name for value in real) or "none"
            raise BadSubjectError(
                f"{self._file} takes {len(real)} inputs ({listed}) and gives {len(outputs)} outputs; skidpad runs networks of one input"
            )
        listed_weights = tuple(message for value, message in inputs if value.name in names)
        return Model(ir_version, opset, tuple(nodes), tuple(weights), real[0], listed_weights, tuple(outputs))

    def _node(self, message: memoryview) -> Node:
        operation, domain = "", ""
        inputs: list[str] = []
        outputs: list[str] = []
        constants: list[Tensor] = []
        for part in fields(message):
            match part.number:
                case 1:
                    inputs.append(part.text())
                case 2:
                    outputs.append(part.text())
                case 3:
                    part.text()  # onnxruntime puts it into its errors, which must be text
                case 4:
                    operation = part.text()
                case 5:
                    constants += self._attribute(part.chunk(), outputs)
                case 7:
                    domain = part.text()
        if domain not in STANDARD_DOMAINS or operation not in OPERATIONS:
            of = f" of {domain!r}" if domain not in STANDARD_DOMAINS else ""
            raise BadSubjectError(
                f"{self._file} uses the operation {operation!r}{of}, which skidpad does not run; export the network with "
                "plain tensor operations of ONNX's own set"
            )
        return Node(operation, tuple(inputs), tuple(outputs), tuple(constants), message)

    def _attribute(self, message: memoryview, outputs: list[str]) -> list[Tensor]:
        found: list[Tensor] = []
        for part in fields(message):
            match part.number:
                case 1:
                    part.text()
                case 5 | 10:
                    tensor = read_tensor(part.chunk())
                    if tensor.external is not None:
                        raise BadSubjectError(f"{self._file} keeps a constant in another file; save it with its constants inside")
                    check_values(self._file, tensor if tensor.name or not outputs else _named(tensor, outputs[0]))
                    found.append(tensor)
                case 6 | 11 | 22 | 23:
                    raise BadSubjectError(
                        f"{self._file} hides a graph or sparse weights in an operation; export it without branches and loops"
                    )
        return found

    def _weights(self, message: memoryview) -> Tensor:
        tensor = brought_in(self._file, read_tensor(message))
        check_values(self._file, tensor)
        return without_subnormals(tensor)


def _named(tensor: Tensor, name: str) -> Tensor:
    return Tensor(name, tensor.dims, tensor.data_type, tensor.raw, tensor.typed, tensor.external, tensor.message)


def _opset(message: memoryview) -> tuple[str, int]:
    domain, version = "", 0
    for part in fields(message):
        if part.number == 1:
            domain = part.text()
        elif part.number == 2:
            version = part.integer()
    return domain, version


def _value(message: memoryview) -> Value:
    name, element_type = "", 0
    shape: tuple[int | None, ...] | None = None
    for part in fields(message):
        if part.number == 1:
            name = part.text()
        elif part.number == 2:
            for kind in fields(part.chunk()):
                if kind.number == 6:
                    continue  # a remark for readers
                if kind.number != 1:
                    raise MalformedError(f"{name!r} is no tensor")
                for detail in fields(kind.chunk()):
                    if detail.number == 1:
                        element_type = detail.integer()
                    elif detail.number == 2:
                        shape = tuple(_size(size.chunk()) for size in fields(detail.chunk()) if size.number == 1)
    return Value(name, element_type, shape)


def _size(message: memoryview) -> int | None:
    sizes = [part.integer() for part in fields(message) if part.number == 1]
    return sizes[-1] if sizes and sizes[-1] > 0 else None
