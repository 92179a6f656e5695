"""Which tensors of a graph are the values of its layers, as `probe` finds them while a torch network runs.

The rules are the probe's, applied to the file in place of a run: a layer is a convolution or a product with weights; its
value is taken after a directly following batch norm and activation, where "following" is the first operation that uses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from skidpad.subjects.formats.onnx.reading import OnnxModel, OnnxNode
from skidpad.subjects.probe import LayerKind

_LAYERS = {
    **dict.fromkeys(("Conv", "ConvTranspose"), LayerKind.CONV),
    **dict.fromkeys(("Gemm", "MatMul"), LayerKind.DENSE),
    "LSTM": LayerKind.LSTM,
    "GRU": LayerKind.GRU,
    "RNN": LayerKind.RNN,
}
RECURRENT = frozenset((LayerKind.LSTM, LayerKind.GRU, LayerKind.RNN))

_NAMES = "Atan Celu Clip Elu Gelu HardSigmoid HardSwish LeakyRelu Mish PRelu Relu Selu Sigmoid Softplus Swish Tanh ThresholdedRelu"
_ACTIVATIONS = frozenset(_NAMES.split())
"""The same functions as the probe of torch networks knows, under ONNX's names."""
_ELEMENTWISE = frozenset(("Add", "Clip", "Div", "Erf", "HardSigmoid", "Mul", "Pow", "Sigmoid", "Softplus", "Sub", "Tanh"))
"""What the factor of a gated activation, x f(x), is made of: SiLU, Mish, GELU and hard swish in files older than these operations."""
_TRANSPARENT = frozenset(("Dropout", "Identity"))
_RANK_KEPT = frozenset(("Cast", "DequantizeLinear", "Identity", "Transpose"))
_LONGEST_GATE = 12
"""GELU by tanh is the longest: nine operations."""


@dataclass(frozen=True, slots=True)
class ObservedLayer:
    """A layer and the tensor that holds its value.

    A convolution's has a map for each filter; a recurrence's is (steps, directions, N, neurons).
    """

    name: str
    kind: LayerKind
    tensor: str


def observed_layers(model: OnnxModel) -> tuple[ObservedLayer, ...]:
    """Returns the layers in the order of the file, which is the order of execution: `conv1`, `conv2`, ..., `dense1`, ..."""
    ranks = _constant_ranks(model)
    users = _users(model.nodes)
    found: list[ObservedLayer] = []
    numbers = dict.fromkeys(LayerKind, 0)
    for node in model.nodes:
        kind = _LAYERS.get(node.operation)
        if kind is None or not _is_layer(node, ranks):
            continue
        numbers[kind] += 1
        value = node.outputs[0] if kind in RECURRENT else _settled(node.outputs[0], users, ranks, kind)
        found.append(ObservedLayer(f"{kind.value}{numbers[kind]}", kind, value))
    return tuple(found)


def _constant_ranks(model: OnnxModel) -> dict[str, int | None]:
    """The names of everything that is the same for all images, with its number of axes where it is known."""
    ranks: dict[str, int | None] = {tensor.name: len(tensor.dims) for tensor in model.weights}
    ranks[""] = None  # an input that is left out
    for node in model.nodes:
        if node.operation == "Constant":
            rank = len(node.constants[0].dims) if node.constants else None
        elif all(name in ranks for name in node.inputs):
            rank = ranks[node.inputs[0]] if node.operation in _RANK_KEPT and node.inputs else None
        else:
            continue
        ranks.update(dict.fromkeys(node.outputs, rank))
    return ranks


def _users(nodes: tuple[OnnxNode, ...]) -> dict[str, list[OnnxNode]]:
    users: dict[str, list[OnnxNode]] = {}
    for node in nodes:
        if node.operation != "Shape":  # asking for the size uses no value
            for name in dict.fromkeys(node.inputs):
                users.setdefault(name, []).append(node)
    return users


def _is_layer(node: OnnxNode, ranks: Mapping[str, int | None]) -> bool:
    """Tells apart layers from products of activations, and from what the file computes of its weights alone."""
    if not node.outputs or not node.outputs[0] or not node.inputs or node.inputs[0] in ranks:
        return False
    return node.operation != "MatMul" or (len(node.inputs) == 2 and ranks.get(node.inputs[1]) == 2)


def _settled(value: str, users: Mapping[str, list[OnnxNode]], ranks: Mapping[str, int | None], kind: LayerKind) -> str:
    """Follows a layer's value through its bias, batch norm, dropout and activation."""
    normed = False
    while True:
        following = users.get(value, [])
        if not following or not following[0].outputs:
            return value
        gated = _gated(value, users, ranks)
        if gated is not None:
            return gated
        node = following[0]
        first = node.inputs[0] == value
        if first and node.operation in _ACTIVATIONS:
            return node.outputs[0]
        norm = first and node.operation == "BatchNormalization" and not normed
        bias = kind is LayerKind.DENSE and node.operation == "Add" and any(ranks.get(name) == 1 for name in node.inputs)
        if not (norm or bias or (first and node.operation in _TRANSPARENT)):
            return value
        normed = normed or norm
        value = node.outputs[0]


def _gated(value: str, users: Mapping[str, list[OnnxNode]], ranks: Mapping[str, int | None]) -> str | None:
    """Returns x f(x) where `value` is x and f is spelled out in element-wise operations, as SiLU is in older files.

    The operations that use x and constants alone must come together in one tensor again, and be a known activation.
    """
    open_uses = {value: len(users.get(value, []))}
    if open_uses[value] < 2:
        return None
    spelled: list[str] = []
    waiting = list(users[value])
    while waiting and len(spelled) < _LONGEST_GATE:
        ready = [
            node for node in waiting if node.operation in _ELEMENTWISE and all(name in open_uses or name in ranks for name in node.inputs)
        ]
        if not ready or not ready[0].outputs:
            return None
        node, made = ready[0], ready[0].outputs[0]
        for name in set(node.inputs) & open_uses.keys():
            open_uses[name] -= 1
        spelled.append(node.operation)
        if not any(open_uses.values()):
            return _exit(made, set(spelled), users, ranks)
        open_uses[made] = len(users.get(made, []))
        waiting = [other for other in waiting if other is not node]
        waiting += [other for other in users.get(made, []) if not any(other is known for known in waiting)]
    return None


def _exit(value: str, spelled: set[str], users: Mapping[str, list[OnnxNode]], ranks: Mapping[str, int | None]) -> str | None:
    if spelled in ({"Sigmoid", "Mul"}, {"HardSigmoid", "Mul"}, {"Softplus", "Tanh", "Mul"}):  # SiLU, hard swish, Mish
        return value
    gelu = "Erf" in spelled or {"Tanh", "Add", "Mul"} <= spelled
    hard_swish = {"Add", "Clip", "Mul"} <= spelled <= {"Add", "Clip", "Div", "Mul"}
    return _scaled(value, users, ranks) if gelu or hard_swish else None


def _scaled(value: str, users: Mapping[str, list[OnnxNode]], ranks: Mapping[str, int | None]) -> str:
    """Follows one product with a constant: GELU's half and hard swish's sixth may come last."""
    following = users.get(value, [])
    if len(following) == 1 and following[0].operation in {"Mul", "Div"} and any(ranks.get(name) == 0 for name in following[0].inputs):
        return following[0].outputs[0]
    return value
