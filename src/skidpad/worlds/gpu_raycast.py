"""The renderer of scenes on a GPU: thousands of frames of many scenes at once, one thread to a pixel.

It runs functions that the CPU compiles as well (`pixels`) through numba's CUDA target, which is a package of its own. Frames agree with the
CPU's within `AGREEMENT`: there the ground is looked up at knots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

import numpy as np

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.images import FloatArray, IntArray
from skidpad.worlds.camera import Camera
from skidpad.worlds.cards import SEEN, STANDING
from skidpad.worlds.packs import Pack, pack
from skidpad.worlds.raycast import stage_of
from skidpad.worlds.scene import Scene
from skidpad.worlds.sharing import share

if TYPE_CHECKING:
    from torch import Tensor

    from skidpad.worlds.casting import Stage


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well frames of two backends agree: the mean difference of all bytes, and the share that differs by more than `near`."""

    mean: float
    near: int
    beyond: float


AGREEMENT = Agreement(mean=0.3, near=4, beyond=0.003)

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

    def launch(self, poses: Any, times: Any, scenes: Any, frames: Any) -> None:
        """Fills the frames, (N, height, width, 3), without waiting for them."""
        if len(frames) in self._launched:
            self._launch(poses, times, scenes, frames)
            return
        with _as_if_numba_were_new():
            self._launch(poses, times, scenes, frames)
        self._launched.add(len(frames))

    def _launch(self, poses: Any, times: Any, scenes: Any, frames: Any) -> None:
        from skidpad.worlds.gpu_kernels import BLOCK, WARP, paint, see  # noqa: PLC0415 - needs the extra

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
