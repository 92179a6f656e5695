"""The front camera: an ideal pinhole, level to the sides, looking slightly down."""

from dataclasses import dataclass, replace
from math import atan, cos, degrees, radians, sin, tan
from typing import Self

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray

HORIZON = 0.42
"""Where the horizon of a front camera lies where nobody says, as a share of the height from above."""


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole at `height_m`, `forward_m` ahead of the rear axle, on the car's middle line.

    Pixel (row 0, column 0) is the upper left; its middle is at (0.5, 0.5). Square pixels.
    """

    width_px: int = 320
    height_px: int = 160
    fov_deg: float = 70.0
    """The horizontal field of view; the vertical one follows from the shape of the picture."""
    pitch_deg: float = 4.0
    """How far the camera looks down; the horizon then lies two fifths from the top of a 2:1 picture."""
    height_m: float = 1.3
    forward_m: float = 1.6

    def __post_init__(self) -> None:
        if not (16 <= self.width_px <= 8192 and 16 <= self.height_px <= 8192):
            raise BadParametersError(f"a camera's picture is 16 to 8192 pixels wide and high; got {self.width_px}x{self.height_px}")
        if not (10.0 <= self.fov_deg <= 140.0 and 0.0 <= self.pitch_deg <= 45.0 and self.height_m > 0.0):
            raise BadParametersError(
                "a camera sees 10 to 140 degrees, looks down 0 to 45 degrees and is above the ground; "
                f"got fov_deg={self.fov_deg:g}, pitch_deg={self.pitch_deg:g}, height_m={self.height_m:g}"
            )

    @property
    def focal_px(self) -> float:
        """The focal length in pixels."""
        return 0.5 * self.width_px / tan(radians(0.5 * self.fov_deg))

    @property
    def horizon_px(self) -> float:
        """The vertical position of the horizon; may lie outside the picture."""
        return 0.5 * self.height_px - self.focal_px * tan(radians(self.pitch_deg))

    @classmethod
    def guess(cls, height_px: int, width_px: int) -> Self:
        """Returns a front camera for pictures of which nothing else is known: the usual view, the horizon at HORIZON of the height."""
        level = cls(width_px, height_px, pitch_deg=0.0)
        return replace(level, pitch_deg=degrees(atan((0.5 - HORIZON) * height_px / level.focal_px)))

    def rays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns the direction of each pixel: forward and down by row, (height,), and left by column, (width,)."""
        down_px: FloatArray = (np.arange(self.height_px, dtype=np.float64) + 0.5 - 0.5 * self.height_px) / self.focal_px
        left: FloatArray = (0.5 * self.width_px - np.arange(self.width_px, dtype=np.float64) - 0.5) / self.focal_px
        pitch = radians(self.pitch_deg)
        return cos(pitch) - down_px * sin(pitch), sin(pitch) + down_px * cos(pitch), left

    def project(self, pose: FloatArray, points_m: FloatArray) -> FloatArray:
        """Returns the pixels (column, row) of world points.

        pose: (3,), x, y and heading of the rear axle. points_m: (N, 3). Points behind the camera become NaN.
        """
        dx, dy = points_m[:, 0] - pose[0], points_m[:, 1] - pose[1]
        ahead = dx * cos(pose[2]) + dy * sin(pose[2]) - self.forward_m
        left = dy * cos(pose[2]) - dx * sin(pose[2])
        below = self.height_m - points_m[:, 2]
        pitch = radians(self.pitch_deg)
        depth = ahead * cos(pitch) + below * sin(pitch)
        depth = np.where(depth > 0.0, depth, np.nan)
        column = 0.5 * self.width_px - self.focal_px * left / depth
        row = 0.5 * self.height_px + self.focal_px * (below * cos(pitch) - ahead * sin(pitch)) / depth
        return np.stack((column, row), axis=1)
