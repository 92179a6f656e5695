"""Training step by step on a backend: the engine's own backend and a scene of highway-env."""

from dataclasses import replace

import numpy as np
import pytest

from skidpad.core.errors import BadSubjectError
from skidpad.highway.backend import EngineBackend, highway_backend
from skidpad.highway.backend_training import retrain_ego_on, train_ego_on, train_front_on
from skidpad.highway.dqn import DqnSettings
from skidpad.highway.layout import Action, Side
from skidpad.highway.opponents import ConstantActions, RandomActions, SearchedActions
from skidpad.highway.policies import CallablePolicy
from skidpad.highway.rewards import driving_reward, sound_reward
from skidpad.highway.scenario import FrontDriver
from skidpad.highway.scenes import MERGE, PRETRAINING, RELEASED
from skidpad.highway.training import TrainingSettings

SMALL = TrainingSettings(episodes=6, dqn=DqnSettings(hidden=(16, 16)), validate_every=3, validation_episodes=3)


def test_an_ego_learns_and_the_same_seed_learns_the_same() -> None:
    first, again, other = (train_ego_on(EngineBackend(PRETRAINING), SMALL, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.policy.weights, again.policy.weights)
    assert not np.array_equal(first.policy.weights, other.policy.weights)
    assert first.policy.role is Side.EGO
    assert first.updates == first.curve.steps.sum() - SMALL.dqn.batch + 1
    assert [validation.episode for validation in first.validations] == [3, 6]
    assert first.policy.facts.chosen_episode in {3, 6}
    assert (first.curve.steps > 0).all()


def test_an_adversary_learns_to_stop_a_reckless_ego() -> None:
    # slower is all it takes: the reckless ego runs into whatever is on its lane
    settings = TrainingSettings(
        episodes=60, dqn=DqnSettings(hidden=(32, 32), exploration_steps=200.0), validate_every=20, validation_episodes=20
    )
    same_lane = replace(RELEASED, lanes=1)
    trained = train_front_on(EngineBackend(same_lane), ConstantActions(Action.FASTER), sound_reward(), settings, 4)
    assert trained.policy.role is Side.FRONT
    assert max(validation.failure_rate for validation in trained.validations) > 0.9


def test_the_adversary_starts_from_the_ego_and_the_ego_goes_on() -> None:
    ego = train_ego_on(EngineBackend(PRETRAINING), SMALL, 1).policy
    slow = replace(SMALL, dqn=replace(SMALL.dqn, learning_rate=1e-12))
    front = train_front_on(EngineBackend(RELEASED), ego, sound_reward(), slow, 5).policy
    np.testing.assert_allclose(front.weights, ego.weights, atol=1e-6)
    again = retrain_ego_on(EngineBackend(RELEASED), ego, front, driving_reward(), slow, 5)
    np.testing.assert_allclose(again.policy.weights, ego.weights, atol=1e-6)
    chance = train_front_on(EngineBackend(RELEASED), RandomActions(), sound_reward(), SMALL, 5)
    assert chance.policy.role is Side.FRONT


def test_who_cannot_teach_is_refused() -> None:
    ego = train_ego_on(EngineBackend(PRETRAINING), replace(SMALL, episodes=1), 1).policy
    with pytest.raises(BadSubjectError, match="search"):
        retrain_ego_on(EngineBackend(RELEASED), ego, SearchedActions(2), driving_reward(), SMALL, 1)
    with pytest.raises(BadSubjectError, match="training stopped in episode 0"):
        retrain_ego_on(EngineBackend(RELEASED), ego, CallablePolicy(lambda seen: np.full(len(seen), 9)), driving_reward(), SMALL, 1)


def test_a_scene_of_highway_env_is_learned_in() -> None:
    pytest.importorskip("highway_env")
    few = replace(SMALL, episodes=3, validation_episodes=1)
    backend = highway_backend(replace(MERGE.scenario, front=FrontDriver.IDM), MERGE)
    trained = train_ego_on(backend, few, 1)
    assert trained.policy.shape.inputs == MERGE.scenario.observation.size
    assert (trained.curve.returns > 0).all(), "speeds of the scene count, not those of the highway"
