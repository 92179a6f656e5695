"""Activations of every layer in one pass, whatever the network's format.

The probe listens below the formats, where every tensor operation of a plain module, of TorchScript and of an exported
program passes by under the same name. So the same network gives the same layers and values however it was saved.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.base import Layer


class LayerKind(Enum):
    """What a layer is; the value is the stem of its name."""

    CONV = "conv"
    DENSE = "dense"
    LSTM = "lstm"
    GRU = "gru"
    RNN = "rnn"


LAYERS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "mkldnn_convolution"), LayerKind.CONV),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cudnn_convolution"), LayerKind.CONV),
    **dict.fromkeys(("linear", "addmm", "mm", "matmul", "_addmm_activation"), LayerKind.DENSE),
}
PRODUCTS = frozenset(("mm", "matmul"))
"""Layers where the right operand is a matrix; with more axes it is a product of activations (attention)."""
_ACTIVATIONS = """
    relu relu6 elu leaky_relu prelu _prelu_kernel rrelu tanh sigmoid hardtanh hardsigmoid hardswish gelu silu mish selu celu softplus
    log_sigmoid threshold clamp clamp_min atan
"""
ACTIVATIONS = frozenset(_ACTIVATIONS.split())
_NORMS = """
    batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm _batch_norm_impl_index _native_batch_norm_legit
    _native_batch_norm_legit_no_training
"""
NORMS = frozenset(_NORMS.split())
TRANSPARENT = frozenset(
    ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout", "detach", "alias", "contiguous", "clone")
)
RECURRENT = {"lstm": LayerKind.LSTM, "gru": LayerKind.GRU, "rnn_tanh": LayerKind.RNN, "rnn_relu": LayerKind.RNN}
"""A whole recurrence in one operation; its value is the hidden state after each step."""
CELLS = {"lstm_cell": LayerKind.LSTM, "gru_cell": LayerKind.GRU, "rnn_tanh_cell": LayerKind.RNN, "rnn_relu_cell": LayerKind.RNN}
"""One step of a recurrence; its value is the hidden state."""


T = TypeVar("T")
_LISTENING = threading.local()


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

    A recurrence is a layer for each of its steps (`lstm1.t000`, `lstm1.t001`, ...), valued by the hidden states; and where the
    inputs are windows, (N, T, ...), so is a layer that runs on each of the T frames. A network that writes its recurrence out
    step by step says so with `recurrence`; a cell that it calls by itself is a layer at every call.

    Reference: DeepTest, section 3.1: the neurons of unrolled layers are counted one by one.

    An activation that the file spells out in parts (PReLU or SiLU after `run_decompositions`) is not recognised: such a layer's
    value is the one before it.

    Deviates: layers in DeepTest's code are Keras layers, so dropout and the input count there too; here they do not.
    """
    probe = _Probe(len(inputs), inputs.shape[1] if inputs.ndim == 5 else 0, unit)
    with torch.inference_mode():
        with probe:
            answer = network(inputs)
        values = probe.finish()
    return answer, joined_activations(values, inputs)


def recurrence(run: Callable[[], torch.Tensor], kind: LayerKind = LayerKind.LSTM) -> torch.Tensor:
    """Runs a recurrence that is written out step by step; a probe that listens sees its hidden states, not what is within.

    run: returns the hidden states, (N, T, neurons).
    """
    probe: _Probe | None = getattr(_LISTENING, "probe", None)
    return run() if probe is None else probe.unrolled(run, kind)


class _Pending:
    """A layer whose value is not settled, since a batch norm or an activation may still follow."""

    def __init__(self, position: int, kind: LayerKind, value: torch.Tensor) -> None:
        self.position = position
        self.kind = kind
        self.value = value
        self.normed = False


class _Probe(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it untyped
    """Sees every operation; keeps the neurons' values of settled layers, and the maps of unsettled ones alone."""

    def __init__(self, images: int, steps: int, unit: NeuronUnit) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it untyped
        self._images = images
        self._steps = steps
        self._unit = unit
        self._deaf = False
        self._pending: list[_Pending] = []
        self._values: dict[int, tuple[LayerKind, torch.Tensor]] = {}
        self._count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spares the import of torch's compiler, 1.5 s at the first pass: nothing is compiled under a probe."""
        return False

    def __enter__(self) -> Self:
        # torch's own also notes in variables of the whole process that a mode is on; probes in several threads would leave them wrong.
        _push_mode(self)
        _LISTENING.probe = self
        return self

    def __exit__(self, *_: object) -> None:
        _LISTENING.probe = None
        _pop_mode()

    def __torch_dispatch__(  # the name and the arguments are torch's
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs the operation and follows the layers through it."""
        options = kwargs or {}
        if self._deaf:
            return func(*args, **options)
        name: str = func.overloadpacket.__name__
        # Settled before the operation runs: it may overwrite the value in place.
        followed = [layer for layer in self._consumed(args, options) if self._followed(layer, name, args)]
        if name in RECURRENT and isinstance(args[3], bool):  # of packed sequences nothing is known of the steps
            return self._recurred(func, RECURRENT[name], args)
        result = func(*args, **options)
        value = result[0] if isinstance(result, tuple | list) and result else result
        if name in CELLS:
            self._add(CELLS[name], value)
        stem = name.removesuffix("_")
        for layer in followed:
            layer.value = value
            layer.normed = layer.normed or stem in NORMS
            if stem in ACTIVATIONS:
                self._settle(layer)
        kind = LAYERS.get(name)
        if kind is not None and not (name in PRODUCTS and args[1].ndim != 2):
            self._pending.append(_Pending(self._count, kind, value))
            self._count += 1
        return result

    def finish(self) -> list[tuple[LayerKind, torch.Tensor]]:
        """Settles what nothing followed and returns the layers' values in order of execution, (N, neurons) or (N, T, neurons)."""
        for layer in list(self._pending):
            self._settle(layer)
        return [self._values[position] for position in sorted(self._values)]

    def unrolled(self, run: Callable[[], torch.Tensor], kind: LayerKind) -> torch.Tensor:
        """Runs a recurrence without listening, and adds its states as a layer."""
        for layer in list(self._pending):
            self._settle(layer)
        self._deaf = True
        try:
            states = run()
        finally:
            self._deaf = False
        self._add(kind, states)
        return states

    def _recurred(self, func: Any, kind: LayerKind, args: tuple[Any, ...]) -> Any:
        """Runs a stack of recurrences one by one, since the operation itself shows the states of the last alone."""
        values, state, weights, biases, depth, dropout, training, both_ways, batch_first = args
        each, rows = len(weights) // depth, 2 if both_ways else 1
        ends: list[tuple[torch.Tensor, ...]] = []
        for number in range(depth):
            own = slice(number * rows, (number + 1) * rows)
            first = [part[own] for part in state] if isinstance(state, list | tuple) else state[own]
            inner = weights[number * each : (number + 1) * each]
            if values.shape[-1] != inner[0].shape[-1]:  # torch itself would read past the end of the weights
                raise RuntimeError(f"a recurrent layer takes {inner[0].shape[-1]} numbers a step; got {values.shape[-1]}")
            values, *end = func(values, first, inner, biases, 1, dropout, training, both_ways, batch_first)
            ends.append(tuple(end))
            self._add(kind, values if batch_first else values.transpose(0, 1))
        return values, *(torch.cat(parts) for parts in zip(*ends, strict=True))

    def _add(self, kind: LayerKind, states: torch.Tensor) -> None:
        """Adds a layer whose value is settled, (N, neurons) or (N, T, neurons)."""
        if states.shape[0] == self._images:
            self._values[self._count] = (kind, states.detach().to(torch.float32, copy=True))
        self._count += 1

    def _consumed(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> list[_Pending]:
        if not self._pending:
            return []
        tensors = list(_tensors(args)) + list(_tensors(tuple(options.values())))
        return [layer for layer in self._pending if any(tensor is layer.value for tensor in tensors)]

    def _followed(self, layer: _Pending, name: str, args: tuple[Any, ...]) -> bool:
        """Tells whether the operation belongs to the layer that it consumes; settles the layer where it does not."""
        stem = name.removesuffix("_")
        first = bool(args) and args[0] is layer.value
        bias = stem == "add" and layer.kind is LayerKind.DENSE and len(args) > 1 and isinstance(args[1], torch.Tensor) and args[1].ndim == 1
        if first and (stem in ACTIVATIONS or stem in TRANSPARENT or (stem in NORMS and not layer.normed) or bias):
            return True
        self._settle(layer)
        return False

    def _settle(self, layer: _Pending) -> None:
        self._pending.remove(layer)
        value = layer.value.detach()
        rows = value.shape[0]
        if rows % self._images:
            return  # a product among the weights themselves: no image, no neuron
        steps = self._steps if self._steps and (rows == self._images * self._steps or value.shape[1:-1] == (self._steps,)) else 1
        if layer.kind is LayerKind.CONV and self._unit is NeuronUnit.FILTER and value.ndim > 2:
            value = value.mean(dim=tuple(range(2, value.ndim)), dtype=torch.float32)
        # Rows of one image lie together: unrolled steps are neurons of their own. A later operation may write in place, so copy.
        shape = (self._images, steps, -1) if steps > 1 else (self._images, -1)
        self._values[layer.position] = (layer.kind, value.reshape(shape).to(torch.float32, copy=True))


def _tensors(items: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, list | tuple):
            yield from _tensors(tuple(item))


def joined_activations(values: list[tuple[LayerKind, torch.Tensor]], inputs: torch.Tensor) -> Activations:
    """Puts the values of layers side by side and names them; (N, neurons) each, (N, steps, neurons) where one runs once a step."""
    layers: list[Layer] = []
    numbers = dict.fromkeys(LayerKind, 0)
    start = 0
    for kind, value in values:
        numbers[kind] += 1
        name, width = f"{kind.value}{numbers[kind]}", value.shape[-1]
        names = [name] if value.ndim == 2 else [f"{name}.t{step:03d}" for step in range(value.shape[1])]
        for each in names:
            layers.append(Layer(each, start, start + width))
            start += width
    if not layers:
        raise BadSubjectError("the network has no convolution and no dense layer that could be observed; test it without coverage")
    return Activations(torch.cat([value.flatten(1) for _, value in values], 1).to(inputs.device), tuple(layers))
