"""The renderer: batches of poses to frames, by compiled kernels that hold no lock.

Every pixel of a frame depends on its pose alone, and every frame is painted by one thread at a time from the same
tables, so that the bytes do not depend on the number of threads, the order or the batch.
"""

from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import cos, radians, sin
from threading import Lock

import numpy as np

from skidpad.core.camera import Camera
from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.core.seeding import child_rng, child_seed
from skidpad.drives.drive import Drive
from skidpad.drives.names import Names
from skidpad.worlds.recorded.frenet import FrenetGrid
from skidpad.worlds.recorded.painting import paint_rows
from skidpad.worlds.recorded.rendered import RATE_HZ, Settings
from skidpad.worlds.render.canvas import Canvas
from skidpad.worlds.render.raycast import share
from skidpad.worlds.render.scenery import Woodland, panorama, random_scene
from skidpad.worlds.render.texture import noise_levels
from skidpad.worlds.vehicle import Driver


class Renderer:
    """Renders one scene through one camera; safe in threads. Baking takes a fraction of a second."""

    def __init__(self, scene: Woodland, camera: Camera, backdrop_seed: int = 0) -> None:
        self.scene = scene
        self.camera = camera
        sun = scene.sun.direction
        grid = FrenetGrid.build(scene.road, scene.shadows(), sun[:2] / np.hypot(sun[0], sun[1]), noise_levels())
        forward, down, left = camera.rays()
        sky = panorama(camera, scene.sun, backdrop_seed)
        ahead = forward[down <= 0.0][:, None]
        section = scene.section
        self._canvas = Canvas(
            tiles=grid.tiles.ravel(),
            directory=grid.directory,
            origin=grid.origin_m,
            texels=noise_levels(),
            trees=scene.trees,
            forward=forward,
            down=down,
            left=left,
            sky=sky,
            sky_column=(np.arctan2(left, ahead) * (sky.shape[1] / (2.0 * np.pi))).astype(np.float32),
            sky_row=(len(sky) + camera.focal_px * down[down <= 0.0][:, None] / np.hypot(left, ahead)).astype(np.float32),
            lens=np.array([camera.focal_px, camera.height_m, cos(radians(camera.pitch_deg)), sin(radians(camera.pitch_deg))]),
            section=np.array([section.lane_width_m, section.lane_width_m + section.margin_m, section.outer_m]),
            sun=sun,
        )

    def render(self, poses: FloatArray, threads: int = 1) -> NumpyFrames:
        """Returns the frames seen from the poses, (N, height, width, 3).

        poses: (N, 3), x, y and heading of the rear axle. threads: how many share the frames, or the rows of a frame
        where there are fewer frames than threads.
        """
        poses = np.ascontiguousarray(poses, dtype=np.float64)
        if poses.ndim != 2 or poses.shape[1] != 3 or not np.all(np.isfinite(poses)):
            raise BadParametersError(f"poses are finite rows of x, y and heading; got an array of shape {poses.shape}")
        height = self.camera.height_px
        frames = np.empty((len(poses), height, self.camera.width_px, 3), np.uint8)
        bands = max(-(-threads // max(len(poses), 1)), 1)
        edges = np.linspace(0, height, bands + 1).astype(int).tolist()
        share(
            (partial(self._paint, frame, pose, a, b) for frame, pose in zip(frames, poses, strict=True) for a, b in pairwise(edges)),
            threads,
        )
        return frames

    def _paint(self, frame: NumpyFrames, pose: FloatArray, start: int, stop: int) -> None:
        heading = float(pose[2])
        x_m = float(pose[0]) + self.camera.forward_m * cos(heading)
        y_m = float(pose[1]) + self.camera.forward_m * sin(heading)
        paint_rows(frame, start, stop, self._canvas, x_m, y_m, heading, cos(heading), sin(heading))


PICTURE_VERSION = 1
"""Raised when the same settings give other pictures or labels, so that drives made before and after differ in hash."""

STRETCH_FRAMES = 600
"""After so many frames the drive goes on along another road; memory then does not grow with the drive."""

_KEPT_STRETCHES = 8
_AHEAD_M = 260.0
"""How far the road goes on after the last frame: further than the camera tells road from grass."""
_START_M = 10.0
_TOP_SPEED_M_S = 15.0
_LATERAL_M_S2 = 3.0
"""How hard the car takes a bend, as a calm driver does."""
_BRAKING_M_S2 = 1.5

_STRAY_M = 0.8
_STRAY_WAVES_M = (45.0, 160.0)
_ASKEW_RAD = 0.045
_ASKEW_WAVES_M = (25.0, 80.0)


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """One road of a drive. poses: (STRETCH_FRAMES, 3), x, y and heading of the rear axle; steering_rad: the truth there."""

    scene: Woodland
    poses: FloatArray
    steering_rad: FloatArray


def plan_stretch(seed: int, weave: float, number: int) -> Stretch:
    """Draws the road of stretch `number` and drives along it, straying from the lane as `weave` says."""
    root = child_seed(seed, "stretch", number)
    scene = random_scene(root, _START_M + _TOP_SPEED_M_S * STRETCH_FRAMES / RATE_HZ + _AHEAD_M)
    s_m = _distances(scene)
    here = scene.road.at(s_m)
    stray_m, slope = _waves(child_rng(root, "stray"), s_m, _STRAY_WAVES_M, weave * _STRAY_M)
    askew_rad, _ = _waves(child_rng(root, "askew"), s_m, _ASKEW_WAVES_M, weave * _ASKEW_RAD)
    places = here.beside(scene.section.lane_centre_m + stray_m)
    poses = np.column_stack((places, here.heading_rad + np.arctan(slope) + askew_rad))
    return Stretch(scene, poses, Driver().steering_rad(scene.road, scene.section, poses))


def _distances(scene: Woodland) -> FloatArray:
    """Returns how far along the road the car is at each frame: slower in bends, braking before them."""
    s_m = scene.road.node_s_m
    bend = np.abs(scene.road.nodes.curvature_per_m)
    square = np.minimum(_TOP_SPEED_M_S**2, _LATERAL_M_S2 / np.maximum(bend, 1e-6))
    # The square of the speed changes at most by 2 a per metre, forwards and backwards.
    slope = 2.0 * _BRAKING_M_S2 * s_m
    square = np.minimum.accumulate(square - slope) + slope
    square = (np.minimum.accumulate((square + slope)[::-1])[::-1]) - slope
    speed = np.sqrt(square)
    time_s = np.concatenate(([0.0], np.cumsum(np.diff(s_m) * 2.0 / (speed[1:] + speed[:-1]))))
    start_s = np.interp(_START_M, s_m, time_s)
    return np.asarray(np.interp(start_s + np.arange(STRETCH_FRAMES) / RATE_HZ, time_s, s_m))


def _waves(rng: np.random.Generator, s_m: FloatArray, lengths_m: tuple[float, float], limit: float) -> tuple[FloatArray, FloatArray]:
    """Returns a smooth seeded function of the distance within [-limit, limit], and its slope."""
    number = 5
    turns = 2.0 * np.pi / np.exp(rng.uniform(np.log(lengths_m[0]), np.log(lengths_m[1]), number))
    # Longer waves are higher, so that the slope stays that of a car.
    heights = limit * (1.0 / turns) / np.sum(1.0 / turns)
    phases = np.multiply.outer(s_m, turns) + rng.uniform(0.0, 2.0 * np.pi, number)
    return np.asarray(np.sin(phases) @ heights), np.asarray(np.cos(phases) @ (heights * turns))


class RenderedSource:
    """Renders the frames of a drive when they are read; a few stretches are kept baked. Safe in threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._camera = Camera(settings.width_px, settings.height_px)
        self._lock = Lock()
        self._baked: OrderedDict[int, tuple[Renderer, FloatArray]] = OrderedDict()

    def read(self, index: int) -> NumpyFrames:
        """Renders one frame in the calling thread; the kernels hold no lock, so that threads share the work."""
        number, place = divmod(index, STRETCH_FRAMES)
        renderer, poses = self._stretch(number)
        frame: NumpyFrames = renderer.render(poses[place : place + 1])[0]
        return frame

    def fingerprint(self, index: int) -> str:
        """Returns everything that the frame depends on."""
        s = self.settings
        return f"rendered {PICTURE_VERSION} seed={s.seed} weave={s.weave!r} {s.width_px}x{s.height_px} {index}"

    def _stretch(self, number: int) -> tuple[Renderer, FloatArray]:
        with self._lock:
            if number not in self._baked:
                stretch = plan_stretch(self.settings.seed, self.settings.weave, number)
                self._baked[number] = Renderer(stretch.scene, self._camera, self.settings.seed), stretch.poses
                while len(self._baked) > _KEPT_STRETCHES:
                    self._baked.popitem(last=False)
            self._baked.move_to_end(number)
            return self._baked[number]


def rendered_drive(settings: Settings) -> Drive:
    """Makes the drive of the settings; frame i does not depend on how many frames there are."""
    count = -(-settings.frames // STRETCH_FRAMES)
    steering_rad = np.concatenate([plan_stretch(settings.seed, settings.weave, number).steering_rad for number in range(count)])
    return Drive(
        name=f"rendered-{settings.seed}",
        frame_ids=Names.of(f"{index:06d}" for index in range(settings.frames)),
        steering_rad=steering_rad[: settings.frames],
        time_s=np.arange(settings.frames) / RATE_HZ,
        source=RenderedSource(settings),
    )
