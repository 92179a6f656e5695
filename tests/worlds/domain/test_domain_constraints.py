"""Constraints: each is broken by one scenario that breaks nothing else, holds at its bound, and takes away no good value."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.stimuli import Choice, Params, Real, Whole
from skidpad.worlds.collision import touches
from skidpad.worlds.render.chunks import START_M, road_of, section_of
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.scenario.constraints import CONSTRAINTS, all_constraints, violations
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.scenario import (
    Conditions,
    Ego,
    OtherVehicle,
    Pedestrian,
    RoadKind,
    RoadPlan,
    Scenario,
    Side,
    Weather,
)
from skidpad.worlds.scenario.traffic_constraints import CLEAR_OF_EGO_M, clear_of_ego_m, closing_gap

CURVED = RoadKind.CURVED
FOG = Conditions(Weather.FOG, 0.2)
LIT = Ego(headlights=True)

BROKEN = {
    "duration": Scenario(duration_s=0.5),
    "ego-lane-exists": Scenario(ego=Ego(lane=2)),
    "bend-wider-than-road": Scenario(RoadPlan(CURVED, 22.0, lanes=3), ego=Ego(3.0, lane=3)),
    "road-keeps-off-itself": Scenario(RoadPlan(CURVED, 40.0, turn_deg=170.0), ego=Ego(10.0), duration_s=60.0),
    "speed-for-curvature": Scenario(RoadPlan(CURVED, 50.0), ego=Ego(16.0)),
    "speed-for-sight": Scenario(conditions=Conditions(Weather.FOG, 1.0), ego=Ego(15.0, headlights=True)),
    "fog-lights-in-fog": Scenario(ego=Ego(fog_lights=True)),
    "lights-on": Scenario(conditions=Conditions(night=True, intensity=0.0)),
    "no-intensity-in-sun": Scenario(conditions=Conditions(intensity=0.3)),
    "winter-sun": Scenario(conditions=Conditions(Weather.SNOW, sun_elevation_deg=50.0), ego=LIT),
    "lane-in-sight": Scenario(conditions=Conditions(Weather.SNOW, 0.6, sun_elevation_deg=20.0), ego=LIT),
    "right-lane-at-side-lane": Scenario(RoadPlan(RoadKind.ENTRY, lanes=2), ego=Ego(lane=2)),
    "side-lane-is-passed": Scenario(RoadPlan(RoadKind.EXIT), ego=Ego(9.0)),
    "vehicle-lanes-exist": Scenario(vehicles=(OtherVehicle(-1, 90.0, 9.0),)),
    "nobody-drives-backwards": Scenario(vehicles=(OtherVehicle(0, 90.0, -9.0),)),
    "clear-of-the-ego": Scenario(vehicles=(OtherVehicle(1, 40.0, 9.0),)),
    "vehicles-keep-apart": Scenario(vehicles=(OtherVehicle(0, 90.0, 9.0), OtherVehicle(0, 120.0, 20.0))),
    "no-walking-on-motorways": Scenario(RoadPlan(lanes=3), pedestrians=(Pedestrian(Side.LEFT, 50.0),)),
    "pedestrians-off-the-ramp": Scenario(RoadPlan(RoadKind.ENTRY), pedestrians=(Pedestrian(Side.RIGHT, 50.0),)),
    "pedestrians-keep-apart": Scenario(pedestrians=(Pedestrian(Side.LEFT, 50.0), Pedestrian(Side.LEFT, 55.0, -1.0))),
}


def test_every_constraint_has_a_scenario_that_breaks_it() -> None:
    assert set(BROKEN) == set(CONSTRAINTS.names())


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_one_constraint_is_broken_alone_and_explains_itself(name: str) -> None:
    assert violations(BROKEN[name]) == (name,)
    rule = CONSTRAINTS.get(name)
    assert rule.sentence.endswith(".")
    assert rule.sentence[0].isupper()
    assert rule.remedy


def test_the_plain_scenario_obeys_everything() -> None:
    assert violations(Scenario()) == ()


@pytest.mark.parametrize(("weather", "lateral_m_s2"), [(Weather.SUNNY, 3.0), (Weather.FOG, 3.0), (Weather.RAIN, 2.5), (Weather.SNOW, 2.0)])
def test_the_speed_limit_of_a_bend_is_that_of_the_inner_lane(weather: Weather, lateral_m_s2: float) -> None:
    limit = sqrt(lateral_m_s2 * (80.0 - 1.5 * 3.5))
    dark = weather is not Weather.SUNNY
    now = Conditions(weather, 0.2 if dark else 0.0, sun_elevation_deg=20.0)
    scenario = Scenario(RoadPlan(CURVED, 80.0, lanes=2), now, ego=Ego(limit, 1, headlights=dark))
    assert violations(scenario) == ()
    assert violations(replace(scenario, ego=replace(scenario.ego, speed_m_s=limit + 1e-6))) == ("speed-for-curvature",)
    # The lane beside the middle lies further out and may be driven faster.
    assert violations(replace(scenario, ego=replace(scenario.ego, speed_m_s=limit + 0.1, lane=2))) == ()


@given(st.floats(-50.0, 150.0), st.floats(-20.0, 20.0), st.floats(1.0, 20.0), st.floats(1.0, 60.0), st.floats(-400.0, 400.0))
@settings(max_examples=200, deadline=None)
def test_closing_gaps_agree_with_a_walk_through_time(ahead: float, closing: float, apart: float, duration: float, other: float) -> None:
    low, high = closing_gap(ahead, closing, apart, duration)
    nearest = np.min(np.abs(other - ahead + closing * np.linspace(0.0, duration, 4001)))
    slack = abs(closing) * duration / 4000.0 + 1e-9
    if low + slack < other < high - slack:
        assert nearest < apart
    elif not low - slack < other < high + slack:
        assert nearest >= apart


def test_narrowing_takes_away_no_good_scenario() -> None:
    """Scenarios are drawn here from bare ranges, thrown away where they break something, and must all have a vector."""
    domain, good = DOMAINS.get("extended"), 0
    likely = {
        "vehicles.count": Whole("vehicles.count", 0, 2, None),
        "pedestrians.count": Whole("pedestrians.count", 0, 2, None),
        "ego.headlights": Choice("ego.headlights", ("yes",)),
    }
    for seed in range(400):
        rng = np.random.default_rng(seed)
        values = {each.name: likely.get(each.name, each.parameter).sample(rng) for each in domain.variables}
        if values["conditions.weather"] != "fog":
            values["ego.fog_lights"] = "no"
        scenario = domain.to_scenario(Params(**values))
        if domain.violations(scenario):
            continue
        good += 1
        before, after = domain.to_values(scenario), domain.to_values(domain.decode(domain.encode(scenario)))
        assert before.keys() == after.keys()
        for name, value in before.items():
            assert after[name] == (pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value)
    assert good > 40


def test_a_domain_without_a_constraint_is_not_narrowed_by_it() -> None:
    free = replace(DOMAINS.get("extended"), constraints=tuple(c for c in all_constraints() if c.name != "speed-for-curvature"))
    free = free.with_parameters(Choice("road.kind", ("curved",)), Real("road.radius_m", 40.0, 41.0, None))
    speeds = [scenario.ego.speed_m_s for scenario in sample(free, 0, 40).scenarios]
    assert max(speeds) > 20.0


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_room_around_the_ego_is_kept_in_bends_and_no_wider_than_needed(side: Side, sign: float) -> None:
    """Two cars of one lane and one speed: the ego's place along the road swings by its lane's offset times the turn."""
    plan = RoadPlan(CURVED, 60.0, side, 3, 3.5, 60.0)
    room_m = clear_of_ego_m(plan, 1)
    scenario = Scenario(plan, ego=Ego(10.0), vehicles=(OtherVehicle(1, sign * room_m, 10.0),))
    assert violations(scenario) == ()
    closer = replace(scenario, vehicles=(OtherVehicle(1, sign * (room_m - 0.01), 10.0),))
    assert violations(closer) == ("clear-of-the-ego",)
    # At the bound the scenario still has a vector: narrowing is as wide as the constraint.
    assert DOMAINS.get("extended").encode(scenario).shape == (len(DOMAINS.get("extended").names),)
    road, offset_m = road_of(scenario), section_of(scenario).lane_centre_m
    s_m = np.arange(START_M, START_M + 10.0 * 20.0 + 30.0, 0.05)
    line = road.at(s_m).beside(offset_m)
    travelled = np.concatenate(([0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))))
    time_s = np.linspace(0.0, 20.0, 401)
    ego_s_m = np.interp(10.0 * time_s, travelled, s_m)
    apart_m = np.abs(START_M + sign * room_m + 10.0 * time_s - ego_s_m)
    assert apart_m.min() > CLEAR_OF_EGO_M - 0.05
    first_bend_helps = (side is Side.LEFT) == (sign > 0.0)
    assert first_bend_helps or apart_m.min() < CLEAR_OF_EGO_M + 0.5


def test_an_ego_that_keeps_its_lane_touches_nobody() -> None:
    """The worst case for the gaps: bends, where the ego's way and the middle of the road differ in length."""
    domain = DOMAINS.get("extended").with_parameters(
        Choice("road.kind", ("curved",)),
        Real("road.radius_m", 40.0, 60.0, None),
        Whole("vehicles.count", 6, 6, None),
        Real("surroundings.trees", 0.0, 0.05, None),
        Real("surroundings.buildings", 0.0, 0.0, None),
    )
    in_lane = 0
    for scenario in sample(domain, 8, 12).scenarios:
        scene = build_scene(scenario)
        in_lane += sum(vehicle.lane == scenario.ego.lane for vehicle in scenario.vehicles)
        line = scene.road.at(np.arange(START_M, scene.road.length_m, 0.05)).beside(scene.lane_centre_m)
        travelled = np.concatenate(([0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))))
        for time_s in np.arange(0.0, scenario.duration_s + 0.01, 0.25):
            k = int(np.searchsorted(travelled, scenario.ego.speed_m_s * time_s))
            ahead = line[k + 1] - line[k]
            pose = np.append(line[k], np.arctan2(ahead[1], ahead[0]))
            assert not touches(pose, scene.objects_at(float(time_s))).any()
    assert in_lane > 5


def test_a_slower_car_ahead_is_hit_without_the_constraint() -> None:
    """The check above can fail: this is the scenario that `clear-of-the-ego` keeps out."""
    scene = build_scene(BROKEN["clear-of-the-ego"])
    closing_s = 40.0 / 5.0
    pose = np.array([START_M + 14.0 * closing_s, scene.lane_centre_m, 0.0])
    assert touches(pose, scene.objects_at(closing_s)).any()
    assert CLEAR_OF_EGO_M > 10.0
