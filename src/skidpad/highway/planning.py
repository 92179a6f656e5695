"""An ego that knows what the front vehicle will do: plans by driving ahead, and bounds what any ego could reach with that opponent."""

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.asking import ask_driver
from skidpad.highway.engine import new_states, place_many, step_many
from skidpad.highway.layout import ACTIONS, CRASH, EGO, ERROR, LANE, RUNNING, STRUCK, TARGET_SPEED, Action, Side, X, Y, everyone
from skidpad.highway.opponents import Idm, Opponent, SearchedActions
from skidpad.highway.scenario import Scenario


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
