"""The renderer's way from a point of the ground to road coordinates: a coarse grid of nearest nodes, then two steps of geometry.

A node knows the circle that touches the road there. The nearest node of a cell gives a first distance along the road, the node at that
distance the final answer; with nodes a metre apart that is within a tenth of a millimetre beside bends of 30 m and more, run-ins included.
The table is small (tens of kilobytes for a kilometre), so that thousands of scenes fit on a GPU. Truth comes from `Road.project`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.render.chunks import ALONG, LAMP, LATERAL, LENGTH, SHADE, WIDTH
from skidpad.worlds.render.compiling import CHUNK, Scratch, uncounted
from skidpad.worlds.render.standing import COLUMNS, FROM_M, HALF_M, STEP_M
from skidpad.worlds.render.surface import f, short, whole
from skidpad.worlds.render.texture import Texels
from skidpad.worlds.scenario.road import Road

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


SPAN_M = 2.5
"""How far apart knots are at most. A cubic curve with the right ends and slopes is off by at most w^4 / 384 times the fourth derivative,
which is 3 / r^3 at r metres from a bend's middle: a fifth of a millimetre at 11 m. Where a run-in begins or ends it costs as much."""
SHADE_SPAN_M = 0.6
_BLOCK = 16
"""Curves are filled by so many pixels at a time, in loops of known length."""

Knot: TypeAlias = tuple[float, float, float, float, float, float]
"""Lateral position and distance along the road, the slopes of both to the next pixel, the pixel's extent across and along the road."""
Steps: TypeAlias = tuple[float, float, float, float]
"""Of a row: cosine and sine of the heading, a pixel's extent across and along the view."""


class Ground(NamedTuple):
    """Tables of one scene's ground."""

    nodes: FloatArray
    cells: NDArray[np.int32]
    origin: FloatArray
    shade: NDArray[np.uint8]
    """See `lightmap`."""
    sunny: bool
    """Whether anything throws a shadow."""
    section: FloatArray
    texels: Texels


@uncounted
def span_at(across_px: float, most_m: float, longest: int) -> int:
    """Returns how many pixels lie between two knots, a power of two."""
    span = longest
    while span > 1 and span * across_px > most_m:
        span >>= 1
    return span


@uncounted
def knot_at(ground: Ground, x: float, y: float, view: float, steps: Steps) -> Knot:
    """Looks a place of the ground up. view: how far to the left its ray goes."""
    cosine, sine, across_px, along_px = f(steps[0]), f(steps[1]), f(steps[2]), f(steps[3])
    lateral, s, road_cos, road_sin, inner = locate(ground.nodes, ground.cells, ground.origin, x, y)
    # Across the view the ground runs along (sine, -cosine), along it along (step_x, step_y).
    step_x = along_px * (cosine - sine * f(view))
    step_y = along_px * (sine + cosine * f(view))
    beside = -(road_sin * sine + road_cos * cosine) * across_px
    onward = (road_cos * sine - road_sin * cosine) * across_px
    width = abs(beside) + abs(road_cos * step_y - road_sin * step_x) + f(1e-4)
    length = abs(onward) + abs(road_cos * step_x + road_sin * step_y) + f(1e-4)
    return lateral, s, beside, onward / inner, width, length


@uncounted
def place_chunk(
    scratch: Scratch, ground: Ground, x: float, y: float, left: float, focal: float, steps: Steps, span: int, first: Knot
) -> Knot:
    """Fills where the chunk's pixels lie on the road. x, y: the first pixel's place; first: its knot. Returns the next chunk's first."""
    cosine, sine, across_px, _ = steps
    here = first
    for start in range(0, CHUNK, span):
        k = start + span
        there = knot_at(ground, x + k * across_px * sine, y - k * across_px * cosine, left - k / focal, steps)
        _curves(scratch, start, span, here, there)
        here = there
    return here


@uncounted
def _curves(scratch: Scratch, start: int, span: int, here: Knot, there: Knot) -> None:
    """Fills the pixels from one knot to the next."""
    share, long = f(1.0 / span), f(span)
    across, along = there[0] - here[0], f(there[1] - here[1])
    a0, a1 = here[0], here[2] * long
    a2, a3 = f(3.0) * across - long * (f(2.0) * here[2] + there[2]), long * (here[2] + there[2]) - f(2.0) * across
    b0, b1 = f(here[1]), here[3] * long
    b2, b3 = f(3.0) * along - long * (f(2.0) * here[3] + there[3]), long * (here[3] + there[3]) - f(2.0) * along
    width, wider, length, longer = here[4], there[4] - here[4], here[5], there[5] - here[5]
    if span < _BLOCK:
        for k in range(span):
            t, place = share * f(short(k)), np.uintp(start + k)
            scratch[np.uintp(LATERAL) + place] = a0 + t * (a1 + t * (a2 + t * a3))
            scratch[np.uintp(ALONG) + place] = b0 + t * (b1 + t * (b2 + t * b3))
            scratch[np.uintp(WIDTH) + place] = width + t * wider
            scratch[np.uintp(LENGTH) + place] = length + t * longer
        return
    for block in range(0, span, _BLOCK):
        begin = share * f(short(block))
        place = np.uintp(start + block)
        for k in range(_BLOCK):
            t = begin + share * f(short(k))
            scratch[place + np.uintp(LATERAL + k)] = a0 + t * (a1 + t * (a2 + t * a3))
            scratch[place + np.uintp(ALONG + k)] = b0 + t * (b1 + t * (b2 + t * b3))
            scratch[place + np.uintp(WIDTH + k)] = width + t * wider
            scratch[place + np.uintp(LENGTH + k)] = length + t * longer


@uncounted
def straight(scratch: Scratch, start: int, span: int, here: float, there: float) -> None:
    """Fills a line from one knot to the next; the loops have known lengths, so that they become vector instructions."""
    step, at = (there - here) * f(1.0 / span), np.uintp(start)
    if span == 16:
        for k in range(16):
            scratch[at + np.uintp(k)] = here + step * f(short(k))
    elif span == 8:
        for k in range(8):
            scratch[at + np.uintp(k)] = here + step * f(short(k))
    elif span == 4:
        for k in range(4):
            scratch[at + np.uintp(k)] = here + step * f(short(k))
    else:
        for k in range(span):
            scratch[at + np.uintp(k)] = here + step * f(short(k))


@uncounted
def comes_near(scratch: Scratch, limit: float) -> bool:
    """Tells whether a pixel of the chunk is within the limit of the centreline, in metres."""
    # The least distance would have to be found one by one.
    found = np.int32(0)
    for k in range(CHUNK):
        found |= np.int32(abs(scratch[LATERAL + k]) <= limit)
    any_: bool = found != 0
    return any_


@uncounted
def shade_chunk(scratch: Scratch, ground: Ground, across_px: float, last: Knot) -> None:
    """Fills how much shade lies on the pixels, straight from knot to knot. last: the next chunk's first knot."""
    if not ground.sunny:
        for k in range(CHUNK):
            scratch[SHADE + k] = f(0.0)
        return
    span = span_at(across_px, SHADE_SPAN_M, _BLOCK)
    here = shade_at(ground.shade, scratch[ALONG], scratch[LATERAL])
    for start in range(0, CHUNK, span):
        k = start + span
        s, lateral = (scratch[np.uintp(ALONG + k)], scratch[np.uintp(LATERAL + k)]) if k < CHUNK else (f(last[1]), last[0])
        there = shade_at(ground.shade, s, lateral)
        straight(scratch, SHADE + start, span, here, there)
        here = there


@uncounted
def shade_at(shade: NDArray[np.uint8], s: float, lateral: float) -> float:
    """Returns the shade at a place beside the road, 0 to 1, bilinear; beyond the map there is none."""
    r, c = (s - f(FROM_M)) * f(1.0 / STEP_M), (lateral + f(HALF_M)) * f(1.0 / STEP_M)
    if r < f(0.0) or c < f(0.0) or r >= f(len(shade) - 1) or c >= f(COLUMNS - 1.0):
        return f(0.0)
    i, j = whole(c), whole(r)
    fx, fy = c - f(i), r - f(j)
    # Unsigned, or every index is first checked for counting from the end.
    left, right, top_row, low_row = np.uintp(i), np.uintp(i + 1), np.uintp(j), np.uintp(j + 1)
    a, b, below_a, below_b = f(shade[top_row, left]), f(shade[top_row, right]), f(shade[low_row, left]), f(shade[low_row, right])
    top = a + fx * (b - a)
    return (top + fy * (below_a + fx * (below_b - below_a) - top)) * f(1.0 / 255.0)


@uncounted
def lamp_chunk(scratch: Scratch, ahead: float, side: float, across_px: float, headlights: float, fog_lights: float) -> None:
    """Fills how much of the ego's own light reaches the pixels of a row; `cards.lamp_at` for one place."""
    ahead = max(ahead, 0.5)
    far, near = ahead * (1.0 / 25.0), ahead * (1.0 / 9.0)
    begin = min(max((ahead - 1.5) * 0.3, 0.0), 1.0)
    beam = f(begin * headlights * 1.25 / ((1.0 + far * far) * sqrt(1.0 + far * far)))
    fog = f(begin * fog_lights * 0.55 / ((1.0 + near * near) * (1.0 + near * near)))
    first, step, one = f(side / ahead), f(across_px / ahead), f(1.0)
    for k in range(CHUNK):
        angle = first - step * f(short(k))
        narrow, wide = angle * f(2.5), angle * f(1.1)
        narrow *= narrow
        wide *= wide
        scratch[LAMP + k] = beam / (one + narrow * narrow) + fog / (one + wide * wide)
