"""The whole picture, pixel by pixel: what `raycast` paints by rows, as a function of a column and a row.

This is how a GPU does it, one thread to a pixel. It looks everything up where it is, without knots, and uses the same arithmetic
(`surface`, `strips`, `roadtable.knot_at`), so that CPU and GPU differ by what knots round off. Rain and snow are painted last, as
there.
"""

from __future__ import annotations

from math import cos, exp, floor, sin
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.worlds.render import packs
from skidpad.worlds.render.cards import lamp_at, moving_cards
from skidpad.worlds.render.chunks import ramp_of
from skidpad.worlds.render.compiling import compiled, uncounted
from skidpad.worlds.render.packs import Pack, stage_at
from skidpad.worlds.render.precipitation import DROP_STEP_S, DROP_STEPS, TILE, line_at, start_at
from skidpad.worlds.render.raycast import Stage, turn_shadow
from skidpad.worlds.render.roadtable import knot_at, shade_at
from skidpad.worlds.render.strips import CLOSED, light_of, met, place_of, seen_at
from skidpad.worlds.render.surface import (
    EDGE,
    LANE,
    LANES,
    OUTER,
    PAVED,
    RAMP_TURN,
    Colour,
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
    whole,
)
from skidpad.worlds.render.terrain import GROUND_M, RAMP_REACH_M, smooth
from skidpad.worlds.render.texture import Texels

Tile: TypeAlias = tuple[int, int, int, int]
"""A part of a picture: first and last column, first and last row."""
Eye: TypeAlias = tuple[float, float, float, float, float]
"""Where the camera is: x, y, heading, its cosine and sine."""


@uncounted
def begin_frame(
    stage: Stage, pose: FloatArray, time_s: float, forward_m: float, eye: FloatArray, cards: FloatArray, shadows: FloatArray
) -> int:
    """Fills where the camera is, (5,), and the cards and shadows of moving objects; returns how many cards. pose: of the rear axle."""
    cosine, sine = cos(pose[2]), sin(pose[2])
    eye[0], eye[1], eye[2], eye[3], eye[4] = pose[0] + forward_m * cosine, pose[1] + forward_m * sine, pose[2], cosine, sine
    count = moving_cards(stage.movers, stage.ground.nodes, time_s, eye[0], eye[1], stage.look.glow, stage.firsts, cards, shadows)
    for k in range(len(stage.movers)):
        turn_shadow(shadows[k], (eye[0], eye[1], cosine, sine))
    return count


@uncounted
def overlaps(bounds: NDArray[np.int32], tile: Tile) -> bool:
    """Tells whether a card may be seen in a tile. bounds: (4,)."""
    inside: bool = bounds[0] <= tile[1] and bounds[1] >= tile[0] and bounds[2] <= tile[3] and bounds[3] >= tile[2]
    return inside


@compiled
def paint_pixel(
    packed: Pack,
    time_s: float,
    scene: int,
    eye: FloatArray,
    seen: NDArray[np.float32],
    bounds: NDArray[np.int32],
    count: int,
    tile: Tile,
    listed: NDArray[np.int32],
    listed_count: int,
    shadows: FloatArray,
    frame: NumpyFrames,
    u: int,
    v: int,
) -> None:
    """Paints one pixel of a frame.

    seen, bounds: of the `count` cards that the camera sees, from near to far. listed: which of them may be seen in the pixel's tile.
    """
    stage = stage_at(packed, scene)
    precipitation, column, line, passes = stage.precipitation, u, v, f(1.0)
    if precipitation.kind == 1:
        word = whole(precipitation.drops[whole(floor(time_s / DROP_STEP_S)) % DROP_STEPS, v, u])
        if ((word >> 24) & 255) < floor(255.0 * precipitation.intensity):
            # A drop shows another pixel, and that may lie in another tile.
            column = min(max(u + (word & 255) - 128, 0), len(stage.left) - 1)
            line = min(max(v + ((word >> 8) & 255) - 128, 0), len(stage.down) - 1)
            passes = f((word >> 16) & 255) * f(1.0 / 255.0)
    inside = tile[0] <= column <= tile[1] and tile[2] <= line <= tile[3]
    where = (eye[0], eye[1], eye[2], eye[3], eye[4])
    red, green, blue = _behind_lens(
        stage, packed.rows[line], seen, bounds, listed_count if inside else count, listed, inside, shadows[: len(stage.movers)], where,
        time_s, column, line,
    )  # fmt: skip
    frame[v, u, 0] = np.uint8(min(max(passes * red + f(0.5), f(0.0)), f(255.0)))
    frame[v, u, 1] = np.uint8(min(max(passes * green + f(0.5), f(0.0)), f(255.0)))
    frame[v, u, 2] = np.uint8(min(max(passes * blue + f(0.5), f(0.0)), f(255.0)))


@uncounted
def _behind_lens(
    stage: Stage,
    row: FloatArray,
    seen: NDArray[np.float32],
    bounds: NDArray[np.int32],
    count: int,
    listed: NDArray[np.int32],
    by_list: bool,  # noqa: FBT001 - compiled code has no keywords
    shadows: FloatArray,
    eye: Eye,
    time_s: float,
    u: int,
    v: int,
) -> Colour:
    """Returns a pixel, 0 to 255, not yet rounded; of the first `count` cards, or of the first so many that are listed."""
    below = stage.down[v] > 0.0
    behind, mirror = (f(0.0), f(0.0), f(0.0)), f(0.0)
    # Before the cards, which a wet road mirrors; to leave it out where they hide it would keep more registers busy than it saves time.
    if below:
        behind, mirror = _ground(stage, row, shadows, eye, u)
    forward, down, left, height, snow = f(stage.forward[v]), f(stage.down[v]), f(stage.left[u]), f(stage.lens[1]), f(stage.look.snow)
    red, green, blue, open_ = f(0.0), f(0.0), f(0.0), f(1.0)
    for place in range(count):
        if open_ < CLOSED:
            break
        k = listed[place] if by_list else place
        if bounds[k, 0] <= u <= bounds[k, 1] and bounds[k, 2] <= v <= bounds[k, 3]:
            weight, texel = met(place_of(seen[k]), left, forward, down, height, mirror, open_)
            if weight > f(0.0):
                card_red, card_green, card_blue, cover = seen_at(light_of(seen[k]), stage.colours[texel], stage.surfaces[texel], snow)
                share = weight * open_
                red += share * card_red
                green += share * card_green
                blue += share * card_blue
                open_ *= f(1.0) - cover * weight
    if open_ >= CLOSED:
        if not below:
            behind = _sky(stage, eye[2], u, v)
        red += open_ * behind[0]
        green += open_ * behind[1]
        blue += open_ * behind[2]
    return _through_air(stage, (red, green, blue), time_s, u, v)


@uncounted
def _sky(stage: Stage, heading: float, u: int, v: int) -> Colour:
    columns = stage.sky.shape[1]
    turn = heading * (columns / (2.0 * np.pi))
    turn += columns * (1.0 - floor(turn / columns))
    column, line = short(turn + stage.sky_column[v, u]), stage.sky_row[v, u]
    column = column - columns if column >= columns else column
    column = column - columns if column >= columns else column
    return f(stage.sky[line, column, 0]), f(stage.sky[line, column, 1]), f(stage.sky[line, column, 2])


@uncounted
def _through_air(stage: Stage, behind: Colour, time_s: float, u: int, v: int) -> Colour:
    """Adds streaks or flakes."""
    precipitation = stage.precipitation
    if precipitation.kind == 0:
        return behind
    left = f(1.0)
    for k in range(len(precipitation.layers)):
        layer = precipitation.layers[k]
        column = whole(floor((u + start_at(layer, time_s) + 0.5) * layer[0])) & (TILE - 1)
        left *= f(1.0) - f(layer[5] / 255.0) * f(precipitation.tile[line_at(layer, time_s, v), column])
    red, green, blue = f(precipitation.colour[0]), f(precipitation.colour[1]), f(precipitation.colour[2])
    return red + left * (behind[0] - red), green + left * (behind[1] - green), blue + left * (behind[2] - blue)


@uncounted
def _ground(stage: Stage, row: FloatArray, shadows: FloatArray, eye: Eye, u: int) -> tuple[Colour, float]:
    """Returns the ground and how much it mirrors. row: of `packs`."""
    x, y, _, cosine, sine = eye
    look, ground, section = stage.look, stage.ground, stage.ground.section
    ahead, side = row[packs.AHEAD], row[packs.REACH] * stage.left[u]
    air = f(look.air_red), f(look.air_green), f(look.air_blue)
    hazy = f(1.0) - f(exp(f(-look.extinction_per_m * ahead)))
    if ahead > GROUND_M or hazy > f(0.995):
        return air, f(0.0)
    px, py = x + ahead * cosine - side * sine, y + ahead * sine + side * cosine
    knot = knot_at(ground, px, py, stage.left[u], (cosine, sine, row[packs.ACROSS], row[packs.DEEP]))
    lateral, s, width, length = knot[0], f(knot[1]), knot[4], knot[5]
    patch, grain = _noise(ground.texels, row, px, py)
    shade = shade_at(ground.shade, s, lateral) if ground.sunny else f(0.0)
    lit = look.headlights > 0.0 or look.fog_lights > 0.0
    lamp = lamp_at(ahead, side, look.headlights, look.fog_lights) if lit else f(0.0)
    colour, mirror = grass(patch, grain, min(f(look.snow) * f(1.9), f(1.0))), f(0.0)
    ramp = section[RAMP_TURN] != 0.0
    if abs(lateral) <= section[OUTER] + 2.0 + (RAMP_REACH_M if ramp else 0.0):
        paving, gravel, lines = laid(lateral, width, grain, patch, f(section[EDGE]), f(section[PAVED]), f(section[OUTER]))
        if ramp:
            more, stones, left, beside = laid_beside(lateral, s, width, length, grain, patch, ramp_of(section))
            paving, gravel, lines = max(paving, more), max(gravel, stones), min(lines * left + beside, f(1.0))
        lane, lanes, shine = f(section[LANE]), f(section[LANES]), f(0.8) * f(look.night)
        red, green, blue, wheels = road(colour, paving, gravel, lines, lateral, s, width, length, patch, grain, lamp, lane, lanes, shine)
        colour = red, green, blue
        if look.wet > 0.0:
            colour, mirror = wetted(colour, paving, patch, wheels, f(look.wet), f(row[packs.MIRRORS]), air)
        if look.snow > 0.0:
            colour = snowed(colour, paving, gravel, patch, grain, wheels, f(look.snow))
    left = f(1.0)
    for k in range(len(shadows)):
        soft = f(0.45) if shadows[k, 4] > 1.0 else f(0.15)
        left *= darkened(
            f(ahead - shadows[k, 0]), f(side - shadows[k, 1]), f(shadows[k, 2]), f(shadows[k, 3]), f(shadows[k, 4]), f(shadows[k, 5]), soft
        )
    return (
        lighted(colour[0] * left, f(look.ambient_red), f(look.sun_red), f(look.lamp_red), air[0], shade, lamp, hazy),
        lighted(colour[1] * left, f(look.ambient_green), f(look.sun_green), f(look.lamp_green), air[1], shade, lamp, hazy),
        lighted(colour[2] * left, f(look.ambient_blue), f(look.sun_blue), f(look.lamp_blue), air[2], shade, lamp, hazy),
    ), mirror * left


@uncounted
def _noise(texels: Texels, row: FloatArray, x: float, y: float) -> tuple[float, float]:
    """Returns the coarse and the fine noise of the ground; see `terrain`."""
    scale = row[packs.COARSE_SCALE]
    offset, size = short(row[packs.COARSE]), short(row[packs.COARSE_SIZE])
    patch = f(row[packs.COARSE_FADE]) * f(smooth(texels, offset, size, scale * (x + 0.3 * y), scale * (y - 0.3 * x)))
    scale, mask = row[packs.FINE_SCALE], whole(row[packs.FINE_SIZE]) - 1
    column, line = whole(floor(scale * x)) & mask, whole(floor(scale * y)) & mask
    return patch, f(row[packs.FINE_FADE]) * texels[whole(row[packs.FINE]) + line * (mask + 1) + column]
