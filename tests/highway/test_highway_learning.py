"""The compiled learner against torch's autograd and Adam, its memory, and trainings whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from skidpad.core.errors import BadParametersError, BadSubjectError
from skidpad.core.seeding import child_seed
from skidpad.highway.dense import Shape, activations_for, add_product, forward, layers_of, size_of
from skidpad.highway.dqn import (
    WRITTEN,
    DqnSettings,
    backward,
    draw,
    draw_crashes,
    empty_batch,
    keep_last,
    learner_from,
    new_memory,
    rates_of,
    remember,
    update,
)
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import ACTIONS, CRASH, OVERTAKEN, TIMEOUT, Action, Outcome, Side
from skidpad.highway.learning import Exploration, epsilon_after, learn, learn_from_policy, new_curve, new_game, new_trainee, sparring_of
from skidpad.highway.opponents import ConstantActions, Idm, RandomActions, SearchedActions
from skidpad.highway.policies import CallablePolicy, LearnedPolicy, random_policy
from skidpad.highway.rewards import REWARDS, driving_reward
from skidpad.highway.scenes import PRETRAINING, RELEASED
from skidpad.highway.training import Selection, TrainingSettings, retrain_ego, train_ego, train_front

SMALL = DqnSettings(hidden=(16, 24), memory=200)
SHORT = TrainingSettings(episodes=12, dqn=SMALL, validate_every=4, validation_episodes=6)


def network(seed: int, shape: Shape) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return random_policy(Side.EGO, "", shape.inputs, (shape.first, shape.second), rng).weights


def torch_twin(weights: np.ndarray, shape: Shape) -> nn.Sequential:
    views = layers_of(weights, shape.padded())
    twin = nn.Sequential(
        nn.Linear(shape.inputs, shape.first),
        nn.ReLU(),
        nn.Linear(shape.first, shape.second),
        nn.ReLU(),
        nn.Linear(shape.second, shape.outputs),
    )
    with torch.no_grad():
        for layer, matrix, bias in zip((twin[0], twin[2], twin[4]), views[::2], views[1::2], strict=True):
            layer.weight.copy_(torch.from_numpy(matrix[: layer.in_features, : layer.out_features].T.copy()))
            layer.bias.copy_(torch.from_numpy(bias[: layer.out_features].copy()))
    return twin


def flat_of(twin: nn.Sequential, shape: Shape, *, gradient: bool = False) -> np.ndarray:
    flat = np.zeros(size_of(shape), np.float32)
    for layer, matrix, bias in zip((twin[0], twin[2], twin[4]), *(layers_of(flat, shape.padded())[i::2] for i in (0, 1)), strict=True):
        weight, offset = (layer.weight.grad, layer.bias.grad) if gradient else (layer.weight, layer.bias)
        matrix[: layer.in_features, : layer.out_features] = weight.detach().numpy().T
        bias[: layer.out_features] = offset.detach().numpy()
    return flat


def filled_batch(rng: np.random.Generator, shape: Shape, size: int):
    batch = empty_batch(shape, size)
    batch.seen[:, : shape.inputs] = rng.normal(size=(size, shape.inputs))
    batch.then[:, : shape.inputs] = rng.normal(size=(size, shape.inputs))
    batch.actions[:] = rng.integers(0, ACTIONS, size)
    batch.rewards[:] = rng.normal(size=size) * 3.0
    batch.goes_on[:] = rng.integers(0, 2, size)
    return batch


def torch_loss(online: nn.Sequential, target: nn.Sequential, batch, shape: Shape, discount: float) -> torch.Tensor:
    seen, then = (torch.from_numpy(x[:, : shape.inputs].copy()) for x in (batch.seen, batch.then))
    values = online(seen).gather(1, torch.from_numpy(batch.actions)[:, None])[:, 0]
    with torch.no_grad():
        goal = torch.from_numpy(batch.rewards) + discount * torch.from_numpy(batch.goes_on) * target(then).max(1).values
    return nn.functional.mse_loss(values, goal)


@given(st.integers(1, 12), st.sampled_from((8, 16, 40)), st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=30)
def test_products_are_those_of_numpy(pairs: int, inner: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, out = (rng.normal(size=shape).astype(np.float32) for shape in ((2 * pairs, inner), (inner, width), (2 * pairs, width)))
    expected = out + a @ b
    add_product(a, b, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [Shape(8, 256, 256, 5), Shape(7, 10, 13, 5)])
def test_a_pass_is_torchs(shape: Shape) -> None:
    weights, rows = network(0, shape), 6
    x = np.zeros((rows, shape.padded().inputs), np.float32)
    x[:, : shape.inputs] = np.random.default_rng(1).normal(size=(rows, shape.inputs))
    room = activations_for(shape, rows)
    forward(layers_of(weights, shape.padded()), x, room)
    expected = torch_twin(weights, shape)(torch.from_numpy(x[:, : shape.inputs].copy())).detach().numpy()
    np.testing.assert_allclose(room.q[:, : shape.outputs], expected, atol=1e-5)


@given(st.integers(1, 150), st.integers(0, 50))
@settings(max_examples=25)
def test_what_else_is_in_the_batch_changes_no_bit(rows: int, seed: int) -> None:
    shape = Shape(8, 32, 32, ACTIONS)
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(rows, 8)).astype(np.float32) * 20
    policy = LearnedPolicy(Side.EGO, "", shape, network(seed, shape))
    together = policy.act(seen)
    assert together.tolist() == [int(policy.act(seen[row : row + 1])[0]) for row in range(rows)]
    order = rng.permutation(rows)
    assert (policy.act(seen[order]) == together[order]).all()


@pytest.mark.parametrize("shape", [Shape(8, 256, 256, 5), Shape(7, 10, 13, 5)])
def test_the_gradient_is_autograds(shape: Shape) -> None:
    online, target = network(0, shape), network(1, shape)
    batch = filled_batch(np.random.default_rng(2), shape, 32)
    learner = learner_from(online, shape, 32)._replace(target=target)
    loss = backward(learner, rates_of(DqnSettings()), batch, ACTIONS)
    twin = torch_twin(online, shape)
    expected = torch_loss(twin, torch_twin(target, shape), batch, shape, 0.8)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(learner.gradient, flat_of(twin, shape, gradient=True), rtol=1e-4, atol=1e-5)


def test_updates_are_those_of_torch_with_clamped_gradients_adam_and_a_copied_target() -> None:
    shape, chosen = Shape(8, 32, 24, ACTIONS), DqnSettings(hidden=(32, 24), gradient_limit=0.2, target_every=7, learning_rate=1e-3)
    weights = network(3, shape)
    learner, rng = learner_from(weights, shape, chosen.batch), np.random.default_rng(4)
    online, target = torch_twin(weights, shape), torch_twin(weights, shape)
    adam = torch.optim.Adam(online.parameters(), lr=chosen.learning_rate)
    was_clamped = False
    for index in range(1, 31):
        batch = filled_batch(rng, shape, chosen.batch)
        update(learner, rates_of(chosen), batch, ACTIONS)
        adam.zero_grad()
        torch_loss(online, target, batch, shape, chosen.discount).backward()
        was_clamped |= any(bool((p.grad.abs() > 0.2).any()) for p in online.parameters())
        for parameter in online.parameters():
            parameter.grad.clamp_(-0.2, 0.2)
        adam.step()
        if index % 7 == 0:
            target.load_state_dict(online.state_dict())
        np.testing.assert_allclose(learner.online, flat_of(online, shape), atol=2e-5)
        np.testing.assert_allclose(learner.target, flat_of(target, shape), atol=2e-5)
    assert was_clamped
    assert not np.array_equal(learner.online, learner.target)


def test_padding_stays_zero_through_updates() -> None:
    shape = Shape(7, 10, 13, ACTIONS)
    learner, rng = learner_from(network(0, shape), shape, 32), np.random.default_rng(0)
    for _ in range(5):
        update(learner, rates_of(SMALL), filled_batch(rng, shape, 32), ACTIONS)
    views = layers_of(learner.online, shape.padded())
    outside = (views.w1[7:], views.w1[:, 10:], views.w2[10:], views.w2[:, 13:], views.w3[13:], views.w3[:, 5:], views.b1[10:], views.b3[5:])
    assert all(not part.any() for part in outside)


def test_the_memory_is_a_ring_that_forgets_the_oldest() -> None:
    shape = Shape(8, 8, 8, ACTIONS)
    memory, batch = new_memory(shape, 40), empty_batch(shape, 32)
    for index in range(100):
        remember(memory, np.full(8, index, np.float32), index % ACTIONS, float(index), np.full(8, index + 0.5, np.float32), index % 2)
    assert memory.counts[WRITTEN] == 100
    assert sorted(memory.rewards.tolist()) == [float(index) for index in range(60, 100)]
    rows, counter, seen = np.zeros(32, np.int64), 0, set()
    for _ in range(20):
        counter = draw(memory, np.uint64(7), counter, rows, batch)
        assert len(set(rows.tolist())) == 32
        assert (batch.seen[:, 0] == batch.rewards).all()
        assert (batch.then[:, 3] == batch.rewards + 0.5).all()
        assert (batch.actions == batch.rewards % ACTIONS).all()
        assert (batch.goes_on == batch.rewards % 2).all()
        seen |= set(rows.tolist())
    assert seen == set(range(40))


def test_steps_before_crashes_fill_the_end_of_a_batch() -> None:
    shape = Shape(8, 8, 8, ACTIONS)
    memory, crashes, batch = new_memory(shape, 10), new_memory(shape, 100), empty_batch(shape, 32)
    batch.rewards[:] = -1.0
    assert draw_crashes(crashes, np.uint64(7), 5, 8, batch) == 5
    assert (batch.rewards == -1.0).all()
    for index in range(13):  # the ring of ten has gone round: the newest three lie at its beginning
        remember(memory, np.full(8, index, np.float32), index % ACTIONS, float(index), np.full(8, index + 0.5, np.float32), 1.0)
    keep_last(memory, crashes, 4)
    assert crashes.rewards[:5].tolist() == [9.0, 10.0, 11.0, 12.0, 0.0]
    assert crashes.counts[WRITTEN] == 4
    assert draw_crashes(crashes, np.uint64(7), 5, 8, batch) == 13
    assert (batch.rewards[:24] == -1.0).all()
    assert set(batch.rewards[24:].tolist()) <= {9.0, 10.0, 11.0, 12.0}
    assert (batch.seen[24:, 0] == batch.rewards[24:]).all()
    assert (batch.actions[24:] == batch.rewards[24:] % ACTIONS).all()


def test_a_learner_keeps_the_last_steps_before_each_crash() -> None:
    settings = replace(SMALL, crash_share=0.25)
    game = new_game(RELEASED.compiled(), driving_reward().compiled(), settings, Side.EGO, 1)
    shape = Shape(8, 16, 24, ACTIONS)
    trainee, curve = new_trainee(network(0, shape), shape, settings), new_curve(30)
    learn(game, trainee, sparring_of(RandomActions(), Side.FRONT), curve, 0, 30)
    crashed = curve.outcomes == CRASH
    assert crashed.any()
    kept = int(trainee.crashes.counts[WRITTEN])
    assert kept == np.minimum(curve.steps[crashed], 6).sum()
    ends = trainee.crashes.goes_on[: min(kept, len(trainee.crashes.actions))] == 0.0
    assert ends.any()
    with pytest.raises(BadParametersError, match="crash_share must be at least 0 and below 1; got 1"):
        DqnSettings(crash_share=1.0)


def test_exploration_falls_as_stated() -> None:
    exploration = Exploration(1.0, 0.05, 6000.0)
    for steps in (0, 1, 6000, 60_000):
        assert epsilon_after(exploration, steps) == pytest.approx(0.05 + 0.95 * np.exp(-steps / 6000))


@pytest.mark.parametrize(
    ("ego", "outcome", "goes_on"), [(Action.FASTER, CRASH, 0.0), (Action.FASTER, OVERTAKEN, 0.0), (Action.SLOWER, TIMEOUT, 1.0)]
)
def test_only_time_running_out_lets_the_value_of_the_future_count(ego: Action, outcome: int, goes_on: float) -> None:
    game = new_game(RELEASED.compiled(), REWARDS.get("sound")().compiled(), SMALL, Side.FRONT, 1)
    shape = Shape(8, 16, 24, ACTIONS)
    trainee, curve = new_trainee(network(0, shape), shape, SMALL), new_curve(40)
    sparring = sparring_of(ConstantActions(ego), Side.EGO)
    for episode in range(40):
        learn(game, trainee, sparring, curve, episode, episode + 1)
        if curve.outcomes[episode] == outcome:
            break
    assert curve.outcomes[episode] == outcome
    last = (trainee.replay.counts[WRITTEN] - 1) % SMALL.memory
    assert trainee.replay.goes_on[last] == goes_on
    if curve.steps[episode] > 1:
        assert trainee.replay.goes_on[last - 1] == 1.0


def test_the_same_seed_gives_the_same_bits_and_another_seed_other_ones() -> None:
    first, again, other = (train_ego(PRETRAINING, SHORT, seed) for seed in (3, 3, 4))
    assert first.policy.weights.tobytes() == again.policy.weights.tobytes()
    assert all(np.array_equal(a, b) for a, b in zip(first.curve, again.curve, strict=True))
    assert first.validations == again.validations
    assert not np.array_equal(first.policy.weights, other.policy.weights)


@pytest.mark.parametrize("side", [Side.EGO, Side.FRONT])
def test_a_policy_that_only_python_can_ask_teaches_the_same_bits_as_the_compiled_loop(side: Side) -> None:
    shape = Shape(8, 16, 24, ACTIONS)
    opponent = LearnedPolicy(side.other, RELEASED.observation.hash, shape, network(5, shape))
    game = new_game(RELEASED.compiled(), driving_reward().compiled(), SMALL, side, 9)
    (compiled, curve), (asked, same) = ((new_trainee(network(6, shape), shape, SMALL), new_curve(8)) for _ in range(2))
    learn(game, compiled, sparring_of(opponent, side.other), curve, 0, 8)
    learn_from_policy(game, asked, CallablePolicy(opponent.act), same, 0, 8)
    assert compiled.learner.online.tobytes() == asked.learner.online.tobytes()
    assert all(np.array_equal(a, b) for a, b in zip(curve, same, strict=True))


def test_a_broken_opponent_stops_a_training_with_its_message() -> None:
    def broken(_: np.ndarray) -> np.ndarray:
        raise RuntimeError("no fuel")

    with pytest.raises(BadSubjectError, match=r"training stopped in episode 0: .*RuntimeError: no fuel"):
        train_front(RELEASED, CallablePolicy(broken), REWARDS.get("sound")(), SHORT, 0)


def test_a_curve_tells_each_episode_and_progress_each_validation() -> None:
    told: list[tuple[int, int]] = []
    training = train_ego(PRETRAINING, SHORT, 0, progress=lambda done, total, note="": told.append((done, total)))
    assert told == [(4, 12), (8, 12), (12, 12)]
    assert [validation.episode for validation in training.validations] == [4, 8, 12]
    curve = training.curve
    assert all(len(column) == 12 for column in curve)
    assert {Outcome.of_code(code) for code in curve.outcomes.tolist()} <= {Outcome.CRASH, Outcome.TIMEOUT}
    assert (np.diff(curve.epsilons) < 0).all()
    assert training.updates == curve.steps.sum() - SMALL.batch + 1
    assert training.failure_rate == (curve.outcomes == CRASH).mean()


def test_the_kept_weights_are_the_best_validated_or_the_last() -> None:
    best = train_ego(PRETRAINING, SHORT, 1)
    ranks = [(-validation.failure_rate, validation.mean_return, validation.episode) for validation in best.validations]
    assert best.policy.facts.chosen_episode == max(ranks)[-1]
    front = train_front(RELEASED, best.policy, REWARDS.get("released")(), SHORT, 1)
    assert front.policy.facts.chosen_episode == max((seen.mean_return, seen.episode) for seen in front.validations)[-1]
    again = evaluate(RELEASED, best.policy, front.policy, SHORT.validation_episodes, child_seed(1, "validation"))
    kept = next(seen for seen in front.validations if seen.episode == front.policy.facts.chosen_episode)
    assert again.failure_rate == kept.failure_rate
    last = train_ego(PRETRAINING, replace(SHORT, selection=Selection.LAST), 1)
    assert last.policy.facts.chosen_episode == 12
    assert last.validations == ()
    assert np.array_equal(last.curve.returns, best.curve.returns)


def test_the_adversary_starts_from_the_egos_weights_and_the_ego_stays_frozen() -> None:
    ego = random_policy(Side.EGO, RELEASED.observation.hash, 8, (16, 24), np.random.default_rng(0))
    before = ego.weights.copy()
    still = replace(SHORT, episodes=1, dqn=replace(SMALL, batch=200))
    front = train_front(RELEASED, ego, REWARDS.get("sound")(), still, 0)
    assert front.updates == 0
    assert np.array_equal(front.policy.weights, before)
    assert (front.policy.role, front.policy.facts.reward) == (Side.FRONT, "sound")
    train_front(RELEASED, ego, REWARDS.get("released")(), SHORT, 0)
    again = retrain_ego(RELEASED, ego, front.policy, SHORT, 0)
    assert np.array_equal(ego.weights, before)
    assert again.policy.role is Side.EGO
    assert not np.array_equal(again.policy.weights, before)


def test_an_adversary_learns_to_make_a_blind_ego_crash_more_often_than_chance_does() -> None:
    chosen = TrainingSettings(episodes=300, dqn=DqnSettings(hidden=(32, 32), exploration_steps=600.0), validation_episodes=50)
    ego = ConstantActions(Action.FASTER)
    start = random_policy(Side.FRONT, RELEASED.observation.hash, 8, (32, 32), np.random.default_rng(0))
    front = train_front(RELEASED, ego, REWARDS.get("sound")(), chosen, 0, start=start).policy
    by_chance = evaluate(RELEASED, ego, RandomActions(), 300, 1).failure_rate
    assert evaluate(RELEASED, ego, front, 300, 1).failure_rate > by_chance + 0.2


def test_who_cannot_be_trained_is_refused() -> None:
    ego = random_policy(Side.EGO, RELEASED.observation.hash, 8, (16, 24), np.random.default_rng(0))
    with pytest.raises(BadParametersError, match="frozen ego"):
        retrain_ego(RELEASED, ego, SearchedActions(), SHORT, 0)
    with pytest.raises(BadSubjectError, match="front"):
        retrain_ego(RELEASED, ego, ego, SHORT, 0)
    with pytest.raises(BadParametersError, match="IDM drives the front vehicle only"):
        train_front(RELEASED, Idm(), REWARDS.get("paper")(), SHORT, 0, start=replace(ego, role=Side.FRONT))
    with pytest.raises(BadParametersError, match="multiple of 8"):
        DqnSettings(batch=30)
    with pytest.raises(BadParametersError, match="at least 1"):
        TrainingSettings(episodes=0)
