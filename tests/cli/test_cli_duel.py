"""skidpad duel from the command line: one's own ego, replay with a film, repair from files, clear refusals."""

import html
import json
import sys
from pathlib import Path

import pytest

POLICY = """
import numpy as np

def reckless(seen):
    return np.full(len(seen), 3)

def far(seen):
    return (seen[:, 4] - seen[:, 0]) * 1200 > 40

def raising(seen):
    if far(seen).any():
        raise RuntimeError("no brakes")
    return reckless(seen)

def shapeless(seen):
    return np.zeros((len(seen), 2)) if far(seen).any() else reckless(seen)

def undecided(seen):
    return np.where(far(seen), np.nan, 3.0)

def reaching(seen):
    return np.where(far(seen), 5, 3)
"""


@pytest.fixture
def policies(tmp_path, monkeypatch):
    """A module of drivers that the command can import; forgotten again afterwards."""
    (tmp_path / "duel_cli_policies.py").write_text(POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    yield "duel_cli_policies"
    sys.modules.pop("duel_cli_policies", None)


def test_an_own_ego_is_tested_replayed_and_drawn(skidpad, policies, tmp_path) -> None:
    run = tmp_path / "run"
    done = skidpad("duel", "test", "--ego", f"{policies}:reckless", "--test-episodes", 20, "--out", run, "--json")
    assert done.code == 0, done.err
    payload = json.loads(done.out)
    columns = {(column["family"], column["column"]): column for column in payload["columns"]}
    assert columns["ego", "random"]["failure_rate"] > columns["slow", "random"]["failure_rate"] == 0.0
    assert columns["ego", "idm"]["episodes"] == 20
    assert (run / "report.html").is_file()
    worst = skidpad("report", run)
    assert worst.code == 0
    from skidpad.runs.folder import Run

    case = Run.open(run).findings(limit=1, columns=["case_id"]).to_pylist()[0]["case_id"]
    replayed = skidpad("replay", run, case[:10], "--picture", tmp_path / "film.svg")
    assert replayed.code == 0, replayed.err
    assert "reproduced" in replayed.out
    assert (tmp_path / "film.svg").read_text().startswith("<svg")
    assert "animateTransform" in (tmp_path / "film.moving.svg").read_text()
    again = json.loads(skidpad("replay", run, "worst", "--picture", tmp_path / "again.svg", "--json").out)
    assert again["pictures"] == [str(tmp_path / name) for name in ("again.svg", "again.moving.svg")]
    assert (again["case_id"], again["replay"]) == (case, "identical")
    assert again["outcome"] == "crash"
    refused = skidpad("replay", run, case, "--picture", tmp_path / "film.png")
    assert refused.code == 2
    assert "film.svg" in refused.err
    resumed = skidpad("resume", run)
    assert resumed.code == 0
    assert "Failure rates" in resumed.out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raising", "the policy raised RuntimeError: no brakes"),
        ("shapeless", "the policy answered with shape (1, 2) to 1 observations; answer with (1,)"),
        ("undecided", "the policy answered nan; answer with whole numbers within 0 .. 4"),
        ("reaching", "the policy answered 5; answer with whole numbers within 0 .. 4"),
    ],
)
def test_a_policy_that_breaks_far_off_loses_those_episodes_and_the_others_go_on(skidpad, policies, tmp_path, name, said) -> None:
    done = skidpad("duel", "test", "--ego", f"{policies}:{name}", "--test-episodes", 24, "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    column = next(column for column in json.loads(done.out)["columns"] if (column["family"], column["column"]) == ("ego", "random"))
    assert 0 < column["errors"] < column["episodes"]
    assert column["crashes"] + column["overtaken"] + column["timeouts"] + column["errors"] == column["episodes"]
    assert column["failure_rate"] == pytest.approx(column["crashes"] / (column["episodes"] - column["errors"]))
    assert column["problem"] == said
    shown = skidpad("report", tmp_path / "run")
    assert shown.code == 0
    assert html.escape(said.split(";")[0], quote=False) in (tmp_path / "run" / "report.html").read_text()


def test_a_function_is_tested_and_not_retrained(skidpad, policies, tmp_path) -> None:
    done = skidpad("duel", "--ego", f"{policies}:raising", "--rewards", "", "--test-episodes", 4, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "cannot be retrained" in done.out
    assert "the policy raised RuntimeError: no brakes" in done.out


@pytest.mark.parametrize("option", ["--train-episodes", "--test-episodes"])
def test_no_episodes_are_refused_and_not_taken_for_the_default(skidpad, tmp_path, option) -> None:
    done = skidpad("duel", option, 0, "--out", tmp_path / "run")
    assert done.code == 2
    assert "at least 1; got 0" in done.err
    assert not (tmp_path / "run").exists()


def test_policies_of_one_run_are_used_in_the_next(skidpad, tmp_path) -> None:
    trained = tmp_path / "trained"
    done = skidpad("duel", "train", "--rewards", "sound", "--train-episodes", 4, "--out", trained, "--json")
    assert done.code == 0, done.err
    ego, front = (trained / "policies" / f"{name}.safetensors" for name in ("train-ego-000", "train-sound-000"))
    small = ("--train-episodes", 4, "--test-episodes", 6)
    repaired = skidpad(
        "duel", "repair", "--ego", ego, "--front", front, "--w-col", "-1,-0.5", *small, "--out", tmp_path / "repaired", "--json"
    )
    assert repaired.code == 0, repaired.err
    families = {column["family"] for column in json.loads(repaired.out)["columns"]}
    assert families == {"ego", "slow", "repaired-given", "repaired-given w_col -0.5"}
    twice = skidpad("duel", "test", "--ego", ego, "--front", front, "--front", front, "--test-episodes", 4, "--out", tmp_path / "two")
    assert [row.count("train-sound-000.safetensors") for row in twice.out.splitlines() if ": train-sound" in row] == [1, 1]
    assert "1: train-sound-000.safetensors" in twice.out
    assert "2: train-sound-000.safetensors" in twice.out
    crowded = skidpad(
        *("duel", "test", "--ego", ego, "--front", front, "--adversaries-at-once", 2, "--test-episodes", 4, "--out", tmp_path / "crowded")
    )
    assert crowded.code == 0, crowded.err  # both were trained with one front vehicle, and drive among two
    swapped = skidpad("duel", "test", "--ego", front, "--test-episodes", 4, "--out", tmp_path / "swapped")
    assert swapped.code == 2
    assert "was trained to drive the front vehicle" in swapped.err
    assert not (tmp_path / "swapped").exists(), "what cannot be loaded makes no run"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("duel", "--w-col", "often"), "--w-col takes numbers"),
        (("duel", "--crash-cost", "much"), "--crash-cost takes numbers, e.g. 1,3,10"),
        (("duel", "--crash-cost", "3,3"), "each once"),
        (("duel", "--crash-cost", "1,3"), "belongs to a repair in rounds; add --rounds 1, or leave it out; got 1,3"),
        (("duel", "--adversaries-at-once", "4"), "at most 3"),
        (("duel", "--env", "merge", "--adversaries-at-once", "2"), "built-in highway only"),
        (("duel", "--rewards", "soud"), "did you mean 'sound'"),
        (("duel", "--env", "mergd"), "did you mean 'merge'"),
        (("duel", "--env", "merge", "--scenario", "paper"), "a scene of highway-env has its own road; use --scenario or --env, not both"),
        (("duel", "--scenario", "nowhere.toml"), "cannot read the scenario"),
        (("duel", "repair", "--ego", "ego.safetensors"), "give one with --front"),
        (("duel", "repair", "--ego", "e", "--front", "f", "--repairs", "0"), "at least once; got --repairs 0"),
        (("duel", "test", "--ego", "no-such-module:drive"), "cannot import"),
    ],
)
def test_wrong_use_is_said_and_nothing_is_made(skidpad, tmp_path, monkeypatch, words, said) -> None:
    monkeypatch.chdir(tmp_path)
    done = skidpad(*words, "--out", tmp_path / "run")
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "run").exists()


def test_a_scenario_of_ones_own_is_a_file(skidpad, policies, tmp_path) -> None:
    from dataclasses import replace

    from skidpad.highway.scenes import RELEASED

    (tmp_path / "three.toml").write_text(replace(RELEASED, name="three lanes", lanes=3).to_toml())
    words = ("--ego", f"{policies}:reckless", "--scenario", tmp_path / "three.toml", "--test-episodes", 6)
    done = skidpad("duel", "test", *words, "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    assert "three lanes" in (tmp_path / "run" / "report.html").read_text()


def test_the_same_seed_replicates_to_the_same_bytes_on_one_core_and_on_two(skidpad, tmp_path, monkeypatch) -> None:
    small = ("--trainings", 2, "--train-episodes", 5, "--tests", 2, "--test-episodes", 4, "--seed", 3)
    one, two = tmp_path / "one", tmp_path / "two"
    for cores, out in ((1, one), (2, two)):
        monkeypatch.setattr("skidpad.runs.workers.here.default_lanes", lambda cores=cores: cores)
        done = skidpad("replicate", "duel", *small, "--out", out)
        assert done.code == 0, done.err
        assert "Scoreboard" in done.out
    kept = {path.relative_to(one): path.read_bytes() for path in (one / "run" / "segments").iterdir()}
    kept |= {Path(name): (one / name).read_bytes() for name in ("duel.json", "duel.md")}
    assert len(kept) > 20
    assert kept == {name: (two / name).read_bytes() for name in kept}
