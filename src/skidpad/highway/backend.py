"""What drives episodes, the engine or highway-env, and the record from which each can be started again."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway import engine
from skidpad.highway.engine import START_EACH_FURTHER, START_FIELDS
from skidpad.highway.episodes import NO_ACTION, Episodes, PolicyFailure
from skidpad.highway.layout import ACTIONS, HEADING, RUNNING, SPEED, VEHICLES, Action, Outcome, Side
from skidpad.highway.observation import observe
from skidpad.highway.opponents import AggressiveActions, Driver, DriverAnswers, Idm, RandomActions, ask, check_fit, random_action
from skidpad.highway.scenario import FrontDriver, Scenario

if TYPE_CHECKING:
    from skidpad.highway.scenes import Scene
    from skidpad.highway.stock import HighwayBackend


@dataclass(frozen=True, slots=True)
class Start:
    """The first state of all vehicles; all head along the road in the middle of their lanes."""

    ego_lane: int
    ego_x_m: float
    ego_speed_mps: float
    front_lane: int
    front_x_m: float
    front_speed_mps: float
    idm_exponent: float
    """How sharply an IDM in front approaches its desired speed; unused by a policy."""
    further: tuple[tuple[float, float, float, float], ...] = ()
    """Lane, x in m, speed in m/s and IDM's exponent of each front vehicle after the first."""

    @classmethod
    def drawn(cls, scenario: Scenario, seed: int, episode: int) -> Self:
        """Draws the start of one episode, the same that `engine.reset` sets."""
        params = scenario.compiled()
        values = np.empty(engine.start_fields(params))
        engine.draw_start(params, seed, episode, values)
        return cls.from_array(values)

    @classmethod
    def from_array(cls, values: FloatArray) -> Self:
        """Reads an array of shape (start_fields,)."""
        ego_lane, ego_x, ego_speed, front_lane, front_x, front_speed, exponent = values[:START_FIELDS].tolist()
        rows = values[START_FIELDS:].reshape(-1, START_EACH_FURTHER).tolist()
        further = tuple((lane, x_m, mps, sharpness) for lane, x_m, mps, sharpness in rows)
        return cls(int(ego_lane), ego_x, ego_speed, int(front_lane), front_x, front_speed, exponent, further)

    def to_array(self) -> FloatArray:
        """Returns the array of shape (start_fields,) that `engine.place` takes."""
        *first, further = astuple(self)
        return np.array([*first, *chain.from_iterable(further)], np.float64)


class EngineBackend:
    """Plays episodes of one scenario on the compiled engine, one at a time."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.start: Start | None = None
        """How the episode began."""
        self._params = scenario.compiled()
        self._state = engine.new_state(self._params.vehicles)
        self._code = RUNNING

    @property
    def state(self) -> FloatArray:
        """A copy of the state, (vehicles, FIELDS)."""
        return self._state.copy()

    @property
    def outcome(self) -> Outcome | None:
        """How the episode ended; None while it runs."""
        return Outcome.of_code(self._code)

    def reset(self, seed: int, episode: int) -> None:
        """Begins episode `episode` under `seed`."""
        self.place(Start.drawn(self.scenario, seed, episode))

    def place(self, start: Start) -> None:
        """Begins an episode from a start that was kept."""
        self.start = start
        engine.place(self._params, start.to_array(), self._state)
        self._code = RUNNING

    def step(self, ego_action: int, front_action: int) -> Outcome | None:
        """Drives one policy step and returns the outcome; an episode that ended can be driven on."""
        check_actions(self.scenario.fronts, ego_action, front_action)
        self._code = engine.step(self._params, self._state, int(ego_action), int(front_action))
        return self.outcome

    def observe(self, side: int) -> NDArray[np.float32]:
        """Returns what one vehicle sees, of shape (size,)."""
        seen = np.empty(self.scenario.observation.size, np.float32)
        observe(self._params, self._state, int(side), seen)
        return seen


Backend: TypeAlias = "EngineBackend | HighwayBackend"
"""What plays episodes one at a time."""


def check_actions(fronts: int, ego_action: int, front_action: int) -> None:
    """Raises unless the ego's action is one of the five meta-actions, and the other the joint action of so many front vehicles."""
    for action, count in ((ego_action, 1), (front_action, fronts)):
        if not 0 <= action < ACTIONS**count:
            names = ", ".join(item.name for item in Action)
            of_many = f", a joint one of {count} vehicles within 0 .. {ACTIONS**count - 1}" if count > 1 else ""
            raise BadParametersError(f"an action is one of 0 .. {ACTIONS - 1} ({names}){of_many}; got {action}")


def highway_backend(scenario: Scenario | None = None, scene: Scene | None = None, *, is_stock_observed: bool = False) -> HighwayBackend:
    """Returns highway-env as a backend: for a scenario, the same two-vehicle highway; for a scene (`scenes`), that one with its traffic.

    A scenario given beside a scene replaces the scene's own (frequencies, end, observation).
    """
    if scenario is None and scene is None:
        raise BadParametersError("highway-env plays a scenario or a scene; got neither")
    from skidpad.highway.stock import HighwayBackend  # noqa: PLC0415 - imports highway-env, an extra

    chosen = scenario if scenario is not None or scene is None else scene.scenario
    return HighwayBackend(chosen, scene, is_stock_observed=is_stock_observed)  # type: ignore[arg-type]  # one of the two is there


def play_on(backend: Backend, ego: Driver, front: Driver | Idm, seed: int, numbers: IntArray) -> Episodes:
    """Plays the episodes numbered (N,) under `seed`; a policy that fails ends its own episode as an error.

    Starts are NaN for a scene that places its own traffic: such an episode is played again from its seed and number.
    """
    scenario = backend.scenario
    if isinstance(front, Idm) != (scenario.front is FrontDriver.IDM):
        raise BadParametersError(f"scenario {scenario.name!r} has {scenario.front.value!r} in front; got {type(front).__name__}")
    if scenario.fronts > 1:
        raise BadParametersError(f"episodes with several front vehicles are driven by `evaluate`; got {scenario.fronts} of them")
    check_fit(ego, Side.EGO, scenario)
    check_fit(front, Side.FRONT, scenario)
    count, limit = len(numbers), scenario.episode_steps
    none = np.full((count, limit), NO_ACTION, np.int8)
    played = Episodes(
        scenario=scenario,
        seed=seed,
        numbers=np.asarray(numbers, np.int64),
        starts=np.full((count, START_FIELDS), np.nan),
        outcomes=np.zeros(count, np.int64),
        steps=np.zeros(count, np.int64),
        ego_actions=none,
        front_actions=none.copy(),
        speeds_mps=np.full((count, limit + 1, VEHICLES), np.nan, np.float32),
    )
    failures: list[PolicyFailure] = []
    for row in range(count):
        failures += _play_one(backend, ego, front, played, row)
    return replace(played, failures=tuple(failures))


def _play_one(backend: Backend, ego: Driver, front: Driver | Idm, played: Episodes, row: int) -> list[PolicyFailure]:
    """Plays the episode of one row and fills in that row; returns at most one failure."""
    number = int(played.numbers[row])
    backend.reset(played.seed, number)
    start = backend.start
    if start is not None:
        played.starts[row] = start.to_array()
    played.speeds_mps[row, 0] = _forward_mps(backend)
    step, outcome = 0, backend.outcome
    while outcome is None:
        chosen = [int(Action.IDLE), int(Action.IDLE)]
        for side, driver in ((Side.FRONT, front), (Side.EGO, ego)):
            if isinstance(driver, Idm):
                continue
            answers = asked(driver, backend, side, played.seed, number, step)
            if answers.complaints:
                played.outcomes[row] = Outcome.ERROR.code
                return [PolicyFailure(number, side, step, f"{side.name.lower()}: {answers.complaints[0].message}")]
            chosen[side] = int(answers.actions[0])
        outcome = backend.step(chosen[Side.EGO], chosen[Side.FRONT])
        played.ego_actions[row, step] = chosen[Side.EGO]
        if not isinstance(front, Idm):
            played.front_actions[row, step] = chosen[Side.FRONT]
        step += 1
        played.speeds_mps[row, step] = _forward_mps(backend)
        played.steps[row] = step
    played.outcomes[row] = outcome.code
    return []


def asked(driver: Driver, backend: Backend, side: Side, seed: int, number: int, step: int) -> DriverAnswers:
    """Asks the driver of one side for its action at one step of an episode."""
    if isinstance(driver, AggressiveActions):
        raise BadParametersError("the aggressive driver works only on the built-in highway; leave it out in a scene of highway-env")
    if isinstance(driver, RandomActions):
        return DriverAnswers(np.array([random_action(seed, number, int(side), step)]))
    return ask(driver, backend.observe(side)[None])


def _forward_mps(backend: Backend) -> tuple[float, float]:
    ego, front = backend.state[:2]
    return float(ego[SPEED] * np.cos(ego[HEADING])), float(front[SPEED] * np.cos(front[HEADING]))
