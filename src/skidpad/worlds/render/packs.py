"""Stages of many scenes side by side in single tables, and how compiled code takes one out again.

A GPU gets one pack and renders every scene of a batch from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import Camera, FloatArray
from skidpad.worlds.render.compiling import compiled
from skidpad.worlds.render.precipitation import Precipitation, drop_maps, flake_tile, streak_tile
from skidpad.worlds.render.raycast import Stage
from skidpad.worlds.render.roadtable import Ground
from skidpad.worlds.render.terrain import COARSE_PER_M, FINE_PER_M
from skidpad.worlds.render.texture import level_at
from skidpad.worlds.render.weather import Look

_LAYERS = 4
"""The most layers of rain or snow that a scene can have; one with fewer has layers of weight zero."""


class Pack(NamedTuple):
    """S stages of one camera. What differs in size is filled up so that it changes nothing; what all share is there once."""

    nodes: FloatArray
    cells: NDArray[np.int32]
    origin: FloatArray
    shade: NDArray[np.uint8]
    sunny: NDArray[np.uint8]
    section: FloatArray
    noise: NDArray[np.float32]
    look: FloatArray
    standing: FloatArray
    movers: FloatArray
    moving: NDArray[np.int32]
    """How many of a scene's movers there are."""
    firsts: FloatArray
    sprites: FloatArray
    colours: NDArray[np.int32]
    surfaces: NDArray[np.int32]
    forward: FloatArray
    down: FloatArray
    left: FloatArray
    lens: FloatArray
    sky: NDArray[np.uint8]
    sky_of: NDArray[np.int32]
    """Which of the skies a scene has."""
    sky_column: NDArray[np.float32]
    sky_row: NDArray[np.int32]
    sun: FloatArray
    kind: NDArray[np.int32]
    tiles: NDArray[np.uint8]
    layers: FloatArray
    colour: FloatArray
    drops: NDArray[np.int32]
    intensity: FloatArray
    rows: FloatArray
    """(height, 13), what only the row of a pixel decides; see the columns below."""


(REACH, AHEAD, ACROSS, DEEP, MIRRORS, FINE, FINE_SIZE, FINE_SCALE, FINE_FADE, COARSE, COARSE_SIZE, COARSE_SCALE, COARSE_FADE) = range(13)
"""Columns of a row: how far its rays go until the ground, and how far ahead that is; a pixel's extent there across and along the view; how
much a wet road mirrors; of the fine and the coarse noise where the level starts, its size, texels to a metre, and how it fades."""


def _rows(camera: Camera) -> FloatArray:
    forward, down, _ = camera.rays()
    table = np.zeros((len(down), 13))
    for v in np.flatnonzero(down > 0.0):
        reach = camera.height_m / down[v]
        across, along = reach / camera.focal_px, reach * reach / (camera.height_m * camera.focal_px)
        fine, coarse = level_at(across * FINE_PER_M), level_at(across * COARSE_PER_M)
        table[v] = (
            reach, reach * forward[v], across, along, 0.04 + 0.9 * (1.0 - down[v] / np.hypot(down[v], forward[v])) ** 5,
            fine[0], fine[1], fine[2] * FINE_PER_M, 0.8 / (1.0 + 0.6 * along),
            coarse[0], coarse[1], coarse[2] * COARSE_PER_M, 1.0 / (1.0 + 0.06 * along),
        )  # fmt: skip
    return table


def _grown(parts: Sequence[np.ndarray], mode: str) -> np.ndarray:
    """Stacks arrays of different sizes; mode: `edge` repeats the last values, `constant` adds zeros."""
    size = np.max([part.shape for part in parts], axis=0)
    return np.stack([np.pad(part, [(0, most - own) for most, own in zip(size, part.shape, strict=True)], mode=mode) for part in parts])  # type: ignore[call-overload]  # the mode is one of its literals


def pack(stages: Sequence[Stage], camera: Camera) -> Pack:
    """Puts stages of one camera side by side."""
    first, grounds, precipitations = stages[0], [stage.ground for stage in stages], [stage.precipitation for stage in stages]
    layers = np.zeros((len(stages), _LAYERS, 6))
    layers[:, :, 0] = 1.0
    for k, precipitation in enumerate(precipitations):
        layers[k, : len(precipitation.layers)] = precipitation.layers
    skies: dict[bytes, int] = {}
    sky_of = [skies.setdefault(stage.sky.tobytes(), len(skies)) for stage in stages]
    return Pack(
        # Beyond its end a road goes on as its last node says, and beyond its border the nearest cell answers.
        nodes=_grown([ground.nodes for ground in grounds], "edge"),
        cells=_grown([ground.cells for ground in grounds], "edge"),
        origin=np.stack([ground.origin for ground in grounds]),
        shade=_grown([ground.shade for ground in grounds], "constant"),
        sunny=np.array([ground.sunny for ground in grounds], np.uint8),
        section=np.stack([ground.section for ground in grounds]),
        noise=first.ground.texels,
        look=np.array([stage.look for stage in stages], dtype=np.float64),
        # A card of zeros is seen from nowhere.
        standing=_grown([stage.standing for stage in stages], "constant"),
        # One more than there are, so that there is never none: devices have no empty arrays.
        movers=_grown([np.concatenate((stage.movers, np.zeros((1, 7)))) for stage in stages], "constant"),
        moving=np.array([len(stage.movers) for stage in stages], np.int32),
        firsts=first.firsts,
        sprites=first.sprites,
        colours=first.colours,
        surfaces=first.surfaces,
        forward=first.forward,
        down=first.down,
        left=first.left,
        lens=first.lens,
        sky=np.stack([stages[sky_of.index(number)].sky for number in range(len(skies))]),
        sky_of=np.array(sky_of, np.int32),
        sky_column=first.sky_column,
        sky_row=first.sky_row,
        sun=np.stack([stage.sun for stage in stages]),
        kind=np.array([precipitation.kind for precipitation in precipitations], np.int32),
        tiles=np.stack([streak_tile(), flake_tile()]),
        layers=layers,
        colour=np.stack([precipitation.colour for precipitation in precipitations]),
        drops=drop_maps(camera.width_px, camera.height_px),
        intensity=np.array([precipitation.intensity for precipitation in precipitations]),
        rows=_rows(camera),
    )


@compiled
def _look_at(t: FloatArray) -> Look:
    return Look(
        t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10],
        t[11], t[12], t[13], t[14], t[15], t[16], t[17], t[18], t[19], t[20], t[21],
    )  # fmt: skip


@compiled
def stage_at(packed: Pack, scene: int) -> Stage:
    """Takes one scene's stage out; nothing is copied."""
    kind = packed.kind[scene]
    return Stage(
        Ground(
            packed.nodes[scene],
            packed.cells[scene],
            packed.origin[scene],
            packed.shade[scene],
            packed.sunny[scene] != 0,
            packed.section[scene],
            packed.noise,
        ),
        _look_at(packed.look[scene]),
        packed.standing[scene],
        packed.movers[scene][: packed.moving[scene]],
        packed.firsts,
        packed.sprites,
        packed.colours,
        packed.surfaces,
        packed.forward,
        packed.down,
        packed.left,
        packed.lens,
        packed.sky[packed.sky_of[scene]],
        packed.sky_column,
        packed.sky_row,
        packed.sun[scene],
        Precipitation(
            kind,
            packed.tiles[1 if kind == 2 else 0],
            packed.layers[scene],
            packed.colour[scene],
            packed.drops,
            packed.intensity[scene],
            packed.tiles,
        ),
    )
