"""Sun, sky, clouds, stars and hills all around a scene."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import cos, radians, sin

import numpy as np
from numpy.typing import NDArray

from skidpad.core.camera import Camera
from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.worlds.render.texture import noise_levels, sample_many
from skidpad.worlds.render.weather import Look, twilight

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
