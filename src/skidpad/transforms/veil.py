"""A veil: how much of a frame is kept and what is laid over it, pixel by pixel; fog and rain are veils."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import NumpyFrames

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
