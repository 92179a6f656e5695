"""A road: a centreline whose curvature is linear in pieces, its cross-section, and the exact projection on it.

The world is flat; x points east, y north, angles turn counter-clockwise, and lateral positions are positive to
the left of the direction of travel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray

NODE_STEP_M = 1.0
"""The greatest distance between two nodes; between nodes the integrals below are exact to rounding."""

_GAUSS_X, _GAUSS_W = np.polynomial.legendre.leggauss(6)
_NEWTON_STEPS = 8


@dataclass(frozen=True, slots=True)
class SideLane:
    """A lane that joins at the right (an entry) or leaves there (an exit), beside the rightmost lane.

    An entry runs along the road from `start_m` for `parallel_m` metres and is then taken away over `taper_m`; before, it is a ramp that
    nears the road. An exit is the same, driven the other way round: it opens over `taper_m` before `start_m - parallel_m`, and leaves
    the road as a ramp after `start_m`.
    """

    start_m: float
    exits: bool = False
    parallel_m: float = 110.0
    taper_m: float = 50.0
    leaving_per_m: float = 0.0025
    """How fast the ramp leaves the road: its gap is this times the square of the distance from `start_m`."""

    def along_m(self, s_m: FloatArray) -> FloatArray:
        """Returns the distance from where ramp and road meet, positive towards the taper."""
        return (self.start_m - s_m) if self.exits else (s_m - self.start_m)

    def edges_m(self, s_m: FloatArray, lane_width_m: float) -> tuple[FloatArray, FloatArray]:
        """Returns how far right of the main road's edge line the lane begins and ends; both are equal where there is none."""
        along = self.along_m(np.asarray(s_m, dtype=np.float64))
        gap = self.leaving_per_m * np.minimum(along, 0.0) ** 2
        width = lane_width_m * np.clip((self.parallel_m + self.taper_m - along) / self.taper_m, 0.0, 1.0)
        return gap, gap + width


@dataclass(frozen=True, slots=True)
class CrossSection:
    """Lanes of both directions with a paved margin and a gravel shoulder at each side; traffic keeps right.

    Lane 1 is the rightmost of the ego's direction, lane `lanes` the one next to the middle line, lane 0 the oncoming one beyond it, and
    so on to `1 - lanes`. `side_lane` adds an entry or an exit at the right.
    """

    lane_width_m: float = 3.5
    margin_m: float = 0.45
    shoulder_m: float = 1.2
    lanes: int = 1
    """In each direction."""
    ego_lane: int = 1
    side_lane: SideLane | None = None

    def __post_init__(self) -> None:
        if not (1 <= self.lanes <= 4 and 1 <= self.ego_lane <= self.lanes and 2.0 <= self.lane_width_m <= 6.0):
            raise BadParametersError(
                "a road has 1 to 4 lanes of 2 to 6 m in each direction, and the ego keeps one of them; "
                f"got lanes={self.lanes}, ego_lane={self.ego_lane}, lane_width_m={self.lane_width_m:g}"
            )

    def lane_centre_of(self, lane: int) -> float:
        """Returns the lateral position of the middle of a lane."""
        if not 1 - self.lanes <= lane <= self.lanes:
            raise BadParametersError(
                f"this road has lanes {1 - self.lanes} to {self.lanes}, the oncoming ones from 0 down; got lane {lane}"
            )
        return (-lane + 0.5 if lane <= 0 else lane - self.lanes - 0.5) * self.lane_width_m

    @property
    def lane_centre_m(self) -> float:
        """The lateral position of the middle of the ego's lane."""
        return self.lane_centre_of(self.ego_lane)

    @property
    def edge_m(self) -> float:
        """How far from the centreline the main road's edge lines end."""
        return self.lanes * self.lane_width_m

    @property
    def outer_m(self) -> float:
        """How far from the centreline the grass begins, but for a side lane."""
        return self.edge_m + self.margin_m + self.shoulder_m

    def outer_right_m(self, s_m: FloatArray) -> FloatArray:
        """Returns how far right of the centreline the grass begins, with the side lane."""
        if self.side_lane is None:
            return np.full(np.shape(s_m), self.outer_m)
        return self.outer_m + self.side_lane.edges_m(s_m, self.lane_width_m)[1]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of road whose curvature runs linearly from `start_per_m` to `end_per_m`; positive bends left."""

    length_m: float
    start_per_m: float = 0.0
    end_per_m: float = 0.0


@dataclass(frozen=True, slots=True)
class RoadPoints:
    """Points of the centreline, arrays of one shape: position, direction and curvature."""

    x_m: FloatArray
    y_m: FloatArray
    heading_rad: FloatArray
    curvature_per_m: FloatArray

    def beside(self, lateral_m: FloatArray | float) -> FloatArray:
        """Returns the points `lateral_m` to the left, (..., 2)."""
        return np.stack((self.x_m - lateral_m * np.sin(self.heading_rad), self.y_m + lateral_m * np.cos(self.heading_rad)), axis=-1)


@dataclass(frozen=True, slots=True)
class Projection:
    """Where points lie with respect to a road: distance travelled along it, and to the left of it."""

    s_m: FloatArray
    lateral_m: FloatArray


def projected(at: Callable[[FloatArray], RoadPoints], points_m: FloatArray, near_m: FloatArray, length_m: FloatArray | float) -> Projection:
    """Projects (N, 2) points on centrelines by Newton's method on `(p - c(s)) . t(s) = 0`, from distances near enough, (N,).

    Valid for points nearer to the centreline than its radius of curvature. at: the point of the centreline at a distance.
    """

    def offsets(s_m: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        here = at(s_m)
        dx, dy = points_m[:, 0] - here.x_m, points_m[:, 1] - here.y_m
        cos, sin = np.cos(here.heading_rad), np.sin(here.heading_rad)
        return dx * cos + dy * sin, dy * cos - dx * sin, here.curvature_per_m

    s = near_m
    for _ in range(_NEWTON_STEPS):
        along, left, curvature = offsets(s)
        s = s + np.clip(along / np.maximum(1.0 - curvature * left, 0.1), -NODE_STEP_M, NODE_STEP_M)
    # Beyond an end the road is straight, so that the last step is the whole way and needs no limit.
    s = np.where((s <= 0.0) | (s >= length_m), s + offsets(s)[0], s)
    return Projection(s, offsets(s)[1])


@dataclass(frozen=True)
class Road:
    """A centreline from the origin, heading east at first; it goes on straight beyond both ends."""

    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        for piece in self.pieces:
            sizes = (piece.length_m, piece.start_per_m, piece.end_per_m)
            if not np.all(np.isfinite(sizes)) or piece.length_m <= 0.0:
                raise BadParametersError(f"a piece of road needs a positive length and finite curvatures; got {piece}")
        if not self.pieces:
            raise BadParametersError("a road needs at least one piece; got none")

    @property
    def length_m(self) -> float:
        """How long the road is."""
        return float(self._nodes[0][-1])

    @property
    def min_radius_m(self) -> float:
        """The radius of the tightest bend; infinite for a straight road."""
        sharpest = max(max(abs(piece.start_per_m), abs(piece.end_per_m)) for piece in self.pieces)
        return 1.0 / sharpest if sharpest else float("inf")

    @cached_property
    def _nodes(self) -> tuple[FloatArray, RoadPoints, FloatArray]:
        """The nodes' distances, their points, and the change of curvature per metre after each of them."""
        steps, starts, slopes = [], [], []
        for piece in self.pieces:
            count = int(np.ceil(piece.length_m / NODE_STEP_M))
            slope = (piece.end_per_m - piece.start_per_m) / piece.length_m
            step = piece.length_m / count
            steps.append(np.full(count, step))
            starts.append(piece.start_per_m + slope * step * np.arange(count))
            slopes.append(np.full(count, slope))
        step_m, curvature, slope_m2 = (np.concatenate(part) for part in (steps, starts, slopes))
        heading = np.concatenate(([0.0], np.cumsum(step_m * (curvature + 0.5 * slope_m2 * step_m))))
        dx, dy = _displacement(heading[:-1], curvature, slope_m2, step_m)
        s_m = np.concatenate(([0.0], np.cumsum(step_m)))
        x_m, y_m = np.concatenate(([0.0], np.cumsum(dx))), np.concatenate(([0.0], np.cumsum(dy)))
        points = RoadPoints(x_m, y_m, heading, np.append(curvature, curvature[-1] + slope_m2[-1] * step_m[-1]))
        return s_m, points, np.append(slope_m2, 0.0)

    @property
    def node_s_m(self) -> FloatArray:
        """The distances of the nodes along the road, rising from 0 to `length_m`."""
        return self._nodes[0]

    @property
    def nodes(self) -> RoadPoints:
        """The nodes, at most `NODE_STEP_M` apart."""
        return self._nodes[1]

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.nodes.beside(0.0))

    def nearest_node(self, points_m: FloatArray) -> tuple[FloatArray, np.ndarray]:
        """Returns how far the nearest node is from each point of (N, 2), and its index."""
        distance_m, index = self._tree.query(points_m)
        return np.asarray(distance_m), np.asarray(index)

    def at(self, s_m: FloatArray | float) -> RoadPoints:
        """Returns the points at the given distances, exact to rounding."""
        s = np.asarray(s_m, dtype=np.float64)
        node_s, node, slope = self._nodes
        inside = np.clip(s, 0.0, node_s[-1])
        i = np.clip(np.searchsorted(node_s, inside, side="right") - 1, 0, len(node_s) - 2)
        u = inside - node_s[i]
        dx, dy = _displacement(node.heading_rad[i], node.curvature_per_m[i], slope[i], u)
        heading = node.heading_rad[i] + u * (node.curvature_per_m[i] + 0.5 * slope[i] * u)
        beyond = s - inside
        curvature = np.where(beyond == 0.0, node.curvature_per_m[i] + slope[i] * u, 0.0)
        x_m = node.x_m[i] + dx + beyond * np.cos(heading)
        y_m = node.y_m[i] + dy + beyond * np.sin(heading)
        return RoadPoints(x_m, y_m, heading, curvature)

    def project(self, points_m: FloatArray) -> Projection:
        """Returns the exact projection of (N, 2) points, from the nearest node: the truth, never what the renderer looks up."""
        points = np.asarray(points_m, dtype=np.float64)
        return projected(self.at, points, self.node_s_m[self.nearest_node(points)[1]], self.length_m)

    def crosses_itself(self, clearance_m: float) -> bool:
        """Tells whether two distant parts of the road come nearer to each other than `clearance_m`."""
        pairs = self._tree.query_pairs(clearance_m, output_type="ndarray")
        # Around one bend, even a turn on the spot that the clearance just allows, points that near are no further apart.
        apart_m = np.abs(np.diff(self.node_s_m[pairs], axis=1))
        return bool(np.any(apart_m > 0.5 * np.pi * clearance_m + NODE_STEP_M))


def _displacement(heading: FloatArray, curvature: FloatArray, slope: FloatArray, length_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Integrates cos and sin of a quadratic heading over `length_m` from zero, by Gauss-Legendre."""
    u = 0.5 * np.asarray(length_m)[..., None] * (_GAUSS_X + 1.0)
    angle = np.asarray(heading)[..., None] + u * (np.asarray(curvature)[..., None] + 0.5 * np.asarray(slope)[..., None] * u)
    half = 0.5 * length_m
    return half * (np.cos(angle) @ _GAUSS_W), half * (np.sin(angle) @ _GAUSS_W)


@dataclass(frozen=True, slots=True)
class RoadStyle:
    """How a random road winds: bends of log-uniform radius between straights, each with its run-in and run-out."""

    min_radius_m: float = 40.0
    max_radius_m: float = 800.0
    straight_share: float = 0.4
    max_heading_rad: float = 1.2
    """The road never turns further than this from east: less than a right angle, so that it cannot meet itself."""
    blend_m: float = 25.0
    """How long a run-in is where the bend leaves room for it."""


def random_road(rng: np.random.Generator, length_m: float, style: RoadStyle | None = None) -> Road:
    """Draws a road of at least `length_m` that starts straight, bends both ways and never meets itself."""
    style = style or RoadStyle()
    if not 15.0 <= style.min_radius_m <= style.max_radius_m:
        raise BadParametersError(f"radii must rise from at least 15 m; got {style.min_radius_m:g} to {style.max_radius_m:g} m")
    pieces = [Piece(float(rng.uniform(20.0, 40.0)))]
    heading_rad, total_m = 0.0, pieces[0].length_m
    while total_m < length_m:
        if rng.random() < style.straight_share:
            added = [Piece(float(rng.uniform(20.0, 80.0)))]
        else:
            radius_m = float(np.exp(rng.uniform(np.log(style.min_radius_m), np.log(style.max_radius_m))))
            room_left = style.max_heading_rad - heading_rad
            left = rng.random() < room_left / (2.0 * style.max_heading_rad)
            room_rad = room_left if left else style.max_heading_rad + heading_rad
            angle_rad = min(float(rng.uniform(0.25, 1.4)), room_rad, 150.0 / radius_m)
            added = _bend(angle_rad, radius_m, 1.0 if left else -1.0, style.blend_m)
            heading_rad += angle_rad if left else -angle_rad
        pieces += added
        total_m += sum(piece.length_m for piece in added)
    return Road(tuple(pieces))


def _bend(angle_rad: float, radius_m: float, sign: float, blend_m: float) -> list[Piece]:
    """Turns by `angle_rad`: a run-in, an arc, a run-out; each run turns half as far as the arc would."""
    blend_m = min(blend_m, 0.5 * angle_rad * radius_m)
    curvature = sign / radius_m
    return [Piece(blend_m, 0.0, curvature), Piece(angle_rad * radius_m - blend_m, curvature, curvature), Piece(blend_m, curvature, 0.0)]
