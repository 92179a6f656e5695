"""The renderer of scenes in torch: the arithmetic of `raycast` for thousands of frames of many scenes at once, on any device.

On a GPU the parts are compiled, so that each is one kernel: the ground, a few cards of a tile at a time, and the finish. Frames agree
with the CPU's within `AGREEMENT`; where a ray meets the edge of a texel, single and double precision may choose different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, cos, radians, sin
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.worlds import cards as c
from skidpad.worlds.atlas import atlas
from skidpad.worlds.camera import Camera
from skidpad.worlds.falling import DROP_STEP_S, DROP_STEPS
from skidpad.worlds.raycast import stage_of
from skidpad.worlds.scene import Scene
from skidpad.worlds.surface import RAMP_TURN
from skidpad.worlds.torch_cards import LOOK, TILE_COLUMNS, TILE_ROWS, moving, see, tile_lists
from skidpad.worlds.torch_layers import bend, finish, layer
from skidpad.worlds.torch_pack import Present, ground_rows, pack, share
from skidpad.worlds.torch_terrain import paint


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well frames of two backends agree: the mean difference of all bytes, and the share that differs by more than `near`."""

    mean: float
    near: int
    beyond: float


AGREEMENT = Agreement(mean=0.3, near=4, beyond=0.003)

_AT_ONCE = {"cuda": 2048, "cpu": 32}
"""So many frames go through the kernels together; a frame takes about two megabytes on the way."""
_STEP = 4
"""So many cards of a tile are painted by one kernel."""


class TorchRayCaster:
    """Renders many scenes through one camera. Baking takes some hundredths of a second a scene."""

    def __init__(
        self, scenes: Sequence[Scene], camera: Camera, device: torch.device | str = "cpu", *, compiled: bool | None = None
    ) -> None:
        if not scenes:
            raise BadParametersError("a renderer needs at least one scene; got none")
        self.scenes, self.camera, self.device = tuple(scenes), camera, torch.device(device)
        stages = [stage_of(scene, camera) for scene in scenes]
        self._pack, self._shared = pack(stages, self.device), share(camera, self.device)
        pictures = atlas()
        self._firsts = (pictures.cars, pictures.people, pictures.glow)
        pitch = radians(camera.pitch_deg)
        self._lens = (camera.focal_px, camera.height_m, cos(pitch), sin(pitch))
        self._tiles = (ceil(camera.height_px / TILE_ROWS), ceil(camera.width_px / TILE_COLUMNS))
        self._ground = ground_rows(camera)
        self._present = Present(
            ramps=any(stage.ground.section[RAMP_TURN] != 0.0 for stage in stages),
            wet=any(stage.look.wet > 0.0 for stage in stages),
            snow=any(stage.look.snow > 0.0 for stage in stages),
            falls=any(stage.falling.kind != 0 for stage in stages),
        )
        self._drops = any(stage.falling.kind == 1 for stage in stages)
        use = self.device.type == "cuda" if compiled is None else compiled
        self._see: Callable[..., Any] = _compiled(see) if use else see
        self._paint: Callable[..., Any] = _compiled(paint) if use else paint
        self._layer: Callable[..., Any] = _compiled(layer) if use else layer
        self._finish: Callable[..., Any] = _compiled(finish) if use else finish
        self._bend: Callable[..., Any] = _compiled(bend) if use else bend

    @torch.inference_mode()
    def render(self, poses: FloatArray | Tensor, time_s: FloatArray | Tensor, scene: IntArray | Tensor | None = None) -> Tensor:
        """Returns what is seen from the poses at the times, uint8 (N, height, width, 3) on the device.

        poses: (N, 3), x, y and heading of the rear axle. time_s: (N,). scene: (N,), the number of each frame's scene; the first where
        none is given.
        """
        where = torch.as_tensor(poses, dtype=torch.float64).to(self.device)
        when = torch.as_tensor(time_s, dtype=torch.float64).to(self.device)
        count = len(where)
        which = (
            torch.zeros(count, dtype=torch.int32, device=self.device)
            if scene is None
            else torch.as_tensor(scene).to(self.device, torch.int32)
        )
        if (
            where.shape != (count, 3)
            or when.shape != (count,)
            or which.shape != (count,)
            or not bool(torch.isfinite(where).all() & torch.isfinite(when).all())
        ):
            raise BadParametersError(
                "poses are finite rows of x, y and heading with one finite time and scene each; "
                f"got shapes {tuple(where.shape)}, {tuple(when.shape)} and {tuple(which.shape)}"
            )
        if count and not 0 <= int(which.min()) <= int(which.max()) < len(self.scenes):
            raise BadParametersError(f"scenes are numbered 0 to {len(self.scenes) - 1}; got {int(which.min())} to {int(which.max())}")
        out = torch.empty((count, self.camera.height_px, self.camera.width_px, 3), dtype=torch.uint8, device=self.device)
        at_once = _AT_ONCE.get(self.device.type, 256)
        for start in range(0, count, at_once):
            stop = min(start + at_once, count)
            out[start:stop] = self._batch(where[start:stop], when[start:stop], which[start:stop])
        return out

    def _batch(self, poses: Tensor, time_s: Tensor, scene: Tensor) -> Tensor:
        if len(poses) == 1:
            # One frame would be compiled as a case of its own, whose rounding may differ.
            return self._batch(poses.repeat(2, 1), time_s.repeat(2), scene.repeat(2))[:1]
        camera, tables, shared = self.camera, self._pack, self._shared
        cosine, sine = torch.cos(poses[:, 2]), torch.sin(poses[:, 2])
        exact = torch.stack((poses[:, 0] + camera.forward_m * cosine, poses[:, 1] + camera.forward_m * sine, cosine, sine), dim=1)
        eye = exact.float()
        lower = shared.rows[self._ground :]
        # Single precision would lose the texel far from the origin.
        grain_at = (exact[:, None, :2] * lower[None, :, 7:8].double()).remainder(lower[None, :, 6:7].double()).float()
        look = tables.look[scene]
        cards, shadows = moving(tables, scene, time_s.float(), eye, look[:, LOOK["glow"]], self._firsts)
        cards = torch.cat((cards, tables.standing[scene]), dim=1)
        pixels = (camera.width_px, camera.height_px)
        sun = tables.sun[scene]
        _any_number(cards, eye, sun, look)
        seen, boxes, depths = self._see(cards, shared, eye, self._lens, pixels, sun, look)
        order, lists, counts = tile_lists(boxes, depths, self._tiles)
        seen = torch.gather(seen, 1, order[..., None].expand(-1, -1, c.SEEN)).contiguous()
        _any_number(scene, grain_at, shadows)
        ground = self._paint(tables, shared.noise, lower, shared.left, scene, eye, grain_at, shadows, self._present)
        front = self._front(seen, lists, counts, ground, look)
        turn = poses[:, 2] * (ceil(2.0 * np.pi * camera.focal_px) / (2.0 * np.pi))
        turn, when = turn.float(), time_s.float()
        _any_number(front, turn, when)
        frames: Tensor = self._finish(front, ground, tables, shared, scene, turn, when, self._tiles, self._ground, self._present)
        if not self._drops:
            return frames
        step, limit = torch.floor(time_s / DROP_STEP_S).int() % DROP_STEPS, torch.floor(255.0 * look[:, LOOK["rain"]].double()).int()
        _any_number(frames, step, limit)
        bent: Tensor = self._bend(frames, shared.drops, step, limit)
        return bent

    def _front(self, seen: Tensor, lists: Tensor, counts: Tensor, ground: Tensor, look: Tensor) -> Tensor:
        """Paints the cards of all tiles, a few at a time as long as a tile has some left. Returns (tiles, 4, rows, columns)."""
        frames, kept = seen.shape[:2]
        per_frame = self._tiles[0] * self._tiles[1]
        front = torch.zeros((frames * per_frame, 4, TILE_ROWS, TILE_COLUMNS), dtype=torch.float32, device=self.device)
        front[:, 3] = 1.0
        lists, counts = lists.reshape(frames * per_frame, -1), counts.reshape(-1)
        for start in range(0, lists.shape[1], _STEP):
            active = torch.nonzero(counts > start)[:, 0]
            if not len(active):
                break
            if len(active) == 1:
                active = active.repeat(2)
            number = active.int()
            cards = torch.where(
                start + torch.arange(_STEP, device=self.device)[None] < counts[active, None], lists[active, start : start + _STEP], -1
            )
            before, flat, snow = front[active], seen.view(-1), look[:, LOOK["snow"]].contiguous()
            _any_number(before, flat, cards, number, snow)
            torch._dynamo.maybe_mark_dynamic(ground, 1)  # noqa: SLF001 - the documented name of it
            painted = self._layer(
                before, flat, cards, number, self._shared, snow, ground, kept, self._tiles, self._ground, self._lens[1], self._present
            )
            front[active] = painted
        return front


def _compiled(part: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles for any number of frames, without checks of indices that are right by construction."""
    options: dict[str, str | int | bool | Callable[..., Any]] = {"assert_indirect_indexing": False, "max_fusion_size": 1024}
    return torch.compile(part, options=options)


def _any_number(*tensors: Tensor) -> None:
    """Tells the compiler that the first size of each varies from call to call."""
    for tensor in tensors:
        torch._dynamo.maybe_mark_dynamic(tensor, 0)  # noqa: SLF001 - the documented name of it
