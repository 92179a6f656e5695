"""What a transform may ask of the arrays it is given; NumPy and torch each answer in a module of their own."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, TypeVar, cast

import numpy as np

from skidpad.core.images import FloatArray, Frames
from skidpad.stimuli.pictures import numpy_kernels
from skidpad.stimuli.pictures.veils import Veil

F = TypeVar("F", bound=Frames)


class Kernels(Protocol[F]):
    """The operations on frames, uint8 (N, height, width, 3), that transforms are written in.

    Each returns new frames of the same shape and leaves its input untouched. The modules `numpy_kernels` and
    `torch_kernels` are the implementations.
    """

    def warp(self, frames: F, matrix: FloatArray) -> F:
        """Moves pixel (x, y) to `matrix` @ (x, y, 1), (2, 3); bilinear, black where nothing comes from."""
        ...

    def gain(self, frames: F, gain: float) -> F:
        """Multiplies every value, rounding to the nearest, halves to even, and saturating at 255."""
        ...

    def shift(self, frames: F, shift: int) -> F:
        """Adds to every value, saturating at 0 and 255."""
        ...

    def average(self, frames: F, size_px: int) -> F:
        """Replaces each pixel by the mean of the size x size pixels around it."""
        ...

    def gaussian(self, frames: F, size_px: int) -> F:
        """Replaces each pixel by the Gaussian mean of the size x size pixels around it; odd sizes only."""
        ...

    def median(self, frames: F, size_px: int) -> F:
        """Replaces each value by the median of the size x size ones around it; odd sizes only."""
        ...

    def bilateral(self, frames: F, size_px: int, sigma_colour: float, sigma_space_px: float) -> F:
        """Replaces each pixel by the mean of its surroundings, weighted by nearness in space and in colour."""
        ...

    def veil(self, frames: F, veil: Veil) -> F:
        """Lays a veil over the frames."""
        ...


def kernels_of(frames: F) -> Kernels[F]:
    """Returns the kernels for these frames; torch is imported only where frames are not NumPy's."""
    if frames.ndim != 4 or frames.shape[-1] != 3 or 0 in frames.shape[1:] or str(frames.dtype).rpartition(".")[2] != "uint8":
        raise ValueError(
            f"frames must be whole pictures, uint8 of shape (N, height, width, 3); got {frames.dtype} of shape {tuple(frames.shape)}"
        )
    chosen = numpy_kernels if isinstance(frames, np.ndarray) else import_module("skidpad.stimuli.pictures.torch_kernels")
    return cast("Kernels[F]", chosen)
