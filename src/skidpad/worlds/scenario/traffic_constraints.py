"""Constraints on the other vehicles and on pedestrians. Those drawn keep their speed and lane, as the ego does; files may say moves."""

from __future__ import annotations

from itertools import combinations
from math import radians

from skidpad.worlds.scenario.constraints import Interval, Known, Only, Outside, constraint
from skidpad.worlds.scenario.road import CrossSection
from skidpad.worlds.scenario.road_constraints import lane_offset_m
from skidpad.worlds.scenario.scenario import CAR_WIDTH_M, OtherVehicle, RoadKind, RoadPlan, Scenario, Side
from skidpad.worlds.scenario.tracks import Track

CLEAR_OF_EGO_M = 14.0
"""From the middle of another car to the ego's rear axle: about 8 m from bumper to bumper, since the ego never brakes."""
CAR_APART_M = 8.0
"""From middle to middle: 3.5 m from bumper to bumper."""
WALKERS_APART_M = 1.0
MOTORWAY_LANES = 3

_WITH_SIDE_LANE = frozenset({RoadKind.ENTRY, RoadKind.EXIT})
_ROUNDING = 1e-9
_LOOK_S = 0.1
"""How often it is looked where a vehicle with moves is."""


def way_m_s(lane: int, speed_m_s: float) -> float:
    """Returns the speed along the road, negative for oncoming vehicles."""
    return speed_m_s if lane >= 1 else -speed_m_s


def clear_of_ego_m(plan: RoadPlan, ego_lane: int) -> float:
    """Returns how far from the ego others of its lane must stay.

    Others are placed along the middle of the road, and the ego drives along its lane. Where the road has turned by an angle, the two
    differ by the angle times the lane's distance from the middle, however many bends there were.
    """
    if plan.kind is not RoadKind.CURVED:
        return CLEAR_OF_EGO_M
    return CLEAR_OF_EGO_M + lane_offset_m(plan.lanes, ego_lane, plan.lane_width_m) * radians(plan.turn_deg)


def closing_gap(ahead_m: float, closing_m_s: float, apart_m: float, duration_s: float) -> Interval:
    """Returns the interval in which a second vehicle must not start, so that the two never come nearer than `apart_m`.

    ahead_m: where the first starts. closing_m_s: how much faster along the road the other one is.
    """
    travelled = closing_m_s * duration_s
    return ahead_m - apart_m - max(travelled, 0.0), ahead_m + apart_m - min(travelled, 0.0)


def _stay_apart(first: Interval, second: Interval, apart_m: float, duration_s: float) -> bool:
    """Tells whether two movers keep off each other; each is where it starts and how fast it goes along the road."""
    low, high = closing_gap(first[0], second[1] - first[1], apart_m, duration_s)
    return second[0] <= low + _ROUNDING or second[0] >= high - _ROUNDING


def _motion(vehicle: OtherVehicle) -> Interval:
    return vehicle.ahead_m, way_m_s(vehicle.lane, vehicle.speed_m_s)


def _known_motion(known: Known, number: int) -> Interval:
    lane = known.whole(f"vehicles.{number}.lane")
    return known.real(f"vehicles.{number}.ahead_m"), way_m_s(lane, known.real(f"vehicles.{number}.speed_m_s"))


@constraint(
    "vehicle-lanes-exist",
    "Every other vehicle drives in a lane that the road has: 1 and up with the ego, 0 and down towards it.",
    "raise road.lanes or change the vehicle's lane",
    {"vehicles.*.lane": lambda known: Only(frozenset(range(1 - known.whole("road.lanes"), known.whole("road.lanes") + 1)))},
)
def _vehicle_lanes_exist(scenario: Scenario) -> bool:
    lanes = [lane for each in scenario.vehicles for lane in (each.lane, *(move.lane for move in each.moves)) if lane is not None]
    return all(1 - scenario.road.lanes <= lane <= scenario.road.lanes for lane in lanes)


@constraint(
    "nobody-drives-backwards",
    "No speed is negative: oncoming vehicles drive in an oncoming lane, 0 or below.",
    "make the speed positive, and give an oncoming vehicle lane 0 or below",
)
def _nobody_drives_backwards(scenario: Scenario) -> bool:
    return scenario.ego.speed_m_s >= 0.0 and all(vehicle.speed_m_s >= 0.0 for vehicle in scenario.vehicles)


def _clear_of_ego_gap(known: Known) -> Outside:
    own = f"vehicles.{known.number}"
    if known.whole(f"{own}.lane") != known.whole("ego.lane"):
        return Outside(())
    closing = known.real(f"{own}.speed_m_s") - known.real("ego.speed_m_s")
    plan = RoadPlan(
        RoadKind(known.word("road.kind")),
        lanes=known.whole("road.lanes"),
        lane_width_m=known.real("road.lane_width_m"),
        turn_deg=known.real("road.turn_deg"),
    )
    return Outside((closing_gap(0.0, closing, clear_of_ego_m(plan, known.whole("ego.lane")), known.real("duration_s")),))


@constraint(
    "clear-of-the-ego",
    f"No vehicle of the ego's lane comes nearer than {CLEAR_OF_EGO_M:g} m to it before the scenario ends, each at its own speed; "
    "in bends it is a little more.",
    "move the vehicle away, give it nearly the ego's speed, put it into another lane, or let a careful driver brake (ego.pace)",
    {"vehicles.*.ahead_m": _clear_of_ego_gap},
)
def _clear_of_the_ego(scenario: Scenario) -> bool:
    ego, apart_m = (0.0, scenario.ego.speed_m_s), clear_of_ego_m(scenario.road, scenario.ego.lane)
    steady = [each for each in scenario.vehicles if not (each.moves or each.offset_m)]
    own_lane = [_motion(vehicle) for vehicle in steady if vehicle.lane == scenario.ego.lane]
    return all(_stay_apart(ego, motion, apart_m, scenario.duration_s) for motion in own_lane) and not any(
        _meets_ego(each, scenario, apart_m) for each in scenario.vehicles if each not in steady
    )


def _meets_ego(vehicle: OtherVehicle, scenario: Scenario, apart_m: float) -> bool:
    """Tells whether a vehicle with moves, or beside the middle of its lane, comes too near to an ego that keeps its speed."""
    plan, ego = scenario.road, scenario.ego
    lanes = (vehicle.lane, ego.lane, *(move.lane for move in vehicle.moves if move.lane is not None))
    if not all(1 - plan.lanes <= lane <= plan.lanes for lane in lanes) or ego.lane < 1:
        return False  # told by another constraint
    section = CrossSection(plan.lane_width_m, lanes=plan.lanes, ego_lane=ego.lane)
    track, wide_m = Track(vehicle, section), 0.5 * (CAR_WIDTH_M + vehicle.figure.size_m[1])
    for step in range(int(scenario.duration_s / _LOOK_S) + 1):
        here = track.at(step * _LOOK_S)
        if abs(here.lateral_m - section.lane_centre_m) < wide_m and abs(here.s_m - ego.speed_m_s * step * _LOOK_S) < apart_m:
            return True
    return False


def _vehicle_gaps(known: Known) -> Outside:
    own = f"vehicles.{known.number}"
    lane = known.whole(f"{own}.lane")
    speed = way_m_s(lane, known.real(f"{own}.speed_m_s"))
    earlier = [number for number in range(1, known.number) if known.whole(f"vehicles.{number}.lane") == lane]
    motions = [_known_motion(known, number) for number in earlier]
    return Outside(tuple(closing_gap(ahead, speed - other, CAR_APART_M, known.real("duration_s")) for ahead, other in motions))


@constraint(
    "vehicles-keep-apart",
    f"Two vehicles of one lane never come nearer than {CAR_APART_M:g} m to each other, from middle to middle.",
    "move them apart, give them the same speed, or allow fewer vehicles",
    {"vehicles.*.ahead_m": _vehicle_gaps},
)
def _vehicles_keep_apart(scenario: Scenario) -> bool:
    return all(
        _stay_apart(_motion(a), _motion(b), CAR_APART_M, scenario.duration_s)
        for a, b in combinations(scenario.vehicles, 2)
        if a.lane == b.lane
    )


@constraint(
    "no-walking-on-motorways",
    f"Nobody walks beside a road of {MOTORWAY_LANES} or more lanes in a direction.",
    "lower road.lanes or leave the pedestrians out",
    {"pedestrians.count": lambda known: Only(frozenset(range(1 if known.whole("road.lanes") >= MOTORWAY_LANES else 100)))},
)
def _no_walking_on_motorways(scenario: Scenario) -> bool:
    return scenario.road.lanes < MOTORWAY_LANES or not scenario.pedestrians


@constraint(
    "pedestrians-off-the-ramp",
    "Beside an entry or exit lane people walk at the left: at the right they would walk on the ramp.",
    "let the pedestrian's side be left",
    {
        "pedestrians.*.side": lambda known: Only(
            frozenset({Side.LEFT.value} if RoadKind(known.word("road.kind")) in _WITH_SIDE_LANE else {side.value for side in Side})
        )
    },
)
def _pedestrians_off_the_ramp(scenario: Scenario) -> bool:
    return scenario.road.kind not in _WITH_SIDE_LANE or all(person.side is Side.LEFT for person in scenario.pedestrians)


def _walker_gaps(known: Known) -> Outside:
    own = f"pedestrians.{known.number}"
    side, speed = known.word(f"{own}.side"), known.real(f"{own}.speed_m_s")
    earlier = [f"pedestrians.{number}" for number in range(1, known.number)]
    return Outside(
        tuple(
            closing_gap(known.real(f"{other}.ahead_m"), speed - known.real(f"{other}.speed_m_s"), WALKERS_APART_M, known.real("duration_s"))
            for other in earlier
            if known.word(f"{other}.side") == side
        )
    )


@constraint(
    "pedestrians-keep-apart",
    "No pedestrian walks through another one of the same side.",
    "move them apart, give them the same speed, or allow fewer pedestrians",
    {"pedestrians.*.ahead_m": _walker_gaps},
)
def _pedestrians_keep_apart(scenario: Scenario) -> bool:
    return all(
        _stay_apart((a.ahead_m, a.speed_m_s), (b.ahead_m, b.speed_m_s), WALKERS_APART_M, scenario.duration_s)
        for a, b in combinations(scenario.pedestrians, 2)
        if a.side is b.side
    )
