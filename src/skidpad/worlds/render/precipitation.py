"""Rain and snow in front of the camera: streaks, flakes, and drops on the lens.

Streaks and flakes are tiles of one picture each that slide over the frame in layers, nearer ones faster; drops bend the view.
All of it depends on the scene's seed and the time alone.
"""

from __future__ import annotations

from functools import lru_cache
from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import Camera, FloatArray, NumpyFrames
from skidpad.core.seeding import child_rng
from skidpad.worlds.render.compiling import CHUNK, Scratch, compiled, uncounted
from skidpad.worlds.render.strips import BLUE, GREEN, PITCH, RED, WEIGHT
from skidpad.worlds.render.surface import whole
from skidpad.worlds.render.weather import Look

TILE = 256
DROP_STEPS = 16
DROP_STEP_S = 0.2
"""Drops gather for DROP_STEPS steps of this length; then the wiper clears them and they gather again."""


class Precipitation(NamedTuple):
    """The rain or snow of one scene.

    kind: 0 nothing, 1 rain, 2 snow. tile: (256, 256). layers: (L, 6): columns and rows of the tile to a pixel, speeds in rows and columns
    of the tile a second, offset, weight. drops: (DROP_STEPS, height, width), packed; empty without rain. stretched: (L, 256, columns), the
    tile at each layer's scale; only for the CPU.
    """

    kind: int
    tile: NDArray[np.uint8]
    layers: NDArray[np.float64]
    colour: NDArray[np.float64]
    drops: NDArray[np.int32]
    intensity: float
    stretched: NDArray[np.uint8]


@lru_cache(maxsize=1)
def streak_tile() -> NDArray[np.uint8]:
    """Returns short slanting streaks, (256, 256), that repeat in both directions."""
    rng = child_rng(0, "streaks")
    tile = np.zeros((TILE, TILE))
    for _ in range(420):
        x, y, long, light = rng.uniform(0.0, TILE), rng.uniform(0.0, TILE), int(rng.integers(10, 34)), rng.uniform(0.25, 1.0)
        for step in range(long):
            row, column = int(y + step) % TILE, int(x + 0.10 * step) % TILE
            tile[row, column] = max(tile[row, column], light * np.sin(np.pi * (step + 0.5) / long))
    return np.asarray(255.0 * tile, np.uint8)


@lru_cache(maxsize=1)
def flake_tile() -> NDArray[np.uint8]:
    """Returns soft flakes, (256, 256), that repeat in both directions."""
    rng = child_rng(0, "flakes")
    tile = np.zeros((TILE, TILE))
    for _ in range(170):
        x, y, radius, light = rng.uniform(0.0, TILE), rng.uniform(0.0, TILE), rng.uniform(1.2, 3.4), rng.uniform(0.5, 1.0)
        for row in range(int(y - 4), int(y + 5)):
            for column in range(int(x - 4), int(x + 5)):
                near = np.hypot(row + 0.5 - y, column + 0.5 - x) / radius
                value = light * min(max(1.5 * (1.0 - near), 0.0), 1.0)
                tile[row % TILE, column % TILE] = max(tile[row % TILE, column % TILE], value)
    return np.asarray(255.0 * tile, np.uint8)


@lru_cache(maxsize=4)
def drop_maps(width_px: int, height_px: int) -> NDArray[np.int32]:
    """Returns where drops bend the view, (DROP_STEPS, height, width).

    From the lowest byte: columns and rows away plus 128, the light that passes, from which intensity on the drop is there (255: never).
    """
    rng = child_rng(0, "drops", width_px, height_px)
    maps = np.full((DROP_STEPS, height_px, width_px), (255 << 24) | (255 << 16) | (128 << 8) | 128, np.int64)
    scale = width_px / 320.0
    rows, columns = np.mgrid[:height_px, :width_px] + 0.5
    for _ in range(110):
        x, y = rng.uniform(0.0, width_px), rng.uniform(0.0, height_px)
        radius, since, least = scale * rng.uniform(1.6, 6.5), int(rng.integers(0, DROP_STEPS)), int(255 * rng.uniform(0.0, 0.95))
        slide = rng.uniform(0.0, 1.1) * scale * (radius > 4.0 * scale)
        for step in range(since, DROP_STEPS):
            middle = y + slide * (step - since)
            top, bottom = max(int(middle - radius - 2), 0), min(int(middle + radius + 3), height_px)
            left, right = max(int(x - radius - 2), 0), min(int(x + radius + 3), width_px)
            if top >= bottom or left >= right:
                continue
            off_x, off_y = (columns[top:bottom, left:right] - x) / radius, (rows[top:bottom, left:right] - middle) / (1.15 * radius)
            square = off_x**2 + off_y**2
            inside = square < 1.0
            # A drop shows the world upside down and small.
            away_x, away_y = np.clip(-off_x * radius * 4.5, -127, 127), np.clip(-off_y * radius * 3.5, -127, 127)
            light = np.clip(255.0 * (1.0 - 0.24 * square**3 - 0.10 * off_y), 0.0, 255.0)
            packed = (
                (least << 24) | (light.astype(np.int64) << 16) | ((away_y + 128).astype(np.int64) << 8) | (away_x + 128).astype(np.int64)
            )
            part = maps[step, top:bottom, left:right]
            part[inside] = packed[inside]
    return np.where(maps >= 1 << 31, maps - (1 << 32), maps).astype(np.int32)


def precipitation_of(look: Look, camera: Camera, seed: int) -> Precipitation:
    """Returns the rain or snow that a scene's look asks for."""
    empty = np.empty((0, 1, 1), np.int32)
    scale = 320.0 / camera.width_px
    # Not a round number: the edges of texels would fall on the middles of pixels, and rounding would choose between neighbours.
    offset = 37.0 * (seed % 101) + 0.37
    if look.rain > 0.0:
        weight = 0.25 + 0.75 * look.rain
        layers = np.array(
            [(1.7, 0.75, -950.0, 40.0, 11.0, 0.26), (1.1, 0.5, -760.0, 25.0, 83.0, 0.32), (0.6, 0.28, -620.0, 16.0, 171.0, 0.26)]
        )
        layers[:, :2] *= scale
        layers[:, 4] += offset
        layers[:, 5] *= weight
        bright = np.array([205.0, 212.0, 220.0]) * (0.30 if look.night else 1.0)
        drops = drop_maps(camera.width_px, camera.height_px)
        return Precipitation(1, streak_tile(), layers, bright, drops, look.rain, _stretched(streak_tile(), layers, camera.width_px))
    if look.flakes > 0.0:
        layers = np.array(
            [
                (2.6, 2.6, -190.0, 60.0, 5.0, 0.55),
                (1.7, 1.7, -150.0, -40.0, 91.0, 0.75),
                (1.0, 0.8, -170.0, 70.0, 181.0, 0.85),
                (0.5, 0.42, -150.0, -50.0, 41.0, 0.8),
            ]
        )
        layers[:, :2] *= scale
        layers[:, 4] += offset
        layers[:, 5] *= 0.3 + 0.7 * look.flakes
        bright = np.array([246.0, 248.0, 251.0]) * (0.62 if look.night else 1.0)
        return Precipitation(2, flake_tile(), layers, bright, empty, look.flakes, _stretched(flake_tile(), layers, camera.width_px))
    return Precipitation(0, np.zeros((1, 1), np.uint8), np.empty((0, 6)), np.zeros(3), empty, 0.0, np.empty((0, 1, 1), np.uint8))


def _stretched(tile: NDArray[np.uint8], layers: FloatArray, width_px: int) -> NDArray[np.uint8]:
    """Returns the tile at each layer's horizontal scale, (L, TILE, columns), so that a frame's row is a slice of one of its rows."""
    columns = -(-width_px // CHUNK) * CHUNK + int(np.ceil(TILE / layers[:, 0].min())) + 1
    texels = np.floor((np.arange(columns) + 0.5) * layers[:, :1]).astype(np.int64) & (TILE - 1)
    return np.ascontiguousarray(np.stack([tile[:, line] for line in texels]))


@uncounted
def line_at(layer: FloatArray, time_s: float, v: int) -> int:
    """Returns which row of its tile a layer shows in row `v`."""
    return whole(floor((v + 0.5) * layer[1] + layer[2] * time_s + 3.0 * layer[4])) & (TILE - 1)


@uncounted
def start_at(layer: FloatArray, time_s: float) -> int:
    """Returns how many pixels of its row a layer has passed; it drifts by whole ones."""
    pixels, period = (layer[3] * time_s + layer[4]) / layer[0], TILE / layer[0]
    return whole(floor(pixels - period * floor(pixels / period)))


@uncounted
def paint_precipitation(strips: Scratch, v: int, precipitation: Precipitation, time_s: float) -> None:
    """Paints streaks or flakes over row `v`."""
    for chunk in range(len(strips) // PITCH):
        at = np.uintp(chunk * PITCH)
        # All layers have one colour, so the share of the row that stays visible is the product of the layers' shares.
        for k in range(CHUNK):
            strips[at + np.uintp(WEIGHT + k)] = np.float32(1.0)
        for layer in range(len(precipitation.layers)):
            numbers = precipitation.layers[layer]
            line, start = np.uintp(line_at(numbers, time_s, v)), start_at(numbers, time_s) + chunk * CHUNK
            weight = np.float32(numbers[5] / 255.0)
            for k in range(CHUNK):
                texel = np.float32(precipitation.stretched[layer, line, np.uintp(start + k)])
                strips[at + np.uintp(WEIGHT + k)] *= np.float32(1.0) - weight * texel
        red, green, blue = np.float32(precipitation.colour[0]), np.float32(precipitation.colour[1]), np.float32(precipitation.colour[2])
        for k in range(CHUNK):
            left = strips[at + np.uintp(WEIGHT + k)]
            strips[at + np.uintp(RED + k)] = red + left * (strips[at + np.uintp(RED + k)] - red)
            strips[at + np.uintp(GREEN + k)] = green + left * (strips[at + np.uintp(GREEN + k)] - green)
            strips[at + np.uintp(BLUE + k)] = blue + left * (strips[at + np.uintp(BLUE + k)] - blue)


@compiled
def bend_by_drops(frame: NumpyFrames, drops: NDArray[np.int32], intensity: float, time_s: float) -> None:
    """Replaces the pixels behind drops on the lens by the part of the frame that the drops refract there."""
    step = whole(floor(time_s / DROP_STEP_S)) % DROP_STEPS
    source = frame.copy()
    limit = int(255.0 * intensity)
    height, width = frame.shape[0], frame.shape[1]
    for v in range(height):
        for start in range(0, width, CHUNK):
            stop = min(start + CHUNK, width)
            # Most of a frame has no drops.
            found = np.int32(0)
            for u in range(start, stop):
                found |= np.int32(((drops[step, v, np.uintp(u)] >> 24) & 255) < limit)
            if found == 0:
                continue
            for u in range(start, stop):
                word = np.int64(drops[step, v, u])
                if ((word >> 24) & 255) >= limit:
                    continue
                column = min(max(u + (word & 255) - 128, 0), width - 1)
                line = min(max(v + ((word >> 8) & 255) - 128, 0), height - 1)
                light = (word >> 16) & 255
                for c in range(3):
                    frame[v, u, c] = np.uint8((np.int64(source[line, column, c]) * light) // 255)
