"""`has_border` compiled: the same word from one call that lets all other threads go on, for the threads that feed a GPU.

Each look at an array of NumPy and OpenCV lets other threads go first, some fifty times a picture; with many threads these turns took
longer than the looks. Compiling it, or loading what was compiled before, takes a second, which on the CPU the network's own time hides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import cv2
import numpy as np
from numba import njit

from skidpad.referee.verdict import BORDER_CHANGED, BORDER_EVEN, BORDER_SPREAD, DARK, LEAST_BORDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from skidpad.core.images import NumpyFrames

Whole: TypeAlias = Any
"""A whole number as numba has it: NumPy's, but without its overflow in one byte."""

_Function = TypeVar("_Function", bound="Callable[..., Any]")

_compiled = cast("Callable[[_Function], _Function]", njit(nogil=True, cache=True, error_model="numpy"))


def has_border_compiled(before: NumpyFrames, after: NumpyFrames) -> bool:
    """Returns what `has_border` does."""
    if before.shape != after.shape:
        before = np.asarray(cv2.resize(before, (after.shape[1], after.shape[0]), interpolation=cv2.INTER_AREA), np.uint8)
    return bool(_has_border(np.ascontiguousarray(before), np.ascontiguousarray(after)))


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
            changed = 0
            for index in range(length):
                y, left, right = spans[index]
                for x in range(left, right + 1):
                    light = _light(after, y, x)
                    lights[light] += 1
                    changed += abs(_light(before, y, x) - light) > 3 * BORDER_CHANGED
            count = lights.sum()
            may_be_even[corner] = spread == 0 or lights[_light(after, row, column)] >= least
            # single precision, as OpenCV's histograms have it
            is_even = np.float32(lights.max()) >= np.float32(BORDER_EVEN) * np.float32(count)
            may_be_cut = least <= count < height * width and is_even and changed >= least
            if may_be_cut and _is_cut_off(before, after, floods, number, spans[:length], least):
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
    """Does what the last part of `verdict._is_cut_off` does with the region of a flood."""
    height, width = after.shape[:2]
    total, count = 0, 0
    for index in range(len(spans)):
        y, left, right = spans[index]
        count += right + 1 - left
        for x in range(left, right + 1):
            total += _light(after, y, x)
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
