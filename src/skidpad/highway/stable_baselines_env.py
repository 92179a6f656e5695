"""The vector environment that stable-baselines3 trains on: one side of many duels against a frozen other.

Importing this module needs stable-baselines3, from the extra `duel`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import MissingExtraError
from skidpad.core.images import IntArray
from skidpad.highway.gym_env import DuelBatch, action_space, check_actions, observation_space
from skidpad.highway.layout import RUNNING, Outcome, Side
from skidpad.highway.opponents import Driver, Idm
from skidpad.highway.rewards import Reward
from skidpad.highway.scenario import Scenario

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise MissingExtraError.of("stable-baselines3", "duel", "an environment for stable-baselines3") from error


class StableBaselinesEnv(VecEnv):
    """Begins the next episode in the same step and keeps the last observation in `terminal_observation`, as the library wants it."""

    def __init__(self, scenario: Scenario, side: Side, other: Driver | Idm, reward: Reward, num_envs: int, seed: int = 0) -> None:
        self.render_mode = None
        super().__init__(num_envs, observation_space(scenario.observation), action_space())
        self._batch = DuelBatch(scenario, side, other, reward, num_envs, seed)
        self._actions = np.zeros(num_envs, np.int64)

    def reset(self) -> NDArray[np.float32]:
        """Begins an episode in every place: the first under the seed that `seed` gave it, or the next one."""
        self._batch.reset(self._seeds)
        self._reset_seeds()
        return self._batch.observe()

    def step_async(self, actions: IntArray) -> None:
        """Takes the actions."""
        self._actions = check_actions(self._batch, actions)

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Drives one policy step in every place."""
        rewards = self._batch.drive(self._actions)
        over, truncated = self._batch.outcomes != RUNNING, self._batch.truncated
        last = self._batch.observe()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(over).tolist():
            outcome = Outcome.of_code(int(self._batch.outcomes[row]))
            infos[row] = {
                "terminal_observation": last[row],
                "TimeLimit.truncated": bool(truncated[row]),
                "outcome": outcome.value if outcome else "",
                "problem": self._batch.problems[row],
            }
        self._batch.advance(over)
        return self._batch.observe(), rewards.astype(np.float32), over, infos

    def close(self) -> None:
        """Does nothing: there is nothing to free."""

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Returns an attribute of this environment once for each place."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:  # noqa: ARG002
        """Sets an attribute of this environment."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: int | Iterable[int] | None = None, **kwargs: Any) -> list[Any]:
        """Calls a method of this environment once for each place."""
        return [getattr(self, method_name)(*args, **kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: int | Iterable[int] | None = None) -> list[bool]:  # noqa: ARG002
        """Nothing is wrapped."""
        return [False for _ in self._get_indices(indices)]
