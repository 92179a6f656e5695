"""Drivers that are not learned (IDM, random actions, one constant action, the result of a search), and how any driver is asked.

A broken driver ends only its own episode.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError, BadSubjectError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.engine import observe_many
from skidpad.highway.episodes import NO_ACTION
from skidpad.highway.layout import ACTIONS, FRONT, LANE, TARGET_LANE, VEHICLES, Action, Params, Side, opponent_of
from skidpad.highway.policies import LearnedPolicy, Policy
from skidpad.highway.randomness import driver_stream, stream_key, whole
from skidpad.highway.scenario import Scenario
from skidpad.highway.scenes import place_of

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


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a policy did wrong in one row of a request."""

    row: int
    message: str


@dataclass(frozen=True, slots=True)
class DriverAnswers:
    """A driver's actions for N observations, (N,); NO_ACTION in the rows that have a complaint."""

    actions: IntArray
    complaints: tuple[Complaint, ...] = ()


def check_fit(driver: Opponent, side: Side, scenario: Scenario) -> None:
    """Refuses a learned policy that was trained for the other vehicle or for another observation."""
    if not isinstance(driver, LearnedPolicy):
        return
    if driver.spec_hash != scenario.observation.hash:
        raise BadSubjectError(
            f"{name_of(driver)} was trained {place_of(driver.facts.scenario, driver.spec_hash)}, but is used "
            f"{place_of(scenario.name, scenario.observation.hash)}; use a scenario with the observation it was trained on"
        )
    if driver.role is not side:
        raise BadSubjectError(
            f"{name_of(driver)} was trained to drive the {driver.role.name.lower()}; it cannot drive the {side.name.lower()}"
        )


def ask_driver(
    driver: Driver, params: Params, states: FloatArray, side: Side, seed: int | IntArray, numbers: IntArray, step: int | IntArray
) -> DriverAnswers:
    """Asks the driver of one side for actions in N states, (N, vehicles, FIELDS); those of front vehicles are joint.

    Only a driver that acts by chance needs the episodes' numbers, (N,), and the seed and step, which are one for all or (N,).
    """
    if side is Side.EGO or params.vehicles == VEHICLES:
        return _ask_one(driver, params, states, int(side), seed, numbers, step)
    each = [_ask_one(driver, params, states, vehicle, seed, numbers, step) for vehicle in range(FRONT, params.vehicles)]
    joint = sum(answers.actions * ACTIONS**place for place, answers in enumerate(each))
    failed = np.any([answers.actions == NO_ACTION for answers in each], axis=0)
    complaints = {complaint.row: complaint for answers in reversed(each) for complaint in answers.complaints}
    return DriverAnswers(np.where(failed, NO_ACTION, joint), tuple(complaints[row] for row in sorted(complaints)))


def _ask_one(
    driver: Driver, params: Params, states: FloatArray, vehicle: int, seed: int | IntArray, numbers: IntArray, step: int | IntArray
) -> DriverAnswers:
    if isinstance(driver, RandomActions):
        return DriverAnswers(random_actions(seed, numbers, vehicle, step))
    if isinstance(driver, AggressiveActions):
        return DriverAnswers(aggressive_actions(states, vehicle))
    seen = np.empty((len(states), params.observed_vehicles * len(params.feature_codes)), np.float32)
    observe_many(params, states, vehicle, seen)
    return ask(driver, seen)


def ask(policy: Policy, seen: NDArray[np.float32]) -> DriverAnswers:
    """Asks for all N rows at once; if that fails as a whole, for each row alone, so that one bad row ends only its own episode."""
    answers = _asked_at_once(policy, seen)
    if len(seen) < 2 or (answers.actions != NO_ACTION).any():
        return answers
    actions, complaints = answers.actions.copy(), list[Complaint]()
    for row in range(len(seen)):
        alone = _asked_at_once(policy, seen[row : row + 1])
        actions[row] = alone.actions[0]
        complaints += [Complaint(row, complaint.message) for complaint in alone.complaints]
    return DriverAnswers(actions, tuple(complaints))


def _asked_at_once(policy: Policy, seen: NDArray[np.float32]) -> DriverAnswers:
    count = len(seen)
    try:
        given = np.asarray(policy.act(seen))
    except Exception as error:  # noqa: BLE001 - a user's policy may raise anything; it costs an episode, not the run
        return _refused(count, f"the policy raised {type(error).__name__}: {error}")
    if given.shape != (count,):
        return _refused(count, f"the policy answered with shape {given.shape} to {count} observations; answer with ({count},)")
    if given.dtype.kind not in "iuf":
        return _refused(count, f"the policy answered with {given.dtype}; answer with whole numbers within 0 .. {ACTIONS - 1}")
    is_good = (given >= 0) & (given < ACTIONS) & (given == np.floor(given))
    actions = np.full(count, NO_ACTION, np.int64)
    actions[is_good] = given[is_good]
    bad = np.flatnonzero(~is_good).tolist()
    return DriverAnswers(
        actions,
        tuple(Complaint(row, f"the policy answered {given[row]}; answer with whole numbers within 0 .. {ACTIONS - 1}") for row in bad),
    )


def _refused(count: int, message: str) -> DriverAnswers:
    return DriverAnswers(np.full(count, NO_ACTION, np.int64), tuple(Complaint(row, message) for row in range(count)))
