"""Drives made smaller: a planted rule is found exactly, and a real drive loses what does not matter."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from online_toys import online, tampered

from skidpad.core.errors import SkidpadError
from skidpad.core.stimuli import Params, Recipe, Step
from skidpad.kinds.drives.loop import Course
from skidpad.kinds.drives.records import Case, build_records, scenario_json
from skidpad.kinds.drives.replaying import DriveProblem, DriveStimulus, scenario_changes
from skidpad.kinds.shrinking import minimise, shrink_finding
from skidpad.stimuli.pictures import stimuli
from skidpad.worlds.scenario.domain import DOMAINS
from skidpad.worlds.scenario.files import NamedScenario
from skidpad.worlds.scenario.scenario import (
    Conditions,
    Ego,
    OtherVehicle,
    Pedestrian,
    RoadKind,
    RoadPlan,
    Scenario,
    Side,
    Surroundings,
    Weather,
)

BUSY = Scenario(
    RoadPlan(RoadKind.CURVED, 150.0, Side.RIGHT, lanes=2, lane_width_m=3.4),
    Conditions(Weather.FOG, 0.8),
    Surroundings(trees=0.9, buildings=0.4, gantries=2),
    Ego(speed_m_s=12.0, lane=1, fog_lights=True, headlights=True),
    vehicles=(OtherVehicle(2, 60.0, 14.0), OtherVehicle(0, 80.0, 12.0, 3), OtherVehicle(1, 90.0, 15.0)),
    pedestrians=(Pedestrian(Side.LEFT, 40.0), Pedestrian(Side.RIGHT, 60.0, -1.0)),
    duration_s=14.0,
    seed=5,
)
CAMERA = Recipe((Step("blur", Params(kind="gaussian", size=7)), Step("deeptest-fog", Params(density=0.5, seed=9))))


@dataclass
class RuledRunner:
    """Leaves the lane where the fog is dense, an oncoming car is about and the drive lasts; nothing is rendered."""

    stimuli: dict = field(default_factory=lambda: stimuli(("blur", "deeptest-fog")))
    seen: list = field(default_factory=list)

    def records(self, cases, wheel, threads=1) -> pa.Table:
        self.seen += cases
        courses = []
        for case in cases:
            fails = (
                case.scenario.conditions.weather is Weather.FOG
                and case.scenario.conditions.intensity >= 0.25
                and any(vehicle.lane < 1 for vehicle in case.scenario.vehicles)
                and case.scenario.duration_s >= 6.3
                and any(step.stimulus == "blur" and step.params["size"] > 2 for step in case.recipe.steps)
            )
            lateral = pa.array([0.0, 2.0 if fails else 0.1]).to_numpy()
            courses.append(Course(lateral, lateral * 0.0, lateral * 0.0))
        return build_records(cases, courses, wheel, "ruled", "toy")


@pytest.fixture(scope="module")
def shrunk() -> tuple[DriveStimulus, RuledRunner]:
    runner = RuledRunner()
    problem = DriveProblem(runner, Case("busy", BUSY, "blur+deeptest-fog", CAMERA), fails_after_s=9.0)
    return minimise(problem, DriveStimulus(BUSY, CAMERA)).stimulus, runner


def test_what_a_planted_rule_does_not_need_is_left_out(shrunk) -> None:
    found, _ = shrunk
    plain = Scenario(
        conditions=Conditions(Weather.FOG, 0.25),
        ego=Ego(headlights=found.scenario.ego.headlights, fog_lights=found.scenario.ego.fog_lights),
        vehicles=(BUSY.vehicles[1],),
        duration_s=6.3,
        seed=5,
    )
    assert found.scenario == plain
    assert found.recipe == Recipe((Step("blur", Params(kind="averaging", size=3)),))


def test_no_smaller_scenario_breaks_a_constraint_that_the_finding_kept(shrunk) -> None:
    _, runner = shrunk
    extended = DOMAINS.get("extended")
    assert not extended.violations(BUSY)
    assert len(runner.seen) > 20
    for case in runner.seen:
        assert not extended.violations(case.scenario), scenario_json(case.scenario)


def test_changes_are_worded_by_the_names_of_the_domain() -> None:
    after = replace(BUSY, vehicles=BUSY.vehicles[1:2], pedestrians=(), duration_s=6.0, conditions=replace(BUSY.conditions, intensity=0.25))
    told = {change.name: (change.before, change.after) for change in scenario_changes(BUSY, after)}
    assert told["duration_s"] == ("14", "6")
    assert told["conditions.intensity"] == ("0.8", "0.25")
    assert told["pedestrians.2"] == ("side=right ahead_m=60 speed_m_s=-1", "left out")
    straight = scenario_changes(BUSY, replace(BUSY, road=replace(BUSY.road, kind=RoadKind.STRAIGHT, radius_m=200.0)))
    assert [change.name for change in straight] == ["road.kind"], "a straight road has no radius to tell of"
    assert {name for name, (_, left) in told.items() if left == "left out"} == {
        "vehicles.1",
        "vehicles.3",
        "pedestrians.1",
        "pedestrians.2",
    }


def test_a_real_drive_ends_where_it_failed_and_loses_its_blur(tmp_path: Path) -> None:
    scenario = Scenario(ego=Ego(speed_m_s=14.0), duration_s=3.0, seed=1)
    campaign = online(tampered(bias_rad=1.2), (NamedScenario("straight", scenario),), stimuli=("blur(kind=averaging,size=3)",))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    row = run.findings(limit=1).to_pylist()[0]
    shrunk = shrink_finding(campaign, run, row["case_id"])
    assert shrunk.smallest["violated"]
    assert shrunk.smallest["recipe"] == "[]"
    after = Case.from_row(shrunk.smallest).scenario
    assert after == replace(scenario, duration_s=after.duration_s)
    assert after.duration_s <= row["departed_at_s"] + 0.2
    shorter = replace(Case.from_row(shrunk.smallest), scenario=replace(after, duration_s=after.duration_s - 0.1))
    assert not campaign.runner.records([shorter], *_subject_steers()).to_pylist()[0]["violated"]


def _subject_steers():
    from skidpad.kinds.drives.loop import Wheel

    return (Wheel.SUBJECT,)


def test_drives_of_the_truth_are_not_shrunk(tmp_path: Path) -> None:
    campaign = online(scenarios=(NamedScenario("s", Scenario(duration_s=1.0)),))
    run = campaign.start(tmp_path / "run")
    with pytest.raises(SkidpadError, match="no case in"):
        shrink_finding(campaign, run, "abc")
