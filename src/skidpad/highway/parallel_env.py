"""PettingZoo's parallel environment: all vehicles of a duel, all played from outside.

Importing this module needs PettingZoo and Gymnasium, from the extra `duel`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.highway.backend import EngineBackend
from skidpad.highway.gym_env import action_space, observation_space
from skidpad.highway.layout import ACTIONS, CRASH, FRONT, Outcome
from skidpad.highway.rewards import Reward, begin_episode, fresh_memory, pay
from skidpad.highway.scenario import FrontDriver, Scenario

try:
    from gymnasium import spaces
    from gymnasium.error import InvalidAction, ResetNeeded
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise MissingExtraError.of("pettingzoo", "duel", "a PettingZoo environment of duels") from error

Seen = dict[str, NDArray[np.float32]]
_AGENTS = ("ego", "front", "front 2", "front 3")


class DuelParallelEnv(ParallelEnv):  # type: ignore[misc]  # PettingZoo is untyped
    """The agents `ego` and `front` in one duel, `front 2` and `front 3` where the scenario has them.

    All leave when the episode ends; their infos then name the outcome. All front vehicles earn the same kind of reward.
    """

    metadata: dict[str, Any] = {"name": "skidpad_duel_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's own shape

    def __init__(self, scenario: Scenario, ego_reward: Reward, front_reward: Reward, seed: int = 0) -> None:
        if scenario.front is not FrontDriver.POLICY:
            raise BadParametersError(
                f"all vehicles are played here, but scenario {scenario.name!r} has {scenario.front.value!r} in front; set it to 'policy'"
            )
        self.possible_agents = list(_AGENTS[: 1 + scenario.fronts])
        self.agents: list[str] = []
        self.observation_spaces = {agent: observation_space(scenario.observation) for agent in self.possible_agents}
        self.action_spaces = {agent: action_space() for agent in self.possible_agents}
        self.render_mode = None
        self._backend = EngineBackend(scenario)
        rewards = ego_reward.compiled(), front_reward.compiled()
        self._rewards = {agent: rewards[min(place, FRONT)] for place, agent in enumerate(self.possible_agents)}
        self._memories = {agent: fresh_memory() for agent in self.possible_agents}
        self._seed = seed
        self._episode = -1

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Returns the space of one agent's flat observation."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Returns the space of the five meta-actions."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, dict[str, Any]]]:  # noqa: ARG002
        """Begins the next episode; with a seed, the first one under it."""
        if seed is not None:
            self._seed, self._episode = seed, -1
        self._episode += 1
        self._backend.reset(self._seed, self._episode)
        for agent, reward in self._rewards.items():
            begin_episode(reward, self._memories[agent])
        self.agents = list(self.possible_agents)
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Seen, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Drives one policy step with the actions of all."""
        if self._episode < 0:
            raise ResetNeeded("call reset() before the first step()")
        if not self.agents:
            return {}, {}, {}, {}, {}
        for agent in self.agents:
            if not self.action_spaces[agent].contains(actions.get(agent)):
                raise InvalidAction(f"the action of {agent!r} is a whole number within 0 .. {ACTIONS - 1}; got {actions.get(agent)!r}")
        ego, *fronts = (int(actions[agent]) for agent in self.possible_agents)
        outcome = self._backend.step(ego, sum(action * ACTIONS**place for place, action in enumerate(fronts)))
        state, lanes, agents = self._backend.state, self._backend.scenario.lanes, self.agents
        code = outcome.code if outcome else 0
        rewards = {
            agent: float(pay(self._rewards[agent], lanes, state, place, code == CRASH, self._memories[agent]))
            for place, agent in enumerate(agents)
        }
        is_over, is_late = outcome not in {None, Outcome.TIMEOUT}, outcome is Outcome.TIMEOUT
        infos = {agent: {"outcome": outcome.value if outcome else ""} for agent in agents}
        seen = self._seen()
        self.agents = [] if outcome else agents
        return seen, rewards, dict.fromkeys(agents, is_over), dict.fromkeys(agents, is_late), infos

    def render(self) -> None:
        """Does nothing: recorded episodes are drawn by `skidpad replay --picture`."""

    def close(self) -> None:
        """Does nothing: there is nothing to free."""

    def _seen(self) -> Seen:
        return {agent: self._backend.observe(side) for side, agent in enumerate(self.possible_agents)}
