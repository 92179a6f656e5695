"""Recorded episodes: everything needed to count them, and each driven again at every simulation step, for drawings and judgements."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.engine import place, step
from skidpad.highway.layout import (
    CRASH,
    CRASHED,
    EGO,
    FIELDS,
    FRONT,
    SPEED,
    STEPS,
    STRUCK,
    VEHICLE_LENGTH_M,
    Action,
    Outcome,
    Params,
    Side,
    X,
    Y,
    everyone,
)
from skidpad.highway.rewards import MEMORY_FIELDS, Reward, RewardParams, begin_episode, pay
from skidpad.highway.scenario import Scenario

NO_ACTION = -1


@dataclass(frozen=True, slots=True)
class PolicyFailure:
    """A policy that ended its episode: which, at what step, and what it did."""

    episode: int
    side: Side
    step: int
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """N episodes of one scenario, at most T policy steps each, as columns."""

    scenario: Scenario
    seed: int
    numbers: IntArray
    """The episodes' numbers under the seed, (N,)."""
    starts: FloatArray
    """How each began, (N, start_fields), see `engine`."""
    outcomes: IntArray
    """`Outcome.code`, (N,)."""
    steps: IntArray
    """Policy steps driven, (N,)."""
    ego_actions: NDArray[np.int8]
    """(N, T), NO_ACTION where none was taken."""
    front_actions: NDArray[np.int8]
    """Joint where there are several front vehicles."""
    speeds_mps: NDArray[np.float32]
    """Forward speeds of ego and first front vehicle at the start and after each step, (N, T + 1, 2); NaN after the end."""
    failures: tuple[PolicyFailure, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    def count(self, outcome: Outcome) -> int:
        """Returns how many episodes ended so."""
        return int((self.outcomes == outcome.code).sum())

    @property
    def failure_rate(self) -> float:
        """The share of crashes among the episodes that did not end as an error; NaN where none is left."""
        judged = len(self) - self.count(Outcome.ERROR)
        return self.count(Outcome.CRASH) / judged if judged else float("nan")

    @property
    def mean_speeds_mps(self) -> FloatArray:
        """The mean forward speeds after each step, ego and front, (N, 2); NaN where no step was driven."""
        driven = self.speeds_mps[:, 1:].astype(np.float64)
        counts = np.maximum(self.steps, 1)[:, None]
        means: FloatArray = np.nansum(driven, axis=1) / counts
        means[self.steps == 0] = np.nan
        return means

    @property
    def mean_ego_mps(self) -> float:
        """The ego's mean forward speed over all steps of all episodes; NaN where none was driven."""
        return self._mean_mps(Side.EGO)

    @property
    def mean_front_mps(self) -> float:
        """The front vehicle's mean forward speed over all steps of all episodes; NaN where none was driven."""
        return self._mean_mps(Side.FRONT)

    def _mean_mps(self, side: Side) -> float:
        total = int(self.steps.sum())
        return float(np.nansum(self.speeds_mps[:, 1:, side], dtype=np.float64)) / total if total else float("nan")

    @property
    def end_s(self) -> FloatArray:
        """When each episode ended, (N,), to the policy step: for a crash, the end of the step in which it happened."""
        return self.steps / self.scenario.policy_hz

    def take(self, rows: IntArray) -> Self:
        """Returns the episodes of some rows."""
        numbers = set(self.numbers[rows].tolist())
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in _COLUMNS},
            failures=tuple(failure for failure in self.failures if failure.episode in numbers),
        )

    @classmethod
    def joined(cls, parts: "list[Episodes]") -> "Episodes":
        """Returns episodes of the same scenario and seed one after another."""
        if not parts or any((part.scenario, part.seed) != (parts[0].scenario, parts[0].seed) for part in parts):
            raise BadParametersError(
                f"only episodes of one scenario and one seed can be joined; got {len(parts)} parts that differ, or none"
            )
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        return replace(parts[0], **columns, failures=tuple(failure for part in parts for failure in part.failures))

    def trajectory(self, row: int) -> FloatArray:
        """Drives one episode again and returns its states, (steps + 1, vehicles, FIELDS)."""
        states = np.empty((self.steps[row] + 1, 1 + self.scenario.fronts, FIELDS))
        _retrace(self.scenario.compiled(), self.starts[row], self.ego_actions[row], self.front_actions[row], states)
        return states

    def returns(self, reward: Reward, side: Side, memory: FloatArray | None = None) -> FloatArray:
        """Drives the episodes again in order and returns the sums of a reward, (N,); of several front vehicles their mean.

        `memory` is what Eq. 4 remembers of earlier episodes, a row for each vehicle of the side, for a reward that never clears it; it
        is not changed.
        """
        sums = np.zeros(len(self))
        vehicles = self.scenario.fronts if side is Side.FRONT else 1
        kept = np.zeros((vehicles, MEMORY_FIELDS)) if memory is None else memory.copy()
        _earn(self.scenario.compiled(), reward.compiled(), side, self.starts, self.steps, self.ego_actions, self.front_actions, kept, sums)
        return sums


_COLUMNS = ("numbers", "starts", "outcomes", "steps", "ego_actions", "front_actions", "speeds_mps")


@njit(nogil=True, cache=True, error_model="numpy")
def _retrace(params: Params, start: FloatArray, ego: NDArray[np.int8], front: NDArray[np.int8], states: FloatArray) -> None:
    place(params, start, states[0])
    for index in range(1, len(states)):
        states[index] = states[index - 1]
        step(params, states[index], ego[index - 1], front[index - 1])


@njit(nogil=True, cache=True, error_model="numpy")
def _earn(
    params: Params,
    reward: RewardParams,
    side: int,
    starts: FloatArray,
    steps: IntArray,
    ego: NDArray[np.int8],
    front: NDArray[np.int8],
    memory: FloatArray,
    sums: FloatArray,
) -> None:
    state = np.zeros((params.vehicles, FIELDS))
    for row in range(len(starts)):
        place(params, starts[row], state)
        begin_episode(reward, memory)
        for index in range(steps[row]):
            code = step(params, state, ego[row, index], front[row, index])
            for each in range(len(memory)):
                sums[row] += pay(reward, params.lanes, state, side + each, code == CRASH, memory[each]) / len(memory)


_IDLE = int(Action.IDLE)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The states of one episode, (simulation steps + 1, vehicles, FIELDS), the first before anything moved."""

    states: FloatArray
    simulation_hz: int
    policy_hz: int

    @property
    def times_s(self) -> FloatArray:
        """Seconds since the start, (simulation steps + 1,)."""
        return np.arange(len(self.states)) / self.simulation_hz

    @property
    def impact_frame(self) -> int | None:
        """The first simulation step at which the ego touches another or is pushed away from it; None where it never does."""
        hits = np.flatnonzero((self.states[:, EGO, CRASHED] != 0.0) | (self.states[:, EGO, STRUCK] != 0.0))
        return int(hits[0]) if len(hits) else None

    @property
    def impact_s(self) -> float:
        """Seconds from the start to the impact; NaN without one."""
        frame = self.impact_frame
        return float("nan") if frame is None else frame / self.simulation_hz

    @property
    def closing_mps(self) -> float:
        """How much faster the one behind was at the impact; NaN without one. Never negative, also where they meet side by side."""
        frame = self.impact_frame
        if frame is None:
            return float("nan")
        struck = self.struck(frame)
        rear, ahead = (EGO, struck) if self.states[frame, EGO, X] <= self.states[frame, struck, X] else (struck, EGO)
        # one step earlier, because the shove of the collision itself may already have changed a speed
        before = self.states[max(frame - 1, 0)]
        return max(float(before[rear, SPEED] - before[ahead, SPEED]), 0.0)

    def struck(self, frame: int) -> int:
        """Returns the front vehicle that is nearest to the ego."""
        apart = self.states[frame, FRONT:, :][:, [X, Y]] - self.states[frame, EGO, [X, Y]]
        return FRONT + int(np.argmin((apart**2).sum(axis=1)))


@njit(nogil=True, cache=True, error_model="numpy")
def _trace(params: Params, one: Params, start: FloatArray, ego_actions: IntArray, front_actions: IntArray, states: FloatArray) -> None:
    """Fills `states`; `one` is `params` with one simulation step a policy step, so that the engine itself moves every single step."""
    place(params, start, states[0])
    frame, idle = 0, everyone(params, _IDLE)
    for decision in range(len(ego_actions)):
        for part in range(params.frames):
            states[frame + 1] = states[frame]
            frame += 1
            # IDLE decides nothing, so that only the first simulation step of a policy step hears the decision
            is_first = part == 0
            step(one, states[frame], ego_actions[decision] if is_first else _IDLE, front_actions[decision] if is_first else idle)
            for vehicle in range(params.vehicles):
                states[frame, vehicle, STEPS] = decision + 1 if part == params.frames - 1 else decision


def trace(scenario: Scenario, start: FloatArray, ego_actions: IntArray, front_actions: IntArray) -> Trace:
    """Drives an episode again; start: (start_fields,), actions: (policy steps,) each, the front's joint (IDM ignores its actions)."""
    ego = np.ascontiguousarray(ego_actions, np.int64)
    front = np.ascontiguousarray(front_actions, np.int64)
    if ego.shape != front.shape or ego.ndim != 1:
        raise BadParametersError(f"an episode needs as many actions of the ego as of the front; got {ego.shape} and {front.shape}")
    params = scenario.compiled()
    states = np.empty((len(ego) * params.frames + 1, params.vehicles, FIELDS))
    _trace(params, params._replace(frames=1), np.ascontiguousarray(start, np.float64), ego, front, states)
    return Trace(states, scenario.simulation_hz, scenario.policy_hz)


FAR_M = 1000.0
_BESIDE_M = 2.5
"""Nearer than this across the road, two vehicles are in each other's way: their width and half a metre."""


def least_gaps_m(episodes: Episodes) -> FloatArray:
    """Returns how near the vehicles of each episode came, bumper to bumper in each other's way, (N,); FAR_M where they never were."""
    params = episodes.scenario.compiled()
    found = np.empty(len(episodes))
    ego, front = (np.ascontiguousarray(side, np.int64) for side in (episodes.ego_actions, episodes.front_actions))
    _least_gaps(params, params._replace(frames=1), episodes.starts, episodes.steps, ego, front, found)
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def _least_gaps(
    params: Params, one: Params, starts: FloatArray, steps: IntArray, ego: IntArray, front: IntArray, found: FloatArray
) -> None:
    """Drives as `_trace` does, and keeps no state."""
    state = np.zeros((params.vehicles, FIELDS))
    idle = everyone(params, _IDLE)
    for row in range(len(starts)):
        place(params, starts[row], state)
        found[row] = FAR_M
        for frame in range(steps[row] * params.frames):
            decision, is_first = frame // params.frames, frame % params.frames == 0
            step(one, state, ego[row, decision] if is_first else _IDLE, front[row, decision] if is_first else idle)
            for other in range(FRONT, params.vehicles):
                if abs(state[other, Y] - state[EGO, Y]) < _BESIDE_M:
                    found[row] = min(found[row], max(abs(state[other, X] - state[EGO, X]) - VEHICLE_LENGTH_M, 0.0))
