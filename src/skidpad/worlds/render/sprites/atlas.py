"""The pictures that upright cards carry: trees, cars, people, facades, signs, each with its coarser levels.

A texel has eight bytes: red, green and blue times coverage, coverage, the surface's direction to the right and up (128 is none), how
much it shines by itself, and how much it takes a card's tint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

CHANNELS = 8
RED, GREEN, BLUE, COVER, RIGHT, UP, SHINE, TINT = range(CHANNELS)
LEVELS = 6

Picture: TypeAlias = NDArray[np.float32]
"""(height, width, 8), in the range of bytes, colours already times coverage; width a power of two, height a multiple of 32."""


class Sprite(NamedTuple):
    """Where a picture begins in the atlas, its size in texels, and how many metres its width and height stand for (0: the card says)."""

    start: int
    width_px: int
    height_px: int


@dataclass(frozen=True, eq=False)
class Atlas:
    """texels: (T, 8) bytes. The numbers of the first sprites: trees, cars by angle, people by phase, facades, and single ones."""

    texels: NDArray[np.uint8]
    sprites: tuple[Sprite, ...]
    trees: int
    cars: int
    people: int
    facades: int
    board: int
    beam: int
    post: int
    delineator: int
    glow: int

    @cached_property
    def words(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The halves of the texels as whole numbers, (T,): colours and coverage; directions, shine and tint."""
        pairs = np.ascontiguousarray(self.texels).view("<i4").reshape(-1, 2)
        return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])

    @property
    def table(self) -> NDArray[np.float64]:
        """The sprites as rows: start, width, height."""
        return np.array(self.sprites, dtype=np.float64)


def empty_picture(height_px: int, width_px: int) -> Picture:
    """Returns a picture of nothing, whose surface faces the viewer."""
    picture = np.zeros((height_px, width_px, CHANNELS), np.float32)
    picture[..., [RIGHT, UP]] = 128.0
    return picture


def shrunk(picture: Picture, times: int = 2) -> Picture:
    """Returns the picture with so many times fewer texels each way; what is not covered weighs nothing but in coverage."""
    weighted = picture.copy()
    weighted[..., RIGHT:] *= picture[..., COVER : COVER + 1] + np.float32(1e-3)
    rows = weighted[::times].copy()
    for step in range(1, times):
        rows += weighted[step::times]
    total = rows[:, ::times].copy()
    for step in range(1, times):
        total += rows[:, step::times]
    count = np.float32(times * times)
    total[..., RIGHT:] /= total[..., COVER : COVER + 1] + count * np.float32(1e-3)
    total[..., : COVER + 1] /= count
    return total


@lru_cache(maxsize=1)
def atlas() -> Atlas:
    """Paints all pictures; takes about a second, once in a process."""
    from skidpad.worlds.render.sprites import built, cars, living

    groups: dict[str, list[Picture]] = {
        "trees": living.trees(),
        "cars": cars.cars(),
        "people": living.people(),
        "facades": built.facades(),
        "board": [built.board()],
        "beam": [built.beam()],
        "post": [built.post()],
        "delineator": [built.delineator()],
        "glow": [built.glow()],
    }
    first: dict[str, int] = {}
    sprites: list[Sprite] = []
    parts: list[NDArray[np.uint8]] = []
    start = 0
    for name, pictures in groups.items():
        first[name] = len(sprites)
        for picture in pictures:
            sprites.append(Sprite(start, picture.shape[1], picture.shape[0]))
            for level in range(LEVELS):
                picture = shrunk(picture) if level else picture  # noqa: PLW2901 - each level comes from the one before
                part = np.clip(picture + 0.5, 0.0, 255.0).astype(np.uint8).reshape(-1, CHANNELS)
                parts.append(part)
                start += len(part)
    return Atlas(np.concatenate(parts), tuple(sprites), **first)
