"""What light and weather do to a picture, as numbers that both renderers read; and the sun, sky, clouds, stars and hills behind it.

Visibility is the distance at which what is seen has lost 98 % of its contrast (Koschmieder): at distance d a share of
`1 - exp(-3.912 d / visibility)` is the air's own colour. It falls from the clear value to the worst one geometrically with the
intensity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import cos, radians, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import Camera, FloatArray
from skidpad.core.seeding import child_rng
from skidpad.worlds.render.texture import noise_levels, sample_many
from skidpad.worlds.scenario.scenario import Conditions, Ego, Weather

KOSCHMIEDER = 3.912
"""-ln 0.02."""

_VISIBILITY_M = {Weather.SUNNY: (3000.0, 3000.0), Weather.FOG: (260.0, 28.0), Weather.RAIN: (2500.0, 260.0), Weather.SNOW: (1200.0, 130.0)}
"""At intensity 0 and at intensity 1."""


class Look(NamedTuple):
    """Numbers of one scene; colours are display values, light is a factor of them by channel."""

    ambient_red: float
    ambient_green: float
    ambient_blue: float
    sun_red: float
    sun_green: float
    sun_blue: float
    lamp_red: float
    lamp_green: float
    lamp_blue: float
    air_red: float
    air_green: float
    air_blue: float
    extinction_per_m: float
    """Of the air: `1 - exp(-extinction d)` of what is seen at d metres is the air's colour."""
    wet: float
    snow: float
    rain: float
    flakes: float
    night: float
    headlights: float
    fog_lights: float
    glow: float
    """How much the lights of other cars glow in the air."""
    overcast: float


def visibility_m(conditions: Conditions) -> float:
    """Returns how far one sees."""
    clear, worst = _VISIBILITY_M[conditions.weather]
    return float(clear * (worst / clear) ** conditions.intensity)


def twilight(sun_elevation_deg: float) -> float:
    """Returns how much of the daylight a low sun leaves: all of it from 12 degrees on, half of it on the horizon."""
    return 1.0 - 0.5 * min(max(1.0 - sun_elevation_deg / 12.0, 0.0), 1.0)


def look_of(conditions: Conditions, ego: Ego) -> Look:
    """Turns conditions and the ego's lights into numbers."""
    weather, intensity = conditions.weather, min(max(conditions.intensity, 0.0), 1.0)
    overcast = 0.0 if weather is Weather.SUNNY else 1.0
    ambient, sun, air = _daylight(conditions, overcast)
    if weather is Weather.SNOW:
        air = np.array([206.0, 211.0, 217.0])
    elif weather is Weather.FOG:
        air = np.array([202.0, 206.0, 209.0])
    elif weather is Weather.RAIN:
        air = np.array([172.0, 180.0, 188.0]) - 22.0 * intensity
        ambient = ambient * (1.0 - 0.16 * intensity)
    ambient, sun, air = (part * twilight(conditions.sun_elevation_deg) for part in (ambient, sun, air))
    if conditions.night:
        ambient, sun = np.array([0.040, 0.047, 0.070]), np.zeros(3)
        air = np.array([15.0, 18.0, 26.0]) + (0.0 if weather is Weather.SUNNY else 1.0) * np.array([9.0, 9.0, 9.0])
    lamp = (1.18, 1.10, 0.95) if conditions.night else (0.10, 0.10, 0.09)
    return Look(
        ambient_red=float(ambient[0]),
        ambient_green=float(ambient[1]),
        ambient_blue=float(ambient[2]),
        sun_red=float(sun[0]),
        sun_green=float(sun[1]),
        sun_blue=float(sun[2]),
        lamp_red=lamp[0],
        lamp_green=lamp[1],
        lamp_blue=lamp[2],
        air_red=float(air[0]),
        air_green=float(air[1]),
        air_blue=float(air[2]),
        extinction_per_m=KOSCHMIEDER / visibility_m(conditions),
        wet=0.45 + 0.55 * intensity if weather is Weather.RAIN else 0.0,
        snow=0.25 + 0.75 * intensity if weather is Weather.SNOW else 0.0,
        rain=intensity if weather is Weather.RAIN else 0.0,
        flakes=0.2 + 0.8 * intensity if weather is Weather.SNOW else 0.0,
        night=float(conditions.night),
        headlights=float(ego.headlights),
        fog_lights=float(ego.fog_lights),
        glow=1.0 if conditions.night else (0.45 if overcast else 0.0),
        overcast=overcast,
    )


def _daylight(conditions: Conditions, overcast: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns ambient light, direct light and the colour of the air by day."""
    if overcast:
        return np.array([0.80, 0.82, 0.85]), np.zeros(3), np.array([206.0, 218.0, 226.0])
    # A low sun is warmer and weaker.
    low = min(max(1.0 - conditions.sun_elevation_deg / 22.0, 0.0), 1.0)
    sun = np.array([0.56, 0.52, 0.42]) * (1.0 - low * np.array([0.15, 0.38, 0.66]))
    ambient = np.array([0.44, 0.48, 0.58]) * (1.0 - low * np.array([0.10, 0.14, 0.10]))
    air = np.array([206.0, 218.0, 226.0]) * (1.0 - low * np.array([-0.02, 0.11, 0.22]))
    return ambient, sun, air


BACKDROPS = 16
"""How many different skylines there are; a scene's seed chooses one."""
_ZENITH_RGB = (72.0, 126.0, 196.0)
_GLOW_RGB = (255.0, 238.0, 206.0)
_RIDGES = (
    # height and its spread as tangents of the elevation, waves around the horizon, colour, how far it is
    (0.085, 0.045, 5, (120.0, 148.0, 172.0), 1500.0),
    (0.050, 0.030, 9, (100.0, 132.0, 128.0), 800.0),
    (0.026, 0.014, 21, (84.0, 112.0, 78.0), 420.0),
)


@dataclass(frozen=True, slots=True)
class Sun:
    """Where the sun stands, in the world."""

    azimuth_deg: float = 118.0
    elevation_deg: float = 38.0

    @property
    def direction(self) -> FloatArray:
        """The unit vector towards the sun, (3,)."""
        azimuth, elevation = radians(self.azimuth_deg), radians(self.elevation_deg)
        return np.array([cos(elevation) * cos(azimuth), cos(elevation) * sin(azimuth), sin(elevation)])


@lru_cache(maxsize=2 * BACKDROPS)
def _shapes(camera: Camera, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Returns azimuth, tangent of the elevation, clouds, stars and hills: (3, columns), their skylines."""
    columns = int(np.ceil(2.0 * np.pi * camera.focal_px))
    forward, down, _ = camera.rays()
    rows = int(np.ceil(camera.focal_px * max(-down[0] / forward[0], 0.0))) + 3
    azimuth = 2.0 * np.pi * (np.arange(columns) + 0.5) / columns
    rise: FloatArray = (rows - np.arange(rows, dtype=np.float64) - 0.5) / camera.focal_px
    # Clouds lie on a plane: further ones are nearer to the horizon and look flatter.
    far = 1.0 / (rise[:, None] + 0.10)
    x, y = far * np.cos(azimuth), far * np.sin(azimuth)
    clouds = np.zeros((rows, columns))
    for k, weight in ((1.0, 1.0), (2.7, 0.5), (6.1, 0.25)):
        clouds += weight * sample_many(noise_levels(), 11.0 * k * x + 37.0 * k + 5.0 * seed, 11.0 * k * y)
    rng = child_rng(seed, "stars")
    stars = np.where(rng.random((rows, columns)) > 0.9975, rng.uniform(0.15, 1.0, (rows, columns)) ** 2, 0.0)
    hills = np.stack(
        [
            height + spread * _ridge(azimuth, waves, child_rng(seed, "ridge", number))
            for number, (height, spread, waves, _, _) in enumerate(_RIDGES)
        ]
    )
    return azimuth, rise, clouds, stars, hills


def backdrop(camera: Camera, sun: Sun, look: Look, seed: int, *, hills: bool) -> NDArray[np.uint8]:
    """Paints the panorama, (rows, columns, 4), as fine as the camera's middle sees it; the fourth byte is not used.

    Column c lies at azimuth 2 pi c / columns; row r at an elevation of tangent `(rows - r) / focal_px`.
    """
    azimuth, rise, clouds, stars, _ = _shapes(camera, seed % BACKDROPS)
    air = np.array([look.air_red, look.air_green, look.air_blue])
    colour = _sky(azimuth, rise, clouds, stars, sun, look, air)
    light = np.array([look.ambient_red + look.sun_red, look.ambient_green + look.sun_green, look.ambient_blue + look.sun_blue])
    for number, (_, _, _, rgb, away_m) in enumerate(_RIDGES if hills else _RIDGES[2:]):
        top, share, foot, grain = _hill(camera, seed % BACKDROPS, number, number if hills else 2)
        snowy = np.asarray(rgb) + (np.array([226.0, 231.0, 238.0]) - np.asarray(rgb)) * 0.8 * look.snow
        body = snowy * (1.0 + 0.08 * grain) * light
        hazy = 1.0 - (1.0 - 0.75 * foot) * np.exp(-look.extinction_per_m * away_m)
        colour[top:] += (body + (air - body) * hazy - colour[top:]) * share
    out = np.zeros((*colour.shape[:2], 4), np.uint8)
    out[..., :3] = np.clip(colour + 0.5, 0.0, 255.0)
    return out


@lru_cache(maxsize=8 * BACKDROPS)
def _hill(camera: Camera, seed: int, number: int, which: int) -> tuple[int, FloatArray, FloatArray, FloatArray]:
    """Returns the first row of a ridge, and below it, (rows, columns or 1, 1): its share, how deep in haze it is, and its grain.

    They hang on the camera and the skyline alone, so that a hundred scenes share them.
    """
    azimuth, rise, _, _, skylines = _shapes(camera, seed)
    ridge = skylines[which]
    top = int(np.argmax(rise < ridge.max() + 1.0 / camera.focal_px))
    low = rise[top:, None]
    share = np.clip((ridge - low) * camera.focal_px + 0.5, 0.0, 1.0)[..., None]
    # The foot of a hill lies in haze, so that it meets the ground's far end without a seam.
    foot = np.clip(1.0 - low / _RIDGES[which][0], 0.0, 1.0)[..., None] ** 1.5
    grain = sample_many(noise_levels(), 260.0 * azimuth[None] + 40.0 * number, 700.0 * low + 0.0 * azimuth)[..., None]
    return top, share, foot, grain


def _sky(azimuth: FloatArray, rise: FloatArray, clouds: FloatArray, stars: FloatArray, sun: Sun, look: Look, air: FloatArray) -> FloatArray:
    up = np.clip(rise, 0.0, None)[:, None, None]
    blend = np.clip(1.7 * (1.0 - 1.0 / (1.0 + 3.2 * up)), 0.0, 1.0)
    density = np.clip((clouds - 0.05) * 2.2, 0.0, 1.0) * np.clip(rise[:, None] * 9.0 - 0.3, 0.0, 1.0)
    if look.overcast:
        # Nearer clouds are darker below; fog and falling snow hide them.
        hidden = np.exp(-look.extinction_per_m * 500.0)
        shade = air * (1.0 - 0.13 * hidden * (1.0 + 0.9 * clouds[..., None]) * np.clip(2.5 * up, 0.0, 1.0))
        return np.asarray(np.clip(shade, 4.0, 255.0))
    if look.night:
        colour = air + (np.array([7.0, 10.0, 22.0]) - air) * blend
        colour = colour + 10.0 * density[..., None] * np.array([1.0, 1.0, 1.15])
        return np.asarray(colour + 190.0 * (stars * (1.0 - density) * np.clip(rise[:, None] * 6.0, 0.0, 1.0))[..., None])
    daylight = twilight(sun.elevation_deg)
    colour = air + (daylight * np.asarray(_ZENITH_RGB) - air) * blend
    away = np.cos(azimuth - np.radians(sun.azimuth_deg))[None, :, None]
    colour = colour + (np.asarray(_GLOW_RGB) - colour) * 0.45 * np.clip(0.5 + 0.5 * away, 0.0, 1.0) ** 4
    colour = colour + (daylight * np.array([250.0, 250.0, 248.0]) - colour) * 0.85 * density[..., None]
    # The sun itself: a bright disc in a wide glare.
    direction = sun.direction
    norm = np.sqrt(1.0 + rise[:, None] ** 2)
    cosine = (direction[0] * np.cos(azimuth) + direction[1] * np.sin(azimuth) + direction[2] * rise[:, None]) / norm
    apart = np.arccos(np.clip(cosine, -1.0, 1.0))
    glare = 0.75 * np.exp(-((apart / 0.16) ** 2)) + np.clip((0.035 - apart) / 0.008, 0.0, 1.0)
    return np.asarray(colour + (np.array([255.0, 248.0, 226.0]) - colour) * np.clip(glare, 0.0, 1.0)[..., None])


def _ridge(azimuth: FloatArray, waves: int, rng: np.random.Generator) -> FloatArray:
    """Returns a silhouette within about [-1, 1] that closes after a full turn."""
    total = np.zeros_like(azimuth)
    for octave in range(6):
        for _ in range(2):
            count = int(rng.integers(waves << octave, (waves << octave) * 2))
            total += 0.55 * 0.52**octave * np.cos(count * azimuth + rng.uniform(0.0, 2.0 * np.pi))
    return total
