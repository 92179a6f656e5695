"""The kernel that casts the rays of a frame, row by row.

A ray meets cards from near to far, then sky or ground where the cards leave something to see; rain and snow come last.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.worlds.render import cards as c
from skidpad.worlds.render.cards import moving_cards, see_cards
from skidpad.worlds.render.compiling import CHUNK, Scratch, compiled, uncounted
from skidpad.worlds.render.precipitation import Precipitation, paint_precipitation
from skidpad.worlds.render.roadtable import Ground
from skidpad.worlds.render.strips import (
    BACK_BLUE,
    BACK_GREEN,
    BACK_RED,
    BLUE,
    COLOUR,
    GREEN,
    PITCH,
    RED,
    Words,
    byte_of,
    hidden,
    lay_strips,
    open_strips,
    paint_card,
    put_behind,
)
from skidpad.worlds.render.surface import f, short
from skidpad.worlds.render.terrain import SCRATCH, paint_terrain
from skidpad.worlds.render.weather import Look

_BLACK, _HALF, _WHITE = np.float32(0.0), np.float32(0.5), np.float32(255.0)


class Stage(NamedTuple):
    """Tables of one scene and one camera; a named tuple, because compiled code can take it apart."""

    ground: Ground
    look: Look
    standing: FloatArray
    movers: FloatArray
    firsts: FloatArray
    sprites: FloatArray
    colours: NDArray[np.int32]
    surfaces: NDArray[np.int32]
    """The two halves of the atlas's texels."""
    forward: FloatArray
    down: FloatArray
    left: FloatArray
    lens: FloatArray
    """Focal length in pixels, height in metres, cosine and sine of the pitch."""
    sky: NDArray[np.uint8]
    sky_column: NDArray[np.float32]
    sky_row: NDArray[np.int32]
    sun: FloatArray
    precipitation: Precipitation


@uncounted
def see_all(
    stage: Stage,
    eye: tuple[float, float, float, float],
    time_s: float,
    pixels: tuple[int, int],
    cards: FloatArray,
    work: tuple[FloatArray, NDArray[np.int64], NDArray[np.int32]],
    seen: NDArray[np.float32],
    bounds: NDArray[np.int32],
    shadows: FloatArray,
) -> int:
    """Fills the cards and shadows that a camera sees; returns how many cards. eye: x, y, cosine and sine; see `cards` for the arrays."""
    moving = moving_cards(stage.movers, stage.ground.nodes, time_s, eye[0], eye[1], stage.look.glow, stage.firsts, cards, shadows)
    count = see_cards(
        cards[:moving], stage.standing, stage.sprites, eye, stage.lens, pixels, stage.sun, stage.look,
        work[0], work[1], work[2], seen, bounds,
    )  # fmt: skip
    for k in range(len(stage.movers)):
        turn_shadow(shadows[k], eye)
    return count


@uncounted
def turn_shadow(shadow: FloatArray, eye: tuple[float, float, float, float]) -> None:
    """Turns a shadow's place and direction, in the world until now, to what lies before the eye."""
    x, y, cosine, sine = eye
    dx, dy = shadow[0] - x, shadow[1] - y
    shadow[0], shadow[1] = dx * cosine + dy * sine, dy * cosine - dx * sine
    along, across = shadow[2], shadow[3]
    shadow[2], shadow[3] = along * cosine + across * sine, across * cosine - along * sine


@compiled
def cast_rows(
    frame: NumpyFrames, start: int, stop: int, stage: Stage, x: float, y: float, heading: float, cosine: float, sine: float, time_s: float
) -> None:
    """Paints rows `start` to `stop` (excluded) of a frame. x, y: the camera's place; heading and its cosine and sine."""
    pixels = (frame.shape[1], frame.shape[0])
    movers = len(stage.movers)
    room = len(stage.standing) + 3 * movers
    cards, shadows = np.empty((3 * movers, c.STANDING)), np.zeros((movers, 6))
    seen, bounds = np.empty((room, c.SEEN), np.float32), np.empty((room, 4), np.int32)
    work = np.empty(room), np.empty(room, np.int64), np.empty((room, 4), np.int32)
    eye = (x, y, cosine, sine)
    count = see_all(stage, eye, time_s, pixels, cards, work, seen, bounds, shadows)
    strips, sky = lay_strips(stage.left, pixels[0]), stage.sky.view(np.int32)
    words, packed, scratch = strips.view(np.int32), np.empty(CHUNK, np.int32), np.zeros(SCRATCH, np.float32)
    _cast(frame, start, stop, stage, eye, heading, time_s, seen[:count], bounds[:count], shadows, strips, words, sky, packed, scratch)


@uncounted
def _cast(
    frame: NumpyFrames,
    start: int,
    stop: int,
    stage: Stage,
    eye: tuple[float, float, float, float],
    heading: float,
    time_s: float,
    seen: NDArray[np.float32],
    bounds: NDArray[np.int32],
    shadows: FloatArray,
    strips: Scratch,
    words: Words,
    sky: Words,
    packed: Words,
    scratch: Scratch,
) -> None:
    """Paints the rows. words, sky: the memory of strips and panorama as whole numbers; packed, (CHUNK,), and scratch: to work in."""
    look, rays = stage.look, (stage.forward, stage.down, stage.left)
    wet = look.wet > 0.0
    height, snow = f(stage.lens[1]), f(look.snow)
    for v in range(start, stop):
        forward, down = f(stage.forward[v]), f(stage.down[v])
        open_strips(strips)
        below = stage.down[v] > 0.0
        if wet and below:
            paint_terrain(strips, v, stage.ground, look, rays, stage.lens, eye, shadows, scratch)
        for k in range(len(seen)):
            if bounds[k, 2] <= v <= bounds[k, 3]:
                paint_card(strips, words, seen[k], bounds[k, 0], bounds[k, 1], forward, down, height, snow, stage.colours, stage.surfaces)
        if not below:
            _paint_sky(strips, words, sky, stage.sky_column[v], stage.sky_row[v], heading)
        elif not wet:
            paint_terrain(strips, v, stage.ground, look, rays, stage.lens, eye, shadows, scratch)
        put_behind(strips)
        if stage.precipitation.kind != 0:
            paint_precipitation(strips, v, stage.precipitation, time_s)
        _write(frame, v, strips, packed)


@uncounted
def _write(frame: NumpyFrames, v: int, strips: Scratch, packed: Words) -> None:
    """Rounds a row to bytes; first into words, side by side, which is faster. packed: memory of its own, or it would not be."""
    for chunk in range(len(strips) // PITCH):
        at, start = np.uintp(chunk * PITCH), chunk * CHUNK
        for k in range(CHUNK):
            red = short(min(max(strips[at + np.uintp(RED + k)] + _HALF, _BLACK), _WHITE))
            green = short(min(max(strips[at + np.uintp(GREEN + k)] + _HALF, _BLACK), _WHITE))
            blue = short(min(max(strips[at + np.uintp(BLUE + k)] + _HALF, _BLACK), _WHITE))
            packed[k] = short(red | (green << 8) | (blue << 16))
        for k in range(min(CHUNK, frame.shape[1] - start)):
            word, u = packed[np.uintp(k)], np.uintp(start + k)
            frame[v, u, 0], frame[v, u, 1], frame[v, u, 2] = np.uint8(word & 255), np.uint8((word >> 8) & 255), np.uint8((word >> 16) & 255)


@uncounted
def _paint_sky(strips: Scratch, words: Words, sky: Words, column: NDArray[np.float32], line: NDArray[np.int32], heading: float) -> None:
    """Looks a row up in the panorama, where something of it is seen."""
    columns = sky.shape[1]
    turn = heading * (columns / (2.0 * np.pi))
    # A whole turn more, so that what lies to the right of azimuth zero stays positive.
    turn += columns * (1.0 - floor(turn / columns))
    for chunk in range(len(strips) // PITCH):
        at, start = np.uintp(chunk * PITCH), chunk * CHUNK
        if hidden(strips, at):
            continue
        for k in range(min(CHUNK, len(column) - start)):
            u = np.uintp(start + k)
            i = int(turn + column[u])
            i = i - columns if i >= columns else i
            i = i - columns if i >= columns else i
            # Unsigned, or every index is first checked for counting from the end.
            words[at + np.uintp(COLOUR + k)] = sky[np.uintp(line[u]), np.uintp(i), 0]
        for k in range(CHUNK):
            word = words[at + np.uintp(COLOUR + k)]
            strips[at + np.uintp(BACK_RED + k)] = byte_of(word, 0)
            strips[at + np.uintp(BACK_GREEN + k)] = byte_of(word, 1)
            strips[at + np.uintp(BACK_BLUE + k)] = byte_of(word, 2)
