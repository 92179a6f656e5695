"""What a lens does to light: defocus, blur by motion, dark corners, colour fringes, bent lines, ghosts."""

from functools import lru_cache, partial
from math import atan2, ceil, radians, tan
from typing import Any

import cv2
import numpy as np

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.stimuli import Params, Severity
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, real
from skidpad.stimuli.conditions.optics import three

_lens_severity = partial(Severity, attribute="camera lens")
_FINE = 8
"""Parts of a pixel in which a disc's edge is drawn."""


@condition(_lens_severity("defocus", "blur_deg", "deg", 0.0, 3.0, source="blur = aperture x dioptres: 1 deg is 5.8 D at 3 mm"))
class Defocus(PhysicalCondition):
    """Blurs every point to a disc of `blur_deg` degrees of view."""

    blur_deg: float | None = real(0.0, 3.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        kernel = disc(camera.focal_px * radians(params.real("blur_deg")))
        return lambda frame, _: np.asarray(cv2.filter2D(frame, -1, kernel, borderType=cv2.BORDER_REFLECT_101), np.uint8)


def disc(diameter_px: float) -> Field:
    """Returns the kernel of a disc with soft edges, summing to 1; a single 1 for a disc within a pixel's middle."""
    radius = max(0, ceil(diameter_px / 2.0 - 0.5))
    size = 2 * radius + 1
    offsets = (np.arange(size * _FINE) + 0.5) / _FINE - size / 2.0
    inside = offsets[:, None] ** 2 + offsets**2 <= max(diameter_px / 2.0, 0.5 / _FINE * 2.0) ** 2
    kernel = inside.reshape(size, _FINE, size, _FINE).mean(axis=(1, 3))
    return np.asarray(kernel / kernel.sum(), np.float32)


_WALL_M = 9.0
_FAR_M = 150.0


@condition(
    _lens_severity("motion blur", "shutter_ms", "ms", 0.0, 100.0, source="shutters of 1/30 s and longer are usual at night; at 50 km/h"),
    _lens_severity(
        *("motion blur in a turn", "shutter_ms", "ms", 0.0, 100.0),
        others=Params(speed_kmh=30.0, yaw_deg_s=40.0),
        source="a turn at a junction, 12 m of radius at 30 km/h: 40 deg/s",
    ),
)
class MotionBlur(PhysicalCondition):
    """Opens the shutter for `shutter_ms` while the car drives `speed_kmh` and turns by `yaw_deg_s`.

    How far a point moves depends on how far it is: the road is a plane, and what stands beside it is taken for walls 9 m to the left
    and right. Reference: optical flow of a moving pinhole camera.
    """

    shutter_ms: float | None = real(0.0, 100.0, 0.0)
    speed_kmh: float | None = real(0.0, 150.0, 50.0)
    yaw_deg_s: float | None = real(-60.0, 60.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what averages what the shutter sees, from half before to half after the frame's moment."""
        fine, coarse = _flow_maps(camera, params.real("shutter_ms"), params.real("speed_kmh"), params.real("yaw_deg_s"))

        def smear(frame: NumpyFrames, _: float) -> Field:
            # OpenCV moves pixels of four bytes twice as fast as those of three, to the same values.
            wide = cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA)
            near = cv2.convertScaleAbs(_summed(wide, fine), alpha=1.0 / 3.0)
            return np.asarray(_summed(near, coarse)[..., :3] * np.float32(1.0 / 3.0), np.float32)

        return smear


def _summed(wide: Any, maps: tuple[tuple[Any, Any], tuple[Any, Any]]) -> Field:
    """Returns the sum of a frame and of what it looks like at two other moments."""
    total = np.asarray(wide, np.float32)
    for places, parts in maps:
        cv2.accumulate(cv2.remap(wide, places, parts, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), total)
    return total


@lru_cache(maxsize=16)
def _flow_maps(
    camera: Camera, shutter_ms: float, speed_kmh: float, yaw_deg_s: float
) -> tuple[tuple[tuple[Any, Any], tuple[Any, Any]], tuple[tuple[Any, Any], tuple[Any, Any]]]:
    """Returns where each pixel's light comes from, as OpenCV's fixed-point maps, a ninth and a third of the time before and after.

    Three moments of three moments are nine, for four maps instead of eight: within a shutter's time a point's way is all but straight.
    """
    shutter_s = shutter_ms / 1000.0
    way_m, turn = speed_kmh / 3.6 * shutter_s, radians(yaw_deg_s * shutter_s)
    before_near, after_near, before, after = (
        cv2.convertMaps(*_shift_px(camera, share * way_m, share * turn), cv2.CV_16SC2) for share in (-1 / 9, 1 / 9, -1 / 3, 1 / 3)
    )
    return (before_near, after_near), (before, after)


def _shift_px(camera: Camera, way_m: float, turn: float) -> tuple[Field, Field]:
    """Returns where each pixel's scene point lies after driving on: columns and rows, (height, width)."""
    rays = camera.rays()
    forward, down, left = np.broadcast_arrays(rays[0][:, None], rays[1][:, None], rays[2])
    ground = np.where(down > 1e-6, camera.height_m / np.maximum(down, 1e-6), _FAR_M)
    depth = np.minimum(np.minimum(ground, _WALL_M / np.maximum(np.abs(left), 1e-6)), _FAR_M)
    ahead, aside, below = forward * depth - way_m, left * depth, down * depth
    ahead, aside = ahead * np.cos(turn) + aside * np.sin(turn), aside * np.cos(turn) - ahead * np.sin(turn)
    pitch = radians(camera.pitch_deg)
    axis = np.maximum(ahead * np.cos(pitch) + below * np.sin(pitch), 0.3)
    x = 0.5 * camera.width_px - 0.5 - camera.focal_px * aside / axis
    y = 0.5 * camera.height_px - 0.5 + camera.focal_px * (below * np.cos(pitch) - ahead * np.sin(pitch)) / axis
    return np.asarray(x, np.float32), np.asarray(y, np.float32)


def _radius(camera: Camera) -> Field:
    """Returns each pixel's distance from the middle, (height, width), 1 in the corners."""
    rows, columns = np.mgrid[: camera.height_px, : camera.width_px].astype(np.float32)
    middle_y, middle_x = (camera.height_px - 1) / 2.0, (camera.width_px - 1) / 2.0
    return np.asarray(np.hypot(rows - middle_y, columns - middle_x) / np.hypot(middle_y, middle_x), np.float32)


@condition(_lens_severity("vignetting", "stops", "stops", 0.0, 5.0, source="cos^4 of a wide lens: 1.1 stops at 40 deg; hoods add more"))
class Vignetting(PhysicalCondition):
    """Darkens the frames towards the corners, where `stops` stops of light are lost."""

    stops: float | None = real(0.0, 5.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what darkens; the values fall as the light to the power of 1/2.2."""
        gain = three(np.asarray(2.0 ** (-params.real("stops") * _radius(camera) ** 2 / 2.2), np.float32))
        return lambda frame, _: np.asarray(cv2.multiply(frame, gain, dtype=cv2.CV_8U), np.uint8)


@condition(_lens_severity("colour fringes", "percent", "%", 0.0, 3.0, source="lateral chromatic aberration as in ISO 19084; 0.1 % usual"))
class ChromaticAberration(PhysicalCondition):
    """Magnifies red by `percent` more than green and blue by as much less, so that edges far from the middle get colour fringes."""

    percent: float | None = real(0.0, 3.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what shifts the colours apart; blurred along the radius between the three as real glass does."""
        size = (camera.width_px, camera.height_px)
        middle = np.array([(size[0] - 1) / 2.0, (size[1] - 1) / 2.0])
        matrices = []
        for way in (1.0, -1.0):
            zoom = 1.0 + way * params.real("percent") / 100.0
            matrices.append(np.column_stack([zoom * np.eye(2), middle * (1.0 - zoom)]))

        def part(frame: NumpyFrames, _: float) -> NumpyFrames:
            red, green, blue = cv2.split(frame)
            red, blue = (
                cv2.warpAffine(plane, matrix, size, borderMode=cv2.BORDER_REPLICATE)
                for plane, matrix in zip((red, blue), matrices, strict=True)
            )
            return np.asarray(cv2.merge((red, green, blue)), np.uint8)

        return part


@condition(
    _lens_severity("barrel distortion", "k1", "k1", 0.0, -0.2, source="Brown's model, corner at 1; an uncalibrated wide lens"),
    _lens_severity("pincushion distortion", "k1", "k1", 0.0, 0.2, source="Brown's model, corner at 1; over-corrected"),
)
class RadialDistortion(PhysicalCondition):
    """Bends straight lines: points at the corner's distance r move by `k1` r^3; below 0 outwards lines bulge (barrel).

    The picture is zoomed just so far that none of its border is empty. The road's middle stays where it is, and so does the truth.
    Reference: Brown, Decentering Distortion of Lenses (1966).
    """

    k1: float | None = real(-0.2, 0.2, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        places, parts = _bend_maps(camera, params.real("k1"))
        return lambda frame, _: np.asarray(cv2.remap(frame, places, parts, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), np.uint8)


@lru_cache(maxsize=16)
def _bend_maps(camera: Camera, k1: float) -> tuple[Any, Any]:
    rows, columns = np.mgrid[: camera.height_px, : camera.width_px].astype(np.float32)
    middle_y, middle_x = (camera.height_px - 1) / 2.0, (camera.width_px - 1) / 2.0
    # A barrel takes a pixel's light from further out: r (1 - k1 r^2) to first order.
    stretch = 1.0 - k1 * _radius(camera) ** 2
    stretch /= max(float(np.max(stretch[0])), float(np.max(stretch[:, 0])), float(np.max(stretch[-1])), 1.0)
    x = middle_x + (columns - middle_x) * stretch
    y = middle_y + (rows - middle_y) * stretch
    made = cv2.convertMaps(x.astype(np.float32), y.astype(np.float32), cv2.CV_16SC2)
    return made[0], made[1]


@condition(_lens_severity("double image", "arcmin", "arcmin", 0.0, 120.0, source="UN R43 allows 15 to 25 arcmin; beyond is our choice"))
class DoubleImage(PhysicalCondition):
    """Adds the second image that a windscreen's inner face throws, `arcmin` above the first and a quarter as bright."""

    arcmin: float | None = real(0.0, 120.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        up_px = camera.focal_px * tan(radians(params.real("arcmin") / 60.0))
        matrix = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -up_px]])

        def double(frame: NumpyFrames, _: float) -> NumpyFrames:
            second = cv2.warpAffine(frame, matrix, (camera.width_px, camera.height_px), borderMode=cv2.BORDER_REPLICATE)
            return np.asarray(cv2.addWeighted(frame, 0.75, second, 0.25, 0.0), np.uint8)

        return double


_GHOSTS = ((-0.35, 0.05, (0.9, 1.0, 0.7)), (0.25, 0.08, (0.6, 1.0, 0.9)), (0.5, 0.035, (1.0, 0.8, 0.6)), (1.35, 0.16, (0.7, 0.8, 1.0)))
"""Reflections between the glasses, on the line from the lamp through the middle: place (1 is opposite the lamp), radius, colour."""


@condition(
    _lens_severity("lens flare", "strength", "of white", 0.0, 0.8, source="ghosts as in IEEE 2020 flare tests; the worst end is our choice")
)
class LensFlare(PhysicalCondition):
    """Adds the ghosts of a light outside or at the upper edge of the view, in direction `side_deg`, as bright as `strength` of white."""

    strength: float | None = real(0.0, 0.8, 0.0)
    side_deg: float | None = real(-60.0, 60.0, 25.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        add = _ghosts(camera, params.real("strength"), params.real("side_deg"))
        return lambda frame, _: np.asarray(cv2.add(frame, add), np.uint8)


@lru_cache(maxsize=16)
def _ghosts(camera: Camera, strength: float, side_deg: float) -> NumpyFrames:
    rows, columns = np.mgrid[: camera.height_px, : camera.width_px].astype(np.float32)
    middle = np.array([camera.width_px / 2.0, camera.height_px / 2.0])
    lamp = np.array([camera.focal_px * tan(radians(side_deg)), -0.62 * camera.height_px])
    light = np.zeros((camera.height_px, camera.width_px, 3), np.float32)
    for place, radius, colour in _GHOSTS:
        x, y = middle - place * lamp
        away = np.hypot(columns - x, rows - y) / (radius * camera.width_px)
        # A disc, slightly brighter at its rim, with a soft edge.
        ghost = np.clip((1.0 - away) * 6.0, 0.0, 1.0) * (0.55 + 0.45 * np.clip(away, 0.0, 1.0) ** 4)
        light += 0.45 * ghost[..., None] * np.array(colour, np.float32)
    direction = lamp / np.hypot(*lamp)
    along = (columns - middle[0] - lamp[0]) * -direction[0] + (rows - middle[1] - lamp[1]) * -direction[1]
    across = (columns - middle[0] - lamp[0]) * -direction[1] + (rows - middle[1] - lamp[1]) * direction[0]
    reach = np.hypot(camera.width_px, camera.height_px)
    veil = np.exp(-np.hypot(along, across) / (0.35 * reach))
    rays = 0.5 + 0.5 * np.cos(14.0 * np.arctan2(across, np.maximum(along, 1e-3)) + atan2(direction[1], direction[0]))
    light += (0.7 * veil * (0.75 + 0.25 * rays))[..., None] * np.array([1.0, 0.97, 0.9], np.float32)
    return np.asarray(np.clip(255.0 * strength * light, 0, 255), np.uint8)
