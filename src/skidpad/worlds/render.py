"""The renderer: batches of poses to frames, by compiled kernels that hold no lock.

Every pixel of a frame depends on its pose alone, and every frame is painted by one thread at a time from the same
tables, so that the bytes do not depend on the number of threads, the order or the batch.
"""

from functools import partial
from itertools import pairwise
from math import cos, radians, sin

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.worlds.camera import Camera
from skidpad.worlds.canvas import Canvas
from skidpad.worlds.frenet import FrenetGrid
from skidpad.worlds.painting import paint_rows
from skidpad.worlds.scenery import Woodland, panorama
from skidpad.worlds.sharing import share
from skidpad.worlds.texture import noise_levels


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
