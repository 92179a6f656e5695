"""Where the pixels of a chunk lie on the road, how large they are there, and what light falls on them.

Road coordinates are looked up at knots only, with their slopes, and cubic curves lead from knot to knot: over SPAN_M they stay well within
a millimetre. Shadows have edges and get knots of their own.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.canvas import CHUNK, Scratch
from skidpad.worlds.chunks import ALONG, LAMP, LATERAL, LENGTH, SHADE, WIDTH
from skidpad.worlds.compiling import uncounted
from skidpad.worlds.lightmap import COLUMNS, FROM_M, HALF_M, STEP_M
from skidpad.worlds.roadtable import locate
from skidpad.worlds.surface import f, short, whole
from skidpad.worlds.texture import Texels

SPAN_M = 2.5
"""How far apart knots are at most. A cubic curve with the right ends and slopes is off by at most w^4 / 384 times the fourth derivative,
which is 3 / r^3 at r metres from a bend's middle: a fifth of a millimetre at 11 m. Where a run-in begins or ends it costs as much."""
SHADE_SPAN_M = 0.6
_BLOCK = 16
"""Curves are filled by so many pixels at a time, in loops of known length."""

Knot: TypeAlias = tuple[float, float, float, float, float, float]
"""Lateral position and distance along the road, the slopes of both to the next pixel, the pixel's extent across and along the road."""
Steps: TypeAlias = tuple[float, float, float, float]
"""Of a row: cosine and sine of the heading, a pixel's extent across and along the view."""


class Ground(NamedTuple):
    """Tables of one scene's ground."""

    nodes: FloatArray
    cells: NDArray[np.int32]
    origin: FloatArray
    shade: NDArray[np.uint8]
    """See `lightmap`."""
    sunny: bool
    """Whether anything throws a shadow."""
    section: FloatArray
    texels: Texels


@uncounted
def span_at(across_px: float, most_m: float, longest: int) -> int:
    """Returns how many pixels lie between two knots, a power of two."""
    span = longest
    while span > 1 and span * across_px > most_m:
        span >>= 1
    return span


@uncounted
def knot_at(ground: Ground, x: float, y: float, view: float, steps: Steps) -> Knot:
    """Looks a place of the ground up. view: how far to the left its ray goes."""
    cosine, sine, across_px, along_px = f(steps[0]), f(steps[1]), f(steps[2]), f(steps[3])
    lateral, s, road_cos, road_sin, inner = locate(ground.nodes, ground.cells, ground.origin, x, y)
    # Across the view the ground runs along (sine, -cosine), along it along (step_x, step_y).
    step_x = along_px * (cosine - sine * f(view))
    step_y = along_px * (sine + cosine * f(view))
    beside = -(road_sin * sine + road_cos * cosine) * across_px
    onward = (road_cos * sine - road_sin * cosine) * across_px
    width = abs(beside) + abs(road_cos * step_y - road_sin * step_x) + f(1e-4)
    length = abs(onward) + abs(road_cos * step_x + road_sin * step_y) + f(1e-4)
    return lateral, s, beside, onward / inner, width, length


@uncounted
def place_chunk(
    scratch: Scratch, ground: Ground, x: float, y: float, left: float, focal: float, steps: Steps, span: int, first: Knot
) -> Knot:
    """Fills where the chunk's pixels lie on the road. x, y: the first pixel's place; first: its knot. Returns the next chunk's first."""
    cosine, sine, across_px, _ = steps
    here = first
    for start in range(0, CHUNK, span):
        k = start + span
        there = knot_at(ground, x + k * across_px * sine, y - k * across_px * cosine, left - k / focal, steps)
        _curves(scratch, start, span, here, there)
        here = there
    return here


@uncounted
def _curves(scratch: Scratch, start: int, span: int, here: Knot, there: Knot) -> None:
    """Fills the pixels from one knot to the next."""
    share, long = f(1.0 / span), f(span)
    across, along = there[0] - here[0], f(there[1] - here[1])
    a0, a1 = here[0], here[2] * long
    a2, a3 = f(3.0) * across - long * (f(2.0) * here[2] + there[2]), long * (here[2] + there[2]) - f(2.0) * across
    b0, b1 = f(here[1]), here[3] * long
    b2, b3 = f(3.0) * along - long * (f(2.0) * here[3] + there[3]), long * (here[3] + there[3]) - f(2.0) * along
    width, wider, length, longer = here[4], there[4] - here[4], here[5], there[5] - here[5]
    if span < _BLOCK:
        for k in range(span):
            t, place = share * f(short(k)), np.uintp(start + k)
            scratch[np.uintp(LATERAL) + place] = a0 + t * (a1 + t * (a2 + t * a3))
            scratch[np.uintp(ALONG) + place] = b0 + t * (b1 + t * (b2 + t * b3))
            scratch[np.uintp(WIDTH) + place] = width + t * wider
            scratch[np.uintp(LENGTH) + place] = length + t * longer
        return
    for block in range(0, span, _BLOCK):
        begin = share * f(short(block))
        place = np.uintp(start + block)
        for k in range(_BLOCK):
            t = begin + share * f(short(k))
            scratch[place + np.uintp(LATERAL + k)] = a0 + t * (a1 + t * (a2 + t * a3))
            scratch[place + np.uintp(ALONG + k)] = b0 + t * (b1 + t * (b2 + t * b3))
            scratch[place + np.uintp(WIDTH + k)] = width + t * wider
            scratch[place + np.uintp(LENGTH + k)] = length + t * longer


@uncounted
def straight(scratch: Scratch, start: int, span: int, here: float, there: float) -> None:
    """Fills a line from one knot to the next; the loops have known lengths, so that they become vector instructions."""
    step, at = (there - here) * f(1.0 / span), np.uintp(start)
    if span == 16:
        for k in range(16):
            scratch[at + np.uintp(k)] = here + step * f(short(k))
    elif span == 8:
        for k in range(8):
            scratch[at + np.uintp(k)] = here + step * f(short(k))
    elif span == 4:
        for k in range(4):
            scratch[at + np.uintp(k)] = here + step * f(short(k))
    else:
        for k in range(span):
            scratch[at + np.uintp(k)] = here + step * f(short(k))


@uncounted
def comes_near(scratch: Scratch, limit: float) -> bool:
    """Tells whether a pixel of the chunk is within the limit of the centreline, in metres."""
    # The least distance would have to be found one by one.
    found = np.int32(0)
    for k in range(CHUNK):
        found |= np.int32(abs(scratch[LATERAL + k]) <= limit)
    any_: bool = found != 0
    return any_


@uncounted
def shade_chunk(scratch: Scratch, ground: Ground, across_px: float, last: Knot) -> None:
    """Fills how much shade lies on the pixels, straight from knot to knot. last: the next chunk's first knot."""
    if not ground.sunny:
        for k in range(CHUNK):
            scratch[SHADE + k] = f(0.0)
        return
    span = span_at(across_px, SHADE_SPAN_M, _BLOCK)
    here = shade_at(ground.shade, scratch[ALONG], scratch[LATERAL])
    for start in range(0, CHUNK, span):
        k = start + span
        s, lateral = (scratch[np.uintp(ALONG + k)], scratch[np.uintp(LATERAL + k)]) if k < CHUNK else (f(last[1]), last[0])
        there = shade_at(ground.shade, s, lateral)
        straight(scratch, SHADE + start, span, here, there)
        here = there


@uncounted
def shade_at(shade: NDArray[np.uint8], s: float, lateral: float) -> float:
    """Returns the shade at a place beside the road, 0 to 1, bilinear; beyond the map there is none."""
    r, c = (s - f(FROM_M)) * f(1.0 / STEP_M), (lateral + f(HALF_M)) * f(1.0 / STEP_M)
    if r < f(0.0) or c < f(0.0) or r >= f(len(shade) - 1) or c >= f(COLUMNS - 1.0):
        return f(0.0)
    i, j = whole(c), whole(r)
    fx, fy = c - f(i), r - f(j)
    # Unsigned, or every index is first checked for counting from the end.
    left, right, top_row, low_row = np.uintp(i), np.uintp(i + 1), np.uintp(j), np.uintp(j + 1)
    a, b, below_a, below_b = f(shade[top_row, left]), f(shade[top_row, right]), f(shade[low_row, left]), f(shade[low_row, right])
    top = a + fx * (b - a)
    return (top + fy * (below_a + fx * (below_b - below_a) - top)) * f(1.0 / 255.0)


@uncounted
def lamp_chunk(scratch: Scratch, ahead: float, side: float, across_px: float, headlights: float, fog_lights: float) -> None:
    """Fills how much of the ego's own light reaches the pixels of a row; `cards.lamp_at` for one place."""
    ahead = max(ahead, 0.5)
    far, near = ahead * (1.0 / 25.0), ahead * (1.0 / 9.0)
    begin = min(max((ahead - 1.5) * 0.3, 0.0), 1.0)
    beam = f(begin * headlights * 1.25 / ((1.0 + far * far) * sqrt(1.0 + far * far)))
    fog = f(begin * fog_lights * 0.55 / ((1.0 + near * near) * (1.0 + near * near)))
    first, step, one = f(side / ahead), f(across_px / ahead), f(1.0)
    for k in range(CHUNK):
        angle = first - step * f(short(k))
        narrow, wide = angle * f(2.5), angle * f(1.1)
        narrow *= narrow
        wide *= wide
        scratch[LAMP + k] = beam / (one + narrow * narrow) + fog / (one + wide * wide)
