"""The kernel that casts the rays of a frame, row by row: cards from near to far, then sky or ground where something is left to see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.worlds import cards as c
from skidpad.worlds.canvas import Row
from skidpad.worlds.cards import moving_cards, see_cards
from skidpad.worlds.falling import Falling, paint_falling
from skidpad.worlds.surface import f
from skidpad.worlds.terrain import SCRATCH, Ground, paint_terrain
from skidpad.worlds.weather import Look

_BLACK, _HALF, _WHITE = np.float32(0.0), np.float32(0.5), np.float32(255.0)
_CLOSED = np.float32(0.01)
"""Where less than this is left to see, nothing behind is painted."""


class Stage(NamedTuple):
    """Tables of one scene and one camera; a named tuple, because compiled code can take it apart."""

    ground: Ground
    look: Look
    standing: FloatArray
    movers: FloatArray
    firsts: FloatArray
    sprites: FloatArray
    texels: NDArray[np.uint8]
    """The atlas, flat."""
    forward: FloatArray
    down: FloatArray
    left: FloatArray
    lens: FloatArray
    """Focal length in pixels, height in metres, cosine and sine of the pitch."""
    sky: NDArray[np.uint8]
    sky_column: NDArray[np.float32]
    sky_row: NDArray[np.int32]
    sun: FloatArray
    falling: Falling


@njit(nogil=True, cache=True, error_model="numpy")
def cast_rows(
    frame: NumpyFrames, start: int, stop: int, stage: Stage, x: float, y: float, heading: float, cosine: float, sine: float, time_s: float
) -> None:
    """Paints rows `start` to `stop` (excluded) of a frame. x, y: the camera's place; heading and its cosine and sine."""
    look = stage.look
    pixels = (frame.shape[1], frame.shape[0])
    movers = len(stage.movers)
    most = len(stage.standing) + 3 * movers
    cards = np.empty((most, c.STANDING))
    shadows = np.zeros((movers, 6))
    moving, _ = moving_cards(stage.movers, stage.ground.nodes, time_s, x, y, look.glow, stage.firsts, cards, shadows)
    cards[moving : moving + len(stage.standing)] = stage.standing
    seen = np.empty((most, c.SEEN), np.float32)
    bounds = np.empty((most, 4), np.int32)
    eye = (x, y, cosine, sine)
    count = see_cards(cards[: moving + len(stage.standing)], stage.sprites, eye, stage.lens, pixels, stage.sun, look, seen, bounds)
    for k in range(movers):
        dx, dy = shadows[k, 0] - x, shadows[k, 1] - y
        shadows[k, 0], shadows[k, 1] = dx * cosine + dy * sine, dy * cosine - dx * sine
        along, across = shadows[k, 2], shadows[k, 3]
        shadows[k, 2], shadows[k, 3] = along * cosine + across * sine, across * cosine - along * sine
    rays = (stage.forward, stage.down, stage.left)
    row = np.zeros((3, pixels[0]), np.float32)
    front = np.zeros((3, pixels[0]), np.float32)
    open_ = np.ones(pixels[0], np.float32)
    mirror = np.zeros(pixels[0], np.float32)
    left = stage.left.astype(np.float32)
    scratch = np.empty(SCRATCH, np.float32)
    wet = look.wet > 0.0
    height, snow = f(stage.lens[1]), f(look.snow)
    for v in range(start, stop):
        forward, down = f(stage.forward[v]), f(stage.down[v])
        front[:] = 0.0
        open_[:] = 1.0
        below = stage.down[v] > 0.0
        if wet and below:
            paint_terrain(row, mirror, open_, v, stage.ground, look, rays, stage.lens, eye, shadows, scratch)
        for k in range(count):
            if bounds[k, 2] <= v <= bounds[k, 3]:
                _paint_card(front, open_, mirror, seen[k], bounds[k, 0], bounds[k, 1], forward, down, left, height, snow, stage.texels)
        if not below:
            _paint_sky(row, open_, stage.sky, stage.sky_column[v], stage.sky_row[v], heading)
        elif not wet:
            paint_terrain(row, mirror, open_, v, stage.ground, look, rays, stage.lens, eye, shadows, scratch)
        # Where next to nothing is left to see, the row may hold what another row left there.
        for u in range(pixels[0]):
            open_[u] = open_[u] if open_[u] >= _CLOSED else f(0.0)
        for channel in range(3):
            for u in range(pixels[0]):
                row[channel, u] = front[channel, u] + open_[u] * row[channel, u]
        if stage.falling.kind != 0:
            paint_falling(row, v, stage.falling, time_s)
        for u in range(pixels[0]):
            frame[v, u, 0] = np.uint8(min(max(row[0, u] + _HALF, _BLACK), _WHITE))
            frame[v, u, 1] = np.uint8(min(max(row[1, u] + _HALF, _BLACK), _WHITE))
            frame[v, u, 2] = np.uint8(min(max(row[2, u] + _HALF, _BLACK), _WHITE))


@njit(nogil=True, cache=True, error_model="numpy")
def _paint_sky(
    row: Row, open_: NDArray[np.float32], panorama: NDArray[np.uint8], column: NDArray[np.float32], line: NDArray[np.int32], heading: float
) -> None:
    """Looks a row up in the panorama."""
    sky = panorama.ravel()
    columns = panorama.shape[1]
    turn = heading * (columns / (2.0 * np.pi))
    # A whole turn more, so that what lies to the right of azimuth zero stays positive.
    turn += columns * (1.0 - np.floor(turn / columns))
    for u in range(row.shape[1]):
        if open_[u] < _CLOSED:
            continue
        i = int(turn + column[u])
        i = i - columns if i >= columns else i
        i = i - columns if i >= columns else i
        a = np.uintp(4 * (line[u] * columns + i))
        row[0, u] = np.float32(sky[a])
        row[1, u] = np.float32(sky[a + np.uintp(1)])
        row[2, u] = np.float32(sky[a + np.uintp(2)])


@njit(nogil=True, cache=True, error_model="numpy")
def _paint_card(
    front: Row,
    open_: NDArray[np.float32],
    mirror: NDArray[np.float32],
    card: NDArray[np.float32],
    first: int,
    last: int,
    forward: float,
    down: float,
    left: NDArray[np.float32],
    height: float,
    snow: float,
    texels: NDArray[np.uint8],
) -> None:
    """Adds one row of a card to what is in front, and closes what it covers. Below its foot a card is mirrored by a wet road."""
    one, nothing, byte, normal, flat = f(1.0), f(0.0), f(1.0 / 255.0), f(1.0 / 127.0), f(128.0 / 127.0)
    cross, ax, ay, vx, vy, long = card[c.C], card[c.AX], card[c.AY], card[c.VX], card[c.VY], card[c.LONG]
    foot, top, su, sv = card[c.FOOT], card[c.TOP], card[c.SU], card[c.SV]
    last_row, offset, mask = int(card[c.LAST_ROW]), int(card[c.START]), int(card[c.MASK])
    for u in range(first, last + 1):
        if open_[u] < _CLOSED:
            continue
        over = one / (forward * vy - left[u] * vx)
        reach = cross * over
        along = (left[u] * ax - forward * ay) * over
        z = height - reach * down
        if reach <= nothing or along < nothing or along >= long or z >= top:
            continue
        weight = card[c.ALPHA]
        if z < foot:
            weight *= mirror[u]
            z = f(2.0) * foot - z
            if z >= top or weight <= nothing:
                continue
        line = min(int((top - z) * sv), last_row)
        a = np.uintp(8 * (offset + line * (mask + 1) + (int(along * su) & mask)))
        cover = f(texels[a + np.uintp(3)])
        glows = f(texels[a + np.uintp(6)])
        if cover <= nothing and glows <= nothing:
            continue
        right = f(texels[a + np.uintp(4)]) * normal - flat
        up = f(texels[a + np.uintp(5)]) * normal - flat
        towards = max(one - right * right - up * up, nothing)
        direct = max(right * card[c.LIGHT_RIGHT] + up * card[c.LIGHT_UP] + towards * card[c.LIGHT_TOWARDS], nothing)
        tint = f(texels[a + np.uintp(7)]) * byte
        glows *= card[c.SHINE]
        white = snow * min(max(f(1.6) * up + f(0.15), nothing), one)
        red = f(texels[a]) * (one + tint * card[c.TINT_R])
        green = f(texels[a + np.uintp(1)]) * (one + tint * card[c.TINT_G])
        blue = f(texels[a + np.uintp(2)]) * (one + tint * card[c.TINT_B])
        bright = f(0.9) * cover
        share = weight * open_[u]
        front[0, u] += share * ((red + (bright - red) * white) * (card[c.BASE_R] + card[c.SUN_R] * direct + glows) + cover * card[c.FOG_R])
        front[1, u] += share * (
            (green + (bright - green) * white) * (card[c.BASE_G] + card[c.SUN_G] * direct + glows) + cover * card[c.FOG_G]
        )
        front[2, u] += share * (
            (blue + (bright - blue) * white) * (card[c.BASE_B] + card[c.SUN_B] * direct + glows) + cover * card[c.FOG_B]
        )
        open_[u] *= one - cover * byte * weight
