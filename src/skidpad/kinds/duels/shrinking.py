"""Crashes made smaller: the fewest actions of the front vehicle that still make the ego crash, the ego being asked anew each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.highway.engine import new_states, place, step_many
from skidpad.highway.episodes import NO_ACTION, Episodes, PolicyFailure
from skidpad.highway.evaluation import scenario_against
from skidpad.highway.layout import CRASH, EGO, ERROR, FRONT, HEADING, RUNNING, SPEED, Action, Side, everyone
from skidpad.highway.opponents import ConstantActions, Driver, ask_driver
from skidpad.kinds.duels.records import Bout, actions_of, build_records, letters_of
from skidpad.kinds.shrinking import Change, Dial, Shrunk, minimise

if TYPE_CHECKING:
    from skidpad.highway.scenario import Scenario
    from skidpad.kinds.duels.campaign import Duel
    from skidpad.runs.folder import Run


Script = tuple[int, ...]
"""One action a policy step, joint where there are several front vehicles; IDLE after its end."""

_IDLE = int(Action.IDLE)
_WIDTH = 64


def play_scripts(scenario: Scenario, ego: Driver, start: FloatArray, scripts: Sequence[Script], seed: int, episode: int) -> Episodes:
    """Drives one start, (start_fields,), against front vehicles that play scripts; the ego is asked at every step."""
    scenario = scenario_against(scenario, ConstantActions())
    params, count, limit = scenario.compiled(), len(scripts), scenario.episode_steps
    front = np.full((count, limit), everyone(params, _IDLE), np.int64)
    for row, script in enumerate(scripts):
        front[row, : min(len(script), limit)] = script[:limit]
    states, outcomes, numbers = new_states(count, params.vehicles), np.full(count, RUNNING), np.full(count, episode)
    for state in states:
        place(params, start, state)
    ego_log, front_log = (np.full((count, limit), NO_ACTION, np.int8) for _ in range(2))
    speeds = np.full((count, limit + 1, 2), np.nan, np.float32)
    speeds[:, 0] = _forward_mps(states)
    steps, now, failures = np.zeros(count, np.int64), np.zeros(count, np.int64), []
    for step in range(limit):
        running = np.flatnonzero(outcomes == RUNNING)
        if not len(running):
            break
        answers = ask_driver(ego, params, states[running], Side.EGO, seed, numbers[running], step)
        now[running] = answers.actions
        for complaint in answers.complaints:
            outcomes[running[complaint.row]] = ERROR
            failures.append(PolicyFailure(episode, Side.EGO, step, complaint.message))
        running = running[outcomes[running] == RUNNING]
        step_many(params, states, now, np.ascontiguousarray(front[:, step]), outcomes)
        ego_log[running, step], front_log[running, step] = now[running], front[running, step]
        speeds[running, step + 1] = _forward_mps(states[running])
        steps[running] += 1
    starts = np.repeat(np.asarray(start, np.float64)[np.newaxis], count, 0)
    return Episodes(scenario, seed, numbers, starts, outcomes, steps, ego_log, front_log, speeds, tuple(failures))


def _forward_mps(states: FloatArray) -> FloatArray:
    both = [EGO, FRONT]
    forward: FloatArray = states[:, both, SPEED] * np.cos(states[:, both, HEADING])
    return forward


@dataclass(frozen=True, eq=False)
class ScriptProblem:
    """Scripts of the front vehicle from one start; a piece is an action that is not IDLE."""

    scenario: Scenario
    ego: Driver
    start: FloatArray
    seed: int
    episode: int
    width: int = _WIDTH

    @property
    def idle(self) -> int:
        """The action of front vehicles that all keep lane and speed."""
        return int(everyone(self.scenario.compiled(), _IDLE))

    def first_tries(self, stimulus: Script) -> Sequence[Script]:
        """None: an episode takes microseconds."""
        del stimulus
        return ()

    def pieces(self, stimulus: Script) -> int:
        """The actions that do something."""
        return len(_busy(stimulus, self.idle))

    def dials(self, stimulus: Script) -> Sequence[Dial[Script]]:
        """None: an action is taken or not."""
        del stimulus
        return ()

    def without(self, stimulus: Script, pieces: AbstractSet[int], dials: AbstractSet[int]) -> Script:
        """Puts IDLE in the place of actions, and leaves out those at the end."""
        del dials
        busy = _busy(stimulus, self.idle)
        idle = {busy[piece] for piece in pieces}
        return _trimmed([self.idle if at in idle else action for at, action in enumerate(stimulus)], self.idle)

    def fails(self, stimuli: Sequence[Script]) -> Sequence[bool]:
        """Drives the episodes."""
        crashed: list[bool] = (self.drive(stimuli).outcomes == CRASH).tolist()
        return crashed

    def drive(self, stimuli: Sequence[Script]) -> Episodes:
        """Drives the episodes."""
        return play_scripts(self.scenario, self.ego, self.start, stimuli, self.seed, self.episode)


def _busy(script: Script, idle: int) -> list[int]:
    return [at for at, action in enumerate(script) if action != idle]


def _trimmed(actions: Sequence[int], idle: int) -> Script:
    last = max((at for at, action in enumerate(actions) if action != idle), default=-1)
    return tuple(actions[: last + 1])


def shrink_duel(campaign: Duel, run: Run, row: Mapping[str, Any], progress: Progress = silent) -> Shrunk:
    """Shrinks what the front vehicle did in a crash; the smallest case has a script in front instead of the policy."""
    work = campaign.work(run)
    if not row["front_actions"]:
        raise SkidpadError(f"IDM drove the front vehicle of {row['case_id']}, which takes no actions to leave out; shrink another crash")
    start = np.array(row["start"], np.float64)
    if not np.isfinite(start).all():
        raise SkidpadError("this episode was driven in a scene of highway-env, which cannot be driven again with other actions")
    problem = ScriptProblem(work.arena.scenario, work.drivers.ego(row["ego"]), start, row["seed"], row["episode"])
    script, fronts = _trimmed(actions_of(row["front_actions"], row["steps"]).tolist(), problem.idle), work.arena.scenario.fronts
    found = minimise(problem, script, progress)
    letters = letters_of(found.stimulus, fronts)
    bout = Bout(row["family"], row["column"], row["ego"], f"script {letters}", row["training"], row["test"], 1, row["seed"], row["episode"])
    records = build_records(bout, problem.drive([found.stimulus]), work.drivers.hash(row["ego"], Side.EGO), f"script {letters}")
    before = letters_of(script, fronts)
    changes = (Change("front actions", before, letters or "none"),) if letters != before else ()
    return Shrunk(row, records.to_pylist()[0], changes, found.judged, found.batches)
