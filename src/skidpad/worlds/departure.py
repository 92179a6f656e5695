"""Lanes that egos have to keep, side by side: where each car is in its own, exactly.

One call answers for N cars on N roads, so that a step of a closed loop costs about the same for many cars as for one. The answers are
those of `Road.project`; the renderer's look-up has no part in them. Sums are taken row by row, never by a matrix product, so that the
last bit of a car's answer does not depend on how many others there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from skidpad.core.images import FloatArray, IntArray
from skidpad.worlds.render.compiling import compiled
from skidpad.worlds.scenario.road import CrossSection, Projection, Road, RoadPoints, projected
from skidpad.worlds.vehicle import Driver

_GAUSS_X, _GAUSS_W = np.polynomial.legendre.leggauss(6)
_APART_M = 1e6
"""Between one road's distances and the next one's, so that one search finds the node on any of them."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """The lanes of N egos, fixed from the beginning: who changes lanes has departed.

    lane_centre_m: (N,), the lateral position of each lane's middle on its road. _which: (N,), the road of each ego.
    """

    roads: tuple[Road, ...]
    lane_centre_m: FloatArray
    _key: FloatArray
    _s_m: FloatArray
    _nodes: FloatArray
    _begin: IntArray
    _end: IntArray
    _which: IntArray
    _centre_m: FloatArray

    @classmethod
    def of(cls, roads: Sequence[Road], sections: Sequence[CrossSection]) -> Lanes:
        """Lays the roads side by side; row k of every later call is about road k."""
        counts = [len(road.node_s_m) for road in roads]
        s_m = np.concatenate([road.node_s_m for road in roads])
        nodes = np.concatenate([_table(road) for road in roads])
        key = s_m + _APART_M * np.repeat(np.arange(len(roads)), counts)
        first = np.cumsum([0, *counts])
        centre_m = np.array([section.lane_centre_m for section in sections])
        return cls(tuple(roads), centre_m, key, s_m, nodes, first[:-1], first[1:] - 1, np.arange(len(roads)), centre_m)

    def on(self, which: IntArray) -> Lanes:
        """Returns the lanes of egos of which several may drive on one road. which: (N,), places among the roads."""
        return replace(self, lane_centre_m=self._centre_m[which], _which=np.asarray(which, np.int64))

    def at(self, s_m: FloatArray) -> RoadPoints:
        """Returns the point of each road's centreline at its distance, (N,); straight on beyond both ends."""
        first, last = self._begin[self._which], self._end[self._which]
        inside = np.clip(s_m, 0.0, self._s_m[last])
        place = np.searchsorted(self._key, inside + _APART_M * self._which, side="right") - 1
        i = np.clip(place, first, last - 1)
        x_m, y_m, heading, curvature, slope = np.ascontiguousarray(self._nodes[i].T)
        u = inside - self._s_m[i]
        parts = 0.5 * u[:, None] * (_GAUSS_X + 1.0)
        angles = heading[:, None] + parts * (curvature[:, None] + 0.5 * slope[:, None] * parts)
        turned = heading + u * (curvature + 0.5 * slope * u)
        beyond = s_m - inside
        return RoadPoints(
            x_m + 0.5 * u * (np.cos(angles) * _GAUSS_W).sum(1) + beyond * np.cos(turned),
            y_m + 0.5 * u * (np.sin(angles) * _GAUSS_W).sum(1) + beyond * np.sin(turned),
            turned,
            np.where(beyond == 0.0, curvature + slope * u, 0.0),
        )

    def project(self, points_m: FloatArray) -> Projection:
        """Projects point k of (N, 2) on road k; `lateral_m` is the distance from the middle of its lane, positive to the left."""
        s_m = self._s_m[_nearest(self._nodes, self._begin[self._which], self._end[self._which], points_m)]
        found = projected(self.at, points_m, s_m, self._s_m[self._end[self._which]])
        return replace(found, lateral_m=found.lateral_m - self.lane_centre_m)

    def truth_rad(self, driver: Driver, poses: FloatArray, here: Projection | None = None) -> FloatArray:
        """Returns what the driver steers at pose k of (N, 3) on road k, (N,). here: the poses' projection, where it is known."""
        here = here or self.project(poses[:, :2])
        stretch = 1.0 - self.at(here.s_m).curvature_per_m * self.lane_centre_m
        aim = self.at(here.s_m + driver.look_ahead_m / np.maximum(stretch, 0.5)).beside(self.lane_centre_m)
        return driver.towards_rad(poses, aim)


@compiled
def _nearest(nodes: FloatArray, first: IntArray, last: IntArray, points_m: FloatArray) -> IntArray:
    """Returns the row, from first to last, of the node that is nearest to point k, (N,); trees would be asked from Python."""
    found = np.empty(len(points_m), np.int64)
    for k in range(len(points_m)):
        least, found[k] = np.inf, first[k]
        for row in range(first[k], last[k] + 1):
            dx, dy = nodes[row, 0] - points_m[k, 0], nodes[row, 1] - points_m[k, 1]
            if dx * dx + dy * dy < least:
                least, found[k] = dx * dx + dy * dy, row
    return found


def _table(road: Road) -> FloatArray:
    """Returns a road's nodes, (count, 5): x, y, heading, curvature after the node, and how that changes per metre."""
    node, s_m = road.nodes, road.node_s_m
    ends = np.cumsum([0.0, *(piece.length_m for piece in road.pieces)])
    slope = np.zeros(len(s_m))
    for piece, (start_m, stop_m) in zip(road.pieces, pairwise(ends), strict=True):
        # A node belongs to the piece that begins there, so the middle of its interval says which piece that is.
        middle = s_m[:-1] + 0.5 * np.diff(s_m)
        slope[:-1][(middle > start_m) & (middle < stop_m)] = (piece.end_per_m - piece.start_per_m) / piece.length_m
    return np.column_stack((node.x_m, node.y_m, node.heading_rad, node.curvature_per_m, slope))
