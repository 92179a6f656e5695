"""Paints the ground of a scene: grass, shoulders, asphalt, markings, shadows, wetness, snow, lamp light, air.

A row is done in chunks of fixed size. What varies slowly is looked up at knots only and spread between them; the rest is plain
arithmetic, which the compiler turns into vector instructions because the chunk's layout is known to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.canvas import CHUNK, Row, Scratch
from skidpad.worlds.cards import lamp_at
from skidpad.worlds.lightmap import COLUMNS, FROM_M, HALF_M, STEP_M
from skidpad.worlds.roadtable import locate
from skidpad.worlds.surface import (
    GRAIN,
    LINES,
    MIRROR,
    OUTER,
    RAMP_TURN,
    RED,
    f,
    lay,
    lay_ramp,
    light,
    shade_grass,
    shade_mover,
    shade_road,
    shade_snow,
    shade_wet,
)
from skidpad.worlds.texture import Texels, level_at
from skidpad.worlds.weather import Look

_SPREAD = 6
"""So many lines are looked up at knots."""
_KNOTS = CHUNK + 1
SCRATCH = LINES * CHUNK + (_SPREAD + 1) * _KNOTS
"""How many values of scratch a row needs."""
GROUND_M = 3000.0
FINE_PER_M, COARSE_PER_M = 22.0, 2.3
"""Texels of the noise to a metre of ground."""
SPAN_ERROR_M = 0.0008
_RAMP_REACH_M = 60.0
"""A ramp is seen so far beside the road."""


class Ground(NamedTuple):
    """Tables of one scene's ground."""

    nodes: FloatArray
    cells: NDArray[np.int32]
    origin: FloatArray
    shade: NDArray[np.uint8]
    section: FloatArray
    texels: Texels
    radius_m: float
    """Of the tightest bend, at its inner side."""


@njit(nogil=True, cache=True, error_model="numpy")
def span_at(across_px: float, radius_m: float) -> int:
    """Returns how many pixels lie between two knots: between knots `w` apart a straight line is off by at most w^2 / 8R."""
    most = np.sqrt(8.0 * radius_m * SPAN_ERROR_M)
    span = 16
    while span > 1 and span * across_px > most:
        span >>= 1
    return span


@njit(nogil=True, cache=True, error_model="numpy")
def paint_terrain(
    row: Row,
    mirror: NDArray[np.float32],
    open_: NDArray[np.float32],
    v: int,
    ground: Ground,
    look: Look,
    rays: tuple[FloatArray, FloatArray, FloatArray],
    lens: FloatArray,
    eye: tuple[float, float, float, float],
    shadows: FloatArray,
    scratch: Scratch,
) -> None:
    """Paints row `v`, which lies below the horizon, where `open_` says that something of it is seen. shadows: (K, 6), before the eye."""
    x, y, cosine, sine = eye
    forward, down, left = rays
    focal, height = lens[0], lens[1]
    reach = height / down[v]
    ahead = reach * forward[v]
    pixels = row.shape[1]
    hazy = f(1.0 - np.exp(-look.extinction_per_m * ahead))
    if ahead > GROUND_M or hazy > 0.995:
        row[0, :], row[1, :], row[2, :] = look.air_red, look.air_green, look.air_blue
        mirror[:] = 0.0
        return
    across_px = reach / focal
    along_px = reach * reach / (height * focal)
    span = span_at(across_px, ground.radius_m)
    sine_down = down[v] / np.sqrt(down[v] * down[v] + forward[v] * forward[v])
    grazing = (1.0 - sine_down) ** 5
    for start in range(0, pixels, CHUNK):
        stop = min(start + CHUNK, pixels)
        seen = np.float32(0.0)
        for k in range(start, stop):
            seen = max(seen, open_[k])
        if seen < 0.01:
            continue
        side = reach * left[start]
        foot_x = x + ahead * cosine - side * sine
        foot_y = y + ahead * sine + side * cosine
        nearest = _look_at_knots(
            scratch, ground, look, foot_x, foot_y, ahead, side, cosine, sine, across_px, along_px, span, left[start], focal
        )
        _spread(scratch, span, 0, _SPREAD)
        _patches(scratch, ground.texels, foot_x, foot_y, cosine, sine, across_px, along_px)
        _grain(scratch, ground.texels, foot_x, foot_y, across_px * sine, -across_px * cosine, across_px, along_px)
        _shade(scratch, ground.section, look, nearest, grazing)
        for k in range(len(shadows)):
            shade_mover(scratch, shadows[k], ahead, side, across_px)
        light(scratch, look, hazy)
        for c in range(3):
            line = RED + c * CHUNK
            for k in range(stop - start):
                row[c, start + k] = scratch[line + k]
        if look.wet > 0.0:
            for k in range(stop - start):
                mirror[start + k] = scratch[MIRROR + k]


@njit(nogil=True, cache=True, error_model="numpy")
def _shade(scratch: Scratch, section: FloatArray, look: Look, nearest: float, grazing: float) -> None:
    """Paints a chunk, before light falls on it. nearest: how near it comes to the centreline."""
    ramp = section[RAMP_TURN] != 0.0
    shade_grass(scratch, look.snow)
    if look.wet > 0.0:
        for k in range(CHUNK):
            scratch[MIRROR + k] = f(0.0)
    if nearest > section[OUTER] + 2.0 + (_RAMP_REACH_M if ramp else 0.0):
        return
    lay(scratch, section)
    if ramp:
        lay_ramp(scratch, section)
    shade_road(scratch, section, look.night)
    if look.wet > 0.0:
        shade_wet(scratch, look, grazing)
    if look.snow > 0.0:
        shade_snow(scratch, look.snow)


@njit(nogil=True, cache=True, error_model="numpy")
def _look_at_knots(
    scratch: Scratch,
    ground: Ground,
    look: Look,
    x: float,
    y: float,
    ahead: float,
    side: float,
    cosine: float,
    sine: float,
    across_px: float,
    along_px: float,
    span: int,
    left: float,
    focal: float,
) -> float:
    """Fills the knots from the tables; returns the distance of the one nearest to the centreline."""
    nearest = 1e9
    lit = look.headlights > 0.0 or look.fog_lights > 0.0
    for knot in range(CHUNK // span + 1):
        k = knot * span
        px = x + k * across_px * sine
        py = y - k * across_px * cosine
        lateral, s, road_cos, road_sin = locate(ground.nodes, ground.cells, ground.origin, px, py)
        # The pixel's extent across and along the road, from its two edges on the ground.
        view = left - k / focal
        step_x = along_px * (cosine - sine * view)
        step_y = along_px * (sine + cosine * view)
        # Across the view the ground runs along (sine, -cosine), along it along (step_x, step_y).
        width = abs(-road_sin * sine - road_cos * cosine) * across_px + abs(road_cos * step_y - road_sin * step_x) + 1e-4
        length = abs(road_cos * sine - road_sin * cosine) * across_px + abs(road_cos * step_x + road_sin * step_y) + 1e-4
        place = LINES * CHUNK + knot
        scratch[place] = lateral
        scratch[place + _KNOTS] = s
        scratch[place + 2 * _KNOTS] = _shade_at(ground.shade, s, lateral)
        scratch[place + 3 * _KNOTS] = width
        scratch[place + 4 * _KNOTS] = length
        scratch[place + 5 * _KNOTS] = lamp_at(ahead, side - k * across_px, look.headlights, look.fog_lights) if lit else 0.0
        nearest = min(nearest, abs(lateral))
    return nearest


@njit(nogil=True, cache=True, error_model="numpy")
def _smooth(texels: Texels, offset: int, size: int, x: float, y: float) -> float:
    """Returns the noise at a place, bilinear."""
    x0, y0 = np.floor(x), np.floor(y)
    fx, fy = x - x0, y - y0
    mask = size - 1
    column, row = int(x0) & mask, int(y0) & mask
    right, below = (column + 1) & mask, (row + 1) & mask
    a, b = texels[np.uintp(offset + row * size + column)], texels[np.uintp(offset + row * size + right)]
    c, d = texels[np.uintp(offset + below * size + column)], texels[np.uintp(offset + below * size + right)]
    top = a + fx * (b - a)
    value: float = top + fy * (c + fx * (d - c) - top)
    return value


@njit(nogil=True, cache=True, error_model="numpy")
def _shade_at(shade: NDArray[np.uint8], s: float, lateral: float) -> float:
    """Returns the shade at a place beside the road, 0 to 1, bilinear; beyond the map there is none."""
    r, c = (s - FROM_M) * (1.0 / STEP_M), (lateral + HALF_M) * (1.0 / STEP_M)
    if r < 0.0 or c < 0.0 or r >= shade.shape[0] - 1.0 or c >= COLUMNS - 1.0:
        return 0.0
    i, j = int(c), int(r)
    fx, fy = c - i, r - j
    top = shade[j, i] + fx * (np.float64(shade[j, i + 1]) - shade[j, i])
    bottom = shade[j + 1, i] + fx * (np.float64(shade[j + 1, i + 1]) - shade[j + 1, i])
    value: float = (top + fy * (bottom - top)) * (1.0 / 255.0)
    return value


@njit(nogil=True, cache=True, error_model="numpy")
def _patches(scratch: Scratch, texels: Texels, x: float, y: float, cosine: float, sine: float, across_px: float, along_px: float) -> None:
    """Fills the coarse noise, at knots of its own: less than a third of a texel apart."""
    offset, size, scale = level_at(across_px * COARSE_PER_M)
    scale *= COARSE_PER_M
    span = 16
    while span > 1 and span * across_px * scale > 0.3:
        span >>= 1
    # A pixel is longer than it is wide: what the levels do not average along the view, fading does.
    fade = 1.0 / (1.0 + 0.06 * along_px)
    place = LINES * CHUNK + _SPREAD * _KNOTS
    for knot in range(CHUNK // span + 1):
        px = x + knot * span * across_px * sine
        py = y - knot * span * across_px * cosine
        # Turned against the fine noise, so that the two never repeat together.
        scratch[place + knot] = fade * _smooth(texels, offset, size, scale * (px + 0.3 * py), scale * (py - 0.3 * px))
    _spread(scratch, span, _SPREAD, _SPREAD + 1)


@njit(nogil=True, cache=True, error_model="numpy")
def _spread(scratch: Scratch, span: int, first: int, last: int) -> None:  # noqa: PLR0912 - one branch a span, see below
    """Fills lines of the chunk from the knots, linearly; the spans are written out, so that each is a loop of known length."""
    for line in range(first, last):
        knots = LINES * CHUNK + line * _KNOTS
        place = line * CHUNK
        if span == 16:
            for knot in range(CHUNK // 16):
                here = scratch[knots + knot]
                step = (scratch[knots + knot + 1] - here) * f(1.0 / 16.0)
                for k in range(16):
                    scratch[place + knot * 16 + k] = here + step * f(k)
        elif span == 8:
            for knot in range(CHUNK // 8):
                here = scratch[knots + knot]
                step = (scratch[knots + knot + 1] - here) * f(1.0 / 8.0)
                for k in range(8):
                    scratch[place + knot * 8 + k] = here + step * f(k)
        elif span == 4:
            for knot in range(CHUNK // 4):
                here = scratch[knots + knot]
                step = (scratch[knots + knot + 1] - here) * f(1.0 / 4.0)
                for k in range(4):
                    scratch[place + knot * 4 + k] = here + step * f(k)
        elif span == 2:
            for knot in range(CHUNK // 2):
                here = scratch[knots + knot]
                scratch[place + knot * 2] = here
                scratch[place + knot * 2 + 1] = here + (scratch[knots + knot + 1] - here) * f(0.5)
        else:
            for k in range(CHUNK):
                scratch[place + k] = scratch[knots + k]


@njit(nogil=True, cache=True, error_model="numpy")
def _grain(scratch: Scratch, texels: Texels, x: float, y: float, step_x: float, step_y: float, across_px: float, along_px: float) -> None:
    offset, size, scale = level_at(across_px * FINE_PER_M)
    scale *= FINE_PER_M
    fade = np.float32(0.8 / (1.0 + 0.6 * along_px))
    # In whole numbers of a 65536th of a texel, so that the loop has no rounding but this one.
    mask = np.int64(size - 1)
    at_x, at_y = np.int64(np.floor(scale * x * 65536.0)), np.int64(np.floor(scale * y * 65536.0))
    go_x, go_y = np.int64(np.floor(scale * step_x * 65536.0 + 0.5)), np.int64(np.floor(scale * step_y * 65536.0 + 0.5))
    for k in range(CHUNK):
        column = ((at_x + k * go_x) >> 16) & mask
        line = ((at_y + k * go_y) >> 16) & mask
        scratch[GRAIN + k] = fade * texels[np.uintp(offset + line * size + column)]
