"""The search opponent: tries front-vehicle sequences against the frozen ego, shortest first, until one makes it crash."""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.images import FloatArray, IntArray
from skidpad.duels.asking import ask_driver
from skidpad.duels.engine import new_states, place, step_many
from skidpad.duels.episodes import NO_ACTION
from skidpad.duels.layout import ACTIONS, CRASH, RUNNING, Params, Side
from skidpad.duels.opponents import Driver
from skidpad.duels.scenario import Scenario

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
    """Returns for each start, (N, START_FIELDS), the first shortest sequence of up to `depth` actions that makes the ego crash.

    Branches that come to the same state are driven once, which leaves about three of five. A branch on which the ego's policy
    fails is dropped. `seed` and `numbers` (N,) matter only to an ego that acts by chance.
    """
    params = scenario.compiled()
    depth = min(depth, scenario.episode_steps)
    actions = np.full((len(starts), depth), -1, np.int8)
    lengths, driven = np.zeros(len(starts), np.int64), 0
    for first in range(0, len(starts), _GROUP):
        group = slice(first, min(first + _GROUP, len(starts)))
        driven += _search_group(params, ego, starts[group], seed, numbers[group], actions[group], lengths[group])
    return FoundSequences(actions, lengths, driven)


def _search_group(
    params: Params, ego: Driver, starts: FloatArray, seed: int, numbers: IntArray, found: NDArray[np.int8], lengths: IntArray
) -> int:
    states = new_states(len(starts))
    _place_many(params, starts, states)
    level = _Level(states, np.arange(len(starts)), np.empty((len(starts), 0), np.int8))
    driven = 0
    for step in range(found.shape[1]):
        answers = ask_driver(ego, params, level.states, Side.EGO, seed, numbers[level.owners], step)
        able = np.flatnonzero(answers.actions != NO_ACTION)
        wide = level.take(np.repeat(able, ACTIONS))
        front = np.tile(np.arange(ACTIONS), len(able))
        outcomes = np.full(len(front), RUNNING)
        step_many(params, wide.states, np.repeat(answers.actions[able], ACTIONS), front, outcomes)
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


@njit(nogil=True, cache=True, error_model="numpy")
def _place_many(params: Params, starts: FloatArray, states: FloatArray) -> None:
    for index in range(len(starts)):
        place(params, starts[index], states[index])
