"""A scenario as ASAM OpenSCENARIO XML 1.3, written with `scenariogeneration`: who is where, how fast, in which weather.

Everybody begins at an exact pose of the world, so that no convention of lanes can be misread; a vehicle's pose is that of its rear axle,
as OpenSCENARIO has it. Speeds are along the middle of the road, as in the built-in world. What the standard has no word for (trees,
buildings, gantries, the seed) is kept as properties of the ego, so that nothing of the scenario is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import cos, exp, pi, radians, sin
from pathlib import Path
from typing import Any

import numpy as np

from skidpad.core.files import write_atomically
from skidpad.core.units import WHEELBASE_M
from skidpad.worlds.collision import REAR_OVERHANG_M
from skidpad.worlds.openx.opendrive import NO_DATE, generation, lane_id, opendrive_text, xml_text
from skidpad.worlds.render.chunks import START_M, road_of, section_of
from skidpad.worlds.render.weather import visibility_m
from skidpad.worlds.scenario.road import Road
from skidpad.worlds.scenario.scenario import (
    CAR_HEIGHT_M,
    CAR_LENGTH_M,
    CAR_WIDTH_M,
    PERSON_HEIGHT_M,
    PERSON_WIDTH_M,
    Conditions,
    Figure,
    Move,
    OtherVehicle,
    Scenario,
    Side,
    Weather,
    values_of,
)
from skidpad.worlds.vehicle import FRICTION

EGO = "Ego"
AXLE_TO_MIDDLE_M = 0.5 * CAR_LENGTH_M - REAR_OVERHANG_M
"""How far the middle of a car is before its rear axle."""
PROPERTY = "skidpad."

_MINOR_VERSION = 3
"""The schema of 1.2 cannot express a light: it wants an animation beside each."""
RAIN_MM_H, SNOW_MM_H = 30.0, 5.0
"""Precipitation at intensity 1."""
_WALKER_KG = 75.0


@dataclass(frozen=True, slots=True)
class ExportedScenario:
    """The two files of an exported scenario."""

    opendrive: Path
    openscenario: Path


def export_scenario(scenario: Scenario, folder: Path, name: str = "scenario") -> ExportedScenario:
    """Writes `NAME.xodr` and `NAME.xosc`, which refers to it, into a folder, and creates the folder if needed."""
    files = ExportedScenario(folder / f"{name}.xodr", folder / f"{name}.xosc")
    road, story = opendrive_text(scenario, name), openscenario_text(scenario, name, files.opendrive.name)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(files.opendrive, road.encode())
    write_atomically(files.openscenario, story.encode())
    return files


def illuminance_lux(conditions: Conditions) -> float:
    """Returns how brightly the sky lights the scene, facing the sun in clear weather and upwards under clouds; 0 by night.

    Reference: the sun through a clear sky, IES RP-21 (1984); an overcast sky, Krochmann and Seidl (1974), which the CIE adopted.
    """
    height = sin(radians(max(conditions.sun_elevation_deg, 0.0)))
    if conditions.night or height <= 0.0:
        return 0.0
    return 127_500.0 * exp(-0.21 / height) if conditions.weather is Weather.SUNNY else 300.0 + 21_000.0 * height


def openscenario_text(scenario: Scenario, name: str = "scenario", road_file: str = "scenario.xodr") -> str:
    """Returns a scenario as the text of an `.xosc` file that refers to the `.xodr` file of its road."""
    xosc = generation("xosc")
    entities, init = xosc.Entities(), xosc.Init()
    init.add_global_action(xosc.EnvironmentAction(_environment(scenario.conditions)))
    for actor in _actors(scenario):
        entities.add_scenario_object(actor.name, actor.body)
        init.add_init_action(actor.name, xosc.TeleportAction(actor.position))
        init.add_init_action(actor.name, xosc.AbsoluteSpeedAction(actor.speed_m_s, _at_once()))
    for light, on in ((xosc.VehicleLightType.lowBeam, scenario.ego.headlights), (xosc.VehicleLightType.fogLights, scenario.ego.fog_lights)):
        init.add_init_action(EGO, xosc.LightStateAction(light, xosc.LightMode.on if on else xosc.LightMode.off))
    over = xosc.SimulationTimeCondition(scenario.duration_s, xosc.Rule.greaterOrEqual)
    board = xosc.StoryBoard(init, xosc.ValueTrigger("end", 0, xosc.ConditionEdge.none, over, triggeringpoint="stop"))
    for number, vehicle in enumerate(scenario.vehicles, 1):
        if vehicle.moves:
            board.add_maneuver(_maneuver(f"Vehicle{number}", vehicle, scenario.road.lanes), f"Vehicle{number}")
    made = xosc.Scenario(
        name,
        "skidpad",
        xosc.ParameterDeclarations(),
        entities,
        board,
        xosc.RoadNetwork(road_file),
        xosc.Catalog(),
        osc_minor_version=_MINOR_VERSION,
        creation_date=datetime.fromisoformat(NO_DATE).replace(tzinfo=UTC),
    )
    element = made.get_element()
    for action in element.iter("LightStateAction"):
        # The package writes the two the other way round, which the schema refuses.
        action[:] = sorted(action, key=lambda child: child.tag != "LightType")
    return xml_text(element)


def _maneuver(name: str, vehicle: OtherVehicle, lanes: int) -> Any:
    """Returns the moves of a car, each as an event at its time; there may be one for its speed and one for its lane."""
    xosc = generation("xosc")
    maneuver = xosc.Maneuver(f"{name}Moves")
    for number, move in enumerate(vehicle.moves, 1):
        dynamics = _dynamics(move)
        event = xosc.Event(f"{name}Move{number}", xosc.Priority.parallel)
        if move.speed_m_s is not None:
            event.add_action(f"{name}Speed{number}", xosc.AbsoluteSpeedAction(move.speed_m_s, dynamics))
        if move.lane is not None:
            change = xosc.AbsoluteLaneChangeAction(lane_id(lanes, move.lane), dynamics, move.offset_m or None)
            event.add_action(f"{name}Lane{number}", change)
        begins = xosc.SimulationTimeCondition(move.start_s, xosc.Rule.greaterOrEqual)
        event.add_trigger(xosc.ValueTrigger(f"{name}Begins{number}", 0, xosc.ConditionEdge.none, begins))
        maneuver.add_event(event)
    return maneuver


def _dynamics(move: Move) -> Any:
    xosc = generation("xosc")
    if not move.lasts_s:
        return _at_once()
    return xosc.TransitionDynamics(getattr(xosc.DynamicsShapes, move.shape.value), xosc.DynamicsDimension.time, move.lasts_s)


@dataclass(frozen=True, slots=True)
class _Actor:
    name: str
    body: Any
    position: Any
    speed_m_s: float


def _actors(scenario: Scenario) -> list[_Actor]:
    road, section = road_of(scenario), section_of(scenario)
    ego = _car(EGO)
    for name, value in values_of(scenario).items():
        ego.add_property(PROPERTY + name, str(value))
    actors = [_Actor(EGO, ego, _pose(road, START_M, section.lane_centre_m, forwards=True), scenario.ego.speed_m_s)]
    for number, vehicle in enumerate(scenario.vehicles, 1):
        forwards = vehicle.lane >= 1
        lateral_m, is_car = section.lane_centre_of(vehicle.lane) + vehicle.offset_m, vehicle.figure is Figure.CAR
        back_m = AXLE_TO_MIDDLE_M if is_car else 0.0
        position = _pose(road, START_M + vehicle.ahead_m, lateral_m, forwards=forwards, back_m=back_m)
        name = f"Vehicle{number}"
        actors.append(_Actor(name, _car(name) if is_car else _walker(name), position, vehicle.speed_m_s))
    beside_m = section.edge_m + section.margin_m + 0.5 * section.shoulder_m
    for number, person in enumerate(scenario.pedestrians, 1):
        s_m = START_M + person.ahead_m
        ramp_m = float(section.outer_right_m(np.array(s_m))) - section.outer_m
        lateral_m = beside_m if person.side is Side.LEFT else -beside_m - ramp_m
        position = _pose(road, s_m, lateral_m, forwards=person.speed_m_s >= 0.0)
        actors.append(_Actor(f"Pedestrian{number}", _walker(f"Pedestrian{number}"), position, abs(person.speed_m_s)))
    return actors


def _pose(road: Road, s_m: float, lateral_m: float, *, forwards: bool, back_m: float = 0.0) -> Any:
    """Returns the pose `back_m` behind the place that is given along and beside the road."""
    here = road.at(np.array([s_m]))
    x_m, y_m = here.beside(lateral_m)[0].tolist()
    heading_rad = float(here.heading_rad[0]) + (0.0 if forwards else pi)
    return generation("xosc").WorldPosition(x_m - back_m * cos(heading_rad), y_m - back_m * sin(heading_rad), 0.0, heading_rad, 0.0, 0.0)


def _car(name: str) -> Any:
    xosc = generation("xosc")
    box = xosc.BoundingBox(CAR_WIDTH_M, CAR_LENGTH_M, CAR_HEIGHT_M, AXLE_TO_MIDDLE_M, 0.0, 0.5 * CAR_HEIGHT_M)
    front = xosc.Axle(0.5, 0.66, 1.58, WHEELBASE_M, 0.33)
    rear = xosc.Axle(0.0, 0.66, 1.58, 0.0, 0.33)
    return xosc.Vehicle(name, xosc.VehicleCategory.car, box, front, rear, 70.0, 10.0, 10.0)


def _walker(name: str) -> Any:
    xosc = generation("xosc")
    box = xosc.BoundingBox(PERSON_WIDTH_M, PERSON_WIDTH_M, PERSON_HEIGHT_M, 0.0, 0.0, 0.5 * PERSON_HEIGHT_M)
    return xosc.Pedestrian(name, _WALKER_KG, xosc.PedestrianCategory.pedestrian, box, model="pedestrian")


def _at_once() -> Any:
    xosc = generation("xosc")
    return xosc.TransitionDynamics(xosc.DynamicsShapes.step, xosc.DynamicsDimension.time, 0.0)


def _environment(conditions: Conditions) -> Any:
    xosc = generation("xosc")
    weather, intensity = conditions.weather, conditions.intensity
    kinds: dict[Weather, tuple[Any, float]] = {
        Weather.RAIN: (xosc.PrecipitationType.rain, RAIN_MM_H * intensity),
        Weather.SNOW: (xosc.PrecipitationType.snow, SNOW_MM_H * intensity),
    }
    precipitation, mm_per_h = kinds.get(weather, (xosc.PrecipitationType.dry, 0.0))
    # Ours turns from east to north; the standard's from north to east.
    azimuth_rad = (0.5 * pi - radians(conditions.sun_azimuth_deg)) % (2.0 * pi)
    elevation_rad = -radians(conditions.sun_elevation_deg) if conditions.night else radians(conditions.sun_elevation_deg)
    clear = weather is Weather.SUNNY
    sun = xosc.Sun(illuminance_lux(conditions), azimuth_rad, elevation_rad)
    clouds = xosc.FractionalCloudCover.zeroOktas if clear else xosc.FractionalCloudCover.eightOktas
    air = xosc.Weather(clouds, sun=sun, fog=xosc.Fog(visibility_m(conditions)), precipitation=xosc.Precipitation(precipitation, mm_per_h))
    wetness = xosc.Wetness.wetWithPuddles if weather is Weather.RAIN else xosc.Wetness.dry
    ground = xosc.RoadCondition(FRICTION[weather] / FRICTION[Weather.SUNNY], wetness=wetness)
    time = xosc.TimeOfDay(animation=False, year=2000, month=1, day=1, hour=0 if conditions.night else 12, minute=0, second=0)
    return xosc.Environment("Weather", time, air, ground)
