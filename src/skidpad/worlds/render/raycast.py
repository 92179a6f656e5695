"""Renders frames on the CPU: the kernel that casts the rays of a frame, row by row, and many cameras shared by threads.

A ray meets cards from near to far, then sky or ground where the cards leave something to see; rain and snow come last.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from math import cos, floor, radians, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera, FloatArray, NumpyFrames
from skidpad.worlds.render import cards as c
from skidpad.worlds.render.cards import moving_cards, see_cards
from skidpad.worlds.render.compiling import CHUNK, Scratch, compiled, uncounted
from skidpad.worlds.render.precipitation import Precipitation, bend_by_drops, paint_precipitation, precipitation_of
from skidpad.worlds.render.roadtable import Ground, RoadTable
from skidpad.worlds.render.scene import Scene
from skidpad.worlds.render.sprites.atlas import atlas
from skidpad.worlds.render.standing import light_map, moving_table, standing_cards
from skidpad.worlds.render.strips import (
    BACK_BLUE,
    BACK_GREEN,
    BACK_RED,
    BLUE,
    COLOUR,
    GREEN,
    PITCH,
    RED,
    Words,
    byte_of,
    hidden,
    lay_strips,
    open_strips,
    paint_card,
    put_behind,
)
from skidpad.worlds.render.surface import f, short
from skidpad.worlds.render.terrain import SCRATCH, paint_terrain
from skidpad.worlds.render.texture import noise_levels
from skidpad.worlds.render.weather import Look, backdrop, look_of
from skidpad.worlds.scenario.road import CrossSection

_BLACK, _HALF, _WHITE = np.float32(0.0), np.float32(0.5), np.float32(255.0)


class Stage(NamedTuple):
    """Tables of one scene and one camera; a named tuple, because compiled code can take it apart."""

    ground: Ground
    look: Look
    standing: FloatArray
    movers: FloatArray
    firsts: FloatArray
    sprites: FloatArray
    colours: NDArray[np.int32]
    surfaces: NDArray[np.int32]
    """The two halves of the atlas's texels."""
    forward: FloatArray
    down: FloatArray
    left: FloatArray
    lens: FloatArray
    """Focal length in pixels, height in metres, cosine and sine of the pitch."""
    sky: NDArray[np.uint8]
    sky_column: NDArray[np.float32]
    sky_row: NDArray[np.int32]
    sun: FloatArray
    precipitation: Precipitation


@uncounted
def see_all(
    stage: Stage,
    eye: tuple[float, float, float, float],
    time_s: float,
    pixels: tuple[int, int],
    cards: FloatArray,
    work: tuple[FloatArray, NDArray[np.int64], NDArray[np.int32]],
    seen: NDArray[np.float32],
    bounds: NDArray[np.int32],
    shadows: FloatArray,
) -> int:
    """Fills the cards and shadows that a camera sees; returns how many cards. eye: x, y, cosine and sine; see `cards` for the arrays."""
    moving = moving_cards(stage.movers, stage.ground.nodes, time_s, eye[0], eye[1], stage.look.glow, stage.firsts, cards, shadows)
    count = see_cards(
        cards[:moving], stage.standing, stage.sprites, eye, stage.lens, pixels, stage.sun, stage.look,
        work[0], work[1], work[2], seen, bounds,
    )  # fmt: skip
    for k in range(len(stage.movers)):
        turn_shadow(shadows[k], eye)
    return count


@uncounted
def turn_shadow(shadow: FloatArray, eye: tuple[float, float, float, float]) -> None:
    """Turns a shadow's place and direction, in the world until now, to what lies before the eye."""
    x, y, cosine, sine = eye
    dx, dy = shadow[0] - x, shadow[1] - y
    shadow[0], shadow[1] = dx * cosine + dy * sine, dy * cosine - dx * sine
    along, across = shadow[2], shadow[3]
    shadow[2], shadow[3] = along * cosine + across * sine, across * cosine - along * sine


@compiled
def cast_rows(
    frame: NumpyFrames, start: int, stop: int, stage: Stage, x: float, y: float, heading: float, cosine: float, sine: float, time_s: float
) -> None:
    """Paints rows `start` to `stop` (excluded) of a frame. x, y: the camera's place; heading and its cosine and sine."""
    pixels = (frame.shape[1], frame.shape[0])
    movers = len(stage.movers)
    room = len(stage.standing) + 3 * movers
    cards, shadows = np.empty((3 * movers, c.STANDING)), np.zeros((movers, 6))
    seen, bounds = np.empty((room, c.SEEN), np.float32), np.empty((room, 4), np.int32)
    work = np.empty(room), np.empty(room, np.int64), np.empty((room, 4), np.int32)
    eye = (x, y, cosine, sine)
    count = see_all(stage, eye, time_s, pixels, cards, work, seen, bounds, shadows)
    strips, sky = lay_strips(stage.left, pixels[0]), stage.sky.view(np.int32)
    words, packed, scratch = strips.view(np.int32), np.empty(CHUNK, np.int32), np.zeros(SCRATCH, np.float32)
    _cast(frame, start, stop, stage, eye, heading, time_s, seen[:count], bounds[:count], shadows, strips, words, sky, packed, scratch)


@uncounted
def _cast(
    frame: NumpyFrames,
    start: int,
    stop: int,
    stage: Stage,
    eye: tuple[float, float, float, float],
    heading: float,
    time_s: float,
    seen: NDArray[np.float32],
    bounds: NDArray[np.int32],
    shadows: FloatArray,
    strips: Scratch,
    words: Words,
    sky: Words,
    packed: Words,
    scratch: Scratch,
) -> None:
    """Paints the rows. words, sky: the memory of strips and panorama as whole numbers; packed, (CHUNK,), and scratch: to work in."""
    look, rays = stage.look, (stage.forward, stage.down, stage.left)
    wet = look.wet > 0.0
    height, snow = f(stage.lens[1]), f(look.snow)
    for v in range(start, stop):
        forward, down = f(stage.forward[v]), f(stage.down[v])
        open_strips(strips)
        below = stage.down[v] > 0.0
        if wet and below:
            paint_terrain(strips, v, stage.ground, look, rays, stage.lens, eye, shadows, scratch)
        for k in range(len(seen)):
            if bounds[k, 2] <= v <= bounds[k, 3]:
                paint_card(strips, words, seen[k], bounds[k, 0], bounds[k, 1], forward, down, height, snow, stage.colours, stage.surfaces)
        if not below:
            _paint_sky(strips, words, sky, stage.sky_column[v], stage.sky_row[v], heading)
        elif not wet:
            paint_terrain(strips, v, stage.ground, look, rays, stage.lens, eye, shadows, scratch)
        put_behind(strips)
        if stage.precipitation.kind != 0:
            paint_precipitation(strips, v, stage.precipitation, time_s)
        _write(frame, v, strips, packed)


@uncounted
def _write(frame: NumpyFrames, v: int, strips: Scratch, packed: Words) -> None:
    """Rounds a row to bytes; first into words, side by side, which is faster. packed: memory of its own, or it would not be."""
    for chunk in range(len(strips) // PITCH):
        at, start = np.uintp(chunk * PITCH), chunk * CHUNK
        for k in range(CHUNK):
            red = short(min(max(strips[at + np.uintp(RED + k)] + _HALF, _BLACK), _WHITE))
            green = short(min(max(strips[at + np.uintp(GREEN + k)] + _HALF, _BLACK), _WHITE))
            blue = short(min(max(strips[at + np.uintp(BLUE + k)] + _HALF, _BLACK), _WHITE))
            packed[k] = short(red | (green << 8) | (blue << 16))
        for k in range(min(CHUNK, frame.shape[1] - start)):
            word, u = packed[np.uintp(k)], np.uintp(start + k)
            frame[v, u, 0], frame[v, u, 1], frame[v, u, 2] = np.uint8(word & 255), np.uint8((word >> 8) & 255), np.uint8((word >> 16) & 255)


@uncounted
def _paint_sky(strips: Scratch, words: Words, sky: Words, column: NDArray[np.float32], line: NDArray[np.int32], heading: float) -> None:
    """Looks a row up in the panorama, where something of it is seen."""
    columns = sky.shape[1]
    turn = heading * (columns / (2.0 * np.pi))
    # A whole turn more, so that what lies to the right of azimuth zero stays positive.
    turn += columns * (1.0 - floor(turn / columns))
    for chunk in range(len(strips) // PITCH):
        at, start = np.uintp(chunk * PITCH), chunk * CHUNK
        if hidden(strips, at):
            continue
        for k in range(min(CHUNK, len(column) - start)):
            u = np.uintp(start + k)
            i = int(turn + column[u])
            i = i - columns if i >= columns else i
            i = i - columns if i >= columns else i
            # Unsigned, or every index is first checked for counting from the end.
            words[at + np.uintp(COLOUR + k)] = sky[np.uintp(line[u]), np.uintp(i), 0]
        for k in range(CHUNK):
            word = words[at + np.uintp(COLOUR + k)]
            strips[at + np.uintp(BACK_RED + k)] = byte_of(word, 0)
            strips[at + np.uintp(BACK_GREEN + k)] = byte_of(word, 1)
            strips[at + np.uintp(BACK_BLUE + k)] = byte_of(word, 2)


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
