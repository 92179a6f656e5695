"""Layers that move, cut, pad or repeat numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import torch
from torch import nn
from torch.nn import functional

from skidpad.subjects.keras.building import Call, layer
from skidpad.subjects.keras.layers.convolutions import flat_borders, maps_of
from skidpad.subjects.keras.plan import Rearranged, Reshaped, Value


class _Framed(nn.Module):
    """Zeros around the spatial axes; cuts where they are negative."""

    def __init__(self, borders: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self._pad = flat_borders(borders)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the framed maps."""
        return functional.pad(value, self._pad)


class _Repeated(nn.Module):
    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the vector several times along a new axis."""
        return value[:, None].expand(-1, self._times, -1)


def _build_framed(call: Call, dims: int, sign: int) -> Value:
    maps = maps_of(call, dims)
    borders = call.settings.borders(dims, "padding" if sign > 0 else "cropping")
    spatial = tuple(length + sign * sum(border) for length, border in zip(maps.spatial, borders, strict=True))
    module = _Framed([(sign * before, sign * after) for before, after in borders])
    return call.add(module, maps.value, shape=maps.shape(maps.channels, spatial))


for _dims in (1, 2, 3):
    layer(f"ZeroPadding{_dims}D")(partial(_build_framed, dims=_dims, sign=1))
    layer(f"Cropping{_dims}D")(partial(_build_framed, dims=_dims, sign=-1))


@layer("Flatten")
def _build_flatten(call: Call) -> Value:
    value = call.plan.arranged(call.value, moved=False)
    shape = value.shape
    if call.settings.channels_first and len(shape) > 1:  # Keras then counts the channels fastest all the same
        order = (0, *range(2, len(shape) + 1), 1)
        value = call.plan.add(f"{call.path}/ordered", Rearranged(order), (value,), replace(value, shape=(*shape[1:], shape[0])))
    return call.add(Reshaped((prod(shape),)), value, shape=(prod(shape),))


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
    return call.add(Reshaped(target), value, shape=target)


@layer("Permute")
def _build_permute(call: Call) -> Value:
    value = call.plan.arranged(call.value, moved=False)
    order = call.settings.wholes("dims")
    if sorted(order) != list(range(1, len(value.shape) + 1)):
        raise call.settings.bad("dims", f"the axes 1 to {len(value.shape)} in some order", order)
    return call.add(Rearranged((0, *order)), value, shape=[value.shape[axis - 1] for axis in order])


@layer("RepeatVector")
def _build_repeat(call: Call) -> Value:
    value, times = call.ranked(1), call.settings.positive("n")
    return call.add(_Repeated(times), value, shape=(times, *value.shape))
