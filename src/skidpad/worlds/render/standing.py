"""Everything of a scene that cards stand for: trees, walls, gantries and posts, and the table of moving objects."""

from __future__ import annotations

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.worlds.render.cards import STANDING
from skidpad.worlds.render.props import GANTRY_CLEAR_M
from skidpad.worlds.render.scene import Scene
from skidpad.worlds.render.sprites.atlas import Atlas
from skidpad.worlds.render.sprites.built import BEAM_M, BOARD_M, FACADE_M
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
