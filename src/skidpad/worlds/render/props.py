"""What stands beside a road: trees and bushes, buildings, gantries with signs, delineator posts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.worlds.scenario.road import CrossSection, Road
from skidpad.worlds.scenario.scenario import Boxes, Kind, Surroundings

TREES_PER_M = 1.1
"""Where trees are densest; a scenario's share of it is planted."""
TREE_REACH_M = 60.0
BROADLEAVES, CONIFERS, BUSHES = 4, 3, 2
"""How many kinds of picture there are of each; a tree's sprite counts through them in this order."""
FACADES = 4
FLOOR_M = 3.0
GANTRY_CLEAR_M = 5.2
"""How high above the road a gantry's board begins."""
POST_STEP_M = 25.0

_LOT_M = (14.0, 26.0)
_BEHIND_M, _BEYOND_M = 40.0, 120.0


@dataclass(frozen=True, eq=False, slots=True)
class Props:
    """Tables of what stands, in metres.

    trees: (K, 6), x, y, height, width of the picture, number of the sprite, tint from -1 to 1. buildings: (B, 8), x, y, heading,
    length, depth, height, facade, tint from 0 to 1. gantries: (G, 5), x, y, heading, how far it reaches to the left and to the
    right of the centreline. posts: (P, 3), x, y, 1 at the right of the road or -1.
    """

    trees: FloatArray
    buildings: FloatArray
    gantries: FloatArray
    posts: FloatArray

    @property
    def boxes(self) -> Boxes:
        """The room that trunks, buildings and the feet of gantries take; bushes and delineators give way."""
        trees = self.trees[self.trees[:, 4] < BROADLEAVES + CONIFERS]
        trunk = 0.06 * trees[:, 2:3]
        feet = np.concatenate([_beside(self.gantries[:, :3], self.gantries[:, 3]), _beside(self.gantries[:, :3], -self.gantries[:, 4])])
        return Boxes.joined(
            [
                _boxes(trees[:, :2], 0.0 * trees[:, 0], np.hstack((trunk, trunk, trees[:, 2:3])), Kind.TREE),
                _boxes(self.buildings[:, :2], self.buildings[:, 2], self.buildings[:, 3:6], Kind.BUILDING),
                _boxes(feet, 0.0 * feet[:, 0], np.tile([0.35, 0.35, GANTRY_CLEAR_M], (len(feet), 1)), Kind.POST),
            ]
        )


def _boxes(places: FloatArray, heading: FloatArray, sizes: FloatArray, kind: Kind) -> Boxes:
    return Boxes(np.column_stack((places, heading)), sizes, np.full(len(places), int(kind), np.int64))


def _beside(poses: FloatArray, lateral_m: FloatArray) -> FloatArray:
    """Returns the points to the left of poses, (K, 2)."""
    return np.column_stack((poses[:, 0] - lateral_m * np.sin(poses[:, 2]), poses[:, 1] + lateral_m * np.cos(poses[:, 2])))


def place_props(rng: np.random.Generator, road: Road, section: CrossSection, plan: Surroundings, start_m: float) -> Props:
    """Draws where everything stands, nothing of it on any part of the road."""
    buildings = _build(rng, road, section, plan.buildings)
    trees = _plant(rng, road, section, plan.trees, buildings)
    last_m = max(road.length_m - 200.0, start_m + 60.0)
    s_m = start_m + 45.0 + (last_m - start_m - 45.0) * (np.arange(plan.gantries) / max(plan.gantries, 1))
    here = road.at(s_m)
    reach = section.outer_right_m(s_m) - 0.5
    gantries = np.column_stack((here.beside(0.0), here.heading_rad, np.full(len(s_m), section.outer_m - 0.5), reach))
    return Props(trees, buildings, gantries, _posts(road, section))


def _posts(road: Road, section: CrossSection) -> FloatArray:
    s_m = np.arange(0.0, road.length_m, POST_STEP_M)
    here = road.at(s_m)
    right = here.beside(-(section.outer_right_m(s_m) - 0.45))
    left = here.beside(np.full(len(s_m), section.outer_m - 0.45))
    return np.concatenate([np.column_stack((right, np.ones(len(s_m)))), np.column_stack((left, -np.ones(len(s_m))))])


def _build(rng: np.random.Generator, road: Road, section: CrossSection, density: float) -> FloatArray:
    rows: list[tuple[float, ...]] = []
    for side in (1.0, -1.0):
        s_m = -_BEHIND_M
        while s_m < road.length_m + _BEYOND_M and density > 0.0:
            lot_m, taken = float(rng.uniform(*_LOT_M)), rng.random() < density
            length_m, depth_m = lot_m - float(rng.uniform(2.0, 5.0)), float(rng.uniform(9.0, 14.0))
            height_m = FLOOR_M * int(rng.integers(2, 5)) + 0.6
            setback_m, facade, tint = float(rng.uniform(4.0, 9.0)), int(rng.integers(FACADES)), float(rng.random())
            middle = s_m + 0.5 * lot_m
            outer = float(section.outer_right_m(np.array([middle]))[0]) if side < 0.0 else section.outer_m
            if taken:
                here = road.at(np.array([middle]))
                place = here.beside(side * (outer + setback_m + 0.5 * depth_m))[0]
                rows.append((*place.tolist(), float(here.heading_rad[0]), length_m, depth_m, height_m, facade, tint))
            s_m += lot_m
    table = np.array(rows, dtype=np.float64).reshape(-1, 8)
    return np.asarray(table[_clear_of_road(table, road, section)])


def _clear_of_road(buildings: FloatArray, road: Road, section: CrossSection) -> np.ndarray:
    cos, sin = np.cos(buildings[:, 2]), np.sin(buildings[:, 2])
    corners = []
    for along in (-0.5, 0.0, 0.5):
        for across in (-0.5, 0.5):
            a, b = along * buildings[:, 3], across * buildings[:, 4]
            corners.append(np.column_stack((buildings[:, 0] + a * cos - b * sin, buildings[:, 1] + a * sin + b * cos)))
    # all corners in one call, since a call costs more than its points
    where = road.project(np.concatenate(corners))
    outer = np.where(where.lateral_m < 0.0, section.outer_right_m(where.s_m), section.outer_m)
    return np.asarray((np.abs(where.lateral_m) > outer + 1.5).reshape(len(corners), len(buildings)).all(axis=0))


def _plant(rng: np.random.Generator, road: Road, section: CrossSection, density: float, buildings: FloatArray) -> FloatArray:
    count = int(TREES_PER_M * density * road.length_m)
    nearest_m = section.outer_m + 1.5
    away_m = nearest_m + (TREE_REACH_M - nearest_m) * rng.random(count) ** 1.8
    side = np.where(rng.random(count) < 0.5, 1.0, -1.0)
    s_m = rng.uniform(-_BEHIND_M, road.length_m + _BEYOND_M, count)
    places = road.at(s_m).beside(away_m * side)
    kind = rng.random(count)
    pick = rng.random(count)
    sprite = np.where(
        kind < 0.5,
        np.floor(pick * BROADLEAVES),
        np.where(kind < 0.78, BROADLEAVES + np.floor(pick * CONIFERS), BROADLEAVES + CONIFERS + np.floor(pick * BUSHES)),
    )
    size = rng.random(count)
    bush, conifer = sprite >= BROADLEAVES + CONIFERS, (sprite >= BROADLEAVES) & (sprite < BROADLEAVES + CONIFERS)
    height = np.where(bush, 1.0 + 1.4 * size, np.where(conifer, 7.0 + 8.0 * size, 5.0 + 6.0 * size))
    width = height * np.where(bush, 1.4, np.where(conifer, 0.62, 1.0))
    trees = np.column_stack((places, height, width, sprite, rng.uniform(-1.0, 1.0, count)))
    where = road.project(places)
    outer = np.where(where.lateral_m < 0.0, section.outer_right_m(where.s_m), section.outer_m)
    clear = np.abs(where.lateral_m) > outer + 0.5 + 0.3 * np.where(bush, 1.3, 1.0) * width
    for x, y, heading, length, depth, *_ in buildings:
        dx, dy = places[:, 0] - x, places[:, 1] - y
        along, across = dx * np.cos(heading) + dy * np.sin(heading), dy * np.cos(heading) - dx * np.sin(heading)
        clear &= (np.abs(along) > 0.5 * length + 0.4 * width) | (np.abs(across) > 0.5 * depth + 0.4 * width)
    return np.asarray(trees[clear])
