"""What falls, and what it leaves on the road: rain, snow, a wet road.

Drops and flakes are points in the air before the camera that fall and are driven into; a frame shows the way that each takes while
the shutter is open. All of it depends on the seed and the time alone, so frames of a drive belong together.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params, Severity
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, ground_m, horizon_row, real, whole
from skidpad.stimuli.conditions.optics import Sky, display, flattened, greyed, linear, sky_of, three, transmission, veiled
from skidpad.stimuli.pictures.kernels import clouds

_CAR_M_S = 14.0
_BITS = 4
_SHADE = 7.0
"""Grey levels between two opacities: lines of one opacity are drawn together."""
_NEAR_M, _DEEP_M, _HALF_WIDE_M, _HALF_HIGH_M = 0.45, 4.0, 3.2, 1.8
"""The box of air whose drops and flakes are drawn one by one; further ones are too small for a pixel, and are veil."""
_VOLUME_M3 = (_DEEP_M - _NEAR_M) * 2.0 * _HALF_WIDE_M * 2.0 * _HALF_HIGH_M


@dataclass(frozen=True, slots=True)
class _Particles:
    """What falls.

    count: in the box. fall_m_s, sway_m_s: downwards and to the sides. smallest_mm, excess_mm: the least size, and the mean beyond it.
    shutter_s: how long one is seen. opacity: of a particle as wide as a pixel, if it stood still; above 1 for what is brighter than air, as
    drops that gather the light of the sky.
    """

    count: int
    fall_m_s: float
    sway_m_s: float
    smallest_mm: float
    excess_mm: float
    shutter_s: float
    opacity: float


def rain_extinction_per_m(mm_per_h: float) -> float:
    """Returns the extinction of rain: 1.58 R^0.63 dB/km (ITU-R P.1814, after Japan's measurements)."""
    return float(1.58 * mm_per_h**0.63 * np.log(10.0) / 10.0 / 1000.0)


def snow_extinction_per_m(mm_per_h: float) -> float:
    """Returns the extinction of dry falling snow at 550 nm: 5.53 S^1.38 dB/km (ITU-R P.1814), S in mm of water an hour."""
    return float(5.53 * mm_per_h**1.38 * np.log(10.0) / 10.0 / 1000.0)


def _drops(mm_per_h: float) -> _Particles:
    """Counts drops of over 2 mm, after Marshall and Palmer (1948): N(D) = 8000 exp(-4.1 R^-0.21 D) per m3 and mm."""
    slope_per_mm = 4.1 * mm_per_h**-0.21
    per_m3 = 8000.0 / slope_per_mm * exp(-2.0 * slope_per_mm)
    return _Particles(min(2600, round(0.30 * per_m3 * _VOLUME_M3)), 7.5, 0.6, 2.0, 1.0 / slope_per_mm, 0.008, 6.0)


def _flakes(mm_per_h: float) -> _Particles:
    """Counts flakes of over 3 mm: those that hold the falling water at 1.1 m/s, 4 mg each, of which half are as large."""
    per_m3 = mm_per_h / 3600.0 * 1000.0 / 1.1 / 0.004 / 2.0
    return _Particles(min(2600, round(per_m3 * _VOLUME_M3)), 1.1, 0.5, 3.0, 1.5, 0.006, 2.4)


@lru_cache(maxsize=8)
def _places(seed: int, kind: str) -> NDArray[np.float32]:
    """Returns (2600, 5) numbers within [0, 1): a place in the box, a size and a sway; heavier rain has all drops of lighter rain."""
    return child_rng(seed, "particles", kind).random((2600, 5), np.float32)


def _seen(camera: Camera, particles: _Particles, kind: str, seed: int, time_s: float) -> Field:
    """Returns the opacity of what falls, (height, width) within [0, 1]."""
    height, width, focal = camera.height_px, camera.width_px, camera.focal_px
    canvas = np.zeros((height, width), np.uint8)
    drawn = _places(seed, kind)[: particles.count]
    if not len(drawn):
        return canvas.astype(np.float32)
    sway = particles.sway_m_s * np.sin(6.3 * drawn[:, 4] + (1.0 + drawn[:, 3]) * time_s)
    shift = (-_CAR_M_S * time_s, particles.sway_m_s * time_s, -particles.fall_m_s * time_s)
    z = _NEAR_M + (drawn[:, 0] * (_DEEP_M - _NEAR_M) + shift[0]) % (_DEEP_M - _NEAR_M)
    x = (drawn[:, 1] * 2.0 * _HALF_WIDE_M + shift[1]) % (2.0 * _HALF_WIDE_M) - _HALF_WIDE_M
    y = (drawn[:, 2] * 2.0 * _HALF_HIGH_M + shift[2]) % (2.0 * _HALF_HIGH_M) - _HALF_HIGH_M
    later = np.maximum(z - _CAR_M_S * particles.shutter_s, 0.25)
    middle = 0.5 * width, camera.horizon_px
    start = np.stack([middle[0] + focal * x / z, middle[1] - focal * y / z], axis=1)
    x_later, y_later = x + sway * particles.shutter_s, y - particles.fall_m_s * particles.shutter_s
    stop = np.stack([middle[0] + focal * x_later / later, middle[1] - focal * y_later / later], axis=1)
    size_px = (particles.smallest_mm - particles.excess_mm * np.log1p(-drawn[:, 3])) * 1e-3 * focal / z
    centre = 0.5 * (start + stop)
    inside = (centre[:, 0] > -40.0) & (centre[:, 0] < width + 40.0) & (centre[:, 1] > -40.0) & (centre[:, 1] < height + 40.0)
    # A pixel of a streak sees the drop only while it passes: the longer the way, the fainter.
    way_px = np.maximum(np.hypot(*(stop - start).T), size_px)
    level = np.clip(255.0 * particles.opacity * (0.5 + drawn[:, 4]) * np.minimum(size_px, 1.0) * size_px / way_px, 0.0, 100.0)
    # What is near is out of focus: wider, and softer by the blur below.
    thick = np.clip(np.rint(size_px), 1, 6).astype(np.int32)
    shades = (np.ceil(level * (1.0 / _SHADE)) * _SHADE).astype(np.int32)
    ends = np.rint(np.stack([start, stop], axis=1) * 2**_BITS).astype(np.int32)
    for thickness in np.unique(thick[inside]).tolist():
        layer = inside & (thick == thickness)
        for shade in np.unique(shades[layer]).tolist():
            cv2.polylines(
                canvas, ends[layer & (shades == shade)], isClosed=False, color=shade, thickness=thickness, lineType=cv2.LINE_AA, shift=_BITS
            )
    return np.asarray(cv2.GaussianBlur(canvas.astype(np.float32) * (1.0 / 255.0), (3, 3), 0.0), np.float32)


def _wetted(frame: Field, camera: Camera, wetness: float) -> Field:
    """Wets the road of a frame of luminance, in place: darker asphalt, and a blurred mirror of what stands above the horizon.

    Reference: a film of water lets asphalt reflect about half of what it does dry; the mirror follows Schlick's formula with water's
    0.02, less by the roughness of the road.
    """
    weight, mirrored = _mirror_weights(camera)
    horizon = horizon_row(camera)
    height, width = frame.shape[:2]
    above = cv2.resize(frame[:horizon], (max(2, width // 8), max(2, horizon // 2)), interpolation=cv2.INTER_AREA)
    # Rough asphalt spreads the mirror most along the line of sight, but across as well: nothing above has an edge below.
    above = cv2.GaussianBlur(above, (0, 0), sigmaX=max(0.5, width / 200.0), sigmaY=max(1.0, height / 22.0), borderType=cv2.BORDER_REPLICATE)
    above = cv2.resize(above, (width, horizon), interpolation=cv2.INTER_LINEAR)
    rows = np.clip(horizon - 1 - np.arange(height - horizon), 0, horizon - 1)
    below = frame[horizon:]
    share = np.float32(wetness) * weight[horizon:] * _asphalt(below, camera)
    mirror = cv2.multiply(above[rows], three(share * mirrored[horizon:]))
    # A camera exposes for the road: where the sky is a hundred times as bright, as against the sun, its mirror would hide all of it.
    most = _MOST_MIRRORED * below + np.float32(0.02)
    mirror = cv2.multiply(mirror, most / (mirror + most))
    cv2.multiply(below, three(1.0 - np.float32(0.45) * share), dst=below)
    cv2.add(below, mirror, dst=below)
    return frame


_MOST_MIRRORED = 4.0
"""How many times as bright as the dry road its mirror gets at most."""


_SHADE_LIGHT = 0.02
"""Luminance below which pixels are too dark to be told apart."""


def _asphalt(ground: Field, camera: Camera) -> Field:
    """Returns how much each pixel below the horizon is like the asphalt ahead, (rows, width): no car, verge or shadow is a wet road."""
    rows, width = ground.shape[:2]
    small = cv2.resize(ground, (max(2, width // 2), max(2, rows // 2)), interpolation=cv2.INTER_AREA)
    ahead = small[_ahead(camera, small.shape[:2])]
    usual = np.median(ahead, axis=0) if len(ahead) else np.median(small, axis=(0, 1))
    # Deep shade has no colour that could be told: a little of the usual light belongs to every pixel.
    light = cv2.transform(small, np.full((1, 3), 1 / 3)) + np.float32(_SHADE_LIGHT)
    stops = np.abs(np.log2(light * np.float32(1.0 / (usual.mean() + _SHADE_LIGHT))))
    tint = cv2.divide(small, three(3.0 * light)) - (usual / (3.0 * (usual.mean() + _SHADE_LIGHT))).astype(np.float32)
    tinted = np.sqrt(cv2.transform(tint * tint, np.ones((1, 3))))
    like = np.clip(2.2 - stops, 0.0, 1.0) * np.clip(2.0 - 20.0 * tinted, 0.0, 1.0)
    return np.asarray(cv2.resize(cv2.blur(like.astype(np.float32), (3, 3)), (width, rows), interpolation=cv2.INTER_LINEAR), np.float32)


@lru_cache(maxsize=8)
def _ahead(camera: Camera, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Returns which pixels below the horizon show the own lane from 6 to 25 m ahead, at a smaller size (rows, width)."""
    ahead, left, _ = ground_m(camera)
    lane = (np.abs(left) < 2.2) & (ahead > 6.0) & (ahead < 25.0)
    small = cv2.resize(lane[horizon_row(camera) :].astype(np.uint8), size[::-1], interpolation=cv2.INTER_NEAREST)
    return np.asarray(small > 0, np.bool_)


@lru_cache(maxsize=8)
def _mirror_weights(camera: Camera) -> tuple[Field, Field]:
    """Returns where the road is and how much of a mirror it is there, both (height, width)."""
    ahead, left, ground = ground_m(camera)
    lane = ground * np.clip((9.0 - np.abs(left)) / 5.0, 0.0, 1.0)
    # Nobody knows the horizon to a row: a mirror that began at one would show as a border.
    depth = (np.arange(camera.height_px) - camera.horizon_px) / camera.height_px
    road = lane * np.clip(depth / 0.07, 0.0, 1.0)[:, None]
    grazing = camera.height_m / np.sqrt(ahead**2 + left**2 + camera.height_m**2)
    fresnel = 0.02 + 0.98 * (1.0 - grazing) ** 5
    return road.astype(np.float32), np.clip(0.62 * fresnel, 0.0, 0.5).astype(np.float32)


def _clouded(frame: NumpyFrames, sky: Sky, share: float) -> Field:
    """Returns a frame's luminance under the clouds that rain and snow come from: a grey sky, flat light, little colour."""
    white = (sky.level / 255.0) ** 2
    # By day nothing on the ground is brighter than the clouds; by night headlights and lamps are.
    by_day = min(max((sky.level - 60.0) / 80.0, 0.0), 1.0)
    light = greyed(flattened(linear(frame, brightest=white / max(share * by_day, 1e-4)), sky, share), 0.45 * share)
    rows, width = sky.share.shape
    sky.lay(light, white * _overcast(rows, width), share)
    return light


@lru_cache(maxsize=8)
def _overcast(rows: int, width: int) -> Field:
    """Returns the light of a rain cloud, (rows, width, 3) around 1: soft swathes, lighter towards the horizon."""
    swathes = cv2.GaussianBlur(clouds(rows, width, 29), (0, 0), max(1.0, width / 40.0))
    light = 0.86 + 0.28 * swathes + 0.10 * (np.linspace(0.0, 1.0, rows, dtype=np.float32) ** 2)[:, None]
    return np.ascontiguousarray(light[..., None] * np.array([0.93, 0.965, 1.0], np.float32), np.float32)


@condition(
    Severity(
        "rain",
        "mm_per_h",
        "mm/h",
        0.5,
        60.0,
        is_logarithmic=True,
        attribute="rainfall",
        source="WMO: light to 2.5, moderate to 10, heavy to 50 mm/h",
    )
)
class Rain(PhysicalCondition):
    """Rain of `mm_per_h`: a cloudy sky, a wet road that mirrors, air that hides what is far, streaks that fall; `seed` of its drops.

    Reference: drops after Marshall and Palmer (1948), air after ITU-R P.1814; weather services call up to 2.5 mm/h light, up to 10
    (AMS: 7.6) moderate, up to 50 heavy, and more violent.
    """

    mm_per_h: float | None = real(0.0, 100.0, 0.0)
    seed: int | None = whole(0, 999_999, 0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        rate, seed = params.real("mm_per_h"), params.whole("seed")
        if rate <= 0.0:
            return lambda frame, _: frame.copy()
        particles, extinction = _drops(rate), rain_extinction_per_m(rate)
        wetness = min(1.0, 0.35 + 0.65 * (rate / 8.0) ** 0.5)
        gloom = 1.0 - 0.30 * min(1.0, (rate / 60.0) ** 0.5)
        clouds = min(1.0, 0.5 + 0.25 * rate**0.5)

        def paint(frame: NumpyFrames, time_s: float) -> Field:
            sky = sky_of(frame, camera)
            light = _wetted(_clouded(frame, sky, clouds), camera, wetness)
            light *= gloom
            air = np.array([0.93, 0.97, 1.0], np.float32) * np.float32(sky.level * gloom**0.5)
            through = transmission(camera, extinction, sky)
            through *= 1.0 - _seen(camera, particles, "drops", seed, time_s)
            return veiled(display(light), through, air)

        return paint


@condition(
    Severity(
        "snow",
        "mm_per_h",
        "mm/h",
        0.1,
        6.0,
        is_logarithmic=True,
        attribute="snowfall",
        source="ITU-R P.1814; AMS: heavy is less than 500 m of visibility",
    )
)
class Snow(PhysicalCondition):
    """Falling snow of `mm_per_h` of water: a cloudy sky, hazy air, flakes; the ground stays as it is. `seed` of its flakes.

    Reference: air after ITU-R P.1814 (dry snow). Snow is called heavy where one sees less than 500 m far (AMS): from 3.7 mm/h here.
    """

    mm_per_h: float | None = real(0.0, 10.0, 0.0)
    seed: int | None = whole(0, 999_999, 0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        rate, seed = params.real("mm_per_h"), params.whole("seed")
        if rate <= 0.0:
            return lambda frame, _: frame.copy()
        particles, extinction = _flakes(rate), snow_extinction_per_m(rate)
        clouds = min(1.0, 0.6 + 0.4 * rate)

        def paint(frame: NumpyFrames, time_s: float) -> Field:
            sky = sky_of(frame, camera)
            air = np.array([0.97, 0.985, 1.0], np.float32) * np.float32(sky.level)
            out = veiled(display(_clouded(frame, sky, clouds)), transmission(camera, extinction, sky), air)
            white = np.full(3, min(255.0, 1.08 * sky.level), np.float32)
            return veiled(out, 1.0 - _seen(camera, particles, "flakes", seed, time_s), white)

        return paint


@condition(Severity("wet road", "wetness", "of 1", 0.0, 1.0, attribute="road surface: wet", source="a closed film of water is 1"))
class WetRoad(PhysicalCondition):
    """A road after rain; wetness: 0 dry, 1 a closed film of water (0.3 mm), darker and a mirror where one looks along it."""

    wetness: float | None = real(0.0, 1.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        wetness = params.real("wetness")
        return lambda frame, _: display(_wetted(linear(frame), camera, wetness))
