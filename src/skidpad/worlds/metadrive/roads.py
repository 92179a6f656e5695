"""A scenario's road as MetaDrive can lay it, and the same road as skidpad measures on it.

MetaDrive's blocks are straights and arcs, without the run-ins of the built-in world; the bends have the scenario's radius, side and angle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import degrees, isfinite, radians

from skidpad.worlds.render.chunks import MIN_RADIUS_M, length_of, section_of
from skidpad.worlds.scenario.road import CrossSection, Piece, Road
from skidpad.worlds.scenario.scenario import BadScenarioError, Pace, RoadKind, Scenario, Side, Weather

_RUN_IN_M = 45.0
_BETWEEN_M = 8.0
"""Straight on between two bends: MetaDrive's curve has a straight at its end."""
_KINDS = (RoadKind.STRAIGHT, RoadKind.CURVED)


@dataclass(frozen=True, slots=True)
class Bend:
    """One of MetaDrive's curves: the radius of the rightmost lane's middle, the angle, the side, and the straight behind it."""

    radius_m: float
    angle_rad: float
    side: Side
    straight_m: float = _BETWEEN_M

    def to_block(self) -> dict[str, object]:
        """Writes the block as MetaDrive names its parameters."""
        clockwise = int(self.side is Side.RIGHT)
        return {"id": "C", "length": self.straight_m, "radius": self.radius_m, "angle": degrees(self.angle_rad), "dir": clockwise}


@dataclass(frozen=True, eq=False)
class LaidRoad:
    """A road to lay: first a straight, then bends; and the reference that distances are measured against."""

    first_m: float
    bends: tuple[Bend, ...]
    road: Road
    section: CrossSection

    def to_question(self) -> dict[str, object]:
        """Writes the road for the server."""
        section = self.section
        return {
            "lanes": section.lanes,
            "lane_width_m": section.lane_width_m,
            "lane": section.ego_lane,
            "first_m": self.first_m,
            "blocks": [bend.to_block() for bend in self.bends],
        }


def lay(scenario: Scenario) -> LaidRoad:
    """Lays the road of a scenario; refuses what MetaDrive cannot show and a road that crosses itself."""
    _check_shown(scenario)
    section, length_m = section_of(scenario), length_of(scenario)
    plan = scenario.road
    if plan.kind is RoadKind.STRAIGHT:
        return LaidRoad(length_m, (), Road((Piece(length_m),)), section)
    if not (isfinite(plan.radius_m) and plan.radius_m >= max(MIN_RADIUS_M, 2.0 * section.edge_m)):
        raise BadScenarioError(f"a bend's radius is at least {max(MIN_RADIUS_M, 2.0 * section.edge_m):g} m; got {plan.radius_m:g} m")
    if not 1.0 <= plan.turn_deg <= 360.0:
        raise BadScenarioError(f"a road turns by 1 to 360 degrees; got road.turn_deg = {plan.turn_deg:g}")
    bends, pieces = [], [Piece(_RUN_IN_M)]
    side, angle_rad, total_m = plan.side, radians(plan.turn_deg), _RUN_IN_M
    rightmost_m = section.lane_centre_of(1)
    while total_m < length_m:
        sign = 1.0 if side is Side.LEFT else -1.0
        bends.append(Bend(plan.radius_m - sign * rightmost_m, angle_rad, side))
        pieces += [Piece(angle_rad * plan.radius_m, sign / plan.radius_m, sign / plan.radius_m), Piece(_BETWEEN_M)]
        total_m += angle_rad * plan.radius_m + _BETWEEN_M
        side, angle_rad = Side.RIGHT if side is Side.LEFT else Side.LEFT, 2.0 * radians(plan.turn_deg)
    road = Road(tuple(pieces))
    if road.crosses_itself(2.0 * section.outer_m):
        raise BadScenarioError("the road crosses itself; make it shorter, or its bends wider")
    return LaidRoad(_RUN_IN_M, tuple(bends), road, section)


def _check_shown(scenario: Scenario) -> None:
    missing = []
    if scenario.road.kind not in _KINDS:
        missing.append(f"road.kind = {scenario.road.kind.value}")
    if scenario.conditions.weather is not Weather.SUNNY:
        missing.append(f"conditions.weather = {scenario.conditions.weather.value}")
    if scenario.conditions.night:
        missing.append("conditions.night")
    if scenario.pedestrians:
        missing.append("pedestrians")
    if scenario.road.pieces:
        missing.append("road.pieces")
    if scenario.ego.pace is not Pace.CONSTANT:
        missing.append(f"ego.pace = {scenario.ego.pace.value}")
    if any(vehicle.moves or vehicle.offset_m for vehicle in scenario.vehicles):
        missing.append("vehicles that leave the middle of their lane or change their speed")
    if missing:
        raise BadScenarioError(
            f"MetaDrive's adapter shows sunny straight and curved roads with vehicles; it cannot show {', '.join(missing)}"
        )
