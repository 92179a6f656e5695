"""An episode driven again from its start and its actions, kept at every simulation step, for drawings and judgements."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.engine import place, step
from skidpad.highway.episodes import Episodes
from skidpad.highway.layout import CRASHED, EGO, FIELDS, FRONT, SPEED, STEPS, STRUCK, VEHICLE_LENGTH_M, Action, Params, X, Y, everyone
from skidpad.highway.scenario import Scenario

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
