"""How the road of a scenario lies: its centreline and its cross-section, without anything that stands beside it."""

from __future__ import annotations

from math import isfinite, radians

from skidpad.core.errors import BadParametersError
from skidpad.worlds.road import CrossSection, Piece, Road, SideLane
from skidpad.worlds.scenario import BadScenarioError, RoadKind, Scenario, Side

START_M = 12.0
"""Where along the road the ego begins."""
AHEAD_M = 260.0
"""How far the road goes on after the last frame: further than the camera tells road from grass."""
MIN_RADIUS_M = 20.0
MAX_LENGTH_M = 20_000.0
SIDE_LANE_FROM_M = 70.0
"""Where an entry lane begins to run beside the road, and where an exit lane begins to open."""

_RUN_IN_M = 45.0
_BLEND_M = 25.0


def length_of(scenario: Scenario) -> float:
    """Returns how long the road must be for the ego never to see its end."""
    length_m = START_M + scenario.ego.speed_m_s * scenario.duration_s + AHEAD_M
    if not (isfinite(length_m) and START_M < length_m <= MAX_LENGTH_M):
        raise BadScenarioError(
            f"a scenario's road is at most {MAX_LENGTH_M / 1000.0:g} km long; {scenario.ego.speed_m_s:g} m/s for "
            f"{scenario.duration_s:g} s needs {length_m:g} m: lower ego.speed_m_s or duration_s"
        )
    return length_m


def road_of(scenario: Scenario) -> Road:
    """Lays the centreline; a curved road bends to its side first and then to and fro, at its radius throughout."""
    plan, length_m = scenario.road, length_of(scenario)
    if plan.kind is not RoadKind.CURVED:
        return Road((Piece(length_m),))
    if not (plan.radius_m >= MIN_RADIUS_M and isfinite(plan.radius_m)):
        raise BadScenarioError(f"a bend's radius is at least {MIN_RADIUS_M:g} m; got road.radius_m = {plan.radius_m:g}")
    if not 1.0 <= plan.turn_deg <= 360.0:
        raise BadScenarioError(f"a road turns by 1 to 360 degrees; got road.turn_deg = {plan.turn_deg:g}")
    pieces = [Piece(_RUN_IN_M)]
    sign = 1.0 if plan.side is Side.LEFT else -1.0
    turn_rad = radians(plan.turn_deg)
    angle_rad, total_m = turn_rad, _RUN_IN_M
    while total_m < length_m:
        # Each run-in and run-out turns half as far as the arc would, so that the whole bend turns by its angle.
        blend_m = min(_BLEND_M, 0.5 * angle_rad * plan.radius_m)
        bend = sign / plan.radius_m
        arc_m = angle_rad * plan.radius_m - blend_m
        pieces += [Piece(blend_m, 0.0, bend), Piece(arc_m, bend, bend), Piece(blend_m, bend, 0.0)]
        total_m += arc_m + 2.0 * blend_m
        sign, angle_rad = -sign, 2.0 * turn_rad
    return Road(tuple(pieces))


def section_of(scenario: Scenario) -> CrossSection:
    """Returns the lanes of the road, with the entry or exit lane where there is one."""
    plan = scenario.road
    side_lane = None
    if plan.kind is RoadKind.ENTRY:
        side_lane = SideLane(SIDE_LANE_FROM_M)
    elif plan.kind is RoadKind.EXIT:
        lane = SideLane(0.0, exits=True)
        side_lane = SideLane(SIDE_LANE_FROM_M + lane.parallel_m + lane.taper_m, exits=True)
    try:
        return CrossSection(plan.lane_width_m, lanes=plan.lanes, ego_lane=scenario.ego.lane, side_lane=side_lane)
    except BadParametersError as error:
        raise BadScenarioError(str(error)) from error


def crosses_itself(scenario: Scenario) -> bool:
    """Tells whether two parts of the road come nearer to each other than the road is wide."""
    plan = scenario.road
    # A road that never turns back moves on along its first direction all the time.
    if plan.kind is not RoadKind.CURVED or plan.turn_deg < 90.0:
        return False
    return road_of(scenario).crosses_itself(2.0 * section_of(scenario).outer_m)
