"""skidpad scenarios from the command line: drawn, checked, exported, and what is wrong told in words."""

import json
import xml.etree.ElementTree as ET

import openx_files
import pytest

from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.files import read_scenario, read_scenarios


def test_scenarios_are_drawn_to_a_file_and_to_a_folder(skidpad, tmp_path) -> None:
    wanted = sample(DOMAINS.get("extended"), 7, 3).scenarios
    one = skidpad("scenarios", "draw", "--count", "3", "--seed", "7", "--out", tmp_path / "all.json", "--json")
    assert one.code == 0, one.err
    assert json.loads(one.out)["scenarios"] == ["extended-000", "extended-001", "extended-002"]
    assert tuple(each.scenario for each in read_scenarios(tmp_path / "all.json").scenarios) == wanted
    some = skidpad("scenarios", "draw", "--count", "2", "--first", "1", "--seed", "7", "--out", tmp_path / "folder")
    assert "2 scenarios" in some.out
    assert read_scenario(tmp_path / "folder" / "extended-002.toml") == wanted[2]


def test_files_are_checked_and_what_is_wrong_is_told(skidpad, tmp_path) -> None:
    skidpad("scenarios", "draw", "--count", "1", "--domain", "restricted", "--out", tmp_path / "good.toml")
    assert skidpad("scenarios", "check", tmp_path / "good.toml").code == 0
    (tmp_path / "key.toml").write_text("[road]\nradios_m = 50.0\n")
    (tmp_path / "fast.toml").write_text('[road]\nkind = "curved"\nradius_m = 40.0\n[ego]\nspeed_m_s = 25.0\n')
    (tmp_path / "knot.toml").write_text(
        'duration_s = 60.0\n[road]\nkind = "curved"\nradius_m = 40.0\nturn_deg = 300.0\n[ego]\nspeed_m_s = 10.0\n'
    )
    done = skidpad("scenarios", "check", tmp_path)
    assert done.code == 1
    for words in ("did you mean 'radius_m'", "speed-for-curvature", "lower ego.speed_m_s", "road-keeps-off-itself", "restricted-000"):
        assert words in done.out
    told = json.loads(skidpad("scenarios", "check", tmp_path, "--json").out)
    assert told["usable"] == ["restricted-000"]
    assert [each["scenario"] for each in told["unusable"]] == ["fast", "key", "knot"]


def test_a_scenario_that_hides_the_lane_is_usable_with_a_warning(skidpad, tmp_path) -> None:
    blizzard = tmp_path / "blizzard.toml"
    blizzard.write_text('[conditions]\nweather = "snow"\nintensity = 0.9\nsun_elevation_deg = 20.0\n[ego]\nheadlights = true\n')
    done = skidpad("scenarios", "check", blizzard)
    assert done.code == 0
    assert "warning: " in done.err
    assert "lane-in-sight" in done.err
    told = json.loads(skidpad("scenarios", "check", blizzard, "--json").out)
    assert told["usable"] == ["blizzard"]
    assert len(told["warnings"]) == 1
    drive = skidpad("drive", "demo", "--scenario", blizzard, "--seconds", "1", "--out", tmp_path / "run")
    assert drive.code == 0, drive.err
    assert "lane-in-sight" in drive.err


def test_scenarios_are_exported_for_other_simulators(skidpad, tmp_path) -> None:
    pytest.importorskip("scenariogeneration")
    skidpad("scenarios", "draw", "--count", "2", "--out", tmp_path / "s.toml")
    done = skidpad("scenarios", "export", tmp_path / "s.toml", "--out", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    first = json.loads(done.out)["exported"][0]
    assert ET.parse(first["opendrive"]).getroot().tag == "OpenDRIVE"
    assert ET.parse(first["openscenario"]).getroot().find("RoadNetwork/LogicFile").get("filepath") == "extended-000.xodr"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scenarios", "draw", "--domain", "extend", "--out", "x.toml"), "did you mean 'extended'"),
        (("scenarios", "draw", "--seconds", "500", "--out", "x.toml"), "1 to 120 s"),
        (("scenarios", "check", "/no/such.toml"), "/no/such.toml"),
        (("scenarios", "export", "/no/such.toml", "--out", "y"), "/no/such.toml"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(skidpad, tmp_path, monkeypatch, words, said) -> None:
    monkeypatch.chdir(tmp_path)
    done = skidpad(*words)
    assert done.code == 2
    assert said in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("worlds", "metadrive"),
        ("domains", "restricted: road.radius_m"),
        ("constraints", "fog-lights-in-fog"),
        ("searches", "cma-es"),
    ],
)
def test_worlds_domains_constraints_and_searches_are_listed(skidpad, what, words) -> None:
    assert words in skidpad("list", what).out
    assert words in json.loads(skidpad("list", what, "--json").out)


def test_openscenario_files_are_read_and_played_beside_a_careful_driver(skidpad, tmp_path) -> None:
    openx_files.cut_in(tmp_path)
    openx_files.cut_in(tmp_path, "4", name="too_near")
    bike = openx_files.cut_in(tmp_path, name="bike")
    bike.write_text(bike.read_text().replace('name="other" vehicleCategory="car"', 'name="other" vehicleCategory="bicycle"'))
    done = skidpad("scenarios", "read", tmp_path, "--out", tmp_path / "toml")
    assert done.code == 0, done.err
    for words in ("2 scenarios can be played", "collides at", "is a bicycle", "2 can be played, 1 cannot", "in 1 of 2"):
        assert words in done.out
    assert sorted(path.name for path in (tmp_path / "toml").iterdir()) == ["cut_in.toml", "too_near.toml"]
    told = json.loads(skidpad("scenarios", "read", tmp_path, "--json").out)
    assert [(each["scenario"], each["careful_driver_avoids"]) for each in told["playable"]] == [("cut_in", True), ("too_near", False)]
    assert [each["scenario"] for each in told["not_playable"]] == ["bike"]
    played = skidpad("drive", "demo", "--scenario", tmp_path / "toml" / "too_near.toml", "--out", tmp_path / "run", "--json")
    assert played.code == 0, played.err
    (case,) = json.loads(played.out)["cases"]
    assert (case["verdict"], case["failed"], case["judged"]) == ("UNAVOIDABLE", 0, 0)
    assert skidpad("gate", tmp_path / "run", "--max-rate", "0").code == 2, "it must not pass on nothing"
    assert case["careful_driver"] == told["playable"][1]["careful_driver"]
    page = skidpad("report", tmp_path / "run", "--out", tmp_path / "page.md")
    assert page.code == 0, page.err
    text = (tmp_path / "page.md").read_text()
    assert "Beside a careful and competent driver" in text
    assert "In 1 case a careful driver collides as well; that counts in no rate." in text
    both = skidpad("drive", "demo", "--scenario", tmp_path / "toml", "--out", tmp_path / "both")
    assert "all 2 cases" not in both.out
    gate = skidpad("gate", tmp_path / "both", "--max-rate", "0")
    assert gate.code == 0, gate.out
    assert "1 failure that nobody could avoid counts in no rate" in gate.out + gate.err


def test_files_of_which_none_can_be_played_are_an_error(skidpad, tmp_path) -> None:
    bike = openx_files.cut_in(tmp_path, name="bike")
    bike.write_text(bike.read_text().replace('name="other" vehicleCategory="car"', 'name="other" vehicleCategory="bicycle"'))
    for words in ((), ("--json",)):
        done = skidpad("scenarios", "read", bike, *words)
        assert done.code == 2
        assert "is a bicycle" in done.out


def test_a_collection_that_is_not_known_is_not_fetched(skidpad, tmp_path) -> None:
    done = skidpad("scenarios", "fetch", "alsk", "--out", tmp_path / "out")
    assert done.code == 2
    assert "alks" in done.err
