"""Where the camera is mounted: turned, tilted, rolled, raised or shifted against the place that a network was taught for.

A turned camera sees what it would see there exactly (K R K^-1). A shifted one does so on the road's plane; what is above the horizon is
taken to be far away and stays, and what stands up from the road is smeared between the two. No border is left empty: the moved pictures
and their reference are cut to the same window around the middle and enlarged to the frame's size.

Yaw and lateral shift move the right answer as if the whole car stood there: `moved_rad` steers as the built-in world's driver would.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from math import cos, radians, sin
from typing import cast

import cv2
import numpy as np

from skidpad.core.images import Camera, Capture, FloatArray, NumpyFrames
from skidpad.core.stimuli import F, Params, Severity
from skidpad.core.units import LOOK_AHEAD_M, STEERING_RATIO, WHEELBASE_M
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, real
from skidpad.stimuli.pictures.kernels import kernels_of, over_frames

_mounting_severity = partial(Severity, attribute="camera mounting")
_BISECTIONS = 20


@dataclass(frozen=True, slots=True)
class Shift:
    """How a camera was moved, beside where it was: degrees to the left, down and clockwise (seen from behind), metres up and left."""

    yaw_deg: float = 0.0
    pitch_deg: float = 0.0
    roll_deg: float = 0.0
    height_m: float = 0.0
    lateral_m: float = 0.0


class Mounting(PhysicalCondition):
    """A camera that is mounted elsewhere; its parameters are fields of `Shift`."""

    __slots__ = ()

    def shift(self, params: Params) -> Shift:
        """Returns how the camera was moved."""
        return Shift(**{name: params.real(name) for name in params})

    def _painter(self, params: Params, camera: Camera) -> Paint:
        return _seen_through(_maps(camera, self.shift(params), moved=True))

    def apply_at(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the pictures of the moved camera."""
        return _warped(frames, _camera(frames, capture), self.shift(params), moved=True)

    def reference(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the unmoved pictures, cut as the moved ones are."""
        return _warped(frames, _camera(frames, capture), self.shift(params), moved=False)

    def pixel_map(self, params: Params, camera: Camera) -> FloatArray:
        """Returns the homography from a pixel of `reference` to its place in the moved picture; exact on the road's plane.

        Pixels are counted as OpenCV does: the middle of the upper left one is (0, 0).
        """
        shift = self.shift(params)
        window = _window(camera, shift)
        return np.asarray(np.linalg.inv(window) @ road_homography(camera, shift) @ window)

    def moved_rad(self, steering_rad: FloatArray, params: Params) -> FloatArray:
        """Returns the right steering from the moved place, (N,), radians of the steering wheel."""
        return steered_from(steering_rad, self.shift(params))


@condition(
    _mounting_severity("camera yaw to the left", "yaw_deg", "deg", 0.0, 5.0, source="our choice: calibration keeps 0.5 deg"),
    _mounting_severity("camera yaw to the right", "yaw_deg", "deg", 0.0, -5.0, source="our choice: calibration keeps 0.5 deg"),
)
class CameraYaw(Mounting):
    """Turns the camera by `yaw_deg` to the left, as if the whole car stood askew; the right answer moves with it."""

    yaw_deg: float | None = real(-5.0, 5.0, 0.0)


@condition(
    _mounting_severity("camera pitch down", "pitch_deg", "deg", 0.0, 3.0, source="braking and load pitch a car by 1 to 3 deg"),
    _mounting_severity("camera pitch up", "pitch_deg", "deg", 0.0, -3.0, source="braking and load pitch a car by 1 to 3 deg"),
)
class CameraPitch(Mounting):
    """Tilts the camera by `pitch_deg` down; the right answer stays."""

    pitch_deg: float | None = real(-3.0, 3.0, 0.0)


@condition(
    _mounting_severity("camera roll clockwise", "roll_deg", "deg", 0.0, 5.0, source="cars roll by up to 5 deg in bends"),
    _mounting_severity("camera roll anticlockwise", "roll_deg", "deg", 0.0, -5.0, source="cars roll by up to 5 deg in bends"),
)
class CameraRoll(Mounting):
    """Rolls the camera by `roll_deg` clockwise, seen from behind it; the right answer stays."""

    roll_deg: float | None = real(-5.0, 5.0, 0.0)


@condition(
    _mounting_severity("camera too high", "height_m", "m", 0.0, 0.3, source="cars' windscreens: 1.2 to 1.6 m above the road"),
    _mounting_severity("camera too low", "height_m", "m", 0.0, -0.3, source="cars' windscreens: 1.2 to 1.6 m above the road"),
)
class CameraHeight(Mounting):
    """Raises the camera by `height_m`; the right answer stays."""

    height_m: float | None = real(-0.3, 0.3, 0.0)


@condition(
    _mounting_severity("camera shift to the left", "lateral_m", "m", 0.0, 0.6, source="from the mirror to a side's edge"),
    _mounting_severity("camera shift to the right", "lateral_m", "m", 0.0, -0.6, source="from the mirror to a side's edge"),
)
class CameraLateral(Mounting):
    """Shifts the camera by `lateral_m` to the left, as if the whole car stood there; the right answer moves with it."""

    lateral_m: float | None = real(-0.6, 0.6, 0.0)


def steered_from(steering_rad: FloatArray, shift: Shift, forward_m: float = Camera().forward_m) -> FloatArray:
    """Returns what a driver steers, (N,), who stands where `shift` puts the camera and aims where `steering_rad` leads from the old place.

    The aim lies LOOK_AHEAD_M along the arc of the old steering. The camera turns about itself, so that the rear axle, `forward_m` behind
    it, swings out; wheelbase, ratio and aim are those of the built-in world's driver. Pitch, roll and height move nothing.
    """
    if shift.yaw_deg == 0.0 and shift.lateral_m == 0.0:
        return np.array(steering_rad, np.float64)
    curvature = np.tan(np.asarray(steering_rad, np.float64) / STEERING_RATIO) / WHEELBASE_M
    turn = curvature * LOOK_AHEAD_M
    # sinc keeps a straight road exact: the arc's chord is as long as the way, and points along half the turn.
    chord_m = LOOK_AHEAD_M * np.sinc(turn / 2.0 / np.pi)
    ahead_m, left_m = chord_m * np.cos(turn / 2.0), chord_m * np.sin(turn / 2.0)
    yaw = radians(shift.yaw_deg)
    ahead_m = ahead_m - forward_m * (1.0 - cos(yaw))
    left_m = left_m - shift.lateral_m + forward_m * sin(yaw)
    aside_m = left_m * cos(yaw) - ahead_m * sin(yaw)
    return np.asarray(STEERING_RATIO * np.arctan(WHEELBASE_M * 2.0 * aside_m / (ahead_m**2 + left_m**2)))


def _intrinsics(camera: Camera) -> FloatArray:
    """Returns K, from rays (right, down, ahead) to pixels as OpenCV counts them."""
    return np.array(
        [[camera.focal_px, 0.0, (camera.width_px - 1) / 2.0], [0.0, camera.focal_px, (camera.height_px - 1) / 2.0], [0, 0, 1.0]]
    )


def _about(axis: FloatArray, angle_deg: float) -> FloatArray:
    """Returns the rotation of the camera about an axis, as it acts on what the camera sees."""
    return np.asarray(cv2.Rodrigues(-radians(angle_deg) * axis)[0], np.float64)


def _down(camera: Camera) -> FloatArray:
    """Returns the way down to the road in the camera's axes (right, down, ahead)."""
    pitch = radians(camera.pitch_deg)
    return np.array([0.0, cos(pitch), sin(pitch)])


def _rotation(camera: Camera, shift: Shift) -> FloatArray:
    """Returns what a turned camera does to rays; yaw turns about the vertical, not about the tilted camera's own axis."""
    yaw = _about(_down(camera), -shift.yaw_deg)
    pitch = _about(np.array([1.0, 0.0, 0.0]), -shift.pitch_deg)
    roll = _about(np.array([0.0, 0.0, 1.0]), shift.roll_deg)
    return np.asarray(roll @ pitch @ yaw)


def _translation(camera: Camera, shift: Shift) -> FloatArray:
    """Returns where the camera went, in its own axes, metres."""
    return np.asarray(np.array([-shift.lateral_m, 0.0, 0.0]) - shift.height_m * _down(camera))


def road_homography(camera: Camera, shift: Shift) -> FloatArray:
    """Returns the (3, 3) homography from where a point of the road was seen to where the moved camera sees it."""
    plane = np.eye(3) - np.outer(_translation(camera, shift), _down(camera)) / camera.height_m
    inner = _intrinsics(camera)
    return np.asarray(inner @ _rotation(camera, shift) @ plane @ np.linalg.inv(inner))


def _sources(camera: Camera, shift: Shift, pixels: FloatArray) -> FloatArray:
    """Returns where, (N, 2), the moved camera's pixels, (N, 2), were seen before; not finite where behind it."""
    inner = _intrinsics(camera)
    rays = np.column_stack([pixels, np.ones(len(pixels))]) @ np.linalg.inv(inner).T
    rays = rays @ _rotation(camera, shift)  # the inverse of a rotation is its transpose
    down, gone = _down(camera), _translation(camera, shift)
    height_m = camera.height_m + shift.height_m
    # The moved camera's ray meets the road where down . ray * scale is its height; above the horizon nothing is near enough to shift.
    nearness = np.maximum(rays @ down, 0.0) / height_m
    rays = rays + nearness[:, None] * gone
    ahead = np.where(rays[:, 2] > 1e-6, rays[:, 2], np.nan)
    return np.asarray((rays / ahead[:, None]) @ inner.T)[:, :2]


@lru_cache(maxsize=64)
def _scale(camera: Camera, shift: Shift) -> float:
    """Returns how much of the picture the largest window around its middle keeps that is filled before and after the move."""
    most_x, most_y = camera.width_px - 1.0, camera.height_px - 1.0
    across, along = np.linspace(0.0, most_x, 65), np.linspace(0.0, most_y, 65)
    edges = [(across, np.full(65, y)) for y in (0.0, most_y)] + [(np.full(65, x), along) for x in (0.0, most_x)]
    border = np.concatenate([np.column_stack(edge) for edge in edges])
    middle = np.array([most_x / 2.0, most_y / 2.0])

    def is_filled(scale: float) -> bool:
        found = _sources(camera, shift, middle + scale * (border - middle))
        return bool(np.all((found >= -1e-6) & (found <= np.array([most_x, most_y]) + 1e-6)))

    if is_filled(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        half = (low + high) / 2.0
        low, high = (half, high) if is_filled(half) else (low, half)
    return low


def _window(camera: Camera, shift: Shift) -> FloatArray:
    """Returns the (3, 3) map from a pixel of the enlarged window to its place in the whole picture."""
    scale = _scale(camera, shift)
    middle_x, middle_y = (camera.width_px - 1) / 2.0, (camera.height_px - 1) / 2.0
    return np.array([[scale, 0.0, (1.0 - scale) * middle_x], [0.0, scale, (1.0 - scale) * middle_y], [0.0, 0.0, 1.0]])


@lru_cache(maxsize=16)
def _maps(camera: Camera, shift: Shift, *, moved: bool) -> tuple[Field, Field]:
    """Returns where each pixel of the moved picture, or of its reference, comes from: columns and rows, (height, width)."""
    rows, columns = np.mgrid[: camera.height_px, : camera.width_px].astype(np.float64)
    pixels = np.column_stack([columns.ravel(), rows.ravel(), np.ones(rows.size)]) @ _window(camera, shift).T
    found = _sources(camera, shift if moved else Shift(), pixels[:, :2])
    x, y = (np.ascontiguousarray(found[:, axis].reshape(rows.shape), np.float32) for axis in (0, 1))
    return x, y


def _seen_through(maps: tuple[Field, Field]) -> Paint:
    places, parts = cv2.convertMaps(*maps, cv2.CV_16SC2)
    return lambda frame, _: np.asarray(cv2.remap(frame, places, parts, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), np.uint8)


def _camera(frames: F, capture: Capture) -> Camera:
    height, width = int(frames.shape[1]), int(frames.shape[2])
    return replace(capture.camera, height_px=height, width_px=width)


def _warped(frames: F, camera: Camera, shift: Shift, *, moved: bool) -> F:
    kernels_of(frames)
    maps = _maps(camera, shift, moved=moved)
    if isinstance(frames, np.ndarray):
        show = _seen_through(maps)

        def write(frame: NumpyFrames, out: NumpyFrames) -> None:
            out[:] = show(frame, 0.0)

        return cast("F", over_frames(frames, write))
    return cast("F", import_module("skidpad.stimuli.pictures.torch_kernels").remap(frames, *maps))
