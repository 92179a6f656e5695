"""Layers that bring several inputs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.keras.building import Call, layer
from skidpad.subjects.keras.plan import Reshaped, Value

_TWO_AND_TWO: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "mul": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "sub": torch.sub,
    "ave": torch.add,
}
_CLASSES = {"Add": "sum", "Subtract": "sub", "Multiply": "mul", "Average": "ave", "Maximum": "max", "Minimum": "min"}


class _Merged(nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self._mode = mode

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """Returns the inputs merged number by number."""
        merged = reduce(_TWO_AND_TWO[self._mode], values)
        return merged / len(values) if self._mode == "ave" else merged


class _Joined(nn.Module):
    def __init__(self, axis: int) -> None:
        super().__init__()
        self._axis = axis

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """Returns the inputs one after another."""
        return torch.cat(values, self._axis)


def _alike(call: Call) -> list[Value]:
    """Brings all inputs into one order of axes; the one of maps where any input is one."""
    moved = any(value.moved for value in call.inputs)
    return [call.plan.arranged(value, moved=moved) for value in call.inputs]


def _numberwise(call: Call, mode: str) -> Value:
    if len(call.inputs) < 2 or (mode == "sub" and len(call.inputs) != 2):
        raise BadSubjectError(f"layer {call.name!r} ({call.settings.class_name}) merges several inputs; got {len(call.inputs)}")
    rank = max(len(value.shape) for value in call.inputs)
    if any(len(value.shape) != rank for value in call.inputs):  # Keras puts the missing axes first
        call = replace(call, inputs=tuple(_widened(call, value, rank) for value in call.inputs))
    values = _alike(call)
    try:
        shape = tuple(np.broadcast_shapes(*(value.shape for value in values)))
    except ValueError as error:
        shapes = ", ".join(str(value.shape) for value in values)
        raise BadSubjectError(f"layer {call.name!r} ({call.settings.class_name}) cannot merge inputs of shapes {shapes}") from error
    return call.add(_Merged(mode), *values, shape=shape)


def _widened(call: Call, value: Value, rank: int) -> Value:
    value = call.plan.arranged(value, moved=False)
    shape = (*(1,) * (rank - len(value.shape)), *value.shape)
    return call.plan.add("widened", Reshaped(shape), (value,), replace(value, shape=shape))


def _concatenated(call: Call, axis: int) -> Value:
    values = _alike(call)
    first = values[0].shape
    place = values[0].tensor_axis(axis, call.name)
    keras_axis = (axis + len(first) + 1 if axis < 0 else axis) - 1
    rests = {value.shape[:keras_axis] + value.shape[keras_axis + 1 :] for value in values}
    if len(rests) != 1 or any(len(value.shape) != len(first) for value in values):
        shapes = ", ".join(str(value.shape) for value in values)
        raise BadSubjectError(f"layer {call.name!r} cannot join inputs of shapes {shapes} along axis {axis}")
    joined = sum(value.shape[keras_axis] for value in values)
    return call.add(_Joined(place), *values, shape=(*first[:keras_axis], joined, *first[keras_axis + 1 :]))


@layer(*_CLASSES)
def _build_numberwise(call: Call) -> Value:
    return _numberwise(call, _CLASSES[call.settings.class_name])


@layer("Concatenate")
def _build_concatenate(call: Call) -> Value:
    return _concatenated(call, call.settings.whole("axis", default=-1))


@layer("Merge")
def _build_merge(call: Call) -> Value:
    """Keras 1: one layer for all ways of merging."""
    mode = call.settings.choice(("sum", "mul", "max", "min", "ave", "concat"), "mode", default="sum")
    return _concatenated(call, call.settings.whole("concat_axis", default=-1)) if mode == "concat" else _numberwise(call, mode)


LAYER_OF_MODE: Mapping[str, Callable[[Call], Value]] = {
    "concat": partial(_concatenated, axis=-1),
    **{mode: partial(_numberwise, mode=mode) for mode in ("sum", "mul", "ave")},
}
"""How two directions of time are brought together."""
