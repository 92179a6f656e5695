"""The ways to drive two vehicles at random along the same highway, each seeing what both drivers see at every policy step."""

import numpy as np
from highway_env.envs.highway_env import HighwayEnv
from numba import njit

from skidpad.highway import engine
from skidpad.highway.backend import highway_backend
from skidpad.highway.layout import ACTIONS, EGO, FIELDS, FRONT, RUNNING, VEHICLES, Params, Side
from skidpad.highway.observation import observe
from skidpad.highway.randomness import EGO_STREAM, FRONT_STREAM, stream_key, whole
from skidpad.highway.scenario import Scenario
from skidpad.highway.stock import kinematics_settings


@njit(nogil=True, cache=True, error_model="numpy")
def _drive(params: Params, seed: int, first: int, policy_steps: int, seen: np.ndarray) -> int:
    state = np.zeros((VEHICLES, FIELDS))
    episode, driven = first, 0
    while driven < policy_steps:
        engine.reset(params, seed, episode, state)
        ego, front = stream_key(seed, episode, EGO_STREAM), stream_key(seed, episode, FRONT_STREAM)
        code, step = RUNNING, 0
        while code == RUNNING:
            observe(params, state, EGO, seen[0])
            observe(params, state, FRONT, seen[1])
            code = engine.step(params, state, whole(ego, step, ACTIONS), whole(front, step, ACTIONS))
            step += 1
        driven += step
        episode += 1
    return driven


class Compiled:
    """The engine called from compiled code, as the learner does."""

    name = "skidpad, in compiled code"

    def __init__(self, scenario: Scenario) -> None:
        self._params = scenario.compiled()
        self._seen = np.zeros((VEHICLES, scenario.observation.size), np.float32)

    def run(self, policy_steps: int) -> int:
        """Drives whole episodes until so many policy steps are done, and returns how many were."""
        return int(_drive(self._params, 1, 0, policy_steps, self._seen))


class Batched:
    """The engine called from Python for many episodes at once; actions are drawn by NumPy."""

    name = "skidpad, in batches from Python"

    def __init__(self, scenario: Scenario, places: int = 1024) -> None:
        self._params = scenario.compiled()
        self._states = engine.new_states(places)
        self._outcomes = np.zeros(places, np.int64)
        self._seen = np.zeros((places, scenario.observation.size), np.float32)
        self._rng = np.random.default_rng(1)

    def run(self, policy_steps: int) -> int:
        """Drives whole episodes until so many policy steps are done, and returns how many were."""
        places, driven, first = len(self._states), 0, 0
        while driven < policy_steps:
            engine.reset_many(self._params, 1, np.arange(first, first + places), self._states, self._outcomes)
            first, running = first + places, places
            while running:
                driven += running
                for side in Side:
                    engine.observe_many(self._params, self._states, int(side), self._seen)
                ego, front = self._rng.integers(0, ACTIONS, (2, places))
                running = engine.step_many(self._params, self._states, ego, front, self._outcomes)
        return driven


class Stock:
    """highway-env as it comes: two agents, its own Kinematics observation."""

    name = "highway-env, stock"

    def __init__(self, scenario: Scenario) -> None:
        self._end_m = -np.inf if scenario.overtake_end_m is None else scenario.overtake_end_m
        self._environment = HighwayEnv(
            {
                "controlled_vehicles": 2,
                "vehicles_count": 0,
                "lanes_count": scenario.lanes,
                "duration": scenario.episode_steps / scenario.policy_hz,
                "simulation_frequency": scenario.simulation_hz,
                "policy_frequency": scenario.policy_hz,
                "ego_spacing": scenario.spacing[1],
                "action": {"type": "MultiAgentAction", "action_config": {"type": "DiscreteMetaAction"}},
                "observation": {"type": "MultiAgentObservation", "observation_config": kinematics_settings(scenario.observation)},
            }
        )
        self._rng = np.random.default_rng(1)

    def run(self, policy_steps: int) -> int:
        """Drives whole episodes until so many policy steps are done, and returns how many were."""
        driven = 0
        while driven < policy_steps:
            self._environment.reset(seed=driven)
            is_over = False
            while not is_over:
                ego, front = self._rng.integers(0, ACTIONS, 2).tolist()
                _, _, terminated, truncated, _ = self._environment.step((ego, front))
                first, second = self._environment.controlled_vehicles
                is_over = terminated or truncated or second.position[0] - first.position[0] <= self._end_m
                driven += 1
        return driven


class Plain:
    """highway-env with its observation replaced by a plain one in NumPy."""

    name = "highway-env, plain observation"

    def __init__(self, scenario: Scenario) -> None:
        self._backend = highway_backend(scenario)
        self._rng = np.random.default_rng(1)

    def run(self, policy_steps: int) -> int:
        """Drives whole episodes until so many policy steps are done, and returns how many were."""
        driven = episode = 0
        while driven < policy_steps:
            self._backend.reset(1, episode)
            episode += 1
            outcome = None
            while outcome is None:
                for side in Side:
                    self._backend.observe(side)
                outcome = self._backend.step(*self._rng.integers(0, ACTIONS, 2).tolist())
                driven += 1
        return driven
