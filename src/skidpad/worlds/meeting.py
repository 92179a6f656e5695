"""How one ray meets a card, and what it sees there: arithmetic without branches, for both renderers, as in `surface`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.worlds import cards as c
from skidpad.worlds.compiling import inlined
from skidpad.worlds.surface import Colour, f, mixed, short, unit

CLOSED = f(0.01)
"""Where less than this is left to see, nothing behind is painted."""

Place: TypeAlias = tuple[float, float, float, float, float, float, float, float, float, float, float, float, int, int]
"""Of a card: cross product, start, direction, length, foot, top, texels to a metre, alpha, last row, where its texels start, mask."""
Light: TypeAlias = tuple[float, float, float, float, Colour, Colour, Colour, Colour]
"""Of a card: the sun's direction to the right, up and towards the camera, how much it shines; tint, base, sun and fog."""


@inlined
def place_of(card: NDArray[np.float32]) -> Place:
    """Takes from a card what a ray needs to meet it."""
    return (
        card[c.C], card[c.AX], card[c.AY], card[c.VX], card[c.VY], card[c.LONG], card[c.FOOT], card[c.TOP], card[c.SU], card[c.SV],
        card[c.ALPHA], card[c.LAST_ROW], short(card[c.START]), short(card[c.MASK]),
    )  # fmt: skip


@inlined
def light_of(card: NDArray[np.float32]) -> Light:
    """Takes from a card what its light needs."""
    return (
        card[c.LIGHT_RIGHT],
        card[c.LIGHT_UP],
        card[c.LIGHT_TOWARDS],
        card[c.SHINE],
        (card[c.TINT_R], card[c.TINT_G], card[c.TINT_B]),
        (card[c.BASE_R], card[c.BASE_G], card[c.BASE_B]),
        (card[c.SUN_R], card[c.SUN_G], card[c.SUN_B]),
        (card[c.FOG_R], card[c.FOG_G], card[c.FOG_B]),
    )


@inlined
def met(place: Place, left: float, forward: float, down: float, height: float, mirror: float, open_: float) -> tuple[float, int]:
    """Returns how much a card weighs where a ray meets it, nothing where it misses, and which texel it meets.

    Below its foot a card is mirrored by a wet road. open_: how much is left to see there.
    """
    cross, ax, ay, vx, vy, long, foot, top, across, downward, alpha, last_row, start, mask = place
    nothing = f(0.0)
    over = f(1.0) / (forward * vy - left * vx)
    reach = cross * over
    along = (left * ax - forward * ay) * over
    z = height - reach * down
    low = z < foot
    weight = alpha * (mirror if low else f(1.0))
    z = f(2.0) * foot - z if low else z
    hit = (reach > nothing) & (along >= nothing) & (along < long) & (z < top) & (open_ >= CLOSED)
    line = short(min((top - z) * downward, last_row))
    texel = short(start + line * (mask + 1) + (short(along * across) & mask))
    return (weight if hit else nothing), (texel if hit else start)


@inlined
def byte_of(word: int, place: int) -> float:
    """Returns a byte of a word, the lowest at place 0."""
    return f(short((word >> (8 * place)) & 255))


@inlined
def seen_at(light: Light, colour: int, surface: int, snow: float) -> tuple[float, float, float, float]:
    """Returns the colour of a texel times its coverage, in light and air, and its coverage, 0 to 1. colour, surface: its two words."""
    sun_right, sun_up, sun_towards, shine, tints, base, sun, fog = light
    nothing, normal, flat = f(0.0), f(1.0 / 127.0), f(128.0 / 127.0)
    cover = byte_of(colour, 3)
    right, up = byte_of(surface, 0) * normal - flat, byte_of(surface, 1) * normal - flat
    glows, tint = byte_of(surface, 2) * shine, byte_of(surface, 3) * f(1.0 / 255.0)
    towards = max(f(1.0) - right * right - up * up, nothing)
    direct = max(right * sun_right + up * sun_up + towards * sun_towards, nothing)
    white, bright = snow * unit(f(1.6) * up + f(0.15)), f(0.9) * cover
    red = mixed(byte_of(colour, 0) * (f(1.0) + tint * tints[0]), bright, white) * (base[0] + sun[0] * direct + glows) + cover * fog[0]
    green = mixed(byte_of(colour, 1) * (f(1.0) + tint * tints[1]), bright, white) * (base[1] + sun[1] * direct + glows) + cover * fog[1]
    blue = mixed(byte_of(colour, 2) * (f(1.0) + tint * tints[2]), bright, white) * (base[2] + sun[2] * direct + glows) + cover * fog[2]
    return red, green, blue, cover * f(1.0 / 255.0)
