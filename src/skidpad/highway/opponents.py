"""Drivers that are not learned: IDM, random actions, one constant action, and the result of a search."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.layout import ACTIONS, LANE, TARGET_LANE, Action, opponent_of
from skidpad.highway.policies import Policy
from skidpad.highway.randomness import driver_stream, stream_key, whole

_LEFT, _RIGHT, _SLOWER = int(Action.LEFT), int(Action.RIGHT), int(Action.SLOWER)


@dataclass(frozen=True, slots=True)
class Idm:
    """The engine's own driver, front vehicle only: the Intelligent Driver Model along the lane, MOBIL across."""


@dataclass(frozen=True, slots=True)
class RandomActions:
    """One of the five actions at random at each step, all equally likely: the paper's baseline."""


@dataclass(frozen=True, slots=True)
class ConstantActions:
    """The same action at every step; an ego that always chooses SLOWER is the baseline for retraining."""

    action: Action = Action.IDLE

    def act(self, observations: NDArray[np.float32]) -> IntArray:
        """Returns the action for every row."""
        return np.full(len(observations), int(self.action))


@dataclass(frozen=True, slots=True)
class AggressiveActions:
    """Turns to the lane of the other vehicle, and brakes once it is there."""


@dataclass(frozen=True, slots=True)
class SearchedActions:
    """The shortest front-vehicle sequence that makes the frozen ego crash, found beforehand; IDLE if there is none, and after it."""

    depth: int = 8
    """Policy steps up to which sequences are tried."""

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= 12:
            raise BadParametersError(
                f"the search depth must be within 1 .. 12, since each step makes it five times slower; got {self.depth}"
            )


@dataclass(frozen=True, slots=True)
class PlannedActions:
    """An ego that knows its opponent: the fastest sequence without a crash that a search finds beforehand; a bound, not a driver."""

    width: int = 12
    """Ways that are followed for each lane and wanted speed."""


Driver: TypeAlias = Policy | RandomActions | AggressiveActions
"""Who can drive the ego."""
Opponent: TypeAlias = Driver | Idm | SearchedActions
"""Who can drive the front vehicle."""


def name_of(driver: Opponent) -> str:
    """Returns a short name for messages and tables."""
    if isinstance(driver, ConstantActions):
        return f"always {driver.action.name}"
    return str(getattr(driver, "name", type(driver).__name__))


@njit(nogil=True, cache=True, error_model="numpy")
def random_action(seed: int, episode: int, side: int, step: int) -> int:
    """Returns the random action at one step of one episode; it depends on the arguments alone."""
    return whole(stream_key(seed, episode, driver_stream(side)), step, ACTIONS)


@njit(nogil=True, cache=True, error_model="numpy")
def aggressive_action(state: FloatArray, side: int) -> int:
    """Returns the action of `AggressiveActions` in a state, (vehicles, FIELDS)."""
    wanted = state[opponent_of(side), LANE]
    if wanted == state[side, TARGET_LANE]:
        return _SLOWER
    return _LEFT if wanted < state[side, TARGET_LANE] else _RIGHT


@njit(nogil=True, cache=True, error_model="numpy")
def aggressive_actions(states: FloatArray, side: int) -> IntArray:
    """Returns the actions of `AggressiveActions` in many states, (N, vehicles, FIELDS) to (N,)."""
    actions = np.empty(len(states), np.int64)
    for index in range(len(states)):
        actions[index] = aggressive_action(states[index], side)
    return actions


def random_actions(seed: int | IntArray, episodes: IntArray, side: int, step: int | IntArray) -> IntArray:
    """Returns the random actions of many episodes, (N,); seed and step are one for all, or one each, (N,)."""
    count = len(episodes)
    return _random_actions(_for_each(seed, count), episodes, side, _for_each(step, count))


def _for_each(value: int | IntArray, count: int) -> IntArray:
    return value if isinstance(value, np.ndarray) else np.full(count, value, np.int64)


@njit(nogil=True, cache=True, error_model="numpy")
def _random_actions(seeds: IntArray, episodes: IntArray, side: int, steps: IntArray) -> IntArray:
    actions = np.empty(len(episodes), np.int64)
    for index in range(len(episodes)):
        actions[index] = random_action(seeds[index], episodes[index], side, steps[index])
    return actions
