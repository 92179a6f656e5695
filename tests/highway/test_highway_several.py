"""Several front vehicles at once: joint actions, who is seen, what ends an episode, one network for all, against plain Python."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError, BadSubjectError
from skidpad.highway.avoidability import NEVER, EscapeSettings, can_overtake, last_escapes
from skidpad.highway.backend import EngineBackend, Start
from skidpad.highway.dense import Shape
from skidpad.highway.dqn import WRITTEN, DqnSettings, update
from skidpad.highway.dqn import draw as draw_batch
from skidpad.highway.dqn import remember as remember_step
from skidpad.highway.engine import new_state, place, reset, start_fields, step
from skidpad.highway.episodes import trace
from skidpad.highway.evaluation import drawn_starts, evaluate, find_sequences
from skidpad.highway.layout import (
    ACTIONS,
    CRASH,
    CRASHED,
    RUNNING,
    STRUCK,
    TARGET_LANE,
    TIMEOUT,
    Action,
    Outcome,
    Side,
    X,
    action_of,
    everyone,
)
from skidpad.highway.learning import learn, learn_from_policy, new_curve, new_game, new_trainee, sparring_of
from skidpad.highway.observation import observe
from skidpad.highway.opponents import AggressiveActions, ConstantActions, Idm, RandomActions, SearchedActions
from skidpad.highway.policies import CallablePolicy, LearnedPolicy, load_policy, random_policy, save_policy
from skidpad.highway.randomness import LEARNER_STREAM, stream_key, uniform, whole
from skidpad.highway.rewards import REWARDS, pay
from skidpad.highway.safe_distance import first_break
from skidpad.highway.scenario import Scenario
from skidpad.highway.scenes import PRETRAINING, RELEASED
from skidpad.highway.training import TrainingSettings, train_front

THREE = replace(RELEASED, name="three").crowded(3)
SMALL = DqnSettings(hidden=(16, 24), batch=8, memory=400)


@pytest.fixture(scope="module")
def ego() -> LearnedPolicy:
    return policy(Side.EGO, 0)


def policy(role: Side, seed: int, scenario: Scenario = THREE) -> LearnedPolicy:
    spec = scenario.observation
    return random_policy(role, spec.hash, spec.size, (16, 24), np.random.default_rng(seed))


def test_a_joint_action_is_taken_apart_as_it_was_put_together() -> None:
    params = THREE.compiled()
    for joint in range(ACTIONS**3):
        parts = [action_of(joint, vehicle) for vehicle in (1, 2, 3)]
        assert parts[0] + ACTIONS * parts[1] + ACTIONS**2 * parts[2] == joint
    assert [action_of(everyone(params, int(Action.SLOWER)), vehicle) for vehicle in (1, 2, 3)] == [Action.SLOWER] * 3


def test_each_front_vehicle_stands_ahead_of_the_one_before_and_the_first_two_start_as_alone() -> None:
    for episode in range(20):
        start = Start.drawn(THREE, 4, episode)
        places = [start.ego_x_m, start.front_x_m, *(further[1] for further in start.further)]
        assert (np.diff(places) > 10.0).all()
        assert replace(start, further=()) == Start.drawn(RELEASED, 4, episode)
        assert Start.from_array(start.to_array()) == start
    assert start_fields(THREE.compiled()) == len(start.to_array()) == 15


def test_each_obeys_its_own_part_of_a_joint_action() -> None:
    backend = EngineBackend(THREE)
    for vehicle in (1, 2, 3):
        backend.reset(1, 0)
        before = backend.state
        turn = Action.RIGHT if before[vehicle, TARGET_LANE] == 0 else Action.LEFT
        actions = [int(turn) if other == vehicle else int(Action.IDLE) for other in (1, 2, 3)]
        backend.step(int(Action.IDLE), sum(action * ACTIONS**place for place, action in enumerate(actions)))
        assert np.flatnonzero(backend.state[:, TARGET_LANE] != before[:, TARGET_LANE]).tolist() == [vehicle]
    with pytest.raises(BadParametersError, match=r"0 \.\. 124"):
        backend.step(1, ACTIONS**3)


def test_the_nearest_is_seen_first_and_the_ego_before_all_others() -> None:
    backend, width = EngineBackend(THREE), len(THREE.observation.features)
    for episode in range(10):
        backend.reset(3, episode)
        for _ in range(4):
            backend.step(int(Action.FASTER), everyone(THREE.compiled(), int(Action.SLOWER)))
        along = backend.state[:, X]
        for vehicle in range(4):
            others = sorted((other for other in range(4) if other != vehicle), key=lambda other: abs(along[other] - along[vehicle]))
            order = [vehicle, *sorted(others, key=lambda other: other != 0)]
            seen = backend.observe(vehicle).reshape(4, width)[:, 0] * 1200.0
            np.testing.assert_allclose(seen, along[order], rtol=1e-5)


def test_a_crash_is_the_egos_and_overtaken_is_who_has_passed_all() -> None:
    backend = EngineBackend(THREE)
    wreck = ((0.0, 200.0, 25.0, 4.0), (0.0, 212.0, 20.0, 4.0))
    backend.place(Start(1, 100.0, 20.0, 1, 160.0, 25.0, 4.0, wreck))
    joint = int(Action.IDLE) + ACTIONS * int(Action.FASTER) + ACTIONS**2 * int(Action.SLOWER)
    while not backend.state[2, CRASHED]:
        outcome = backend.step(int(Action.SLOWER), joint)
    assert outcome is None
    assert backend.state[[0, 1], CRASHED].tolist() == [0.0, 0.0]
    backend.place(Start(0, 100.0, 30.0, 1, 101.0, 20.0, 4.0, ((1.0, 130.0, 20.0, 4.0), (1.0, 160.0, 20.0, 4.0))))
    outcomes = [backend.step(int(Action.IDLE), everyone(THREE.compiled(), int(Action.IDLE))) for _ in range(7)]
    passed = next(place for place, outcome in enumerate(outcomes) if outcome is Outcome.OVERTAKEN)
    assert outcomes[:passed] == [None] * passed
    assert passed >= 3  # the last of the three is 60 m ahead, and 10 m/s slower


def in_plain_python(game, trainee, sparring_actions, episodes: int) -> None:
    """The learning of several front vehicles, one call at a time."""
    params, learners = game.params, game.params.vehicles - 1
    size, total = params.observed_vehicles * len(params.feature_codes), 0
    for episode in range(episodes):
        reset(params, game.seed, episode, trainee.state)
        trainee.earned[:] = 0.0
        key, counter, code, index = stream_key(game.seed, episode, LEARNER_STREAM), 0, RUNNING, 0
        while code == RUNNING:
            net = LearnedPolicy(Side.FRONT, "", Shape(size, *SMALL.hidden, ACTIONS), trainee.learner.online)
            before, chosen = np.zeros((learners, trainee.then.shape[1]), np.float32), []
            for each in range(learners):
                observe(params, trainee.state, 1 + each, before[each])
                action = int(net.act(before[each : each + 1, :size])[0])
                epsilon = game.exploration.end + (game.exploration.start - game.exploration.end) * np.exp(-total / game.exploration.steps)
                if uniform(np.uint64(key), counter) < epsilon:
                    action = int(whole(np.uint64(key), counter + 1, ACTIONS))
                counter += 2
                chosen.append(action)
            joint = sum(action * ACTIONS**each for each, action in enumerate(chosen))
            code = step(params, trainee.state, sparring_actions, joint)
            for each, action in enumerate(chosen):
                reward = pay(game.reward, params.lanes, trainee.state, 1 + each, code == CRASH, trainee.earned[each])
                observe(params, trainee.state, 1 + each, trainee.then[each])
                remember_step(trainee.replay, before[each], action, reward, trainee.then[each], float(code in {RUNNING, TIMEOUT}))
                if trainee.replay.counts[WRITTEN] >= len(trainee.rows):
                    counter = draw_batch(trainee.replay, np.uint64(key), counter, trainee.rows, trainee.batch)
                    update(trainee.learner, game.rates, trainee.batch, ACTIONS)
            total, index = total + 1, index + 1


def test_three_front_vehicles_learn_in_one_network_as_plain_python_does(ego) -> None:
    game = new_game(THREE.compiled(), REWARDS.get("sound")().compiled(), SMALL, Side.FRONT, 9)
    first, second = (new_trainee(ego.weights, ego.shape, SMALL, 3, 4) for _ in range(2))
    curve = new_curve(4)
    learn(game, first, sparring_of(ConstantActions(Action.FASTER), Side.EGO), curve, 0, 4)
    in_plain_python(game, second, int(Action.FASTER), 4)
    assert first.replay.counts[WRITTEN] == second.replay.counts[WRITTEN] == 3 * curve.steps.sum()
    assert first.learner.online.tobytes() == second.learner.online.tobytes()
    assert first.learner.online.tobytes() != ego.weights.tobytes()


@pytest.mark.parametrize("side", [Side.EGO, Side.FRONT])
def test_a_policy_that_only_python_can_ask_teaches_the_same_bits(ego, side: Side) -> None:
    other, learners = policy(side.other, 5), 1 if side is Side.EGO else 3
    game = new_game(THREE.compiled(), REWARDS.get("sound")().compiled(), SMALL, side, 9)
    compiled, asked = (new_trainee(ego.weights, ego.shape, SMALL, learners, 4) for _ in range(2))
    learn(game, compiled, sparring_of(other, side.other), new_curve(4), 0, 4)
    learn_from_policy(game, asked, CallablePolicy(other.act), new_curve(4), 0, 4)
    assert compiled.learner.online.tobytes() == asked.learner.online.tobytes()


def test_episodes_are_driven_again_from_their_joint_actions(ego) -> None:
    for front in (RandomActions(), AggressiveActions(), ConstantActions(Action.SLOWER), policy(Side.FRONT, 2), SearchedActions(6)):
        driven = evaluate(THREE, ego, front, 6, 1)
        alone = evaluate(THREE, ego, front, 2, 1, first_episode=3)
        assert np.array_equal(driven.front_actions[3:5], alone.front_actions)
        for row in range(len(driven)):
            states = driven.trajectory(row)
            assert states.shape == (driven.steps[row] + 1, 4, states.shape[2])
            assert bool(states[-1, 0, CRASHED]) == (driven.outcomes[row] == CRASH)
    parts = [action_of(int(joint), vehicle) for joint in driven.front_actions[0, : driven.steps[0]] for vehicle in (1, 2, 3)]
    assert set(parts) <= set(range(ACTIONS))
    assert evaluate(PRETRAINING.crowded(3), ego, Idm(), 4, 1).count(Outcome.ERROR) == 0


def test_a_search_shares_its_depth_among_the_front_vehicles() -> None:
    starts = drawn_starts(THREE, 5, np.arange(2))
    assert find_sequences(THREE, ConstantActions(Action.FASTER), starts, 6, 5, np.arange(2)).actions.shape == (2, 2)


def test_what_a_wall_of_wrecks_does_nobody_could_avoid() -> None:
    walls = replace(THREE, overtake_end_m=None)
    # the front vehicles of each lane run into each other side by side, right before an ego that cannot go below 20 m/s
    start = Start(0, 100.0, 30.0, 0, 108.0, 20.0, 4.0, ((1.0, 108.0, 20.0, 4.0), (1.0, 300.0, 20.0, 4.0)))
    idle = np.full((1, 3), everyone(walls.compiled(), int(Action.SLOWER)))
    ego_actions = np.full((1, 3), int(Action.SLOWER))
    seen = trace(walls, start.to_array(), ego_actions[0], idle[0])
    assert seen.impact_frame is not None
    assert seen.struck(seen.impact_frame) == 1
    assert last_escapes(walls, start.to_array()[None], ego_actions, idle, np.array([1]))[0] == NEVER
    assert first_break(seen).who.value == "start"
    with pytest.raises(BadParametersError, match="one front vehicle"):
        can_overtake(THREE, drawn_starts(THREE, 1, np.arange(1)), 2)


def test_a_policy_trained_with_one_front_vehicle_ignores_the_others(tmp_path) -> None:
    narrow = policy(Side.EGO, 3, RELEASED)
    save_policy(narrow, tmp_path / "ego.safetensors")
    wide = load_policy(tmp_path / "ego.safetensors", Side.EGO, THREE.observation)
    seen = np.random.default_rng(1).normal(size=(20, 16)).astype(np.float32)
    assert wide.act(seen).tolist() == narrow.act(seen[:, :8]).tolist()
    save_policy(wide, tmp_path / "wide.safetensors")
    with pytest.raises(BadSubjectError, match="observation"):
        load_policy(tmp_path / "wide.safetensors", Side.EGO, RELEASED.observation)


def test_several_adversaries_train_to_the_same_bits_and_more_than_three_are_refused(ego) -> None:
    short = TrainingSettings(episodes=6, dqn=SMALL, validate_every=3, validation_episodes=4)
    first, again = (train_front(THREE, ego, REWARDS.get("released")(), short, 3) for _ in range(2))
    assert first.policy.weights.tobytes() == again.policy.weights.tobytes()
    assert np.array_equal(first.curve.returns, again.curve.returns)
    with pytest.raises(BadParametersError, match="at most 3"):
        replace(RELEASED, fronts=4)


def last_escape_of_all(scenario: Scenario, start: np.ndarray, ego: list[int], front: list[int], follow_on: int) -> int:
    """The last step from which one of all sequences avoids the crash, by trying them all."""
    params, idle = scenario.compiled(), everyone(scenario.compiled(), int(Action.IDLE))
    horizon = [*front, *[idle] * follow_on]
    for index in range(len(ego) - 1, -1, -1):
        for sequence in product(range(ACTIONS), repeat=len(horizon) - index):
            state, code = new_state(params.vehicles), RUNNING
            place(params, start, state)
            for action, joint in zip([*ego[:index], *sequence], horizon, strict=True):
                code = step(params, state, action, joint)
                if code != RUNNING:
                    break
            if code != CRASH and state[0, STRUCK] == 0.0:
                return index
    return NEVER


def test_the_last_chance_among_two_is_that_of_all_sequences() -> None:
    two = replace(RELEASED, name="two", simulation_hz=5, spacing=(0.3, 0.6)).crowded(2)
    driven = evaluate(two, ConstantActions(Action.FASTER), AggressiveActions(), 30, 2)
    rows = [row for row in np.flatnonzero(driven.outcomes == CRASH) if driven.steps[row] <= 4][:6]
    assert len(rows) >= 3
    actions = driven.ego_actions[rows].astype(np.int64), driven.front_actions[rows].astype(np.int64)
    found = last_escapes(two, driven.starts[rows], *actions, driven.steps[rows], EscapeSettings(follow_on_steps=1))
    for row, last in zip(rows, found.tolist(), strict=True):
        steps = driven.steps[row]
        done = driven.ego_actions[row, :steps].tolist(), driven.front_actions[row, :steps].tolist()
        assert last == last_escape_of_all(two, driven.starts[row], *done, 1)
