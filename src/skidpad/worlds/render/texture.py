"""One tileable noise texture with its coarser levels: the grain of asphalt, grass, leaves and clouds."""

from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.worlds.render.compiling import uncounted

SIZE = 256
"""Texels to a side of the finest level; each next level has half as many."""
LEVELS = 7

Texels: TypeAlias = NDArray[np.float32]


@lru_cache(maxsize=1)
def noise_levels() -> Texels:
    """Returns all levels one after another, flat, each with mean 0 and within [-1, 1].

    Every level is a sum of octaves, so that a coarser one looks like the finer one from further away. The same for
    every scene: a scene's seed moves where it is sampled.
    """
    rng = child_rng(0, "noise texture")
    octaves = [rng.uniform(-1.0, 1.0, (SIZE >> k, SIZE >> k)) for k in range(LEVELS)]
    levels = []
    for level in range(LEVELS):
        total = np.zeros((SIZE >> level, SIZE >> level))
        for k in range(level, LEVELS):
            total += (
                np.repeat(np.repeat(octaves[k], 1 << (k - level), axis=0), 1 << (k - level), axis=1)
                if k == level
                else _grow(octaves[k], k - level)
            )
        total -= total.mean()
        levels.append((total / np.abs(total).max()).astype(np.float32).ravel())
    return np.concatenate(levels)


def _grow(octave: FloatArray, times: int) -> FloatArray:
    """Doubles the size `times` times, each time by linear interpolation that wraps around."""
    for _ in range(times):
        for axis in (0, 1):
            between = 0.5 * (octave + np.roll(octave, -1, axis=axis))
            octave = np.stack((octave, between), axis=axis + 1).reshape([n * 2 if k == axis else n for k, n in enumerate(octave.shape)])
    return octave


@uncounted
def level_at(texels_per_px: float) -> tuple[int, int, float]:
    """Returns the level whose texels are about half a pixel: where it starts, its size, its share of the finest scale."""
    offset, size, scale = 0, SIZE, 1.0
    while size > SIZE >> (LEVELS - 2) and texels_per_px * scale > 0.5:
        offset += size * size
        size >>= 1
        scale *= 0.5
    return offset, size, scale


@uncounted
def sample(texels: Texels, offset: int, size: int, x: float, y: float) -> float:
    """Returns the noise at (x, y), in texels of the level that starts at `offset`, bilinear."""
    x0 = np.floor(x)
    y0 = np.floor(y)
    fx = np.float32(x - x0)
    fy = np.float32(y - y0)
    mask = size - 1
    column = int(x0) & mask
    right = (column + 1) & mask
    row = offset + (int(y0) & mask) * size
    below = offset + ((int(y0) + 1) & mask) * size
    # Unsigned, or every index is first checked for counting from the end.
    a = texels[np.uintp(row + column)]
    b = texels[np.uintp(row + right)]
    c = texels[np.uintp(below + column)]
    d = texels[np.uintp(below + right)]
    top = a + fx * (b - a)
    bottom = c + fx * (d - c)
    value: float = top + fy * (bottom - top)
    return value


def sample_many(texels: Texels, x: FloatArray, y: FloatArray) -> FloatArray:
    """Returns the noise of the finest level at arrays of positions, as `sample` does for one."""
    x0, y0 = np.floor(x), np.floor(y)
    fx, fy = x - x0, y - y0
    column, row = x0.astype(np.int64), y0.astype(np.int64)
    finest = texels[: SIZE * SIZE].reshape(SIZE, SIZE)
    top, bottom = (
        (1.0 - fx) * finest[(row + k) % SIZE, column % SIZE] + fx * finest[(row + k) % SIZE, (column + 1) % SIZE] for k in (0, 1)
    )
    return np.asarray((1.0 - fy) * top + fy * bottom)
