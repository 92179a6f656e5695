"""Gymnasium environments: one side of a duel against a frozen other, one duel at a time (`DuelEnv`) or many (`DuelVectorEnv`).

Importing this module registers both as `skidpad/Duel-v0`, for `gymnasium.make` and `gymnasium.make_vec`. It needs Gymnasium, from the
extra `duel`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import MissingExtraError
from skidpad.core.images import IntArray
from skidpad.duels.batch import DuelBatch
from skidpad.duels.layout import RUNNING, Action, Outcome, Side
from skidpad.duels.observation import ObservationSpec
from skidpad.duels.opponents import Driver, Idm
from skidpad.duels.presets import PRETRAINING
from skidpad.duels.rewards import Reward, driving_reward
from skidpad.duels.scenario import Scenario

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
