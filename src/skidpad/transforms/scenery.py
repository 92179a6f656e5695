"""What fog and rain assume of the scene in front of the camera: how far it is, and how uneven the air."""

from functools import lru_cache

import cv2
import numpy as np

from skidpad.core.seeding import child_rng
from skidpad.transforms.veil import Field

HORIZON = 0.42
"""Where the horizon of a front camera lies, as a share of the height from above."""

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
