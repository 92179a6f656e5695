"""Scenarios of OpenSCENARIO XML 1.x files, as far as the built-in world can play them: what it cannot, it says in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import cos, degrees, log, pi, sin
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.stimuli import Value
from skidpad.worlds.careful import rehearse
from skidpad.worlds.openx.conditions import broken_constraints, varied
from skidpad.worlds.openx.documents import Catalogs, Parameters, beside, children, read_document
from skidpad.worlds.openx.openscenario import AXLE_TO_MIDDLE_M, PROPERTY, RAIN_MM_H, SNOW_MM_H
from skidpad.worlds.openx.roads import FileRoad, LanePlace, read_road
from skidpad.worlds.openx.storyboard import Actor, Rehearsal, led_s_m, shifted, target_speed_m_s, way_of
from skidpad.worlds.render.chunks import AHEAD_M, START_M, road_of, section_of
from skidpad.worlds.render.weather import visibility_m
from skidpad.worlds.scenario.files import SkippedScenario
from skidpad.worlds.scenario.scenario import (
    BadScenarioError,
    Conditions,
    Ego,
    Figure,
    Pace,
    Pedestrian,
    Scenario,
    Side,
    Weather,
    scenario_from,
)
from skidpad.worlds.scenario.tracks import Track
from skidpad.worlds.world import STEP_S

LONGEST_S = 60.0
"""A storyboard that has not ended by then is over."""
SHORTEST_S = 20.0
"""So long is played at least what does not tell its end."""
AFTERWARDS_S = 3.0
"""How long a scenario goes on after the careful driver has touched somebody, or all have done what they do."""

MOST_ACTORS, MOST_EVENTS = 20, 200

_STEP_S = STEP_S / 2.5
_FOG_BELOW_M = 1000.0
_DARK_LUX = 100.0
_POSITIONS = frozenset({"WorldPosition", "LanePosition", "RoadPosition", "RelativeLanePosition", "RelativeRoadPosition"})
_EGO_NAMES = ("ego", "hero", "vut")


@dataclass(frozen=True, slots=True)
class ReadScenario:
    """A scenario of a file, and what of it is drawn otherwise than the file says."""

    name: str
    scenario: Scenario
    notes: tuple[str, ...] = ()


def read_openscenario(path: Path) -> list[ReadScenario | SkippedScenario]:
    """Reads a scenario, or every variation of one; those that cannot be played say why."""
    try:
        root = read_document(path)
        if root.find("ParameterValueDistribution") is None:
            return [_one(root, path, {}, path.stem)]
        base, sets, total = varied(root, path)
        scenario = read_document(base)
    except BadScenarioError as error:
        return [SkippedScenario(path.stem, str(error))]
    if len(sets) == 1:
        return [_one(scenario, base, sets[0], path.stem)]
    found = [_one(scenario, base, told, f"{path.stem}-{number:03d}") for number, told in enumerate(sets, 1)]
    if len(sets) < total:
        note = f"{len(sets)} of {total:,} combinations are read"
        found = [replace(each, notes=(*each.notes, note)) if isinstance(each, ReadScenario) else each for each in found]
    return found


def _one(root: Element, path: Path, told: Mapping[str, str], name: str) -> ReadScenario | SkippedScenario:
    try:
        return _Reader(root, path, told).read(name)
    except (BadScenarioError, BadParametersError) as error:
        return SkippedScenario(name, str(error))


class _Reader:
    """Reads one scenario with the values of its parameters. told: what a variation says of them."""

    def __init__(self, root: Element, path: Path, told: Mapping[str, str]) -> None:
        self.root, self.path = root, path
        if root.find("Storyboard") is None:
            raise BadScenarioError("it has no storyboard: it is a catalog, or no OpenSCENARIO at all")
        self.parameters = Parameters.declared(root, told)
        broken = list(broken_constraints(root, self.parameters))
        if broken:
            raise BadScenarioError(f"its own constraints forbid the value of {', '.join(broken)}")
        self.catalogs = Catalogs.of(root, path, self.parameters)
        self.notes: list[str] = []
        crowd, deeds = sum(1 for _ in root.iterfind("Entities/ScenarioObject")), sum(1 for _ in root.iter("Event"))
        if crowd > MOST_ACTORS or deeds > MOST_EVENTS:
            raise BadScenarioError(f"it has {crowd} actors and {deeds} events; {MOST_ACTORS} and {MOST_EVENTS} are read at most")
        self.bodies = {each.get("name", ""): self._body(each) for each in root.iterfind("Entities/ScenarioObject")}
        self.ego = next((name for name in self.bodies if name.lower() in _EGO_NAMES), next(iter(self.bodies), ""))

    def read(self, name: str) -> ReadScenario:
        """Returns the scenario."""
        private = {each.get("entityRef", ""): each for each in self.root.iterfind("Storyboard/Init/Actions/Private")}
        if self.ego not in private:
            raise BadScenarioError("the file does not say where the ego begins")
        road, ego = self._begin(private[self.ego])
        plan, notes = road.plan(ego.place, AHEAD_M)
        self.notes += notes
        conditions = self._conditions(road, ego.place.s_m)
        lights = _light(private[self.ego], "lowBeam"), _light(private[self.ego], "fogLights")
        dark = conditions.night or conditions.weather is not Weather.SUNNY
        ego_plan = Ego(ego.speed_m_s, ego.place.lane, dark if lights[0] is None else lights[0], bool(lights[1]), Pace.CAREFUL)
        draft = Scenario(plan, conditions, ego=ego_plan, duration_s=LONGEST_S)
        section = section_of(draft)
        others, people = self._others(private, road, ego)
        rehearsal = Rehearsal(self.root, self.parameters, self.catalogs, road, section, self.ego, ego.place, others, _STEP_S)
        outcome = rehearse(draft, section, rehearsal.others_at, step_s=_STEP_S)
        ended_s = self._ended_s(rehearsal)
        plan, _ = road.plan(ego.place, ego.speed_m_s * ended_s + AHEAD_M)
        vehicles = tuple(actor.vehicle(ego.place, section, number % 8) for number, actor in enumerate(others.values()))
        made = replace(draft, road=plan, vehicles=vehicles, pedestrians=people, duration_s=ended_s)
        kept = self._kept()
        if kept is not None and _alike(made, kept):
            made = kept
        else:
            if kept is not None:
                made = replace(made, surroundings=kept.surroundings, seed=kept.seed)
            if outcome.collided_at_s is not None:
                made = replace(made, duration_s=round(min(ended_s, outcome.collided_at_s + AFTERWARDS_S), 6))
        return ReadScenario(name, made, tuple(dict.fromkeys(self.notes)))

    def _ended_s(self, rehearsal: Rehearsal) -> float:
        if rehearsal.ended_at_s is not None:
            return round(max(rehearsal.ended_at_s, 1.0), 6)
        is_told = self.root.find("Storyboard/StopTrigger//SimulationTimeCondition") is not None
        ended_s = LONGEST_S if is_told else min(LONGEST_S, max(rehearsal.settled_at_s + AFTERWARDS_S, SHORTEST_S))
        self.notes.append(f"played for {ended_s:.0f} s, since its end is later or cannot be told")
        return round(ended_s, 6)

    def _others(self, private: Mapping[str, Element], road: FileRoad, ego: Actor) -> tuple[dict[str, Actor], tuple[Pedestrian, ...]]:
        """Puts everybody but the ego on the road, and people beside it."""
        actors, people = {self.ego: ego}, []
        for who, body in self.bodies.items():
            if who == self.ego or who not in private:
                continue
            if body.tag == "Pedestrian":
                walker = self._walker(who, private[who], road, actors)
                if walker is not None:
                    people.append(walker)
                    continue
            elif body.tag != "Vehicle":
                raise BadScenarioError(f"{who!r} is a {body.get('miscObjectCategory') or body.tag}; others of the built-in world are cars")
            actors[who] = self._placed(who, private[who], road, actors)
            category = body.get("vehicleCategory", "car")
            if body.tag == "Pedestrian":
                actors[who].figure = Figure.PERSON
            elif category in {"motorbike", "bicycle"}:
                raise BadScenarioError(f"{who!r} is a {category}; the built-in world draws cars and people, and a car is wider")
            elif category != "car":
                self.notes.append(f"{who} ({category}) is drawn as a car")
        return {who: actor for who, actor in actors.items() if who != self.ego}, tuple(people)

    def _body(self, entity: Element) -> Element:
        body = next((each for each in entity if each.tag in {"Vehicle", "Pedestrian", "MiscObject", "CatalogReference"}), None)
        if body is None:
            raise BadScenarioError(f"{entity.get('name')!r} has no body that is known here")
        return self.catalogs.found(body, self.parameters) if body.tag == "CatalogReference" else body

    def _begin(self, private: Element) -> tuple[FileRoad, Actor]:
        """Reads the road on which the ego begins, and the ego."""
        logic = self.root.find("RoadNetwork/LogicFile")
        file = beside(self.path, self.parameters.text(logic, "filepath"))
        position = private.find("PrivateAction/TeleportAction/Position")
        told = next(children(position), None)
        if told is None:
            raise BadScenarioError("the ego is not put anywhere at first; it follows a trajectory, which here the subject would have to do")
        self._check_known(self.ego, told)
        wanted = self.parameters.text(told, "roadId", "")
        road = read_road(file, wanted, self.parameters.number(told, "s", 0.0))
        ego = self._placed(self.ego, private, road, {})
        if ego.place.lane < 1 or ego.way < 0:
            raise BadScenarioError("the ego drives against the direction in which its road is drawn")
        if ego.speed_m_s <= 0.0:
            raise BadScenarioError("the ego stands at first; here the subject steers, and does not start")
        if abs(ego.place.offset_m) > 1e-6:
            self.notes.append(f"the ego begins in the middle of its lane, not {ego.place.offset_m:+.2f} m beside it")
        return road, ego

    def _placed(self, name: str, private: Element, road: FileRoad, actors: Mapping[str, Actor]) -> Actor:
        """Puts somebody where the first actions say."""
        actor: Actor | None = None
        for action in private.iterfind("PrivateAction/*"):
            if action.tag == "TeleportAction":
                position = next(children(action.find("Position")), None)
                if position is None:
                    raise BadScenarioError(f"{name!r} is put nowhere")
                place, way = self._position(name, position, road, actors)
                actor = Actor(name, place, way)
            elif action.tag == "LongitudinalAction" and actor is not None and len(action):
                told = action[0]
                if told.tag == "SpeedAction":
                    actor.speed_m_s = target_speed_m_s(told, self.parameters, {who: each.speed_m_s for who, each in actors.items()})
                elif told.tag == "LongitudinalDistanceAction" and self.ego in actors:
                    ego = actors[self.ego]
                    actor.place = replace(actor.place, s_m=led_s_m(told, self.parameters, ego.place.s_m, ego.speed_m_s))
                else:
                    raise BadScenarioError(f"{name!r} begins with a {told.tag}")
            elif action.tag in {"RoutingAction", "SynchronizeAction", "LateralAction", "TrailerAction"}:
                raise BadScenarioError(
                    f"{name!r} begins with a {next((each.tag for each in action), action.tag)}; everybody here follows the road"
                )
        if actor is None:
            raise BadScenarioError(f"{name!r} is put nowhere at first")
        if actor.speed_m_s < 0.0:
            raise BadScenarioError(f"{name!r} drives backwards")
        return actor

    def _position(self, name: str, told: Element, road: FileRoad, actors: Mapping[str, Actor]) -> tuple[LanePlace, int]:
        parameters = self.parameters
        if told.tag == "WorldPosition":
            x_m, y_m, turned_rad = (parameters.number(told, key, 0.0) for key in "xyh")
            # It is a car's middle that keeps its place beside a bending road, not its rear axle.
            middle_m = 0.0 if name == self.ego or self.bodies[name].tag == "Pedestrian" else AXLE_TO_MIDDLE_M
            s_m, left_m = road.projected(x_m + middle_m * cos(turned_rad), y_m + middle_m * sin(turned_rad))
            way = way_of(turned_rad - float(road.road.at(s_m).heading_rad) - road.heading_rad, name)
            return road.beside(s_m - way * middle_m, left_m), way
        turned = told.find("Orientation")
        turned_rad = 0.0 if turned is None or self.bodies[name].tag == "Pedestrian" else parameters.number(turned, "h", 0.0)
        if told.tag == "LanePosition":
            self._check_road(parameters.text(told, "roadId"), road, name)
            lane = road.lane(int(parameters.number(told, "laneId")))
            way = (1 if lane >= 1 else -1) * way_of(turned_rad, name)
            return LanePlace(parameters.number(told, "s"), lane, parameters.number(told, "offset", 0.0)), way
        if told.tag == "RoadPosition":
            self._check_road(parameters.text(told, "roadId"), road, name)
            return road.beside(parameters.number(told, "s"), parameters.number(told, "t")), way_of(turned_rad, name)
        self._check_known(name, told)
        other = parameters.text(told, "entityRef")
        if other not in actors:
            raise BadScenarioError(f"{name!r} is placed relative to {other!r}, which has no position yet")
        at = actors[other]
        if told.tag == "RelativeLanePosition":
            lane = road.lane(shifted(road.of(at.place.lane).number, int(parameters.number(told, "dLane"))))
            place = LanePlace(at.place.s_m + at.way * parameters.number(told, "ds"), lane, parameters.number(told, "offset", 0.0))
            return place, (1 if lane >= 1 else -1) * way_of(turned_rad, name)
        aside_m = road.of(at.place.lane).middle_m + at.place.offset_m + parameters.number(told, "dt")
        return road.beside(at.place.s_m + parameters.number(told, "ds"), aside_m), way_of(turned_rad, name)

    def _check_known(self, name: str, told: Element) -> None:
        if told.tag not in _POSITIONS:
            raise BadScenarioError(f"{name!r} is put by a {told.tag}; places are read along and beside the road, and in the world")

    def _check_road(self, wanted: str, road: FileRoad, name: str) -> None:
        if wanted != road.name:
            raise BadScenarioError(f"{name!r} is on road {wanted!r}, the ego on road {road.name!r}; the built-in world has one road")

    def _walker(self, name: str, private: Element, road: FileRoad, actors: Mapping[str, Actor]) -> Pedestrian | None:
        """Returns who walks along the road, beside it; None for a person who stands or walks on it."""
        position = private.find("PrivateAction/TeleportAction/Position/WorldPosition")
        acts = any(each.get("entityRef") == name for each in self.root.iterfind("Storyboard/Story//Actors/EntityRef"))
        if position is None or acts:
            return None
        s_m, left_m = road.projected(self.parameters.number(position, "x"), self.parameters.number(position, "y"))
        if any(abs(left_m - each.middle_m) <= 0.5 * each.width_m for each in road.lanes if each.kind == "driving"):
            return None
        walker = self._placed(name, private, road, actors)
        side = Side.LEFT if left_m > 0.0 else Side.RIGHT
        return Pedestrian(side, round(s_m - actors[self.ego].place.s_m, 9), walker.way * walker.speed_m_s)

    def _conditions(self, road: FileRoad, s_m: float) -> Conditions:
        action = self.root.find("Storyboard/Init/Actions/GlobalAction/EnvironmentAction")
        told = next(children(action), None)
        if told is None:
            return Conditions(intensity=0.0)
        if told.tag == "CatalogReference":
            told = self.catalogs.found(told, self.parameters)
        number = self.parameters.number
        sun, fog, rain = told.find("Weather/Sun"), told.find("Weather/Fog"), told.find("Weather/Precipitation")
        made = Conditions(intensity=0.0)
        if sun is not None:
            elevation_rad = number(sun, "elevation", 0.6)
            first_rad = float(road.road.at(max(s_m - START_M, 0.0)).heading_rad) + road.heading_rad
            azimuth_deg = degrees(0.5 * pi - number(sun, "azimuth", 0.0) - first_rad) % 360.0
            night = elevation_rad < 0.0 or number(sun, "illuminance", number(sun, "intensity", 1e5)) < _DARK_LUX
            made = replace(made, night=night, sun_azimuth_deg=azimuth_deg, sun_elevation_deg=min(abs(degrees(elevation_rad)), 90.0))
        falling = "dry" if rain is None else rain.get("precipitationType", "dry")
        if falling in {"rain", "snow"}:
            most = RAIN_MM_H if falling == "rain" else SNOW_MM_H
            intensity = number(rain, "precipitationIntensity", number(rain, "intensity", 0.0)) / most
            return replace(made, weather=Weather(falling), intensity=min(intensity, 1.0)) if intensity > 0.0 else made
        seen_m = _FOG_BELOW_M if fog is None else number(fog, "visualRange", _FOG_BELOW_M)
        if seen_m >= _FOG_BELOW_M:
            return made
        clear_m, worst_m = (visibility_m(Conditions(Weather.FOG, each)) for each in (0.0, 1.0))
        return replace(made, weather=Weather.FOG, intensity=min(max(log(max(seen_m, 1.0) / clear_m) / log(worst_m / clear_m), 0.0), 1.0))

    def _kept(self) -> Scenario | None:
        """Returns the scenario that our own export keeps as properties of the ego; None where there are none."""
        told = {
            each.get("name", "").removeprefix(PROPERTY): _value(each.get("value", ""))
            for each in self.bodies[self.ego].iterfind("Properties/Property")
            if each.get("name", "").startswith(PROPERTY)
        }
        try:
            return scenario_from(told) if told else None
        except (BadScenarioError, BadParametersError, KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
            raise BadScenarioError(f"the properties {PROPERTY}* of its ego do not make a scenario: {error}") from error


def _light(private: Element, kind: str) -> bool | None:
    for action in private.iterfind("PrivateAction/AppearanceAction/LightStateAction"):
        if any(each.get("vehicleLightType") == kind for each in action.iter("VehicleLight")):
            return any(each.get("mode") == "on" for each in action.iter("LightState"))
    return None


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _alike(one: Scenario, other: Scenario) -> bool:
    """Tells whether two scenarios are the same but for how their roads are written down, to a millimetre."""
    told = [(each.duration_s, each.ego.speed_m_s, each.ego.lane, each.ego.headlights, each.ego.fog_lights) for each in (one, other)]
    if told[0] != told[1] or len(one.vehicles) != len(other.vehicles) or len(one.pedestrians) != len(other.pedestrians):
        return False
    if (one.conditions.weather, one.conditions.night) != (other.conditions.weather, other.conditions.night):
        return False
    sections, roads = [section_of(each) for each in (one, other)], [road_of(each) for each in (one, other)]
    s_m = np.arange(0.0, START_M + one.ego.speed_m_s * one.duration_s, 5.0)
    lines = [road.at(s_m).beside(section.lane_centre_m) for road, section in zip(roads, sections, strict=True)]
    if sections[0].lanes != sections[1].lanes or float(np.max(np.abs(lines[0] - lines[1]))) > 1e-3:
        return False
    walks = [[(each.side, round(each.ahead_m, 3), round(each.speed_m_s, 6)) for each in scenario.pedestrians] for scenario in (one, other)]
    ways = [
        np.array([_way(Track(each, section), one.duration_s) for each in scenario.vehicles])
        for scenario, section in zip((one, other), sections, strict=True)
    ]
    return walks[0] == walks[1] and bool(np.allclose(ways[0], ways[1], atol=1e-3, rtol=0.0))


def _way(track: Track, duration_s: float) -> list[tuple[float, float]]:
    return [(moment.s_m, moment.lateral_m) for moment in map(track.at, np.linspace(0.0, duration_s, 50).tolist())]
