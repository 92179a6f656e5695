"""Paints the ground of a scene: grass, shoulders, asphalt, markings, shadows, wetness, snow, lamp light, air.

A row is done in chunks of fixed size. What varies slowly is looked up at knots only and spread between them; the rest is plain
arithmetic, which the compiler turns into vector instructions because the chunk's layout is known to it.
"""

from __future__ import annotations

from math import exp, floor, sqrt

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.worlds.render.chunks import (
    BLUE,
    GRAIN,
    GREEN,
    LINES,
    MIRROR,
    PATCH,
    RED,
    lay,
    light,
    shade_grass,
    shade_mover,
    shade_road,
    shade_snow,
    shade_wet,
)
from skidpad.worlds.render.compiling import CHUNK, Scratch, uncounted
from skidpad.worlds.render.roadtable import SPAN_M, Ground, comes_near, knot_at, lamp_chunk, place_chunk, shade_chunk, span_at, straight
from skidpad.worlds.render.strips import BACK_BLUE, BACK_GREEN, BACK_RED, PITCH, hidden
from skidpad.worlds.render.strips import MIRROR as MIRRORS
from skidpad.worlds.render.surface import OUTER, RAMP_TURN, f, whole
from skidpad.worlds.render.texture import Texels, level_at
from skidpad.worlds.render.weather import Look

SCRATCH = LINES * CHUNK
"""How many values of scratch a row needs; zero at first."""
GROUND_M = 3000.0
FINE_PER_M, COARSE_PER_M = 22.0, 2.3
"""Texels of the noise to a metre of ground."""
RAMP_REACH_M = 60.0
"""A ramp is seen so far beside the road."""


@uncounted
def paint_terrain(
    strips: Scratch,
    v: int,
    ground: Ground,
    look: Look,
    rays: tuple[FloatArray, FloatArray, FloatArray],
    lens: FloatArray,
    eye: tuple[float, float, float, float],
    shadows: FloatArray,
    scratch: Scratch,
) -> None:
    """Paints row `v`, which lies below the horizon, where the strips leave something of it to see. shadows: (K, 6), before the eye."""
    x, y, cosine, sine = eye
    forward, down, left = rays
    focal, height = lens[0], lens[1]
    reach = height / down[v]
    ahead = reach * forward[v]
    hazy = f(1.0 - exp(-look.extinction_per_m * ahead))
    if ahead > GROUND_M or hazy > 0.995:
        _fill_with_air(strips, look)
        return
    across_px = reach / focal
    along_px = reach * reach / (height * focal)
    steps = (cosine, sine, across_px, along_px)
    span = span_at(across_px, SPAN_M, CHUNK)
    lit = look.headlights > 0.0 or look.fog_lights > 0.0
    sine_down = down[v] / sqrt(down[v] * down[v] + forward[v] * forward[v])
    grazing = (1.0 - sine_down) ** 5
    known = -1
    knot = (f(0.0), 0.0, f(0.0), f(0.0), f(0.0), f(0.0))
    for chunk in range(len(strips) // PITCH):
        at, start = np.uintp(chunk * PITCH), chunk * CHUNK
        if hidden(strips, at):
            continue
        side = reach * left[start]
        foot_x = x + ahead * cosine - side * sine
        foot_y = y + ahead * sine + side * cosine
        if known != start:
            knot = knot_at(ground, foot_x, foot_y, left[start], steps)
        knot = place_chunk(scratch, ground, foot_x, foot_y, left[start], focal, steps, span, knot)
        known = start + CHUNK
        shade_chunk(scratch, ground, across_px, knot)
        if lit:
            lamp_chunk(scratch, ahead, side, across_px, look.headlights, look.fog_lights)
        _patches(scratch, ground.texels, foot_x, foot_y, cosine, sine, across_px, along_px)
        _grain(scratch, ground.texels, foot_x, foot_y, across_px * sine, -across_px * cosine, across_px, along_px)
        _shade(scratch, ground.section, look, grazing)
        for k in range(len(shadows)):
            shade_mover(scratch, shadows[k], ahead, side, across_px)
        light(scratch, look, hazy)
        for k in range(CHUNK):
            strips[at + np.uintp(BACK_RED + k)] = scratch[RED + k]
        for k in range(CHUNK):
            strips[at + np.uintp(BACK_GREEN + k)] = scratch[GREEN + k]
        for k in range(CHUNK):
            strips[at + np.uintp(BACK_BLUE + k)] = scratch[BLUE + k]
        if look.wet > 0.0:
            for k in range(CHUNK):
                strips[at + np.uintp(MIRRORS + k)] = scratch[MIRROR + k]


@uncounted
def _fill_with_air(strips: Scratch, look: Look) -> None:
    """Paints a row so far away that nothing of it is left."""
    red, green, blue = f(look.air_red), f(look.air_green), f(look.air_blue)
    for start in range(0, len(strips), PITCH):
        at = np.uintp(start)
        for k in range(CHUNK):
            strips[at + np.uintp(BACK_RED + k)], strips[at + np.uintp(BACK_GREEN + k)] = red, green
            strips[at + np.uintp(BACK_BLUE + k)], strips[at + np.uintp(MIRRORS + k)] = blue, f(0.0)


@uncounted
def _shade(scratch: Scratch, section: FloatArray, look: Look, grazing: float) -> None:
    """Paints a chunk, before light falls on it."""
    ramp = section[RAMP_TURN] != 0.0
    shade_grass(scratch, look.snow)
    if look.wet > 0.0:
        for k in range(CHUNK):
            scratch[MIRROR + k] = f(0.0)
    if not comes_near(scratch, f(section[OUTER] + 2.0 + (RAMP_REACH_M if ramp else 0.0))):
        return
    lay(scratch, section)
    shade_road(scratch, section, look.night)
    if look.wet > 0.0:
        shade_wet(scratch, look, grazing)
    if look.snow > 0.0:
        shade_snow(scratch, look.snow)


@uncounted
def smooth(texels: Texels, offset: int, size: int, x: float, y: float) -> float:
    """Returns the noise at a place, bilinear."""
    x0, y0 = whole(floor(x)), whole(floor(y))
    fx, fy = f(x - x0), f(y - y0)
    mask = size - 1
    column, row = x0 & mask, y0 & mask
    right, below = (column + 1) & mask, (row + 1) & mask
    a, b = texels[np.uintp(offset + row * size + column)], texels[np.uintp(offset + row * size + right)]
    c, d = texels[np.uintp(offset + below * size + column)], texels[np.uintp(offset + below * size + right)]
    top = a + fx * (b - a)
    value: float = top + fy * (c + fx * (d - c) - top)
    return value


@uncounted
def _patches(scratch: Scratch, texels: Texels, x: float, y: float, cosine: float, sine: float, across_px: float, along_px: float) -> None:
    """Fills the coarse noise, straight between knots that are at most half a texel apart."""
    offset, size, scale = level_at(across_px * COARSE_PER_M)
    scale *= COARSE_PER_M
    span = span_at(across_px * scale, 0.5, 16)
    # A pixel is longer than it is wide: what the levels do not average along the view, fading does.
    fade = 1.0 / (1.0 + 0.06 * along_px)
    # Turned against the fine noise, so that the two never repeat together.
    at_x, at_y = scale * (x + 0.3 * y), scale * (y - 0.3 * x)
    go_x, go_y = scale * across_px * (sine - 0.3 * cosine), -scale * across_px * (cosine + 0.3 * sine)
    here = f(fade * smooth(texels, offset, size, at_x, at_y))
    for start in range(0, CHUNK, span):
        k = start + span
        there = f(fade * smooth(texels, offset, size, at_x + k * go_x, at_y + k * go_y))
        straight(scratch, PATCH + start, span, here, there)
        here = there


@uncounted
def _grain(scratch: Scratch, texels: Texels, x: float, y: float, step_x: float, step_y: float, across_px: float, along_px: float) -> None:
    offset, size, scale = level_at(across_px * FINE_PER_M)
    scale *= FINE_PER_M
    fade = np.float32(0.8 / (1.0 + 0.6 * along_px))
    # In whole numbers of a 65536th of a texel, so that the loop has no rounding but this one.
    mask = np.int64(size - 1)
    at_x, at_y = whole(floor(scale * x * 65536.0)), whole(floor(scale * y * 65536.0))
    go_x, go_y = whole(floor(scale * step_x * 65536.0 + 0.5)), whole(floor(scale * step_y * 65536.0 + 0.5))
    for k in range(CHUNK):
        column = ((at_x + k * go_x) >> 16) & mask
        line = ((at_y + k * go_y) >> 16) & mask
        scratch[GRAIN + k] = fade * texels[np.uintp(offset + line * size + column)]
