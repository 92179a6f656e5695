"""How the ground looks at one pixel: grass, shoulders, asphalt, markings, wetness, snow, shade, lamp light, air.

Plain arithmetic in single precision without branches, for both renderers: on the CPU these functions stand in loops over the pixels of a
chunk (`chunks`), which become vector instructions; on a GPU every pixel calls them for itself (`pixels`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np

from skidpad.worlds.render.compiling import inlined

LINE_M = 0.15
DASH_M, PERIOD_M = 3.0, 9.0
_RAMP_DASH_M, _RAMP_PERIOD_M = 3.0, 6.0

EDGE, PAVED, OUTER, LANE, LANES, RAMP_START, RAMP_TURN, RAMP_PARALLEL, RAMP_TAPER, RAMP_LEAVING = range(10)
"""Columns of a section: half widths to the edge line, the end of the asphalt, the end of the shoulder; the width of a lane and how many;
the side lane's start, 1 for an entry, -1 for an exit or 0, its parallel length, its taper, how it leaves."""

Colour: TypeAlias = tuple[float, float, float]
Ramp: TypeAlias = tuple[float, float, float, float, float, float, float, float, float]
"""A section's numbers for its side lane: edge, margin, outer, lane, turn, start, parallel, taper, leaving."""

f = cast("Callable[[float], float]", np.float32)
"""Numbers of a pixel are single: a plain literal would make the compiler compute in double."""
whole = cast("Callable[[float], int]", np.int64)
short = cast("Callable[[float], int]", np.int32)
"""Whole numbers; of 32 bits where vectors are wanted, twice as many of which fit into one."""
_LINE, _HALF_LINE = f(LINE_M), f(0.5 * LINE_M)


@inlined
def unit(value: float) -> float:
    """Limits a value to [0, 1]."""
    return min(max(value, f(0.0)), f(1.0))


@inlined
def floored(value: float) -> float:
    """Returns the whole number below; by a way that CPU and GPU have in common."""
    whole = f(short(value))
    return whole - f(1.0) if whole > value else whole


@inlined
def mixed(value: float, other: float, share: float) -> float:
    """Returns so much of the other."""
    return value + (other - value) * share


@inlined
def part(position: float, low: float, high: float, width: float, per_width: float) -> float:
    """The share of a box of `width` around `position` that lies in [low, high]. per_width: one over the width."""
    return unit((min(high, position + f(0.5) * width) - max(low, position - f(0.5) * width)) * per_width)


@inlined
def dashed(s: float, length: float, per_length: float, dash: float, period: float) -> float:
    """The share of dashes in a box of `length` around `s`."""
    a, b, per_period = s - f(0.5) * length, s + f(0.5) * length, f(1.0) / period
    low, high = floored(a * per_period), floored(b * per_period)
    before = low * dash + min(a - low * period, dash)
    after = high * dash + min(b - high * period, dash)
    return (after - before) * per_length


@inlined
def grass(patch: float, grain: float, white: float) -> Colour:
    """Grass, dry in patches, under snow. white: how much snow lies on it, 0 to 1."""
    dry = unit(f(0.42) + f(1.1) * patch)
    lit = f(1.0) + f(0.42) * grain + f(0.18) * patch
    cover = unit(f(3.0) * (white - f(0.55)) + f(1.2) * grain + f(1.6) * patch + f(0.35)) * white
    bright = f(1.0) + f(0.05) * grain + f(0.05) * patch
    return (
        mixed((f(74.0) + f(52.0) * dry) * lit, f(226.0) * bright, cover),
        mixed((f(104.0) + f(24.0) * dry) * lit, f(230.0) * bright, cover),
        mixed((f(44.0) + f(16.0) * dry) * lit, f(237.0) * bright, cover),
    )


@inlined
def laid(lateral: float, width: float, grain: float, patch: float, edge: float, paved: float, outer: float) -> Colour:
    """Returns how much of a pixel is paved, is gravel or asphalt, and is the main road's edge line."""
    off = abs(lateral)
    tar, stones = width + f(0.05), width + f(0.5)
    return (
        part(off, f(-1.0), paved + f(0.1) * grain, tar, f(1.0) / tar),
        part(off, f(-1.0), outer + f(0.5) * grain + f(0.35) * patch, stones, f(1.0) / stones),
        part(off, edge - _LINE, edge, width, f(1.0) / width),
    )


@inlined
def laid_beside(
    lateral: float, s: float, width: float, length: float, grain: float, patch: float, ramp: Ramp
) -> tuple[float, float, float, float]:
    """Returns what a side lane paves and gravels, how much of the main road's edge line it leaves, and its own lines."""
    edge, margin, outer, lane, turn, start, parallel, taper, leaving = ramp
    along = turn * (s - start)
    before = min(along, f(0.0))
    gap = leaving * before * before
    wide = lane * unit((parallel + taper - along) / taper)
    right = -lateral - edge
    there = unit(wide * f(4.0))
    end = gap + wide
    tar, stones, per_width = width + f(0.05), width + f(0.5), f(1.0) / width
    # The paved margin goes along with the ramp, at both its sides.
    paving = part(right, gap - margin, end + margin + f(0.1) * grain, tar, f(1.0) / tar)
    gravel = part(right, gap - margin - f(1.0), end + outer + f(0.5) * grain + f(0.35) * patch, stones, f(1.0) / stones)
    gaps = f(1.0) - dashed(s, length, f(1.0) / length, f(_RAMP_DASH_M), f(_RAMP_PERIOD_M))
    apart = unit(gap * f(3.0) - f(0.3))
    lines = part(right, end - _LINE, end, width, per_width) + apart * part(right, gap, gap + _LINE, width, per_width)
    return there * paving, there * gravel, f(1.0) - gaps * there * unit(along + f(0.5)) * unit(right + edge), there * lines


@inlined
def road(
    below: Colour,
    paving: float,
    gravel: float,
    lines: float,
    lateral: float,
    s: float,
    width: float,
    length: float,
    patch: float,
    grain: float,
    lamp: float,
    lane: float,
    lanes: float,
    shine: float,
) -> tuple[float, float, float, float]:
    """Gravel, asphalt and markings over what lies below: white at the edges and between lanes, yellow in the middle; and wheel tracks."""
    off = abs(lateral)
    stone = f(1.0) + f(0.5) * grain
    per_lane, per_width = f(1.0) / lane, f(1.0) / width
    in_lane = off - lane * (floored(off * per_lane) + f(0.5))
    wheels = unit(f(1.6) - f(2.5) * abs(abs(in_lane) - f(0.8)))
    tar = f(1.0) + f(0.30) * grain + f(0.16) * patch - f(0.07) * wheels
    # Markings send back what the lamps throw on them.
    wear = (f(1.0) + f(0.25) * grain) * (f(1.0) + shine * lamp)
    dashes = dashed(s, length, f(1.0) / length, f(DASH_M), f(PERIOD_M))
    line = floored(off * per_lane + f(0.5))
    between = part(off - lane * line, -_HALF_LINE, _HALF_LINE, width, per_width) * unit(line) * unit(lanes - line)
    several = lanes > f(1.5)
    double = part(off, f(0.08), f(0.08) + _LINE, width, per_width)
    single = dashes * part(lateral, -_HALF_LINE, _HALF_LINE, width, per_width)
    white = f(0.92) * (max(lines, dashes * between) if several else lines)
    yellow = f(0.95) * (double if several else single)
    red = mixed(mixed(below[0], f(148.0) * stone, gravel), f(102.0) * tar, paving)
    green = mixed(mixed(below[1], f(136.0) * stone, gravel), f(102.0) * tar, paving)
    blue = mixed(mixed(below[2], f(114.0) * stone, gravel), f(106.0) * tar, paving)
    return (
        mixed(mixed(red, f(232.0) * wear, white), f(240.0) * wear, yellow),
        mixed(mixed(green, f(232.0) * wear, white), f(190.0) * wear, yellow),
        mixed(mixed(blue, f(226.0) * wear, white), f(62.0) * wear, yellow),
        wheels,
    )


@inlined
def wetted(dry: Colour, paving: float, patch: float, wheels: float, wet: float, mirrors: float, air: Colour) -> tuple[Colour, float]:
    """Darkens a wet road and lets it mirror the sky, puddles more than the rest; and how much it mirrors what stands on it."""
    dark = f(1.0) - f(0.38) * wet * paving * (f(0.75) + f(0.25) * wheels)
    puddle = unit((patch - f(0.12)) * f(5.0))
    film = wet * paving * mirrors * (f(0.45) + f(0.55) * puddle)
    colour = mixed(dark * dry[0], air[0], film), mixed(dark * dry[1], air[1], film), mixed(dark * dry[2], air[2], film)
    return colour, wet * paving * (f(0.16) + f(0.5) * mirrors) * (f(0.6) + f(0.4) * puddle)


@inlined
def snowed(below: Colour, paving: float, gravel: float, patch: float, grain: float, wheels: float, snow: float) -> Colour:
    """Lays snow between the wheel tracks first, and on the tracks when it is deep."""
    some = unit(snow * f(20.0))
    cover = some * paving * unit(f(2.2) * snow - f(0.75) + f(1.1) * patch + f(0.5) * grain - f(0.55) * wheels)
    cover = max(cover, some * unit(f(2.0) * snow + f(0.4) * grain) * (gravel - paving))
    return mixed(below[0], f(218.0), cover), mixed(below[1], f(223.0), cover), mixed(below[2], f(231.0), cover)


@inlined
def darkened(dx: float, dy: float, cos: float, sin: float, half_a: float, half_b: float, soft: float) -> float:
    """Returns how much of the light is left in a soft rectangle. dx, dy: from its middle; cos, sin: its direction; its half sides."""
    a, b = abs(dx * cos + dy * sin), abs(dy * cos - dx * sin)
    return f(1.0) - f(0.72) * unit((half_a - a) / soft + f(0.5)) * unit((half_b - b) / soft + f(0.5))


@inlined
def lighted(value: float, ambient: float, sun: float, lamps: float, air: float, shade: float, lamp: float, haze: float) -> float:
    """Lights what lies in sun or shade or before the lamps, and fades what lies far."""
    return mixed(value * (ambient + sun * (f(1.0) - shade) + lamps * lamp), air, haze)
