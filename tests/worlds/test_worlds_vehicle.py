"""The bicycle: exact arcs, late and limited steering, nobody changes anybody else's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from skidpad.core.angles import STEERING_RATIO
from skidpad.core.errors import BadParametersError
from skidpad.worlds.driver import WHEELBASE_M
from skidpad.worlds.vehicle import Bicycle, follow_arc
from skidpad.worlds.world import STEP_S

PROMPT = Bicycle(delay_s=0.0, max_rate_rad_s=1e6)
angles = st.floats(-8.0, 8.0)


def driven(bicycle: Bicycle, commands: list[float], speed_m_s: float = 12.0, steering_rad: float = 0.0) -> list:
    motion = bicycle.start(np.zeros((1, 3)), np.array([speed_m_s]), np.array([steering_rad]))
    states = [motion.state]
    for command in commands:
        motion = bicycle.advance(motion, np.array([command]))
        states.append(motion.state)
    return states


@given(angles, st.floats(1.0, 30.0), st.floats(-3.0, 3.0))
def test_a_step_of_constant_steering_is_exact(steering_rad: float, speed_m_s: float, heading_rad: float) -> None:
    motion = PROMPT.start(np.array([[3.0, -2.0, heading_rad]]), np.array([speed_m_s]), np.array([steering_rad]))
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
    together, alone = bicycle.start(poses, speeds, first), bicycle.start(poses[-1:], speeds[-1:], first[-1:])
    for command in commands:
        together = bicycle.advance(together, np.append(rng.uniform(-8.0, 8.0, beside), command))
        alone = bicycle.advance(alone, np.array([command]))
    assert np.array_equal(together.state.poses[-1:], alone.state.poses)
    assert np.array_equal(together.state.steering_rad[-1:], alone.state.steering_rad)


def test_sizes_that_make_no_car_are_refused() -> None:
    for wrong in ({"wheelbase_m": 0.0}, {"delay_s": -0.1}, {"max_rate_rad_s": float("nan")}):
        with pytest.raises(BadParametersError, match="vehicle"):
            Bicycle(**wrong)
