"""The referee's word on a changed picture: is it still the same scene, and one that a camera could have taken?

Four looks, each at what the others miss. The network tells where the road is in both pictures: grass painted over it leaves every edge
in its place. Edges tell whether anything else moved, in the left half, the right half and the lower half apart: a mirrored half
leaves the road where it was. The road's own pixels tell whether it is this very road: highways resemble each other, and fog hides a road
from the network that a person still sees. Plain counting finds what no camera takes: borders, blank and clipped pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, Frames, NumpyFrames, as_numpy, split_views

LEAST_ROAD = 0.03
"""Share of the picture that the road of an original has at least; less is no road that could be lost."""
LEAST_LIKENESS, SURE_LIKENESS = 0.44, 0.48
"""Of a part's edges with those of the original: below the first it is another scene, from the second on the same. Other frames, turned,
sheared and shifted ones lie below both; fog that hides all but the nearest metres comes near."""
LEAST_OVERLAP, SURE_OVERLAP = 0.5, 0.62
"""Intersection over union of the drivable areas: below the first the road is lost, from the second on it is kept."""
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
BAND_ROWS = 4
BLANK_SIZE_PX = (96, 64)
"""Width and height at which a picture's light is asked whether it varies."""
_BLANK_LEVELS = 4.0
"""Grey levels by which a picture with something in it varies."""
_MOST_CLIPPED = 0.85
"""Share of the lower half that may be pure black or pure white, where it was less."""
_BURNT, _PALE = 0.5, 0.25
"""Share of the road's pixels that became pure white: from the first on the road is gone, from the second on it may be. One stop more
light on a sunlit road makes 0.11 of it white. Black is no sign: the road of a night may be."""
WHITE = 252.0
"""Level of every channel of a pixel that shows nothing any more."""
_AN_END = ((np.arange(256) <= 1) | (np.arange(256) >= 254)).astype(np.uint8)
"""Which levels are pure black or pure white."""
DARK = 40.0
"""Grey levels of a border; what is lighter and reaches down no further than the upper half may be the sky."""

LEAST_BORDER = 0.004
"""Share of the picture that an even-coloured corner must have to be a border."""
BORDER_SPREAD, BORDER_EVEN, BORDER_CHANGED = 2, 0.9, 16.0
"""Levels by which a border's colours may differ, since a compressed one is not quite even; the share of its commonest light; grey levels by
which it differs from what was there."""
_MIRRORED = 0.1
"""How much more a half is like the mirrored other half than it was; asked where it is its very mirror."""


class Word(Enum):
    """What the referee says of a mutant."""

    KEPT = "kept"
    REFUSED = "refused"
    UNCLEAR = "unclear"


class Reason(Enum):
    """Why; the value is the sentence, in the order in which they are asked."""

    SAME_SCENE = ""
    NO_ROAD = "no road in the original"
    BLANK = "blank"
    BORDER = "a border of one colour"
    CLIPPED = "clipped: most of the lower half is pure black or pure white"
    ROAD_BURNT = "clipped: most of the road is pure white"
    MIRRORED = "one half mirrors the other"
    FLIPPED = "the mirrored scene"
    OTHER_SCENE = "another scene"
    ROAD_LOST = "the road is no longer where it was"
    ROAD_PALE = "a large part of the road is pure white"
    SCENE_DOUBTFUL = "perhaps another scene"
    ROAD_DOUBTFUL = "the road may no longer be where it was"

    @property
    def word(self) -> Word:
        """What it comes to."""
        if self is Reason.SAME_SCENE:
            return Word.KEPT
        doubtful = {Reason.NO_ROAD, Reason.ROAD_PALE, Reason.SCENE_DOUBTFUL, Reason.ROAD_DOUBTFUL}
        return Word.UNCLEAR if self in doubtful else Word.REFUSED


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
    if device != "cpu":
        from skidpad.referee.on_device import SeenOriginals  # noqa: PLC0415  torch, as below

        return SeenOriginals(reference, device, pixel_map, views).judge(changed)
    if views > 1:
        return of_all(judge(split_views(reference, views), split_views(changed, views), pixel_map), views)
    # torch is for those who ask the referee, not for those who read its words
    from skidpad.referee.edges import edges_kept  # noqa: PLC0415
    from skidpad.referee.network import drivable, overlap_of, remembered_roads  # noqa: PLC0415

    before, after = as_numpy(reference), as_numpy(changed)
    roads, own_cars, steady = remembered_roads(before)
    seen = np.ones(roads.shape[1:], np.bool_)
    if pixel_map is not None:
        before, roads, own_cars, seen = moved(before, roads, own_cars, pixel_map)
    overlap = overlap_of(roads & seen, drivable(after) & seen)
    edges_said = edges_kept(before, after, own_cars)
    same_road, tint, burnt = _road_kept(before, after, roads & seen)
    enough = np.mean(roads & seen, axis=(1, 2)) >= LEAST_ROAD
    looks = (Look(*each) for each in zip(steady, overlap, *edges_said, same_road, tint, burnt, strict=True))
    found = [
        _reason(one, other, look) if has_road else Reason.NO_ROAD
        for one, other, has_road, look in zip(before, after, enough, looks, strict=True)
    ]
    return Verdicts(tuple(found), np.where(enough, overlap, np.nan), edges_said[0])


def of_all(each: Verdicts, views: int) -> Verdicts:
    """Brings the words on the cameras of each frame together; one that sees no road says nothing where another sees it."""
    overlap, likeness = (np.fmin.reduce(values.reshape(-1, views), axis=1) for values in (each.overlap, each.likeness))
    reasons: list[Reason] = []
    for first in range(0, len(each), views):
        told: list[Reason] = [reason for reason in each.reasons[first : first + views] if reason != Reason.NO_ROAD]
        reasons.append(min(told or [Reason.NO_ROAD], key=lambda reason: (Word.REFUSED, Word.UNCLEAR, Word.KEPT).index(reason.word)))
    return Verdicts(tuple(reasons), overlap, likeness)


def moved(
    frames: NumpyFrames, roads: BoolArray, own_cars: BoolArray, pixel_map: FloatArray
) -> tuple[NumpyFrames, BoolArray, BoolArray, BoolArray]:
    """Returns originals, their roads and own cars as a moved camera shows them, and where it shows anything of them, (height, width)."""
    size, (height, width) = (frames.shape[2], frames.shape[1]), roads.shape[1:]
    scale = np.diag([width / size[0], height / size[1], 1.0])
    small = scale @ pixel_map @ np.linalg.inv(scale)
    before = np.stack([_moved(frame, pixel_map, size) for frame in frames])
    roads, own_cars = (
        np.stack([_moved(each.astype(np.uint8), small, (width, height)) > 0 for each in areas]) for areas in (roads, own_cars)
    )
    return before, roads, own_cars, _moved(np.ones((height, width), np.uint8), small, (width, height)) > 0


def _moved(picture: NumpyFrames, pixel_map: FloatArray, size: tuple[int, int]) -> NumpyFrames:
    return np.asarray(cv2.warpPerspective(picture, pixel_map, size, flags=cv2.INTER_LINEAR), np.uint8)


@dataclass(frozen=True, slots=True)
class Look:
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


def _reason(before: NumpyFrames, after: NumpyFrames, look: Look) -> Reason:
    variation = float(np.asarray(cv2.resize(after, BLANK_SIZE_PX, interpolation=cv2.INTER_AREA)).mean(axis=2).std())
    return reason_of(look, variation, lambda: has_border(before, after), lambda: is_clipped_more(_clipped(after), lambda: _clipped(before)))


def is_clipped_more(now: float, was: Callable[[], float]) -> bool:
    """Tells whether too much of the lower half is pure black or pure white, given its share now and in the original."""
    return now > _MOST_CLIPPED and now > was() + 0.2


def reason_of(look: Look, variation: float, is_cut_off: Callable[[], bool], is_clipped: Callable[[], bool]) -> Reason:
    """Returns what a pair with a road comes to; variation: of the changed picture's light, in grey levels."""
    if variation < _BLANK_LEVELS:
        return Reason.BLANK
    asked: dict[Reason, Callable[[], bool | np.bool_]] = {
        Reason.BORDER: is_cut_off,
        Reason.CLIPPED: is_clipped,
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


def has_border(before: NumpyFrames, after: NumpyFrames) -> bool:
    """Tells whether a corner of the changed picture is cut off: one even colour with a hard edge, which light alone does not explain."""
    if before.shape != after.shape:
        before = np.asarray(cv2.resize(before, (after.shape[1], after.shape[0]), interpolation=cv2.INTER_AREA), np.uint8)
    return any(_is_cut_off(before, after, *region) for spread in (0, BORDER_SPREAD) for region in _corners(after, spread))


def _corners(frame: NumpyFrames, spread: int) -> Iterator[tuple[NumpyFrames, tuple[slice, slice]]]:
    """Yields, for each corner that no other reaches, 1 where its colour reaches within `spread` levels, (height, width), and its box.

    Corners are apart, since an even sky must not be blamed for a dark road. What is too small for a border, or all of the picture, is
    left out.
    """
    frame = np.require(frame, requirements="W")  # OpenCV writes into nothing here, but asks that it may
    height, width = frame.shape[:2]
    known = np.zeros((height + 2, width + 2), np.uint8)
    flags = 4 | cv2.FLOODFILL_MASK_ONLY | cv2.FLOODFILL_FIXED_RANGE | (1 << 8)
    for corner in ((0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)):
        if known[corner[1] + 1, corner[0] + 1]:
            continue
        found = np.zeros_like(known)
        count, _, _, (left, top, across, down) = cv2.floodFill(frame, found, corner, 0, (spread,) * 3, (spread,) * 3, flags)
        known |= found
        if _least_border(height, width) <= count < height * width:
            yield found[1:-1, 1:-1], (slice(top, top + down), slice(left, left + across))


def _least_border(height: int, width: int) -> int:
    """Returns how many pixels a border has at least."""
    return int(LEAST_BORDER * height * width)


def _light(frame: NumpyFrames) -> NDArray[np.float32]:
    """Returns the sum of the channels, (height, width): whole numbers."""
    return np.asarray(cv2.transform(frame.astype(np.float32), np.ones((1, 3), np.float32)), np.float32)


def _is_cut_off(before: NumpyFrames, after: NumpyFrames, found: NumpyFrames, box: tuple[slice, slice]) -> bool:
    """Tells whether a region, 1 in (height, width), is a border; box: around it, where first is asked what needs no more than that."""
    height, width = found.shape
    least = _least_border(height, width)
    inside, light = found[box], _light(after[box])
    lights = cv2.calcHist([light], [0], inside, [766], [0.0, 766.0])
    if lights.max() < BORDER_EVEN * lights.sum():
        return False
    apart = np.abs(_light(before[box]) - light) > 3 * BORDER_CHANGED
    if np.count_nonzero(apart & (inside > 0)) < least:
        return False
    border, (sums_was, sums) = found > 0, (_light(each).astype(np.int32) for each in (before, after))
    changed, now = border & (np.abs(sums_was - sums) > 3 * BORDER_CHANGED), sums / 3.0
    # What was as light elsewhere tells what light alone would make of the corner: a dark sky is dark everywhere.
    levels = sums_was // 24
    count = np.bincount(levels[~border], minlength=32)
    expected = np.bincount(levels[~border], now[~border], minlength=32) / np.maximum(count, 1)
    explained = np.where(count[levels] > 20, np.abs(expected[levels] - now), 0.0) < 16.0
    unexplained = changed & ~explained
    if np.count_nonzero(unexplained) < least:
        return False
    if now[border].mean() > DARK and not unexplained[height // 2 :].any():
        return False  # an even sky, grey in rain or white in the sun
    ring = (cv2.dilate(found, np.ones((5, 5), np.uint8)) > 0) & ~border
    near = ring & (cv2.dilate(unexplained.astype(np.uint8), np.ones((7, 7), np.uint8)) > 0)
    return bool(near.any()) and float(np.median(np.abs(now[near] - now[border].mean()))) > 12.0


def _road_kept(before: NumpyFrames, after: NumpyFrames, roads: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns same_road, tint and burnt of `Look`, (N,) each; the first is the correlation of the road's light in bands of rows.

    A band weighs by how much it varies in the changed picture: what fog has hidden says nothing. The road's edges belong to it.
    """
    around = np.stack([cv2.dilate(road.astype(np.uint8), np.ones((7, 7), np.uint8)) for road in roads]) > 0
    pictures = [np.stack([_smooth(frame, roads.shape[2], roads.shape[1]) for frame in frames]) for frames in (before, after)]
    height, width = roads.shape[1:]
    bands = (len(before), height // BAND_ROWS, BAND_ROWS * width)
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
    was_white, is_white = (_mean_in(np.float32(1.0) * (picture.min(axis=1) >= WHITE), roads) for picture in pictures)
    return same.astype(np.float64), greener / (_mean_in(pictures[1].mean(axis=1), roads) + 8.0), is_white - was_white


def _smooth(frame: NumpyFrames, width_px: int, height_px: int) -> NDArray[np.float32]:
    """Returns the channels one after the other, (3, height_px, width_px): sums over a last axis of three are many times slower."""
    small = cv2.resize(frame, (width_px, height_px), interpolation=cv2.INTER_AREA)
    return np.stack(cv2.split(cv2.GaussianBlur(small, (0, 0), 1.0))).astype(np.float32)


def _mean_in(values: NDArray[np.float32], areas: BoolArray) -> FloatArray:
    """Returns the mean of values within areas, (N, height, width) each; 0 where an area is empty."""
    return np.asarray((values * areas).sum(axis=(1, 2)) / np.maximum(areas.sum(axis=(1, 2)), 1), np.float64)
