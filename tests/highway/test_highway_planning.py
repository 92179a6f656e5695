"""The ego that knows its opponent: never slower than a search of all sequences allows, and as safe."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError
from skidpad.highway.engine import new_state, place, step
from skidpad.highway.evaluation import drawn_starts, evaluate, plan_sequences
from skidpad.highway.layout import ACTIONS, CRASH, EGO, RUNNING, STRUCK, Action, X
from skidpad.highway.opponents import AggressiveActions, ConstantActions, Idm, PlannedActions, RandomActions, SearchedActions
from skidpad.highway.scenes import PRETRAINING, RELEASED

SHORT = replace(RELEASED, simulation_hz=5, episode_steps=4, overtake_end_m=None)


def fastest_of_all(start: np.ndarray, front: int) -> float:
    """The farthest that any of 625 sequences gets without a crash."""
    params, best = SHORT.compiled(), -np.inf
    for sequence in product(range(ACTIONS), repeat=SHORT.episode_steps):
        state, code = new_state(), RUNNING
        place(params, start, state)
        began = state[EGO, X]
        for action in sequence:
            code = step(params, state, action, front)
            if code == CRASH:
                break
        if code != CRASH and state[EGO, STRUCK] == 0.0:
            best = max(best, state[EGO, X] - began)
    return best


def test_a_wide_plan_is_the_fastest_of_all_sequences() -> None:
    starts = drawn_starts(SHORT, 2, np.arange(4))
    planned = plan_sequences(SHORT, ConstantActions(Action.SLOWER), starts, 1000, 2, np.arange(4))
    for start, sequence in zip(starts, planned, strict=True):
        state = new_state()
        place(SHORT.compiled(), start, state)
        began = state[EGO, X]
        for action in sequence:
            assert step(SHORT.compiled(), state, int(action), int(Action.SLOWER)) != CRASH
        assert state[EGO, X] - began == pytest.approx(fastest_of_all(start, int(Action.SLOWER)), abs=1e-9)


@pytest.mark.parametrize("front", [RandomActions(), AggressiveActions(), Idm()], ids=lambda front: type(front).__name__)
def test_who_knows_the_opponent_does_not_crash_and_is_faster_than_the_slowest(front) -> None:
    scenario = PRETRAINING if isinstance(front, Idm) else replace(RELEASED, simulation_hz=5)
    driven = evaluate(scenario, PlannedActions(4), front, 6, 1)
    assert driven.failure_rate == 0.0
    assert driven.mean_ego_mps > evaluate(scenario, ConstantActions(Action.SLOWER), front, 6, 1).mean_ego_mps


def test_a_search_answers_nobody_who_plans() -> None:
    with pytest.raises(BadParametersError, match="opponent that answers"):
        evaluate(RELEASED, PlannedActions(), SearchedActions(3), 1, 1)
