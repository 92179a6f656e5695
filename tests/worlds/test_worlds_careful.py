"""The careful and competent driver of UN R157, beside plain arithmetic: what is preventable, and by how much."""

from dataclasses import replace

import pytest

from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.careful import CarefulDriver, drive_carefully
from skidpad.worlds.scenario.scenario import (
    CAR_LENGTH_M,
    Conditions,
    Ego,
    Figure,
    Move,
    OtherVehicle,
    Pace,
    RoadPlan,
    Scenario,
    Shape,
    Weather,
)

BUMPER_M = CAR_LENGTH_M - 0.95
"""From the ego's rear axle to its front."""
FULL_M_S2, JERK_S = 0.774 * 9.81, 0.6


def ahead_m(gap_m: float) -> float:
    """Where the middle of a car is whose rear is so far from the ego's front."""
    return gap_m + BUMPER_M + 0.5 * CAR_LENGTH_M


def braking_m(closing_m_s: float) -> float:
    """How much nearer one comes while the brakes build up over 0.6 s and then hold 0.774 g, until the speeds are equal."""
    lost_m_s = 0.5 * FULL_M_S2 * JERK_S
    if lost_m_s >= closing_m_s:
        raise ValueError("both are equal before the brakes hold")
    built_up_m = closing_m_s * JERK_S - FULL_M_S2 * JERK_S**2 / 6.0
    return built_up_m + (closing_m_s - lost_m_s) ** 2 / (2.0 * FULL_M_S2)


def cut_in(gap_m: float, closing_m_s: float, speed_m_s: float = 60.0 / 3.6) -> Scenario:
    """After a second, a slower car of the next lane is in the ego's, `gap_m` ahead."""
    there = OtherVehicle(2, ahead_m(gap_m) + closing_m_s, speed_m_s - closing_m_s, moves=(Move(1.0, lane=1),))
    return Scenario(RoadPlan(lanes=2), ego=Ego(speed_m_s, pace=Pace.CAREFUL), vehicles=(there,), duration_s=12.0)


def test_the_figures_are_the_regulations() -> None:
    driver = CarefulDriver()
    assert (driver.wander_m, driver.perceives_s, driver.delay_s, driver.critical_ttc_s) == (0.375, 0.4, 0.75, 2.0)
    assert driver.braking_m_s2 / 9.81 == pytest.approx(0.774)
    assert driver.braking_m_s2 / driver.jerk_s == pytest.approx(12.65, abs=0.01)


@pytest.mark.parametrize("closing_m_s", [3.0, 20.0 / 3.6, 8.0, 10.0])
def test_a_cut_in_is_preventable_down_to_the_gap_of_plain_arithmetic(closing_m_s: float) -> None:
    needed_m = closing_m_s * (0.4 + 0.75) + braking_m(closing_m_s)
    assert drive_carefully(cut_in(needed_m + 0.1, closing_m_s)).avoided
    outcome = drive_carefully(cut_in(needed_m - 0.1, closing_m_s))
    assert not outcome.avoided
    assert outcome.collided_at_s is not None
    assert outcome.collided_at_s > 1.0 + 0.4 + 0.75


def test_a_cut_in_is_perceived_when_the_car_is_375_mm_off_its_lane() -> None:
    """A slow lane change: the car is first 0.375 m off its lane's middle, then, 1.15 s later, the ego brakes."""
    slow = cut_in(12.0, 20.0 / 3.6)
    change_s = 4.0
    moving = replace(slow, vehicles=(replace(slow.vehicles[0], moves=(Move(1.0, change_s, lane=1),)),))
    wandered_s = 1.0 + change_s * 0.375 / 3.5
    patient = CarefulDriver(critical_ttc_s=100.0)
    begun_s = _braking_from_s(moving, patient)
    assert begun_s == pytest.approx(wandered_s + 0.4 + 0.75, abs=0.05)


def _braking_from_s(scenario: Scenario, driver: CarefulDriver) -> float:
    """When the ego begins to brake, read off how long the scenario must last for it to have braked."""
    low, high = 0.0, scenario.duration_s
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        braked = drive_carefully(replace(scenario, duration_s=middle), driver).hardest_m_s2 > 0.0
        low, high = (low, middle) if braked else (middle, high)
    return high


def braking_lead(headway_s: float, braking_m_s2: float, speed_m_s: float = 60.0 / 3.6) -> Scenario:
    stops = Move(2.0, speed_m_s / braking_m_s2, speed_m_s=0.0)
    lead = OtherVehicle(1, ahead_m(headway_s * speed_m_s), speed_m_s, moves=(stops,))
    return Scenario(ego=Ego(speed_m_s, pace=Pace.CAREFUL), vehicles=(lead,), duration_s=15.0)


@pytest.mark.parametrize("braking_m_s2", [6.0, 9.81])
def test_a_braking_lead_is_preventable_down_to_the_headway_of_plain_arithmetic(braking_m_s2: float) -> None:
    speed_m_s = 60.0 / 3.6
    own_m = speed_m_s * (0.4 + 0.75) + braking_m(speed_m_s)
    needed_s = (own_m - speed_m_s**2 / (2.0 * braking_m_s2)) / speed_m_s
    assert 0.5 < needed_s < 2.0
    assert drive_carefully(braking_lead(needed_s + 0.02, braking_m_s2)).avoided
    assert not drive_carefully(braking_lead(needed_s - 0.02, braking_m_s2)).avoided


def cut_out(hidden_m: float, speed_m_s: float = 60.0 / 3.6) -> Scenario:
    """A lead, two seconds ahead, leaves the lane when a standing car is `hidden_m` before its own front."""
    lead = OtherVehicle(1, ahead_m(2.0 * speed_m_s), speed_m_s, moves=(Move(3.0, lane=2),))
    standing_m = ahead_m(2.0 * speed_m_s + 3.0 * speed_m_s + CAR_LENGTH_M + hidden_m)
    there = (lead, OtherVehicle(1, standing_m, 0.0))
    return Scenario(RoadPlan(lanes=2), ego=Ego(speed_m_s, pace=Pace.CAREFUL), vehicles=there, duration_s=15.0)


def test_a_cut_out_is_preventable_down_to_the_gap_of_plain_arithmetic() -> None:
    speed_m_s = 60.0 / 3.6
    needed_m = speed_m_s * (0.4 + 0.75) + braking_m(speed_m_s)
    hidden_m = needed_m - 2.0 * speed_m_s - CAR_LENGTH_M
    assert hidden_m > 0.0
    assert drive_carefully(cut_out(hidden_m + 0.3)).avoided
    assert not drive_carefully(cut_out(hidden_m - 0.3)).avoided


def test_what_is_in_plain_sight_is_approached_gently_and_not_touched() -> None:
    for figure in Figure:
        standing = Scenario(ego=Ego(16.7, pace=Pace.CAREFUL), vehicles=(OtherVehicle(1, 200.0, 0.0, figure=figure),), duration_s=30.0)
        outcome = drive_carefully(standing)
        assert outcome.avoided
        assert 0.0 < outcome.hardest_m_s2 < 4.0
        assert 1.0 < outcome.nearest_m < 5.0


def test_a_person_who_walks_into_the_lane_in_time_is_braked_for() -> None:
    """UN R157, 5.2.5.3: at 60 km/h, somebody who crosses with 5 km/h and would be hit by the front's middle."""

    def crossing(offset_m: float) -> Scenario:
        ttc_s = abs(offset_m) / (5.0 / 3.6)
        walks = Move(2.0, 2.0 * ttc_s, lane=1, offset_m=-offset_m)
        person = OtherVehicle(1, BUMPER_M + 60.0 / 3.6 * (2.0 + ttc_s), 0.0, offset_m=offset_m, moves=(walks,), figure=Figure.PERSON)
        return Scenario(ego=Ego(60.0 / 3.6, pace=Pace.CAREFUL), vehicles=(person,), duration_s=15.0)

    assert drive_carefully(crossing(-5.0)).avoided
    assert drive_carefully(crossing(5.0)).avoided
    assert not drive_carefully(crossing(-2.0)).avoided


def test_snow_makes_a_preventable_cut_in_unpreventable() -> None:
    dry = cut_in(20.0 / 3.6 * 1.15 + braking_m(20.0 / 3.6) + 0.5, 20.0 / 3.6)
    assert drive_carefully(dry).avoided
    assert not drive_carefully(replace(dry, conditions=Conditions(Weather.SNOW, 0.3))).avoided


@pytest.mark.parametrize(("gap_m", "avoided"), [(14.0, True), (7.0, False)])
def test_in_the_world_the_driver_holds_the_pedals_while_somebody_else_steers(gap_m: float, avoided: bool) -> None:
    careful = cut_in(gap_m, 20.0 / 3.6)
    assert drive_carefully(careful).avoided is avoided
    constant = replace(careful, ego=replace(careful.ego, pace=Pace.CONSTANT))
    world = BuiltInWorld(3)
    world.reset([constant, careful, replace(careful, vehicles=())])
    for _ in range(200):
        state = world.step(world.truth_rad())
    assert world.collided().tolist() == [True, not avoided, False]
    assert state.speed_m_s[0] == state.speed_m_s[2] == 60.0 / 3.6
    assert bool(state.speed_m_s[1] < 13.0) is avoided  # who was touched is driven through, and the road is free again


def test_beside_a_careful_ego_another_one_drives_as_it_does_alone() -> None:
    careful = cut_in(14.0, 20.0 / 3.6)
    alone, beside = BuiltInWorld(1), BuiltInWorld(2)
    constant = replace(careful, ego=Ego(13.3), vehicles=(OtherVehicle(1, 80.0, 13.3, moves=(Move(1.0, 2.0, lane=2, shape=Shape.CUBIC),)),))
    one, two = alone.reset([constant]), beside.reset([careful, constant])
    for _ in range(60):
        one, two = alone.step(alone.truth_rad()), beside.step(beside.truth_rad())
    assert (one.poses[0] == two.poses[1]).all()
    assert one.speed_m_s[0] == two.speed_m_s[1] == 13.3
