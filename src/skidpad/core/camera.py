"""The front camera, an ideal pinhole, level to the sides, looking slightly down; and when and how frames were taken with it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import atan, cos, degrees, radians, sin, tan
from typing import Any, Self, TypeVar, cast

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, Frames, IntArray, as_numpy

F = TypeVar("F", bound=Frames)
HORIZON = 0.42
"""Where the horizon of a front camera lies where nobody says, as a share of the height from above."""
LATE_S = 1e-3
"""How much later than asked for an earlier frame may be: times are rounded."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """How frames were taken, for stimuli that depend on it. times_s: (N,), seconds since the drive began, one a frame.

    earlier: returns what the cameras of some frames (their places in the batch) saw at earlier times, both (M,): the last frames taken
    until then, or the first ones. None where nothing but the batch is known, whose frames then follow one another. views: how many
    cameras' pictures each frame holds, side by side; `camera` is each of them.
    """

    camera: Camera
    times_s: FloatArray
    earlier: Callable[[IntArray, FloatArray], Frames] | None = None
    views: int = 1

    @classmethod
    def guess(cls, frames: Frames, rate_hz: float = 20.0) -> Self:
        """Assumes the usual camera, and that frames follow one another."""
        return cls(Camera.guess(int(frames.shape[1]), int(frames.shape[2])), np.arange(len(frames)) / rate_hz)

    def each_view(self, frames: F, change: "Callable[[F, Capture], F]") -> F:
        """Changes what each camera sees by itself, with its own part of this capture, and puts the pictures side by side again."""
        width, earlier = frames.shape[2] // self.views, self.earlier
        parts: list[Any] = []
        for columns in (slice(first, first + width) for first in range(0, width * self.views, width)):
            taken = Capture(self.camera, self.times_s, None if earlier is None else partial(_columns_of, earlier, columns))
            parts.append(change(cast("F", frames[:, :, columns]), taken))
        if isinstance(frames, np.ndarray):
            return cast("F", np.concatenate(parts, axis=2))
        import torch  # noqa: PLC0415 - takes a second

        return cast("F", torch.cat(parts, dim=2))

    def seen(self, frames: F, ages_s: FloatArray) -> F:
        """Returns frames that are `ages_s` old, (N,), in the place of the frames; those of age 0 are the frames themselves."""
        aged = np.flatnonzero(ages_s > 0.0)
        shown: Any = frames.copy() if isinstance(frames, np.ndarray) else frames.clone()
        if not len(aged):
            return cast("F", shown)
        then_s = self.times_s[aged] - ages_s[aged]
        if self.earlier is None:
            found: Any = frames[np.clip(np.searchsorted(self.times_s, then_s + LATE_S, side="right") - 1, 0, None)]
        else:
            found = self.earlier(aged, then_s)
        if isinstance(frames, np.ndarray):
            shown[aged] = as_numpy(found)
        else:
            shown[aged.tolist()] = shown.new_tensor(found) if isinstance(found, np.ndarray) else found.to(shown.device)
        return cast("F", shown)


def _columns_of(earlier: Callable[[IntArray, FloatArray], Frames], columns: slice, places: IntArray, then_s: FloatArray) -> Frames:
    return earlier(places, then_s)[:, :, columns]
