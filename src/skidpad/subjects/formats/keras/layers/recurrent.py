"""LSTM, GRU and the simple recurrent layer, with Keras's gates.

Where the activations are the usual ones, torch's own layers run; Keras before 2.3 has hard_sigmoid for the gates, and its
GRU resets the state before the product, which torch has not: those run moment by moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.keras.building import Call, layer, parameter
from skidpad.subjects.formats.keras.layers.activations import activation
from skidpad.subjects.formats.keras.layers.dense import LAYER_OF_MODE
from skidpad.subjects.formats.keras.plan import Applied, Value
from skidpad.subjects.formats.keras.stored import KerasSettings
from skidpad.subjects.probe import recurrence

_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
_TORCH = {"LSTM": nn.LSTM, "GRU": nn.GRU, "SimpleRNN": nn.RNN}


@dataclass(frozen=True, slots=True)
class Weights:
    """kernel (inputs, gates x units), recurrent (units, gates x units), and the biases of the two products."""

    kernel: torch.Tensor
    recurrent: torch.Tensor
    bias: torch.Tensor
    recurrent_bias: torch.Tensor

    def ordered(self, *gates: int) -> Weights:
        """Returns the gates in another order."""
        parts = ((tensor.chunk(len(gates), -1)) for tensor in (self.kernel, self.recurrent, self.bias, self.recurrent_bias))
        return Weights(*(torch.cat([part[gate] for gate in gates], -1) for part in parts))


class _Sequence(nn.Module):
    """One of torch's recurrent layers over (N, times, inputs)."""

    def __init__(self, kind: str, weights: Weights, *, backwards: bool, whole: bool) -> None:
        super().__init__()
        inputs, units = weights.kernel.shape[0], weights.recurrent.shape[0]
        self.recurrent: nn.RNNBase = _TORCH[kind](inputs, units, batch_first=True, device="meta")  # its weights are set below
        weights = weights.ordered(1, 0, 2) if kind == "GRU" else weights  # Keras: update, reset, new; torch: reset, update, new
        self.recurrent.weight_ih_l0 = parameter(weights.kernel.T)
        self.recurrent.weight_hh_l0 = parameter(weights.recurrent.T)
        self.recurrent.bias_ih_l0 = parameter(weights.bias)
        self.recurrent.bias_hh_l0 = parameter(weights.recurrent_bias)
        self._backwards, self._whole = backwards, whole

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the state after every moment, or after the last."""
        states: torch.Tensor = self.recurrent(value.flip(1) if self._backwards else value)[0]
        return states if self._whole else states[:, -1]


class _Momentwise(nn.Module):
    """The same moment by moment, with any activation."""

    def __init__(self, kind: str, weights: Weights, *, backwards: bool, whole: bool, reset_after: bool) -> None:
        super().__init__()
        self.weight = parameter(weights.kernel.T)
        self.recurrent = parameter(weights.recurrent.T)
        self.bias = parameter(weights.bias)
        self.recurrent_bias = parameter(weights.recurrent_bias)
        self.gate: nn.Module = nn.Identity()
        self.squash: nn.Module = nn.Identity()
        self._kind, self._backwards, self._whole, self._reset_after = kind, backwards, whole, reset_after

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the state after every moment, or after the last."""
        states = recurrence(partial(self._states, value))
        return states if self._whole else states[:, -1]

    def _states(self, value: torch.Tensor) -> torch.Tensor:
        state = value.new_zeros(value.shape[0], self.recurrent.shape[1])
        memory = state
        states: list[torch.Tensor] = []
        inputs = functional.linear(value, self.weight, self.bias).unbind(1)
        for moment in reversed(inputs) if self._backwards else inputs:
            if self._kind == "GRU":
                state = self._gru(moment, state)
            else:
                summed = moment + functional.linear(state, self.recurrent, self.recurrent_bias)
                if self._kind == "LSTM":
                    inwards, forget, new, outwards = summed.chunk(4, 1)
                    memory = self.gate(forget) * memory + self.gate(inwards) * self.squash(new)
                    state = self.gate(outwards) * self.squash(memory)
                else:
                    state = self.squash(summed)
            states.append(state)
        return torch.stack(states, 1)

    def _gru(self, moment: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        units = state.shape[1]
        if self._reset_after:
            update, reset, new = functional.linear(state, self.recurrent, self.recurrent_bias).chunk(3, 1)
            update, reset = self.gate(moment[:, :units] + update), self.gate(moment[:, units : 2 * units] + reset)
            new = self.squash(moment[:, 2 * units :] + reset * new)
        else:
            gates = self.gate(moment[:, : 2 * units] + functional.linear(state, self.recurrent[: 2 * units]))
            update, reset = gates.chunk(2, 1)
            new = self.squash(moment[:, 2 * units :] + functional.linear(reset * state, self.recurrent[2 * units :]))
        mixed: torch.Tensor = update * state + (1.0 - update) * new
        return mixed


@layer(*_GATES)
def _build_recurrent(call: Call) -> Value:
    return recurrent(call, call.settings.class_name, list(range(len(call.weights.nodes()))))


def recurrent(call: Call, kind: str, which: list[int]) -> Value:
    """Builds a recurrent layer from some of the arrays of a call's weights."""
    settings, value = call.settings, call.ranked(2)
    if settings.flag("stateful", default=False) or settings.flag("return_state", default=False):
        raise BadSubjectError(f"layer {call.name!r} keeps or returns its state between calls; save it with stateful and return_state off")
    units, whole = settings.positive("units", "output_dim"), settings.flag("return_sequences", default=False)
    backwards, reset_after = settings.flag("go_backwards", default=False), settings.flag("reset_after", default=False)
    weights = _weights(call, kind, units, value.shape[-1], which, reset_after=reset_after and kind == "GRU")
    old = "hard_sigmoid" if call.origin.version < 3 else "sigmoid"
    squash = activation(call, value, "activation", default="tanh") or nn.Identity()
    gate = activation(call, value, "recurrent_activation", "inner_activation", default=old) or nn.Identity()
    usual = isinstance(squash, nn.Tanh) and (isinstance(gate, nn.Sigmoid) or kind == "SimpleRNN") and (kind != "GRU" or reset_after)
    if usual:
        module: nn.Module = _Sequence(kind, weights, backwards=backwards, whole=whole)
    else:
        momentwise = _Momentwise(kind, weights, backwards=backwards, whole=whole, reset_after=reset_after)
        momentwise.gate, momentwise.squash, module = gate, squash, momentwise
    return call.add(module, value, shape=(value.shape[0], units) if whole else (units,))


def _weights(call: Call, kind: str, units: int, inputs: int, which: list[int], *, reset_after: bool) -> Weights:
    gates = _GATES[kind]
    use_bias = call.settings.flag("use_bias", default=True)
    single: list[tuple[int, ...]] = [(inputs, units), (units, units), (units,)]
    joined: list[tuple[int, ...]] = [(inputs, gates * units), (units, gates * units)]
    bias: list[tuple[int, ...]] = [(2, gates * units) if reset_after else (gates * units,)] if use_bias else []
    if gates > 1 and len(which) == 3 * gates:  # Keras 1: an array for each gate; its LSTM has input, new, forget, output
        found = _some(call, which, single * gates)
        order = (0, 2, 1, 3) if kind == "LSTM" else range(gates)
        kernel, inner, one = (torch.cat([found[3 * gate + part] for gate in order], -1) for part in range(3))
        return Weights(kernel, inner, one, torch.zeros_like(one))
    found = _some(call, which, joined + bias)
    none = torch.zeros(gates * units)
    if not use_bias:
        return Weights(found[0], found[1], none, none.clone())
    if reset_after:
        return Weights(found[0], found[1], found[2][0], found[2][1])
    return Weights(found[0], found[1], found[2], none)


def _some(call: Call, which: list[int], shapes: list[tuple[int, ...]]) -> list[torch.Tensor]:
    """Reads some of a call's arrays; the others are those of the other direction and have the same shapes."""
    stored = call.stored_shapes()
    expected = list(stored)
    for place, shape in zip(which, shapes, strict=False):
        expected[place] = shape
    if len(which) != len(shapes):
        expected = shapes
    found = call.tensors(*expected)
    return [found[place] for place in which]


@layer("Bidirectional")
def _build_bidirectional(call: Call) -> Value:
    """Two recurrent layers; the second reads time backwards, and its answers are put back in order."""
    settings = call.settings
    inner = settings.inner("layer")
    if inner.class_name not in {"LSTM", "GRU", "SimpleRNN"}:
        raise BadSubjectError(f"layer {call.name!r} reads {inner.class_name!r} in both directions, which is not rebuilt")
    backward = settings.inner("backward_layer") if settings.find("backward_layer") is not None else inner
    count = len(call.weights.nodes())
    forwards = not inner.flag("go_backwards", default=False)
    values: list[Value] = []
    for number, direction in enumerate((inner, backward)):
        turned = {**direction.config, "go_backwards": forwards is (number == 1)}
        one = replace(call, settings=KerasSettings(direction.name, direction.class_name, turned), path=f"{call.path}/{number}")
        values.append(recurrent(one, inner.class_name, list(range(number * count // 2, (number + 1) * count // 2))))
    if inner.flag("return_sequences", default=False):
        values[1] = call.plan.add(f"{call.path}/ordered", Applied(lambda value: value.flip(1)), (values[1],), values[1])
    mode = settings.choice(("concat", "sum", "mul", "ave"), "merge_mode", default="concat")
    return LAYER_OF_MODE[mode](replace(call, inputs=tuple(values), path=f"{call.path}/merged"))
