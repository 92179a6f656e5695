"""Many duels at once, one side played from the outside against a frozen other: what the learning environments are thin shells of."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.duels import engine
from skidpad.duels.asking import ask_driver, check_fit
from skidpad.duels.layout import CRASH, ERROR, RUNNING, TIMEOUT, Action, Params, Side
from skidpad.duels.opponents import Driver, Idm
from skidpad.duels.rewards import MEMORY_FIELDS, Reward, RewardParams, begin_episode, pay
from skidpad.duels.scenario import FrontDriver, Scenario


class DuelBatch:
    """N episodes side by side; the k-th episode of place i is number i + k x N under the seed, whatever the others do.

    `other` drives the side that is not `side`; Idm goes with a scenario that has IDM in front.
    """

    def __init__(self, scenario: Scenario, side: Side, other: Driver | Idm, reward: Reward, count: int, seed: int = 0) -> None:
        if count < 1:
            raise BadParametersError(f"a batch of duels needs at least one place; got {count}")
        if isinstance(other, Idm) != (scenario.front is FrontDriver.IDM):
            raise BadParametersError(
                f"scenario {scenario.name!r} has {scenario.front.value!r} in front, but the other driver is {type(other).__name__}; "
                "make them agree"
            )
        if isinstance(other, Idm) and side is Side.FRONT:
            raise BadParametersError(f"scenario {scenario.name!r} has IDM in front; only the ego can be played there")
        check_fit(other, side.other, scenario)
        self.scenario = scenario
        self.side = side
        self.count = count
        self.states = engine.new_states(count)
        self.outcomes = np.full(count, RUNNING)
        self.numbers = np.arange(count)
        self.problems = [""] * count
        """What a broken policy of the other side did in the present episode of each place."""
        self._seed = seed
        self._params = scenario.compiled()
        self._other = other
        self._reward = reward.compiled()
        self._memory = np.zeros((count, MEMORY_FIELDS))
        self._steps = np.zeros(count, np.int64)

    def restart(self, seed: int | None = None) -> None:
        """Begins all over, with the first episode of every place."""
        self._seed = self._seed if seed is None else seed
        self.numbers = np.arange(self.count) - self.count
        self._memory[:] = 0.0
        self.advance(np.ones(self.count, np.bool_))

    def advance(self, places: BoolArray) -> None:
        """Begins the next episode in some places, (N,)."""
        rows = np.flatnonzero(places)
        self.numbers[rows] += self.count
        self._steps[rows] = 0
        for row in rows.tolist():
            self.problems[row] = ""
        _begin(self._params, self._reward, self._seed, self.numbers, rows, self.states, self.outcomes, self._memory)

    def observe(self, side: Side | None = None) -> NDArray[np.float32]:
        """Returns what a side (unless told, the played one) sees, (N, size)."""
        seen = np.empty((self.count, self.scenario.observation.size), np.float32)
        engine.observe_many(self._params, self.states, int(self.side if side is None else side), seen)
        return seen

    def drive(self, actions: IntArray) -> FloatArray:
        """Drives one policy step where episodes run and returns the rewards, (N,); `outcomes` then tells what ended."""
        chosen = np.asarray(actions, np.int64)
        if chosen.shape != (self.count,) or not ((chosen >= 0) & (chosen < len(Action))).all():
            raise BadParametersError(f"{self.count} places take ({self.count},) actions within 0 .. {len(Action) - 1}; got {actions}")
        running = np.flatnonzero(self.outcomes == RUNNING)
        others = self._asked(running)
        pair = (chosen, others) if self.side is Side.EGO else (others, chosen)
        rewards = np.zeros(self.count)
        engine.step_many(self._params, self.states, *pair, self.outcomes)
        _pay_many(self._reward, self._params.lanes, self.states, int(self.side), running, self.outcomes, self._memory, rewards)
        self._steps[running] += 1
        return rewards

    def _asked(self, running: IntArray) -> IntArray:
        actions = np.full(self.count, int(Action.IDLE))
        if isinstance(self._other, Idm):
            return actions
        for step in np.unique(self._steps[running]).tolist():  # one that acts by chance has to know its step
            rows = running[self._steps[running] == step]
            answers = ask_driver(self._other, self._params, self.states[rows], self.side.other, self._seed, self.numbers[rows], step)
            actions[rows] = answers.actions
            for complaint in answers.complaints:
                self.problems[rows[complaint.row]] = complaint.message
        return actions

    @property
    def terminated(self) -> BoolArray:
        """Where an episode came to an end of its own: a crash, an overtaking, an error; (N,)."""
        return np.asarray((self.outcomes != RUNNING) & (self.outcomes != TIMEOUT), np.bool_)

    @property
    def truncated(self) -> BoolArray:
        """Where time ran out, (N,)."""
        return np.asarray(self.outcomes == TIMEOUT, np.bool_)


@njit(nogil=True, cache=True, error_model="numpy")
def _begin(
    params: Params,
    reward: RewardParams,
    seed: int,
    numbers: IntArray,
    rows: IntArray,
    states: FloatArray,
    outcomes: IntArray,
    memory: FloatArray,
) -> None:
    for row in rows:
        engine.reset(params, seed, numbers[row], states[row])
        outcomes[row] = RUNNING
        begin_episode(reward, memory[row])


@njit(nogil=True, cache=True, error_model="numpy")
def _pay_many(
    reward: RewardParams,
    lanes: int,
    states: FloatArray,
    side: int,
    rows: IntArray,
    outcomes: IntArray,
    memory: FloatArray,
    rewards: FloatArray,
) -> None:
    for row in rows:
        if outcomes[row] != ERROR:
            rewards[row] = pay(reward, lanes, states[row], side, outcomes[row] == CRASH, memory[row])
