"""Rules from runs: a fault that was planted is found in words."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from bar_world import BarSubject, bar_campaign, bar_drive
from online_toys import DEMO, LONGER, demo, online, tampered
from typer.testing import CliRunner

from skidpad.cli.main import app
from skidpad.core.errors import SkidpadError
from skidpad.core.stimuli import Params, Real, Recipe, Space
from skidpad.kinds.drives.campaign import Online, OnlineSettings
from skidpad.kinds.drives.loop import Course, Wheel
from skidpad.kinds.drives.page import online_page
from skidpad.kinds.drives.records import Case, build_records
from skidpad.kinds.drives.summary import drive_cases
from skidpad.kinds.kind import KINDS
from skidpad.kinds.pictures.summary import picture_cases
from skidpad.kinds.ruling import MAX_CASES, judged_rows, recipe_traits
from skidpad.runs.records import ShardResult
from skidpad.statistics.rules import Cases, Trait, learn_rules
from skidpad.stimuli.registry import conditions_of
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.scenario import RoadKind, Side, Weather


def blind_in_the_left_half_when_it_rains(scenario) -> bool:
    """What such a network would do: it loses left bends, and only in the rain."""
    road = scenario.road
    return scenario.conditions.weather is Weather.RAIN and road.kind is RoadKind.CURVED and road.side is Side.LEFT


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A run over scenarios of the extended domain, with planted courses in the place of drives."""
    settings = OnlineSettings(subject=DEMO, domain="extended", scenarios=400)
    conditions, stimuli = conditions_of(())
    drawn = sample(DOMAINS.get("extended"), 5, 400).scenarios
    campaign = Online(settings, demo(), (), conditions, stimuli)
    run = campaign.start(tmp_path_factory.mktemp("rules") / "run")
    rng = np.random.default_rng(0)
    strayed = [2.0 if blind_in_the_left_half_when_it_rains(each) or rng.random() < 0.02 else 0.3 for each in drawn]
    cases = [Case(f"extended-{number:03d}", each, "original", Recipe(), slot=number) for number, each in enumerate(drawn)]
    courses = [Course(np.array([0.0, each]), np.zeros(2), np.zeros(2)) for each in strayed]
    run.commit(ShardResult("online", 0, build_records(cases, courses, Wheel.SUBJECT, "built-in", demo().sha256)))
    run.finish({"online": 1})
    return campaign, run


def test_the_planted_fault_is_found_in_words(planted):
    ruled = learn_rules(drive_cases(*planted))
    assert [set(rule.where.split(" and ")) for rule in ruled.rules] == [{"the weather is rain", "the road is a bend to the left"}]
    assert ruled.rules[0].kept_apart.rate > 0.9
    assert ruled.rules[0].rest.rate < 0.1


def test_the_command_and_the_page_say_it(planted):
    campaign, run = planted
    said = CliRunner().invoke(app, ["rules", str(run.path)], catch_exceptions=False).output
    assert "fails in 100 % where" in said
    assert "counted on" in said
    answer = json.loads(CliRunner().invoke(app, ["rules", str(run.path), "--json"], catch_exceptions=False).stdout)
    assert answer["cases"] == 400
    assert len(answer["rules"]) == 1
    lead = online_page(campaign, run).lead_tables[0]
    assert lead.title == "When it fails"
    assert "the weather is rain" in lead.rows[0][0]


def test_one_case_is_too_few_and_kinds_without_rules_name_those_that_have_them(tmp_path):
    campaign = online(tampered(bias_rad=1.5), LONGER)
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    assert "Too few cases to learn from" in CliRunner().invoke(app, ["rules", str(run.path)], catch_exceptions=False).output
    with pytest.raises(
        SkidpadError, match=r"cannot be explained by rules; those of `skidpad drive`, `skidpad duel`, `skidpad limits`, `skidpad test` can"
    ):
        KINDS.get("compare").part("traits", "explained by rules")


def test_parameters_of_a_recipe_are_traits():
    texts = [Recipe.of("fog", Params(visibility_m=80.0)).to_json(), Recipe().to_json()]
    names, visibility = recipe_traits(texts)
    assert list(names.values) == ["fog", "original"]
    assert (visibility.name, visibility.unit) == ("the visibility of fog", "m")
    np.testing.assert_array_equal(visibility.values, [80.0, np.nan])


def test_rows_are_thinned_evenly(planted, monkeypatch):
    _, run = planted
    assert MAX_CASES > 400
    monkeypatch.setattr("skidpad.kinds.ruling.MAX_CASES", 100)
    assert len(judged_rows(run, ("case_id",))) == 100


def test_four_kinds_have_traits():
    assert {name for name in KINDS.names() if KINDS.get(name).traits is not None} >= {"online", "deeptest", "duel", "limits"}


@dataclass(frozen=True)
class Rain:
    """Brightens a picture; its rate is a number in mm/h."""

    space = Space((Real("mm_per_h", 0.0, 99.0, 0.0),), (Params(mm_per_h=5.0), Params(mm_per_h=40.0)))

    def apply(self, frames, params):
        return frames + np.uint8(params.real("mm_per_h"))


class RightOfLeft(BarSubject):
    """The toy of the bar with positive angles to the left, as everywhere else."""

    def _steering(self, frames):
        return -super()._steering(frames)


def test_a_network_that_is_blind_in_the_left_half_when_it_rains_is_told_so_from_its_pictures(tmp_path):
    """It runs: pictures are made, the subject answers, and what breaks the relation is learned from. Heavy rain is what blinds it."""
    drive = bar_drive(160)
    drive = replace(drive, steering_rad=-drive.steering_rad)
    plain = bar_campaign(RightOfLeft(left_threshold=60), drive=drive, transforms=("blur",), referee="off")
    campaign = replace(plain, settings=replace(plain.settings, transforms=("rain", "blur")), stimuli={"rain": Rain(), **plain.stimuli})
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    (rule,) = learn_rules(picture_cases(campaign, run)).rules
    rate, road = sorted(rule.where.split(" and "), key=lambda words: "road" in words)
    assert rate.startswith("the rate of rain is at least")
    assert rate.endswith("mm/h")
    assert road in {"the road is a bend to the left", "the road is not a bend to the right"}
    assert rule.kept_apart.rate > 0.8
    assert rule.rest.rate < 0.02


def test_a_value_that_is_no_failure_is_said_as_such():
    """Of four drivers one never fails."""
    rng = np.random.default_rng(0)
    who = rng.choice(["IDM", "slow", "random", "released"], 400)
    (rule,) = learn_rules(
        Cases((who != "IDM") & (rng.random(400) < 0.9), (Trait("the front", who.tolist()),), [str(k) for k in range(400)])
    ).rules
    assert str(rule).startswith("fails in 8") or str(rule).startswith("fails in 9")
    assert rule.where == "the front is not IDM"
