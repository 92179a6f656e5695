"""highway-env as a backend: a reference for the engine, and the scenes that the engine does not have.

Importing this module needs highway-env, from the extra `duel`; `backend.highway_backend` imports it when it is called.
"""

from dataclasses import dataclass
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import MissingExtraError
from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_seed
from skidpad.highway.backend import Start, check_actions
from skidpad.highway.layout import (
    ACCELERATION,
    CRASHED,
    FIELDS,
    HEADING,
    IDM_EXPONENT,
    IS_IDM,
    LANE,
    LANE_TIMER,
    LANE_WIDTH_M,
    PUSH_X,
    PUSH_Y,
    SPEED,
    STEERING,
    STEPS,
    STRUCK,
    TARGET_LANE,
    TARGET_SPEED,
    Outcome,
    X,
    Y,
    action_of,
)
from skidpad.highway.observation import ObservationSpec, Quantity
from skidpad.highway.scenario import FrontDriver, Scenario
from skidpad.highway.scenes import Scene

try:
    from highway_env.envs.common.abstract import AbstractEnv
    from highway_env.envs.common.observation import KinematicObservation, ObservationType
    from highway_env.envs.highway_env import HighwayEnv
    from highway_env.utils import class_from_path
    from highway_env.vehicle.behavior import IDMVehicle
    from highway_env.vehicle.controller import ControlledVehicle
    from highway_env.vehicle.kinematics import Vehicle
except ModuleNotFoundError as error:
    raise MissingExtraError.of("highway-env", "duel", "playing on highway-env") from error

_RELATIVE = (Quantity.X, Quantity.Y, Quantity.VX, Quantity.VY)


class CrossingTraffic(IDMVehicle):  # type: ignore[misc]  # highway-env is untyped
    """The intersection's traffic; a class of its own, because that scene rewrites constants of the class it is given."""


class _Unseen(ObservationType):  # type: ignore[misc]  # highway-env is untyped
    """Observes nothing: observations are computed when requested, not at every step."""

    def observe(self) -> None:
        """Returns nothing."""


def _action_settings(scenario: Scenario) -> dict[str, object]:
    own = {"type": "DiscreteMetaAction", "target_speeds": list(scenario.target_speeds_mps)}
    return {"type": "MultiAgentAction", "action_config": own}


def kinematics_settings(spec: ObservationSpec) -> dict[str, object]:
    """Returns the configuration by which highway-env's own Kinematics observation shows what `spec` says."""
    ranges = {feature.quantity.value: [feature.low, feature.high] for feature in spec.features if feature.low is not None}
    return {
        "type": "Kinematics",
        "features": [feature.quantity.value for feature in spec.features],
        "features_range": ranges,
        "vehicles_count": spec.vehicles,
        "absolute": spec.is_absolute,
        "normalize": bool(ranges),  # an empty range would be taken for "use your own"
        "clip": spec.is_clipped,
        "see_behind": spec.sees_behind,
    }


def _row(vehicle: Vehicle) -> dict[Quantity, float]:
    cosine, sine = float(np.cos(vehicle.heading)), float(np.sin(vehicle.heading))
    speed = float(getattr(vehicle, "speed", 0.0))
    return {
        Quantity.PRESENCE: 1.0,
        Quantity.X: float(vehicle.position[0]),
        Quantity.Y: float(vehicle.position[1]),
        Quantity.VX: speed * cosine,
        Quantity.VY: speed * sine,
        Quantity.HEADING: float(vehicle.heading),
        Quantity.COS_HEADING: cosine,
        Quantity.SIN_HEADING: sine,
    }


def plain_observation(
    spec: ObservationSpec, environment: AbstractEnv, observer: Vehicle, first: Vehicle | None = None
) -> NDArray[np.float32]:
    """Returns what highway-env's Kinematics would, without pandas, of shape (spec.size,); `first` is shown before all others."""
    own = _row(observer)
    rows = [own]
    if spec.vehicles > 1:
        near = environment.road.close_objects_to(observer, spec.perception_m, see_behind=spec.sees_behind)
        rows += [_row(other) for other in sorted(near, key=lambda other: other is not first)[: spec.vehicles - 1]]
    seen = np.zeros((spec.vehicles, len(spec.features)))
    for place, row in enumerate(rows):
        for column, feature in enumerate(spec.features):
            value = row[feature.quantity]
            if place > 0 and not spec.is_absolute and feature.quantity in _RELATIVE:
                value -= own[feature.quantity]
            if feature.low is not None and feature.high is not None:
                value = -1.0 + (value - feature.low) * 2.0 / (feature.high - feature.low)
                value = min(max(value, -1.0), 1.0) if spec.is_clipped else value
            seen[place, column] = value
    return seen.astype(np.float32).ravel()


@dataclass(frozen=True, slots=True)
class _Cast:
    """The vehicles of a duel among all on the road."""

    ego: ControlledVehicle
    fronts: tuple[ControlledVehicle, ...]

    @property
    def all(self) -> tuple[ControlledVehicle, ...]:
        return self.ego, *self.fronts


class HighwayBackend:
    """highway-env behind the interface: the scenario's own two-vehicle highway, or a scene with traffic.

    `is_stock_observed` takes highway-env's own observation, which costs ten times the simulation, instead of the plain one.
    """

    def __init__(self, scenario: Scenario, scene: Scene | None = None, *, is_stock_observed: bool = False) -> None:
        self.scenario = scenario
        self.start: Start | None = None
        """How the episode began; None in a scene, which places its own traffic."""
        self.outcome: Outcome | None = None
        self._scene = scene
        self._is_stock_observed = is_stock_observed
        self.environment = self._built()
        """highway-env's environment, to render or to look inside."""
        self._cast: _Cast | None = None
        self._steps = 0

    def _built(self) -> AbstractEnv:
        settings: dict[str, object] = {
            "action": _action_settings(self.scenario),
            "simulation_frequency": self.scenario.simulation_hz,
            "policy_frequency": self.scenario.policy_hz,
            "observation": {"type": "AttributesObservation", "attributes": []},  # none: a reset would go through pandas
        }
        if self._scene is None:
            return HighwayEnv({**settings, "lanes_count": self.scenario.lanes, "vehicles_count": 0, "controlled_vehicles": 1})
        settings |= {"neighbour_vehicles_connected_lanes": True, **self._scene.settings}
        if self._scene.has_two_drivers:
            settings["controlled_vehicles"] = 2
        module, name = self._scene.environment.rsplit(".", 1)
        return getattr(import_module(module), name)(settings)

    @property
    def _vehicles(self) -> _Cast:
        if self._cast is None:
            raise RuntimeError("no episode has begun; call reset or place first")
        return self._cast

    def reset(self, seed: int, episode: int) -> None:
        """Begins episode `episode` under `seed`: from the engine's own start, or as the scene draws it."""
        if self._scene is None:
            self.place(Start.drawn(self.scenario, seed, episode))
            return
        self.environment.reset(seed=child_seed(seed, self._scene.name, episode) % 2**32)
        ego = self.environment.controlled_vehicles[0]
        front = self.environment.controlled_vehicles[1] if self._scene.has_two_drivers else self._ahead_of(ego)
        self._begin(ego, (self._manned(front),))

    def place(self, start: Start) -> None:
        """Begins an episode on the highway from a start that was kept."""
        environment = self.environment
        environment.reset(seed=0)  # makes the road; its vehicle is replaced, and nothing random is left after this
        road, make = environment.road, environment.action_type.vehicle_class
        ego = make(road, [start.ego_x_m, start.ego_lane * LANE_WIDTH_M], 0.0, start.ego_speed_mps)
        fronts = []
        for lane, x_m, speed, exponent in ((start.front_lane, start.front_x_m, start.front_speed_mps, start.idm_exponent), *start.further):
            is_idm = self.scenario.front is FrontDriver.IDM
            fronts.append((IDMVehicle if is_idm else make)(road, [x_m, lane * LANE_WIDTH_M], 0.0, speed))
            if is_idm:
                fronts[-1].DELTA = exponent
        road.vehicles = [ego, *fronts]
        self.start = start
        self._begin(ego, tuple(fronts))

    def _ahead_of(self, ego: ControlledVehicle) -> ControlledVehicle:
        """Returns the vehicle of the traffic that is nearest ahead, or nearest at all where none is ahead."""
        others = [vehicle for vehicle in self.environment.road.vehicles if vehicle is not ego]
        ahead = [vehicle for vehicle in others if ego.lane_distance_to(vehicle) > 0] or others
        return min(ahead, key=lambda vehicle: float(np.linalg.norm(vehicle.position - ego.position)))

    def _manned(self, front: ControlledVehicle) -> ControlledVehicle:
        """Returns the front vehicle with the scenario's driver in it, put in its place on the road where the scene made it otherwise.

        IDM in front is a vehicle of the scene's own traffic, which decides by IDM and MOBIL and takes no actions.
        """
        is_idm = self.scenario.front is FrontDriver.IDM
        if isinstance(front, IDMVehicle) == is_idm:
            return front
        environment = self.environment
        if is_idm:
            driven = class_from_path(environment.config["other_vehicles_type"]).create_from(front)
        else:
            driven = environment.action_type.vehicle_class(
                environment.road,
                front.position,
                front.heading,
                front.speed,
                target_lane_index=front.target_lane_index,
                route=front.route,
            )
        environment.road.vehicles[environment.road.vehicles.index(front)] = driven
        return driven

    def _begin(self, ego: ControlledVehicle, fronts: tuple[ControlledVehicle, ...]) -> None:
        environment = self.environment
        environment.controlled_vehicles = [ego] if isinstance(fronts[0], IDMVehicle) else [ego, *fronts]
        environment.define_spaces()  # links the actions to these vehicles
        environment.observation_type = _Unseen(environment)
        self._cast = _Cast(ego, fronts)
        self._steps = 0
        self.outcome = None

    def step(self, ego_action: int, front_action: int) -> Outcome | None:
        """Drives one policy step and returns the outcome; an episode that ended can be driven on."""
        check_actions(self.scenario.fronts, ego_action, front_action)
        fronts = range(1, 1 + self.scenario.fronts)
        # IDM in front is not controlled: all but the first are left over
        self.environment.step((ego_action, *(action_of(front_action, vehicle) for vehicle in fronts)))
        self._steps += 1
        self.outcome = self._judged()
        return self.outcome

    def _judged(self) -> Outcome | None:
        ego, fronts = self._vehicles.ego, self._vehicles.fronts
        if ego.crashed:
            return Outcome.CRASH
        end_m = self.scenario.overtake_end_m
        if end_m is not None and max(front.position[0] for front in fronts) - ego.position[0] <= end_m:
            return Outcome.OVERTAKEN
        is_over = self._scene is not None and self._scene.end_x_m is not None and ego.position[0] > self._scene.end_x_m
        return Outcome.TIMEOUT if is_over or self._steps >= self.scenario.episode_steps else None

    def observe(self, side: int) -> NDArray[np.float32]:
        """Returns what one vehicle sees, of shape (size,)."""
        vehicle = self._vehicles.all[side]
        if not self._is_stock_observed:
            first = self._vehicles.ego if self._scene is None else None  # as on the engine, where a front vehicle knows the ego
            return plain_observation(self.scenario.observation, self.environment, vehicle, first)
        stock = KinematicObservation(self.environment, **kinematics_settings(self.scenario.observation))
        stock.observer_vehicle = vehicle
        return np.asarray(stock.observe(), np.float32).ravel()

    @property
    def state(self) -> FloatArray:
        """The state in the engine's layout, (vehicles, FIELDS); lanes are numbered within their road."""
        vehicles = self._vehicles.all
        state = np.zeros((len(vehicles), FIELDS))
        for row, vehicle in zip(state, vehicles, strict=True):
            row[X], row[Y] = vehicle.position
            row[HEADING], row[SPEED] = vehicle.heading, vehicle.speed
            row[LANE], row[TARGET_LANE], row[TARGET_SPEED] = vehicle.lane_index[2], vehicle.target_lane_index[2] or 0, vehicle.target_speed
            row[CRASHED], row[STRUCK] = vehicle.crashed, vehicle.impact is not None
            if vehicle.impact is not None:
                row[PUSH_X], row[PUSH_Y] = vehicle.impact
            row[STEERING], row[ACCELERATION] = vehicle.action["steering"], vehicle.action["acceleration"]
            row[STEPS] = self._steps
            if isinstance(vehicle, IDMVehicle):
                row[IS_IDM], row[IDM_EXPONENT], row[LANE_TIMER] = 1.0, vehicle.DELTA, vehicle.timer
        return state
