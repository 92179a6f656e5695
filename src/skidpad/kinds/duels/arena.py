"""Where a duel is fought: on the compiled engine, or in a scene of highway-env; both train and test in the same words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.progress import Progress, silent
from skidpad.highway.backend import Backend, highway_backend, play_on
from skidpad.highway.backend_training import retrain_ego_on, train_ego_on, train_front_on
from skidpad.highway.episodes import Episodes
from skidpad.highway.evaluation import evaluate
from skidpad.highway.opponents import Driver, Idm, Opponent, PlannedActions, SearchedActions
from skidpad.highway.policies import LearnedPolicy
from skidpad.highway.rewards import Reward
from skidpad.highway.scenario import FrontDriver, Scenario
from skidpad.highway.scenes import PRESETS, Scene, preset
from skidpad.highway.training import Training, TrainingSettings, retrain_ego, train_ego, train_front


class Arena(Protocol):
    """Trains and tests; a policy may go from one arena to another only where both show the same observation."""

    @property
    def scenario(self) -> Scenario:
        """Where the two sides meet."""
        ...

    @property
    def pretraining(self) -> Scenario:
        """Where the ego learns to drive behind IDM, and is tested with it."""
        ...

    @property
    def is_judged(self) -> bool:
        """Whether avoidability and safe distances can be said here, and sequences searched."""
        ...

    def drive(self, ego: Driver | PlannedActions, front: Opponent, episodes: int, seed: int, first: int = 0) -> Episodes:
        """Drives episodes of a seed; IDM in front is met in `pretraining`, everyone else in `scenario`."""
        ...

    def train_ego(self, settings: TrainingSettings, seed: int, progress: Progress = silent) -> Training:
        """Trains an ego from scratch against IDM."""
        ...

    def train_front(self, ego: Driver, reward: Reward, settings: TrainingSettings, seed: int, progress: Progress = silent) -> Training:
        """Trains an adversary against the frozen ego."""
        ...

    def retrain_ego(
        self, ego: LearnedPolicy, front: Driver, reward: Reward, settings: TrainingSettings, seed: int, progress: Progress = silent
    ) -> Training:
        """Trains the ego on, against the frozen adversary."""
        ...


@dataclass(frozen=True, slots=True)
class EngineArena:
    """The compiled highway."""

    scenario: Scenario
    pretraining: Scenario
    is_judged: bool = True

    def drive(self, ego: Driver | PlannedActions, front: Opponent, episodes: int, seed: int, first: int = 0) -> Episodes:
        """Drives episodes of a seed."""
        scenario = self.pretraining if isinstance(front, Idm) else self.scenario
        return evaluate(scenario, ego, front, episodes, seed, first_episode=first)

    def train_ego(self, settings: TrainingSettings, seed: int, progress: Progress = silent) -> Training:
        """Trains an ego from scratch against IDM."""
        return train_ego(self.pretraining, settings, seed, progress=progress)

    def train_front(self, ego: Driver, reward: Reward, settings: TrainingSettings, seed: int, progress: Progress = silent) -> Training:
        """Trains an adversary against the frozen ego."""
        return train_front(self.scenario, ego, reward, settings, seed, progress=progress)

    def retrain_ego(
        self, ego: LearnedPolicy, front: Driver, reward: Reward, settings: TrainingSettings, seed: int, progress: Progress = silent
    ) -> Training:
        """Trains the ego on, against the frozen adversary."""
        return retrain_ego(self.scenario, ego, front, settings, seed, reward=reward, progress=progress)


@dataclass(frozen=True, slots=True)
class SceneArena:
    """A scene of highway-env, with traffic around the two; slow, so that budgets are small."""

    scene: Scene
    is_judged: bool = False

    @property
    def scenario(self) -> Scenario:
        """Where the two sides meet."""
        return self.scene.scenario

    @property
    def pretraining(self) -> Scenario:
        """The same scene, with IDM in front."""
        return replace(self.scene.scenario, front=FrontDriver.IDM)

    def drive(self, ego: Driver | PlannedActions, front: Opponent, episodes: int, seed: int, first: int = 0) -> Episodes:
        """Drives episodes of a seed, one after the other."""
        if isinstance(front, SearchedActions) or isinstance(ego, PlannedActions):
            raise BadParametersError(f"the search works only on the built-in highway; leave it out in the scene {self.scene.name!r}")
        scenario = self.pretraining if isinstance(front, Idm) else self.scenario
        return play_on(self._backend(scenario), ego, front, seed, np.arange(first, first + episodes))

    def train_ego(self, settings: TrainingSettings, seed: int, progress: Progress = silent) -> Training:
        """Trains an ego from scratch against IDM."""
        return train_ego_on(self._backend(self.pretraining), settings, seed, progress=progress)

    def train_front(self, ego: Driver, reward: Reward, settings: TrainingSettings, seed: int, progress: Progress = silent) -> Training:
        """Trains an adversary against the frozen ego."""
        return train_front_on(self._backend(self.scenario), ego, reward, settings, seed, progress=progress)

    def retrain_ego(
        self, ego: LearnedPolicy, front: Driver, reward: Reward, settings: TrainingSettings, seed: int, progress: Progress = silent
    ) -> Training:
        """Trains the ego on, against the frozen adversary."""
        return retrain_ego_on(self._backend(self.scenario), ego, front, reward, settings, seed, progress=progress)

    def _backend(self, scenario: Scenario) -> Backend:
        return highway_backend(scenario, self.scene)


def scenario_named(name: str) -> Scenario:
    """Returns a preset, or reads a scenario from a TOML file."""
    path = Path(name)
    if name in PRESETS or path.suffix != ".toml":
        return preset(name)
    try:
        return Scenario.from_toml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadParametersError(f"cannot read the scenario {path}: {error}; name a preset or a TOML file") from error
