"""The renderer's way from a point of the ground to road coordinates: a coarse grid of nearest nodes, then two steps of geometry.

A node knows the circle that touches the road there. The nearest node of a cell gives a first distance along the road, the node at that
distance the final answer; with nodes a metre apart that is within a tenth of a millimetre beside bends of 30 m and more, run-ins included.
The table is small (tens of kilobytes for a kilometre), so that thousands of scenes fit on a GPU. Truth comes from `Road.project`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.compiling import uncounted
from skidpad.worlds.road import Road
from skidpad.worlds.surface import f, whole

CELL_M = 4.0
NODE_M = 1.0
_MARGIN_M = 60.0
"""The grid covers so much around the road; beyond, its border answers."""


@dataclass(frozen=True, eq=False, slots=True)
class RoadTable:
    """nodes: (n, 6), x, y, cosine and sine of the heading, curvature, distance; a metre apart but for the last, which lies beyond the end.

    The first and last node stand for the straight road beyond the ends. cells: (rows, columns), numbers of nodes; origin_m: (2,), the
    lower left of the grid.
    """

    nodes: FloatArray
    cells: NDArray[np.int32]
    origin_m: FloatArray

    @classmethod
    def build(cls, road: Road) -> RoadTable:
        """Makes the table of a road."""
        inner = np.arange(0.0, road.length_m + 1e-9, NODE_M)
        s_m = np.concatenate(([-NODE_M], inner, [inner[-1] + NODE_M]))
        # The outer two lie on the straight continuation; everything beyond is projected on their tangents.
        here = road.at(s_m)
        bend = here.curvature_per_m.copy()
        bend[[0, -1]] = 0.0
        nodes = np.column_stack((here.x_m, here.y_m, np.cos(here.heading_rad), np.sin(here.heading_rad), bend, s_m))
        low = np.floor((nodes[:, :2].min(axis=0) - _MARGIN_M) / CELL_M) * CELL_M
        columns, rows = (int(n) for n in np.ceil((nodes[:, :2].max(axis=0) + _MARGIN_M - low) / CELL_M))
        cells = np.empty((rows, columns), np.int32)
        _fill(cells, nodes, low)
        return cls(np.ascontiguousarray(nodes), cells, low)

    def look_up(self, points_m: FloatArray) -> FloatArray:
        """Returns (N, 2): lateral position and distance along the road of (N, 2) points."""
        out = np.empty((len(points_m), 2))
        _locate_many(self.nodes, self.cells, self.origin_m, np.ascontiguousarray(points_m, dtype=np.float64), out)
        return out


@uncounted
def _fill(cells: NDArray[np.int32], nodes: FloatArray, low: FloatArray) -> None:
    """Finds each cell's nearest node by walking from its neighbour's and, now and then, by looking at coarse steps of all."""
    rows, columns = cells.shape
    for j in range(rows):
        y = low[1] + (j + 0.5) * CELL_M
        for i in range(columns):
            x = low[0] + (i + 0.5) * CELL_M
            best, nearest = 1e18, 0
            for k in range(0, len(nodes), 8):
                square = (x - nodes[k, 0]) ** 2 + (y - nodes[k, 1]) ** 2
                if square < best:
                    best, nearest = square, k
            for k in range(max(nearest - 8, 0), min(nearest + 9, len(nodes))):
                square = (x - nodes[k, 0]) ** 2 + (y - nodes[k, 1]) ** 2
                if square < best:
                    best, nearest = square, k
            cells[j, i] = nearest


@uncounted
def locate(nodes: FloatArray, cells: NDArray[np.int32], origin: FloatArray, x: float, y: float) -> tuple[float, float, float, float, float]:
    """Returns lateral position, distance along the road, its direction there (cosine, sine), and how much longer it is than there.

    The last is `1 - curvature * lateral`: so many metres beside the road are a metre along it. What is near a node is known in single
    precision to a hundredth of a millimetre; only places are double.
    """
    i = min(max(whole((x - origin[0]) * (1.0 / CELL_M)), 0), cells.shape[1] - 1)
    j = min(max(whole((y - origin[1]) * (1.0 / CELL_M)), 0), cells.shape[0] - 1)
    one, tenth = f(1.0), f(0.1)
    # A first guess by the circle of a node that is near. Unsigned, or every index is first checked for counting from the end.
    node = np.uintp(cells[np.uintp(j), np.uintp(i)])
    dx, dy = f(x - nodes[node, 0]), f(y - nodes[node, 1])
    cos, sin, bend = f(nodes[node, 2]), f(nodes[node, 3]), f(nodes[node, 4])
    # The arc's angle is atan(bend * along / (1 - bend * left)); two terms of it are enough, here and near a node.
    step = (dx * cos + dy * sin) / max(one - bend * (dy * cos - dx * sin), tenth)
    turn = bend * step
    guess = nodes[node, 5] + step * (one - turn * turn * f(1.0 / 3.0))
    node = np.uintp(min(max(whole(guess * (1.0 / NODE_M) + 1.5), 0), len(nodes) - 1))
    dx, dy = f(x - nodes[node, 0]), f(y - nodes[node, 1])
    cos, sin, bend = f(nodes[node, 2]), f(nodes[node, 3]), f(nodes[node, 4])
    along, left = dx * cos + dy * sin, dy * cos - dx * sin
    square = along * along + left * left
    # In a form that holds for curvature zero as well.
    lateral = (f(2.0) * left - bend * square) / (one + f(sqrt(one - f(2.0) * bend * left + bend * bend * square)))
    step = along / max(one - bend * left, tenth)
    turn = bend * step
    step *= one - turn * turn * f(1.0 / 3.0)
    # The direction turns with the arc, by an angle that is small.
    turn = bend * step
    straight = one - f(0.5) * turn * turn
    return lateral, nodes[node, 5] + step, cos * straight - sin * turn, sin * straight + cos * turn, max(one - bend * lateral, tenth)


@uncounted
def _locate_many(nodes: FloatArray, cells: NDArray[np.int32], origin: FloatArray, points: FloatArray, out: FloatArray) -> None:
    for k in range(len(points)):
        lateral, s, _, _, _ = locate(nodes, cells, origin, points[k, 0], points[k, 1])
        out[k, 0] = lateral
        out[k, 1] = s
