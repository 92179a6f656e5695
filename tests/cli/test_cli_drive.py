"""skidpad drive and compare from the command line: report, replay, resume, files, refusals."""

import json

import pytest

from skidpad.worlds.scenario.files import write_scenario
from skidpad.worlds.scenario.scenario import RoadKind, RoadPlan, Scenario


@pytest.fixture
def scenario_file(tmp_path):
    path = tmp_path / "bend.toml"
    write_scenario(path, Scenario(RoadPlan(RoadKind.CURVED, 150.0), duration_s=1.0, seed=5))
    return path


def test_a_drive_is_made_reported_replayed_and_resumed(skidpad, scenario_file, tmp_path) -> None:
    run = tmp_path / "run"
    done = skidpad("drive", "demo", "--scenario", scenario_file, "--stimulus", "original", "--stimulus", "blur", "--out", run, "--json")
    assert done.code == 0, done.err
    payload = json.loads(done.out)
    assert payload["drives"] == 2
    assert [row["condition"] for row in payload["conditions"]] == ["original", "blur"]
    assert [case["scenario"] for case in payload["cases"]] == ["bend", "bend"]
    plain = payload["cases"][0]
    assert plain["verdict"] == "PASS"
    assert 0.0 < plain["mdcl"] < 0.5
    page = (run / "report.html").read_text()
    assert "data:image/jpeg" in page
    assert "animate" in page
    assert "<script" not in page
    replayed = skidpad("replay", run, plain["case_id"][:9], "--picture", tmp_path / "film.svg")
    assert replayed.code == 0, replayed.out + replayed.err
    assert "reproduced" in replayed.out
    assert (tmp_path / "film.svg").read_text().startswith("<svg")
    assert f"film strip: {tmp_path / 'film.svg'}; moving: {tmp_path / 'film.moving.svg'}" in replayed.out
    assert 'attributeName="y"' in (tmp_path / "film.moving.svg").read_text()
    again = json.loads(skidpad("replay", run, plain["case_id"], "--json").out)
    assert (again["replay"], again["reproduced"], again["differences"]) == ("identical", True, [])
    stored = (run / "manifest.json").read_text()
    manifest = {name: value for name, value in json.loads(stored).items() if name != "processor"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    elsewhere = json.loads(skidpad("replay", run, plain["case_id"], "--json").out)
    assert elsewhere["replay"] == "identical"
    assert [change.partition(" -> ")[0] for change in elsewhere["version_changes"]] == ["processor unknown"]
    (run / "manifest.json").write_text(stored)
    refused = skidpad("replay", run, plain["case_id"], "--picture", tmp_path / "film.gif")
    assert refused.code == 2
    assert "film.svg" in refused.err
    resumed = skidpad("resume", run)
    assert resumed.code == 0
    assert "By condition" in resumed.out


def test_a_broken_scenario_is_named_and_the_others_go_on(skidpad, scenario_file, tmp_path) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    scenario_file.rename(folder / "a.toml")
    (folder / "b.toml").write_text("colour = 'blue'\n")
    (folder / "c.toml").write_text(
        'duration_s = 60.0\n[road]\nkind = "curved"\nradius_m = 40.0\nturn_deg = 300.0\n[ego]\nspeed_m_s = 10.0\n'
    )
    done = skidpad("drive", "demo", "--scenario", folder, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "Skipped: b" in done.out
    assert "colour" in done.out
    assert "Skipped: c" in done.out
    assert "The road does not cross itself" in done.out
    assert "colour" in (tmp_path / "run" / "report.html").read_text()
    (folder / "a.toml").unlink()
    (folder / "c.toml").unlink()
    none = skidpad("drive", "demo", "--scenario", folder, "--out", tmp_path / "other")
    assert none.code == 2
    assert "colour" in none.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drive", "demo", "--world", "builtin"), "did you mean 'built-in'"),
        (("drive", "demo", "--domain", "extend"), "did you mean 'extended'"),
        (("drive", "demo", "--stimulus", "fogg"), "did you mean 'fog'"),
        (("drive", "nowhere.toml"), "nowhere.toml"),
        (("drive", "demo", "--repeats", "0"), "repeats"),
        (("drive", "demo", "--budget", "4"), "--budget belongs to --estimate"),
        (("drive", "demo", "--estimate", "--budget", "0"), "--budget is the most that an estimate may make, at least 1; got 0"),
        (("duel", "--within", "0.1", "--method", "splitting"), "--method and --within belong to --estimate"),
        (("compare", "demo", "--unit", "gon"), "unit"),
        (("compare", "demo", "--drive", "/no/such/drive"), "/no/such/drive"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(skidpad, tmp_path, words, said) -> None:
    done = skidpad(*words, "--out", tmp_path / "run")
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "run").exists()


def test_offline_and_online_are_compared_and_replicated(skidpad, tmp_path) -> None:
    run = tmp_path / "run"
    size = ("--scenarios", "1", "--matched", "1", "--seconds", "1", "--drive", "rendered?frames=30")
    done = skidpad("compare", "demo", *size, "--out", run, "--json")
    assert done.code == 0, done.err
    payload = json.loads(done.out)
    assert sum(payload["agreement"].values()) == 1
    assert payload["recorded"]["pairs"] == 1
    assert len(payload["sensitivity"]) == 30
    told = skidpad("resume", run)
    assert "Scenarios by result (Table III)" in told.out
    assert "RQ0: " in told.out
    assert "Figure 8" in (run / "report.html").read_text()
    case = payload["scenarios"][0]["offline"]
    assert skidpad("replay", run, case).code == 0
    folder = tmp_path / "replication"
    replicated = skidpad("replicate", "offline-online", "demo", *size, "--out", folder)
    assert replicated.code == 0, replicated.err
    assert "which is more optimistic" in replicated.out
    assert "Autumn" in (folder / "offline-online.md").read_text()
    assert json.loads((folder / "offline-online.json").read_text())["subjects"] == ["pilotnet-rendered"]
    other = skidpad("replicate", "offline-online", "demo", *size, "--seed", "3", "--out", folder)
    assert other.code == 2
    assert "other settings" in other.err
