"""One interface to the simulators of a duel: the compiled engine and highway-env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.duels import engine
from skidpad.duels.layout import ACTIONS, RUNNING, Action, Outcome, Side
from skidpad.duels.observation import observe
from skidpad.duels.scenario import Scenario
from skidpad.duels.start import Start

if TYPE_CHECKING:
    from skidpad.duels.highway import HighwayBackend
    from skidpad.duels.scenes import Scene


class Backend(Protocol):
    """Plays episodes of one scenario, one at a time."""

    @property
    def scenario(self) -> Scenario:
        """What is played."""
        ...

    @property
    def state(self) -> FloatArray:
        """A copy of the state, (2, FIELDS)."""
        ...

    @property
    def start(self) -> Start | None:
        """How the episode began; None in a scene that places its own traffic."""
        ...

    @property
    def outcome(self) -> Outcome | None:
        """How the episode ended; None while it runs."""
        ...

    def reset(self, seed: int, episode: int) -> None:
        """Begins episode `episode` under `seed`."""
        ...

    def step(self, ego_action: int, front_action: int) -> Outcome | None:
        """Drives one policy step and returns the outcome; an episode that ended can be driven on."""
        ...

    def observe(self, side: Side) -> NDArray[np.float32]:
        """Returns what one side sees, of shape (size,)."""
        ...


class EngineBackend:
    """The compiled engine behind the interface."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._params = scenario.compiled()
        self._state = engine.new_state()
        self._code = RUNNING
        self._start: Start | None = None

    @property
    def scenario(self) -> Scenario:
        """What is played."""
        return self._scenario

    @property
    def state(self) -> FloatArray:
        """A copy of the state, (2, FIELDS)."""
        return self._state.copy()

    @property
    def start(self) -> Start | None:
        """How the episode began."""
        return self._start

    @property
    def outcome(self) -> Outcome | None:
        """How the episode ended; None while it runs."""
        return Outcome.of_code(self._code)

    def reset(self, seed: int, episode: int) -> None:
        """Begins episode `episode` under `seed`."""
        self.place(Start.drawn(self._scenario, seed, episode))

    def place(self, start: Start) -> None:
        """Begins an episode from a start that was kept."""
        self._start = start
        engine.place(self._params, start.to_array(), self._state)
        self._code = RUNNING

    def step(self, ego_action: int, front_action: int) -> Outcome | None:
        """Drives one policy step and returns the outcome; an episode that ended can be driven on."""
        check_actions(ego_action, front_action)
        self._code = engine.step(self._params, self._state, int(ego_action), int(front_action))
        return self.outcome

    def observe(self, side: Side) -> NDArray[np.float32]:
        """Returns what one side sees, of shape (size,)."""
        seen = np.empty(self._scenario.observation.size, np.float32)
        observe(self._params, self._state, int(side), seen)
        return seen


def check_actions(*actions: int) -> None:
    """Raises unless every action is one of the five meta-actions."""
    for action in actions:
        if not 0 <= action < ACTIONS:
            raise BadParametersError(f"an action is one of 0 .. {ACTIONS - 1} ({', '.join(item.name for item in Action)}); got {action}")


def highway_backend(scenario: Scenario | None = None, scene: Scene | None = None, *, is_stock_observed: bool = False) -> HighwayBackend:
    """Returns highway-env as a backend: for a scenario, the same two-vehicle highway; for a scene (`scenes`), that one with its traffic.

    A scenario given beside a scene replaces the scene's own (frequencies, end, observation).
    """
    if scenario is None and scene is None:
        raise BadParametersError("highway-env plays a scenario or a scene; got neither")
    from skidpad.duels.highway import HighwayBackend  # noqa: PLC0415 - imports highway-env, an extra

    chosen = scenario if scenario is not None or scene is None else scene.scenario
    return HighwayBackend(chosen, scene, is_stock_observed=is_stock_observed)  # type: ignore[arg-type]  # one of the two is there
