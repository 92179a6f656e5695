"""Repair against a population: the view through the lens, opponents that take turns, and overtaking that nobody can prevent."""

from dataclasses import replace

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError
from skidpad.highway.avoidability import can_overtake
from skidpad.highway.dense import Activations, Shape, activations_for, folded, forward, layers_of, lens_for, unfolded
from skidpad.highway.dqn import WRITTEN, DqnSettings
from skidpad.highway.engine import START_EGO_LANE, START_EGO_SPEED, START_EGO_X, START_FRONT_LANE, START_FRONT_X, new_state
from skidpad.highway.evaluation import drawn_starts, evaluate
from skidpad.highway.layout import ACTIONS, LANE, OVERTAKEN, TARGET_LANE, Action, Side
from skidpad.highway.learning import learn, new_curve, new_game, new_trainee, scripted, sparring_of
from skidpad.highway.opponents import AggressiveActions, ConstantActions, Idm, RandomActions, SearchedActions, aggressive_action
from skidpad.highway.policies import random_policy
from skidpad.highway.rewards import careful_reward, driving_reward
from skidpad.highway.scenes import PRETRAINING, RELEASED
from skidpad.highway.training import Match, TrainingSettings, Validation, repair_ego, retrain_ego

SMALL = DqnSettings(hidden=(16, 24), batch=8, memory=400)
SHORT = TrainingSettings(episodes=12, dqn=SMALL, validate_every=6, validation_episodes=8)
EVERYBODY = (
    Match(PRETRAINING, Idm(), 2.0),
    *(Match(RELEASED, front) for front in (RandomActions(), AggressiveActions(), ConstantActions(Action.SLOWER), SearchedActions(3))),
)


@pytest.fixture(scope="module")
def ego():
    return random_policy(Side.EGO, RELEASED.observation.hash, 8, (16, 24), np.random.default_rng(0))


def values(weights: np.ndarray, shape: Shape, seen: np.ndarray) -> np.ndarray:
    """What the network answers to rows, (N, inputs)."""
    x = np.zeros((len(seen), shape.padded().inputs), np.float32)
    x[:, : shape.inputs] = seen
    room: Activations = activations_for(shape, len(seen))
    forward(layers_of(weights, shape.padded()), x, room)
    return room.q[:, :ACTIONS]


def test_a_network_answers_through_the_lens_as_it_did_without_it(ego) -> None:
    lens = lens_for(RELEASED.observation)
    rng = np.random.default_rng(1)
    seen = np.column_stack(
        [low + (high - low) * rng.random(6) for low, high in [(0.1, 0.9), (0, 4), (20, 30), (-2, 2), (0.1, 0.9), (0, 4), (20, 30), (-2, 2)]]
    )
    through = unfolded(ego.weights, ego.shape, lens)
    viewed = seen @ lens.matrix + lens.offset
    np.testing.assert_allclose(values(through, ego.shape, viewed), values(ego.weights, ego.shape, seen), atol=2e-4)
    np.testing.assert_allclose(folded(through, ego.shape, lens), ego.weights, atol=1e-3)
    assert np.abs(viewed).max() < 60.0  # a gap of 1,000 m; a raw observation holds 10 m of gap as 0.008
    near, far = np.array([0.5, 0, 25, 0, 0.51, 0, 25, 0]), np.array([0.5, 0, 25, 0, 0.52, 0, 25, 0])
    assert np.abs((far - near) @ lens.matrix).max() == pytest.approx(12.0 / 15.0)


def test_one_opponent_teaches_the_same_bits_as_retraining(ego) -> None:
    alone = repair_ego(ego, [Match(RELEASED, RandomActions())], SHORT, 3)
    assert alone.policy.weights.tobytes() == retrain_ego(RELEASED, ego, RandomActions(), SHORT, 3).policy.weights.tobytes()


def test_everybody_takes_turns_and_the_same_seed_gives_the_same_bits(ego) -> None:
    settings = replace(SHORT, dqn=replace(SMALL, is_conditioned=True, is_overtaking_an_end=False, cooling=0.9), accepted_rate=0.1)
    first, again, other = (repair_ego(ego, EVERYBODY, settings, seed, reward=careful_reward(10.0)) for seed in (3, 3, 4))
    assert first.policy.weights.tobytes() == again.policy.weights.tobytes()
    assert first.policy.weights.tobytes() != other.policy.weights.tobytes()
    assert first.policy.weights.tobytes() != ego.weights.tobytes()
    assert all(validation.worst_rate >= validation.failure_rate for validation in first.validations)


def test_a_search_alone_is_no_pool(ego) -> None:
    with pytest.raises(BadParametersError, match="search alone"):
        repair_ego(ego, [Match(RELEASED, SearchedActions(3))], SHORT, 3)


def test_a_script_is_played_step_by_step_and_then_keeps_lane_and_speed(ego) -> None:
    game = new_game(RELEASED.compiled(), driving_reward().compiled(), SMALL, Side.EGO, 9)
    learned = []
    for sparring in (scripted(np.full(30, int(Action.SLOWER))), sparring_of(ConstantActions(Action.SLOWER), Side.FRONT)):
        trainee, curve = new_trainee(ego.weights, ego.shape, SMALL), new_curve(4)
        learn(game, trainee, sparring, curve, 0, 4)
        learned.append(trainee.learner.online.tobytes())
    empty, idle = (new_trainee(ego.weights, ego.shape, SMALL) for _ in range(2))
    learn(game, empty, scripted(np.zeros(0, np.int64)), new_curve(4), 0, 4)
    learn(game, idle, sparring_of(ConstantActions(Action.IDLE), Side.FRONT), new_curve(4), 0, 4)
    assert learned[0] == learned[1] != empty.learner.online.tobytes() == idle.learner.online.tobytes()


@pytest.mark.parametrize("is_end", [True, False])
def test_overtaking_ends_what_counts_only_where_it_is_told_to(ego, is_end: bool) -> None:
    settings = replace(SMALL, is_overtaking_an_end=is_end)
    game = new_game(RELEASED.compiled(), driving_reward().compiled(), settings, Side.FRONT, 1)
    trainee, curve = new_trainee(ego.weights, ego.shape, settings), new_curve(40)
    for episode in range(40):
        learn(game, trainee, sparring_of(ConstantActions(Action.FASTER), Side.EGO), curve, episode, episode + 1)
        if curve.outcomes[episode] == OVERTAKEN:
            break
    assert curve.outcomes[episode] == OVERTAKEN
    assert trainee.replay.goes_on[(trainee.replay.counts[WRITTEN] - 1) % settings.memory] == (0.0 if is_end else 1.0)


def test_an_aggressive_driver_turns_to_the_others_lane_and_brakes_there() -> None:
    state = new_state()
    state[Side.EGO, LANE], state[Side.FRONT, TARGET_LANE] = 0, 1
    assert aggressive_action(state, Side.FRONT) == Action.LEFT
    state[Side.FRONT, TARGET_LANE] = 0
    assert aggressive_action(state, Side.FRONT) == Action.SLOWER
    driven = evaluate(RELEASED, ConstantActions(Action.FASTER), AggressiveActions(), 20, 1)
    assert driven.failure_rate > evaluate(RELEASED, ConstantActions(Action.FASTER), ConstantActions(Action.SLOWER), 20, 1).failure_rate


def test_the_fastest_of_the_safe_enough_is_kept() -> None:
    slow, fast = Validation(1, 5.0, 0.0, 0.0, 20.0), Validation(2, 1.0, 0.01, 0.02, 26.0)
    reckless = Validation(3, 9.0, 0.02, 0.3, 30.0)
    found = (slow, fast, reckless)
    assert max(found, key=lambda validation: validation.rank(Side.EGO, 0.02)) == fast
    assert max(found, key=lambda validation: validation.rank(Side.EGO)) == slow


def test_nobody_overtakes_a_slow_front_vehicle_that_knows_the_next_action() -> None:
    starts = drawn_starts(RELEASED, 5, np.arange(10))
    starts[:, START_FRONT_X] = starts[:, START_EGO_X] + np.arange(12.0, 32.0, 2.0)  # near enough to be overtaken within five steps
    assert not can_overtake(RELEASED, starts, 5).any()


def test_a_front_vehicle_three_lanes_away_cannot_prevent_being_overtaken() -> None:
    wide = replace(RELEASED, lanes=6)
    start = drawn_starts(wide, 5, np.arange(1))
    start[:, START_EGO_LANE], start[:, START_FRONT_LANE], start[:, START_EGO_SPEED] = 0, 5, 30
    start[:, START_FRONT_X] = start[:, START_EGO_X] + 10.0
    assert can_overtake(wide, start, 2).all()
    start[:, START_FRONT_LANE] = 0
    assert not can_overtake(wide, start, 2).any()
    with pytest.raises(BadParametersError, match="meta-actions"):
        can_overtake(PRETRAINING, start, 2)
