"""Paints the ground: grass, shoulders, asphalt, markings, and the shadows on them.

A row is done in chunks of fixed size. What varies slowly is looked up at knots only and spread between them; the rest
is plain arithmetic, which the compiler turns into vector instructions because the chunk's layout is known to it.
"""

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.worlds.recorded.frenet import look_up
from skidpad.worlds.render.canvas import CHUNK, HAZE_BLUE, HAZE_GREEN, HAZE_RED, Canvas, Row, Scratch, haze_at, unit
from skidpad.worlds.render.compiling import uncounted
from skidpad.worlds.render.texture import level_at, sample

CHUNK_LINES = 10
"""Patch, lateral position, distance along the road, shade, the pixel's width and length on the road; grain; red, green, blue."""
_SPREAD = 6
_KNOTS = CHUNK + 1
SCRATCH = CHUNK_LINES * CHUNK + _SPREAD * _KNOTS
"""How many values of scratch a row needs."""

_GROUND_M = 4000.0
_LINE_M = 0.15
_DASH_M = 3.0
_PERIOD_M = 9.0
_FINE_PER_M = 22.0
"""Texels of the noise to a metre of ground."""
_COARSE_PER_M = 2.3


@uncounted
def paint_ground(row: Row, v: int, canvas: Canvas, x: float, y: float, cosine: float, sine: float, scratch: Scratch) -> None:
    """Paints row `v`, which lies below the horizon. scratch: SCRATCH values."""
    focal, height = canvas.lens[0], canvas.lens[1]
    reach = height / canvas.down[v]
    ahead = reach * canvas.forward[v]
    pixels = row.shape[1]
    if ahead > _GROUND_M:
        row[0, :], row[1, :], row[2, :] = HAZE_RED, HAZE_GREEN, HAZE_BLUE
        return
    # A pixel's extent on the ground, across the view and along it.
    across_px = reach / focal
    along_px = reach * reach / (height * focal)
    span = span_at(across_px)
    outer = canvas.section[2] + 2.0
    for start in range(0, pixels, CHUNK):
        side = reach * canvas.left[start]
        foot_x = x + ahead * cosine - side * sine
        foot_y = y + ahead * sine + side * cosine
        nearest = _look_at_knots(scratch, canvas, foot_x, foot_y, canvas.left[start], cosine, sine, across_px, along_px, span)
        _spread(scratch, span)
        _grain(scratch, canvas, foot_x, foot_y, across_px * sine, -across_px * cosine, across_px, along_px)
        _shade_grass(scratch)
        if nearest < outer:
            _shade_road(scratch, canvas.section)
        _light(scratch, haze_at(ahead))
        stop = min(start + CHUNK, pixels)
        for c in range(3):
            line = (7 + c) * CHUNK
            for k in range(stop - start):
                row[c, start + k] = scratch[line + k]


@uncounted
def span_at(across_px: float) -> int:
    """Returns how many pixels lie between two knots.

    Between knots `w` apart a straight line is off by at most w^2 / 8R; this keeps it under half a millimetre for radii
    of 25 m and more, which is what a bend of 30 m has inside.
    """
    if across_px < 0.039:
        return 8
    return 4 if across_px < 0.079 else 1


@uncounted
def _look_at_knots(
    scratch: Scratch,
    canvas: Canvas,
    x: float,
    y: float,
    left: float,
    cosine: float,
    sine: float,
    across_px: float,
    along_px: float,
    span: int,
) -> float:
    """Fills the knots from the tables; returns the distance of the one nearest to the centreline."""
    offset, size, scale = level_at(across_px * _COARSE_PER_M)
    scale *= _COARSE_PER_M
    # A pixel is longer than it is wide: what the levels do not average along the view, fading does.
    fade = 1.0 / (1.0 + 0.06 * along_px)
    texels, tiles, directory = canvas.texels, canvas.tiles, canvas.directory
    origin_x, origin_y = canvas.origin[0], canvas.origin[1]
    nearest = 1e9
    for knot in range(CHUNK // span + 1):
        k = knot * span
        px = x + k * across_px * sine
        py = y - k * across_px * cosine
        lateral, s, shade, slope_x, slope_y = look_up(tiles, directory, px - origin_x, py - origin_y)
        # The pixel's extent across and along the road, from its two edges on the ground.
        view = left - k / canvas.lens[0]
        step_x = along_px * (cosine - sine * view)
        step_y = along_px * (sine + cosine * view)
        width = abs(slope_x * sine - slope_y * cosine) * across_px + abs(slope_x * step_x + slope_y * step_y) + 1e-4
        length = abs(slope_y * sine + slope_x * cosine) * across_px + abs(slope_y * step_x - slope_x * step_y) + 1e-4
        place = CHUNK_LINES * CHUNK + knot
        # Turned against the fine noise, so that the two never repeat together.
        scratch[place] = fade * sample(texels, offset, size, scale * (px + 0.3 * py), scale * (py - 0.3 * px))
        scratch[place + _KNOTS] = lateral
        scratch[place + 2 * _KNOTS] = s
        scratch[place + 3 * _KNOTS] = shade
        scratch[place + 4 * _KNOTS] = width
        scratch[place + 5 * _KNOTS] = length
        nearest = min(nearest, abs(lateral))
    return nearest


@uncounted
def _spread(scratch: Scratch, span: int) -> None:
    """Fills the first lines of the chunk from the knots, linearly; the spans are written out for the compiler."""
    for line in range(_SPREAD):
        knots = CHUNK_LINES * CHUNK + line * _KNOTS
        for knot in range(CHUNK // span):
            here = scratch[knots + knot]
            step = (scratch[knots + knot + 1] - here) / np.float32(span)
            place = line * CHUNK + knot * span
            if span == 8:
                for k in range(8):
                    scratch[place + k] = here + step * np.float32(k)
            elif span == 4:
                for k in range(4):
                    scratch[place + k] = here + step * np.float32(k)
            else:
                scratch[place] = here


@uncounted
def _grain(scratch: Scratch, canvas: Canvas, x: float, y: float, step_x: float, step_y: float, across_px: float, along_px: float) -> None:
    offset, size, scale = level_at(across_px * _FINE_PER_M)
    scale *= _FINE_PER_M
    fade = np.float32(1.0 / (1.0 + 0.6 * along_px))
    texels = canvas.texels
    for k in range(CHUNK):
        scratch[6 * CHUNK + k] = fade * sample(texels, offset, size, scale * (x + k * step_x), scale * (y + k * step_y))


@uncounted
def _shade_grass(scratch: Scratch) -> None:
    for k in range(CHUNK):
        patch, grain = scratch[k], scratch[6 * CHUNK + k]
        dry = unit(0.42 + 1.1 * patch)
        lit = 1.0 + 0.42 * grain + 0.18 * patch
        scratch[7 * CHUNK + k] = (74.0 + 52.0 * dry) * lit
        scratch[8 * CHUNK + k] = (104.0 + 24.0 * dry) * lit
        scratch[9 * CHUNK + k] = (44.0 + 16.0 * dry) * lit


@uncounted
def _stripe(position: float, low: float, high: float, width: float) -> float:
    """The share of a box of `width` around `position` that lies in [low, high]."""
    return unit((min(high, position + 0.5 * width) - max(low, position - 0.5 * width)) / width)


@uncounted
def _dashes_until(s: float) -> float:
    """How many metres of dash there are before `s`."""
    period = np.floor(s * (1.0 / _PERIOD_M))
    metres: float = period * _DASH_M + min(s - period * _PERIOD_M, _DASH_M)
    return metres


@uncounted
def _shade_road(scratch: Scratch, section: FloatArray) -> None:
    edge, paved, outer = section[0], section[1], section[2]
    for k in range(CHUNK):
        patch, lateral, s = scratch[k], scratch[CHUNK + k], scratch[2 * CHUNK + k]
        width, length, grain = scratch[4 * CHUNK + k], scratch[5 * CHUNK + k], scratch[6 * CHUNK + k]
        red, green, blue = scratch[7 * CHUNK + k], scratch[8 * CHUNK + k], scratch[9 * CHUNK + k]
        off = abs(lateral)
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
        scratch[7 * CHUNK + k] = red
        scratch[8 * CHUNK + k] = green
        scratch[9 * CHUNK + k] = blue


@uncounted
def _light(scratch: Scratch, haze: float) -> None:
    """Darkens what lies in shade, a little towards blue, and fades what lies far."""
    for k in range(CHUNK):
        shade = scratch[3 * CHUNK + k]
        red = scratch[7 * CHUNK + k] * (1.0 - 0.56 * shade)
        green = scratch[8 * CHUNK + k] * (1.0 - 0.52 * shade)
        blue = scratch[9 * CHUNK + k] * (1.0 - 0.42 * shade)
        scratch[7 * CHUNK + k] = red + (HAZE_RED - red) * haze
        scratch[8 * CHUNK + k] = green + (HAZE_GREEN - green) * haze
        scratch[9 * CHUNK + k] = blue + (HAZE_BLUE - blue) * haze
