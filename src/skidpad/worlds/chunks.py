"""The ground of a chunk of pixels on the CPU: loops over `surface`'s arithmetic that become vector instructions.

A chunk has LINES lines of CHUNK values in one flat array; each loop reads some lines and writes others. The compiler knows the layout.
"""

from __future__ import annotations

from skidpad.core.images import FloatArray
from skidpad.worlds.canvas import CHUNK, Scratch
from skidpad.worlds.compiling import inlined, uncounted
from skidpad.worlds.surface import (
    EDGE,
    LANE,
    LANES,
    OUTER,
    PAVED,
    RAMP_LEAVING,
    RAMP_PARALLEL,
    RAMP_START,
    RAMP_TAPER,
    RAMP_TURN,
    Ramp,
    darkened,
    f,
    grass,
    laid,
    laid_beside,
    lighted,
    road,
    short,
    snowed,
    wetted,
)
from skidpad.worlds.weather import Look

LINES = 16
(LATERAL, ALONG, SHADE, WIDTH, LENGTH, LAMP, PATCH, GRAIN, RED, GREEN, BLUE, MIRROR, PAVING, GRAVEL, SOLID, WHEELS) = (
    n * CHUNK for n in range(LINES)
)
"""Lateral position, distance along the road, shade, the pixel's extent across and along the road, lamp light; coarse and fine noise;
the colour; how much it mirrors; shares of asphalt, of gravel or asphalt, and of lines; wheel tracks."""


@uncounted
def shade_grass(scratch: Scratch, snow: float) -> None:
    """Paints grass."""
    white = min(f(snow) * f(1.9), f(1.0))
    for k in range(CHUNK):
        scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k] = grass(scratch[PATCH + k], scratch[GRAIN + k], white)


@uncounted
def lay(scratch: Scratch, section: FloatArray) -> None:
    """Finds how much of each pixel is paved, gravel, or a line."""
    edge, paved, outer = f(section[EDGE]), f(section[PAVED]), f(section[OUTER])
    for k in range(CHUNK):
        scratch[PAVING + k], scratch[GRAVEL + k], scratch[SOLID + k] = laid(
            scratch[LATERAL + k], scratch[WIDTH + k], scratch[GRAIN + k], scratch[PATCH + k], edge, paved, outer
        )
    if section[RAMP_TURN] == 0.0:
        return
    ramp = ramp_of(section)
    for k in range(CHUNK):
        paving, gravel, left, lines = laid_beside(
            scratch[LATERAL + k], scratch[ALONG + k], scratch[WIDTH + k], scratch[LENGTH + k], scratch[GRAIN + k], scratch[PATCH + k], ramp
        )
        scratch[PAVING + k] = max(scratch[PAVING + k], paving)
        scratch[GRAVEL + k] = max(scratch[GRAVEL + k], gravel)
        scratch[SOLID + k] = min(scratch[SOLID + k] * left + lines, f(1.0))


@inlined
def ramp_of(section: FloatArray) -> Ramp:
    """Returns what a section says of its side lane."""
    return (
        f(section[EDGE]), f(section[PAVED] - section[EDGE]), f(section[OUTER] - section[EDGE]), f(section[LANE]), f(section[RAMP_TURN]),
        f(section[RAMP_START]), f(section[RAMP_PARALLEL]), f(section[RAMP_TAPER]), f(section[RAMP_LEAVING]),
    )  # fmt: skip


@uncounted
def shade_road(scratch: Scratch, section: FloatArray, night: float) -> None:
    """Paints gravel, asphalt and markings."""
    lane, lanes, shine = f(section[LANE]), f(section[LANES]), f(0.8) * f(night)
    for k in range(CHUNK):
        scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k], scratch[WHEELS + k] = road(
            (scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k]),
            scratch[PAVING + k],
            scratch[GRAVEL + k],
            scratch[SOLID + k],
            scratch[LATERAL + k],
            scratch[ALONG + k],
            scratch[WIDTH + k],
            scratch[LENGTH + k],
            scratch[PATCH + k],
            scratch[GRAIN + k],
            scratch[LAMP + k],
            lane,
            lanes,
            shine,
        )


@uncounted
def shade_wet(scratch: Scratch, look: Look, grazing: float) -> None:
    """Wets the road."""
    wet, mirrors = f(look.wet), f(0.04 + 0.9 * grazing)
    air = f(look.air_red), f(look.air_green), f(look.air_blue)
    for k in range(CHUNK):
        dry = scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k]
        colour, mirror = wetted(dry, scratch[PAVING + k], scratch[PATCH + k], scratch[WHEELS + k], wet, mirrors, air)
        scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k] = colour
        scratch[MIRROR + k] = mirror


@uncounted
def shade_snow(scratch: Scratch, snow: float) -> None:
    """Lays snow on the road."""
    much = f(snow)
    for k in range(CHUNK):
        scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k] = snowed(
            (scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k]),
            scratch[PAVING + k],
            scratch[GRAVEL + k],
            scratch[PATCH + k],
            scratch[GRAIN + k],
            scratch[WHEELS + k],
            much,
        )


@uncounted
def shade_mover(scratch: Scratch, shadow: FloatArray, ahead: float, side: float, across_px: float) -> None:
    """Darkens a soft rectangle. shadow: ahead and left of the eye, direction, half length, half width."""
    reach = shadow[4] + shadow[5] + 1.0
    if abs(ahead - shadow[0]) > reach or shadow[1] > side + reach or shadow[1] < side - CHUNK * across_px - reach:
        return
    soft = f(0.45) if shadow[4] > 1.0 else f(0.15)
    dx, cos, sin, half_a, half_b = f(ahead - shadow[0]), f(shadow[2]), f(shadow[3]), f(shadow[4]), f(shadow[5])
    first, step = f(side - shadow[1]), f(across_px)
    for k in range(CHUNK):
        left = darkened(dx, first - f(short(k)) * step, cos, sin, half_a, half_b, soft)
        for c in range(3):
            scratch[RED + c * CHUNK + k] *= left
        scratch[MIRROR + k] *= left


@uncounted
def light(scratch: Scratch, look: Look, haze: float) -> None:
    """Lights the chunk and lets the air fade it."""
    ambient = (f(look.ambient_red), f(look.ambient_green), f(look.ambient_blue))
    sun = (f(look.sun_red), f(look.sun_green), f(look.sun_blue))
    lamps = (f(look.lamp_red), f(look.lamp_green), f(look.lamp_blue))
    air = (f(look.air_red), f(look.air_green), f(look.air_blue))
    for c in range(3):
        line = RED + c * CHUNK
        here, direct, lamp, fog = ambient[c], sun[c], lamps[c], air[c]
        for k in range(CHUNK):
            scratch[line + k] = lighted(scratch[line + k], here, direct, lamp, fog, scratch[SHADE + k], scratch[LAMP + k], haze)
