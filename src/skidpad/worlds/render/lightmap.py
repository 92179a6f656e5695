"""Shadows of what stands, on a map along the road: rows by distance, columns across."""

from __future__ import annotations

from math import radians, tan

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.render.compiling import uncounted
from skidpad.worlds.render.props import BROADLEAVES, CONIFERS
from skidpad.worlds.render.scene import Scene
from skidpad.worlds.render.texture import SIZE, Texels, noise_levels, sample

STEP_M = 0.5
HALF_M = 24.0
COLUMNS = int(2.0 * HALF_M / STEP_M) + 1
FROM_M = -16.0
"""Where along the road the map begins."""
_BEYOND_M = 60.0


def light_map(scene: Scene) -> NDArray[np.uint8]:
    """Returns the map, (rows, COLUMNS): 0 in the sun, 255 in full shade. Row r is `FROM_M + r STEP_M` along the road."""
    s_m = np.arange(FROM_M, scene.road.length_m + _BEYOND_M, STEP_M)
    shade = np.zeros((len(s_m), COLUMNS), np.uint8)
    elevation = max(scene.sun.elevation_deg, 4.0)
    if scene.scenario.conditions.night or scene.scenario.conditions.weather.value != "sunny":
        return shade
    here = scene.road.at(s_m)
    table = np.column_stack((here.x_m, here.y_m, np.cos(here.heading_rad), np.sin(here.heading_rad)))
    props = scene.props
    trees = props.trees
    slope = 1.0 / tan(radians(elevation))
    direction = scene.sun.direction[:2] / np.hypot(*scene.sun.direction[:2])
    bush = trees[:, 4] >= BROADLEAVES + CONIFERS
    bottom = trees[:, 2] * np.where(bush, 0.0, np.where(trees[:, 4] >= BROADLEAVES, 0.08, 0.27))
    radius = trees[:, 3] * np.where(bush, 0.4, 0.3)
    throw = 0.5 * (trees[:, 2] + bottom) * slope
    ellipses = np.column_stack((trees[:, :2] - throw[:, None] * direction, np.hypot(0.5 * (trees[:, 2] - bottom) * slope, radius), radius))
    _shade_ellipses(shade, table, scene.road.project(ellipses[:, :2]).s_m, ellipses, direction, noise_levels())
    buildings = props.buildings
    if len(buildings):
        _shade_boxes(shade, table, scene.road.project(buildings[:, :2]).s_m, buildings, direction, slope)
    # Soft edges: the map is coarse, and the sun is not a point.
    return np.asarray(cv2.blur(shade, (3, 3)), np.uint8)


@uncounted
def _rows(middle_s: float, reach: float, count: int) -> tuple[int, int]:
    first = int((middle_s - reach - FROM_M) / STEP_M)
    last = int((middle_s + reach - FROM_M) / STEP_M) + 1
    return max(first, 0), min(last, count)


@uncounted
def _shade_ellipses(
    shade: NDArray[np.uint8], table: FloatArray, middle_s: FloatArray, ellipses: FloatArray, sun: FloatArray, texels: Texels
) -> None:
    for k in range(len(ellipses)):
        # Around the inside of a bend, a metre beside the road is more than a metre along it.
        first, last = _rows(middle_s[k], 2.0 * max(ellipses[k, 2], ellipses[k, 3]) + 4.0, len(shade))
        for r in range(first, last):
            for c in range(COLUMNS):
                lateral = c * STEP_M - HALF_M
                x = table[r, 0] - lateral * table[r, 3]
                y = table[r, 1] + lateral * table[r, 2]
                dx, dy = x - ellipses[k, 0], y - ellipses[k, 1]
                along = (dx * sun[0] + dy * sun[1]) / ellipses[k, 2]
                across = (dy * sun[0] - dx * sun[1]) / ellipses[k, 3]
                square = along * along + across * across
                if square > 2.2:
                    continue
                leaves = 0.45 * sample(texels, 0, SIZE, 9.0 * x, 9.0 * y)
                value = 255.0 * min(max(2.2 * (1.0 + leaves - np.sqrt(square)), 0.0), 1.0)
                shade[r, c] = max(shade[r, c], np.uint8(value))


@uncounted
def _shade_boxes(
    shade: NDArray[np.uint8], table: FloatArray, middle_s: FloatArray, boxes: FloatArray, sun: FloatArray, slope: float
) -> None:
    """A point is in the shade where the way to the sun enters the box below its height."""
    for k in range(len(boxes)):
        cos, sin = np.cos(boxes[k, 2]), np.sin(boxes[k, 2])
        half_a, half_b, throw = 0.5 * boxes[k, 3], 0.5 * boxes[k, 4], boxes[k, 5] * slope
        sun_a, sun_b = sun[0] * cos + sun[1] * sin, sun[1] * cos - sun[0] * sin
        first, last = _rows(middle_s[k], min(throw, 60.0) + half_a + half_b + 12.0, len(shade))
        for r in range(first, last):
            for c in range(COLUMNS):
                lateral = c * STEP_M - HALF_M
                dx = table[r, 0] - lateral * table[r, 3] - boxes[k, 0]
                dy = table[r, 1] + lateral * table[r, 2] - boxes[k, 1]
                a, b = dx * cos + dy * sin, dy * cos - dx * sin
                enter, leave = 0.0, throw
                for place, step, half in ((a, sun_a, half_a), (b, sun_b, half_b)):
                    if abs(step) < 1e-9:
                        if abs(place) > half:
                            leave = -1.0
                        continue
                    one, two = (-half - place) / step, (half - place) / step
                    enter, leave = max(enter, min(one, two)), min(leave, max(one, two))
                if enter < leave:
                    shade[r, c] = 255
