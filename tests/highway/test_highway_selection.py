"""Which weights of a training are kept: the rule of the paper's program against a plain one, and the order of validations."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.highway.backend import EngineBackend
from skidpad.highway.backend_training import train_ego_on
from skidpad.highway.dqn import DqnSettings
from skidpad.highway.layout import Side
from skidpad.highway.scenes import PRETRAINING
from skidpad.highway.training import WINDOW_EPISODES, RunningMean, Selection, TrainingSettings, Validation, train_ego

SMALL = TrainingSettings(episodes=120, dqn=DqnSettings(hidden=(8, 8)), selection=Selection.WINDOW)


def kept_episodes(returns: list[float]) -> list[int]:
    """Every episode after which the program behind the paper writes its best network, in plain words."""
    mean, best, last, kept = 0.0, float("-inf"), 0, []
    for episode, earned in enumerate(returns):
        mean = mean + 1 / 50 * (earned - mean)
        if mean > 1.1 * best and episode >= last + 50:
            best, last = mean, episode
            kept.append(episode)
    return kept


@given(st.lists(st.floats(-30.0, 30.0, allow_subnormal=False), max_size=300), st.floats(0.0, 0.3))
def test_the_running_mean_keeps_what_the_papers_program_keeps(noise: list[float], slope: float) -> None:
    returns = [slope * episode + value for episode, value in enumerate(noise)]
    rule = RunningMean()
    kept = [episode for episode, earned in enumerate(returns) if rule.is_kept(episode, earned)]
    assert kept == kept_episodes(returns)
    assert all(later - earlier >= WINDOW_EPISODES for earlier, later in zip([0, *kept], kept, strict=False))


def test_returns_that_stay_the_same_are_kept_until_their_mean_can_grow_by_no_tenth_more() -> None:
    kept = kept_episodes([10.0] * 1000)
    rule = RunningMean()
    assert kept == [episode for episode in range(1000) if rule.is_kept(episode, 10.0)] == [50, 100, 155]


def test_the_window_rule_keeps_the_weights_of_its_last_episode() -> None:
    whole = train_ego(PRETRAINING, SMALL, 2)
    kept = kept_episodes(whole.curve.returns.tolist())
    assert whole.policy.facts.chosen_episode == kept[-1] + 1
    assert whole.validations == ()
    cut = train_ego(PRETRAINING, replace(SMALL, episodes=kept[-1] + 1, selection=Selection.LAST), 2)
    assert np.array_equal(cut.policy.weights, whole.policy.weights)


def test_a_training_too_short_for_a_window_keeps_its_last_weights() -> None:
    short = replace(SMALL, episodes=20)
    last = train_ego(PRETRAINING, replace(short, selection=Selection.LAST), 2)
    assert np.array_equal(train_ego(PRETRAINING, short, 2).policy.weights, last.policy.weights)


def test_an_egos_validation_counts_crashes_first_and_a_front_vehicles_the_return_alone() -> None:
    safe, dear, later = Validation(50, 20.0, 0.0), Validation(100, 25.0, 0.1), Validation(150, 20.0, 0.0)
    assert max((safe, dear), key=lambda seen: seen.rank(Side.EGO)) is safe
    assert max((safe, dear), key=lambda seen: seen.rank(Side.FRONT)) is dear
    assert max((later, safe), key=lambda seen: seen.rank(Side.EGO)) is later


def test_on_a_backend_only_validation_keeps_weights() -> None:
    with pytest.raises(BadParametersError, match="by validation; got 'window'"):
        train_ego_on(EngineBackend(PRETRAINING), SMALL, 0)
