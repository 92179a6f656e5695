"""Renders frames on the CPU: the rays of many cameras, shared by threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from math import cos, radians, sin

import numpy as np

from skidpad.core.camera import Camera
from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.worlds.render.backdrop import backdrop
from skidpad.worlds.render.casting import Stage, cast_rows
from skidpad.worlds.render.lightmap import light_map
from skidpad.worlds.render.precipitation import bend_by_drops, precipitation_of
from skidpad.worlds.render.roadtable import Ground, RoadTable
from skidpad.worlds.render.scene import Scene
from skidpad.worlds.render.sprites.atlas import atlas
from skidpad.worlds.render.standing import moving_table, standing_cards
from skidpad.worlds.render.texture import noise_levels
from skidpad.worlds.render.weather import look_of
from skidpad.worlds.scenario.road import CrossSection

Piece = Callable[[], object]
"""What one thread does without the others; it should release the interpreter's lock for most of its time."""


def share(pieces: Iterable[Piece], threads: int) -> None:
    """Does all pieces, in any order, on up to `threads` threads; what one of them raises is raised here."""
    waiting = deque(pieces)

    def run() -> None:
        try:
            while waiting:
                _next(waiting)()
        finally:
            # After a failure the others need not go on.
            waiting.clear()

    others = [_pool(os.getpid(), threads - 1).submit(run) for _ in range(min(threads, len(waiting)) - 1)]
    try:
        run()
    finally:
        for other in others:
            # One that never got to run has nothing left to do: on a busy machine the caller does not wait for it.
            if not other.cancel():
                other.result()


def _next(waiting: deque[Piece]) -> Piece:
    try:
        return waiting.popleft()
    except IndexError:  # another thread took the last one
        return _nothing


def _nothing() -> None:
    return None


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Keeps the threads between frames; `process` is in the key because a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"skidpad-worlds-{process}")


_BAND_PX = 40_000
"""Where there are fewer frames than threads, they share a frame in bands of at least so many pixels, about a millisecond's work: on a busy
machine a caller waits longer than that for another thread that has a smaller one."""


def section_row(section: CrossSection) -> FloatArray:
    """Returns a cross-section as the kernels read it; see the columns in `surface`."""
    ramp = section.side_lane
    side = (0.0, 0.0, 1.0, 1.0, 0.0)
    if ramp is not None:
        side = (ramp.start_m, -1.0 if ramp.exits else 1.0, ramp.parallel_m, ramp.taper_m, ramp.leaving_per_m)
    return np.array([section.edge_m, section.edge_m + section.margin_m, section.outer_m, section.lane_width_m, section.lanes, *side])


def stage_of(scene: Scene, camera: Camera) -> Stage:
    """Bakes a scene for a camera; takes some hundredths of a second."""
    pictures, look = atlas(), look_of(scene.scenario.conditions, scene.scenario.ego)
    table = RoadTable.build(scene.road)
    forward, down, left = camera.rays()
    sky = backdrop(camera, scene.sun, look, scene.scenario.seed, hills=scene.scenario.surroundings.hills)
    ahead = forward[down <= 0.0][:, None]
    rows = len(sky) + camera.focal_px * down[down <= 0.0][:, None] / np.hypot(left, ahead)
    shade = light_map(scene)
    ground = Ground(
        nodes=table.nodes,
        cells=table.cells,
        origin=table.origin_m,
        shade=shade,
        sunny=bool(shade.any()),
        section=section_row(scene.section),
        texels=noise_levels(),
    )
    return Stage(
        ground=ground,
        look=look,
        standing=standing_cards(scene, pictures),
        movers=moving_table(scene.movers),
        firsts=np.array([pictures.cars, pictures.people, pictures.glow], dtype=np.float64),
        sprites=pictures.table,
        colours=pictures.words[0],
        surfaces=pictures.words[1],
        forward=forward,
        down=down,
        left=left,
        lens=np.array([camera.focal_px, camera.height_m, cos(radians(camera.pitch_deg)), sin(radians(camera.pitch_deg))]),
        sky=sky,
        sky_column=(np.arctan2(left, ahead) * (sky.shape[1] / (2.0 * np.pi))).astype(np.float32),
        sky_row=np.clip(np.floor(rows), 0, len(sky) - 1).astype(np.int32),
        sun=scene.sun.direction,
        precipitation=precipitation_of(look, camera, scene.scenario.seed),
    )


class RayCaster:
    """Renders one scene through one camera; safe in threads."""

    def __init__(self, scene: Scene, camera: Camera) -> None:
        self.scene = scene
        self.camera = camera
        self.stage = stage_of(scene, camera)

    def render(self, poses: FloatArray, time_s: FloatArray, threads: int = 1) -> NumpyFrames:
        """Returns what is seen from the poses at the times, (N, height, width, 3).

        poses: (N, 3), x, y and heading of the rear axle. time_s: (N,), seconds since the scenario began. threads: at most so many share the
        frames, or the rows of large frames where there are fewer of them than threads.
        """
        return render_side_by_side([self] * len(poses), poses, time_s, threads)

    def picture(self, frame: NumpyFrames, pose: FloatArray, time_s: float) -> None:
        """Paints a whole frame."""
        self.paint(frame, pose, time_s, 0, len(frame))
        self.finish(frame, time_s)

    def paint(self, frame: NumpyFrames, pose: FloatArray, time_s: float, start: int, stop: int) -> None:
        """Paints some rows of a frame, all but the drops on the lens."""
        heading = float(pose[2])
        x_m = float(pose[0]) + self.camera.forward_m * cos(heading)
        y_m = float(pose[1]) + self.camera.forward_m * sin(heading)
        stage = self.stage
        if self.scene.tracks:
            stage = stage._replace(movers=moving_table(self.scene.movers_seen(time_s)))
        cast_rows(frame, start, stop, stage, x_m, y_m, heading, cos(heading), sin(heading), time_s)

    def finish(self, frame: NumpyFrames, time_s: float) -> None:
        """Puts drops on the lens."""
        precipitation = self.stage.precipitation
        if precipitation.kind == 1:
            bend_by_drops(frame, precipitation.drops, precipitation.intensity, time_s)


def render_side_by_side(casters: Sequence[RayCaster], poses: FloatArray, time_s: FloatArray, threads: int = 1) -> NumpyFrames:
    """Returns one frame of each caster, (N, height, width, 3): caster k seen from pose k at time k. All cameras are of one size."""
    poses = np.ascontiguousarray(poses, dtype=np.float64)
    times = np.ascontiguousarray(time_s, dtype=np.float64)
    if (
        poses.shape != (len(casters), 3)
        or times.shape != (len(casters),)
        or not (np.all(np.isfinite(poses)) and np.all(np.isfinite(times)))
    ):
        raise BadParametersError(
            "poses are finite rows of x, y and heading with one finite time each; "
            f"got poses of shape {poses.shape} and times of shape {times.shape} for {len(casters)} frames"
        )
    sizes = {(caster.camera.height_px, caster.camera.width_px) for caster in casters}
    if len(sizes) > 1:
        raise BadParametersError(f"frames rendered together are of one size; got cameras of {sorted(sizes)}")
    height, width = next(iter(sizes)) if sizes else (0, 0)
    frames = np.empty((len(casters), height, width, 3), np.uint8)
    jobs = list(zip(casters, frames, poses, times.tolist(), strict=True))
    # More bands than threads, because sky takes less time than ground.
    bands = min(2 * threads // max(len(jobs), 1), height * width // _BAND_PX)
    if len(jobs) >= threads or bands < 2:
        share((partial(caster.picture, frame, pose, time) for caster, frame, pose, time in jobs), threads)
        return frames
    edges = np.linspace(0, height, bands + 1).astype(int).tolist()
    share((partial(caster.paint, frame, pose, time, a, b) for caster, frame, pose, time in jobs for a, b in pairwise(edges)), threads)
    for caster, frame, _, time in jobs:
        caster.finish(frame, time)
    return frames
