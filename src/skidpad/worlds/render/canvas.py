"""What every kernel paints with: the tables that do not change from frame to frame."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.render.compiling import uncounted
from skidpad.worlds.render.texture import Texels

HAZE_RED, HAZE_GREEN, HAZE_BLUE = 206.0, 218.0, 226.0
"""The colour into which everything far away fades; display values from 0 to 255, as all colours here."""
HAZE_M = 420.0
"""At this distance haze and colour weigh the same."""

Row: TypeAlias = NDArray[np.float32]
"""One row of a frame, (3, width), before rounding; a line for each colour, so that neighbours lie side by side."""

Scratch: TypeAlias = NDArray[np.float32]
"""Scratch memory of a kernel: lines of CHUNK values."""

CHUNK = 64
"""Rows are painted in pieces of so many pixels; loops of fixed length become vector instructions."""


class Canvas(NamedTuple):
    """Tables of one scene and one camera; a named tuple, because compiled code can take it apart."""

    tiles: Texels
    """The tiles of the road grid, flat."""
    directory: NDArray[np.int32]
    origin: FloatArray
    texels: Texels
    trees: FloatArray
    forward: FloatArray
    down: FloatArray
    left: FloatArray
    sky: NDArray[np.float32]
    sky_column: NDArray[np.float32]
    sky_row: NDArray[np.float32]
    lens: FloatArray
    """Focal length in pixels, height in metres, cosine and sine of the pitch."""
    section: FloatArray
    """Distance from the centreline to the edge line, the end of the asphalt and the end of the shoulder."""
    sun: FloatArray


@uncounted
def unit(value: float) -> float:
    """Limits a value to [0, 1]."""
    return min(max(value, 0.0), 1.0)


@uncounted
def haze_at(distance_m: float) -> float:
    """The share of haze in what is seen at a distance; a quotient, because exponentials differ between machines."""
    return distance_m * distance_m / (distance_m * distance_m + HAZE_M * HAZE_M)
