"""Whether the ego could have avoided a crash, and until when: an exact search over what it might have done instead.

The front vehicle's recorded actions are replayed; the ego's five actions are tried at every policy step, depth first, on the
engine itself. A way out at one step is a way out at every earlier one (the recorded action leads there), so the search goes
back from the crash and stops at the first step from which an escape exists.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numba import njit

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.duels.engine import place, step
from skidpad.duels.kinematics import decide
from skidpad.duels.layout import (
    ACTIONS,
    CRASH,
    EGO,
    FIELDS,
    RUNNING,
    STRUCK,
    TARGET_LANE,
    TARGET_SPEED,
    VEHICLES,
    Action,
    Params,
)
from skidpad.duels.scenario import Scenario

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

    follow_on_steps: int = 3
    """Policy steps after the recorded crash that must pass without one, the front keeping lane and speed: delayed is not avoided."""
    max_tries: int = 5_000_000
    """Policy steps tried for one crash before it is left undecided."""

    def __post_init__(self) -> None:
        if self.follow_on_steps < 0 or self.max_tries < 1:
            raise BadParametersError(f"an escape needs follow_on_steps of at least 0 and max_tries of at least 1; got {self}")


@njit(nogil=True, cache=True, error_model="numpy")
def _escape(params: Params, state: FloatArray, front_actions: IntArray, follow_on: int, budget: IntArray) -> int:
    """Searches from `state` on, (2, FIELDS), against the front's remaining actions; `budget` (1,) counts down."""
    depth_end = len(front_actions) + follow_on
    states = np.empty((depth_end + 1, VEHICLES, FIELDS))
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
        outcome = step(params, child, _IDLE, front_actions[depth] if depth < len(front_actions) else _IDLE)
        if outcome == CRASH or child[EGO, STRUCK] != 0.0:
            continue
        if outcome != RUNNING or depth + 1 == depth_end:
            return _ESCAPES
        depth += 1
        tried[depth] = 0
    return _CRASHES


@njit(nogil=True, cache=True, error_model="numpy")
def _last_escape(params: Params, start: FloatArray, ego_actions: IntArray, front_actions: IntArray, follow_on: int, max_tries: int) -> int:
    """Returns the last policy step from which the ego could have escaped, NEVER or UNDECIDED."""
    steps = len(ego_actions)
    states = np.empty((steps + 1, VEHICLES, FIELDS))
    place(params, start, states[0])
    for index in range(steps):
        states[index + 1] = states[index]
        step(params, states[index + 1], ego_actions[index], front_actions[index])
    budget = np.array([max_tries])
    for index in range(steps - 1, -1, -1):
        answer = _escape(params, states[index], front_actions[index:], follow_on, budget)
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

    starts: (N, START_FIELDS); actions: (N, longest), of which the first `lengths` (N,) were driven, the crash in the last of them.
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
        _last_escapes(scenario.compiled(), beginnings, ego, front, lasts, rules.follow_on_steps, rules.max_tries, out)
    return out


def avoidable_until_s(scenario: Scenario, last: int) -> tuple[Avoidable, float]:
    """Turns an answer of `last_escapes` into its kind and the seconds since the start, NaN if there was no such moment."""
    if last == NEVER:
        return Avoidable.NEVER, float("nan")
    if last == UNDECIDED:
        return Avoidable.UNDECIDED, float("nan")
    return Avoidable.UNTIL, last / scenario.policy_hz
