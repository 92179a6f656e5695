"""Scenario files: TOML and JSON that come back as they were, and errors that say what to write instead."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.files import (
    NamedScenario,
    format_scenario,
    format_scenarios,
    parse_scenario,
    read_scenario,
    read_scenarios,
    write_scenario,
    write_scenarios,
)
from skidpad.worlds.scenario.scenario import BadScenarioError, RoadKind, Scenario, Weather

BEND = """
seed = 3

[road]
kind = "curved"
radius_m = 80.0

[ego]
speed_m_s = 12

[[vehicles]]
lane = 0
ahead_m = 60.0
speed_m_s = 14.0
"""


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_files_give_the_same_scenario_back(suffix: str, seed: int) -> None:
    (scenario,) = sample(DOMAINS.get("extended"), seed, 1).scenarios
    text = format_scenario(scenario, suffix)
    assert parse_scenario(text, suffix) == scenario
    assert format_scenario(parse_scenario(text, suffix), suffix) == text


def test_a_short_file_takes_defaults_for_the_rest() -> None:
    scenario = parse_scenario(BEND)
    assert scenario.road.kind is RoadKind.CURVED
    assert scenario.ego.speed_m_s == 12.0
    assert scenario.seed == 3
    assert scenario.vehicles[0].lane == 0
    assert scenario.conditions.intensity == 0.0
    fog = parse_scenario('[conditions]\nweather = "fog"\n[ego]\nheadlights = true\n')
    assert (fog.conditions.weather, fog.conditions.intensity) == (Weather.FOG, 0.5)
    assert parse_scenario("") == Scenario()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[rode]\n", "no key of the scenario named 'rode'; did you mean 'road'?"),
        ("[road]\nradius = 80.0\n", "no key of [road] named 'radius'; did you mean 'radius_m'?"),
        (
            "[[vehicles]]\nlane = 0\nahead_m = 9.0\nspeed_m_s = 9.0\ncolor = 3\n",
            "no key of [vehicles.1] named 'color'; did you mean 'colour'?",
        ),
        ("[[vehicles]]\nlane = 0\nahead_m = 9.0\n", "[vehicles.1] lacks the key 'speed_m_s'"),
        ('[road]\nkind = "curvy"\n', "no value for road.kind named 'curvy'; did you mean 'curved'?"),
        ('[ego]\nspeed_m_s = "fast"\n', "ego.speed_m_s must be a number; got 'fast'"),
        ("[ego]\nspeed_m_s = nan\n", "ego.speed_m_s must be a finite number; got nan"),
        ("[ego]\nspeed_m_s = true\n", "ego.speed_m_s must be a number; got True"),
        ("[ego]\nlane = 1.5\n", "ego.lane must be a whole number; got 1.5"),
        ("[ego]\nheadlights = 1\n", "ego.headlights must be true or false; got 1"),
        ("road = 3\n", "[road] must be a table of keys; got 3"),
        ("[vehicles]\nlane = 1\n", "vehicles must be tables [[vehicles]]"),
        ("[road]\nkind = 'curved'\nradius_m = 5000.0\n", "road.radius_m is 5000, outside of its range: road.radius_m in [40, 800]"),
        ("[[pedestrians]]\nside = 'left'\nahead_m = 900.0\n", "pedestrians.1.ahead_m is 900, outside of its range"),
        (
            "[road]\nkind = 'curved'\nradius_m = 60.0\nturn_deg = 165.0\nlanes = 2\n[ego]\nspeed_m_s = 12.0\n",
            "The road does not cross itself",
        ),
        ("[road]\nkind = 'curved'\nradius_m = 45.0\n[ego]\nspeed_m_s = 20.0\n", "Way out: widen road.radius_m or lower ego.speed_m_s"),
        ("[conditions]\nintensity = 0.8\n", "Sunny weather has no intensity"),
        ("duration_s = 1e9\n", "A scenario lasts from 1 to 120 s."),
        ("[road\n", "is not TOML"),
    ],
)
def test_errors_name_what_is_wrong_and_what_to_write(text: str, told: str) -> None:
    with pytest.raises(BadScenarioError) as caught:
        parse_scenario(text, where="bend.toml")
    assert told in str(caught.value)
    assert str(caught.value).startswith("bend.toml")


def test_all_that_is_wrong_with_the_values_is_told_at_once() -> None:
    with pytest.raises(BadScenarioError) as caught:
        parse_scenario("[ego]\nspeed_m_s = 90.0\nlane = 3\nfog_lights = true\n")
    for told in ("ego.speed_m_s is 90", "ego-lane-exists", "fog-lights-in-fog"):
        assert told in str(caught.value)


def test_a_smaller_domain_refuses_what_the_extended_one_has() -> None:
    rain = '[conditions]\nweather = "rain"\n[ego]\nheadlights = true\n'
    assert parse_scenario(rain).conditions.weather is Weather.RAIN
    with pytest.raises(BadScenarioError, match=r"conditions.weather is rain, and always sunny there"):
        DOMAINS.get("restricted").check(parse_scenario(rain))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"seed": 1, "seed": 2}', "the key 'seed' is given twice"),
        ('{"duration_s": NaN}', "NaN is not a number"),
        ("[1]", "must be a table of keys"),
        ("[" * 100_000, "is not JSON"),
        ('{"seed": 1e400}', "seed must be a finite number"),
    ],
)
def test_bad_json_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadScenarioError, match="the scenario") as caught:
        parse_scenario(text, ".json")
    assert told in str(caught.value)


def test_files_and_their_errors_carry_the_path(tmp_path: Path) -> None:
    path = tmp_path / "bend.json"
    write_scenario(path, parse_scenario(BEND))
    assert json.loads(path.read_text())["road"]["radius_m"] == 80.0
    assert read_scenario(path) == parse_scenario(BEND)
    with pytest.raises(BadScenarioError, match=r"cannot read the scenario .*missing.toml"):
        read_scenario(tmp_path / "missing.toml")
    with pytest.raises(BadScenarioError, match=r"ends in .toml or .json, .* also in .xosc; got '.yaml'"):
        write_scenario(tmp_path / "bend.yaml", Scenario())
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadScenarioError, match="cannot read"):
        read_scenario(tmp_path / "binary.toml")


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_file_may_hold_many_and_broken_ones_are_skipped_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"night{suffix}"
    named = [NamedScenario(f"s{k}", scenario) for k, scenario in enumerate(sample(DOMAINS.get("extended"), 2, 5).scenarios)]
    write_scenarios(path, named)
    found = read_scenarios(path)
    assert found.scenarios == tuple(named)
    assert found.skipped == ()
    text = format_scenarios(named, suffix)
    path.write_text(text.replace("turn_deg", "turns_deg", 1))
    found = read_scenarios(path)
    assert [each.name for each in found.scenarios] == ["s1", "s2", "s3", "s4"]
    assert [each.name for each in found.skipped] == ["s0"]
    assert "did you mean 'turn_deg'?" in found.skipped[0].reason
    assert "s0" in found.skipped[0].reason


def test_a_folder_is_read_in_order_and_goes_on_past_broken_files(tmp_path: Path) -> None:
    with pytest.raises(BadScenarioError, match="holds no scenario"):
        read_scenarios(tmp_path)
    (tmp_path / "b.toml").write_text(BEND)
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "c.toml").write_text("[road\n")
    (tmp_path / "d.toml").write_text("[[scenarios]]\n[[scenarios]]\nname = 'x'\nduration_s = -1.0\n")
    (tmp_path / "notes.md").write_text("not a scenario")
    found = read_scenarios(tmp_path)
    assert [each.name for each in found.scenarios] == ["a", "b", "d-1"]
    assert [each.name for each in found.skipped] == ["c", "x"]
    with pytest.raises(BadScenarioError, match="is not TOML"):
        read_scenarios(tmp_path / "c.toml")


def test_keys_beside_a_list_of_scenarios_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text('{"scenarios": [], "seed": 3}')
    with pytest.raises(BadScenarioError, match=r"no key beside .*scenarios.* named 'seed'"):
        read_scenarios(path)
    path.write_text('{"scenarios": 3}')
    with pytest.raises(BadScenarioError, match="must be tables"):
        read_scenarios(path)


BLIZZARD = '[conditions]\nweather = "snow"\nintensity = 0.9\nsun_elevation_deg = 20.0\n[ego]\nheadlights = true\n'


def test_a_file_may_hide_the_lane_and_is_warned_about(tmp_path: Path) -> None:
    (tmp_path / "blizzard.toml").write_text(BLIZZARD)
    (tmp_path / "flurry.toml").write_text(BLIZZARD.replace("0.9", "0.3"))
    found = read_scenarios(tmp_path)
    assert [each.name for each in found.scenarios] == ["blizzard", "flurry"]
    assert found.skipped == ()
    (warning,) = found.warnings
    assert "blizzard.toml" in warning
    assert "lane-in-sight" in warning
    assert "lower conditions.intensity" in warning


def test_a_domain_never_draws_what_a_file_is_warned_about() -> None:
    domain = DOMAINS.get("extended")
    assert "lane-in-sight" in domain.violations(parse_scenario(BLIZZARD))
    assert domain.problems(parse_scenario(BLIZZARD)) == ()
    drawn = sample(domain, 3, 60).scenarios
    assert any(each.conditions.weather is Weather.SNOW for each in drawn)
    assert all(domain.warnings(each) == () for each in drawn)
