"""Opponents and the driving of many episodes: the same whatever the batch, replayable, and safe from broken policies."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, BadSubjectError
from skidpad.highway import engine
from skidpad.highway.episodes import NO_ACTION, Episodes
from skidpad.highway.evaluation import evaluate, evaluate_starts, find_sequences
from skidpad.highway.layout import ACTIONS, CRASH, HEADING, RUNNING, SPEED, Action, Outcome, Side
from skidpad.highway.opponents import ConstantActions, Idm, RandomActions, SearchedActions, name_of, random_actions
from skidpad.highway.policies import CallablePolicy, random_policy
from skidpad.highway.rewards import REWARDS, begin_episode, driving_reward, fresh_memory, pay
from skidpad.highway.scenario import FrontDriver
from skidpad.highway.scenes import PRETRAINING, RELEASED

FAST, SLOW = ConstantActions(Action.FASTER), ConstantActions(Action.SLOWER)
COLUMNS = ("numbers", "starts", "outcomes", "steps", "ego_actions", "front_actions", "speeds_mps")


def learned(seed: int = 0, side: Side = Side.EGO):
    return random_policy(side, RELEASED.observation.hash, RELEASED.observation.size, (16, 24), np.random.default_rng(seed))


def same(one: Episodes, other: Episodes) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name == "speeds_mps") for name in COLUMNS)


def test_chance_is_uniform_and_a_function_of_seed_episode_side_and_step() -> None:
    numbers = np.arange(20_000)
    actions = random_actions(1, numbers, Side.FRONT, 0)
    counts = np.bincount(actions, minlength=ACTIONS)
    assert np.abs(counts - 4000).max() < 5 * np.sqrt(20_000 * 0.16)
    assert np.array_equal(random_actions(1, numbers[500:600], Side.FRONT, 0), actions[500:600])
    for other in (
        random_actions(2, numbers, Side.FRONT, 0),
        random_actions(1, numbers, Side.EGO, 0),
        random_actions(1, numbers, Side.FRONT, 1),
    ):
        assert 0.15 < (other == actions).mean() < 0.25


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 5))
@settings(max_examples=15)
def test_an_episode_is_the_same_alone_and_among_others(first: int, extra: int, seed: int) -> None:
    whole = evaluate(RELEASED, learned(seed), RandomActions(), first + extra + 1, seed)
    part = evaluate(RELEASED, learned(seed), RandomActions(), extra + 1, seed, first_episode=first)
    assert same(whole.take(np.arange(first, first + extra + 1)), part)
    assert same(Episodes.joined([whole.take(np.arange(first)), part]), whole)


@pytest.mark.parametrize("front", [RandomActions(), Idm(), SLOW, learned(1, Side.FRONT), SearchedActions(3)])
def test_any_episode_can_be_driven_again(front: object) -> None:
    driven = evaluate(RELEASED, learned(2), front, 25, 3)
    params = driven.scenario.compiled()
    for row in range(len(driven)):
        states = driven.trajectory(row)
        assert len(states) == driven.steps[row] + 1
        assert engine.outcome_of(params, states[-1]) == driven.outcomes[row]
        assert all(engine.outcome_of(params, state) == RUNNING for state in states[:-1])
        speeds = states[:, :, SPEED] * np.cos(states[:, :, HEADING])
        np.testing.assert_allclose(driven.speeds_mps[row, : len(states)], speeds, rtol=1e-6)
        assert np.isnan(driven.speeds_mps[row, len(states) :]).all()
        assert (driven.ego_actions[row, : driven.steps[row]] != NO_ACTION).all()
        assert (driven.ego_actions[row, driven.steps[row] :] == NO_ACTION).all()
    assert sum(driven.count(outcome) for outcome in Outcome) == 25
    assert driven.failure_rate == (driven.outcomes == CRASH).mean()
    np.testing.assert_allclose(driven.mean_speeds_mps[:, 0], [np.nanmean(speeds[1:, 0]) for speeds in driven.speeds_mps], rtol=1e-5)
    assert driven.mean_ego_mps == pytest.approx(np.nanmean(driven.speeds_mps[:, 1:, 0], dtype=np.float64))
    assert driven.mean_front_mps == pytest.approx(np.nanmean(driven.speeds_mps[:, 1:, 1], dtype=np.float64))
    assert driven.end_s.tolist() == driven.steps.tolist()


@pytest.mark.parametrize("reward", [driving_reward(), *(REWARDS.get(name)() for name in REWARDS.names())], ids=lambda reward: reward.name)
def test_returns_are_the_sums_of_the_rewards_of_the_steps(reward: object) -> None:
    side = Side.EGO if reward.name == "quality-of-driving" else Side.FRONT
    driven = evaluate(RELEASED, FAST, RandomActions(), 12, 0)
    memory, expected = fresh_memory() + 2.0, []
    given_memory = memory.copy()
    for row in range(12):
        begin_episode(reward.compiled(), memory)
        states = driven.trajectory(row)[1:]
        is_crash = [index == len(states) - 1 and driven.outcomes[row] == CRASH for index in range(len(states))]
        expected.append(sum(pay(reward.compiled(), 2, state, side, crash, memory) for state, crash in zip(states, is_crash, strict=True)))
    np.testing.assert_allclose(driven.returns(reward, side, given_memory[np.newaxis]), expected)
    assert (given_memory == 2.0).all()


def test_the_front_driver_decides_who_drives_in_front() -> None:
    assert evaluate(RELEASED, SLOW, Idm(), 3, 0).scenario.front is FrontDriver.IDM
    driven = evaluate(PRETRAINING, SLOW, SLOW, 3, 0)
    assert driven.scenario.front is FrontDriver.POLICY
    assert (driven.front_actions[:, 0] == Action.SLOWER).all()
    assert (evaluate(PRETRAINING, SLOW, Idm(), 3, 0).front_actions == NO_ACTION).all()


def test_an_ego_that_is_always_slower_never_crashes() -> None:
    for front in (RandomActions(), SLOW, FAST):
        assert evaluate(RELEASED, SLOW, front, 300, 0).failure_rate == 0.0


class Broken:
    """Fails in its own way in the right lane from 360 m on."""

    name = "broken"

    def __init__(self, way: str) -> None:
        self.way = way

    def act(self, observations: np.ndarray) -> np.ndarray:
        bad = (observations[:, 1] > 2.0) & (observations[:, 0] > 0.3)
        actions = np.full(len(observations), 1.0)
        if self.way == "raises" and bad.any():
            raise KeyError("lost")
        if self.way == "shape" and bad.any():
            return np.ones((len(observations), 5))
        if self.way == "words" and bad.any():
            return np.full(len(observations), "left")
        actions[bad] = {"nan": np.nan, "out": 7.0, "half": 0.5, "below": -1.0}.get(self.way, 1.0)
        return actions


WAYS = {
    "raises": "raised KeyError",
    "shape": r"shape \(1, 5\)",
    "words": "answered with <U4",
    "nan": "answered nan",
    "out": "answered 7",
    "half": "answered 0.5",
    "below": "answered -1",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("side", list(Side))
def test_a_broken_policy_costs_its_own_episodes_and_no_others(way: str, side: Side) -> None:
    drivers = [ConstantActions(Action.IDLE), ConstantActions(Action.IDLE)]
    whole = evaluate(RELEASED, *drivers, 40, 0)
    drivers[side] = Broken(way)
    driven = evaluate(RELEASED, *drivers, 40, 0)
    failed = driven.outcomes == Outcome.ERROR.code
    assert 0 < failed.sum() < 40
    assert same(driven.take(np.flatnonzero(~failed)), whole.take(np.flatnonzero(~failed)))
    assert {failure.episode for failure in driven.failures} == set(np.flatnonzero(failed).tolist())
    assert len(driven.failures) == failed.sum()
    assert driven.steps[failed].min() > 0
    for failure in driven.failures:
        assert failure.side is side
        assert failure.step == driven.steps[failure.episode]
        with pytest.raises(ValueError, match=WAYS[way]):
            raise ValueError(failure.message)
    assert driven.failure_rate == whole.take(np.flatnonzero(~failed)).failure_rate


def test_a_policy_that_always_fails_leaves_no_rate_and_no_speed() -> None:
    driven = evaluate(RELEASED, CallablePolicy(lambda seen: seen), RandomActions(), 5, 0)
    assert driven.count(Outcome.ERROR) == 5
    assert np.isnan(driven.failure_rate)
    assert np.isnan(driven.mean_ego_mps)
    assert np.isnan(driven.mean_speeds_mps).all()


def brute_force(ego: object, start: np.ndarray, depth: int) -> tuple[int, ...]:
    """The shortest and then first crashing sequence, by trying all of them one step at a time."""
    params = RELEASED.compiled()
    for length in range(1, depth + 1):
        for sequence in product(range(ACTIONS), repeat=length):
            state = engine.new_state()
            engine.place(params, start, state)
            code = RUNNING
            for action in sequence:
                seen = np.empty((1, RELEASED.observation.size), np.float32)
                engine.observe_many(params, state[None], Side.EGO, seen)
                code = engine.step(params, state, int(ego.act(seen)[0]), action)
                if code != RUNNING:
                    break
            if code == CRASH and length == int(state[0, 16]):
                return sequence
    return ()


def test_the_search_finds_what_trying_everything_finds() -> None:
    ego, depth, count = learned(4), 3, 12
    starts = evaluate(RELEASED, ego, RandomActions(), count, 1).starts
    starts[:, 4] = starts[:, 1] + np.linspace(8.0, 20.0, count)  # close enough for short sequences
    found = find_sequences(RELEASED, ego, starts, depth, 1, np.arange(count))
    expected = [brute_force(ego, start, depth) for start in starts]
    assert [tuple(row[row != NO_ACTION].tolist()) for row in found.actions] == expected
    assert found.lengths.tolist() == [len(sequence) for sequence in expected]
    assert 0 < (found.lengths > 0).sum() < count
    assert found.driven < count * (5 + 25 + 125)
    driven = evaluate_starts(RELEASED, ego, SearchedActions(depth), starts, 1, np.arange(count))
    solved = found.lengths > 0
    assert (driven.outcomes[solved] == CRASH).all()
    assert np.array_equal(driven.steps[solved], found.lengths[solved])


def test_the_search_beats_chance_against_a_blind_ego_and_finds_nothing_against_a_slow_one() -> None:
    searched = evaluate(RELEASED, FAST, SearchedActions(6), 60, 0)
    assert searched.failure_rate > evaluate(RELEASED, FAST, RandomActions(), 60, 0).failure_rate
    assert evaluate(RELEASED, SLOW, SearchedActions(3), 10, 0).failure_rate == 0.0


def test_an_ego_that_fails_on_every_branch_is_never_searched_to_a_crash() -> None:
    ego = CallablePolicy(lambda seen: np.full(len(seen), np.nan))
    starts = evaluate(RELEASED, FAST, RandomActions(), 3, 0).starts
    assert find_sequences(RELEASED, ego, starts, 4, 0, np.arange(3)).lengths.tolist() == [0, 0, 0]
    assert evaluate(RELEASED, ego, SearchedActions(4), 3, 0).count(Outcome.ERROR) == 3


def test_drivers_in_the_wrong_seat_and_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(BadSubjectError, match="front"):
        evaluate(RELEASED, learned(0, Side.FRONT), RandomActions(), 1, 0)
    with pytest.raises(BadSubjectError, match="ego"):
        evaluate(RELEASED, FAST, learned(0, Side.EGO), 1, 0)
    with pytest.raises(BadParametersError, match="at least one episode"):
        evaluate(RELEASED, FAST, FAST, 0, 0)
    with pytest.raises(BadParametersError, match=r"1 \.\. 12"):
        SearchedActions(0)
    with pytest.raises(BadParametersError, match="can be joined"):
        Episodes.joined([evaluate(RELEASED, FAST, FAST, 1, seed) for seed in (0, 1)])


def test_names_are_short() -> None:
    assert [name_of(driver) for driver in (SLOW, Idm(), Broken("nan"))] == ["always SLOWER", "Idm", "broken"]
