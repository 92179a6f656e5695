"""Paints the ground: grass, shoulders, asphalt, markings, and the shadows on them.

A row is done in chunks of fixed size, in two passes: one that gathers from tables, and one of plain arithmetic, which
the compiler turns into vector instructions because the chunk's layout is known to it.
"""

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.canvas import HAZE_BLUE, HAZE_GREEN, HAZE_RED, Canvas, Row, haze_at, unit
from skidpad.worlds.frenet import look_up
from skidpad.worlds.texture import level_at, sample

CHUNK = 64
Chunk: TypeAlias = NDArray[np.float32]
CHUNK_LINES = 10
"""Grain, patch, lateral position, distance, shade, its gradient in x and y; red, green, blue."""

_GROUND_M = 4000.0
_LINE_M = 0.15
_DASH_M = 3.0
_PERIOD_M = 9.0
_FINE_PER_M = 22.0
"""Texels of the noise to a metre of ground."""
_COARSE_PER_M = 2.3


@njit(nogil=True, cache=True, error_model="numpy")
def paint_ground(row: Row, v: int, canvas: Canvas, x: float, y: float, cosine: float, sine: float, chunk: Chunk) -> None:
    """Paints row `v`, which lies below the horizon. chunk: scratch of CHUNK_LINES * CHUNK values."""
    focal, height = canvas.lens[0], canvas.lens[1]
    reach = height / canvas.down[v]
    ahead = reach * canvas.forward[v]
    if ahead > _GROUND_M:
        for u in range(len(row)):
            row[u, 0], row[u, 1], row[u, 2] = HAZE_RED, HAZE_GREEN, HAZE_BLUE
        return
    # A pixel's extent on the ground, across the view and along it.
    across_px = reach / focal
    along_px = reach * reach / (height * focal)
    outer = canvas.section[2] + 2.0
    for start in range(0, len(row), CHUNK):
        stop = min(start + CHUNK, len(row))
        side = reach * canvas.left[start]
        foot_x = x + ahead * cosine - side * sine
        foot_y = y + ahead * sine + side * cosine
        nearest = _gather(chunk, canvas, foot_x, foot_y, across_px * sine, -across_px * cosine, across_px, along_px)
        _shade_grass(chunk)
        if nearest < outer:
            _shade_road(chunk, canvas.section, canvas.left[start], cosine, sine, across_px, along_px, focal)
        _light(chunk, haze_at(ahead))
        for k in range(stop - start):
            row[start + k, 0] = chunk[7 * CHUNK + k]
            row[start + k, 1] = chunk[8 * CHUNK + k]
            row[start + k, 2] = chunk[9 * CHUNK + k]


@njit(nogil=True, cache=True, error_model="numpy")
def _gather(chunk: Chunk, canvas: Canvas, x: float, y: float, step_x: float, step_y: float, across_px: float, along_px: float) -> float:
    """Fills the first seven lines from the tables; returns the distance of the pixel nearest to the centreline."""
    fine_offset, fine_size, fine_scale = level_at(across_px * _FINE_PER_M)
    coarse_offset, coarse_size, coarse_scale = level_at(across_px * _COARSE_PER_M)
    fine_scale *= _FINE_PER_M
    coarse_scale *= _COARSE_PER_M
    # A pixel is longer than it is wide: what the levels do not average along the view, fading does.
    fine = 1.0 / (1.0 + 0.6 * along_px)
    coarse = 1.0 / (1.0 + 0.06 * along_px)
    texels, tiles, directory = canvas.texels, canvas.tiles, canvas.directory
    origin_x, origin_y = canvas.origin[0], canvas.origin[1]
    nearest = 1e9
    for k in range(CHUNK):
        px = x + k * step_x
        py = y + k * step_y
        chunk[k] = fine * sample(texels, fine_offset, fine_size, fine_scale * px, fine_scale * py)
        # Turned against the fine one, so that the two never repeat together.
        turned_x, turned_y = coarse_scale * (px + 0.3 * py), coarse_scale * (py - 0.3 * px)
        chunk[CHUNK + k] = coarse * sample(texels, coarse_offset, coarse_size, turned_x, turned_y)
        lateral, s, shade, slope_x, slope_y = look_up(tiles, directory, px - origin_x, py - origin_y)
        chunk[2 * CHUNK + k] = lateral
        chunk[3 * CHUNK + k] = s
        chunk[4 * CHUNK + k] = shade
        chunk[5 * CHUNK + k] = slope_x
        chunk[6 * CHUNK + k] = slope_y
        nearest = min(nearest, abs(lateral))
    return nearest


@njit(nogil=True, cache=True, error_model="numpy")
def _shade_grass(chunk: Chunk) -> None:
    for k in range(CHUNK):
        grain, patch = chunk[k], chunk[CHUNK + k]
        dry = unit(0.42 + 1.1 * patch)
        lit = 1.0 + 0.42 * grain + 0.18 * patch
        chunk[7 * CHUNK + k] = (74.0 + 52.0 * dry) * lit
        chunk[8 * CHUNK + k] = (104.0 + 24.0 * dry) * lit
        chunk[9 * CHUNK + k] = (44.0 + 16.0 * dry) * lit


@njit(nogil=True, cache=True, error_model="numpy")
def _stripe(position: float, low: float, high: float, width: float) -> float:
    """The share of a box of `width` around `position` that lies in [low, high]."""
    return unit((min(high, position + 0.5 * width) - max(low, position - 0.5 * width)) / width)


@njit(nogil=True, cache=True, error_model="numpy")
def _dashes_until(s: float) -> float:
    """How many metres of dash there are before `s`."""
    period = np.floor(s * (1.0 / _PERIOD_M))
    metres: float = period * _DASH_M + min(s - period * _PERIOD_M, _DASH_M)
    return metres


@njit(nogil=True, cache=True, error_model="numpy")
def _shade_road(
    chunk: Chunk, section: FloatArray, left: float, cosine: float, sine: float, across_px: float, along_px: float, focal: float
) -> None:
    edge, paved, outer = section[0], section[1], section[2]
    for k in range(CHUNK):
        grain, patch, lateral, s = chunk[k], chunk[CHUNK + k], chunk[2 * CHUNK + k], chunk[3 * CHUNK + k]
        slope_x, slope_y = chunk[5 * CHUNK + k], chunk[6 * CHUNK + k]
        red, green, blue = chunk[7 * CHUNK + k], chunk[8 * CHUNK + k], chunk[9 * CHUNK + k]
        off = abs(lateral)
        # The pixel's extent across and along the road, from its two edges on the ground.
        view = left - k / focal
        step_x = along_px * (cosine - sine * view)
        step_y = along_px * (sine + cosine * view)
        width = abs(slope_x * sine - slope_y * cosine) * across_px + abs(slope_x * step_x + slope_y * step_y) + 1e-4
        length = abs(slope_y * sine + slope_x * cosine) * across_px + abs(slope_y * step_x - slope_x * step_y) + 1e-4
        gravel = unit((outer + 0.5 * grain + 0.35 * patch - off) / (width + 0.5) + 0.5)
        stone = 1.0 + 0.5 * grain
        red += (148.0 * stone - red) * gravel
        green += (136.0 * stone - green) * gravel
        blue += (114.0 * stone - blue) * gravel
        asphalt = unit((paved + 0.1 * grain - off) / (width + 0.05) + 0.5)
        wheels = unit(1.6 - 2.5 * abs(abs(off - 0.5 * edge) - 0.8))
        tar = 1.0 + 0.30 * grain + 0.16 * patch - 0.07 * wheels
        red += (102.0 * tar - red) * asphalt
        green += (102.0 * tar - green) * asphalt
        blue += (106.0 * tar - blue) * asphalt
        wear = 1.0 + 0.25 * grain
        white = 0.92 * _stripe(off, edge - _LINE_M, edge, width)
        red += (232.0 * wear - red) * white
        green += (232.0 * wear - green) * white
        blue += (226.0 * wear - blue) * white
        dashes = (_dashes_until(s + 0.5 * length) - _dashes_until(s - 0.5 * length)) / length
        yellow = 0.95 * dashes * _stripe(lateral, -0.5 * _LINE_M, 0.5 * _LINE_M, width)
        red += (240.0 * wear - red) * yellow
        green += (190.0 * wear - green) * yellow
        blue += (62.0 * wear - blue) * yellow
        chunk[7 * CHUNK + k] = red
        chunk[8 * CHUNK + k] = green
        chunk[9 * CHUNK + k] = blue


@njit(nogil=True, cache=True, error_model="numpy")
def _light(chunk: Chunk, haze: float) -> None:
    """Darkens what lies in shade, a little towards blue, and fades what lies far."""
    for k in range(CHUNK):
        shade = chunk[4 * CHUNK + k]
        red = chunk[7 * CHUNK + k] * (1.0 - 0.56 * shade)
        green = chunk[8 * CHUNK + k] * (1.0 - 0.52 * shade)
        blue = chunk[9 * CHUNK + k] * (1.0 - 0.42 * shade)
        chunk[7 * CHUNK + k] = red + (HAZE_RED - red) * haze
        chunk[8 * CHUNK + k] = green + (HAZE_GREEN - green) * haze
        chunk[9 * CHUNK + k] = blue + (HAZE_BLUE - blue) * haze
