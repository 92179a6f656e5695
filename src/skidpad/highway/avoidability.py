"""Whether a crash could have been avoided: until when the ego had a way out, and whether it could have overtaken without risk."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numba import njit

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.core.settings import Count, Natural, check
from skidpad.highway.engine import place, step
from skidpad.highway.layout import (
    ACTIONS,
    CRASH,
    EGO,
    FIELDS,
    FRONT,
    HEADING,
    OVERTAKEN,
    RUNNING,
    SPEED,
    STEPS,
    STRUCK,
    TARGET_LANE,
    TARGET_SPEED,
    VEHICLES,
    Action,
    Params,
    X,
    Y,
    everyone,
)
from skidpad.highway.scenario import FrontDriver, Scenario
from skidpad.highway.vehicles import decide

_IDLE = int(Action.IDLE)
_ORDER = (int(Action.SLOWER), int(Action.LEFT), int(Action.RIGHT), _IDLE, int(Action.FASTER))
"""The order of trying, most helpful first; the answer does not depend on it."""

_ESCAPES, _CRASHES, _GAVE_UP = 1, 0, -1
NEVER, UNDECIDED = -1, -2
"""Answers instead of a policy step: no sequence avoids the crash, even from the start; or the search ran out of tries."""


class Avoidable(Enum):
    """What the search found about a crash."""

    UNTIL = "until"
    NEVER = "never"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class EscapeSettings:
    """What counts as avoided.

    Deviates: the paper speaks of avoidable collisions and measures none.
    """

    follow_on_steps: Natural = 3
    """Policy steps after the recorded crash that must pass without one, the front keeping lane and speed: delayed is not avoided."""
    max_tries: Count = 5_000_000
    """Policy steps tried for one crash before it is left undecided."""
    max_tries_among_several: Count = 100_000
    """The same with several front vehicles, where wrecks can leave no way out for long."""

    def __post_init__(self) -> None:
        check(self, BadParametersError)


_GRID = 4.0
"""Egos within 1 / 4 m, m/s and 1 / 40 rad of each other at the same time come to the same end, near enough."""
_TABLE = 1 << 17
_STRIDE = np.int64(-7046029254386353131)


@njit(nogil=True, cache=True, error_model="numpy")
def _is_refuted(state: FloatArray, dead: IntArray) -> bool:
    """Tells whether about the same ego was searched at the same time, and notes it in `dead`, an open table of hashes.

    The front vehicles do what they did, so all that differs is the ego.
    """
    ego = state[EGO]
    key = np.int64(ego[STEPS])
    for part in (ego[X] * _GRID, ego[Y] * _GRID, ego[HEADING] * 10.0 * _GRID, ego[SPEED] * _GRID, ego[TARGET_LANE], ego[TARGET_SPEED]):
        key = (key ^ np.int64(np.rint(part))) * _STRIDE
        key ^= key >> 29
    place = key & (_TABLE - 1)
    for _ in range(64):
        if dead[place] == key:
            return True
        if dead[place] == 0:
            dead[place] = key
            return False
        place = (place + 1) & (_TABLE - 1)
    return False


@njit(nogil=True, cache=True, error_model="numpy")
def _escape(params: Params, state: FloatArray, front_actions: IntArray, follow_on: int, budget: IntArray, dead: IntArray) -> int:
    """Searches from `state` on, (vehicles, FIELDS), against the fronts' remaining actions; `budget` (1,) counts down.

    With several front vehicles, egos that come about together are followed once.
    """
    depth_end = len(front_actions) + follow_on
    states, idle = np.empty((depth_end + 1, params.vehicles, FIELDS)), everyone(params, _IDLE)
    tried = np.zeros(depth_end + 1, np.int64)
    seen = np.empty((depth_end + 1, ACTIONS, 2))
    states[0] = state
    depth = 0
    while depth >= 0:
        if tried[depth] == ACTIONS:
            depth -= 1
            continue
        choice = tried[depth]
        tried[depth] += 1
        child = states[depth + 1]
        child[:] = states[depth]
        decide(params, child, EGO, _ORDER[choice])
        # an action moves nothing but these two targets: LEFT on the leftmost lane is IDLE, and need not be tried twice
        seen[depth, choice, 0] = child[EGO, TARGET_LANE]
        seen[depth, choice, 1] = child[EGO, TARGET_SPEED]
        is_known = False
        for earlier in range(choice):
            if seen[depth, earlier, 0] == seen[depth, choice, 0] and seen[depth, earlier, 1] == seen[depth, choice, 1]:
                is_known = True
        if is_known:
            continue
        if budget[0] <= 0:
            return _GAVE_UP
        budget[0] -= 1
        outcome = step(params, child, _IDLE, front_actions[depth] if depth < len(front_actions) else idle)
        if outcome == CRASH or child[EGO, STRUCK] != 0.0:
            continue
        if outcome != RUNNING or depth + 1 == depth_end:
            return _ESCAPES
        if params.vehicles > VEHICLES and not params.front_is_idm and _is_refuted(child, dead):
            continue
        depth += 1
        tried[depth] = 0
    return _CRASHES


@njit(nogil=True, cache=True, error_model="numpy")
def _last_escape(params: Params, start: FloatArray, ego_actions: IntArray, front_actions: IntArray, follow_on: int, max_tries: int) -> int:
    """Returns the last policy step from which the ego could have escaped, NEVER or UNDECIDED."""
    steps = len(ego_actions)
    states = np.empty((steps + 1, params.vehicles, FIELDS))
    place(params, start, states[0])
    for index in range(steps):
        states[index + 1] = states[index]
        step(params, states[index + 1], ego_actions[index], front_actions[index])
    budget = np.array([max_tries])
    dead = np.zeros(_TABLE if params.vehicles > VEHICLES else 1, np.int64)  # what leads to the crash later does so from earlier on, too
    for index in range(steps - 1, -1, -1):
        answer = _escape(params, states[index], front_actions[index:], follow_on, budget, dead)
        if answer == _ESCAPES:
            return index
        if answer == _GAVE_UP:
            return UNDECIDED
    return NEVER


@njit(nogil=True, cache=True, error_model="numpy")
def _last_escapes(
    params: Params,
    starts: FloatArray,
    ego_actions: IntArray,
    front_actions: IntArray,
    lengths: IntArray,
    follow_on: int,
    max_tries: int,
    out: IntArray,
) -> None:
    for index in range(len(starts)):
        steps = lengths[index]
        out[index] = _last_escape(params, starts[index], ego_actions[index, :steps], front_actions[index, :steps], follow_on, max_tries)


def last_escapes(
    scenario: Scenario,
    starts: FloatArray,
    ego_actions: IntArray,
    front_actions: IntArray,
    lengths: IntArray,
    settings: EscapeSettings | None = None,
) -> IntArray:
    """Returns for each of N crashes the last policy step at which an action of the ego would still have avoided it.

    starts: (N, start_fields); actions: (N, longest), of which the first `lengths` (N,) were driven, the crash in the last of them.
    The answer is 0 .. length - 1, `NEVER` or `UNDECIDED`. Other threads keep running meanwhile.
    """
    rules = settings or EscapeSettings()
    count = len(starts)
    ego = np.ascontiguousarray(ego_actions, np.int64)
    front = np.ascontiguousarray(front_actions, np.int64)
    if ego.shape != front.shape or ego.ndim != 2 or len(ego) != count or len(lengths) != count:
        raise BadParametersError(
            f"{count} crashes need actions of shape ({count}, steps) and {count} lengths; got {ego.shape}, {front.shape}, {len(lengths)}"
        )
    out = np.full(count, UNDECIDED, np.int64)
    if count:
        beginnings = np.ascontiguousarray(starts, np.float64)
        lasts = np.ascontiguousarray(lengths, np.int64)
        tries = rules.max_tries if scenario.fronts == 1 else rules.max_tries_among_several
        _last_escapes(scenario.compiled(), beginnings, ego, front, lasts, rules.follow_on_steps, tries, out)
    return out


def avoidable_until_s(scenario: Scenario, last: int) -> tuple[Avoidable, float]:
    """Turns an answer of `last_escapes` into its kind and the seconds since the start, NaN if there was no such moment."""
    if last == NEVER:
        return Avoidable.NEVER, float("nan")
    if last == UNDECIDED:
        return Avoidable.UNDECIDED, float("nan")
    return Avoidable.UNTIL, last / scenario.policy_hz


_BLOCKS = (int(Action.SLOWER), int(Action.LEFT), int(Action.RIGHT))
_PASSES = (int(Action.FASTER), _IDLE, int(Action.LEFT), int(Action.RIGHT), int(Action.SLOWER))
"""The orders of trying, most promising first; the answer does not depend on them."""


@njit(nogil=True, cache=True, error_model="numpy")
def _overtakes(params: Params, start: FloatArray, steps: int) -> bool:
    """Tells whether the ego has actions that lead to overtaking, however a slow front vehicle changes lanes.

    Written as a loop over the path so far: a compiled function that calls itself crashes once it is loaded from the cache.
    """
    states = np.empty((steps + 1, VEHICLES, FIELDS))
    place(params, start, states[0])
    states[0, FRONT, TARGET_SPEED] = params.target_speeds[0]
    egos, fronts = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    depth = 0
    while True:
        is_refuted, is_held = egos[depth] == ACTIONS, fronts[depth] == len(_BLOCKS)
        if is_refuted or is_held:  # decided at this depth, so that the step before it is, too
            if depth == 0:
                return not is_refuted
            depth -= 1
        else:
            child = states[depth + 1]
            child[:] = states[depth]
            outcome = step(params, child, _PASSES[egos[depth]], _BLOCKS[fronts[depth]])
            is_held = outcome == OVERTAKEN and child[EGO, STRUCK] == 0.0
            if outcome == RUNNING and depth + 1 < steps:
                depth += 1
                egos[depth] = fronts[depth] = 0
                continue
        if is_held:
            fronts[depth] += 1
        else:
            egos[depth] += 1
            fronts[depth] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def _can_overtake(params: Params, starts: FloatArray, steps: int, out: BoolArray) -> None:
    for index in range(len(starts)):
        out[index] = _overtakes(params, starts[index], steps)


def can_overtake(scenario: Scenario, starts: FloatArray, steps: int) -> BoolArray:
    """Tells for each start, (N, START_FIELDS), whether an ego can overtake within so many policy steps without any risk.

    The front vehicle brakes to the lowest speed at once, changes lanes as it likes, and knows the ego's next action, as an adversary
    does that was trained against an ego that never varies. An ego that cannot overtake it is faster only until the gap is used up:
    this bounds the speed of an ego that no adversary can crash.
    """
    if scenario.front is FrontDriver.IDM or scenario.fronts > 1 or steps < 1:
        raise BadParametersError(
            f"overtaking is searched against the meta-actions of one front vehicle and over at least 1 step; got {scenario.name!r} with "
            f"{scenario.fronts} in front, {steps} steps"
        )
    out = np.zeros(len(starts), np.bool_)
    _can_overtake(scenario.compiled(), np.ascontiguousarray(starts, np.float64), steps, out)
    return out
