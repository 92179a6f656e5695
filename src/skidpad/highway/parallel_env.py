"""PettingZoo's parallel environment: both sides of a duel, both played from outside.

Importing this module needs PettingZoo and Gymnasium, from the extra `duel`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.highway.backend import EngineBackend
from skidpad.highway.gym_env import action_space, observation_space
from skidpad.highway.layout import ACTIONS, CRASH, Outcome, Side
from skidpad.highway.rewards import Reward, begin_episode, fresh_memory, pay
from skidpad.highway.scenario import FrontDriver, Scenario

try:
    from gymnasium import spaces
    from gymnasium.error import InvalidAction, ResetNeeded
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise MissingExtraError.of("pettingzoo", "duel", "a PettingZoo environment of duels") from error

Seen = dict[str, NDArray[np.float32]]
AGENTS = {"ego": Side.EGO, "front": Side.FRONT}


class DuelParallelEnv(ParallelEnv):  # type: ignore[misc]  # PettingZoo is untyped
    """Two agents, `ego` and `front`, in one duel. Both leave when the episode ends; their infos then name the outcome."""

    metadata: dict[str, Any] = {"name": "skidpad_duel_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's own shape

    def __init__(self, scenario: Scenario, ego_reward: Reward, front_reward: Reward, seed: int = 0) -> None:
        if scenario.front is not FrontDriver.POLICY:
            raise BadParametersError(
                f"both sides are played here, but scenario {scenario.name!r} has {scenario.front.value!r} in front; set it to 'policy'"
            )
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.observation_spaces = {agent: observation_space(scenario.observation) for agent in AGENTS}
        self.action_spaces = {agent: action_space() for agent in AGENTS}
        self.render_mode = None
        self._backend = EngineBackend(scenario)
        self._rewards = {"ego": ego_reward.compiled(), "front": front_reward.compiled()}
        self._memories = {agent: fresh_memory() for agent in AGENTS}
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
        self.agents = list(AGENTS)
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Seen, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Drives one policy step with the actions of both."""
        if self._episode < 0:
            raise ResetNeeded("call reset() before the first step()")
        if not self.agents:
            return {}, {}, {}, {}, {}
        for agent in self.agents:
            if not self.action_spaces[agent].contains(actions.get(agent)):
                raise InvalidAction(f"the action of {agent!r} is a whole number within 0 .. {ACTIONS - 1}; got {actions.get(agent)!r}")
        outcome = self._backend.step(int(actions["ego"]), int(actions["front"]))
        state, lanes, agents = self._backend.state, self._backend.scenario.lanes, self.agents
        code = outcome.code if outcome else 0
        rewards = {
            agent: float(pay(self._rewards[agent], lanes, state, int(AGENTS[agent]), code == CRASH, self._memories[agent]))
            for agent in agents
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
        return {agent: self._backend.observe(side) for agent, side in AGENTS.items()}
