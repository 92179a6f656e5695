"""Duels as Gymnasium environments: many at once, one side played from outside against a frozen other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.highway import engine
from skidpad.highway.layout import CRASH, ERROR, RUNNING, TIMEOUT, Action, Outcome, Params, Side
from skidpad.highway.observation import ObservationSpec
from skidpad.highway.opponents import Driver, Idm, ask_driver, check_fit
from skidpad.highway.rewards import MEMORY_FIELDS, Reward, RewardParams, begin_episode, driving_reward, pay
from skidpad.highway.scenario import FrontDriver, Scenario
from skidpad.highway.scenes import PRETRAINING

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
        if side is Side.FRONT and scenario.fronts > 1:
            raise BadParametersError(f"one front vehicle is played here; got {scenario.fronts}; play several with DuelParallelEnv")
        check_fit(other, side.other, scenario)
        self.scenario = scenario
        self.side = side
        self.count = count
        self.states = engine.new_states(count, 1 + scenario.fronts)
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


try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.error import InvalidAction, ResetNeeded
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise MissingExtraError.of("gymnasium", "duel", "a Gymnasium environment of duels") from error

Seen = NDArray[np.float32]
Info = dict[str, Any]

ENV_ID = "skidpad/Duel-v0"

_IDM, _DRIVE_WELL = Idm(), driving_reward()


def observation_space(spec: ObservationSpec) -> spaces.Space[Any]:
    """Returns the space of flat observations, (size,)."""
    lows, highs = spec.bounds()
    return spaces.Box(lows.astype(np.float32), highs.astype(np.float32), dtype=np.float32)


def action_space() -> spaces.Space[Any]:
    """Returns the space of the five meta-actions."""
    return spaces.Discrete(len(Action))


def check_actions(batch: DuelBatch, actions: object) -> IntArray:
    """Returns the actions of every place, (N,), or refuses them as Gymnasium does; an episode must have begun in each."""
    if not batch.has_begun:
        raise ResetNeeded("call reset() before the first step()")
    given = np.asarray(actions)
    if given.shape != (batch.count,) or given.dtype.kind not in "iu" or not ((given >= 0) & (given < len(Action))).all():
        names = ", ".join(f"{int(action)} {action.name}" for action in Action)
        raise InvalidAction(f"an action is a whole number ({names}), one for each of {batch.count} duels; got {actions}")
    return given.astype(np.int64)


class DuelEnv(gymnasium.Env[Seen, np.int64]):
    """One side of a duel; by default the ego behind IDM, rewarded for driving well.

    A crash and an overtaking terminate the episode; running out of time truncates it. `info["outcome"]` names how it ended,
    `info["problem"]` what the other side's policy did wrong. `reset(seed=...)` begins the first episode under a seed, `reset()` the
    next one.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own shape

    def __init__(
        self,
        scenario: Scenario = PRETRAINING,
        side: Side = Side.EGO,
        other: Driver | Idm = _IDM,
        reward: Reward = _DRIVE_WELL,
        seed: int = 0,
    ) -> None:
        self.observation_space = observation_space(scenario.observation)
        self.action_space = action_space()
        self._batch = DuelBatch(scenario, side, other, reward, 1, seed)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """Begins the next episode; with a seed, the first one under it."""
        super().reset(seed=seed, options=options)
        self._batch.reset([seed])
        return self._batch.observe()[0], {"episode": int(self._batch.numbers[0])}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, Info]:
        """Drives one policy step."""
        actions = check_actions(self._batch, [action])
        if self._batch.outcomes[0] != RUNNING:
            raise ResetNeeded("the episode has ended; call reset() before the next step()")
        rewards = self._batch.drive(actions)
        outcome = Outcome.of_code(int(self._batch.outcomes[0]))
        info: Info = {"outcome": outcome.value if outcome else "", "problem": self._batch.problems[0]}
        return self._batch.observe()[0], float(rewards[0]), bool(self._batch.terminated[0]), bool(self._batch.truncated[0]), info


class DuelVectorEnv(VectorEnv[Seen, IntArray, NDArray[Any]]):
    """One side of many duels, all driven in one compiled step; element i plays what a `DuelEnv` with its seed plays.

    Where an episode ended, the following step begins the next one and ignores the action. `info["outcome"]` holds the outcomes'
    codes, (N,), 0 while an episode runs.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - Gymnasium's own shape

    def __init__(
        self,
        scenario: Scenario = PRETRAINING,
        side: Side = Side.EGO,
        other: Driver | Idm = _IDM,
        reward: Reward = _DRIVE_WELL,
        num_envs: int = 1,
        seed: int = 0,
    ) -> None:
        self.num_envs = num_envs
        self.single_observation_space = observation_space(scenario.observation)
        self.single_action_space = action_space()
        self._batch = DuelBatch(scenario, side, other, reward, num_envs, seed)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._is_over = np.zeros(num_envs, np.bool_)

    def reset(self, *, seed: int | list[int | None] | None = None, options: Info | None = None) -> tuple[Seen, Info]:  # noqa: ARG002
        """Begins an episode in every element, as `DuelEnv.reset` does with its seed; a single seed gives element i the seed + i."""
        if seed is None:
            seed = [None] * self.num_envs
        elif isinstance(seed, int):
            seed = list(range(seed, seed + self.num_envs))
        self._batch.reset(seed)
        self._is_over[:] = False
        return self._batch.observe(), self._info()

    def step(self, actions: IntArray) -> tuple[Seen, NDArray[Any], NDArray[Any], NDArray[Any], Info]:
        """Drives one policy step in every element, or begins its next episode where the last one has ended."""
        over = self._is_over.copy()
        rewards = self._batch.drive(check_actions(self._batch, actions))
        self._batch.advance(over)
        terminated, truncated = self._batch.terminated, self._batch.truncated
        self._is_over = terminated | truncated
        return self._batch.observe(), rewards, terminated, truncated, self._info()

    def _info(self) -> Info:
        return {"outcome": self._batch.outcomes.copy(), "_outcome": np.ones(self.num_envs, np.bool_)}


gymnasium.register(ENV_ID, f"{__name__}:DuelEnv", vector_entry_point=f"{__name__}:DuelVectorEnv")
