"""Everything of a scene that stands: as cards (trees, walls, gantries, posts), and its shadows on a map along the road.

Rows of the map go by distance, columns across. The table of moving objects is here, too.
"""

from __future__ import annotations

from math import radians, tan

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.render.cards import STANDING
from skidpad.worlds.render.compiling import uncounted
from skidpad.worlds.render.props import BROADLEAVES, CONIFERS, GANTRY_CLEAR_M
from skidpad.worlds.render.scene import Scene
from skidpad.worlds.render.sprites.atlas import Atlas
from skidpad.worlds.render.sprites.built import BEAM_M, BOARD_M, FACADE_M
from skidpad.worlds.render.texture import SIZE, Texels, noise_levels, sample
from skidpad.worlds.scenario.scenario import Kind, Movers

PAINTS = np.array(
    [
        (0.93, 0.93, 0.92),
        (0.16, 0.17, 0.19),
        (0.62, 0.64, 0.67),
        (0.70, 0.10, 0.10),
        (0.13, 0.24, 0.52),
        (0.20, 0.36, 0.26),
        (0.80, 0.66, 0.24),
        (0.42, 0.30, 0.24),
    ]
)
CLOTHES = np.array([(0.78, 0.16, 0.14), (0.18, 0.34, 0.66), (0.94, 0.76, 0.16), (0.24, 0.50, 0.30), (0.86, 0.86, 0.84), (0.48, 0.26, 0.52)])
WALLS = np.array([(0.98, 0.93, 0.84), (0.84, 0.62, 0.50), (0.90, 0.90, 0.90), (0.95, 0.84, 0.62), (0.72, 0.76, 0.80), (0.78, 0.52, 0.42)])

_TREES_SEEN_M = 230.0
_POSTS_SEEN_M = 90.0
_SIGNS_SEEN_M = 320.0
_PIECES = 2
_WINDOWS_SHINE = 2.6
"""Also what tells a wall from a sign; see `cards`."""
_PLAIN = np.ones((1, 3))


def standing_cards(scene: Scene, pictures: Atlas) -> FloatArray:
    """Returns everything that stands as cards, (K, STANDING); see the columns in `cards`."""
    props = scene.props
    trees, posts = props.trees, props.posts
    tints = 1.0 + trees[:, 5:6] * [[0.12, 0.03, -0.1]]
    sprite = pictures.trees + trees[:, 4]
    return np.concatenate(
        [
            _facing(trees[:, :2], trees[:, 3], trees[:, 2], sprite, tints, _TREES_SEEN_M),
            _walls(props.buildings, pictures),
            _gantries(scene, pictures),
            _facing(posts[:, :2], 0.16, 1.0, pictures.delineator, _PLAIN, _POSTS_SEEN_M),
        ]
    )


def _cards(count: int, *columns: FloatArray | float) -> FloatArray:
    """Fills cards column by column; the tint is one argument of three columns."""
    table = np.empty((count, STANDING))
    place = 0
    for column in columns:
        value = np.asarray(column, dtype=np.float64)
        wide = 3 if value.ndim == 2 else 1
        table[:, place : place + wide] = value if value.ndim == 2 else np.broadcast_to(value, count)[:, None]
        place += wide
    return table


def _facing(
    places: FloatArray,
    width_m: FloatArray | float,
    height_m: FloatArray | float,
    sprite: FloatArray | float,
    tint: FloatArray,
    far_m: float,
) -> FloatArray:
    """Cards that turn towards the camera. places: (K, 2), of their feet."""
    return _cards(len(places), 1.0, places[:, 0], places[:, 1], 0.0, 0.0, width_m, 0.0, height_m, sprite, tint, 1.0, 0.0, far_m)


def _walls(buildings: FloatArray, pictures: Atlas) -> FloatArray:
    """The four walls of each building; those that face away are left out when it is seen."""
    x, y, heading, length, depth, height, facade, tint = buildings.T
    cos, sin = np.cos(heading), np.sin(heading)
    colour = WALLS[np.minimum((tint * len(WALLS)).astype(int), len(WALLS) - 1)]
    parts = []
    # Seen from outside, a wall runs from its left end to its right end.
    left_ends = ((0.5, 0.5, -1.0), (-0.5, 0.5, -1.0), (-0.5, -0.5, 1.0), (0.5, -0.5, 1.0))
    for turn, (along, across, flip) in enumerate(left_ends):
        a, b = along * length, across * depth
        dx, dy, long = (flip * cos, flip * sin, length) if turn % 2 == 0 else (-flip * sin, flip * cos, depth)
        start_x, start_y = x + a * cos - b * sin, y + a * sin + b * cos
        piece = long / _PIECES
        # Walls are cut, so that each piece has its own level of detail.
        for number in range(_PIECES):
            near_x, near_y = start_x + dx * piece * number, start_y + dy * piece * number
            sprite, across_m = pictures.facades + facade, piece / FACADE_M
            parts.append(
                _cards(len(x), 0.0, near_x, near_y, dx, dy, piece, 0.0, height, sprite, colour, across_m, _WINDOWS_SHINE, _SIGNS_SEEN_M)
            )
    return np.concatenate(parts)


def _gantries(scene: Scene, pictures: Atlas) -> FloatArray:
    """Beams across the road with a board over each lane of the ego's direction, and their posts."""
    parts = [np.empty((0, STANDING))]
    section = scene.section
    low, high = GANTRY_CLEAR_M + 1.0, GANTRY_CLEAR_M + 1.0 + BEAM_M[1]
    for x, y, heading, left, right in scene.props.gantries:
        cos, sin = np.cos(heading), np.sin(heading)
        reach, across = left + right, (left + right) / BEAM_M[0]
        # Seen by a driver on the road, a card runs from its left end to the right.
        start_x, start_y = x - left * sin, y + left * cos
        parts.append(_cards(1, 0.0, start_x, start_y, sin, -cos, reach, low, high, pictures.beam, _PLAIN, across, 0.0, _SIGNS_SEEN_M))
        for lane in range(1, section.lanes + 1):
            middle = section.lane_centre_of(lane) + 0.5 * BOARD_M[0]
            # Boards hang a little before the beam.
            edge_x, edge_y = x - middle * sin - 0.25 * cos, y + middle * cos - 0.25 * sin
            top = GANTRY_CLEAR_M + BOARD_M[1]
            parts.append(
                _cards(1, 0.0, edge_x, edge_y, sin, -cos, BOARD_M[0], GANTRY_CLEAR_M, top, pictures.board, _PLAIN, 1.0, 0.6, _SIGNS_SEEN_M)
            )
        feet = np.array([(x - side * sin, y + side * cos) for side in (left, -right)])
        parts.append(_facing(feet, 0.45, high, pictures.post, _PLAIN, _SIGNS_SEEN_M))
    return np.concatenate(parts)


def moving_table(movers: Movers) -> FloatArray:
    """Returns vehicles and pedestrians for the kernels, (K, 7): distance, lateral position, speed, 1 for a person, tint."""
    person = movers.kinds == Kind.PEDESTRIAN
    tint = np.where(person[:, None], CLOTHES[movers.looks % len(CLOTHES)], PAINTS[movers.looks % len(PAINTS)])
    return np.column_stack((movers.s_m, movers.lateral_m, movers.speed_m_s, person, tint)).reshape(-1, 7)


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
