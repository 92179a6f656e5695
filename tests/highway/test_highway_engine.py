"""The compiled engine by itself: chance by counting, starts, meta-actions, ends, batches, observations."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.highway import engine
from skidpad.highway.backend import EngineBackend, Start, highway_backend
from skidpad.highway.layout import (
    CRASH,
    CRASHED,
    EGO,
    ERROR,
    FRONT,
    HEADING,
    LANE,
    OVERTAKEN,
    RUNNING,
    SPEED,
    STEPS,
    STRUCK,
    TARGET_LANE,
    TARGET_SPEED,
    TIMEOUT,
    Action,
    Outcome,
    Side,
    X,
    Y,
)
from skidpad.highway.observation import Feature, ObservationSpec, Quantity
from skidpad.highway.randomness import START_STREAM, stream_key, uniform
from skidpad.highway.scenario import Scenario
from skidpad.highway.scenes import PAPER, PRESETS, PRETRAINING, RELEASED

FAST = replace(RELEASED, simulation_hz=5)
ENDLESS = replace(FAST, overtake_end_m=None, episode_steps=10_000)
WORD = (1 << 64) - 1


def splitmix(word: int) -> int:
    """SplitMix64's output function, in whole numbers without bounds."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & WORD
    return word ^ (word >> 31)


def start_of(scenario: Scenario, **changes: float) -> Start:
    return replace(Start.drawn(scenario, 0, 0), **changes)


def begun(scenario: Scenario, **changes: float) -> EngineBackend:
    backend = EngineBackend(scenario)
    backend.place(start_of(scenario, **changes))
    return backend


FAR = {"ego_lane": 0, "front_lane": 1, "ego_x_m": 100.0, "front_x_m": 300.0, "ego_speed_mps": 25.0, "front_speed_mps": 25.0}


# chance


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**9), st.integers(0, 3), st.integers(0, 10**6))
def test_chance_is_splitmix_by_counting(seed: int, episode: int, stream: int, counter: int) -> None:
    stride = 0x9E3779B97F4A7C15
    key = splitmix((seed + stride) & WORD)
    key = splitmix(key ^ splitmix((episode + stride) & WORD))
    key = splitmix((key + (stream + 1) * stride) & WORD)
    got = stream_key(seed, episode, stream)
    assert int(got) == key
    word = splitmix((key + (counter + 1) * stride) & WORD)
    assert uniform(np.uint64(key), counter) == (word >> 11) / 2**53


def test_chance_is_uniform_across_counters_and_episodes() -> None:
    along = np.array([uniform(np.uint64(stream_key(3, 0, START_STREAM)), counter) for counter in range(4000)])
    across = np.array([uniform(np.uint64(stream_key(3, episode, START_STREAM)), 0) for episode in range(4000)])
    for draws in (along, across):
        counts = np.bincount((draws * 10).astype(int), minlength=10)
        assert ((counts - 400) ** 2 / 400).sum() < 33.7  # chi-squared with 9 degrees of freedom, p = 1e-4
    assert abs(np.corrcoef(along, across)[0, 1]) < 0.06


# starts


@given(st.sampled_from(sorted(PRESETS)), st.integers(0, 2**40), st.integers(0, 10**6))
def test_starts_lie_within_the_scenario(name: str, seed: int, episode: int) -> None:
    scenario = PRESETS[name]
    start = Start.drawn(scenario, seed, episode)
    assert {start.ego_lane, start.front_lane} <= set(range(scenario.lanes))
    assert scenario.ego_speed_mps[0] <= start.ego_speed_mps <= scenario.ego_speed_mps[1]
    assert scenario.front_speed_mps[0] <= start.front_speed_mps <= scenario.front_speed_mps[1]
    assert 3.5 <= start.idm_exponent <= 4.5
    gap_m = start.front_x_m - start.ego_x_m
    low, high = scenario.spacing
    if scenario is PAPER:
        assert 5.0 + low - 1e-9 <= gap_m <= 5.0 + high + 1e-9
    else:
        unit_m = (12 + start.front_speed_mps) * np.exp(-scenario.lanes / 8)
        assert 0.9 * low * unit_m - 1e-9 <= gap_m <= 1.1 * high * unit_m + 1e-9
    assert Start.from_array(start.to_array()) == start


def test_the_starts_of_pretraining_are_highway_envs_own() -> None:
    from highway_env.envs.highway_env import HighwayEnvFast

    environment = HighwayEnvFast(
        {"lanes_count": 2, "vehicles_count": 1, "observation": {"type": "AttributesObservation", "attributes": []}}
    )
    theirs, ours = [], []
    for number in range(150):
        environment.reset(seed=number)
        ego, front = environment.road.vehicles
        theirs.append([ego.position[0], ego.speed, front.position[0] - ego.position[0], front.speed, front.DELTA, front.lane_index[2]])
        start = Start.drawn(PRETRAINING, 1, number)
        gap_m = start.front_x_m - start.ego_x_m
        ours.append([start.ego_x_m, start.ego_speed_mps, gap_m, start.front_speed_mps, start.idm_exponent, start.front_lane])
    real, mine = np.array(theirs), np.array(ours)
    # two samples of one distribution: means within four standard errors, ranges nearly the same
    error = np.sqrt((real.var(axis=0) + mine.var(axis=0)) / 150)
    assert (np.abs(real.mean(axis=0) - mine.mean(axis=0)) <= 4 * error + 1e-12).all()
    spread = np.ptp(real, axis=0)
    assert (np.abs(real.min(axis=0) - mine.min(axis=0)) <= 0.15 * spread + 1e-12).all()
    assert (np.abs(real.max(axis=0) - mine.max(axis=0)) <= 0.15 * spread + 1e-12).all()


def test_both_lanes_and_the_whole_range_are_drawn() -> None:
    starts = [Start.drawn(RELEASED, 1, episode) for episode in range(400)]
    pairs = np.bincount([2 * start.ego_lane + start.front_lane for start in starts], minlength=4)
    assert pairs.min() > 60
    gaps_m = np.array([start.front_x_m - start.ego_x_m for start in starts])
    assert 12.9 < gaps_m.min() < 16
    assert 57 < gaps_m.max() < 63.5


# actions


def test_faster_and_slower_count_from_the_present_speed() -> None:
    backend = begun(ENDLESS, **FAR)
    backend.step(Action.FASTER, Action.SLOWER)
    assert backend.state[:, TARGET_SPEED].tolist() == [30.0, 20.0]
    # after one second at 5 Hz the ego is at 29.3 m/s: nearest is 30, and faster stays there
    backend.step(Action.FASTER, Action.FASTER)
    assert backend.state[:, TARGET_SPEED].tolist() == [30.0, 25.0]
    for _ in range(20):
        backend.step(Action.SLOWER, Action.IDLE)
    assert backend.state[EGO, SPEED] == pytest.approx(20.0, abs=1e-3)
    assert backend.state[FRONT, SPEED] == pytest.approx(25.0, abs=1e-3)


@pytest.mark.parametrize(("speed_mps", "target_mps"), [(22.5, 20.0), (27.5, 30.0), (22.6, 25.0), (10.0, 20.0), (39.0, 30.0)])
def test_the_first_target_is_the_nearest_and_halves_go_to_the_even(speed_mps: float, target_mps: float) -> None:
    assert begun(ENDLESS, **(FAR | {"ego_speed_mps": speed_mps})).state[EGO, TARGET_SPEED] == target_mps


def test_lanes_are_changed_and_end_at_the_edge() -> None:
    backend = begun(ENDLESS, **FAR)
    backend.step(Action.LEFT, Action.RIGHT)
    assert backend.state[:, TARGET_LANE].tolist() == [0.0, 1.0]
    assert backend.state[:, Y].tolist() == [0.0, 4.0]
    for _ in range(6):
        backend.step(Action.RIGHT, Action.LEFT)
    assert backend.state[:, LANE].tolist() == [1.0, 0.0]
    assert backend.state[:, Y] == pytest.approx([4.0, 0.0], abs=0.05)
    assert backend.state[:, HEADING] == pytest.approx([0.0, 0.0], abs=0.02)


def test_idle_on_a_straight_way_changes_nothing_but_x() -> None:
    backend = begun(ENDLESS, **FAR)
    before = backend.state
    for _ in range(5):
        backend.step(Action.IDLE, Action.IDLE)
    after = backend.state
    assert after[:, X] - before[:, X] == pytest.approx([125.0, 125.0])
    for column in (Y, HEADING, SPEED, LANE, TARGET_LANE, TARGET_SPEED, CRASHED, STRUCK):
        assert np.array_equal(after[:, column], before[:, column])


@pytest.mark.parametrize("action", [-1, 5, 99])
def test_an_action_that_is_none_is_refused(action: int) -> None:
    backend = begun(FAST, **FAR)
    with pytest.raises(BadParametersError, match=f"got {action}"):
        backend.step(action, 0)
    with pytest.raises(BadParametersError, match=f"got {action}"):
        backend.step(0, action)


# ends


def test_a_vehicle_that_brakes_right_ahead_is_hit() -> None:
    backend = begun(FAST, **(FAR | {"front_lane": 0, "front_x_m": 112.0, "ego_speed_mps": 30.0, "front_speed_mps": 20.0}))
    outcomes = [backend.step(Action.FASTER, Action.SLOWER) for _ in range(2)]
    assert Outcome.CRASH in outcomes
    assert backend.state[:, CRASHED].tolist() == [1.0, 1.0]
    for _ in range(10):  # wrecks roll out, and stay wrecks
        assert backend.step(Action.FASTER, Action.FASTER) is Outcome.CRASH
    assert np.abs(backend.state[:, SPEED]).max() < 0.1


def test_passing_in_the_other_lane_is_an_overtaking_where_that_ends_it() -> None:
    changes = FAR | {"front_x_m": 115.0, "ego_speed_mps": 30.0, "front_speed_mps": 20.0}
    assert begun(FAST, **changes).step(Action.IDLE, Action.IDLE) is None
    backend = begun(FAST, **changes)
    outcomes = [backend.step(Action.IDLE, Action.IDLE) for _ in range(2)]
    assert outcomes == [None, Outcome.OVERTAKEN]
    assert 15.0 - 20.0 < 3.0 < 15.0 - 10.0  # the gap after one step and after two
    late = begun(replace(FAST, overtake_end_m=None), **changes)
    assert [late.step(Action.IDLE, Action.IDLE) for _ in range(2)] == [None, None]


@pytest.mark.parametrize("steps", [1, 7, 30])
def test_time_runs_out_after_the_episodes_steps(steps: int) -> None:
    backend = begun(replace(FAST, episode_steps=steps), **FAR)
    outcomes = [backend.step(Action.IDLE, Action.IDLE) for _ in range(steps)]
    assert outcomes == [None] * (steps - 1) + [Outcome.TIMEOUT]
    assert backend.state[:, STEPS].tolist() == [steps, steps]


def test_a_crash_goes_before_an_overtaking_and_that_before_time() -> None:
    params = replace(FAST, episode_steps=1).compiled()
    state = begun(FAST, **FAR).state
    assert engine.outcome_of(params, state) == RUNNING
    state[EGO, STEPS] = 1
    assert engine.outcome_of(params, state) == TIMEOUT
    state[FRONT, X] = state[EGO, X] + 3.0
    assert engine.outcome_of(params, state) == OVERTAKEN
    state[EGO, CRASHED] = 1.0
    assert engine.outcome_of(params, state) == CRASH


def test_outcomes_and_codes_belong_together() -> None:
    assert Outcome.of_code(RUNNING) is None
    assert [outcome.code for outcome in Outcome] == [CRASH, OVERTAKEN, TIMEOUT, ERROR]
    assert all(Outcome.of_code(outcome.code) is outcome for outcome in Outcome)
    assert [side.other for side in Side] == [Side.FRONT, Side.EGO]


# batches


def roll(scenario: Scenario, numbers: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drives the episodes numbered (N,) with actions (steps, 2, N) until they end."""
    params, states, outcomes = scenario.compiled(), engine.new_states(len(numbers)), np.zeros(len(numbers), np.int64)
    engine.reset_many(params, 9, numbers, states, outcomes)
    for ego, front in actions:
        engine.step_many(params, states, ego, front, outcomes)
    return states, outcomes


@pytest.mark.parametrize("scenario", [RELEASED, PRETRAINING], ids=lambda scenario: scenario.name)
def test_order_batches_and_threads_change_no_episode(scenario: Scenario) -> None:
    numbers = np.arange(120)
    actions = np.random.default_rng(0).integers(0, 5, (scenario.episode_steps, 2, len(numbers)))
    states, outcomes = roll(scenario, numbers, actions)
    assert set(outcomes.tolist()) >= {CRASH, TIMEOUT}
    mixed = np.random.default_rng(1).permutation(len(numbers))
    again, ends = roll(scenario, numbers[mixed], actions[:, :, mixed])
    assert np.array_equal(again, states[mixed])
    assert np.array_equal(ends, outcomes[mixed])
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda rows: roll(scenario, numbers[rows], actions[:, :, rows])[0], np.array_split(numbers, 7)))
    assert np.array_equal(np.concatenate(parts), states)


def test_a_batch_is_many_single_episodes() -> None:
    numbers = np.arange(20)
    actions = np.random.default_rng(3).integers(0, 5, (FAST.episode_steps, 2, len(numbers)))
    states, outcomes = roll(FAST, numbers, actions)
    backend = EngineBackend(FAST)
    for number in numbers:
        backend.reset(9, int(number))
        outcome = None
        for ego, front in actions[:, :, number]:
            outcome = backend.step(int(ego), int(front))
            if outcome is not None:
                break
        assert np.array_equal(backend.state, states[number])
        assert outcome is Outcome.of_code(int(outcomes[number]))


def test_a_bad_action_ends_its_own_episode_alone() -> None:
    params, states, outcomes = FAST.compiled(), engine.new_states(4), np.zeros(4, np.int64)
    engine.reset_many(params, 1, np.arange(4), states, outcomes)
    before = states.copy()
    running = engine.step_many(params, states, np.array([1, 5, 1, 1]), np.array([1, 1, -1, 1]), outcomes)
    assert outcomes.tolist() == [RUNNING, ERROR, ERROR, RUNNING]
    assert running == 2
    assert np.array_equal(states[1:3], before[1:3])
    assert (states[[0, 3], :, X] > before[[0, 3], :, X]).all()


def test_idm_in_front_needs_no_action() -> None:
    params, states, outcomes = PRETRAINING.compiled(), engine.new_states(1), np.zeros(1, np.int64)
    engine.reset_many(params, 1, np.arange(1), states, outcomes)
    assert engine.step_many(params, states, np.array([1]), np.array([-1]), outcomes) == 1


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([RELEASED, PAPER, PRETRAINING]), st.integers(1, 4))
def test_nothing_ever_leaves_the_finite(seed: int, scenario: Scenario, lanes: int) -> None:
    backend = EngineBackend(replace(scenario, lanes=lanes))
    backend.reset(seed, 0)
    rng = np.random.default_rng(seed)
    for _ in range(40):  # on past any end
        backend.step(*rng.integers(0, 5, 2).tolist())
    state = backend.state
    assert np.isfinite(state).all()
    assert ((state[:, LANE] >= 0) & (state[:, LANE] < lanes)).all()
    assert (state[EGO, CRASHED] == 0) == (state[FRONT, CRASHED] == 0)
    assert np.abs(state[:, SPEED]).max() <= 40


# observations


def reference(spec: ObservationSpec, state: np.ndarray, side: Side) -> np.ndarray:
    """The observation in plain NumPy, from its description."""
    rows = np.zeros((spec.vehicles, len(spec.features)))
    own, other = state[side], state[side.other]

    def values(row: np.ndarray) -> dict[Quantity, float]:
        direction = np.array([np.cos(row[HEADING]), np.sin(row[HEADING])])
        vx, vy = row[SPEED] * direction
        return dict(zip(Quantity, (1.0, row[X], row[Y], vx, vy, row[HEADING], *direction), strict=True))

    apart = other[[X, Y]] - own[[X, Y]]
    is_seen = np.hypot(*apart) < spec.perception_m and (spec.sees_behind or apart[0] > -10)
    for place, row in enumerate([own, other][: spec.vehicles]):
        if place == 1 and not is_seen:
            continue
        for column, feature in enumerate(spec.features):
            value = values(row)[feature.quantity]
            if place == 1 and not spec.is_absolute and feature.quantity.value in ("x", "y", "vx", "vy"):
                value -= values(own)[feature.quantity]
            if feature.low is not None:
                value = 2 * (value - feature.low) / (feature.high - feature.low) - 1
                value = np.clip(value, -1, 1) if spec.is_clipped else value
            rows[place, column] = value
    return rows.ravel()


@settings(max_examples=60)
@given(
    st.integers(0, 1000),
    st.integers(0, 8),
    st.lists(st.sampled_from(Quantity), min_size=1, max_size=5, unique=True),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.integers(1, 4),
    st.sampled_from([20.0, 200.0]),
)
def test_observations_are_as_described(
    episode: int, steps: int, quantities: list[Quantity], truths: list[bool], vehicles: int, perception_m: float
) -> None:
    is_scaled, is_absolute, is_clipped, sees_behind = truths
    features = tuple(Feature(quantity, *((-30.0, 90.0) if is_scaled else (None, None))) for quantity in quantities)
    spec = ObservationSpec(features, vehicles, is_absolute, is_clipped, sees_behind, perception_m)
    backend = EngineBackend(replace(ENDLESS, observation=spec))
    backend.reset(1, episode)
    rng = np.random.default_rng(episode)
    for _ in range(steps):
        backend.step(*rng.integers(0, 5, 2).tolist())
    for side in Side:
        seen = backend.observe(side)
        assert seen.dtype == np.float32
        assert np.allclose(seen, reference(spec, backend.state, side), rtol=1e-6, atol=1e-6)
        lows, highs = spec.bounds()
        assert ((seen >= lows) & (seen <= highs)).all()


def test_what_drives_neither_scenario_nor_scene_is_refused() -> None:
    with pytest.raises(BadParametersError, match="scenario or a scene"):
        highway_backend()
