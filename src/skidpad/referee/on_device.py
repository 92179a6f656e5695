"""The referee's judgement where the pictures are: many at a time, of which only those leave a device that may have a border.

A campaign has copies of what breaks its relation, since it hashes them; with these at hand no picture leaves the device for the referee.

The formulas are those of `verdict.py`, `network.py` and `edges.py`, in torch instead of NumPy and OpenCV. Sums are added in another
order, so that a word may differ where a number lies next to its threshold; `docs/referee.md` says how often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from threading import Lock
from typing import Self

import cv2
import numpy as np
import torch
from torch.nn import functional

from skidpad.core.images import FloatArray, Frames, IntArray, NumpyFrames, as_numpy, split_views
from skidpad.referee.borders import has_border_quickly, may_have_border, planes_of
from skidpad.referee.edges import EDGES_PX, Edges, edges_compared
from skidpad.referee.network import BRIGHTER, HEIGHT_PX, STEADY_OVERLAP, WIDTH_PX, Class, classes_of, road_net
from skidpad.referee.verdict import (
    BAND_ROWS,
    BLANK_SIZE_PX,
    LEAST_ROAD,
    WHITE,
    Look,
    Reason,
    Verdicts,
    is_clipped_more,
    moved,
    of_all,
    reason_of,
)

Pairs = Callable[[Sequence[int]], Sequence[tuple[NumpyFrames, NumpyFrames]]]
"""Returns originals with what they were changed to, by the numbers of the pictures that the referee is asked about."""

_BATCH, _BATCHES = 64, 4
"""The network looks at a multiple of so many pictures together on a device, at most so many times as many; what is missing is filled up.
cuDNN chooses its kernels anew for each size."""
_TOGETHER_PX = 256 * 320 * 240
"""Of pictures that are looked at together: some 60 bytes each while that lasts."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is seen of N pictures.

    drivable, own_cars: (N, HEIGHT_PX, WIDTH_PX) bool. smooth: whole levels, (N, 3, HEIGHT_PX, WIDTH_PX) float32.
    clipped: share of the lower half, (N,). variation: of the light, in grey levels, (N,).
    """

    drivable: torch.Tensor
    own_cars: torch.Tensor
    edges: Edges
    smooth: torch.Tensor
    clipped: torch.Tensor
    variation: torch.Tensor

    @classmethod
    def of(cls, frames: torch.Tensor, device: str, *, mirrored: bool = False) -> Self:
        """Looks at pictures, uint8 (N, height, width, 3); mirrored: for the edges of mirrored ones, too."""
        classes = _classes(frames, device)
        planes = planes_of(frames).float()
        edges = Edges.of(_resized(planes, EDGES_PX, EDGES_PX).mean(dim=1).round(), mirrored=mirrored)
        rows, columns = _blurring(str(frames.device))
        smooth = (rows @ _resized(planes, HEIGHT_PX, WIDTH_PX) @ columns).round()
        light = _resized(planes, BLANK_SIZE_PX[1], BLANK_SIZE_PX[0]).mean(dim=1).flatten(1)
        lower = planes[:, :, frames.shape[1] // 2 :]
        clipped = _share(((lower <= 1.0) | (lower >= 254.0)).all(dim=1))
        return cls(classes <= Class.MARKING, classes == Class.OWN_CAR, edges, smooth, clipped, light.std(dim=1, correction=0))


@dataclass(frozen=True, slots=True)
class _Ground:
    """What `_road_kept` asks of N originals. around: their roads with a rim, (N, HEIGHT_PX, WIDTH_PX).

    light: of that, less its mean in each band of rows, (N, bands, pixels); size: its length, (N, bands), and counts: whether the band has
    enough of it. green_on, green_off: how green the road is, and what is not around it; white: the share of the road, (N,) each.
    """

    around: torch.Tensor
    light: torch.Tensor
    size: torch.Tensor
    counts: torch.Tensor
    green_on: torch.Tensor
    green_off: torch.Tensor
    white: torch.Tensor

    @classmethod
    def of(cls, smooth: torch.Tensor, roads: torch.Tensor) -> Self:
        """Looks at smooth pictures (N, 3, HEIGHT_PX, WIDTH_PX) whose roads are known, (N, HEIGHT_PX, WIDTH_PX)."""
        around = functional.max_pool2d(roads.float()[:, None], 7, 1, 3)[:, 0] > 0
        light = _in_bands(smooth, around)
        counts = around.reshape(light.shape).sum(dim=2) >= 40
        return cls(around, light, light.square().sum(dim=2).sqrt(), counts, *_colours(smooth, roads, around))


@dataclass(frozen=True, slots=True)
class _Originals:
    """What is known of N originals, uint8 (N, height, width, 3), some 300 KB each.

    roads: the drivable area, as far as a moved camera shows it, (N, HEIGHT_PX, WIDTH_PX), and has_road: whether that is enough, (N,).
    is_steady: see STEADY_OVERLAP, (N,). shown: where a moved camera shows anything of them, (HEIGHT_PX, WIDTH_PX). The rest as in `_Seen`.
    """

    frames: torch.Tensor
    roads: torch.Tensor
    has_road: torch.Tensor
    own_cars: torch.Tensor
    edges: Edges
    clipped: torch.Tensor
    ground: _Ground
    is_steady: torch.Tensor
    shown: torch.Tensor

    @classmethod
    def of(cls, frames: torch.Tensor, device: str, pixel_map: FloatArray | None) -> Self:
        seen = _in_parts(frames, device)
        brighter = torch.from_numpy(BRIGHTER).to(device)
        lit = torch.cat([_classes(brighter[part.int()], device) <= Class.MARKING for part in _parts(frames, frames)])
        # an original without a road is not steady, for its overlap is NaN
        is_steady = _overlap(seen.drivable, lit) >= STEADY_OVERLAP
        shown = torch.ones((HEIGHT_PX, WIDTH_PX), dtype=torch.bool, device=device)
        if pixel_map is not None:
            roads, own = (np.asarray(area.cpu().numpy(), np.bool_) for area in (seen.drivable, seen.own_cars))
            frames, drivable, own_cars, shown = (
                torch.from_numpy(each).to(device) for each in moved(as_numpy(frames), roads, own, pixel_map)
            )
            seen = replace(_in_parts(frames, device), drivable=drivable, own_cars=own_cars)
        areas = seen.drivable & shown
        ground = _Ground.of(seen.smooth, areas)
        return cls(frames, areas, _share(areas) >= LEAST_ROAD, seen.own_cars, seen.edges, seen.clipped, ground, is_steady, shown)


class SeenOriginals:
    """Originals, and what the referee knows of them, which it looks at on a device when it is first asked; safe in threads."""

    def __init__(self, frames: Frames, device: str, pixel_map: FloatArray | None = None, views: int = 1) -> None:
        """Takes uint8 (N, height, width, 3), wherever they are; pixel_map and views as `judge` does."""
        self._frames = frames
        self._device = device
        self._pixel_map = pixel_map
        self._views = views
        self._lock = Lock()
        self._known: _Originals | None = None

    def judge(self, changed: Frames, places: IntArray | None = None, copies: Pairs | None = None) -> Verdicts:
        """Judges the changed pictures of all originals, uint8 (N, height, width, 3).

        places: of those asked about, all unless given. copies: of the asked pictures and their originals, where there are some already.
        """
        asked = np.arange(len(changed)) if places is None else places
        if not len(asked):
            return Verdicts((), np.zeros(0), np.zeros(0))
        if self._views > 1:
            changed = split_views(changed, self._views)
            asked = (asked[:, None] * self._views + np.arange(self._views)).ravel()
        with torch.inference_mode():
            known, there = self._looked(), _index(asked, self._device)
            frames = _on(changed[asked], self._device) if isinstance(changed, np.ndarray) else changed.to(self._device)[there]
            parts = zip(_parts(there, frames), _parts(frames, frames), strict=True)
            numbers = torch.cat([_compared(known, some, part, self._device) for some, part in parts], dim=1)
            own = copies if self._views == 1 and self._pixel_map is None else None
            found = _verdicts(numbers.cpu().numpy(), own or partial(_copied, known.frames, frames, there))
        return of_all(found, self._views) if self._views > 1 else found

    def look(self) -> None:
        """Looks at the originals now, if it has not yet, so that the first question does not have to wait for it."""
        with torch.inference_mode():
            self._looked()

    def _looked(self) -> _Originals:
        with self._lock:
            if self._known is None:
                frames = split_views(self._frames, self._views) if self._views > 1 else self._frames
                self._known = _Originals.of(_on(frames, self._device), self._device, self._pixel_map)
            return self._known


def _compared(known: _Originals, places: torch.Tensor, frames: torch.Tensor, device: str) -> torch.Tensor:
    """Returns what `_verdicts` reads of pictures and their originals at these places, (14, N) float64."""
    after = _Seen.of(frames, device)
    roads = known.roads[places]
    numbers = (
        known.has_road[places],
        may_have_border(known.frames[places], frames),
        known.clipped[places],
        after.clipped,
        after.variation,
        known.is_steady[places],
        _overlap(roads, after.drivable & known.shown),
        *edges_compared(known.edges.at(places), after.edges, known.own_cars[places]),
        *_road_kept(known.ground, places, after.smooth, roads),
    )
    return torch.stack([each.double() for each in numbers])


def _verdicts(numbers: FloatArray, pairs: Pairs) -> Verdicts:
    """Returns the words; only now, and only where there may be a border, pictures themselves are looked at."""
    has_road, may_be_cut, was_clipped, clipped, variation, is_steady, *look = numbers
    named = np.flatnonzero((has_road > 0) & (may_be_cut > 0)).tolist()
    is_cut = dict.fromkeys(range(len(has_road)), False)
    is_cut |= {place: has_border_quickly(*pair) for place, pair in zip(named, pairs(named), strict=True)}
    reasons = [
        reason_of(
            Look(is_steady[place] > 0, *values),
            variation[place],
            partial(is_cut.__getitem__, place),
            partial(is_clipped_more, clipped[place], partial(float, was_clipped[place])),
        )
        if has_road[place]
        else Reason.NO_ROAD
        for place, values in enumerate(zip(*(row.tolist() for row in look), strict=True))
    ]
    return Verdicts(tuple(reasons), np.where(has_road > 0, look[0], np.nan), look[1])


def _copied(
    originals: torch.Tensor, changed: torch.Tensor, places: torch.Tensor, asked: Sequence[int]
) -> Sequence[tuple[NumpyFrames, NumpyFrames]]:
    """Returns copies of originals and of what they were changed to."""
    if not asked:
        return []
    there = _index(np.array(asked), str(changed.device))
    return list(zip(*(_here(frames) for frames in (originals[places[there]], changed[there])), strict=True))


def _here(frames: torch.Tensor) -> NumpyFrames:
    """Brings frames to the CPU; from a GPU through pinned memory, which is many times as fast."""
    if not frames.is_cuda:
        return as_numpy(frames)
    return as_numpy(torch.empty(frames.shape, dtype=frames.dtype, pin_memory=True).copy_(frames))


def _on(frames: Frames, device: str) -> torch.Tensor:
    return (torch.from_numpy(np.ascontiguousarray(frames)) if isinstance(frames, np.ndarray) else frames).to(device)


@cache
def _one_thread() -> ThreadPoolExecutor:
    """The thread that begins all work of the network on a device: cuDNN chooses its kernels anew in each."""
    return ThreadPoolExecutor(1, "skidpad-referee")


def _classes(frames: torch.Tensor, device: str) -> torch.Tensor:
    """Returns what `classes_of` does, on a device in batches of one size."""
    if device == "cpu":
        return classes_of(road_net(device), frames)
    filled = torch.cat((frames, frames[-1:].expand(-len(frames) % _BATCH, -1, -1, -1)))
    parts = _one_thread().submit(lambda: [classes_of(road_net(device), part) for part in _split(filled, _BATCHES * _BATCH)]).result()
    return torch.cat(parts)[: len(frames)]


def _index(places: IntArray, device: str) -> torch.Tensor:
    """Returns places on a device, without waiting for it."""
    here = torch.from_numpy(places)
    return here.pin_memory().to(device, non_blocking=True) if device.startswith("cuda") else here.to(device)


def _parts(values: torch.Tensor, frames: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields what belongs to so many of the frames as are looked at together."""
    return _split(values, max(1, _TOGETHER_PX // (frames.shape[1] * frames.shape[2])))


def _split(values: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    return (values[first : first + size] for first in range(0, len(values), size))


def _in_parts(frames: torch.Tensor, device: str) -> _Seen:
    """Looks at originals, so many at a time as are looked at together."""
    parts = [_Seen.of(part, device, mirrored=True) for part in _parts(frames, frames)]
    edges = Edges.joined([part.edges for part in parts])
    rest = {name: torch.cat([getattr(part, name) for part in parts]) for name in _Seen.__slots__ if name != "edges"}
    return _Seen(edges=edges, **rest)


@lru_cache(maxsize=64)
def _resizing(size: tuple[int, int], wanted: tuple[int, int], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what OpenCV's INTER_AREA does to rows and columns, as matrices (wanted height, height) and (width, wanted width).

    It averages areas where neither side grows and interpolates else, which a side doubled without effect brings about here.
    """
    (height, width), (rows_px, columns_px) = size, wanted
    more = 1 if height >= rows_px and width >= columns_px else 2
    rows = cv2.resize(np.eye(height, dtype=np.float32), (more * height, rows_px), interpolation=cv2.INTER_AREA)[:, ::more]
    columns = cv2.resize(np.eye(width, dtype=np.float32), (columns_px, more * width), interpolation=cv2.INTER_AREA)[::more]
    return torch.from_numpy(rows.copy()).to(device), torch.from_numpy(columns.copy()).to(device)


def _resized(planes: torch.Tensor, height_px: int, width_px: int) -> torch.Tensor:
    """Returns what OpenCV makes of bytes by INTER_AREA, (N, 3, height_px, width_px), of the same as floats."""
    rows, columns = _resizing((planes.shape[2], planes.shape[3]), (height_px, width_px), str(planes.device))
    return (rows @ (planes @ columns)).round().clamp(0.0, 255.0)


@cache
def _blurring(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what a Gaussian of one pixel, mirrored at the sides, does to rows and columns at the network's size, as matrices."""
    kernel = cv2.getGaussianKernel(7, 1.0, cv2.CV_32F)
    rows, columns = (cv2.sepFilter2D(np.eye(size, dtype=np.float32), -1, np.ones(1, np.float32), kernel) for size in (HEIGHT_PX, WIDTH_PX))
    return torch.from_numpy(rows).to(device), torch.from_numpy(columns.T.copy()).to(device)


def _share(areas: torch.Tensor) -> torch.Tensor:
    """Returns which share of the picture areas are, (N,) float64, of (N, height, width) bool."""
    return areas.sum(dim=(1, 2)).double() / (areas.shape[1] * areas.shape[2])


def _overlap(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Returns what `overlap_of` does."""
    both, either = (one & other).sum(dim=(1, 2)), (one | other).sum(dim=(1, 2))
    return torch.where(either > 0, both.double() / either.clamp(min=1), torch.nan)


def _road_kept(
    before: _Ground, places: torch.Tensor, after: torch.Tensor, roads: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns same_road, tint and burnt of `Look`, (N,) each, of smooth pictures (N, 3, HEIGHT_PX, WIDTH_PX) at these places."""
    around = before.around[places]
    light = _in_bands(after, around)
    size = light.square().sum(dim=2).sqrt()
    weight = torch.where(before.counts[places], size, 0.0)
    alike = (before.light[places] * light).sum(dim=2) / (before.size[places] * size).clamp(min=1e-3)
    same = (weight * alike).sum(dim=1) / weight.sum(dim=1).clamp(min=1e-3)
    green_on, green_off, white = _colours(after, roads, around)
    greener = (green_on - before.green_on[places]) - (green_off - before.green_off[places])
    return same, greener / (_mean_in(after.mean(dim=1), roads) + 8.0), white - before.white[places]


def _in_bands(smooth: torch.Tensor, around: torch.Tensor) -> torch.Tensor:
    """Returns the light around the roads less its mean in each band of rows, (N, bands, pixels)."""
    bands = (len(around), HEIGHT_PX // BAND_ROWS, BAND_ROWS * WIDTH_PX)
    inside, light = around.reshape(bands).float(), smooth.mean(dim=1).reshape(bands)
    count = inside.sum(dim=2).clamp(min=1.0)
    return inside * (light - ((light * inside).sum(dim=2) / count)[..., None])


def _colours(smooth: torch.Tensor, roads: torch.Tensor, around: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns green_on, green_off and white of `_Ground`."""
    green = smooth[:, 1] - 0.5 * (smooth[:, 0] + smooth[:, 2])
    return _mean_in(green, roads), _mean_in(green, ~around), _mean_in((smooth.amin(dim=1) >= WHITE).float(), roads)


def _mean_in(values: torch.Tensor, areas: torch.Tensor) -> torch.Tensor:
    """Returns the mean of values within areas, (N, height, width) each; 0 where an area is empty."""
    return (values * areas).sum(dim=(1, 2)).double() / areas.sum(dim=(1, 2)).double().clamp(min=1.0)
