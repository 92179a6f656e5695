"""Rules from runs: a fault that was planted is found in words."""

import json

import numpy as np
import pytest
from online_toys import DEMO, demo
from typer.testing import CliRunner

from skidpad.cli.main import app
from skidpad.core.stimuli import Params, Recipe
from skidpad.kinds.drives.campaign import Online
from skidpad.kinds.drives.loop import Course, Wheel
from skidpad.kinds.drives.page import online_page
from skidpad.kinds.drives.records import Case, build_records
from skidpad.kinds.drives.settings import OnlineSettings
from skidpad.kinds.drives.traits import drive_cases
from skidpad.kinds.kind import KINDS
from skidpad.kinds.ruling import MAX_CASES, judged_rows, recipe_traits
from skidpad.runs.segments import ShardResult
from skidpad.statistics.rules import learn_rules
from skidpad.stimuli.grammar import conditions_of
from skidpad.worlds.scenario.domain import DOMAINS
from skidpad.worlds.scenario.sampling import sample
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
