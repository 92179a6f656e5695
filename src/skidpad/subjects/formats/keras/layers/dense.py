"""Dense layers, dropout, merging of several inputs, and changes of shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, reduce
from math import prod

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.keras.building import Call, layer, pointwise
from skidpad.subjects.formats.keras.layers.convolutions import activated, flat_borders, maps_of, with_bias
from skidpad.subjects.formats.keras.plan import Applied, Value, rearranged, reshaped


@layer("Dense")
def _build_dense(call: Call) -> Value:
    value = call.plan.arranged(call.value, moved=False)
    units, inputs = call.settings.positive("units", "output_dim"), value.shape[-1]
    (kernel,), bias = with_bias(call, (inputs, units), (units,))
    return activated(call, call.add(Applied(functional.linear, kernel.T, bias), value, shape=(*value.shape[:-1], units)))


def _rate(call: Call) -> float:
    return min(max(call.settings.number("rate", "p", default=0.5), 0.0), 1.0)


@pointwise("Dropout")
def _build_dropout(call: Call) -> Value:
    return call.add(nn.Dropout(_rate(call)), call.value)


@layer("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D")
def _build_spatial_dropout(call: Call) -> Value:
    dims = int(call.settings.class_name[-2])
    value = call.ranked(dims + 1, moved=not call.settings.channels_first)
    return call.add({1: nn.Dropout1d, 2: nn.Dropout2d, 3: nn.Dropout3d}[dims](_rate(call)), value)


@pointwise(
    *("GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization", "Identity", "RandomFlip", "RandomRotation"),
    *("RandomZoom", "RandomContrast", "RandomBrightness", "RandomTranslation"),
)
def _build_nothing(call: Call) -> Value:
    """These change values while training alone; here they never do."""
    return call.value


_TWO_AND_TWO: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "mul": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "sub": torch.sub,
    "ave": torch.add,
}
_CLASSES = {"Add": "sum", "Subtract": "sub", "Multiply": "mul", "Average": "ave", "Maximum": "max", "Minimum": "min"}


def _merged(*values: torch.Tensor, mode: str) -> torch.Tensor:
    merged = reduce(_TWO_AND_TWO[mode], values)
    return merged / len(values) if mode == "ave" else merged


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
    return call.add(Applied(partial(_merged, mode=mode)), *values, shape=shape)


def _widened(call: Call, value: Value, rank: int) -> Value:
    value = call.plan.arranged(value, moved=False)
    shape = (*(1,) * (rank - len(value.shape)), *value.shape)
    return call.plan.add("widened", reshaped(shape), (value,), replace(value, shape=shape))


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
    return call.add(Applied(lambda *each: torch.cat(each, place)), *values, shape=(*first[:keras_axis], joined, *first[keras_axis + 1 :]))


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


def _build_framed(call: Call, dims: int, sign: int) -> Value:
    maps = maps_of(call, dims)
    borders = call.settings.borders(dims, "padding" if sign > 0 else "cropping")
    spatial = tuple(length + sign * sum(border) for length, border in zip(maps.spatial, borders, strict=True))
    pad = flat_borders([(sign * before, sign * after) for before, after in borders])  # a negative border cuts
    return call.add(Applied(lambda value: functional.pad(value, pad)), maps.value, shape=maps.shape(maps.channels, spatial))


for _dims in (1, 2, 3):
    layer(f"ZeroPadding{_dims}D")(partial(_build_framed, dims=_dims, sign=1))
    layer(f"Cropping{_dims}D")(partial(_build_framed, dims=_dims, sign=-1))


@layer("Flatten")
def _build_flatten(call: Call) -> Value:
    value = call.plan.arranged(call.value, moved=False)
    shape = value.shape
    if call.settings.channels_first and len(shape) > 1:  # Keras then counts the channels fastest all the same
        order = (0, *range(2, len(shape) + 1), 1)
        value = call.plan.add(f"{call.path}/ordered", rearranged(order), (value,), replace(value, shape=(*shape[1:], shape[0])))
    return call.add(reshaped((prod(shape),)), value, shape=(prod(shape),))


@layer("Reshape")
def _build_reshape(call: Call) -> Value:
    value = call.plan.arranged(call.value, moved=False)
    target = list(call.settings.wholes("target_shape", "dims"))
    total = prod(value.shape)
    known = prod(size for size in target if size != -1)
    if target.count(-1) == 1 and known > 0 and total % known == 0:
        target[target.index(-1)] = total // known
    if prod(target) != total or min(target, default=0) < 1:
        raise call.settings.bad("target_shape", f"a shape of {total} numbers", target)
    return call.add(reshaped(target), value, shape=target)


@layer("Permute")
def _build_permute(call: Call) -> Value:
    value = call.plan.arranged(call.value, moved=False)
    order = call.settings.wholes("dims")
    if sorted(order) != list(range(1, len(value.shape) + 1)):
        raise call.settings.bad("dims", f"the axes 1 to {len(value.shape)} in some order", order)
    return call.add(rearranged((0, *order)), value, shape=[value.shape[axis - 1] for axis in order])


@layer("RepeatVector")
def _build_repeat(call: Call) -> Value:
    value, times = call.ranked(1), call.settings.positive("n")
    return call.add(Applied(lambda each: each[:, None].expand(-1, times, -1)), value, shape=(times, *value.shape))
