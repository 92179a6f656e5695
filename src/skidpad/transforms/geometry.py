"""Affine matrices: (2, 3), from pixel (x, y) of the frame to pixel (x, y) of the result, y downwards."""

from enum import Enum

import numpy as np

from skidpad.core.images import FloatArray


class Pivot(Enum):
    """The point that a linear map leaves where it is."""

    ORIGIN = "origin"
    """The upper left pixel, as the matrices of DeepTest's Table 2 are printed."""

    CENTRE = "centre"
    """The middle of the frame, near the optical axis of a front camera."""


def about(linear: FloatArray, pivot: Pivot, height_px: int, width_px: int) -> FloatArray:
    """Completes a (2, 2) map to the affine one that leaves the pivot where it is."""
    point = np.zeros(2) if pivot is Pivot.ORIGIN else np.array([(width_px - 1) / 2.0, (height_px - 1) / 2.0])
    return np.column_stack([linear, point - linear @ point])


def inverse(matrix: FloatArray) -> FloatArray:
    """Returns the affine map back."""
    linear = np.linalg.inv(matrix[:, :2])
    return np.column_stack([linear, -linear @ matrix[:, 2]])


def whole_shift(matrix: FloatArray) -> tuple[int, int] | None:
    """Returns (dx, dy) where the map is nothing but a move by whole pixels, else None."""
    dx, dy = float(matrix[0, 2]), float(matrix[1, 2])
    if np.array_equal(matrix[:, :2], np.eye(2)) and dx.is_integer() and dy.is_integer():
        return int(dx), int(dy)
    return None
