"""A veil: how much of a frame is kept and what is laid over it, pixel by pixel; fog and rain are veils."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.camera import HORIZON
from skidpad.core.images import NumpyFrames
from skidpad.core.seeding import child_rng

Field = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Veil:
    """The weights of `out = keep/255 * frame + soft/255 * blurred frame + add`.

    Each product is rounded to the nearest and the sum saturates, so every backend gives the same pixels.
    keep, add: (height, width, 3) uint8. soft: (rows, width, 3) uint8 for the upper `rows`; zero below.
    Compared by identity, so that a device can keep its copy.
    """

    keep: NumpyFrames
    add: NumpyFrames
    soft: NumpyFrames
    soft_size_px: int

    @classmethod
    def of(cls, keep: Field, add: Field, soft_share: Field | None = None, soft_size_px: int = 1) -> Self:
        """Quantises the weights.

        keep: (height, width), within [0, 1]. add: (height, width, 3), grey levels. soft_share: (rows, width), the
        share of `keep` that is taken from the frame blurred by a box of `soft_size_px`.
        """
        rows = 0 if soft_share is None else len(soft_share)
        share = np.zeros_like(keep)
        if soft_share is not None:
            share[:rows] = soft_share
        soft = np.rint(255.0 * keep * share)
        whole = np.maximum(np.rint(255.0 * keep), soft)
        return cls(_three(whole - soft), _frozen(np.clip(np.rint(add), 0, 255).astype(np.uint8)), _three(soft[:rows]), soft_size_px)


def _three(plane: Field) -> NumpyFrames:
    return _frozen(np.ascontiguousarray(np.repeat(plane.astype(np.uint8)[..., None], 3, axis=-1)))


def _frozen(array: NumpyFrames) -> NumpyFrames:
    array.setflags(write=False)
    return array


_NEAREST = 0.07
"""How quickly a flat road comes nearer below the horizon, as a share of the height."""

_SMOOTH = 0.10
"""Over which share of the height the horizon is rounded off: hills and trees hide the sharp line, and frames differ."""

_OCTAVES = 5


def distance(height_px: int, width_px: int) -> Field:
    """Returns how far each pixel is, (height, width) within (0, 1]: the sky 1, a flat road nearer towards the bottom."""
    offset = (np.arange(height_px) + 0.5) / height_px - HORIZON
    below = (offset + np.hypot(offset, _SMOOTH)) / 2.0
    column = (_NEAREST / (_NEAREST + below)).astype(np.float32)
    return np.ascontiguousarray(np.broadcast_to(column[:, None], (height_px, width_px)))


@lru_cache(maxsize=16)
def clouds(height_px: int, width_px: int, seed: int) -> Field:
    """Returns cloudy noise, (height, width) within [0, 1]: octaves of smooth random lattices, wider than tall.

    The lattices hang on seed and aspect alone, so one seed shows the same clouds at every size.
    """
    rng = child_rng(seed, "clouds")
    total = np.zeros((height_px, width_px), np.float32)
    for octave in range(_OCTAVES):
        tall = 2**octave + 2
        wide = max(2, round(tall * width_px / height_px / 2.0)) if height_px * 64 > width_px else tall
        lattice = rng.random((tall, wide), np.float32)
        total += 0.55**octave * cv2.resize(lattice, (width_px, height_px), interpolation=cv2.INTER_CUBIC)
    low, high = float(total.min()), float(total.max())
    total = (total - low) / max(high - low, 1e-6)
    total.setflags(write=False)
    return total
