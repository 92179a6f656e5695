"""What stands beside the road and behind it: trees, their shadows, hills and the sky."""

from dataclasses import dataclass, field
from functools import lru_cache
from math import cos, radians, sin, tan

import numpy as np
from numpy.typing import NDArray

from skidpad.core.camera import Camera
from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.worlds.render.canvas import HAZE_BLUE, HAZE_GREEN, HAZE_RED
from skidpad.worlds.render.texture import SIZE, noise_levels, sample_many
from skidpad.worlds.scenario.road import CrossSection, Road, random_road

TREES_PER_M = 0.55
TREE_REACH_M = 75.0
"""How far from the road trees are planted."""

_HAZE_RGB = (HAZE_RED, HAZE_GREEN, HAZE_BLUE)
_ZENITH_RGB = (72.0, 126.0, 196.0)
_CLOUD_RGB = (250.0, 250.0, 248.0)
_GLOW_RGB = (255.0, 236.0, 200.0)
_RIDGES = (
    # height and its spread as tangents of the elevation, waves around the horizon, colour
    (0.085, 0.045, 5, (134.0, 158.0, 184.0)),
    (0.050, 0.030, 9, (112.0, 142.0, 150.0)),
    (0.026, 0.014, 21, (88.0, 116.0, 92.0)),
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


@dataclass(frozen=True, eq=False, slots=True)
class Woodland:
    """A road through woods on a clear day: the scene of the drive `rendered`.

    trees: (K, 8): x, y, height, height of the crown's lower end, radius of the crown, 1 for a conifer or 0, tint
    from -1 to 1, and an offset into the noise; metres.
    """

    road: Road
    section: CrossSection
    trees: FloatArray
    sun: Sun = field(default_factory=Sun)

    def shadows(self) -> FloatArray:
        """Returns the trees' shadows, (K, 4): middle, radius along the sun's direction and across it."""
        slope = 1.0 / tan(radians(self.sun.elevation_deg))
        height, bottom, radius = self.trees[:, 2], self.trees[:, 3], self.trees[:, 4]
        throw = 0.5 * (height + bottom) * slope
        direction = self.sun.direction[:2] / np.hypot(*self.sun.direction[:2])
        along = np.hypot(0.5 * (height - bottom) * slope, radius)
        return np.column_stack((self.trees[:, :2] - throw[:, None] * direction, along, radius))


def random_scene(seed: int, length_m: float) -> Woodland:
    """Draws a road of at least `length_m` and plants trees along it."""
    road, section = random_road(child_rng(seed, "road"), length_m), CrossSection()
    return Woodland(road, section, plant_trees(child_rng(seed, "trees"), road, section))


def plant_trees(rng: np.random.Generator, road: Road, section: CrossSection) -> FloatArray:
    """Plants trees along both sides, nearer ones denser, none near any part of the road."""
    count = int(TREES_PER_M * road.length_m)
    nearest_m = section.outer_m + 2.5
    away_m = nearest_m + (TREE_REACH_M - nearest_m) * rng.random(count) ** 1.7
    side = np.where(rng.random(count) < 0.5, 1.0, -1.0)
    s_m = rng.uniform(-40.0, road.length_m + 160.0, count)
    places = road.at(s_m).beside(away_m * side)
    conifer = rng.random(count) < 0.4
    height = np.where(conifer, rng.uniform(6.0, 14.0, count), rng.uniform(4.0, 10.0, count))
    bottom = height * np.where(conifer, 0.1, rng.uniform(0.16, 0.32, count))
    radius = height * np.where(conifer, rng.uniform(0.17, 0.24, count), rng.uniform(0.3, 0.46, count))
    trees = np.column_stack((places, height, bottom, radius, conifer, rng.uniform(-1.0, 1.0, count), rng.uniform(0.0, SIZE, count)))
    clear_m = np.abs(road.project(places).lateral_m)
    return np.asarray(trees[clear_m > nearest_m - 0.6 + 0.5 * radius])


@lru_cache(maxsize=4)
def panorama(camera: Camera, sun: Sun, seed: int) -> NDArray[np.float32]:
    """Paints sky, clouds and hills all around, (rows, columns, 3), as fine as the camera's middle sees them.

    Column c lies at azimuth 2 pi c / columns; row r at an elevation of tangent `(rows - r) / focal_px`.
    """
    columns = int(np.ceil(2.0 * np.pi * camera.focal_px))
    forward, down, _ = camera.rays()
    rows = int(np.ceil(camera.focal_px * max(-down[0] / forward[0], 0.0))) + 3
    azimuth = 2.0 * np.pi * (np.arange(columns) + 0.5) / columns
    rise: FloatArray = (rows - np.arange(rows, dtype=np.float64) - 0.5) / camera.focal_px
    colour = _sky(azimuth, rise, sun)
    haze = np.asarray(_HAZE_RGB)
    for number, (height, spread, waves, rgb) in enumerate(_RIDGES):
        ridge = height + spread * _ridge(azimuth, waves, child_rng(seed, "ridge", number))
        top = int(np.argmax(rise < ridge.max() + 1.0 / camera.focal_px))
        low = rise[top:, None]
        hill = np.clip((ridge - low) * camera.focal_px + 0.5, 0.0, 1.0)[..., None]
        # The foot of a hill lies in haze, so that it meets the ground's far end without a seam.
        foot = np.clip(1.0 - low / height, 0.0, 1.0)[..., None] ** 1.5
        grain = sample_many(noise_levels(), 260.0 * azimuth[None] + 40.0 * number, 700.0 * low + 0.0 * azimuth)[..., None]
        body = np.asarray(rgb) * (1.0 + 0.06 * grain)
        colour[top:] += (body + (haze - body) * foot - colour[top:]) * hill
    return np.asarray(np.clip(colour, 0.0, 255.0), np.float32)


def _sky(azimuth: FloatArray, rise: FloatArray, sun: Sun) -> FloatArray:
    up = np.clip(rise, 0.0, None)[:, None, None]
    blend = 1.0 - 1.0 / (1.0 + 3.2 * up)
    colour = np.asarray(_HAZE_RGB) + (np.asarray(_ZENITH_RGB) - np.asarray(_HAZE_RGB)) * np.clip(1.7 * blend, 0.0, 1.0)
    away = np.cos(azimuth - radians(sun.azimuth_deg))[None, :, None]
    colour = colour + (np.asarray(_GLOW_RGB) - colour) * 0.45 * np.clip(0.5 + 0.5 * away, 0.0, 1.0) ** 4
    # Clouds lie on a plane: further ones are nearer to the horizon and look flatter.
    far = 1.0 / (rise[:, None] + 0.10)
    x, y = far * np.cos(azimuth), far * np.sin(azimuth)
    texels = noise_levels()
    cover = sum(weight * sample_many(texels, 11.0 * k * x + 37.0 * k, 11.0 * k * y) for k, weight in ((1, 1.0), (2.7, 0.5), (6.1, 0.25)))
    density = np.clip((np.asarray(cover) - 0.05) * 2.2, 0.0, 1.0) * np.clip(rise[:, None] * 9.0 - 0.3, 0.0, 1.0)
    return np.asarray(colour + (np.asarray(_CLOUD_RGB) - colour) * 0.85 * density[..., None])


def _ridge(azimuth: FloatArray, waves: int, rng: np.random.Generator) -> FloatArray:
    """Returns a silhouette within about [-1, 1] that closes after a full turn."""
    total = np.zeros_like(azimuth)
    for octave in range(6):
        for _ in range(2):
            count = int(rng.integers(waves << octave, (waves << octave) * 2))
            total += 0.55 * 0.52**octave * np.cos(count * azimuth + rng.uniform(0.0, 2.0 * np.pi))
    return total
