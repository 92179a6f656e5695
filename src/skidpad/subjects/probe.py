"""Activations of every layer in one pass, whatever the network's format.

The probe listens below the formats, where every tensor operation of a plain module, of TorchScript and of an exported
program passes by under the same name. So the same network gives the same layers and values however it was saved.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from skidpad.core.errors import BadSubjectError
from skidpad.core.layers import Layer

T = TypeVar("T")


class NeuronUnit(Enum):
    """What one neuron of a convolution is: a filter, valued by the mean of its map, or each element of each map.

    Reference: DeepTest, section 3.1.
    """

    FILTER = "filter"
    ELEMENT = "element"


@dataclass(frozen=True, slots=True)
class Activations:
    """The value of every neuron, (N, neurons) float32 on the network's device, and which neurons belong to which layer."""

    values: torch.Tensor
    layers: tuple[Layer, ...]


def record(network: Callable[[torch.Tensor], T], inputs: torch.Tensor, unit: NeuronUnit = NeuronUnit.FILTER) -> tuple[T, Activations]:
    """Runs the network once and returns its answer with the activations of its layers.

    A layer is a convolution or a matrix product with weights, in order of execution (`conv1`, `conv2`, ..., `dense1`, ...);
    its value is taken after a directly following batch norm and element-wise activation. Means are taken as soon as
    a layer's value is known, so no more maps stay alive than without the probe.

    An activation that the file spells out in parts (PReLU or SiLU after `run_decompositions`) is not recognised: such a layer's
    value is the one before it.

    Deviates: layers in DeepTest's code are Keras layers, so dropout and the input count there too; here they do not.
    """
    probe = _Probe(len(inputs), unit)
    with torch.inference_mode():
        with probe:
            answer = network(inputs)
        values = probe.finish()
    return answer, _joined(values, inputs)


class _Kind(Enum):
    CONV = "conv"
    DENSE = "dense"


_LAYERS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "mkldnn_convolution"), _Kind.CONV),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cudnn_convolution"), _Kind.CONV),
    **dict.fromkeys(("linear", "addmm", "mm", "matmul", "_addmm_activation"), _Kind.DENSE),
}
_PRODUCTS = frozenset(("mm", "matmul"))
"""Layers where the right operand is a matrix; with more axes it is a product of activations (attention)."""
_ACTIVATIONS = frozenset(
    (
        "relu",
        "relu6",
        "elu",
        "leaky_relu",
        "prelu",
        "_prelu_kernel",
        "rrelu",
        "tanh",
        "sigmoid",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "gelu",
        "silu",
        "mish",
        "selu",
        "celu",
        "softplus",
        "log_sigmoid",
        "threshold",
        "clamp",
        "clamp_min",
        "atan",
    )
)
_NORMS = frozenset(
    (
        "batch_norm",
        "native_batch_norm",
        "cudnn_batch_norm",
        "miopen_batch_norm",
        "_batch_norm_impl_index",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
    )
)
_TRANSPARENT = frozenset(
    ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout", "detach", "alias", "contiguous", "clone")
)


class _Pending:
    """A layer whose value is not settled, since a batch norm or an activation may still follow."""

    def __init__(self, position: int, kind: _Kind, value: torch.Tensor) -> None:
        self.position = position
        self.kind = kind
        self.value = value
        self.normed = False


class _Probe(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it untyped
    """Sees every operation; keeps the neurons' values of settled layers, and the maps of unsettled ones alone."""

    def __init__(self, images: int, unit: NeuronUnit) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it untyped
        self._images = images
        self._unit = unit
        self._pending: list[_Pending] = []
        self._values: dict[int, tuple[_Kind, torch.Tensor]] = {}
        self._count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spares the import of torch's compiler, 1.5 s at the first pass: nothing is compiled under a probe."""
        return False

    def __enter__(self) -> Self:
        # torch's own also notes in variables of the whole process that a mode is on; probes in several threads would leave them wrong.
        _push_mode(self)
        return self

    def __exit__(self, *_: object) -> None:
        _pop_mode()

    def __torch_dispatch__(  # the name and the arguments are torch's
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs the operation and follows the layers through it."""
        options = kwargs or {}
        name: str = func.overloadpacket.__name__
        # Settled before the operation runs: it may overwrite the value in place.
        followed = [layer for layer in self._consumed(args, options) if self._followed(layer, name, args)]
        result = func(*args, **options)
        value = result[0] if isinstance(result, tuple | list) and result else result
        stem = name.removesuffix("_")
        for layer in followed:
            layer.value = value
            layer.normed = layer.normed or stem in _NORMS
            if stem in _ACTIVATIONS:
                self._settle(layer)
        kind = _LAYERS.get(name)
        if kind is not None and not (name in _PRODUCTS and args[1].ndim != 2):
            self._pending.append(_Pending(self._count, kind, value))
            self._count += 1
        return result

    def finish(self) -> list[tuple[_Kind, torch.Tensor]]:
        """Settles what nothing followed and returns the layers' values in order of execution."""
        for layer in list(self._pending):
            self._settle(layer)
        return [self._values[position] for position in sorted(self._values)]

    def _consumed(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> list[_Pending]:
        if not self._pending:
            return []
        tensors = list(_tensors(args)) + list(_tensors(tuple(options.values())))
        return [layer for layer in self._pending if any(tensor is layer.value for tensor in tensors)]

    def _followed(self, layer: _Pending, name: str, args: tuple[Any, ...]) -> bool:
        """Tells whether the operation belongs to the layer that it consumes; settles the layer where it does not."""
        stem = name.removesuffix("_")
        first = bool(args) and args[0] is layer.value
        bias = stem == "add" and layer.kind is _Kind.DENSE and len(args) > 1 and isinstance(args[1], torch.Tensor) and args[1].ndim == 1
        if first and (stem in _ACTIVATIONS or stem in _TRANSPARENT or (stem in _NORMS and not layer.normed) or bias):
            return True
        self._settle(layer)
        return False

    def _settle(self, layer: _Pending) -> None:
        self._pending.remove(layer)
        value = layer.value.detach()
        if value.shape[0] != self._images:
            if value.shape[0] % self._images:
                return  # a product among the weights themselves: no image, no neuron
            value = value.reshape(self._images, -1)  # rows of one image lie together: unrolled steps are neurons of their own
        if layer.kind is _Kind.CONV and self._unit is NeuronUnit.FILTER and value.ndim > 2:
            neurons = value.mean(dim=tuple(range(2, value.ndim)), dtype=torch.float32)
        else:
            neurons = value.reshape(self._images, -1).to(torch.float32, copy=True)  # a later operation may write in place
        self._values[layer.position] = (layer.kind, neurons)


def _tensors(items: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, list | tuple):
            yield from _tensors(tuple(item))


def _joined(values: list[tuple[_Kind, torch.Tensor]], inputs: torch.Tensor) -> Activations:
    layers: list[Layer] = []
    numbers = dict.fromkeys(_Kind, 0)
    start = 0
    for kind, value in values:
        numbers[kind] += 1
        layers.append(Layer(f"{kind.value}{numbers[kind]}", start, start + value.shape[1]))
        start += value.shape[1]
    if not layers:
        raise BadSubjectError("the network has no convolution and no dense layer that could be observed; test it without coverage")
    return Activations(torch.cat([value for _, value in values], 1).to(inputs.device), tuple(layers))
