"""Reading OpenSCENARIO: storyboards, triggers, parameters, roads, variations, and what is refused with a sentence."""

import re
from dataclasses import replace
from math import pi
from pathlib import Path
from random import Random

import numpy as np
import openx_files as files
import pytest

from skidpad.worlds.careful import drive_carefully
from skidpad.worlds.openx.conditions import MOST, varied
from skidpad.worlds.openx.documents import MAX_BYTES, Parameters, read_document
from skidpad.worlds.openx.reading import ReadScenario, read_openscenario
from skidpad.worlds.render.chunks import START_M, road_of, section_of
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.files import SkippedScenario, read_scenario, read_scenarios, write_scenario
from skidpad.worlds.scenario.scenario import (
    BadScenarioError,
    Ego,
    Figure,
    Move,
    OtherVehicle,
    Pace,
    Piece,
    RoadKind,
    RoadPlan,
    Scenario,
    Shape,
)
from skidpad.worlds.scenario.tracks import Track

SPEED_M_S = 60.0 / 3.6


def read(path: Path) -> ReadScenario:
    (found,) = read_openscenario(path)
    assert isinstance(found, ReadScenario), found
    return found


def reason(path: Path) -> str:
    (found,) = read_openscenario(path)
    assert isinstance(found, SkippedScenario), found
    return found.reason


def test_a_cut_in_begins_when_the_ego_is_so_near(tmp_path: Path) -> None:
    scenario = read(files.cut_in(tmp_path)).scenario
    (other,) = scenario.vehicles
    assert scenario.ego == Ego(SPEED_M_S, 1, pace=Pace.CAREFUL)
    assert (scenario.road.kind, scenario.road.lanes, scenario.road.lane_width_m) == (RoadKind.STRAIGHT, 2, 3.5)
    assert (other.lane, other.speed_m_s) == (2, pytest.approx(40.0 / 3.6))
    # From axle to axle 90 m; it comes in at 30 m from bumper to bumper, 4.5 m less.
    assert other.ahead_m == pytest.approx(90.0 + 1.3)
    (move,) = other.moves
    assert move.start_s == pytest.approx((90.0 - 4.5 - 30.0) / (20.0 / 3.6), abs=0.03)
    assert (move.lane, move.shape) == (1, Shape.SINUSOIDAL)
    # Nowhere faster than 2 m/s sideways: half a wave of 3.5 m.
    assert move.lasts_s == pytest.approx(3.5 * pi / (2.0 * 2.0))
    assert scenario.duration_s == pytest.approx(move.start_s + move.lasts_s + 10.0, abs=0.05)
    track = Track(other, section_of(scenario))
    before, after = track.at(move.start_s), track.at(move.start_s + move.lasts_s)
    assert (before.lateral_m, after.lateral_m) == (pytest.approx(-1.75), pytest.approx(-5.25))
    fastest = max(abs(track.at(time_s).aside_m_s) for time_s in np.arange(move.start_s, move.start_s + move.lasts_s, 0.01).tolist())
    assert fastest == pytest.approx(2.0, abs=1e-3)
    assert drive_carefully(scenario).avoided


def test_a_cut_in_right_before_the_ego_is_one_that_nobody_avoids(tmp_path: Path) -> None:
    assert not drive_carefully(read(files.cut_in(tmp_path, "4")).scenario).avoided


def test_events_follow_each_other_by_time_and_by_what_is_over(tmp_path: Path) -> None:
    at_5 = '<ByValueCondition><SimulationTimeCondition value="5" rule="greaterOrEqual"/></ByValueCondition>'
    events = files.event("Brake", files.BRAKE.format(rate=4, speed="${2 * 4}"), at_5)
    events += files.event("Stop", files.BRAKE.format(rate=2, speed=0), files.after("Brake"), delay=1.5)
    place, leads = '<RelativeLanePosition entityRef="Ego" dLane="0" ds="50" offset="0.3"/>', files.LEADS.format(gap=2)
    path = files.write(tmp_path, place, files.RELATIVE.format(delta=0), events, more=leads)
    scenario = read(path).scenario
    (lead,) = scenario.vehicles
    # Two seconds from bumper to bumper, whatever the first place was.
    assert lead.ahead_m == pytest.approx(2.0 * SPEED_M_S + 4.5 + 1.3)
    assert lead.offset_m == pytest.approx(0.3)
    brake, stop = lead.moves
    assert (brake.start_s, brake.speed_m_s, brake.lasts_s) == (5.0, 8.0, pytest.approx((SPEED_M_S - 8.0) / 4.0))
    assert stop.start_s == pytest.approx(5.0 + brake.lasts_s + 1.5, abs=0.05)
    assert (stop.speed_m_s, stop.lasts_s) == (0.0, pytest.approx(4.0))
    assert scenario.duration_s == 20.0


@pytest.mark.parametrize(
    ("tag", "value", "gap_m"),
    [("TimeToCollisionCondition", 3.0, 3.0 * 20.0 / 3.6), ("TimeHeadwayCondition", 1.5, 1.5 * SPEED_M_S)],
)
def test_triggers_by_the_time_to_a_collision_and_by_headway(tmp_path: Path, tag: str, value: float, gap_m: float) -> None:
    when = files.NEAR.format(tag=tag, how="", value=value)
    if tag == "TimeToCollisionCondition":
        when = when.replace('entityRef="Other"  value', "value").replace(
            'rule="lessThan"/>',
            f'rule="lessThan"><{tag}Target><EntityRef entityRef="Other"/></{tag}Target></{tag}>',
        )
    events = files.event("Out", files.CHANGE.format(target='<AbsoluteTargetLane value="-3"/>'), when)
    place = '<LanePosition roadId="0" laneId="-2" s="120" offset="0"/>'
    (other,) = read(files.write(tmp_path, place, files.RELATIVE.format(delta="${-20 / 3.6}"), events)).scenario.vehicles
    (move,) = other.moves
    assert move.start_s == pytest.approx((100.0 - 4.5 - gap_m) / (20.0 / 3.6), abs=0.04)


def test_a_person_crosses_the_road_by_lanes_and_times(tmp_path: Path) -> None:
    spot = '<Position><LanePosition roadId="0" laneId="-3" s="220" offset="{offset}"><Orientation h="1.57"/></LanePosition></Position>'
    vertices = "".join(f'<Vertex time="{time}">{spot.format(offset=offset)}</Vertex>' for time, offset in ((0, -5), (3.5, 0), (7, 5)))
    shape = (
        f'<TrajectoryRef><Trajectory name="t" closed="false"><Shape><Polyline>{vertices}</Polyline></Shape></Trajectory></TrajectoryRef>'
    )
    timing = '<TimeReference><Timing domainAbsoluteRelative="relative" scale="1" offset="0"/></TimeReference>'
    walk = f"<RoutingAction><FollowTrajectoryAction>{shape}{timing}</FollowTrajectoryAction></RoutingAction>"
    when = files.NEAR.format(tag="TimeHeadwayCondition", how="", value=3.5)
    place = spot.format(offset=-5).removeprefix("<Position>").removesuffix("</Position>")
    path = files.write(tmp_path, place, '<AbsoluteTargetSpeed value="0"/>', files.event("Cross", walk, when))
    path.write_text(
        path.read_text()
        .replace('<Vehicle name="other" vehicleCategory="car">', '<Pedestrian name="other">', 1)
        .replace("</Vehicle></ScenarioObject></Entities>", "</Pedestrian></ScenarioObject></Entities>")
    )
    scenario = read(path).scenario
    (person,) = scenario.vehicles
    assert (person.figure, person.lane, person.offset_m, person.ahead_m) == (Figure.PERSON, 1, -5.0, 200.0)
    one, two = person.moves
    assert (one.lane, one.offset_m, one.lasts_s) == (1, 0.0, 3.5)
    assert (two.offset_m, two.start_s) == (5.0, pytest.approx(one.start_s + 3.5))
    assert drive_carefully(scenario).avoided
    path.write_text(path.read_text().replace('s="220" offset="5"', 's="240" offset="5"'))
    assert "does not lead straight across the road" in reason(path)


def test_a_road_of_lines_clothoids_and_arcs_is_laid_as_the_file_says(tmp_path: Path) -> None:
    place = '<RelativeLanePosition entityRef="Ego" dLane="0" ds="200" offset="0"/>'
    path = files.write(tmp_path, place, files.RELATIVE.format(delta=0), geometry=files.BENDS)
    scenario = read(path).scenario
    assert (scenario.road.kind, scenario.road.radius_m) == (RoadKind.CURVED, 250.0)
    lead = scenario.road.pieces[:3]
    # The ego begins at 20 m, and our roads begin START_M before it.
    assert lead[0] == Piece(60.0 - (20.0 - START_M))
    assert (lead[1].length_m, lead[1].start_per_m, lead[1].end_per_m) == (40.0, 0.0, pytest.approx(0.004))
    assert lead[2].start_per_m == lead[2].end_per_m == 0.004
    write_scenario(tmp_path / "bends.toml", scenario)
    assert read_scenario(tmp_path / "bends.toml") == scenario


def test_our_own_export_is_read_back_as_it_was(tmp_path: Path) -> None:
    openscenario = pytest.importorskip("skidpad.worlds.openx.openscenario")
    pytest.importorskip("scenariogeneration")
    moves = (Move(4.0, 2.5, lane=2, shape=Shape.SINUSOIDAL), Move(8.0, 3.0, 5.0, 2, 0.5), Move(12.0, speed_m_s=9.0))
    cars = (
        OtherVehicle(1, 60.0, 11.0, 1, moves=moves),
        OtherVehicle(0, 200.0, 14.0, 2, -0.4),
        OtherVehicle(2, 250.0, 0.0, figure=Figure.PERSON),
    )
    moving = Scenario(RoadPlan(RoadKind.CURVED, 250.0, lanes=3), ego=Ego(16.0, 2, pace=Pace.CAREFUL), vehicles=cars)
    drawn = [*sample(DOMAINS.get("extended"), 3, 2).scenarios, *sample(DOMAINS.get("restricted"), 4, 1).scenarios]
    for number, scenario in enumerate([moving, *drawn]):
        exported = openscenario.export_scenario(scenario, tmp_path, f"s{number}")
        assert read(exported.openscenario).scenario == scenario


def test_an_export_that_was_changed_is_read_as_it_is_now(tmp_path: Path) -> None:
    openscenario = pytest.importorskip("skidpad.worlds.openx.openscenario")
    pytest.importorskip("scenariogeneration")
    scenario = replace(sample(DOMAINS.get("restricted"), 8, 1).scenarios[0], vehicles=(OtherVehicle(1, 60.0, 16.0),), ego=Ego(14.0))
    path = openscenario.export_scenario(scenario, tmp_path, "changed").openscenario
    text = path.read_text()
    assert text.count('<AbsoluteTargetSpeed value="16.0"') == 1
    path.write_text(text.replace('<AbsoluteTargetSpeed value="16.0"', '<AbsoluteTargetSpeed value="4.5"'))
    found = read(path).scenario
    assert [each.speed_m_s for each in found.vehicles] == [4.5]
    assert (found.surroundings, found.seed) == (scenario.surroundings, scenario.seed)
    s_m = np.arange(0.0, 200.0, 10.0)
    assert np.allclose(road_of(found).at(s_m).beside(0.0), road_of(scenario).at(s_m).beside(0.0), atol=1e-6)


VARIATION = """<OpenSCENARIO><FileHeader revMajor="1" revMinor="1"/><ParameterValueDistribution>
<ScenarioFile filepath="cut_in.xosc"/><Deterministic>
<DeterministicSingleParameterDistribution parameterName="Speed_kph"><DistributionRange stepWidth="{step}">
<Range lowerLimit="30" upperLimit="70"/></DistributionRange></DeterministicSingleParameterDistribution>
<DeterministicSingleParameterDistribution parameterName="Gap_m"><DistributionSet>
<Element value="10"/><Element value="40"/></DistributionSet>
</DeterministicSingleParameterDistribution></Deterministic></ParameterValueDistribution></OpenSCENARIO>"""


def test_variations_play_each_value_with_each_and_obey_the_constraints(tmp_path: Path) -> None:
    files.cut_in(tmp_path)
    (tmp_path / "many.xosc").write_text(VARIATION.format(step=20))
    found = read_openscenario(tmp_path / "many.xosc")
    assert [each.name for each in found] == [f"many-{number:03d}" for number in range(1, 7)]
    speeds = [round(each.scenario.ego.speed_m_s * 3.6) for each in found if isinstance(each, ReadScenario)]
    assert speeds == [30, 30, 50, 50]
    assert [each.reason for each in found if isinstance(each, SkippedScenario)] == ["its own constraints forbid the value of Speed_kph"] * 2


def test_of_very_many_variations_some_are_read_evenly_spread(tmp_path: Path) -> None:
    path = tmp_path / "many.xosc"
    path.write_text(VARIATION.format(step=0.5))
    base, sets, total = varied(read_document(path), path)
    assert (base.name, len(sets), total) == ("cut_in.xosc", MOST, 162)
    assert len({each["Speed_kph"] for each in sets}) > MOST // 2
    assert [sum(each["Gap_m"] == gap for each in sets) for gap in ("10", "40")] == [pytest.approx(MOST / 2, abs=4)] * 2
    path.write_text(VARIATION.format(step=0.0001))
    with pytest.raises(BadScenarioError, match="has no usable step"):
        varied(read_document(path), path)


def _trajectory(text: str) -> str:
    return text.replace("LaneChangeAction", "FollowTrajectoryAction")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace('vehicleCategory="van"', 'vehicleCategory="motorbike"'), "'Other' is a motorbike"),
        (_trajectory, "'Other' does a FollowTrajectoryAction"),
        (lambda text: text.replace("RelativeDistanceCondition", "ReachPositionCondition"), "waits for a ReachPositionCondition"),
        (lambda text: text.replace('value="-3"', 'value="-4"'), "in lane -4 of road '0', which nobody drives in"),
        (lambda text: text.replace('value="-3"', 'value="1"'), "the ego drives against the direction"),
        (lambda text: text.replace("./road.xodr", "/etc/hosts.xodr"), "name files by their way from the scenario's own"),
        (lambda text: text.replace("./road.xodr", "./road.txt"), "ends in neither .xosc nor .xodr"),
        (lambda text: text.replace("$Speed_kph / 3.6", "__import__('os')"), "cannot work out the expression"),
        (lambda text: text.replace("$Gap_m + 60", "$Nothing"), "$Nothing is used, but not declared"),
        (lambda text: text.replace("Storyboard", "Storybook"), "it has no storyboard"),
        (lambda text: text.replace("</OpenSCENARIO>", ""), "is not XML"),
        (
            lambda text: text.replace("<OpenSCENARIO>", '<!DOCTYPE x [<!ENTITY a "b">]><OpenSCENARIO>'),
            "declares a document type or entities",
        ),
        (lambda text: text.replace("<CatalogLocations/>", "<x>" * 120 + "</x>" * 120), "nests elements deeper"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_sentence(tmp_path: Path, change: object, words: str) -> None:
    path = files.cut_in(tmp_path)
    assert callable(change)
    path.write_text(change(path.read_text().replace('name="other" vehicleCategory="car"', 'name="other" vehicleCategory="van"')))
    assert words in reason(path)


VALUES = (
    "",
    "-1",
    "0",
    "nan",
    "inf",
    "1e308",
    "-1e308",
    "1e9",
    "abc",
    "$Lane",
    "${1/0}",
    "$Nope",
    "Ego",
    "999999999999",
    "-3",
    "linear",
    "rate",
)


def damaged(text: str, rng: Random) -> str:
    """Returns a text with some values, attributes or elements changed or gone."""
    for _ in range(rng.randint(1, 3)):
        how = rng.choice((r'="([^"]*)"', r"(<\w+[^<>]*/>)", r'( \w+="[^"]*")', r"<(\w+)"))
        found = rng.choice(list(re.finditer(how, text)))
        change = rng.choice(VALUES) if how.startswith("=") else "X" if how == r"<(\w+)" else ""
        text = text[: found.start(1)] + change + text[found.end(1) :]
    return text


@pytest.mark.parametrize("count", [30, pytest.param(400, marks=pytest.mark.slow)])
def test_damaged_files_end_in_a_scenario_or_in_a_sentence(tmp_path: Path, count: int) -> None:
    path, rng = files.cut_in(tmp_path), Random(count)
    whole = {each: each.read_text() for each in (path, tmp_path / "road.xodr")}
    for _ in range(count):
        file = rng.choice(list(whole))
        file.write_text(damaged(whole[file], rng))
        for found in read_openscenario(path):
            assert isinstance(found, ReadScenario) or found.reason
        file.write_text(whole[file])


def test_a_crowd_is_not_rehearsed(tmp_path: Path) -> None:
    path = files.cut_in(tmp_path)
    crowd = "".join(f'<ScenarioObject name="Car{number}"/>' for number in range(30))
    path.write_text(path.read_text().replace("</Entities>", f"{crowd}</Entities>"))
    assert "it has 32 actors and 1 events" in reason(path)


def test_files_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.xosc"
    path.write_bytes(b"<a>" + b" " * MAX_BYTES + b"</a>")
    with pytest.raises(BadScenarioError, match="more than 4 MiB"):
        read_document(path)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("-$a % 3", 1.0),
        ("sign($a - 9) * min(1.0, abs($a), max(2, $a))", -1.0),
        ("round(2.6) + floor(2.6) + ceil(2.2) + sqrt(16) + pow(2, 3)", 20.0),
        ("sin(pi / 2)", 1.0),
        ("not ($b and $a)", 0.0),
    ],
)
def test_expressions(expression: str, value: float) -> None:
    from xml.etree.ElementTree import Element

    parameters = Parameters({"a": "5", "b": "true"})
    assert parameters.number(Element("X", v="${" + expression + "}"), "v") == pytest.approx(value)


def test_a_folder_and_a_file_are_read_as_other_scenarios_are(tmp_path: Path) -> None:
    files.cut_in(tmp_path)
    other = files.cut_in(tmp_path, name="bike")
    other.write_text(other.read_text().replace('name="other" vehicleCategory="car"', 'name="other" vehicleCategory="bicycle"'))
    van = files.cut_in(tmp_path, name="van")
    van.write_text(van.read_text().replace('name="other" vehicleCategory="car"', 'name="other" vehicleCategory="van"'))
    found = read_scenarios(tmp_path)
    assert [each.name for each in found.scenarios] == ["cut_in", "van"]
    assert [each.name for each in found.skipped] == ["bike"]
    assert "a bicycle" in found.skipped[0].reason
    (warning,) = found.warnings
    assert warning.endswith("van: Other (van) is drawn as a car")
    with pytest.raises(BadScenarioError, match="there is no such file"):
        read_scenarios(tmp_path / "nothing.xosc")
