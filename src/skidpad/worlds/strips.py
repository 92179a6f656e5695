"""A row of a frame in chunks, and how cards are painted into strips of sixteen pixels of them.

What a chunk holds lies side by side in one flat array, a line of CHUNK values after the other, so that the compiler knows its layout and
turns each loop into vector instructions: no branch within, what is not there weighs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skidpad.worlds import cards as c
from skidpad.worlds.canvas import CHUNK, Scratch
from skidpad.worlds.compiling import compiled, inlined, uncounted
from skidpad.worlds.meeting import CLOSED, Light, Place, light_of, met, place_of, seen_at
from skidpad.worlds.surface import f

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
