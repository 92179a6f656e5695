"""How one ray meets a card, and what it sees there: arithmetic without branches, for both renderers, as in `surface`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.worlds.render import cards as c
from skidpad.worlds.render.compiling import CHUNK, Scratch, compiled, inlined, uncounted
from skidpad.worlds.render.surface import Colour, f, mixed, short, unit

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


STRIP = 16
PER_CHUNK = CHUNK // STRIP
LINES = 12
(RED, GREEN, BLUE, OPEN, MIRROR, LEFT, WEIGHT, COLOUR, SURFACE, BACK_RED, BACK_GREEN, BACK_BLUE) = (n * CHUNK for n in range(LINES))
"""What is painted in front so far, how much is left to see behind it, how much a wet road mirrors, how far to the left a ray goes; of the
card in hand its weight, and the two words of its texels, which are whole numbers in the same memory; and sky or ground behind."""
PITCH = LINES * CHUNK
_COVERS, _SHINES = np.int32(-(1 << 24)), np.int32(255 << 16)
"""Which bits of a texel's words say so."""

Words = NDArray[np.int32]


@compiled
def lay_strips(left: NDArray[np.float64], pixels: int) -> Scratch:
    """Makes the chunks of a row; beyond its end, rays go as the last one does."""
    count = (pixels + CHUNK - 1) // CHUNK
    strips = np.zeros(count * PITCH, np.float32)
    for u in range(count * CHUNK):
        strips[(u // CHUNK) * PITCH + LEFT + u % CHUNK] = left[min(u, pixels - 1)]
    return strips


@inlined
def strip_at(strip: int) -> np.uintp:
    """Returns where a strip lies in the lines of its chunk."""
    return np.uintp(strip // PER_CHUNK * PITCH + strip % PER_CHUNK * STRIP)


@uncounted
def open_strips(strips: Scratch) -> None:
    """Begins a new row: nothing is painted, everything is left to see."""
    for start in range(0, len(strips), PITCH):
        at = np.uintp(start)
        for k in range(3 * CHUNK):
            strips[at + np.uintp(k)] = f(0.0)
        for k in range(CHUNK):
            strips[at + np.uintp(OPEN + k)] = f(1.0)


@uncounted
def is_open(strips: Scratch, at: np.uintp) -> bool:
    """Tells whether something is left to see behind the strip that starts at `at`."""
    # The greatest value would have to be found one by one.
    found = np.int32(0)
    for k in range(STRIP):
        found |= np.int32(strips[at + np.uintp(OPEN + k)] >= CLOSED)
    any_: bool = found != 0
    return any_


@uncounted
def mirrors(strips: Scratch, at: np.uintp) -> bool:
    """Tells whether a wet road mirrors something in the strip that starts at `at`."""
    found = np.int32(0)
    for k in range(STRIP):
        found |= np.int32(strips[at + np.uintp(MIRROR + k)] > f(0.0))
    any_: bool = found != 0
    return any_


@uncounted
def hidden(strips: Scratch, at: np.uintp) -> bool:
    """Tells whether cards hide all of the chunk that starts at `at`."""
    seen = np.int32(0)
    for k in range(CHUNK):
        seen |= np.int32(strips[at + np.uintp(OPEN + k)] >= CLOSED)
    none: bool = seen == 0
    return none


@uncounted
def put_behind(strips: Scratch) -> None:
    """Adds what is behind to what is in front."""
    for start in range(0, len(strips), PITCH):
        at = np.uintp(start)
        for k in range(CHUNK):
            # Where next to nothing is left to see, what is behind may be what another row left there.
            rest = strips[at + np.uintp(OPEN + k)]
            rest = rest if rest >= CLOSED else f(0.0)
            strips[at + np.uintp(RED + k)] += rest * strips[at + np.uintp(BACK_RED + k)]
            strips[at + np.uintp(GREEN + k)] += rest * strips[at + np.uintp(BACK_GREEN + k)]
            strips[at + np.uintp(BLUE + k)] += rest * strips[at + np.uintp(BACK_BLUE + k)]


@uncounted
def paint_card(
    strips: Scratch,
    words: Words,
    card: NDArray[np.float32],
    first: int,
    last: int,
    forward: float,
    down: float,
    height: float,
    snow: float,
    colours: Words,
    surfaces: Words,
) -> None:
    """Adds one row of a card to what is in front, and closes what it covers. Below its foot a card is mirrored by a wet road.

    words: the strips' memory as whole numbers. first, last: the columns in which it may be seen. forward, down: the row's rays.
    colours, surfaces: the halves of the atlas's texels.
    """
    # A card that faces the camera is met at one height by the whole row: its mirror image needs only the strips that mirror.
    mirrored = card[c.VX] == f(0.0) and height - card[c.C] / (forward * card[c.VY]) * down < card[c.FOOT]
    place, light = place_of(card), light_of(card)
    for strip in range(first // STRIP, last // STRIP + 1):
        at = strip_at(strip)
        if not is_open(strips, at) or (mirrored and not mirrors(strips, at)):
            continue
        _meet(strips, words, at, place, forward, down, height)
        if _fetch(strips, words, at, colours, surfaces):
            _lay_in(strips, words, at, light, snow)


@uncounted
def _meet(strips: Scratch, words: Words, at: np.uintp, place: Place, forward: float, down: float, height: float) -> None:
    """Finds which texel each ray of a strip meets, and how much it weighs."""
    for k in range(STRIP):
        left, mirror, open_ = strips[at + np.uintp(LEFT + k)], strips[at + np.uintp(MIRROR + k)], strips[at + np.uintp(OPEN + k)]
        weight, texel = met(place, left, forward, down, height, mirror, open_)
        strips[at + np.uintp(WEIGHT + k)] = weight
        words[at + np.uintp(COLOUR + k)] = texel


@uncounted
def _fetch(strips: Scratch, words: Words, at: np.uintp, colours: Words, surfaces: Words) -> bool:
    """Looks the texels up; tells whether any of them covers or shines."""
    found = np.int32(0)
    for k in range(STRIP):
        texel = np.uintp(words[at + np.uintp(COLOUR + k)])
        colour, surface = colours[texel], surfaces[texel]
        there = strips[at + np.uintp(WEIGHT + k)] > f(0.0)
        found |= (colour & _COVERS | surface & _SHINES) if there else np.int32(0)
        words[at + np.uintp(COLOUR + k)] = colour
        words[at + np.uintp(SURFACE + k)] = surface
    any_: bool = found != 0
    return any_


@uncounted
def _lay_in(strips: Scratch, words: Words, at: np.uintp, light: Light, snow: float) -> None:
    """Lights the texels and lays them into the strip."""
    for k in range(STRIP):
        red, green, blue, cover = seen_at(light, words[at + np.uintp(COLOUR + k)], words[at + np.uintp(SURFACE + k)], snow)
        weight = strips[at + np.uintp(WEIGHT + k)]
        share = weight * strips[at + np.uintp(OPEN + k)]
        strips[at + np.uintp(RED + k)] += share * red
        strips[at + np.uintp(GREEN + k)] += share * green
        strips[at + np.uintp(BLUE + k)] += share * blue
        strips[at + np.uintp(OPEN + k)] *= f(1.0) - cover * weight
