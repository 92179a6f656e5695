"""Pooling over windows and over whole maps, and enlarging by repetition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from skidpad.subjects.keras.building import Call, layer
from skidpad.subjects.keras.layers.convolutions import Window, flat_borders, maps_of, window_of
from skidpad.subjects.keras.plan import Value

_MAX: dict[int, Callable[..., torch.Tensor]] = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_MEAN: dict[int, Callable[..., torch.Tensor]] = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


class _Pool(nn.Module):
    """The maximum or the mean of every window; what padding adds is never the maximum and does not count for the mean."""

    def __init__(self, window: Window, spatial: Sequence[int], *, largest: bool) -> None:
        super().__init__()
        borders = window.borders(spatial)
        even = all(before == after for before, after in borders)
        self._pad = () if even else flat_borders(borders)
        self._fill = float("-inf") if largest else 0.0
        pool = (_MAX if largest else _MEAN)[len(borders)]
        options = {} if largest else {"count_include_pad": False}
        padding = tuple(before for before, _ in borders) if even else 0
        self._pool = partial(pool, kernel_size=window.size, stride=window.strides, padding=padding, **options)
        self.share: torch.Tensor | None
        counted = None if even or largest else self._pool(functional.pad(torch.ones(1, 1, *spatial), self._pad))
        self.register_buffer("share", counted, persistent=False)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the smaller maps."""
        if self._pad:
            value = functional.pad(value, self._pad, value=self._fill)
        pooled = self._pool(value)
        return pooled if self.share is None else pooled / self.share


class _WholeMap(nn.Module):
    """The maximum or the mean of every map."""

    def __init__(self, *, largest: bool, keep: bool) -> None:
        super().__init__()
        self._largest, self._keep = largest, keep

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns one number for each map."""
        axes = tuple(range(2, value.ndim))
        return torch.amax(value, axes, self._keep) if self._largest else torch.mean(value, axes, self._keep)


class _Enlarged(nn.Module):
    def __init__(self, spatial: Sequence[int], mode: str) -> None:
        super().__init__()
        self._spatial, self._mode = tuple(spatial), mode

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the larger maps."""
        return functional.interpolate(value, self._spatial, mode=self._mode)


def _build_pool(call: Call, dims: int, *, largest: bool) -> Value:
    maps, settings = maps_of(call, dims), call.settings
    size = settings.sizes(dims, "pool_size", "pool_length", default=2)
    strides = settings.sizes(dims, "strides", "stride") if settings.find("strides", "stride") is not None else size
    window = window_of(call, dims, size, strides, (1,) * dims)
    shape = maps.shape(maps.channels, window.outputs(maps.spatial))
    return call.add(_Pool(window, maps.spatial, largest=largest), maps.value, shape=shape)


def _build_whole_map(call: Call, dims: int, *, largest: bool) -> Value:
    maps, keep = maps_of(call, dims), call.settings.flag("keepdims", default=False)
    made = call.add(
        _WholeMap(largest=largest, keep=keep), maps.value, shape=maps.shape(maps.channels, (1,) * dims) if keep else (maps.channels,)
    )
    return made if keep else Value(made.slot, made.shape, times=made.times)


def _build_enlarged(call: Call, dims: int) -> Value:
    maps, settings = maps_of(call, dims), call.settings
    factors = settings.sizes(dims, "size", "length", default=2)
    mode = settings.choice(("nearest", "bilinear"), "interpolation", default="nearest")
    spatial = tuple(length * factor for length, factor in zip(maps.spatial, factors, strict=True))
    return call.add(_Enlarged(spatial, mode), maps.value, shape=maps.shape(maps.channels, spatial))


for _dims in (1, 2, 3):
    for _name, _largest in (("Max", True), ("Average", False)):
        layer(f"{_name}Pooling{_dims}D")(partial(_build_pool, dims=_dims, largest=_largest))
        layer(f"Global{_name}Pooling{_dims}D")(partial(_build_whole_map, dims=_dims, largest=_largest))
    layer(f"UpSampling{_dims}D")(partial(_build_enlarged, dims=_dims))
