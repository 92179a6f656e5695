"""A row of a frame in strips of sixteen pixels, and how cards are painted into them.

What a strip holds lies side by side in one flat array, so that the compiler knows its layout and turns each loop over a strip into vector
instructions: no branch within, what is not there weighs nothing.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.worlds import cards as c
from skidpad.worlds.canvas import Row, Scratch
from skidpad.worlds.meeting import CLOSED, Light, Place, light_of, met, place_of, seen_at
from skidpad.worlds.surface import f

STRIP = 16
LINES = 9
RED, GREEN, BLUE, OPEN, MIRROR, LEFT, WEIGHT, COLOUR, SURFACE = (n * STRIP for n in range(LINES))
"""What is painted in front so far, how much is left to see behind it, how much a wet road mirrors, how far to the left a ray goes; and
of the card in hand: its weight, and the two words of its texels, which are whole numbers in the same memory."""
PITCH = LINES * STRIP
_COVERS, _SHINES = np.int32(-(1 << 24)), np.int32(255 << 16)
"""Which bits of a texel's words say so."""

Words = NDArray[np.int32]


@njit(nogil=True, cache=True, error_model="numpy")
def lay_strips(left: NDArray[np.float64], pixels: int) -> Scratch:
    """Makes the strips of a row; beyond its end, rays go as the last one does."""
    count = (pixels + STRIP - 1) // STRIP
    strips = np.zeros(count * PITCH, np.float32)
    for u in range(count * STRIP):
        strips[(u // STRIP) * PITCH + LEFT + u % STRIP] = left[min(u, pixels - 1)]
    return strips


@njit(nogil=True, cache=True, error_model="numpy")
def open_strips(strips: Scratch) -> None:
    """Begins a new row: nothing is painted, everything is left to see."""
    for strip in range(len(strips) // PITCH):
        at = np.uintp(strip * PITCH)
        for k in range(3 * STRIP):
            strips[at + np.uintp(k)] = f(0.0)
        for k in range(STRIP):
            strips[at + np.uintp(OPEN + k)] = f(1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def most(strips: Scratch, at: np.uintp, line: int) -> float:
    """Returns the greatest value in a line of the strip that starts at `at`."""
    greatest = f(0.0)
    for k in range(STRIP):
        greatest = max(greatest, strips[at + np.uintp(line + k)])
    return greatest


@njit(nogil=True, cache=True, error_model="numpy")
def put_behind(strips: Scratch, row: Row) -> None:
    """Puts what is in front over the row. row: (3, whole strips)."""
    for strip in range(len(strips) // PITCH):
        at, start = np.uintp(strip * PITCH), np.uintp(strip * STRIP)
        for channel in range(3):
            for k in range(STRIP):
                # Where next to nothing is left to see, the row may hold what another row left there.
                rest = strips[at + np.uintp(OPEN + k)]
                rest = rest if rest >= CLOSED else f(0.0)
                u = start + np.uintp(k)
                row[channel, u] = strips[at + np.uintp(channel * STRIP + k)] + rest * row[channel, u]


@njit(nogil=True, cache=True, error_model="numpy")
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
        at = np.uintp(strip * PITCH)
        if most(strips, at, OPEN) < CLOSED or (mirrored and most(strips, at, MIRROR) <= f(0.0)):
            continue
        _meet(strips, words, at, place, forward, down, height)
        if _fetch(strips, words, at, colours, surfaces):
            _lay_in(strips, words, at, light, snow)


@njit(nogil=True, cache=True, error_model="numpy")
def _meet(strips: Scratch, words: Words, at: np.uintp, place: Place, forward: float, down: float, height: float) -> None:
    """Finds which texel each ray of a strip meets, and how much it weighs."""
    for k in range(STRIP):
        left, mirror, open_ = strips[at + np.uintp(LEFT + k)], strips[at + np.uintp(MIRROR + k)], strips[at + np.uintp(OPEN + k)]
        weight, texel = met(place, left, forward, down, height, mirror, open_)
        strips[at + np.uintp(WEIGHT + k)] = weight
        words[at + np.uintp(COLOUR + k)] = texel


@njit(nogil=True, cache=True, error_model="numpy")
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


@njit(nogil=True, cache=True, error_model="numpy")
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
