"""Frames and parameters for the tests of transforms."""

import cv2
import numpy as np
from hypothesis import strategies as st

from skidpad.core.stimuli import Choice, Params, Real, Space


def noise(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """White noise: the hardest picture for exact claims."""
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def smooth(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """Soft shapes over the whole range, as a camera's picture has."""
    if count * height * width == 0:
        return np.zeros((count, height, width, 3), np.uint8)
    lattices = np.random.default_rng(seed).integers(0, 256, (count, 2 + height // 12, 2 + width // 12, 3), dtype=np.uint8)
    return np.stack([cv2.resize(lattice, (width, height), interpolation=cv2.INTER_LINEAR) for lattice in lattices])


def parameters(space: Space) -> st.SearchStrategy[Params]:
    """Every point of a space."""
    values = {}
    for parameter in space.parameters:
        if isinstance(parameter, Choice):
            values[parameter.name] = st.sampled_from(parameter.options)
        elif isinstance(parameter, Real):
            values[parameter.name] = st.floats(parameter.low, parameter.high, allow_nan=False)
        else:
            values[parameter.name] = st.integers(parameter.low, parameter.high)
    return st.builds(Params, **values)
