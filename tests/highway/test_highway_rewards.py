"""Rewards against the formulas as they stand in the paper, written out plainly."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.highway.backend import EngineBackend
from skidpad.highway.layout import CRASHED, EGO, FIELDS, FRONT, HEADING, SPEED, TARGET_LANE, X, Y
from skidpad.highway.rewards import (
    REWARDS,
    Approach,
    EpisodeBonus,
    QualityOfDriving,
    Reward,
    approach_of,
    begin_episode,
    driving_reward,
    fresh_memory,
    pay,
    quality_of,
)
from skidpad.highway.scenes import RELEASED

LANES = 2
A, B, C = 0.01, 3.0, 0.1  # section V-A

speeds = st.floats(10.0, 35.0)
headings = st.sampled_from((0.0, 0.0, 0.0, 0.001, 0.05, -0.2))


@st.composite
def states(draw: st.DrawFn) -> np.ndarray:
    state = np.zeros((2, FIELDS))
    for vehicle in (EGO, FRONT):
        state[vehicle, X] = draw(st.floats(0.0, 900.0))
        state[vehicle, Y] = draw(st.floats(0.0, 4.0))
        state[vehicle, SPEED] = draw(speeds)
        state[vehicle, HEADING] = draw(headings)
        state[vehicle, TARGET_LANE] = draw(st.integers(0, 1))
    state[:, CRASHED] = float(draw(st.booleans()))
    return state


def velocity(state: np.ndarray, vehicle: int) -> tuple[float, float]:
    v, angle = state[vehicle, SPEED], state[vehicle, HEADING]
    return v * np.cos(angle), v * np.sin(angle)


def equation_2(state: np.ndarray, vehicle: int, w_col: float, w_spd: float = 0.4, w_rlane: float = 0.1) -> float:
    r_spd = np.interp(velocity(state, vehicle)[0], [20.0, 30.0], [0.0, 1.0])
    r_rlane = state[vehicle, TARGET_LANE]
    r_col = state[vehicle, CRASHED]
    return float(np.interp(w_spd * r_spd + w_rlane * r_rlane + w_col * r_col, [w_col, w_spd + w_rlane], [0.0, 1.0]))


def equation_3(state: np.ndarray, still_mps: float, x_scale_m: float) -> float:
    (avx, avy), (evx, evy) = velocity(state, FRONT), velocity(state, EGO)
    d_vx, d_vy = avx - evx, avy - evy
    if d_vx >= 0:
        return -d_vx - A
    if abs(d_vy) > still_mps:
        return -abs(d_vy) / B
    d = np.hypot((state[FRONT, X] - state[EGO, X]) / x_scale_m, state[FRONT, Y] - state[EGO, Y])
    return float(1 / (1 + d))


def equation_4(qualities: list[float], approaches: list[float]) -> float:
    if all(r > 0 for r in approaches):
        return C * sum(q + r for q, r in zip(qualities, approaches, strict=True))
    return C * sum(qualities)


def paid(reward: Reward, episodes: list[list[np.ndarray]], side: int = FRONT) -> list[float]:
    """The reward of the last step of each episode; every episode ends in a crash."""
    params, memory, last = reward.compiled(), fresh_memory(), []
    for episode in episodes:
        begin_episode(params, memory)
        for index, state in enumerate(episode):
            value = pay(params, LANES, state, side, index == len(episode) - 1, memory)
        last.append(value)
    return last


@given(states(), st.sampled_from((EGO, FRONT)), st.sampled_from((-1.0, -0.5, -0.1, 0.0)))
def test_quality_of_driving_is_equation_2(state: np.ndarray, side: int, w_col: float) -> None:
    ours = quality_of(driving_reward(w_col).compiled(), LANES, state, side)
    assert ours == pytest.approx(equation_2(state, side, w_col), abs=1e-12)
    assert 0.0 <= ours <= 1.0


@given(states(), st.sampled_from((0.0, 0.05, 1.0)), st.sampled_from((1.0, 1200.0)))
def test_approach_is_equation_3(state: np.ndarray, still_mps: float, x_scale_m: float) -> None:
    reward = Reward("r", approach=Approach(still_mps=still_mps, x_scale_m=x_scale_m))
    assert approach_of(reward.compiled(), state, FRONT) == pytest.approx(equation_3(state, still_mps, x_scale_m), abs=1e-12)


@given(st.lists(st.lists(states(), min_size=1, max_size=5), min_size=1, max_size=4))
def test_paper_reward_is_the_sum_of_its_three_parts_with_the_bonus_of_the_episode(episodes: list[list[np.ndarray]]) -> None:
    ours = paid(REWARDS.get("paper")(), episodes)
    for episode, value in zip(episodes, ours, strict=True):
        qualities = [equation_2(state, FRONT, 0.0) for state in episode]
        approaches = [equation_3(state, still_mps=0.0, x_scale_m=1.0) for state in episode]
        assert value == pytest.approx(qualities[-1] + approaches[-1] + equation_4(qualities, approaches), abs=1e-9)


def driven(episodes: int) -> list[list[np.ndarray]]:
    """The states after every policy step of duels in which both drive at random."""
    backend, rng = EngineBackend(RELEASED), np.random.default_rng(0)
    recorded = []
    for number in range(episodes):
        backend.reset(0, number)
        states: list[np.ndarray] = []
        while backend.outcome is None:
            backend.step(*rng.integers(0, 5, 2).tolist())
            states.append(backend.state)
        recorded.append(states)
    return recorded


def as_printed(states: list[np.ndarray]) -> list[tuple[str, float]]:
    """Eq. 2 to 4 in plain Python, read off the paper: the case of Eq. 3 that applies at each step, and the front vehicle's reward."""
    qualities: list[float] = []
    differences: list[float] = []
    rewards = []
    for state in states:
        ego, adversary = state[EGO].tolist(), state[FRONT].tolist()
        a_vx, a_vy = adversary[SPEED] * math.cos(adversary[HEADING]), adversary[SPEED] * math.sin(adversary[HEADING])
        e_vx, e_vy = ego[SPEED] * math.cos(ego[HEADING]), ego[SPEED] * math.sin(ego[HEADING])
        d_vx, d_vy = a_vx - e_vx, a_vy - e_vy
        d_x, d_y = adversary[X] - ego[X], adversary[Y] - ego[Y]
        if d_vx >= 0:
            case, r_diff = "getting away", -d_vx - 0.01
        elif d_vy != 0:
            case, r_diff = "changing lanes", -abs(d_vy) / 3
        else:
            case, r_diff = "closing in", 1 / (1 + math.sqrt(d_x**2 + d_y**2))
        r_spd = min(max((a_vx - 20) / (30 - 20), 0), 1)
        r_rlane = 1 if adversary[TARGET_LANE] == 1 else 0
        qualities.append((0.4 * r_spd + 0.1 * r_rlane) / (0.4 + 0.1))  # w_col = 0
        differences.append(r_diff)
        reward = qualities[-1] + r_diff
        if adversary[CRASHED]:
            is_closing = all(difference > 0 for difference in differences)
            reward += 0.1 * (sum(qualities) + sum(differences)) if is_closing else 0.1 * sum(qualities)
        rewards.append((case, reward))
    return rewards


def test_paper_reward_is_the_printed_one_over_recorded_steps() -> None:
    params, memory, cases, crashes = REWARDS.get("paper")().compiled(), fresh_memory(), Counter[str](), 0
    for states in driven(60):
        begin_episode(params, memory)
        for state, (case, expected) in zip(states, as_printed(states), strict=True):
            is_crash = bool(state[FRONT, CRASHED])
            assert pay(params, LANES, state, FRONT, is_crash, memory) == pytest.approx(expected, rel=1e-12, abs=1e-12)
            cases[case] += 1
            crashes += is_crash
    assert crashes >= 10
    assert min(cases[case] for case in ("getting away", "changing lanes", "closing in")) >= 10


@given(st.lists(st.lists(states(), min_size=1, max_size=5), min_size=1, max_size=4))
def test_released_reward_sums_over_all_episodes_so_far(episodes: list[list[np.ndarray]]) -> None:
    ours = paid(REWARDS.get("released")(), episodes)
    qualities, approaches = [], []
    for episode, value in zip(episodes, ours, strict=True):
        qualities += [equation_2(state, FRONT, 0.0) for state in episode]
        approaches += [equation_3(state, 0.05, 1200.0) for state in episode]
        assert value == pytest.approx(qualities[-1] + approaches[-1] + equation_4(qualities, approaches), abs=1e-9)


@given(states())
def test_sound_reward_never_pays_for_going_on_and_always_for_the_crash(state: np.ndarray) -> None:
    params, quality = REWARDS.get("sound")().compiled(), equation_2(state, FRONT, 0.0)
    assert pay(params, LANES, state, FRONT, False, fresh_memory()) == pytest.approx(0.1 * (quality - 1.0), abs=1e-12)
    assert pay(params, LANES, state, FRONT, True, fresh_memory()) == pytest.approx(0.1 * (quality - 1.0) + 5.0, abs=1e-12)
    assert pay(params, LANES, state, FRONT, False, fresh_memory()) <= 0.0


def test_a_lane_change_that_has_all_but_ended_counts_as_no_lane_change() -> None:
    state = np.zeros((2, FIELDS))
    state[:, SPEED] = (30.0, 25.0)
    state[FRONT, X], state[FRONT, HEADING] = 30.0, 1e-6
    exact, tolerant = (replace(Reward("r"), approach=Approach(still_mps=still)).compiled() for still in (0.0, 0.05))
    assert approach_of(exact, state, FRONT) < 0.0 < approach_of(tolerant, state, FRONT)


def test_a_lower_risk_aversion_makes_a_crash_cost_less() -> None:
    crashed, whole = np.zeros((2, FIELDS)), np.zeros((2, FIELDS))
    crashed[:, SPEED] = whole[:, SPEED] = 30.0
    crashed[:, CRASHED] = 1.0
    losses = [
        quality_of(driving_reward(w).compiled(), LANES, whole, EGO) - quality_of(driving_reward(w).compiled(), LANES, crashed, EGO)
        for w in (-1.0, -0.5, -0.1, 0.0)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == 0.0 < losses[-2]


def test_the_right_lane_counts_on_roads_of_any_width() -> None:
    state = np.zeros((2, FIELDS))
    state[EGO, SPEED] = 20.0
    params = driving_reward(0.0).compiled()
    state[EGO, TARGET_LANE] = 2.0
    assert quality_of(params, 3, state, EGO) == pytest.approx(0.2)
    assert quality_of(params, 5, state, EGO) == pytest.approx(0.1)
    state[EGO, TARGET_LANE] = 0.0
    assert quality_of(params, 1, state, EGO) == 0.0


@pytest.mark.parametrize("name", REWARDS.names())
def test_no_adversarial_reward_counts_the_collision_against_the_front_vehicle(name: str) -> None:
    assert REWARDS.get(name)().quality.collision_weight == 0.0
    assert REWARDS.get(name)().name == name


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no adversarial reward named 'papr'; did you mean 'paper'"):
        REWARDS.get("papr")
    with pytest.raises(BadParametersError, match="at most 0"):
        QualityOfDriving(collision_weight=0.5)
    with pytest.raises(BadParametersError, match="not all 0"):
        QualityOfDriving(0.0, 0.0, 0.0)
    with pytest.raises(BadParametersError, match="slow_mps < fast_mps"):
        QualityOfDriving(slow_mps=30.0)
    with pytest.raises(BadParametersError, match="divisor"):
        Approach(lateral_divisor=0.0)
    with pytest.raises(BadParametersError, match=r"\(0, 1\]"):
        EpisodeBonus(share=0.0)
