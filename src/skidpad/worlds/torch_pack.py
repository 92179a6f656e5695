"""Tables of many scenes side by side on one device, as the torch renderer reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skidpad.worlds.atlas import LEVELS, atlas
from skidpad.worlds.camera import Camera
from skidpad.worlds.cards import STANDING
from skidpad.worlds.casting import Stage
from skidpad.worlds.falling import DROP_STEPS, drop_maps, flake_tile, streak_tile
from skidpad.worlds.terrain import COARSE_PER_M, FINE_PER_M, GROUND_M
from skidpad.worlds.texture import level_at, noise_levels

LAYERS = 4
"""Of what falls; a scene with fewer has layers without weight."""


class Present(NamedTuple):
    """Which things any of the scenes has; the compiler leaves out the others."""

    ramps: bool
    wet: bool
    snow: bool
    falls: bool


class Shared(NamedTuple):
    """What all scenes share.

    rows: (H, 13), of each row of the camera: forward, down, reach, a pixel's extent across and along the view, and of the fine and the
    coarse noise where the level starts, its size, its scale and its fading.
    """

    texels_colour: Tensor
    texels_surface: Tensor
    sprites: Tensor
    noise: Tensor
    rows: Tensor
    left: Tensor
    sky_column: Tensor
    sky_row: Tensor
    streaks: Tensor
    flakes: Tensor
    drops: Tensor
    sky_columns: int


class Pack(NamedTuple):
    """S scenes. Flat tables with where each scene's part starts; cards and movers are padded to the longest."""

    nodes: Tensor
    node_start: Tensor
    node_count: Tensor
    cells: Tensor
    cell_start: Tensor
    cell_rows: Tensor
    cell_columns: Tensor
    origin: Tensor
    shade: Tensor
    shade_start: Tensor
    shade_rows: Tensor
    section: Tensor
    look: Tensor
    standing: Tensor
    movers: Tensor
    sky: Tensor
    sky_start: Tensor
    sun: Tensor
    layers: Tensor
    colour: Tensor


def _words(texels: NDArray[np.uint8]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    pairs = np.ascontiguousarray(texels).view("<i4").reshape(-1, 2)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def share(camera: Camera, device: torch.device) -> Shared:
    """Brings to the device what does not depend on a scene."""
    pictures = atlas()
    colour, surface = _words(pictures.texels)
    forward, down, left = camera.rays()
    reach = np.where(down > 0.0, camera.height_m / np.where(down > 0.0, down, 1.0), 0.0)
    across, along = reach / camera.focal_px, reach * reach / (camera.height_m * camera.focal_px)
    table = []
    for v in range(len(down)):
        fine, coarse = level_at(across[v] * FINE_PER_M), level_at(across[v] * COARSE_PER_M)
        table.append(
            (
                forward[v], down[v], reach[v], across[v], along[v],
                fine[0], fine[1], fine[2] * FINE_PER_M, 0.8 / (1.0 + 0.6 * along[v]),
                coarse[0], coarse[1], coarse[2] * COARSE_PER_M, 1.0 / (1.0 + 0.06 * along[v]),
            )
        )  # fmt: skip
    sky_columns = int(np.ceil(2.0 * np.pi * camera.focal_px))
    sky_rows = int(np.ceil(camera.focal_px * max(-down[0] / forward[0], 0.0))) + 3
    above = down <= 0.0
    ahead = np.where(above, forward, 1.0)[:, None]
    line = np.clip(np.floor(sky_rows + camera.focal_px * np.where(above, down, 0.0)[:, None] / np.hypot(left, ahead)), 0, sky_rows - 1)
    column = np.arctan2(left, ahead) * (sky_columns / (2.0 * np.pi))
    starts = pictures.table
    sizes = starts[:, 1] * starts[:, 2]
    levels = np.stack([starts[:, 0] + sizes * (1.0 - 0.25**level) / 0.75 for level in range(LEVELS)], axis=1)
    return Shared(
        texels_colour=torch.from_numpy(colour).to(device),
        texels_surface=torch.from_numpy(surface).to(device),
        sprites=torch.from_numpy(np.hstack((starts, levels))).to(device, torch.float32),
        noise=torch.from_numpy(noise_levels()).to(device),
        rows=torch.tensor(table, dtype=torch.float32, device=device),
        left=torch.from_numpy(left).to(device, torch.float32),
        sky_column=torch.from_numpy(column).to(device, torch.float32),
        sky_row=torch.from_numpy(line).to(device, torch.int32),
        streaks=torch.from_numpy(streak_tile().ravel()).to(device),
        flakes=torch.from_numpy(flake_tile().ravel()).to(device),
        drops=torch.from_numpy(drop_maps(camera.width_px, camera.height_px).reshape(DROP_STEPS, -1)).to(device),
        sky_columns=sky_columns,
    )


def _flat(parts: Sequence[np.ndarray], kind: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Joins arrays of any size; returns the values and where each array starts, in rows."""
    starts = np.cumsum([0] + [len(part) for part in parts[:-1]])
    return torch.from_numpy(np.concatenate(parts)).to(device, kind), torch.from_numpy(starts).to(device, torch.int32)


def _padded(parts: Sequence[np.ndarray], columns: int) -> NDArray[np.float32]:
    table = np.zeros((len(parts), max(*map(len, parts), 1), columns), np.float32)
    for k, part in enumerate(parts):
        table[k, : len(part)] = part
    return table


def pack(stages: Sequence[Stage], device: torch.device) -> Pack:
    """Brings the stages of scenes to the device."""

    def floats(rows: list[np.ndarray] | NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(np.asarray(rows, dtype=np.float32)).to(device)

    def whole(values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    grounds = [stage.ground for stage in stages]
    nodes, node_start = _flat([ground.nodes for ground in grounds], torch.float32, device)
    cells, cell_start = _flat([ground.cells.ravel() for ground in grounds], torch.int32, device)
    shade, shade_start = _flat([ground.shade.ravel() for ground in grounds], torch.uint8, device)
    skies: list[np.ndarray] = []
    known: dict[bytes, int] = {}
    sky_start = []
    for stage in stages:
        words = np.ascontiguousarray(stage.sky).view("<i4").ravel()
        key = words.tobytes()
        if key not in known:
            known[key] = sum(map(len, skies))
            skies.append(words)
        sky_start.append(known[key])
    # Padding stands far below the ground and behind everybody: it is never seen.
    standing = [stage.standing for stage in stages]
    movers = _padded([np.column_stack((stage.movers, np.ones(len(stage.movers)))) for stage in stages], 8)
    layers = _padded(
        [np.column_stack((stage.falling.layers, np.full(len(stage.falling.layers), stage.falling.kind))) for stage in stages], 7
    )
    filled = np.zeros((len(stages), LAYERS, 7), np.float32)
    filled[:, : layers.shape[1]] = layers
    return Pack(
        nodes=nodes, node_start=node_start, node_count=whole([len(ground.nodes) for ground in grounds]),
        cells=cells, cell_start=cell_start,
        cell_rows=whole([ground.cells.shape[0] for ground in grounds]), cell_columns=whole([ground.cells.shape[1] for ground in grounds]),
        origin=floats([ground.origin for ground in grounds]),
        shade=shade, shade_start=shade_start, shade_rows=whole([len(ground.shade) for ground in grounds]),
        section=floats([ground.section for ground in grounds]),
        look=floats([np.array(stage.look) for stage in stages]),
        standing=torch.from_numpy(_padded(standing, STANDING)).to(device),
        movers=torch.from_numpy(movers).to(device),
        sky=torch.from_numpy(np.concatenate(skies)).to(device), sky_start=whole(sky_start),
        sun=floats([stage.sun for stage in stages]),
        layers=torch.from_numpy(filled).to(device),
        colour=floats([stage.falling.colour for stage in stages]),
    )  # fmt: skip


def ground_rows(camera: Camera) -> int:
    """Returns the first row that shows ground."""
    forward, down, _ = camera.rays()
    reach = np.where(down > 0.0, camera.height_m / np.where(down > 0.0, down, 1.0), np.inf)
    return int(np.argmax(reach * forward <= GROUND_M)) if np.any(reach * forward <= GROUND_M) else len(down)
