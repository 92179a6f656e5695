"""Many duels at once, one side played from outside against a frozen other. The Gymnasium and stable-baselines3 environments wrap it."""

from collections.abc import Sequence

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

_NONE_YET = -1
_SEED_END = 2**63
"""Seeds are kept as 64-bit whole numbers."""


class DuelBatch:
    """N duels side by side. Each place has its own seed and counts its own episodes, so it plays what it would play alone.

    `other` drives the side that is not `side`; Idm needs a scenario with IDM in front. Place i starts with the seed `seed` + i.
    """

    def __init__(self, scenario: Scenario, side: Side, other: Driver | Idm, reward: Reward, count: int, seed: int = 0) -> None:
        if count < 1:
            raise BadParametersError(f"the number of duels must be at least 1; got {count}")
        if isinstance(other, Idm) != (scenario.front is FrontDriver.IDM):
            raise BadParametersError(
                f"scenario {scenario.name!r} has {scenario.front.value!r} in front, but the other driver is {type(other).__name__}; "
                "use Idm with a scenario that has IDM in front, and only there"
            )
        if isinstance(other, Idm) and side is Side.FRONT:
            raise BadParametersError(f"scenario {scenario.name!r} has IDM in front; only the ego can be played there")
        check_fit(other, side.other, scenario)
        self.scenario = scenario
        self.side = side
        self.count = count
        self.states = engine.new_states(count)
        self.outcomes = np.full(count, RUNNING)
        self.numbers = np.full(count, _NONE_YET)
        """The number of the present episode of each place under its seed, (N,); -1 before the first."""
        self.problems = [""] * count
        """What a broken policy of the other side did in the present episode of each place."""
        self._seeds = _checked_seeds(range(seed, seed + count))
        self._params = scenario.compiled()
        self._other = other
        self._reward = reward.compiled()
        self._memory = np.zeros((count, MEMORY_FIELDS))
        self._steps = np.zeros(count, np.int64)

    def reset(self, seeds: Sequence[int | None]) -> None:
        """Begins an episode in every place: the first under its seed, (N,), or the next one where the seed is None."""
        if len(seeds) != self.count:
            raise BadParametersError(f"{self.count} places take {self.count} seeds; got {len(seeds)}")
        given = [place for place, seed in enumerate(seeds) if seed is not None]
        self._seeds[given] = _checked_seeds([seed for seed in seeds if seed is not None])
        self.numbers[given] = _NONE_YET
        self._memory[given] = 0.0
        self.advance(np.ones(self.count, np.bool_))

    def advance(self, places: BoolArray) -> None:
        """Begins the next episode in some places, (N,)."""
        rows = np.flatnonzero(places)
        self.numbers[rows] += 1
        self._steps[rows] = 0
        for row in rows.tolist():
            self.problems[row] = ""
        _begin(self._params, self._reward, self._seeds, self.numbers, rows, self.states, self.outcomes, self._memory)

    def observe(self, side: Side | None = None) -> NDArray[np.float32]:
        """Returns what a side (unless told, the played one) sees, (N, size)."""
        seen = np.empty((self.count, self.scenario.observation.size), np.float32)
        engine.observe_many(self._params, self.states, int(self.side if side is None else side), seen)
        return seen

    def drive(self, actions: IntArray) -> FloatArray:
        """Drives one policy step where episodes run, given actions within 0 .. 4, (N,), and returns the rewards, (N,).

        `outcomes` then tells which episodes ended.
        """
        running = np.flatnonzero(self.outcomes == RUNNING)
        others = self._asked(running)
        pair = (actions, others) if self.side is Side.EGO else (others, actions)
        rewards = np.zeros(self.count)
        engine.step_many(self._params, self.states, *pair, self.outcomes)
        _pay_many(self._reward, self._params.lanes, self.states, int(self.side), running, self.outcomes, self._memory, rewards)
        self._steps[running] += 1
        return rewards

    def _asked(self, running: IntArray) -> IntArray:
        actions = np.full(self.count, int(Action.IDLE))
        if isinstance(self._other, Idm):
            return actions
        if len(running) == 0:  # a policy is never asked about nothing
            return actions
        chance = self._seeds[running], self.numbers[running], self._steps[running]
        answers = ask_driver(self._other, self._params, self.states[running], self.side.other, *chance)
        actions[running] = answers.actions
        for complaint in answers.complaints:
            self.problems[running[complaint.row]] = complaint.message
        return actions

    @property
    def has_begun(self) -> bool:
        """Whether every place plays, or has played, an episode."""
        return bool((self.numbers != _NONE_YET).all())

    @property
    def terminated(self) -> BoolArray:
        """Where a crash, an overtaking or an error ended the episode, (N,)."""
        return np.asarray((self.outcomes != RUNNING) & (self.outcomes != TIMEOUT), np.bool_)

    @property
    def truncated(self) -> BoolArray:
        """Where time ran out, (N,)."""
        return np.asarray(self.outcomes == TIMEOUT, np.bool_)


def _checked_seeds(seeds: Sequence[int]) -> IntArray:
    for seed in seeds:
        if not 0 <= seed < _SEED_END:
            raise BadParametersError(f"a seed is a whole number from 0 up to 2**63 - 1; got {seed}")
    return np.array(seeds, np.int64)


@njit(nogil=True, cache=True, error_model="numpy")
def _begin(
    params: Params,
    reward: RewardParams,
    seeds: IntArray,
    numbers: IntArray,
    rows: IntArray,
    states: FloatArray,
    outcomes: IntArray,
    memory: FloatArray,
) -> None:
    for row in rows:
        engine.reset(params, seeds[row], numbers[row], states[row])
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
