"""Repairs beside the command's usual way: a module of one's own, a data set for one's own training, and a limit to reach."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from repair_toys import SPEC, Garage, run_of, write_drive
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

import skidpad as sp
from skidpad.cli.main import app
from skidpad.core.errors import BadDriveError, BadParametersError, BadRunError, UnknownNameError
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Recipe
from skidpad.drives.opening import drive_from_arrays, open_drive
from skidpad.repairs import runs
from skidpad.repairs.export import export_mutants
from skidpad.repairs.lessons import Batch
from skidpad.repairs.outcome import Outcome
from skidpad.repairs.page import driven_table
from skidpad.repairs.plan import SEEN, Candidate, SearchSettings, Task, Trained
from skidpad.repairs.runs import ClosedLoop
from skidpad.repairs.search import Repairs
from skidpad.repairs.source import reached, task_of
from skidpad.runs.folder import Run
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.description import Format
from skidpad.subjects.inputs import History, HistoryKind
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.training import save_subject

SMALL = {
    "families": ("gamma", "black-level"),
    "judged": ("gamma",),
    "unseen": ("atmosphere",),
    "weathers": (),
    "ways": ("random",),
    "strengths": (1.0,),
    "pictures": 64,
    "judged_frames": 2,
    "epochs": 2,
    "batch_size": 32,
    "most_cost": 100.0,
    "mirror": False,
    "seeds": 1,
    "referee": False,
}


def test_a_module_is_repaired_with_a_step_of_ones_own(garage: Garage, tmp_path: Path) -> None:
    seen: list[Batch] = []

    def step(module: nn.Module, batch: Batch) -> torch.Tensor:
        seen.append(batch)
        return ((module(batch.inputs)[:, 0] - batch.labels_rad) ** 2).mean()

    net = sp.wrap(garage.subject.module, width_px=16, height_px=8, colour="grey")
    mended = sp.repair(net, open_drive(garage.train_text), out=tmp_path / "out", step=step, **SMALL)
    assert any(bool(batch.is_mutant.any()) for batch in seen)
    batch = next(batch for batch in seen if bool(batch.is_mutant.any()) and not bool(batch.is_mutant.all()))
    clean = ~batch.is_mutant
    assert torch.equal(batch.inputs[clean], batch.originals[clean])
    assert not torch.equal(batch.inputs[batch.is_mutant], batch.originals[batch.is_mutant])
    assert isinstance(mended.module, nn.Sequential)
    assert mended.outcome.subject == "Sequential"


def test_a_loss_of_ones_own_is_asked(garage: Garage, tmp_path: Path) -> None:
    asked: list[int] = []

    def loss(answers: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        asked.append(len(answers))
        return (answers - right).abs().mean()

    sp.repair(garage.subject, open_drive(garage.train_text), out=tmp_path / "out", loss=loss, **SMALL)
    assert asked


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"step": lambda module, batch: module(batch.inputs)[:, 0] - batch.labels_rad}, "your step must return one number.*shape"),
        ({"step": lambda *_: None}, "your step must return one number.*None"),
        ({"loss": lambda *_: torch.zeros(())}, "your loss must return one number.*does not depend"),
        ({"loss": nn.MSELoss(reduction="none")}, "your loss must return one number.*shape"),
        ({"loss": nn.MSELoss(), "step": lambda *_: None}, "not both"),
    ],
)
def test_a_loss_or_step_that_cannot_teach_is_a_sentence(garage: Garage, tmp_path: Path, own: dict[str, Any], words: str) -> None:
    with pytest.raises(BadParametersError, match=words):
        sp.repair(garage.subject, open_drive(garage.train_text), out=tmp_path / "out", **own, **SMALL)


def test_what_cannot_be_repaired_or_set_is_a_sentence(garage: Garage, tmp_path: Path) -> None:
    with pytest.raises(sp.SkidpadError, match=r"^function is no torch network.* wrap a module"):
        sp.repair(lambda frames: frames, garage.train_drive, out=tmp_path / "out")  # type: ignore[arg-type] # what a user might try
    with pytest.raises(UnknownNameError, match="epochs"):
        sp.repair(garage.subject, garage.train_drive, out=tmp_path / "out", epoch=3)


def test_a_drive_whose_end_has_no_labels_is_a_sentence(garage: Garage, tmp_path: Path) -> None:
    whole = garage.train_drive
    labels_rad = np.where(np.arange(len(whole)) < 0.6 * len(whole), whole.steering_rad, np.nan)
    drive = drive_from_arrays(whole.read(range(len(whole))).frames, labels_rad)
    with pytest.raises(BadDriveError, match="0 frames with a label to judge on"):
        sp.repair(garage.subject, drive, out=tmp_path / "out", **SMALL)


def test_a_network_with_memory_is_repaired(tmp_path: Path, garage: Garage) -> None:
    spec = replace(SPEC, history=History(3, HistoryKind.STACK))
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 16, 8), nn.ReLU(), nn.Linear(8, 1))
    subject = NetworkSubject.of_module(module, replace(garage.subject.description, format=Format.EXPORT, architecture=None, input=spec))
    drive = open_drive(write_drive(tmp_path / "drive", 200))
    mended = sp.repair(subject, drive, out=tmp_path / "out", **SMALL)
    assert subject.lead == 2
    assert {each.epochs for each in mended.outcome.candidates} == {2}


def test_mutants_and_labels_are_exported_as_a_drive(garage: Garage, tmp_path: Path) -> None:
    text = write_drive(tmp_path / "drive", 30)
    run = run_of(garage.toml, text, tmp_path / "run", ("gamma(gamma=2.5)", "camera-yaw(yaw_deg=4)"))
    answer = CliRunner().invoke(
        app, ["repair", str(garage.toml), str(run.path), "--export", str(tmp_path / "mutants"), "--unseen", "none", "--pictures", "40"]
    )
    assert answer.exit_code == 0, answer.output
    with (tmp_path / "mutants" / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["kind"] for row in rows} == {"finding", "random"}
    original = open_drive(text)
    made, places = stimuli(), {name: place for place, name in enumerate(original.frame_ids)}
    moved = 0
    for row in rows:
        label = original.steering_rad[[places[row["original"]]]]
        recipe = Recipe.from_json(row["recipe"])
        assert float(row["steering_angle"]) == pytest.approx(float(recipe.moved_rad(label, made)[0]))
        moved += recipe.moves_camera(made)
    assert moved > 0
    opened = open_drive(f"folder:{tmp_path / 'mutants'}?csv=labels.csv&unit=rad")
    assert len(opened) == len(rows)
    assert np.isfinite(opened.steering_rad).all()
    held_back = sum(row["kind"] == "finding" and "gamma" in row["recipe"] for row in rows)
    assert held_back > 0
    assert "--unseen none" not in answer.output
    less = export_mutants(run, tmp_path / "less", held_back=("gamma",), pictures=4)
    assert less.held_back == held_back
    assert "--unseen none" in less.said
    again = CliRunner().invoke(app, ["repair", str(garage.toml), str(run.path), "--export", str(tmp_path / "mutants")])
    assert isinstance(again.exception, BadParametersError)
    words = ["repair", str(garage.toml), str(run.path), "--unseen", "none", "--pictures", "24", "--families", "fog", "--train-share", "0.5"]
    early = CliRunner().invoke(app, [*words, "--export", str(tmp_path / "early")])
    assert early.exit_code == 0, early.output
    with (tmp_path / "early" / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["kind"] for row in rows} == {"random"}
    assert all("fog" in row["recipe"] and places[row["original"]] < 15 for row in rows)
    words = ["repair", str(garage.toml), str(run.path), "--pictures", "24", "--train-weathers", "dusk"]
    dusk = CliRunner().invoke(app, [*words, "--export", str(tmp_path / "dusk")])
    assert dusk.exit_code == 0, dusk.output
    assert "weather:dusk" in (tmp_path / "dusk" / "labels.csv").read_text()
    with pytest.raises(BadParametersError, match="is a file"):
        export_mutants(run, tmp_path / "early" / "labels.csv")
    with pytest.raises(BadParametersError, match="at most 1"):
        export_mutants(run, tmp_path / "more", train_share=1.5)
    with pytest.raises(UnknownNameError, match="did you mean 'fog'"):
        export_mutants(run, tmp_path / "more", families=("fogg",))


def test_a_stimulus_without_drives_is_a_sentence(garage: Garage, tmp_path: Path) -> None:
    words = ["repair", str(garage.toml), str(garage.run.path), "--out", str(tmp_path / "out"), "--stimulus", "fog(visibility_m=20)"]
    answer = CliRunner().invoke(app, words)
    assert isinstance(answer.exception, BadParametersError)
    assert "--closed-loop 20" in str(answer.exception)
    with pytest.raises(BadParametersError, match="--closed-loop 20"):
        sp.repair(garage.toml, garage.run, out=tmp_path / "out", stimulus="fog(visibility_m=20)")


def test_the_first_network_the_control_and_the_repaired_one_drive_the_same_scenarios(garage: Garage, tmp_path: Path) -> None:
    net = sp.wrap(garage.subject.module, width_px=16, height_px=8, colour="grey")
    for place in ("recommended", "candidates/control-3-seed0"):
        weights = tmp_path / f"{place}.safetensors"
        weights.parent.mkdir(parents=True, exist_ok=True)
        save_file(garage.subject.module.state_dict(), weights)
    loop = ClosedLoop(2, ("exposure(ev=-1)",), "restricted", 1.0)
    found = runs.driven(net, tmp_path, SearchSettings(), loop, silent, "control-3-seed0")
    assert [each.stimulus.partition("(")[0] for each in found] == ["original", "exposure"]
    for each in found:
        assert each.drives == 2
        assert each.failures_before == each.failures_control == each.failures_after  # the same weights
    best = Trained(Candidate("random", 3.0, 0), 0.1, 0.1, 0.1, 1, 1, "")
    outcome = Outcome("toy", "", "drive", "", SearchSettings(), (), (), (1, 1, 1), best, (best,), best.candidate.name, (), ())
    driven = runs.with_drives(outcome, net, tmp_path, SearchSettings(), loop)
    assert driven.driven == found  # the control is found by the name of the recommended one, and nothing is driven twice
    failed = sum(each.failures_after for each in found)
    assert f"In the closed loop {failed} of 4 drives fail instead of {failed} (control {failed})." in driven.verdict
    assert driven_table(driven).columns[2:] == ("Failures before", "Control", "Repaired")
    with pytest.raises(BadRunError, match="another --closed-loop"):
        runs.driven(net, tmp_path, SearchSettings(), replace(loop, scenarios=3), silent)


@pytest.fixture(scope="module")
def limits_run(garage: Garage, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("limits")
    drive = write_drive(folder / "drive", 120)
    result = sp.limits(garage.toml, drive, "contrast-loss", out=folder / "run", frames=60, stretch_frames=4, steps=4, referee="off")
    return result.run


def test_a_limit_is_aimed_at_and_whether_it_was_reached_is_said(garage: Garage, limits_run: Run) -> None:
    task = task_of(limits_run, garage.subject, hold="contrast-loss.share=0.45", source="limits", referee=False)
    assert task.aim is not None
    assert task.aim.share == pytest.approx(0.5)
    assert task.findings == ()

    always_zero = nn.Linear(8 * 16, 1)
    nn.init.zeros_(always_zero.weight)
    nn.init.zeros_(always_zero.bias)
    steady = NetworkSubject.of_module(
        nn.Sequential(nn.Flatten(), always_zero), replace(garage.subject.description, format=Format.EXPORT, architecture=None)
    )
    _, judged = task.drive.split(0.5)
    found = reached(limits_run, task.aim, garage.subject, steady, judged)
    assert found.holds_after
    assert not found.holds_before
    assert "reached" in found.said
    assert "not reached" in replace(found, holds_after=False).said
    assert found.failing_after.high > found.accepted_share
    assert "too few to be sure" in found.said
    unknown = replace(
        found, holds_before=False, holds_after=False, standing_before="refused by the referee", standing_after="refused by the referee"
    )
    assert "cannot be told, since the referee keeps too few of these pictures" in unknown.said
    assert "nor could it before" in unknown.said
    assert "not reached" not in unknown.said
    assert "so few frames do not decide it" in replace(unknown, standing_after="cannot be told").said
    assert "too few" not in replace(found, accepted_share=found.failing_after.high).said


def test_what_is_aimed_at_is_not_said_to_be_unseen(garage: Garage, limits_run: Run, tmp_path: Path) -> None:
    task = task_of(limits_run, garage.subject, hold="contrast-loss.share=0.45", referee=False)
    repairs = Repairs(task, tmp_path, SearchSettings(unseen=("contrast-loss", "gamma"), weathers=(), referee=False))
    unseen = {
        step.stimulus for name, recipes in repairs.judged_recipes.items() if name != SEEN for recipe in recipes for step in recipe.steps
    }
    assert "gamma" in unseen
    assert "contrast-loss" not in unseen
    assert any("contrast-loss is aimed at" in note for note in repairs.notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"hold": ""}, "say which"), ({"hold": "contrast-loss.share=7"}, "is tested from"), ({"hold": "fogg=3"}, "fogg")],
)
def test_a_limit_that_cannot_be_aimed_at_is_a_sentence(garage: Garage, limits_run: Run, options: dict[str, str], words: str) -> None:
    with pytest.raises(sp.SkidpadError, match=words):
        task_of(limits_run, garage.subject, **options)


def test_a_run_of_another_kind_has_no_limit_to_aim_at(garage: Garage) -> None:
    with pytest.raises(BadRunError, match="no run of `skidpad limits`"):
        task_of(garage.run, garage.subject, source="limits")
    with pytest.raises(BadParametersError, match="--hold needs a run of `skidpad limits`"):
        task_of(garage.run, garage.subject, hold="fog.visibility_m=100")
    with pytest.raises(UnknownNameError, match="limits"):
        task_of(garage.run, garage.subject, source="findings")


@pytest.mark.parametrize("helps", [True, False])
def test_the_command_says_whether_the_limit_is_reached_and_drives(
    garage: Garage, limits_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helps: bool
) -> None:
    out = tmp_path / "out"

    def found(task: Task, folder: Path, settings: SearchSettings, _: Progress) -> Outcome:
        assert task.aim is not None
        if helps:
            save_subject(garage.subject.module, garage.subject.description, folder / "recommended")
        before = Trained(Candidate("before", 0.0, 0), 0.1, 0.1, 0.5, 0, 0, "")
        after = Trained(Candidate("random", 2.0, 0), 0.1, 0.05, 0.2, 3, 3, "")
        best = after.candidate.name if helps else ""
        return Outcome("toy", "", "drive", "", settings, ("gamma",), ("fog",), (1, 1, 1), before, (after,), best, (), ())

    out.mkdir()
    monkeypatch.setattr(runs, "search", found)
    words = ["repair", str(garage.toml), str(limits_run.path), "--from", "limits", "--hold", "contrast-loss.share=0.45", "--out", str(out)]
    answer = CliRunner().invoke(app, [*words, "--referee", "off", "--json"])
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert told["reached"]["aim"].startswith("contrast loss to 0.45")
    assert told["reached"]["failing_before"] == told["reached"]["failing_after"]  # the same network
    assert "not reached" in told["verdict"]
    assert "not reached" in (out / "report.html").read_text()
    assert ("No repair helped" in told["verdict"]) is not helps
    mended = sp.repair(garage.toml, limits_run, out=out, hold="contrast-loss.share=0.45", referee=False)
    assert mended.outcome.reached is not None
    assert mended.outcome.reached.said in told["verdict"]
    if not helps:
        return
    loop = ClosedLoop(1, ("exposure(ev=-1)",), "restricted", 1.0)
    first, again = (runs.driven(garage.subject, out, SearchSettings(), loop, silent) for _ in range(2))
    assert [each.drives for each in first] == [1, 1]  # without a stimulus, and under it
    assert all(each.failures_control is None for each in first)  # this search wrote no control
    assert first == again
