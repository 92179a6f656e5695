"""Light that blinds or is missing: a low sun, oncoming headlights, dusk and night, street lamps."""

from dataclasses import dataclass
from functools import lru_cache
from math import cos, exp, log10, radians, sin
from typing import Self

import cv2
import numpy as np

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.stimuli import Params, Severity
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, depth_m, frozen, ground_m, real
from skidpad.stimuli.conditions.optics import Sky, display, flattened, grainy, greyed, linear, sky_of

_DAY_LX = 10_000.0
"""An overcast day; what frames are taken to have been taken in."""
_WHITE_CD_PER_LX = 0.1
"""The luminance that is white in a picture, by the light on the ground: a third of a white surface's for exposure."""
_GLARE = 3.0
"""Veiling luminance in cd/m2 = 3 E / angle^2, in lx and degrees: the law of Stiles and Holladay (CIE 146:2002), whose 10 is the eye's; a
clean lens behind a windscreen scatters a third of that."""
_CAR_M_S = 14.0


def _rays(camera: Camera) -> tuple[Field, Field, Field]:
    """Returns the direction of each pixel as a unit vector: forward, left and up, (height, width)."""
    forward, down, left = camera.rays()
    norm = np.sqrt(forward[:, None] ** 2 + down[:, None] ** 2 + left[None, :] ** 2)
    return (
        (forward[:, None] / norm).astype(np.float32),
        (left[None, :] / norm).astype(np.float32),
        (-down[:, None] / norm).astype(np.float32),
    )


def _angle_deg(camera: Camera, forward: float, left: float, up: float) -> Field:
    """Returns the angle between each pixel and a direction, (height, width)."""
    one, two, three = _rays(camera)
    length = float(np.sqrt(forward**2 + left**2 + up**2))
    return np.asarray(np.degrees(np.arccos(np.clip((one * forward + two * left + three * up) / length, -1.0, 1.0))), np.float32)


def sun_lx(elevation_deg: float) -> float:
    """Returns the direct light of the sun on a surface that faces it: 128 klx above the air, thinned by the air that it crosses.

    Reference: air mass after Kasten and Young (1989), an extinction of 0.21 (DiLaura 1984).
    """
    mass = 1.0 / (sin(radians(elevation_deg)) + 0.50572 * (elevation_deg + 6.07995) ** -1.6364)
    return 128_000.0 * exp(-0.21 * mass)


def ground_lx(elevation_deg: float) -> float:
    """Returns the light of sun and clear sky on level ground: 80 klx at 45 degrees, 4 klx at 3."""
    height = sin(radians(elevation_deg))
    return float(sun_lx(elevation_deg) * height + 16_000.0 * height**0.5)


@condition(
    Severity(
        "low sun",
        "elevation_deg",
        "deg",
        45.0,
        3.0,
        is_logarithmic=True,
        others=Params(strength=1.0),
        attribute="illumination: sun position",
        source="veiling glare of Stiles and Holladay (CIE 146), air mass of Kasten and Young",
    )
)
class LowSun(PhysicalCondition):
    """A sun `elevation_deg` above the horizon and `azimuth_deg` to the left of straight ahead; `strength`: the share that clouds leave.

    The lens and the windscreen scatter its light over the picture as the eye does; the camera exposes for the brighter picture.
    """

    elevation_deg: float | None = real(1.0, 60.0)
    azimuth_deg: float | None = real(-90.0, 90.0, 0.0)
    strength: float | None = real(0.0, 1.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        elevation, strength = params.real("elevation_deg"), params.real("strength")
        if strength <= 0.0:
            return lambda frame, _: frame.copy()
        veil, core, disc = _sun(camera, elevation, params.real("azimuth_deg"))

        def paint(frame: NumpyFrames, _: float) -> Field:
            sky = sky_of(frame, camera)
            light = linear(frame)
            # Trees before the sun hide its core, and let some of the glare through.
            visible = 1.0 if disc is None else _weighted(sky.share, disc)
            seen = strength * (0.30 + 0.70 * visible)
            before = float(light[::4, ::4].mean())
            cv2.scaleAdd(veil, seen, light, dst=light)
            if core is not None:
                cv2.scaleAdd(core, strength * visible, light, dst=light)
            # The camera's exposure follows the mean, by half of what it would take to keep it.
            light *= max(0.5, (before / max(float(light[::4, ::4].mean()), 1e-3)) ** 0.5)
            return display(light)

        return paint


def _weighted(values: Field, weights: Field) -> float:
    """Returns the mean of the upper rows' values by weights for the whole picture; what lies below is 0."""
    return float((values * weights[: len(values)]).sum() / max(float(weights.sum()), 1e-6))


@lru_cache(maxsize=8)
def _sun(camera: Camera, elevation_deg: float, azimuth_deg: float) -> tuple[Field, Field | None, Field | None]:
    """Returns the sun's glare and its dazzling core, (height, width, 3), in luminance of white; and where it stands in the picture.

    The last two are None where it stands outside.
    """
    up, level = sin(radians(elevation_deg)), cos(radians(elevation_deg))
    direction = level * cos(radians(azimuth_deg)), level * sin(radians(azimuth_deg)), up
    angle = _angle_deg(camera, *direction)
    # What falls on the lens is the part of the light that comes from ahead.
    share = max(direction[0], 0.0) / (_WHITE_CD_PER_LX * ground_lx(elevation_deg))
    veil = _GLARE * sun_lx(elevation_deg) * share / (angle**2 + 0.5)
    # The air around a low sun shines, too.
    veil += 0.5 * max(direction[0], 0.0) * np.exp(-angle / 7.0)
    low = min(max(1.0 - elevation_deg / 25.0, 0.0), 1.0)
    tint = np.array([1.0, 1.0 - 0.14 * low, 1.0 - 0.36 * low], np.float32)
    if float(angle.min()) > 2.0:
        return frozen(veil[..., None] * tint), None, None
    glare = veil / (1.0 + 1.5 * veil)
    core = np.minimum(veil - glare, 20.0)
    return frozen(glare[..., None] * tint), frozen(core[..., None] * tint), frozen(np.exp(-0.5 * (angle / 2.0) ** 2))


def _exposure_lx(illuminance_lx: float) -> float:
    """Returns the illuminance that a camera shows as it showed day: it opens and amplifies, but a dark road still looks darker."""
    # The headlights' own light on the road keeps it from opening further by night.
    return float(max(illuminance_lx, 0.12) ** 0.62 * _DAY_LX**0.38)


def _grain(exposure_lx: float) -> float:
    """Returns the deviation of the noise in grey levels: the fewer photons, the more; 0.7 by day, 5 by night."""
    return float(0.7 * (_DAY_LX / exposure_lx) ** 0.28)


@lru_cache(maxsize=8)
def _own_lamps_lx(camera: Camera) -> Field:
    """Returns the light of the car's own dipped headlights on what each pixel shows, lx, (height, width).

    Two lamps of 20,000 cd, 0.65 m above the road, aimed 20 m ahead; less nearby, to the sides and above the cut-off at the horizon.
    """
    ahead, left, ground = ground_m(camera)
    _, down, _ = camera.rays()
    depth = depth_m(camera)
    beam = np.exp(-0.5 * (left / (0.26 * ahead + 1.2)) ** 2)
    aimed = np.minimum(1.0, (np.maximum(ahead, 3.0) / 20.0) ** 2.5)
    road = 2.0 * 20_000.0 * aimed * 0.65 / np.maximum(ahead, 3.0) ** 3 * beam
    cut_off = np.exp(-np.clip(-down / 0.012, 0.0, None))[:, None]
    upright = 2.0 * 900.0 / np.maximum(depth, 5.0) ** 2 * beam * cut_off
    return frozen(ground * np.maximum(road, 0.25 * upright) + (1.0 - ground) * upright)


@dataclass(frozen=True, slots=True)
class _Darkness:
    """Little light. lit: what ambient light and lamps leave of a day's luminance, (height, width, 3). sky: the same of the sky's, (3,)."""

    dark: float
    exposure_lx: float
    lit: Field
    sky: Field

    @classmethod
    def of(cls, camera: Camera, illuminance_lx: float) -> Self:
        """Returns the darkness of an illuminance, with the car's headlights on."""
        dark = min(1.0, max(0.0, log10(_DAY_LX / illuminance_lx) / 3.0))
        exposure_lx = _exposure_lx(illuminance_lx)
        blue = np.array([1.0 - 0.22 * dark, 1.0 - 0.10 * dark, 1.0 + 0.12 * dark], np.float32)
        ambient = blue * np.float32(illuminance_lx / exposure_lx)
        # After sunset the sky is the brightest thing left; by night it is not.
        glow = 1.0 + 0.8 * dark * min(1.0, illuminance_lx / 3.0)
        own = _own_lamps_lx(camera)[..., None] * np.array([1.0, 0.95, 0.84], np.float32) * np.float32(1.0 / exposure_lx)
        return cls(dark, exposure_lx, np.ascontiguousarray(own + ambient), ambient * np.float32(glow))

    def light(self, frame: NumpyFrames, sky: Sky, lamps: Field | None = None) -> Field:
        """Returns a frame's luminance. lamps: what they add to `lit`, (height, width, 3)."""
        day = linear(frame)
        upper = day[: len(sky.share)] * self.sky
        light = greyed(flattened(day, sky, self.dark), 0.35 * self.dark)
        cv2.multiply(light, self.lit if lamps is None else cv2.add(self.lit, lamps), dst=light)
        sky.lay(light, upper)
        return light

    def shown(self, light: Field, time_s: float) -> Field:
        """Returns display values with the noise of the exposure."""
        return grainy(display(light), _grain(self.exposure_lx), time_s)


@condition(
    Severity(
        "dusk and night",
        "illuminance_lx",
        "lx",
        4000.0,
        0.2,
        is_logarithmic=True,
        attribute="illumination: day, twilight, night",
        source="sunset 400 lx, end of civil twilight 3.4 lx, full moon 0.25 lx",
    )
)
class Dusk(PhysicalCondition):
    """Less light than by day, down to night: `illuminance_lx` on the ground. Darker, bluer, noisier; the car's headlights light the road.

    Reference: 10,000 lx overcast day, 400 lx sunset, 3.4 lx end of civil twilight, 0.25 lx full moon (EN 12665 and almanacs).
    """

    illuminance_lx: float | None = real(0.05, _DAY_LX, _DAY_LX)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        darkness = _Darkness.of(camera, params.real("illuminance_lx"))
        return lambda frame, time_s: darkness.shown(darkness.light(frame, sky_of(frame, camera)), time_s)


@condition(
    Severity(
        "oncoming headlights",
        "distance_m",
        "m",
        400.0,
        12.0,
        is_logarithmic=True,
        others=Params(illuminance_lx=10.0),
        attribute="artificial illumination",
        source="UN R112 full beam, veiling glare of Stiles and Holladay (CIE 146)",
    )
)
class Headlights(PhysicalCondition):
    """Oncoming full-beam headlights `distance_m` ahead in the lane to the left, at dusk of `illuminance_lx`.

    Reference: 40,000 cd a lamp (UN R112 full beam); the veil after Stiles and Holladay.
    """

    distance_m: float | None = real(8.0, 1000.0)
    illuminance_lx: float | None = real(0.05, _DAY_LX)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        darkness = _Darkness.of(camera, params.real("illuminance_lx"))
        glare = _headlights(camera, params.real("distance_m"), darkness.exposure_lx)

        def paint(frame: NumpyFrames, time_s: float) -> Field:
            light = darkness.light(frame, sky_of(frame, camera))
            cv2.add(light, glare, dst=light)
            return darkness.shown(light, time_s)

        return paint


@lru_cache(maxsize=8)
def _headlights(camera: Camera, distance_m: float, exposure_lx: float) -> Field:
    """Returns the veil and the bloom of two lamps in luminance of white, (height, width, 3)."""
    white_cd_m2 = 0.3 * exposure_lx
    total = np.zeros((camera.height_px, camera.width_px), np.float32)
    for left_m in (2.8, 4.3):
        angle = _angle_deg(camera, distance_m, left_m, 0.65 - camera.height_m)
        off_axis = np.degrees(np.arctan2(left_m - 0.4, distance_m))
        # Full beam falls to a tenth within five degrees.
        candela = 40_000.0 * (0.04 + 0.96 * exp(-0.5 * (off_axis / 2.6) ** 2))
        arriving_lx = candela / distance_m**2
        size_deg = max(0.12, float(np.degrees(0.09 / distance_m)))
        total += np.minimum(_GLARE * arriving_lx / np.maximum(angle, 0.7) ** 2 / white_cd_m2, 1.5)
        total += 3.0 * np.exp(-0.5 * (angle / (size_deg + 0.25)) ** 2)
    return frozen(total[..., None] * np.array([1.0, 0.97, 0.90], np.float32))


@condition(
    Severity(
        "street lighting",
        "illuminance_lx",
        "lx",
        50.0,
        1.0,
        is_logarithmic=True,
        attribute="artificial illumination",
        source="EN 13201, 2 to 30 lx",
    )
)
class StreetLamps(PhysicalCondition):
    """Night under sodium lamps that give the road `illuminance_lx` on average; pools of orange light that the car drives through.

    Reference: EN 13201, classes P and M: 2 to 30 lx; lamps every 30 m, 8 m above the right verge.
    """

    illuminance_lx: float | None = real(0.5, 100.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        average = params.real("illuminance_lx")
        ahead, left, _ = ground_m(camera)
        along = np.minimum(ahead, depth_m(camera))
        darkness = _Darkness.of(camera, 0.35 * average**0.5 + 0.05)
        sodium = np.array([1.0, 0.60, 0.22], np.float32) * np.float32(0.7 * average / darkness.exposure_lx)
        across = (1.0 / (1.0 + ((left + 5.0) / 9.0) ** 2)).astype(np.float32)
        # Far away the pools run together.
        swing = (0.62 * across * np.exp(-along / 120.0)).astype(np.float32)
        phase = (along * (2.0 * np.pi / 30.0)).astype(np.float32)

        def paint(frame: NumpyFrames, time_s: float) -> Field:
            pools = across + swing * np.cos(phase + np.float32(_CAR_M_S * time_s * 2.0 * np.pi / 30.0))
            lamps = cv2.merge([pools * each for each in sodium])
            return darkness.shown(darkness.light(frame, sky_of(frame, camera), lamps), time_s)

        return paint
