"""The two kernels of the GPU renderer: a warp to a frame that finds what its camera sees, then a thread to a pixel.

What they compute stands in functions that the CPU compiles as well; here is only who does what.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

import numba.cuda
import numpy as np

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.images import Camera, FloatArray, IntArray
from skidpad.worlds.render.cards import SEEN, STANDING, depth_of, see_card
from skidpad.worlds.render.packs import Pack, pack, stage_at
from skidpad.worlds.render.pixels import begin_frame, overlaps, paint_pixel
from skidpad.worlds.render.raycast import share, stage_of
from skidpad.worlds.render.scene import Scene
from skidpad.worlds.render.standing import moving_table

if TYPE_CHECKING:
    from torch import Tensor

    from skidpad.worlds.render.raycast import Stage


cuda: Any = numba.cuda
"""What it has depends on the machine, so that it has no types."""
WARP = 32
ALL = 0xFFFFFFFF
BLOCK = (32, 8, 1)
"""Columns and rows of the pixels that are rendered by one block of threads."""
REGISTERS = 64
"""So that four blocks of 256 threads fit on a multiprocessor, for a few words that spill: time goes into waiting for tables. Measured on
an H200, frames a second: 172,990 with 64, 156,272 with 80, 127,705 with 96, 124,355 with 128; by `benchmarks/world_variants.py`."""
LISTED = 1024
"""So many cards of a block are painted at most, the nearest ones."""


@cuda.jit  # type: ignore[untyped-decorator]  # numba is not typed
def see(
    packed: Any,
    poses: Any,
    times: Any,
    scenes: Any,
    forward_m: float,
    eyes: Any,
    cards: Any,
    depths: Any,
    order: Any,
    boxes: Any,
    seen: Any,
    bounds: Any,
    count: Any,
    shadows: Any,
) -> None:
    """Launched with a warp to each frame; `cards.see_cards` by 32 threads. Every array has a row for each frame."""
    k, lane = cuda.blockIdx.x, cuda.threadIdx.x
    stage = stage_at(packed, scenes[k])
    moving = cuda.shared.array(1, np.int32)
    if lane == 0:
        moving[0] = begin_frame(stage, poses[k], times[k], forward_m, eyes[k], cards[k], shadows[k])
    cuda.syncthreads()
    eye = (eyes[k, 0], eyes[k, 1], eyes[k, 3], eyes[k, 4])
    pixels = (len(stage.left), len(stage.down))
    movers = cards[k][: moving[0]]
    total, found = len(movers) + len(stage.standing), 0
    for start in range(0, total, WARP):
        number = start + lane
        depth = -1.0
        if number < total:
            card = movers[number] if number < len(movers) else stage.standing[number - len(movers)]
            depth = depth_of(card, eye, stage.lens, pixels, stage.look, boxes[k, number])
        votes = cuda.ballot_sync(ALL, depth >= 0.0)
        if depth >= 0.0:
            place = found + cuda.popc(votes & ((1 << lane) - 1))
            depths[k, place], order[k, place] = depth, number
        found += cuda.popc(votes)
    cuda.syncthreads()
    for place in range(lane, found, WARP):
        depth, rank = depths[k, place], 0
        for other in range(found):
            if depths[k, other] < depth or (depths[k, other] == depth and other < place):
                rank += 1
        number = order[k, place]
        for side in range(4):
            bounds[k, rank, side] = boxes[k, number, side]
        card = movers[number] if number < len(movers) else stage.standing[number - len(movers)]
        see_card(seen[k, rank], card, stage.sprites, eye, stage.lens[0], stage.sun, stage.look)
    if lane == 0:
        count[k] = found


@cuda.jit(fastmath=True, max_registers=REGISTERS)  # type: ignore[untyped-decorator]  # likewise
def paint(packed: Any, times: Any, scenes: Any, eyes: Any, seen: Any, bounds: Any, count: Any, shadows: Any, frames: Any) -> None:
    """Launched over columns, rows and frames, in blocks of BLOCK."""
    u, v, k = cuda.grid(3)
    left, top = cuda.blockIdx.x * BLOCK[0], cuda.blockIdx.y * BLOCK[1]
    tile = (left, left + BLOCK[0] - 1, top, top + BLOCK[1] - 1)
    listed, found = cuda.shared.array(LISTED, np.int32), cuda.shared.array(1, np.int32)
    # The first warp lists the cards of the tile for all.
    if cuda.threadIdx.y == 0:
        lane, places = cuda.threadIdx.x, 0
        for start in range(0, count[k], WARP):
            number = start + lane
            inside = number < count[k] and overlaps(bounds[k, min(number, count[k] - 1)], tile)
            votes = cuda.ballot_sync(ALL, inside)
            place = places + cuda.popc(votes & ((1 << lane) - 1))
            if inside and place < LISTED:
                listed[place] = number
            places += cuda.popc(votes)
        if lane == 0:
            found[0] = min(places, LISTED)
    cuda.syncthreads()
    if v < frames.shape[1] and u < frames.shape[2]:
        paint_pixel(packed, times[k], scenes[k], eyes[k], seen[k], bounds[k], count[k], tile, listed, found[0], shadows[k], frames[k], u, v)


@dataclass(frozen=True, slots=True)
class BackendAgreement:
    """How well frames of two backends agree: the mean difference of all bytes, and the share that differs by more than `near`."""

    mean: float
    near: int
    beyond: float


AGREEMENT = BackendAgreement(mean=0.3, near=4, beyond=0.003)

_AT_ONCE = 2048
"""What the cards of a frame need takes about a hundred kilobytes."""


class GpuRayCaster:
    """Renders many scenes through one camera on the current CUDA device. Baking takes some hundredths of a second a scene.

    at_once: so many frames are prepared together, more of them in turns.
    """

    def __init__(self, scenes: Sequence[Scene], camera: Camera, at_once: int = _AT_ONCE) -> None:
        if not scenes or at_once < 1:
            raise BadParametersError(f"a renderer needs at least one scene and one frame at once; got {len(scenes)} and {at_once}")
        self.scenes, self.camera, self._at_once = tuple(scenes), camera, at_once
        self._launched: set[int] = set()
        cuda = _cuda()
        packed = pack(baked(scenes, camera), camera)
        with _as_if_numba_were_new():
            self._pack = Pack(*(cuda.to_device(np.ascontiguousarray(table)) for table in packed))
        self._movers = max(packed.movers.shape[1], 1)
        room = packed.standing.shape[1] + 3 * self._movers
        self._eyes = cuda.device_array((at_once, 5), np.float64)
        self._cards = cuda.device_array((at_once, 3 * self._movers, STANDING), np.float64)
        self._shadows = cuda.device_array((at_once, self._movers, 6), np.float64)
        self._depths = cuda.device_array((at_once, room), np.float64)
        self._order = cuda.device_array((at_once, room), np.int64)
        self._boxes = cuda.device_array((at_once, room, 4), np.int32)
        self._seen = cuda.device_array((at_once, room, SEEN), np.float32)
        self._bounds = cuda.device_array((at_once, room, 4), np.int32)
        self._count = cuda.device_array(at_once, np.int32)

    def render(self, poses: FloatArray | Tensor, time_s: FloatArray | Tensor, scene: IntArray | Tensor | None = None) -> Tensor:
        """Returns what is seen from the poses at the times, uint8 (N, height, width, 3) on the device.

        poses: (N, 3), x, y and heading of the rear axle. time_s: (N,). scene: (N,), the number of each frame's scene; the first where
        none is given. Waits for nothing: the frames are ready when torch's current stream gets there.
        """
        import torch  # noqa: PLC0415 - takes a second

        where = torch.as_tensor(poses).to("cuda", torch.float64).contiguous()
        when = torch.as_tensor(time_s).to("cuda", torch.float64).contiguous()
        which = torch.zeros(len(where), dtype=torch.int32) if scene is None else torch.as_tensor(scene)
        check(tuple(where.shape), tuple(when.shape), tuple(which.shape))
        if any(each.tracks for each in self.scenes):
            self._move(dict.fromkeys(zip(which.tolist(), when.tolist(), strict=True)))
        which = which.to("cuda", torch.int32).contiguous()
        frames = torch.empty((len(where), self.camera.height_px, self.camera.width_px, 3), dtype=torch.uint8, device="cuda")
        if len(where):
            cuda = _cuda()
            # numba launches on the default stream, which torch's own streams do not wait for.
            numbas, torchs = torch.cuda.default_stream(), torch.cuda.current_stream()
            numbas.wait_stream(torchs)
            self.launch(*(cuda.as_cuda_array(tensor) for tensor in (where, when, which, frames)))
            torchs.wait_stream(numbas)
        return frames

    def _move(self, moments: Iterable[tuple[int, float]]) -> None:
        """Puts cars with moves where they are. moments: numbers of scenes and times, one time for each scene with moves."""
        moved: set[int] = set()
        for place, time_s in moments:
            if not self.scenes[place].tracks:
                continue
            if place in moved:
                raise BadParametersError("a scene with moving cars is rendered at one time at once; ask for its frames one by one")
            moved.add(place)
            table = moving_table(self.scenes[place].movers_seen(time_s))
            there: Any = self._pack.movers
            there[place, : len(table)].copy_to_device(np.ascontiguousarray(table))

    def launch(self, poses: Any, times: Any, scenes: Any, frames: Any) -> None:
        """Fills the frames, (N, height, width, 3), without waiting for them."""
        if len(frames) in self._launched:
            self._launch(poses, times, scenes, frames)
            return
        with _as_if_numba_were_new():
            self._launch(poses, times, scenes, frames)
        self._launched.add(len(frames))

    def _launch(self, poses: Any, times: Any, scenes: Any, frames: Any) -> None:

        width, height = -(-self.camera.width_px // BLOCK[0]), -(-self.camera.height_px // BLOCK[1])
        for start in range(0, len(poses), self._at_once):
            at, when, which, out = (table[start : start + self._at_once] for table in (poses, times, scenes, frames))
            see[len(at), WARP](
                self._pack, at, when, which, self.camera.forward_m, self._eyes, self._cards, self._depths, self._order, self._boxes,
                self._seen, self._bounds, self._count, self._shadows,
            )  # fmt: skip
            paint[(width, height, len(at)), BLOCK](
                self._pack, when, which, self._eyes, self._seen, self._bounds, self._count, self._shadows, out
            )


def baked(scenes: Sequence[Scene], camera: Camera) -> list[Stage]:
    """Bakes scenes on all cores: by one, a hundred of them would take as long as a GPU takes to drive them."""
    stages: dict[int, Stage] = {}

    def bake(place: int) -> None:
        stages[place] = stage_of(scenes[place], camera)

    share((partial(bake, place) for place in range(len(scenes))), os.cpu_count() or 1)
    return [stages[place] for place in range(len(scenes))]


def obstacle() -> str:
    """Returns why this machine cannot render on a GPU, or "" if it can."""
    try:
        cuda = _cuda()
    except MissingExtraError as error:
        return str(error)
    return "" if cuda.is_available() else "numba finds no GPU, or no CUDA toolkit; 'numba -s' says more"


def check(poses: tuple[int, ...], times: tuple[int, ...], scenes: tuple[int, ...]) -> None:
    """Refuses what cannot be rendered, by its shapes; looking at the values would wait for the device."""
    if len(poses) != 2 or poses[1] != 3 or times != poses[:1] or scenes != poses[:1]:
        raise BadParametersError(
            f"poses are rows of x, y and heading with one time and scene each; got shapes {poses}, {times} and {scenes}"
        )


@contextmanager
def _as_if_numba_were_new() -> Iterator[None]:
    """Hides what numba's own modules say of names that NumPy will drop, and of few frames: whoever renders can do nothing about it.

    Some of them are imported with the package, some when a first array is sent or a first kernel compiled; the size of a grid is
    remarked upon when it is first launched.
    """
    with catch_warnings():
        filterwarnings("ignore", category=DeprecationWarning, module=r"numba(_cuda)?\b")
        filterwarnings("ignore", message=".*Grid size", module=r"numba(_cuda)?\b")
        yield


def _cuda() -> Any:
    # Some releases of it ask for a name that NumPy has since dropped.
    vars(np).setdefault("row_stack", np.vstack)
    try:
        with _as_if_numba_were_new():
            from numba import cuda  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError.of("numba-cuda", "gpu", "rendering on a GPU") from error
    return cuda
