"""How the ground looks, pixel by pixel: loops over the lines of a chunk that become vector instructions.

A chunk has LINES lines of CHUNK values in one flat array; each loop reads some lines and writes others. `torch_terrain` does the same
arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numba import njit

from skidpad.core.images import FloatArray
from skidpad.worlds.canvas import CHUNK, Scratch
from skidpad.worlds.weather import Look

LINES = 17
(LATERAL, ALONG, SHADE, WIDTH, LENGTH, LAMP, PATCH, GRAIN, RED, GREEN, BLUE, MIRROR, PAVING, GRAVEL, SOLID, EXTRA, WHEELS) = (
    n * CHUNK for n in range(LINES)
)
"""Lateral position, distance along the road, shade, the pixel's extent across and along the road, lamp light; coarse and fine noise;
the colour; how much it mirrors; shares of asphalt and gravel, of edge lines and the side lane's lines; wheel tracks."""

LINE_M = 0.15
DASH_M, PERIOD_M = 3.0, 9.0

EDGE, PAVED, OUTER, LANE, LANES, RAMP_START, RAMP_TURN, RAMP_PARALLEL, RAMP_TAPER, RAMP_LEAVING = range(10)
"""Columns of a section: half widths to the edge line, the end of the asphalt, the end of the shoulder; the width of a lane and how many;
the side lane's start, 1 for an entry, -1 for an exit or 0, its parallel length, its taper, how it leaves."""

f = cast("Callable[[float], float]", np.float32)
"""Numbers in the loops over pixels are single: a plain literal would make the compiler compute in double."""
_LINE, _HALF_LINE = f(LINE_M), f(0.5 * LINE_M)


@njit(nogil=True, cache=True, error_model="numpy")
def unit(value: float) -> float:
    """Limits a value to [0, 1]."""
    return min(max(value, f(0.0)), f(1.0))


@njit(nogil=True, cache=True, error_model="numpy")
def shade_grass(scratch: Scratch, snow: float) -> None:
    """Paints grass, dry in patches, under snow."""
    white = min(f(snow) * f(1.9), f(1.0))
    for k in range(CHUNK):
        patch, grain = scratch[PATCH + k], scratch[GRAIN + k]
        dry = unit(f(0.42) + f(1.1) * patch)
        lit = f(1.0) + f(0.42) * grain + f(0.18) * patch
        cover = unit(f(3.0) * (white - f(0.55)) + f(1.2) * grain + f(1.6) * patch + f(0.35)) * white
        bright = f(1.0) + f(0.05) * grain + f(0.05) * patch
        red, green, blue = (f(74.0) + f(52.0) * dry) * lit, (f(104.0) + f(24.0) * dry) * lit, (f(44.0) + f(16.0) * dry) * lit
        scratch[RED + k] = red + (f(226.0) * bright - red) * cover
        scratch[GREEN + k] = green + (f(230.0) * bright - green) * cover
        scratch[BLUE + k] = blue + (f(237.0) * bright - blue) * cover


@njit(nogil=True, cache=True, error_model="numpy")
def _stripe(position: float, low: float, high: float, width: float) -> float:
    """The share of a box of `width` around `position` that lies in [low, high]."""
    return unit((min(high, position + f(0.5) * width) - max(low, position - f(0.5) * width)) / width)


@njit(nogil=True, cache=True, error_model="numpy")
def _dashes(s: float, length: float, dash: float, period: float) -> float:
    """The share of dashes in a box of `length` around `s`."""
    a, b = s - f(0.5) * length, s + f(0.5) * length
    low, high = np.floor(a / period), np.floor(b / period)
    before = low * dash + min(a - low * period, dash)
    after = high * dash + min(b - high * period, dash)
    value: float = (after - before) / length
    return value


@njit(nogil=True, cache=True, error_model="numpy")
def lay(scratch: Scratch, section: FloatArray) -> None:
    """Finds how much of each pixel is paved or gravel, and the main road's edge lines that an entry or exit interrupts."""
    edge, paved, outer = f(section[EDGE]), f(section[PAVED]), f(section[OUTER])
    for k in range(CHUNK):
        off, width, grain = abs(scratch[LATERAL + k]), scratch[WIDTH + k], scratch[GRAIN + k]
        scratch[PAVING + k] = _stripe(off, f(-1.0), paved + f(0.1) * grain, width + f(0.05))
        scratch[GRAVEL + k] = _stripe(off, f(-1.0), outer + f(0.5) * grain + f(0.35) * scratch[PATCH + k], width + f(0.5))
        scratch[SOLID + k] = _stripe(off, edge - _LINE, edge, width)
        scratch[EXTRA + k] = f(0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def lay_ramp(scratch: Scratch, section: FloatArray) -> None:
    """Adds the side lane to what `_lay` found."""
    edge, margin, outer, lane = f(section[EDGE]), f(section[PAVED] - section[EDGE]), f(section[OUTER] - section[EDGE]), f(section[LANE])
    turn, start = f(section[RAMP_TURN]), f(section[RAMP_START])
    parallel, taper, leaving = f(section[RAMP_PARALLEL]), f(section[RAMP_TAPER]), f(section[RAMP_LEAVING])
    for k in range(CHUNK):
        width, grain, s = scratch[WIDTH + k], scratch[GRAIN + k], scratch[ALONG + k]
        along = turn * (s - start)
        before = min(along, f(0.0))
        gap = leaving * before * before
        wide = lane * unit((parallel + taper - along) / taper)
        right = -scratch[LATERAL + k] - edge
        there = unit(wide * f(4.0))
        end = gap + wide
        # The paved margin goes along with the ramp, at both its sides.
        paving = _stripe(right, gap - margin, end + margin + f(0.1) * grain, width + f(0.05))
        gravel = _stripe(right, gap - margin - f(1.0), end + outer + f(0.5) * grain + f(0.35) * scratch[PATCH + k], width + f(0.5))
        scratch[PAVING + k] = max(scratch[PAVING + k], there * paving)
        scratch[GRAVEL + k] = max(scratch[GRAVEL + k], there * gravel)
        at_right = unit(right + edge)
        gaps = f(1.0) - _dashes(s, scratch[LENGTH + k], f(3.0), f(6.0))
        scratch[SOLID + k] *= f(1.0) - gaps * there * unit(along + f(0.5)) * at_right
        apart = unit(gap * f(3.0) - f(0.3))
        scratch[EXTRA + k] = there * (_stripe(right, end - _LINE, end, width) + apart * _stripe(right, gap, gap + _LINE, width))


@njit(nogil=True, cache=True, error_model="numpy")
def shade_road(scratch: Scratch, section: FloatArray, night: float) -> None:
    """Paints gravel, asphalt and markings: white at the edges and between lanes, yellow in the middle."""
    lane, lanes = f(section[LANE]), f(section[LANES])
    several = lanes > f(1.5)
    shine = f(0.8) * f(night)
    for k in range(CHUNK):
        patch, lateral, s = scratch[PATCH + k], scratch[LATERAL + k], scratch[ALONG + k]
        width, length, grain = scratch[WIDTH + k], scratch[LENGTH + k], scratch[GRAIN + k]
        red, green, blue = scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k]
        paving, gravel = scratch[PAVING + k], scratch[GRAVEL + k]
        off = abs(lateral)
        stone = f(1.0) + f(0.5) * grain
        red += (f(148.0) * stone - red) * gravel
        green += (f(136.0) * stone - green) * gravel
        blue += (f(114.0) * stone - blue) * gravel
        in_lane = off - lane * (np.floor(off / lane) + f(0.5))
        wheels = unit(f(1.6) - f(2.5) * abs(abs(in_lane) - f(0.8)))
        tar = f(1.0) + f(0.30) * grain + f(0.16) * patch - f(0.07) * wheels
        red += (f(102.0) * tar - red) * paving
        green += (f(102.0) * tar - green) * paving
        blue += (f(106.0) * tar - blue) * paving
        # Markings send back what the lamps throw on them.
        wear = (f(1.0) + f(0.25) * grain) * (f(1.0) + shine * scratch[LAMP + k])
        white = f(0.92) * min(scratch[SOLID + k] + scratch[EXTRA + k], f(1.0))
        dashes = _dashes(s, length, f(DASH_M), f(PERIOD_M))
        if several:
            line = np.floor(off / lane + f(0.5))
            inside = unit(line) * unit(lanes - line)
            between = _stripe(off - lane * line, -_HALF_LINE, _HALF_LINE, width)
            white = max(white, f(0.92) * dashes * between * inside)
            yellow = f(0.95) * _stripe(off, f(0.08), f(0.08) + _LINE, width)
        else:
            yellow = f(0.95) * dashes * _stripe(lateral, -_HALF_LINE, _HALF_LINE, width)
        red += (f(232.0) * wear - red) * white
        green += (f(232.0) * wear - green) * white
        blue += (f(226.0) * wear - blue) * white
        scratch[RED + k] = red + (f(240.0) * wear - red) * yellow
        scratch[GREEN + k] = green + (f(190.0) * wear - green) * yellow
        scratch[BLUE + k] = blue + (f(62.0) * wear - blue) * yellow
        scratch[WHEELS + k] = wheels


@njit(nogil=True, cache=True, error_model="numpy")
def shade_wet(scratch: Scratch, look: Look, grazing: float) -> None:
    """Darkens a wet road and lets it mirror the sky, puddles more than the rest."""
    wet, mirrors = f(look.wet), f(0.04 + 0.9 * grazing)
    air_red, air_green, air_blue = f(look.air_red), f(look.air_green), f(look.air_blue)
    for k in range(CHUNK):
        paving = scratch[PAVING + k]
        dark = f(1.0) - f(0.38) * wet * paving * (f(0.75) + f(0.25) * scratch[WHEELS + k])
        puddle = unit((scratch[PATCH + k] - f(0.12)) * f(5.0))
        film = wet * paving * mirrors * (f(0.45) + f(0.55) * puddle)
        red, green, blue = dark * scratch[RED + k], dark * scratch[GREEN + k], dark * scratch[BLUE + k]
        scratch[RED + k] = red + (air_red - red) * film
        scratch[GREEN + k] = green + (air_green - green) * film
        scratch[BLUE + k] = blue + (air_blue - blue) * film
        scratch[MIRROR + k] = wet * paving * (f(0.16) + f(0.5) * mirrors) * (f(0.6) + f(0.4) * puddle)


@njit(nogil=True, cache=True, error_model="numpy")
def shade_snow(scratch: Scratch, snow: float) -> None:
    """Lays snow between the wheel tracks first, and on the tracks when it is deep."""
    some = unit(f(snow) * f(20.0))
    deep = f(2.2) * f(snow) - f(0.75)
    for k in range(CHUNK):
        patch, grain, paving = scratch[PATCH + k], scratch[GRAIN + k], scratch[PAVING + k]
        cover = some * paving * unit(deep + f(1.1) * patch + f(0.5) * grain - f(0.55) * scratch[WHEELS + k])
        cover = max(cover, some * unit(f(2.0) * f(snow) + f(0.4) * grain) * (scratch[GRAVEL + k] - paving))
        red, green, blue = scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k]
        scratch[RED + k] = red + (f(218.0) - red) * cover
        scratch[GREEN + k] = green + (f(223.0) - green) * cover
        scratch[BLUE + k] = blue + (f(231.0) - blue) * cover


@njit(nogil=True, cache=True, error_model="numpy")
def shade_mover(scratch: Scratch, shadow: FloatArray, ahead: float, side: float, across_px: float) -> None:
    """Darkens a soft rectangle. shadow: ahead and left of the eye, direction, half length, half width."""
    reach = shadow[4] + shadow[5] + 1.0
    if abs(ahead - shadow[0]) > reach or shadow[1] > side + reach or shadow[1] < side - CHUNK * across_px - reach:
        return
    soft = f(0.45) if shadow[4] > 1.0 else f(0.15)
    dx = f(ahead - shadow[0])
    cos, sin = f(shadow[2]), f(shadow[3])
    half_a, half_b = f(shadow[4]), f(shadow[5])
    first = f(side - shadow[1])
    step = f(across_px)
    for k in range(CHUNK):
        dy = first - f(k) * step
        a, b = abs(dx * cos + dy * sin), abs(dy * cos - dx * sin)
        dark = f(0.72) * unit((half_a - a) / soft + f(0.5)) * unit((half_b - b) / soft + f(0.5))
        for c in range(3):
            scratch[RED + c * CHUNK + k] *= f(1.0) - dark
        scratch[MIRROR + k] *= f(1.0) - dark


@njit(nogil=True, cache=True, error_model="numpy")
def light(scratch: Scratch, look: Look, haze: float) -> None:
    """Lights what lies in sun or shade or before the lamps, and fades what lies far."""
    ambient = (f(look.ambient_red), f(look.ambient_green), f(look.ambient_blue))
    sun = (f(look.sun_red), f(look.sun_green), f(look.sun_blue))
    lamps = (f(look.lamp_red), f(look.lamp_green), f(look.lamp_blue))
    air = (f(look.air_red), f(look.air_green), f(look.air_blue))
    for c in range(3):
        line = RED + c * CHUNK
        here, direct, lamp, fog = ambient[c], sun[c], lamps[c], air[c]
        for k in range(CHUNK):
            value = scratch[line + k] * (here + direct * (f(1.0) - scratch[SHADE + k]) + lamp * scratch[LAMP + k])
            scratch[line + k] = value + (fog - value) * haze
