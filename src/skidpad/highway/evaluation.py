"""Tests an ego against opponents, and searches ahead of a test.

The searches find the front vehicle's shortest sequence of actions that makes the ego crash, and the fastest way of an ego that knows
what the front vehicle will do, which bounds what any ego could reach with that opponent.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.engine import draw_start, new_states, place_many, start_fields, start_from, step_many
from skidpad.highway.episodes import NO_ACTION, Episodes, PolicyFailure
from skidpad.highway.layout import (
    ACTIONS,
    CRASH,
    EGO,
    ERROR,
    FRONT,
    HEADING,
    LANE,
    RUNNING,
    SPEED,
    STRUCK,
    TARGET_SPEED,
    Action,
    Params,
    Side,
    X,
    Y,
    everyone,
)
from skidpad.highway.opponents import Driver, DriverAnswers, Idm, Opponent, PlannedActions, SearchedActions, ask_driver, check_fit
from skidpad.highway.scenario import FrontDriver, Scenario


def plan_sequences(scenario: Scenario, front: Opponent, starts: FloatArray, width: int, seed: int, numbers: IntArray) -> NDArray[np.int8]:
    """Returns for each start, (N, start_fields), the ego's fastest sequence without a crash that was found, (N, episode_steps).

    All five actions are tried at each step, and of the ways that end on the same lane with the same wanted speed the `width`
    farthest are followed; a way that is slow stays among them, so one without a crash is seldom lost. The front vehicle answers each
    way as it would: this ego knows its opponent, including the dice of one that acts by chance. Where every way ends in a crash, the
    sequence is SLOWER throughout.
    """
    if isinstance(front, SearchedActions):
        raise BadParametersError("a plan needs an opponent that answers; the search works on one frozen ego")
    params, limit = scenario.compiled(), scenario.episode_steps
    found = np.full((len(starts), limit), int(Action.SLOWER), np.int8)
    best_mps = np.full(len(starts), -np.inf)
    states, owners = new_states(len(starts), params.vehicles), np.arange(len(starts))
    place_many(params, starts, states)
    began_m, ways = states[:, EGO, X].copy(), np.empty((len(starts), 0), np.int8)
    for step in range(limit):
        fronts = np.full(len(states), everyone(params, int(Action.IDLE)))
        if not isinstance(front, Idm):
            fronts = ask_driver(front, params, states, Side.FRONT, seed, numbers[owners], step).actions
        egos, outcomes = np.tile(np.arange(ACTIONS), len(states)), np.full(ACTIONS * len(states), RUNNING)
        states, owners = np.repeat(states, ACTIONS, axis=0), np.repeat(owners, ACTIONS)
        step_many(params, states, egos, np.repeat(fronts, ACTIONS), outcomes)
        ways = np.column_stack((np.repeat(ways, ACTIONS, axis=0), egos.astype(np.int8)))
        is_safe = (outcomes != CRASH) & (outcomes != ERROR) & (states[:, EGO, STRUCK] == 0.0)
        for row in np.flatnonzero(is_safe & (outcomes != RUNNING)).tolist():
            owner = owners[row]
            mps = (states[row, EGO, X] - began_m[owner]) / (step + 1)
            if mps > best_mps[owner]:
                best_mps[owner] = mps
                found[owner, : step + 1] = ways[row]
        rows = np.flatnonzero(is_safe & (outcomes == RUNNING))
        rows = rows[_farthest(states[rows], owners[rows], width)]
        states, owners, ways = states[rows], owners[rows], ways[rows]
        if not len(rows):
            break
    return found


def _farthest(states: FloatArray, owners: IntArray, width: int) -> IntArray:
    """Returns the rows that are followed: of each start, lane and wanted speed the farthest; the first of equals."""
    ego = states[:, EGO]
    order = np.lexsort((-ego[:, X], ego[:, TARGET_SPEED], ego[:, LANE], owners))
    keys = np.column_stack((owners, ego[:, LANE], ego[:, TARGET_SPEED]))[order]
    spots = ego[order][:, [X, Y]]
    is_same = np.zeros(len(order), np.bool_)  # LEFT on the leftmost lane is IDLE, and need not be followed twice
    is_same[1:] = (keys[1:] == keys[:-1]).all(axis=1) & (spots[1:] == spots[:-1]).all(axis=1)
    order, keys = order[~is_same], keys[~is_same]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    firsts = np.flatnonzero(is_new)
    places = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
    return np.sort(order[places < width])


_GROUP = 8
"""Scenarios searched at once: enough to fill the network's batches, few enough to keep the widest level in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundSequences:
    """The shortest crashing sequences of N scenarios."""

    actions: NDArray[np.int8]
    """(N, depth), -1 after the end."""
    lengths: IntArray
    """(N,), 0 where no sequence crashes."""
    driven: int
    """Policy steps that the search drove."""


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """The different states that can be reached with the same number of steps, and how."""

    states: FloatArray
    owners: IntArray
    actions: NDArray[np.int8]

    def take(self, rows: IntArray) -> "_Level":
        return _Level(self.states[rows], self.owners[rows], self.actions[rows])


def find_sequences(scenario: Scenario, ego: Driver, starts: FloatArray, depth: int, seed: int, numbers: IntArray) -> FoundSequences:
    """Returns for each start, (N, start_fields), the first shortest sequence of up to `depth` actions that makes the ego crash.

    Branches that come to the same state are driven once, which leaves about three of five. A branch on which the ego's policy
    fails is dropped. Several front vehicles share the depth, since each makes a step five times as wide. `seed` and `numbers` (N,)
    matter only to an ego that acts by chance.
    """
    params = scenario.compiled()
    depth = max(min(depth, scenario.episode_steps) // scenario.fronts, 1)
    actions = np.full((len(starts), depth), -1, np.int8)
    lengths, driven = np.zeros(len(starts), np.int64), 0
    for first in range(0, len(starts), _GROUP):
        group = slice(first, min(first + _GROUP, len(starts)))
        driven += _search_group(params, ego, starts[group], seed, numbers[group], actions[group], lengths[group])
    return FoundSequences(actions, lengths, driven)


def _search_group(
    params: Params, ego: Driver, starts: FloatArray, seed: int, numbers: IntArray, found: NDArray[np.int8], lengths: IntArray
) -> int:
    states, joint = new_states(len(starts), params.vehicles), ACTIONS ** (params.vehicles - FRONT)
    place_many(params, starts, states)
    level = _Level(states, np.arange(len(starts)), np.empty((len(starts), 0), np.int8))
    driven = 0
    for step in range(found.shape[1]):
        answers = ask_driver(ego, params, level.states, Side.EGO, seed, numbers[level.owners], step)
        able = np.flatnonzero(answers.actions != NO_ACTION)
        wide = level.take(np.repeat(able, joint))
        front = np.tile(np.arange(joint), len(able))
        outcomes = np.full(len(front), RUNNING)
        step_many(params, wide.states, np.repeat(answers.actions[able], joint), front, outcomes)
        driven += len(front)
        wide = _Level(wide.states, wide.owners, np.column_stack((wide.actions, front.astype(np.int8))))
        crashes = np.flatnonzero(outcomes == CRASH)
        solved, firsts = np.unique(wide.owners[crashes], return_index=True)
        found[solved, : step + 1] = wide.actions[crashes[firsts]]
        lengths[solved] = step + 1
        level = wide.take(np.flatnonzero((outcomes == RUNNING) & (lengths[wide.owners] == 0)))
        if len(level.owners) == 0:
            break
        level = level.take(_different(level))
    return driven


def _different(level: _Level) -> IntArray:
    """Returns one row for each pair of owner and state, the one of the first sequence, in order."""
    rows = np.column_stack((level.owners.astype(np.float64), level.states.reshape(len(level.states), -1))) + 0.0
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    return np.sort(np.unique(keys, return_index=True)[1])


_CHUNK = 2048
"""Episodes driven side by side."""


def evaluate(
    scenario: Scenario,
    ego: Driver | PlannedActions,
    front: Opponent,
    episodes: int,
    seed: int,
    *,
    first_episode: int = 0,
) -> Episodes:
    """Drives episodes `first_episode` .. `first_episode + episodes - 1` of a seed; batching never changes an episode.

    `front` decides whether IDM or meta-actions drive the front vehicle, whatever the scenario says.
    """
    if episodes < 1:
        raise BadParametersError(f"at least one episode is needed; got {episodes}")
    scenario = scenario_against(scenario, front)
    numbers = np.arange(first_episode, first_episode + episodes)
    starts = drawn_starts(scenario, seed, numbers)
    return evaluate_starts(scenario, ego, front, starts, seed, numbers)


def drawn_starts(scenario: Scenario, seed: int, numbers: IntArray) -> FloatArray:
    """Returns how the episodes numbered (N,) under a seed begin, (N, start_fields)."""
    params = scenario.compiled()
    starts = np.empty((len(numbers), start_fields(params)))
    _draw_starts(params, seed, numbers, starts)
    return starts


def scenario_against(scenario: Scenario, front: Opponent) -> Scenario:
    """Returns the scenario with the kind of front driver that `front` is."""
    return replace(scenario, front=FrontDriver.IDM if isinstance(front, Idm) else FrontDriver.POLICY)


def starts_from(scenario: Scenario, drawn: FloatArray) -> FloatArray:
    """Returns the starts, (N, start_fields), that numbers within [0, 1), (N, start_draws), make in a scenario."""
    params = scenario.compiled()
    starts = np.empty((len(drawn), start_fields(params)))
    _starts_from(params, np.ascontiguousarray(drawn, np.float64), starts)
    return starts


def evaluate_starts(
    scenario: Scenario,
    ego: Driver | PlannedActions,
    front: Opponent,
    starts: FloatArray,
    seed: int,
    numbers: IntArray,
    *,
    played: NDArray[np.int8] | None = None,
) -> Episodes:
    """Drives episodes from given starts, (N, start_fields); seed and numbers, (N,), feed the drivers that act by chance.

    played: (N, steps), the front's actions, which are then not asked for; NO_ACTION, and what is beyond them, is IDLE.
    """
    scenario = scenario_against(scenario, front)
    if not isinstance(ego, PlannedActions):
        check_fit(ego, Side.EGO, scenario)
    check_fit(front, Side.FRONT, scenario)
    parts = []
    for first in range(0, len(starts), _CHUNK):
        rows = slice(first, first + _CHUNK)
        parts.append(_drive(scenario, ego, front, starts[rows], seed, numbers[rows], None if played is None else played[rows]))
    return Episodes.joined(parts)


@dataclass(slots=True)
class _Log:
    """What is written down while episodes run."""

    ego_actions: NDArray[np.int8]
    front_actions: NDArray[np.int8]
    speeds_mps: NDArray[np.float32]
    steps: IntArray
    failures: list[PolicyFailure] = field(default_factory=list)


def _drive(
    scenario: Scenario,
    ego: Driver | PlannedActions,
    front: Opponent,
    starts: FloatArray,
    seed: int,
    numbers: IntArray,
    played: NDArray[np.int8] | None = None,
) -> Episodes:
    params, count, limit = scenario.compiled(), len(starts), scenario.episode_steps
    planned = None
    if isinstance(ego, PlannedActions):
        planned = plan_sequences(scenario, front, starts, ego.width, seed, numbers)
    elif isinstance(front, SearchedActions):
        played = find_sequences(scenario, ego, starts, front.depth, seed, numbers).actions
    states, outcomes = new_states(count, params.vehicles), np.full(count, RUNNING)
    place_many(params, starts, states)
    none = np.full((count, limit), NO_ACTION, np.int8)
    log = _Log(none, none.copy(), np.full((count, limit + 1, 2), np.nan, np.float32), np.zeros(count, np.int64))
    log.speeds_mps[:, 0] = _forward_mps(states)
    ego_now, front_now = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for step in range(limit):
        running = np.flatnonzero(outcomes == RUNNING)
        if len(running) == 0:
            break
        if not isinstance(front, Idm):
            if played is not None or isinstance(front, SearchedActions):
                answers = _played(played, running, step, everyone(params, int(Action.IDLE)))
            else:
                answers = ask_driver(front, params, states[running], Side.FRONT, seed, numbers[running], step)
            front_now[running] = answers.actions
            _note(log, answers, running, Side.FRONT, step, numbers, outcomes)
        if isinstance(ego, PlannedActions):
            answers = _played(planned, running, step, int(Action.IDLE))
        else:
            answers = ask_driver(ego, params, states[running], Side.EGO, seed, numbers[running], step)
        ego_now[running] = answers.actions
        _note(log, answers, running, Side.EGO, step, numbers, outcomes)
        running = running[outcomes[running] == RUNNING]
        step_many(params, states, ego_now, front_now, outcomes)
        log.ego_actions[running, step] = ego_now[running]
        if not isinstance(front, Idm):
            log.front_actions[running, step] = front_now[running]
        log.speeds_mps[running, step + 1] = _forward_mps(states[running])
        log.steps[running] += 1
    return Episodes(
        scenario, seed, numbers, starts, outcomes, log.steps, log.ego_actions, log.front_actions, log.speeds_mps, tuple(log.failures)
    )


def _played(table: NDArray[np.int8] | None, running: IntArray, step: int, idle: int) -> DriverAnswers:
    actions = np.full(len(running), idle)
    if table is not None and step < table.shape[1]:
        actions = np.where(table[running, step] == NO_ACTION, actions, table[running, step])
    return DriverAnswers(actions)


def _note(log: _Log, answers: DriverAnswers, running: IntArray, side: Side, step: int, numbers: IntArray, outcomes: IntArray) -> None:
    """Ends the episodes whose policy failed; only the first failure of an episode counts."""
    for complaint in answers.complaints:
        row = running[complaint.row]
        if outcomes[row] == RUNNING:
            outcomes[row] = ERROR
            log.failures.append(PolicyFailure(int(numbers[row]), side, step, complaint.message))


def _forward_mps(states: FloatArray) -> FloatArray:
    both = [EGO, FRONT]
    forward: FloatArray = states[:, both, SPEED] * np.cos(states[:, both, HEADING])
    return forward


@njit(nogil=True, cache=True, error_model="numpy")
def _draw_starts(params: Params, seed: int, numbers: IntArray, starts: FloatArray) -> None:
    for index in range(len(numbers)):
        draw_start(params, seed, numbers[index], starts[index])


@njit(nogil=True, cache=True, error_model="numpy")
def _starts_from(params: Params, drawn: FloatArray, starts: FloatArray) -> None:
    for index in range(len(drawn)):
        start_from(params, drawn[index], starts[index])
