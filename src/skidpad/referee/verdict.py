"""The referee's word on a changed picture: is it still the same scene, and one that a camera could have taken?

Four looks, each at what the others miss. The network tells where the road is in both pictures: grass painted over it leaves every edge
in its place. Edges tell whether anything else moved, in the left half, the right half and the lower half apart: a mirrored half
leaves the road where it was. The road's own pixels tell whether it is this very road: highways resemble each other, and fog hides a road
from the network that a person still sees. Plain counting finds what no camera takes: borders, blank and clipped pictures.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from threading import Lock

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, Frames, NumpyFrames, as_numpy, pixel_hash, split_views
from skidpad.core.structure import SCALES, averaged, edges
from skidpad.referee.network import HEIGHT_PX, WIDTH_PX, Class, RoadNet, load_road_net, overlap_of, segmented
from skidpad.referee.word import Reason, Word

_BATCH = 16
_REMEMBERED = 16384
"""Originals whose road is remembered, 6 KB each: a frame is looked at once, however many mutants it has."""

LEAST_ROAD = 0.03
"""Share of the picture that the road of an original has at least; less is no road that could be lost."""
LEAST_LIKENESS, SURE_LIKENESS = 0.44, 0.48
"""Of a part's edges with those of the original: below the first it is another scene, from the second on the same. Other frames, turned,
sheared and shifted ones lie below both; fog that hides all but the nearest metres comes near."""
LEAST_OVERLAP, SURE_OVERLAP = 0.5, 0.62
"""Intersection over union of the drivable areas: below the first the road is lost, from the second on it is kept."""
STEADY_OVERLAP = 0.9
"""Of the drivable area of an original with that of the same picture at 0.7 EV more. Where so little light changes what the network
sees, as between hard shadows of trees, its word alone loses no road: the edges must have changed as well."""
_CHANGED_LIKENESS = 0.65
"""Below it the edges say that something was painted over; where nothing is left of the road, a little above it too."""
SAME_ROAD = 0.75
"""Correlation of the road's light, band by band from near to far, from which on it is the same road, whatever the network sees of it: air
and light change a band as a whole. Below OTHER_ROAD, and with edges elsewhere below OTHER_PLACES, it is another road."""
OTHER_ROAD, OTHER_PLACES = 0.6, 0.6
_SAME_OVERLAP, _SAME_PLACES = 0.85, 0.52
"""Overlap of the roads and likeness of most blocks, from which on both together say that nothing moved. Sheared and shifted pictures have
less of the first, other frames of the second; frost over a part and a wet road that mirrors the sky have both."""
_TINTED = 0.12
"""How much greener, as a part of its light, the road alone may become; grass is more."""
_FLIPPED = 0.1
"""How much more the edges are like those of the mirrored original than like its own."""
_BLOCKS = 6
"""Edges are compared in so many rows and columns of blocks; the median is not fooled by a horizon that all roads share."""
_LEAST_ENERGY, _LEAST_BLOCKS = 0.05, 6
"""Squared strength of the edges of a block that has any, and how many such blocks it takes."""
_BAND_ROWS = 4
EDGES_PX = 192
"""Side of the square in which edges are compared."""
_VISIBLE = 0.3
"""Squared strength at which an edge counts for half."""
_BLANK_LEVELS = 4.0
"""Grey levels by which a picture with something in it varies."""
_MOST_CLIPPED = 0.85
"""Share of the lower half that may be pure black or pure white, where it was less."""
_BURNT, _PALE = 0.5, 0.25
"""Share of the road's pixels that became pure white: from the first on the road is gone, from the second on it may be. One stop more
light on a sunlit road makes 0.11 of it white. Black is no sign: the road of a night may be."""
_WHITE = 252.0
"""Level of every channel of a pixel that shows nothing any more."""
_AN_END = ((np.arange(256) <= 1) | (np.arange(256) >= 254)).astype(np.uint8)
"""Which levels are pure black or pure white."""
_DARK = 40.0
"""Grey levels of a border; what is lighter and reaches down no further than the upper half may be the sky."""

_LEAST_BORDER = 0.004
"""Share of the picture that an even-coloured corner must have to be a border."""
_MIRRORED = 0.1
"""How much more a half is like the mirrored other half than it was; asked where it is its very mirror."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The referee's words on N pairs, with what they follow from, (N,) each.

    overlap: intersection over union of the drivable areas, NaN without a road. likeness: of the edges, the least of the parts.
    """

    reasons: tuple[Reason, ...]
    overlap: FloatArray
    likeness: FloatArray

    def __len__(self) -> int:
        return len(self.reasons)

    @property
    def words(self) -> tuple[Word, ...]:
        """What each reason comes to."""
        return tuple(reason.word for reason in self.reasons)

    @property
    def kept(self) -> BoolArray:
        """Which mutants may count, (N,)."""
        return np.array([word is Word.KEPT for word in self.words], np.bool_)


@cache
def _road_net(device: str) -> RoadNet:
    return load_road_net().to(device)


@dataclass(frozen=True, slots=True)
class _Road:
    """The drivable area and the own car of an original, packed to bits, and whether a little light leaves the first as it is."""

    bits: bytes
    own_bits: bytes
    is_steady: bool


class _Memory:
    """The roads of the originals that were looked at last; safe in threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Road] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, str]) -> _Road | None:
        with self._lock:
            return self._kept.get(key)

    def put(self, key: tuple[str, str], road: _Road) -> None:
        with self._lock:
            self._kept[key] = road
            while len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)


_memory = _Memory()
_BRIGHTER = np.clip(np.rint(255.0 * ((np.arange(256) / 255.0) ** 2.2 * 2.0**0.7) ** (1 / 2.2)), 0, 255).astype(np.uint8)
"""What 0.7 EV more makes of a level."""


def drivable(frames: Frames, device: str = "cpu") -> BoolArray:
    """Returns where the network sees road or marking, (N, HEIGHT_PX, WIDTH_PX), of frames (N, height, width, 3)."""
    return np.asarray(_classes(frames, device) <= Class.MARKING, np.bool_)


def _classes(frames: Frames, device: str) -> NumpyFrames:
    network, pictures = _road_net(device), as_numpy(frames)
    parts = [segmented(network, pictures[first : first + _BATCH]) for first in range(0, len(pictures), _BATCH)]
    return np.concatenate(parts) if parts else np.zeros((0, HEIGHT_PX, WIDTH_PX), np.uint8)


def _remembered(frames: NumpyFrames, device: str) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Returns the drivable areas of originals and their own cars, each looked at once, and which of them are steady, (N,)."""
    keys = [(device, pixel_hash(frame)) for frame in frames]
    found = {key: road for key in keys if (road := _memory.get(key)) is not None}
    new = {key: place for place, key in enumerate(keys) if key not in found}
    if new:
        unknown = frames[list(new.values())]
        seen, lit = _classes(unknown, device), drivable(_BRIGHTER[unknown], device)
        steady = overlap_of(seen <= Class.MARKING, lit) >= STEADY_OVERLAP
        for key, classes, is_steady in zip(new, seen, steady.tolist(), strict=True):
            bits, own_bits = (np.packbits(area).tobytes() for area in (classes <= Class.MARKING, classes == Class.OWN_CAR))
            found[key] = _Road(bits, own_bits, is_steady)
            _memory.put(key, found[key])
    roads, own_cars = (_unpacked(b"".join(getattr(found[key], name) for key in keys)) for name in ("bits", "own_bits"))
    return roads, own_cars, np.array([found[key].is_steady for key in keys], np.bool_)


def _unpacked(data: bytes) -> BoolArray:
    return np.unpackbits(np.frombuffer(data, np.uint8)).astype(np.bool_).reshape(-1, HEIGHT_PX, WIDTH_PX)


def judge(reference: Frames, changed: Frames, pixel_map: FloatArray | None = None, device: str = "cpu", views: int = 1) -> Verdicts:
    """Judges N changed pictures against N originals; uint8 (N, height, width, 3), the two of any sizes.

    pixel_map: (3, 3), from a pixel of the original to its place in the changed picture where the camera was moved; what the originals
    show is moved first, and what they do not show is not asked about. views: how many cameras' pictures each holds side by side; one
    that is refused, or doubtful, speaks for all, and `pixel_map` is that of one.
    """
    if len(reference) != len(changed):
        raise BadParametersError(f"each changed picture needs its original; got {len(reference)} originals and {len(changed)} pictures")
    if not len(changed):
        return Verdicts((), np.zeros(0), np.zeros(0))
    if views > 1:
        return _of_all(judge(split_views(reference, views), split_views(changed, views), pixel_map, device), views)
    before, after = as_numpy(reference), as_numpy(changed)
    roads, own_cars, steady = _remembered(before, device)
    seen = np.ones((HEIGHT_PX, WIDTH_PX), np.bool_)
    if pixel_map is not None:
        size = before.shape[2], before.shape[1]
        before = np.stack([_moved(frame, pixel_map, size) for frame in before])
        scale = np.diag([WIDTH_PX / size[0], HEIGHT_PX / size[1], 1.0])
        small = scale @ pixel_map @ np.linalg.inv(scale)
        roads, own_cars = (
            np.stack([_moved(each.astype(np.uint8), small, (WIDTH_PX, HEIGHT_PX)) > 0 for each in areas]) for areas in (roads, own_cars)
        )
        seen = _moved(np.ones((HEIGHT_PX, WIDTH_PX), np.uint8), small, (WIDTH_PX, HEIGHT_PX)) > 0
    overlap = overlap_of(roads & seen, drivable(after, device) & seen)
    edges_said = _edges_kept(before, after, own_cars, device)
    same_road, tint, burnt = _road_kept(before, after, roads & seen)
    enough = np.mean(roads & seen, axis=(1, 2)) >= LEAST_ROAD
    looks = (_Look(*each) for each in zip(steady, overlap, *edges_said, same_road, tint, burnt, strict=True))
    found = [
        _reason(one, other, look) if has_road else Reason.NO_ROAD
        for one, other, has_road, look in zip(before, after, enough, looks, strict=True)
    ]
    return Verdicts(tuple(found), np.where(enough, overlap, np.nan), edges_said[0])


def _of_all(each: Verdicts, views: int) -> Verdicts:
    """Brings the words on the cameras of each frame together; one that sees no road says nothing where another sees it."""
    overlap, likeness = (np.fmin.reduce(values.reshape(-1, views), axis=1) for values in (each.overlap, each.likeness))
    reasons: list[Reason] = []
    for first in range(0, len(each), views):
        told: list[Reason] = [reason for reason in each.reasons[first : first + views] if reason != Reason.NO_ROAD]
        reasons.append(min(told or [Reason.NO_ROAD], key=lambda reason: (Word.REFUSED, Word.UNCLEAR, Word.KEPT).index(reason.word)))
    return Verdicts(tuple(reasons), overlap, likeness)


def roads_drawn(original: NumpyFrames, changed: NumpyFrames, device: str = "cpu") -> NumpyFrames:
    """Returns both pictures, (height, width, 3), side by side at the first one's size, the roads that the network sees in green."""
    height, width = original.shape[:2]
    sides = []
    for frame in (original, changed):
        shown = np.array(cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
        road = cv2.resize(drivable(frame[None], device)[0].astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST) > 0
        shown[road] = shown[road] // 2 + np.array([0, 100, 0], np.uint8)
        sides.append(shown)
    return np.concatenate(sides, axis=1)


def _moved(picture: NumpyFrames, pixel_map: FloatArray, size: tuple[int, int]) -> NumpyFrames:
    return np.asarray(cv2.warpPerspective(picture, pixel_map, size, flags=cv2.INTER_LINEAR), np.uint8)


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known of a pair. likeness: of the edges, in the part that is least so. mirrored: how much more one half mirrors the other.

    places: the likeness of most blocks. flipped: how much more they are like the mirrored original. same_road: see SAME_ROAD. tint: how
    much greener the road alone became. burnt: the share of it that became pure white.
    """

    is_steady: bool
    overlap: float
    likeness: float
    mirrored: float
    places: float
    flipped: float
    same_road: float
    tint: float
    burnt: float

    @property
    def is_this_road(self) -> bool:
        """Whether the road's own pixels say that it is there, though the network may not see it."""
        return self.same_road >= SAME_ROAD and abs(self.tint) < _TINTED

    @property
    def is_in_place(self) -> bool:
        """Whether road and most edges are where they were, though one part of the picture may be covered, as by frost."""
        return self.is_this_road or (self.overlap >= _SAME_OVERLAP and self.places >= _SAME_PLACES)

    @property
    def has_lost_road(self) -> bool:
        """Whether the network no longer sees the road, and nothing speaks for it."""
        painted = self.likeness < _CHANGED_LIKENESS + (0.1 if self.overlap < 0.05 else 0.0)
        return self.overlap < LEAST_OVERLAP and not self.is_this_road and (self.is_steady or painted or abs(self.tint) >= 2.0 * _TINTED)


def _reason(before: NumpyFrames, after: NumpyFrames, look: _Look) -> Reason:
    if float(np.asarray(cv2.resize(after, (96, 64), interpolation=cv2.INTER_AREA)).mean(axis=2).std()) < _BLANK_LEVELS:
        return Reason.BLANK
    asked: dict[Reason, Callable[[], bool | np.bool_]] = {
        Reason.BORDER: lambda: _has_border(before, after),
        Reason.CLIPPED: lambda: (clipped := _clipped(after)) > _MOST_CLIPPED and clipped > _clipped(before) + 0.2,
        Reason.ROAD_BURNT: lambda: look.burnt > _BURNT,
        Reason.MIRRORED: lambda: look.mirrored > _MIRRORED,
        Reason.FLIPPED: lambda: look.flipped > _FLIPPED,
        Reason.OTHER_SCENE: lambda: (
            not look.is_in_place and (look.likeness < LEAST_LIKENESS or (look.same_road < OTHER_ROAD and look.places < OTHER_PLACES))
        ),
        Reason.ROAD_LOST: lambda: look.has_lost_road,
        Reason.ROAD_PALE: lambda: look.burnt > _PALE,
        Reason.SCENE_DOUBTFUL: lambda: look.likeness < SURE_LIKENESS and not look.is_in_place,
        Reason.ROAD_DOUBTFUL: lambda: look.overlap < SURE_OVERLAP and not look.is_this_road,
    }
    return next((reason for reason, is_so in asked.items() if is_so()), Reason.SAME_SCENE)


def _clipped(frame: NumpyFrames) -> float:
    """Returns the share of the lower half in which every channel is at one end."""
    red, green, blue = cv2.split(cv2.LUT(np.ascontiguousarray(frame[frame.shape[0] // 2 :]), _AN_END))
    return float(np.mean(cv2.min(cv2.min(red, green), blue)))


def _has_border(before: NumpyFrames, after: NumpyFrames) -> bool:
    """Tells whether a corner of the changed picture is cut off: one even colour with a hard edge, which light alone does not explain."""
    return any(_is_cut_off(before, after, region) for spread in (0, 2) for region in _corners(after, spread))


def _corners(frame: NumpyFrames, spread: int) -> Iterator[NumpyFrames]:
    """Yields, for each corner that no other reaches, 1 where its colour reaches within `spread` levels, (height, width).

    A compressed border is not quite even, hence the spread. Corners are apart, since an even sky must not be blamed for a dark road.
    """
    height, width = frame.shape[:2]
    known = np.zeros((height + 2, width + 2), np.uint8)
    flags = 4 | cv2.FLOODFILL_MASK_ONLY | cv2.FLOODFILL_FIXED_RANGE | (1 << 8)
    for corner in ((0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)):
        if known[corner[1] + 1, corner[0] + 1]:
            continue
        found = np.zeros_like(known)
        cv2.floodFill(frame, found, corner, 0, (spread,) * 3, (spread,) * 3, flags)
        known |= found
        yield found[1:-1, 1:-1]


def _is_cut_off(before: NumpyFrames, after: NumpyFrames, found: NumpyFrames) -> bool:
    height, width = found.shape
    least = int(_LEAST_BORDER * height * width)
    border = found > 0
    if np.count_nonzero(border) < least or border.all() or _evenness(after[border]) < 0.9:
        return False
    ring = (cv2.dilate(found, np.ones((5, 5), np.uint8)) > 0) & ~border
    levels_now = after.mean(axis=2)
    was = before if before.shape == after.shape else np.asarray(cv2.resize(before, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    # What was as light elsewhere tells what light alone would make of the corner: a dark sky is dark everywhere.
    levels = (was.mean(axis=2) / 8.0).astype(np.int64)
    count = np.bincount(levels[~border], minlength=32)
    expected = np.bincount(levels[~border], levels_now[~border], minlength=32) / np.maximum(count, 1)
    explained = np.where(count[levels] > 20, np.abs(expected[levels] - levels_now), 0.0) < 16.0
    unexplained = border & ~explained & (np.abs(was.mean(axis=2) - levels_now) > 16.0)
    if np.count_nonzero(unexplained) < least:
        return False
    if levels_now[border].mean() > _DARK and not unexplained[height // 2 :].any():
        return False  # an even sky, grey in rain or white in the sun
    near = ring & (cv2.dilate(unexplained.astype(np.uint8), np.ones((7, 7), np.uint8)) > 0)
    return bool(near.any()) and float(np.median(np.abs(levels_now[near] - levels_now[border].mean()))) > 12.0


def _evenness(pixels: NumpyFrames) -> float:
    """Returns the share of the commonest light among pixels, (N, 3)."""
    return float(np.bincount(pixels.sum(axis=1, dtype=np.int64)).max() / len(pixels))


def _edges_kept(
    before: NumpyFrames, after: NumpyFrames, own_cars: BoolArray, device: str
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Returns likeness, mirrored, places and flipped of `_Look`, (N,) each."""
    greys = [grey_levels(frames) for frames in (before, after)]
    with torch.inference_mode():
        there = [torch.from_numpy(grey).to(device) for grey in greys]
        fields = [[edges(averaged(grey, scale)) for grey in there] for scale in SCALES]
        found = torch.stack([edges_alike(one[0], other[0]) for one, other in fields]).mean(dim=0)
        (_, straight), (_, now) = fields[-1]
        flipped = edges(averaged(there[0].flip(-1), SCALES[-1]))[1]
        own = torch.from_numpy(own_cars).to(device)
        places = _median_alike(straight, now, own)
        gap = _median_alike(flipped, now, own | own.flip(-1)) - places
    was, is_now = (_symmetry(grey) for grey in greys)
    likeness = np.asarray(found.amin(dim=0).double().cpu().numpy(), np.float64)
    # where hardly a block has edges, nothing is told
    nothing = torch.isnan(gap)
    alike, more = (np.asarray(torch.where(nothing, value, each).double().cpu()) for value, each in ((1.0, places), (0.0, gap)))
    return likeness, np.where(is_now >= 0.95, is_now - was, 0.0), alike, more


def _median_alike(one: torch.Tensor, other: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Returns the median correlation over the blocks that have edges in both, (N,), of edges (2, N, h, w).

    hidden: what is left out, (N, H, W): the own bonnet is in every picture, whatever the scene. NaN where too few blocks have edges.
    """
    shown = functional.interpolate((~hidden).float()[:, None], size=one.shape[2:], mode="area")[:, 0]
    products = [(first * second).sum(dim=0) * shown for first, second in ((one, other), (one, one), (other, other))]
    both, before, after = (functional.adaptive_avg_pool2d(each[:, None], _BLOCKS).flatten(1) for each in products)
    cells = one.shape[2] * one.shape[3] / _BLOCKS**2
    has_edges = (before * cells > _LEAST_ENERGY) & (after * cells > _LEAST_ENERGY)
    alike = torch.where(has_edges, both / (before * after).sqrt().clamp(min=1e-9), torch.nan)
    return torch.where(has_edges.sum(dim=1) >= _LEAST_BLOCKS, alike.nanmedian(dim=1).values, torch.nan)


def _road_kept(before: NumpyFrames, after: NumpyFrames, roads: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns same_road, tint and burnt of `_Look`, (N,) each; the first is the correlation of the road's light in bands of rows.

    A band weighs by how much it varies in the changed picture: what fog has hidden says nothing. The road's edges belong to it.
    """
    around = np.stack([cv2.dilate(road.astype(np.uint8), np.ones((7, 7), np.uint8)) for road in roads]) > 0
    pictures = [np.stack([_smooth(frame) for frame in frames]) for frames in (before, after)]
    bands = (len(before), HEIGHT_PX // _BAND_ROWS, _BAND_ROWS * WIDTH_PX)
    inside = around.reshape(bands).astype(np.float32)
    count = np.maximum(inside.sum(axis=2), 1.0)
    one, other = (picture.mean(axis=1).reshape(bands) for picture in pictures)
    one, other = (inside * (light - ((light * inside).sum(axis=2) / count)[..., None]) for light in (one, other))
    sizes = [np.sqrt(np.square(light).sum(axis=2)) for light in (one, other)]
    weight = np.where(count >= 40.0, sizes[1], 0.0)
    alike = (one * other).sum(axis=2) / np.maximum(sizes[0] * sizes[1], 1e-3)
    same = (weight * alike).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-3)
    green = [picture[:, 1] - 0.5 * (picture[:, 0] + picture[:, 2]) for picture in pictures]
    change = green[1] - green[0]
    greener = _mean_in(change, roads) - _mean_in(change, ~around)
    was_white, is_white = (_mean_in(np.float32(1.0) * (picture.min(axis=1) >= _WHITE), roads) for picture in pictures)
    return same.astype(np.float64), greener / (_mean_in(pictures[1].mean(axis=1), roads) + 8.0), is_white - was_white


def _smooth(frame: NumpyFrames) -> NDArray[np.float32]:
    """Returns the channels one after the other, (3, HEIGHT_PX, WIDTH_PX): sums over a last axis of three are many times slower."""
    small = cv2.resize(frame, (WIDTH_PX, HEIGHT_PX), interpolation=cv2.INTER_AREA)
    return np.stack(cv2.split(cv2.GaussianBlur(small, (0, 0), 1.0))).astype(np.float32)


def _mean_in(values: NDArray[np.float32], areas: BoolArray) -> FloatArray:
    """Returns the mean of values within areas, (N, height, width) each; 0 where an area is empty."""
    return np.asarray((values * areas).sum(axis=(1, 2)) / np.maximum(areas.sum(axis=(1, 2)), 1), np.float64)


def edges_alike(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Returns the correlation of edges (2, N, h, w) in the left, the right and the lower half, (3, N).

    Asked is whether the edges of the changed picture are those of the original: what fog or the dark has swallowed is none of them.
    """
    visible = after.square().sum(dim=0)
    visible = visible / (visible + _VISIBLE)
    height, width = before.shape[2:]
    parts = ((slice(None), slice(None, width // 2)), (slice(None), slice(width // 2, None)), (slice(height // 2, None), slice(None)))
    found = []
    for rows, columns in parts:
        one, other, weight = before[:, :, rows, columns], after[:, :, rows, columns], visible[:, rows, columns]
        size = ((weight * one.square()).sum(dim=(0, 2, 3)) * other.square().sum(dim=(0, 2, 3))).sqrt()
        found.append((one * other).sum(dim=(0, 2, 3)) / size.clamp(min=1e-6))
    return torch.stack(found)


def grey_levels(frames: NumpyFrames) -> NDArray[np.float32]:
    """Returns grey levels at the size at which edges are compared, (N, EDGES_PX, EDGES_PX)."""
    small = [cv2.resize(frame, (EDGES_PX, EDGES_PX), interpolation=cv2.INTER_AREA) for frame in frames]
    return np.stack([cv2.transform(frame, np.full((1, 3), 1 / 3)) for frame in small]).astype(np.float32)


def _symmetry(grey: NDArray[np.float32]) -> FloatArray:
    """Returns the correlation of the left halves with the mirrored right ones, rows' own light left out, (N,)."""
    own = grey.reshape(len(grey), EDGES_PX // 2, 2, EDGES_PX // 2, 2).mean(axis=(2, 4))
    own -= own.mean(axis=2, keepdims=True)
    half = own.shape[2] // 2
    left, right = own[:, :, :half].reshape(len(own), -1), own[:, :, : half - 1 : -1].reshape(len(own), -1)
    size = np.sqrt((left * left).sum(axis=1) * (right * right).sum(axis=1))
    return np.asarray((left * right).sum(axis=1) / np.maximum(size, 1.0), np.float64)
