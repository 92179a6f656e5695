"""The bicycle: exact arcs, late and limited steering, tyres that slide, nobody changes anybody else's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from skidpad.core.errors import BadParametersError
from skidpad.core.units import STEERING_RATIO, WHEELBASE_M
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.scenario import Weather
from skidpad.worlds.vehicle import FRICTION, GRAVITY_M_S2, Bicycle, Powertrain, follow_arc
from skidpad.worlds.world import STEP_S

STICKY = np.array([1e3])
PROMPT = Bicycle(delay_s=0.0, max_rate_rad_s=1e6)
angles = st.floats(-8.0, 8.0)


def driven(bicycle: Bicycle, commands: list[float], speed_m_s: float = 12.0, steering_rad: float = 0.0, friction: float = 1e3) -> list:
    motion = bicycle.start(np.zeros((1, 3)), np.array([speed_m_s]), np.array([steering_rad]), np.array([friction]))
    states = [motion.state]
    for command in commands:
        motion = bicycle.advance(motion, np.array([command]))
        states.append(motion.state)
    return states


@given(angles, st.floats(1.0, 30.0), st.floats(-3.0, 3.0))
def test_a_step_of_constant_steering_is_exact(steering_rad: float, speed_m_s: float, heading_rad: float) -> None:
    motion = PROMPT.start(np.array([[3.0, -2.0, heading_rad]]), np.array([speed_m_s]), np.array([steering_rad]), STICKY)
    got = PROMPT.advance(motion, np.array([steering_rad])).state.poses[0]
    curvature = np.tan(steering_rad / STEERING_RATIO) / WHEELBASE_M

    def moves(_time, pose):
        return [speed_m_s * np.cos(pose[2]), speed_m_s * np.sin(pose[2]), speed_m_s * curvature]

    wanted = solve_ivp(moves, (0.0, STEP_S), [3.0, -2.0, heading_rad], rtol=1e-12, atol=1e-13).y[:, -1]
    assert got == pytest.approx(wanted, abs=1e-9)


@given(st.floats(-1e-3, 1e-3), st.floats(0.1, 2.0))
def test_nearly_straight_is_as_exact_as_an_arc(curvature: float, length_m: float) -> None:
    whole = follow_arc(np.zeros((1, 3)), np.array([curvature]), np.array([length_m]))
    half = follow_arc(np.zeros((1, 3)), np.array([curvature]), np.array([0.5 * length_m]))
    twice = follow_arc(half, np.array([curvature]), np.array([0.5 * length_m]))
    assert whole == pytest.approx(twice, abs=1e-12)


def test_a_full_circle_ends_where_it_began() -> None:
    radius_m, steps = 20.0, 200
    poses = np.zeros((1, 3))
    for _ in range(steps):
        poses = follow_arc(poses, np.array([1.0 / radius_m]), np.array([2.0 * np.pi * radius_m / steps]))
    assert poses[0, :2] == pytest.approx([0.0, 0.0], abs=1e-10)
    assert poses[0, 2] == pytest.approx(2.0 * np.pi)


@pytest.mark.parametrize(("delay_s", "steps"), [(0.0, 0), (0.05, 1), (0.1, 2), (0.25, 5)])
def test_a_command_comes_through_after_the_delay(delay_s: float, steps: int) -> None:
    states = driven(Bicycle(delay_s=delay_s, max_rate_rad_s=1e6), [1.0] * 8)
    assert [state.steering_rad[0] for state in states[1:]] == [0.0] * steps + [1.0] * (8 - steps)


def test_the_wheel_turns_as_fast_as_it_can_and_no_further_than_its_stop() -> None:
    states = driven(Bicycle(delay_s=0.0, max_rate_rad_s=4.0, max_steering_rad=0.5), [9.0] * 5)
    assert [state.steering_rad[0] for state in states] == pytest.approx([0.0, 0.2, 0.4, 0.5, 0.5, 0.5])


def test_who_starts_in_a_bend_has_been_steering() -> None:
    states = driven(Bicycle(), [0.7] * 3, steering_rad=0.7)
    assert all(state.steering_rad[0] == 0.7 for state in states)
    turn = states[1].poses[0, 2]
    assert turn == pytest.approx(12.0 * STEP_S * np.tan(0.7 / STEERING_RATIO) / WHEELBASE_M)


@given(st.lists(angles, min_size=2, max_size=6), st.integers(1, 12))
def test_a_car_moves_the_same_to_the_last_bit_beside_any_others(commands: list[float], beside: int) -> None:
    bicycle, rng = Bicycle(), np.random.default_rng(beside)
    poses = rng.uniform(-50.0, 50.0, (beside + 1, 3))
    speeds, first = rng.uniform(5.0, 25.0, beside + 1), rng.uniform(-1.0, 1.0, beside + 1)
    friction = rng.uniform(0.2, 0.9, beside + 1)
    together = bicycle.start(poses, speeds, first, friction)
    alone = bicycle.start(poses[-1:], speeds[-1:], first[-1:], friction[-1:])
    for command in commands:
        together = bicycle.advance(together, np.append(rng.uniform(-8.0, 8.0, beside), command))
        alone = bicycle.advance(alone, np.array([command]))
    assert np.array_equal(together.state.poses[-1:], alone.state.poses)
    assert np.array_equal(together.state.steering_rad[-1:], alone.state.steering_rad)


@pytest.mark.parametrize("weather", list(Weather))
@pytest.mark.parametrize("command", [8.0, -8.0])
def test_at_full_lock_the_car_slides_at_what_friction_allows(weather: Weather, command: float) -> None:
    speed_m_s, states = 15.0, driven(PROMPT, [command] * 4, speed_m_s=15.0, friction=FRICTION[weather])
    turned_rad = states[-1].poses[0, 2] - states[-2].poses[0, 2]
    assert speed_m_s * turned_rad / STEP_S == pytest.approx(np.sign(command) * FRICTION[weather] * GRAVITY_M_S2)
    assert states[-1].steering_rad[0] == command


def test_within_the_limit_friction_changes_nothing() -> None:
    calm, sticky = (driven(PROMPT, [0.3] * 5, friction=friction) for friction in (FRICTION[Weather.SNOW], 1e3))
    assert np.array_equal(calm[-1].poses, sticky[-1].poses)


def test_a_car_that_stands_has_a_limit_too() -> None:
    assert np.array_equal(driven(PROMPT, [8.0] * 3, speed_m_s=0.0, friction=0.3)[-1].poses, np.zeros((1, 3)))


@pytest.mark.parametrize("domain", ["restricted", "extended"])
def test_the_ground_truth_driver_never_needs_more_than_the_tyres_hold(domain: str) -> None:
    """Otherwise the label of a frame would be an angle at which the car slides."""
    scenarios = sample(DOMAINS.get(domain), 11, 24).scenarios
    world = BuiltInWorld(len(scenarios))
    state = world.reset(scenarios)
    holds_m_s2 = np.array([FRICTION[each.conditions.weather] * GRAVITY_M_S2 for each in scenarios])
    for _ in range(200):
        state = world.step(world.truth_rad())
        sideways_m_s2 = np.abs(np.tan(state.steering_rad / STEERING_RATIO) / WHEELBASE_M) * state.speed_m_s**2
        assert np.all(sideways_m_s2 < holds_m_s2)


def test_sizes_that_make_no_car_are_refused() -> None:
    for wrong in ({"wheelbase_m": 0.0}, {"delay_s": -0.1}, {"max_rate_rad_s": float("nan")}):
        with pytest.raises(BadParametersError, match="vehicle"):
            Bicycle(**wrong)


def pressed(bicycle: Bicycle, pedals: list[float], speed_m_s: float = 0.0, friction: float = 1e3) -> list:
    motion = bicycle.start(np.zeros((1, 3)), np.array([speed_m_s]), np.zeros(1), np.array([friction]))
    states = [motion.state]
    for pedal in pedals:
        motion = bicycle.advance(motion, np.zeros(1), np.array([pedal]))
        states.append(motion.state)
    return states


CITY = Bicycle(delay_s=0.0, powertrain=Powertrain(max_speed_m_s=10.0, max_acceleration_m_s2=2.0, max_braking_m_s2=6.0, coasting_m_s2=1.0))


def test_throttle_brake_and_released_pedals_do_what_the_powertrain_says() -> None:
    assert pressed(CITY, [0.5])[1].speed_m_s[0] == pytest.approx(0.5 * 2.0 * STEP_S)
    assert pressed(CITY, [-0.5], 8.0)[1].speed_m_s[0] == pytest.approx(8.0 - (0.5 * 6.0 + 0.8) * STEP_S)
    assert pressed(CITY, [0.0], 5.0)[1].speed_m_s[0] == pytest.approx(5.0 - 0.5 * STEP_S)
    assert pressed(CITY, [1.0] * 400)[-1].speed_m_s[0] == 10.0
    assert pressed(CITY, [-1.0] * 10, 0.5)[-1].speed_m_s[0] == 0.0, "a car that stands does not reverse"


def test_tyres_limit_throttle_and_brake() -> None:
    icy = pressed(CITY, [-1.0], 8.0, friction=0.1)[1].speed_m_s[0]
    assert icy == pytest.approx(8.0 - (0.1 * GRAVITY_M_S2 + 0.8) * STEP_S)


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=40), st.floats(0.0, 10.0))
def test_the_way_is_the_integral_of_the_speed(pedals: list[float], speed_m_s: float) -> None:
    states = pressed(CITY, pedals, speed_m_s)
    speeds = [state.speed_m_s[0] for state in states]
    assert states[-1].poses[0, 0] == pytest.approx(np.trapezoid(speeds, dx=STEP_S), abs=1e-9)
    assert 0.0 <= min(speeds) <= max(speeds) <= 10.0


def test_a_faster_car_understeers_sooner() -> None:
    motion = CITY.start(np.zeros((1, 3)), np.array([1.0]), np.zeros(1), np.array([0.5]))
    slow = motion.sharpest_per_m[0]
    for _ in range(40):
        motion = CITY.advance(motion, np.zeros(1), np.ones(1))
    assert motion.sharpest_per_m[0] == pytest.approx(slow / motion.state.speed_m_s[0] ** 2)


def test_a_car_that_is_asked_for_its_own_speed_drives_as_one_of_constant_speed() -> None:
    scenario = sample(DOMAINS.get("restricted"), 3, 1).scenarios[0]
    worlds = BuiltInWorld(1), BuiltInWorld(1)
    for world in worlds:
        world.reset([scenario])
    # what coasting takes away at this speed, the throttle gives back
    gear = Powertrain()
    hold = np.array([gear.coasting_m_s2 * scenario.ego.speed_m_s / gear.max_speed_m_s / gear.max_acceleration_m_s2])
    for _ in range(20):
        states = worlds[0].step(worlds[0].truth_rad()), worlds[1].step(worlds[1].truth_rad(), hold)
    assert states[1].poses == pytest.approx(states[0].poses, abs=1e-9)
    assert worlds[0].reset([scenario], start_m_s=2.5).speed_m_s == [2.5]


@pytest.mark.parametrize("pedal", [[np.nan], [0.1, 0.2]])
def test_a_pedal_that_is_none_is_refused(pedal: list[float]) -> None:
    world = BuiltInWorld(1)
    world.reset([sample(DOMAINS.get("restricted"), 3, 1).scenarios[0]])
    with pytest.raises(BadParametersError, match="one finite pedal"):
        world.step(np.zeros(1), np.array(pedal))
    with pytest.raises(BadParametersError, match="powertrain"):
        Powertrain(max_speed_m_s=0.0)
