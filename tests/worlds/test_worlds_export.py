"""Export: OpenDRIVE and OpenSCENARIO, read back by a small reader of this test's own and by the standards' schemas."""

import sys
from dataclasses import dataclass, replace
from importlib.metadata import files
from itertools import pairwise
from math import cos, pi, radians, sin
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import MissingExtraError
from skidpad.core.images import FloatArray
from skidpad.worlds.openx import opendrive
from skidpad.worlds.openx.opendrive import RAMP_GAP_M, lane_id, opendrive_text, span_of
from skidpad.worlds.openx.openscenario import AXLE_TO_MIDDLE_M, PROPERTY, export_scenario, illuminance_lux, openscenario_text
from skidpad.worlds.render.chunks import road_of, section_of
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.render.weather import visibility_m
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.scenario import (
    Conditions,
    Ego,
    Figure,
    Move,
    OtherVehicle,
    Pedestrian,
    RoadKind,
    RoadPlan,
    Scenario,
    Shape,
    Side,
    Weather,
    values_of,
)

pytest.importorskip("scenariogeneration")
from lxml import etree  # comes with scenariogeneration

KINDS = [RoadPlan(kind, 70.0, side, lanes, turn_deg=55.0) for kind in RoadKind for side in Side for lanes in (1, 3)]
BUSY = Scenario(
    RoadPlan(RoadKind.CURVED, 120.0, Side.RIGHT, 2),
    Conditions(Weather.RAIN, 0.5, sun_azimuth_deg=30.0, sun_elevation_deg=20.0),
    ego=Ego(13.0, 2, headlights=True),
    vehicles=(OtherVehicle(1, 80.0, 9.0), OtherVehicle(0, 150.0, 14.0), OtherVehicle(-1, 70.0, 11.0)),
    pedestrians=(Pedestrian(Side.LEFT, 60.0, -1.2), Pedestrian(Side.RIGHT, 130.0, 1.0)),
)


def schema(name: str) -> etree.XMLSchema:
    (found,) = [each for each in files("scenariogeneration") or [] if each.name == name]
    return etree.XMLSchema(etree.parse(str(found.locate())))


@pytest.fixture(scope="module")
def opendrive_schema() -> etree.XMLSchema:
    return schema("opendrive_17_core.xsd")


@pytest.fixture(scope="module")
def openscenario_schema() -> etree.XMLSchema:
    return schema("OpenSCENARIO_1_3_1.xsd")


@dataclass(frozen=True)
class Reader:
    """A plain reader of OpenDRIVE: integrates the curvature of the reference line, and adds up widths."""

    road: ET.Element

    @classmethod
    def of(cls, text: str) -> "Reader":
        roads = ET.fromstring(text).findall("road")
        assert len(roads) == 1
        return cls(roads[0])

    @property
    def length_m(self) -> float:
        return float(self.road.get("length", ""))

    def curvature(self, s: FloatArray) -> FloatArray:
        found = np.full(len(s), np.nan)
        for geometry in self.road.findall("planView/geometry"):
            start, length = float(geometry.get("s", "")), float(geometry.get("length", ""))
            inside = (s >= start) & (s <= start + length)
            arc, spiral = geometry.find("arc"), geometry.find("spiral")
            if arc is not None:
                found[inside] = float(arc.get("curvature", ""))
            elif spiral is not None:
                first, last = float(spiral.get("curvStart", "")), float(spiral.get("curvEnd", ""))
                found[inside] = first + (last - first) * (s[inside] - start) / length
            else:
                assert geometry.find("line") is not None
                found[inside] = 0.0
        return found

    def line(self, step_m: float) -> tuple[FloatArray, FloatArray]:
        """Points (N, 3) of x, y and heading every `step_m`, from the first geometry's start alone."""
        first = self.road.find("planView/geometry")
        assert first is not None
        count = int(self.length_m / step_m)
        middles = (np.arange(count) + 0.5) * step_m
        turns = self.curvature(middles) * step_m
        heading = float(first.get("hdg", "")) + np.concatenate(([0.0], np.cumsum(turns)))
        between = heading[:-1] + 0.5 * turns
        x = float(first.get("x", "")) + np.concatenate(([0.0], np.cumsum(np.cos(between) * step_m)))
        y = float(first.get("y", "")) + np.concatenate(([0.0], np.cumsum(np.sin(between) * step_m)))
        return np.arange(count + 1) * step_m, np.column_stack((x, y, heading))

    def section_at(self, s: float) -> ET.Element:
        return [each for each in self.road.findall("lanes/laneSection") if float(each.get("s", "")) <= s][-1]

    def borders(self, s: float) -> dict[int, tuple[float, float]]:
        """The inner and outer border of every lane, to the left positive."""
        section, found = self.section_at(s), {}
        ds = s - float(section.get("s", ""))
        for side, sign in (("left", 1), ("right", -1)):
            lanes = sorted(section.findall(f"{side}/lane"), key=lambda lane: abs(int(lane.get("id", ""))))
            at = 0.0
            for number, lane in enumerate(lanes, 1):
                assert int(lane.get("id", "")) == sign * number
                (width,) = lane.findall("width")
                a, b, c, d = (float(width.get(key, "")) for key in "abcd")
                wide = a + b * ds + c * ds**2 + d * ds**3
                assert wide >= -1e-9
                found[sign * number] = (at, at + sign * wide)
                at += sign * wide
        return found

    def kind(self, s: float, number: int) -> str:
        return next(lane.get("type", "") for lane in self.section_at(s).iter("lane") if lane.get("id") == str(number))


@pytest.mark.parametrize("plan", KINDS, ids=lambda plan: f"{plan.kind.value}-{plan.side.value}-{plan.lanes}")
def test_the_reference_line_is_the_built_in_worlds_within_a_centimetre(plan: RoadPlan) -> None:
    scenario = Scenario(plan, ego=Ego(12.0), duration_s=60.0)
    reader, road = Reader.of(opendrive_text(scenario)), road_of(scenario)
    assert reader.length_m == pytest.approx(road.length_m, abs=1e-6)
    s, points = reader.line(0.05)
    here = road.at(s)
    assert np.max(np.hypot(points[:, 0] - here.x_m, points[:, 1] - here.y_m)) < 0.01
    assert np.max(np.abs(points[:, 2] - here.heading_rad)) < 1e-3


def test_each_geometry_begins_where_the_one_before_ends() -> None:
    reader = Reader.of(opendrive_text(Scenario(RoadPlan(RoadKind.CURVED, 50.0))))
    s, points = reader.line(0.01)
    geometries = reader.road.findall("planView/geometry")
    assert len(geometries) > 4
    for geometry in geometries:
        start = float(geometry.get("s", ""))
        for key, column in (("x", 0), ("y", 1), ("hdg", 2)):
            assert float(geometry.get(key, "")) == pytest.approx(float(np.interp(start, s, points[:, column])), abs=0.01)


@pytest.mark.parametrize("plan", KINDS, ids=lambda plan: f"{plan.kind.value}-{plan.side.value}-{plan.lanes}")
def test_lanes_lie_where_the_built_in_world_has_them(plan: RoadPlan) -> None:
    scenario = Scenario(plan)
    reader, section = Reader.of(opendrive_text(scenario)), section_of(scenario)
    for s in np.arange(0.25, reader.length_m, 3.0):
        borders = reader.borders(float(s))
        for lane in range(1 - plan.lanes, plan.lanes + 1):
            number = lane_id(plan.lanes, lane)
            assert np.mean(borders[number]) == pytest.approx(section.lane_centre_of(lane), abs=1e-9)
            assert reader.kind(float(s), number) == "driving"
        assert max(outer for _, outer in borders.values()) == pytest.approx(section.outer_m, abs=1e-9)
        right = -min(outer for _, outer in borders.values())
        side = section.side_lane
        if side is None or side.leaving_per_m * min(float(side.along_m(s)), 0.0) ** 2 > RAMP_GAP_M:
            assert right == pytest.approx(section.outer_m, abs=1e-9)
            continue
        assert right == pytest.approx(float(section.outer_right_m(s)), abs=1e-6)
        inner, outer = side.edges_m(s, plan.lane_width_m)
        ramps = [number for number in borders if reader.kind(float(s), number) in {"entry", "exit", "onRamp", "offRamp"}]
        if outer - inner > 1e-6:
            (ramp,) = ramps
            assert -np.array(borders[ramp]) - section.edge_m == pytest.approx(np.array([inner, outer]), abs=1e-6)


@pytest.mark.parametrize("kind", [RoadKind.ENTRY, RoadKind.EXIT])
def test_linked_lanes_meet_without_a_step(kind: RoadKind) -> None:
    reader = Reader.of(opendrive_text(Scenario(RoadPlan(kind, lanes=2))))
    sections = reader.road.findall("lanes/laneSection")
    assert len(sections) >= 4
    linked = 0
    for before, after in pairwise(sections):
        s = float(after.get("s", ""))
        left, right = reader.borders(s - 1e-7), reader.borders(s)
        back = {int(lane.get("id", "")): lane.find("link/predecessor") for lane in after.iter("lane")}
        for lane in before.iter("lane"):
            link = lane.find("link/successor")
            if link is not None:
                one, other = int(lane.get("id", "")), int(link.get("id", ""))
                assert left[one] == pytest.approx(right[other], abs=1e-5)
                predecessor = back[other]
                assert predecessor is not None
                assert int(predecessor.get("id", "")) == one
                linked += 1
    assert linked > 20


def driving_lanes(reader: Reader, s: float) -> list[tuple[float, float]]:
    return [border for number, border in reader.borders(s).items() if reader.kind(s, number) == "driving"]


@pytest.mark.parametrize("seed", range(3))
def test_everybody_is_on_the_exported_road_from_the_first_moment_to_the_last(seed: int) -> None:
    """Read off the files alone: the pose and speed of the storyboard, followed along the reference line in the file's own s."""
    checked = 0
    for scenario in sample(DOMAINS.get("extended"), seed, 12).scenarios:
        reader = Reader.of(opendrive_text(scenario))
        s, line = reader.line(0.25)
        for name, (x, y, h, speed) in poses(ET.fromstring(openscenario_text(scenario))).items():
            nearest = int(np.argmin(np.hypot(line[:, 0] - x, line[:, 1] - y)))
            heading = line[nearest, 2]
            dx, dy = x - line[nearest, 0], y - line[nearest, 1]
            start = s[nearest] + dx * cos(heading) + dy * sin(heading)
            end = start + speed * scenario.duration_s * (1.0 if cos(h - heading) > 0.0 else -1.0)
            assert min(start, end) > 0.0, name
            assert max(start, end) < reader.length_m, name
            if not name.startswith("Pedestrian"):
                left = dy * cos(heading) - dx * sin(heading)
                assert any(min(lane) < left < max(lane) for lane in driving_lanes(reader, start)), name
            checked += 1
    assert checked > 30


def test_a_road_that_is_long_enough_is_not_made_longer() -> None:
    scenario = Scenario()
    assert Reader.of(opendrive_text(scenario)).length_m == pytest.approx(road_of(scenario).length_m)


def test_a_road_made_longer_is_still_the_built_in_worlds() -> None:
    scenario = replace(BUSY, duration_s=30.0, vehicles=(OtherVehicle(2, -60.0, 30.0), OtherVehicle(0, 50.0, 30.0)))
    reader, road = Reader.of(opendrive_text(scenario)), road_of(scenario)
    span = span_of(scenario, road)
    assert span.start_m < -60.0
    assert span.end_m > road.length_m
    s, points = reader.line(0.05)
    here = road.at(s + span.start_m)
    assert np.max(np.hypot(points[:, 0] - here.x_m, points[:, 1] - here.y_m)) < 0.01


@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_exports_satisfy_the_standards_schemas(opendrive_schema: etree.XMLSchema, openscenario_schema: etree.XMLSchema, seed: int) -> None:
    (scenario,) = sample(DOMAINS.get("extended"), seed, 1).scenarios
    opendrive_schema.assertValid(etree.fromstring(opendrive_text(scenario).encode()))
    openscenario_schema.assertValid(etree.fromstring(openscenario_text(scenario).encode()))


def test_moves_satisfy_the_schema_and_stay_on_the_road(opendrive_schema: etree.XMLSchema, openscenario_schema: etree.XMLSchema) -> None:
    moves = (Move(2.0, 3.0, 20.0, 1, 0.5, Shape.SINUSOIDAL), Move(6.0, speed_m_s=0.0))
    people = OtherVehicle(2, 60.0, 0.0, figure=Figure.PERSON)
    moving = replace(BUSY, vehicles=(replace(BUSY.vehicles[0], moves=moves, offset_m=-0.2), people), duration_s=15.0)
    text = openscenario_text(moving)
    openscenario_schema.assertValid(etree.fromstring(text.encode()))
    assert len(ET.fromstring(text).findall(".//Event")) == 2
    road = opendrive_text(moving)
    opendrive_schema.assertValid(etree.fromstring(road.encode()))
    assert Reader.of(road).length_m >= max(build_scene(moving).movers_at(np.array([15.0]))[0, :, 0].max(), 0.0)


def test_the_schemas_can_say_no(opendrive_schema: etree.XMLSchema, openscenario_schema: etree.XMLSchema) -> None:
    assert not opendrive_schema.validate(etree.fromstring(opendrive_text(BUSY).replace("laneSection", "lanesection").encode()))
    assert not openscenario_schema.validate(etree.fromstring(openscenario_text(BUSY).replace("LightType", "Lamp").encode()))


def poses(root: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    """x, y, heading and speed of everybody at the beginning."""
    found = {}
    for private in root.iter("Private"):
        (place,), (speed,) = private.iter("WorldPosition"), private.iter("AbsoluteTargetSpeed")
        x, y, h = (float(place.get(key, "")) for key in ("x", "y", "h"))
        found[private.get("entityRef", "")] = (x, y, h, float(speed.get("value", "")))
    return found


def test_everybody_begins_where_the_scene_has_them() -> None:
    root, scene = ET.fromstring(openscenario_text(BUSY)), build_scene(BUSY)
    found = poses(root)
    assert list(found) == ["Ego", "Vehicle1", "Vehicle2", "Vehicle3", "Pedestrian1", "Pedestrian2"]
    assert {each.get("name") for each in root.iter("ScenarioObject")} == set(found)
    assert found["Ego"] == pytest.approx((*scene.start_pose, 13.0))
    later = scene.movers_at(np.array([0.0, 1.0]))
    for k, name in enumerate(list(found)[1:]):
        x, y, h, speed = found[name]
        ahead_m = AXLE_TO_MIDDLE_M if name.startswith("Vehicle") else 0.0
        assert (x + ahead_m * cos(h), y + ahead_m * sin(h)) == pytest.approx(tuple(later[0, k, :2]), abs=1e-9)
        assert cos(h - later[0, k, 2]) == pytest.approx(1.0, abs=1e-12)
        moved = later[1, k, :2] - later[0, k, :2]
        assert moved @ np.array([cos(h), sin(h)]) == pytest.approx(speed, rel=0.08)
        assert speed >= 0.0


def test_the_story_ends_in_time_and_names_its_road() -> None:
    root = ET.fromstring(openscenario_text(replace(BUSY, duration_s=7.5), road_file="bend.xodr"))
    (end,) = root.iter("SimulationTimeCondition")
    assert (end.get("value"), end.get("rule")) == ("7.5", "greaterOrEqual")
    (road,) = root.iter("LogicFile")
    assert road.get("filepath") == "bend.xodr"


@pytest.mark.parametrize("weather", list(Weather))
@pytest.mark.parametrize("night", [False, True])
def test_weather_light_and_lamps_are_said(weather: Weather, night: bool) -> None:
    conditions = Conditions(weather, 0.5, night, 30.0, 20.0)
    lamps = Ego(headlights=True, fog_lights=weather is Weather.FOG)
    root = ET.fromstring(openscenario_text(Scenario(conditions=conditions, ego=lamps)))
    (sun,), (fog,), (precipitation,) = root.iter("Sun"), root.iter("Fog"), root.iter("Precipitation")
    assert float(fog.get("visualRange", "")) == pytest.approx(visibility_m(conditions))
    assert precipitation.get("precipitationType") == {Weather.RAIN: "rain", Weather.SNOW: "snow"}.get(weather, "dry")
    assert (float(precipitation.get("precipitationIntensity", "")) > 0.0) == (weather in {Weather.RAIN, Weather.SNOW})
    assert (float(sun.get("elevation", "")) > 0.0) != night
    assert float(sun.get("azimuth", "")) == pytest.approx(radians(60.0))
    lux = float(sun.get("illuminance", ""))
    expected = (0.0, 0.0) if night else (50_000.0, 120_000.0) if weather is Weather.SUNNY else (5_000.0, 20_000.0)
    assert expected[0] <= lux <= expected[1]
    (time,) = root.iter("TimeOfDay")
    assert time.get("dateTime", "").endswith("T00:00:00" if night else "T12:00:00")
    lights = {
        action.find("LightType/VehicleLight").get("vehicleLightType"): action.find("LightState").get("mode")
        for action in root.iter("LightStateAction")
    }
    assert lights == {"lowBeam": "on", "fogLights": "on" if weather is Weather.FOG else "off"}


def test_the_suns_azimuth_turns_from_north_to_east() -> None:
    """Ours is mathematical: 0 is east, 90 degrees north. The standard's is a compass: 0 is north, 90 degrees east."""
    for ours_deg, compass_deg in ((0.0, 90.0), (90.0, 0.0), (180.0, 270.0), (270.0, 180.0)):
        root = ET.fromstring(openscenario_text(Scenario(conditions=Conditions(intensity=0.0, sun_azimuth_deg=ours_deg))))
        (sun,) = root.iter("Sun")
        assert float(sun.get("azimuth", "")) % (2.0 * pi) == pytest.approx(radians(compass_deg), abs=1e-9)


def test_a_higher_sun_is_brighter_and_clouds_take_most_of_its_light() -> None:
    for weather in Weather:
        low, high = (illuminance_lux(Conditions(weather, 0.5, sun_elevation_deg=deg)) for deg in (12.0, 60.0))
        assert 1_000.0 < low < high < 130_000.0
    clear, cloudy = (illuminance_lux(Conditions(weather, 0.5)) for weather in (Weather.SUNNY, Weather.RAIN))
    assert cloudy < 0.25 * clear


def test_nothing_of_the_scenario_is_lost() -> None:
    root = ET.fromstring(openscenario_text(BUSY))
    said = {each.get("name", "").removeprefix(PROPERTY): each.get("value") for each in root.iter("Property")}
    assert said == {name: str(value) for name, value in values_of(BUSY).items()}


def test_files_are_written_and_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    first = export_scenario(BUSY, tmp_path / "one", "busy")
    second = export_scenario(BUSY, tmp_path / "two", "busy")
    assert (first.opendrive.name, first.openscenario.name) == ("busy.xodr", "busy.xosc")
    assert first.opendrive.read_bytes() == second.opendrive.read_bytes()
    assert first.openscenario.read_bytes() == second.openscenario.read_bytes()
    assert 'filepath="busy.xodr"' in first.openscenario.read_text()


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    opendrive.generation.cache_clear()
    monkeypatch.setitem(sys.modules, "scenariogeneration.xodr", None)
    with pytest.raises(MissingExtraError, match=r"skidpad\[scenario\]"):
        opendrive_text(BUSY)
    opendrive.generation.cache_clear()


def test_carla_reads_the_same_lanes() -> None:
    """Another program's parser, where it is installed (`pip install carla`): its map needs no simulator."""
    carla = pytest.importorskip("carla")
    for scenario in sample(DOMAINS.get("extended"), 7, 8).scenarios:
        road, section, lanes = road_of(scenario), section_of(scenario), scenario.road.lanes
        found = carla.Map("scenario", opendrive_text(scenario))
        before_m = -span_of(scenario, road).start_m
        for s in np.arange(1.0, road.length_m - 1.0, 20.0):
            for lane in range(1 - lanes, lanes + 1):
                place = found.get_waypoint_xodr(opendrive.ROAD_ID, lane_id(lanes, lane), float(s + before_m)).transform.location
                x, y = road.at(np.array([s])).beside(section.lane_centre_of(lane))[0]
                # CARLA's y axis points to the right.
                assert np.hypot(place.x - x, -place.y - y) < 0.01
