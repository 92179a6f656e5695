"""Plays episodes on any backend, one step at a time, and records them as `evaluation` does."""

from dataclasses import replace

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import IntArray
from skidpad.core.progress import Progress, silent
from skidpad.duels.asking import Answers, ask, check_fit
from skidpad.duels.backend import Backend
from skidpad.duels.engine import START_FIELDS
from skidpad.duels.episodes import NO_ACTION, Episodes, PolicyFailure
from skidpad.duels.layout import HEADING, SPEED, VEHICLES, Action, Outcome, Side
from skidpad.duels.opponents import Driver, Idm, RandomActions, random_action
from skidpad.duels.scenario import FrontDriver


def play_on(backend: Backend, ego: Driver, front: Driver | Idm, seed: int, numbers: IntArray, progress: Progress = silent) -> Episodes:
    """Plays the episodes numbered (N,) under `seed`; a policy that fails ends its own episode as an error.

    Starts are NaN for a scene that places its own traffic: such an episode is played again from its seed and number.
    """
    scenario = backend.scenario
    if isinstance(front, Idm) != (scenario.front is FrontDriver.IDM):
        raise BadParametersError(f"scenario {scenario.name!r} has {scenario.front.value!r} in front; got {type(front).__name__}")
    check_fit(ego, Side.EGO, scenario)
    check_fit(front, Side.FRONT, scenario)
    count, limit = len(numbers), scenario.episode_steps
    none = np.full((count, limit), NO_ACTION, np.int8)
    played = Episodes(
        scenario=scenario,
        seed=seed,
        numbers=np.asarray(numbers, np.int64),
        starts=np.full((count, START_FIELDS), np.nan),
        outcomes=np.zeros(count, np.int64),
        steps=np.zeros(count, np.int64),
        ego_actions=none,
        front_actions=none.copy(),
        speeds_mps=np.full((count, limit + 1, VEHICLES), np.nan, np.float32),
    )
    failures: list[PolicyFailure] = []
    for row in range(count):
        failures += _play_one(backend, ego, front, played, row)
        progress(row + 1, count, "episodes")
    return replace(played, failures=tuple(failures))


def _play_one(backend: Backend, ego: Driver, front: Driver | Idm, played: Episodes, row: int) -> list[PolicyFailure]:
    """Plays the episode of one row and fills in that row; returns at most one failure."""
    number = int(played.numbers[row])
    backend.reset(played.seed, number)
    start = backend.start
    if start is not None:
        played.starts[row] = start.to_array()
    played.speeds_mps[row, 0] = _forward_mps(backend)
    step, outcome = 0, backend.outcome
    while outcome is None:
        chosen = [int(Action.IDLE), int(Action.IDLE)]
        for side, driver in ((Side.FRONT, front), (Side.EGO, ego)):
            if isinstance(driver, Idm):
                continue
            answers = _asked(driver, backend, side, played.seed, number, step)
            if answers.complaints:
                played.outcomes[row] = Outcome.ERROR.code
                return [PolicyFailure(number, side, step, f"{side.name.lower()}: {answers.complaints[0].message}")]
            chosen[side] = int(answers.actions[0])
        outcome = backend.step(chosen[Side.EGO], chosen[Side.FRONT])
        played.ego_actions[row, step] = chosen[Side.EGO]
        if not isinstance(front, Idm):
            played.front_actions[row, step] = chosen[Side.FRONT]
        step += 1
        played.speeds_mps[row, step] = _forward_mps(backend)
        played.steps[row] = step
    played.outcomes[row] = outcome.code
    return []


def _asked(driver: Driver, backend: Backend, side: Side, seed: int, number: int, step: int) -> Answers:
    if isinstance(driver, RandomActions):
        return Answers(np.array([random_action(seed, number, int(side), step)]))
    return ask(driver, backend.observe(side)[None])


def _forward_mps(backend: Backend) -> tuple[float, float]:
    ego, front = backend.state
    return float(ego[SPEED] * np.cos(ego[HEADING])), float(front[SPEED] * np.cos(front[HEADING]))
