"""The referee's look at corners on a device: which pictures may have a border, and `has_border` compiled for those.

In NumPy and OpenCV `has_border` takes some fifty short steps, and after each one Python may let another thread go first. Beside the threads
that feed a GPU this waiting took longer than the steps. The compiled function waits once. Compiling it takes about four seconds, once on a
machine, and loading it half a second, which would not pay on a CPU.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING, Any, TypeAlias

import cv2
import numpy as np
import torch

from skidpad.core.compiling import compiler
from skidpad.referee.verdict import BORDER_CHANGED, BORDER_EVEN, BORDER_SPREAD, DARK, LEAST_BORDER

if TYPE_CHECKING:
    from skidpad.core.images import NumpyFrames

Whole: TypeAlias = Any
"""A whole number as numba has it: NumPy's, but without its overflow in one byte."""

_compiled = compiler()


def has_border_quickly(before: NumpyFrames, after: NumpyFrames) -> bool:
    """Returns what `has_border` does. Where a number is right at its threshold, rounding may decide otherwise."""
    if before.shape != after.shape:
        before = np.asarray(cv2.resize(before, (after.shape[1], after.shape[0]), interpolation=cv2.INTER_AREA), np.uint8)
    # numba compiles anew for arrays that are read-only or not in one piece
    pair = (np.require(frame, requirements=["C", "W"]) for frame in (before, after))
    return bool(_has_border(*pair))


def may_have_border(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Tells which changed pictures, uint8 (N, height, width, 3), may have a border, (N,): all for which `has_border` is true, or more.

    A border is a connected area of LEAST_BORDER of the picture at least, which reaches a corner, is within BORDER_SPREAD levels of its
    colour and differs as much in light from what was there. So enough pixels of the picture do; and one lies in every distance from the
    corner, counted in squares, up to the largest square with fewer pixels. A lighter one than DARK also reaches from the corner into the
    lower half.
    """
    height, width = int(after.shape[1]), int(after.shape[2])
    least = int(LEAST_BORDER * height * width)
    distance = isqrt(max(least - 1, 0)) + 1
    reach = min(distance, height), min(distance, width)
    planes = planes_of(after)
    corners = torch.stack([planes[:, :, row, column] for row in (0, -1) for column in (0, -1)], dim=2).short()
    low, high = ((corners + by).clamp(0, 255).to(torch.uint8)[..., None, None] for by in (-BORDER_SPREAD, BORDER_SPREAD))
    near = ((planes[:, :, None] >= low) & (planes[:, :, None] <= high)).all(dim=1)
    changed = torch.ones((), dtype=torch.bool, device=after.device)
    if before.shape == after.shape:
        light_before, light = (each.sum(dim=1, dtype=torch.int16) for each in (planes_of(before), planes))
        changed = ((light - light_before).abs() >= int(3 * BORDER_CHANGED))[:, None]
    squares = torch.stack([_from_corner(near[:, place], place, reach) for place in range(4)], dim=1)
    reaches = (squares.flatten(2).float() @ _rings(*reach, str(after.device)) > 0.5).all(dim=2)
    is_even = reaches & ((near & changed).sum(dim=(2, 3)) >= least)
    goes_down = near[:, :2, : height // 2 + 1].any(dim=3).all(dim=2)
    is_dark = corners[:, :, :2].sum(dim=1) <= 3.0 * (DARK + BORDER_SPREAD)
    return (is_even[:, :2] & (goes_down | is_dark)).any(dim=1) | is_even[:, 2:].any(dim=1)


def _from_corner(areas: torch.Tensor, place: int, reach: tuple[int, int]) -> torch.Tensor:
    """Returns the square at a corner of areas (N, height, width), turned so that it begins there; corners are numbered row by row."""
    rows, columns = (slice(-size, None) if last else slice(size) for size, last in zip(reach, divmod(place, 2), strict=True))
    return areas[:, rows, columns].flip([axis for axis, last in zip((1, 2), divmod(place, 2), strict=True) if last])


@lru_cache(maxsize=8)
def _rings(rows: int, columns: int, device: str) -> torch.Tensor:
    """Returns which pixels of a window lie in each distance from its first, (rows x columns, distances)."""
    distance = np.maximum(np.arange(rows)[:, None], np.arange(columns)).ravel()
    return torch.from_numpy((distance[:, None] == np.arange(max(rows, columns))).astype(np.float32)).to(device)


def planes_of(frames: torch.Tensor) -> torch.Tensor:
    """Returns pictures channel by channel, (N, 3, height, width): sums over a last axis of three are slow on a GPU too."""
    return frames.permute(0, 3, 1, 2).contiguous()


@_compiled
def _has_border(before: NumpyFrames, after: NumpyFrames) -> bool:
    height, width = after.shape[:2]
    least = int(LEAST_BORDER * height * width)
    floods = np.zeros((height, width), np.int8)  # the number of the flood that reached a pixel last
    spans = np.empty((height * (width // 2 + 1), 3), np.int32)
    seeds = np.empty((2 * height * width + 1, 2), np.int32)
    corners = ((0, 0), (0, width - 1), (height - 1, 0), (height - 1, width - 1))
    number = 0
    may_be_even = np.ones(4, np.bool_)
    # what is exactly of the corner's colour is a part of what is near it, and most often too small a part
    for spread in (BORDER_SPREAD, 0):
        known = np.zeros(4, np.bool_)
        for corner in range(4):
            if known[corner] or not may_be_even[corner]:
                continue
            number += 1
            row, column = corners[corner]
            length = _flooded(after, row, column, spread, floods, number, spans, seeds)
            for other in range(4):
                known[other] |= floods[corners[other]] == number
            lights = np.zeros(766, np.int64)
            for index in range(length):
                y, left, right = spans[index]
                for x in range(left, right + 1):
                    lights[_light(after, y, x)] += 1
            count = lights.sum()
            may_be_even[corner] = spread == 0 or lights[_light(after, row, column)] >= least
            # single precision, as OpenCV's histograms have it
            is_even = np.float32(lights.max()) >= np.float32(BORDER_EVEN) * np.float32(count)
            if least <= count < height * width and is_even and _is_cut_off(before, after, floods, number, spans[:length], least):
                return True
    return False


@_compiled
def _flooded(after: NumpyFrames, row: int, column: int, spread: int, floods: Any, number: int, spans: Any, seeds: Any) -> int:
    """Finds what is connected to a pixel and within `spread` levels of it, writes its spans (row, left, right) and returns how many."""
    height, width = after.shape[:2]
    red, green, blue = np.int64(after[row, column, 0]), np.int64(after[row, column, 1]), np.int64(after[row, column, 2])
    seeds[0, 0], seeds[0, 1] = row, column
    waiting, length = 1, 0
    while waiting:
        waiting -= 1
        y, start = seeds[waiting]
        if floods[y, start] == number:
            continue
        left = right = start
        while left > 0 and _is_near(after, y, left - 1, red, green, blue, spread):
            left -= 1
        while right < width - 1 and _is_near(after, y, right + 1, red, green, blue, spread):
            right += 1
        floods[y, left : right + 1] = number
        spans[length, 0], spans[length, 1], spans[length, 2] = y, left, right
        length += 1
        for beside in (y - 1, y + 1):
            if not 0 <= beside < height:
                continue
            is_open = False
            for x in range(left, right + 1):
                is_free = floods[beside, x] != number and _is_near(after, beside, x, red, green, blue, spread)
                if is_free and not is_open:
                    seeds[waiting, 0], seeds[waiting, 1] = beside, x
                    waiting += 1
                is_open = is_free
    return length


@_compiled
def _is_near(after: NumpyFrames, y: int, x: int, red: Whole, green: Whole, blue: Whole, spread: int) -> bool:
    return bool(
        abs(np.int64(after[y, x, 0]) - red) <= spread
        and abs(np.int64(after[y, x, 1]) - green) <= spread
        and abs(np.int64(after[y, x, 2]) - blue) <= spread
    )


@_compiled
def _light(frame: NumpyFrames, y: int, x: int) -> Whole:
    return np.int64(frame[y, x, 0]) + np.int64(frame[y, x, 1]) + np.int64(frame[y, x, 2])


@_compiled
def _is_cut_off(before: NumpyFrames, after: NumpyFrames, floods: Any, number: int, spans: Any, least: int) -> bool:
    """Does what `verdict._is_cut_off` does with an even region."""
    height, width = after.shape[:2]
    total, count, changed = 0, 0, 0
    for index in range(len(spans)):
        y, left, right = spans[index]
        count += right + 1 - left
        for x in range(left, right + 1):
            light = _light(after, y, x)
            total += light
            changed += abs(_light(before, y, x) - light) > 3 * BORDER_CHANGED
    if changed < least:
        return False
    mean = total / (3.0 * count)
    unexplained = _unexplained(before, after, floods, number, spans)
    if np.count_nonzero(unexplained) < least or (mean > DARK and not unexplained[height // 2 :].any()):
        return False
    near = np.zeros((height, width), np.bool_)
    for index in range(len(spans)):
        y, left, right = spans[index]
        near[max(y - 2, 0) : y + 3, max(left - 2, 0) : right + 3] = True
    off = np.empty(height * width)
    around = 0
    for y in range(height):
        for x in range(width):
            if near[y, x] and floods[y, x] != number and unexplained[max(y - 3, 0) : y + 4, max(x - 3, 0) : x + 4].any():
                off[around] = abs(_light(after, y, x) / 3.0 - mean)
                around += 1
    return bool(around > 0 and np.median(off[:around]) > 12.0)


@_compiled
def _unexplained(before: NumpyFrames, after: NumpyFrames, floods: Any, number: int, spans: Any) -> Any:
    """Returns which pixels of a region changed otherwise than what was as light elsewhere, (height, width)."""
    height, width = after.shape[:2]
    others, lights = np.zeros(32, np.int64), np.zeros(32, np.int64)
    for y in range(height):
        for x in range(width):
            if floods[y, x] != number:
                level = _light(before, y, x) // 24
                others[level] += 1
                lights[level] += _light(after, y, x)
    found = np.zeros((height, width), np.bool_)
    for index in range(len(spans)):
        y, left, right = spans[index]
        for x in range(left, right + 1):
            light, was = _light(after, y, x), _light(before, y, x)
            level = was // 24
            explained = others[level] <= 20 or abs(lights[level] / (3.0 * others[level]) - light / 3.0) < 16.0
            found[y, x] = abs(was - light) > 3 * BORDER_CHANGED and not explained
    return found
