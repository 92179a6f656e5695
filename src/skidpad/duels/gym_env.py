"""Gymnasium environments: one side of a duel against a frozen other, one at a time (`DuelEnv`) or many (`DuelVectorEnv`).

Importing this module needs Gymnasium, of the extra `duel`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import MissingExtraError
from skidpad.core.images import IntArray
from skidpad.duels.batch import DuelBatch
from skidpad.duels.layout import Action, Outcome, Side
from skidpad.duels.observation import ObservationSpec
from skidpad.duels.opponents import Driver, Idm
from skidpad.duels.rewards import Reward
from skidpad.duels.scenario import Scenario

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise MissingExtraError.of("gymnasium", "duel", "a Gymnasium environment of duels") from error

Seen = NDArray[np.float32]
Info = dict[str, Any]


def observation_space(spec: ObservationSpec) -> spaces.Space[Any]:
    """Returns the space of flat observations, (size,)."""
    lows, highs = spec.bounds()
    return spaces.Box(lows.astype(np.float32), highs.astype(np.float32), dtype=np.float32)


def action_space() -> spaces.Space[Any]:
    """Returns the space of the five meta-actions."""
    return spaces.Discrete(len(Action))


class DuelEnv(gymnasium.Env[Seen, np.int64]):
    """One side of a duel; `info["outcome"]` names how an episode ended, `info["problem"]` what the other's policy did wrong.

    A crash and an overtaking terminate, time truncates. `reset(seed=...)` starts the count of episodes anew.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own shape

    def __init__(self, scenario: Scenario, side: Side, other: Driver | Idm, reward: Reward, seed: int = 0) -> None:
        self.observation_space = observation_space(scenario.observation)
        self.action_space = action_space()
        self._batch = DuelBatch(scenario, side, other, reward, 1, seed)
        self._has_begun = False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """Begins the next episode; with a seed, the first one under it."""
        super().reset(seed=seed, options=options)
        if seed is not None or not self._has_begun:
            self._batch.restart(seed)
            self._has_begun = True
        else:
            self._batch.advance(np.ones(1, np.bool_))
        return self._batch.observe()[0], {"episode": int(self._batch.numbers[0])}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, Info]:
        """Drives one policy step."""
        rewards = self._batch.drive(np.array([action], np.int64))
        outcome = Outcome.of_code(int(self._batch.outcomes[0]))
        info: Info = {"outcome": outcome.value if outcome else "", "problem": self._batch.problems[0]}
        return self._batch.observe()[0], float(rewards[0]), bool(self._batch.terminated[0]), bool(self._batch.truncated[0]), info


class DuelVectorEnv(VectorEnv[Seen, IntArray, NDArray[Any]]):
    """One side of many duels, all in one compiled step; a place whose episode ended begins its next at the following step.

    `info["outcome"]` holds the outcomes' codes, (N,), 0 while an episode runs.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - Gymnasium's own shape

    def __init__(self, scenario: Scenario, side: Side, other: Driver | Idm, reward: Reward, count: int, seed: int = 0) -> None:
        self.num_envs = count
        self.single_observation_space = observation_space(scenario.observation)
        self.single_action_space = action_space()
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self._batch = DuelBatch(scenario, side, other, reward, count, seed)
        self._is_over = np.zeros(count, np.bool_)

    def reset(self, *, seed: int | list[int | None] | None = None, options: Info | None = None) -> tuple[Seen, Info]:  # noqa: ARG002
        """Begins the first episode of every place; places differ by their number, so one seed serves all."""
        first = next((one for one in seed if one is not None), None) if isinstance(seed, list) else seed
        self._batch.restart(first)
        self._is_over[:] = False
        return self._batch.observe(), self._info()

    def step(self, actions: IntArray) -> tuple[Seen, NDArray[Any], NDArray[Any], NDArray[Any], Info]:
        """Drives one policy step in every place; where an episode had ended, its action is not looked at."""
        over = self._is_over.copy()
        rewards = self._batch.drive(actions)
        self._batch.advance(over)
        terminated, truncated = self._batch.terminated, self._batch.truncated
        self._is_over = terminated | truncated
        return self._batch.observe(), rewards, terminated, truncated, self._info()

    def _info(self) -> Info:
        return {"outcome": self._batch.outcomes.copy(), "_outcome": np.ones(self.num_envs, np.bool_)}
