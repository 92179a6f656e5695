from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from repair_toys import SPEC, TOY, Garage
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.repairs.report import ALL_MUTANTS, ORIGINALS, RepairReport
from skidpad.repairs.retraining import check_repairable, repair, training_frames
from skidpad.repairs.settings import RepairSettings, Split
from skidpad.subjects.description import Format
from skidpad.subjects.inputs import History, HistoryKind
from skidpad.subjects.loading import load_subject
from skidpad.subjects.network_subject import NetworkSubject

QUICK = RepairSettings(epochs=25, learning_rate=5e-3, batch_size=64, mirror=False)


@pytest.fixture(scope="module")
def reports(garage: Garage) -> dict[Split, RepairReport]:
    return {
        split: repair(garage.subject, garage.run, garage.folder / f"fixed-{split.value}", replace(QUICK, split=split), garage.train_drive)
        for split in Split
    }


@pytest.mark.parametrize("split", Split)
def test_retraining_mends_what_fog_broke(reports: dict[Split, RepairReport], split: Split) -> None:
    fog, everything, originals = (reports[split].improvement(name) for name in ("deeptest-fog", ALL_MUTANTS, ORIGINALS))
    assert fog is not None
    assert everything is not None
    assert originals is not None
    assert fog.mse_before_rad2 > 5 * originals.mse_before_rad2  # the fault that is planted: fog was never trained on
    assert fog.mse_after_rad2 < 0.5 * fog.mse_before_rad2
    assert everything.mse_after_rad2 < 0.5 * everything.mse_before_rad2
    assert fog.mse_change == pytest.approx(fog.mse_after_rad2 / fog.mse_before_rad2 - 1)


@pytest.mark.parametrize("split", Split)
def test_the_errors_before_are_those_that_the_run_stored(garage: Garage, reports: dict[Split, RepairReport], split: Split) -> None:
    held_out = np.flatnonzero(~training_frames(50, replace(QUICK, split=split)))
    rows = [row for row in garage.run.records("grid").to_pylist() if row["frame_index"] in held_out]
    for name in ("deeptest-fog", "deeptest-rain"):
        errors = [(row["mutant"] - row["label"]) ** 2 for row in rows if row["stimulus"] == name]
        found = reports[split].improvement(name)
        assert found is not None
        assert found.cases == len(errors)
        assert found.mse_before_rad2 == pytest.approx(np.mean(errors), rel=1e-4)
        assert found.rmse_before_rad == pytest.approx(np.sqrt(np.mean(errors)), rel=1e-4)
    originals = [row for row in garage.run.records("originals").to_pylist() if row["frame_index"] in held_out]
    found = reports[split].improvement(ORIGINALS)
    assert found is not None
    assert found.mse_before_rad2 == pytest.approx(np.mean([(row["original"] - row["label"]) ** 2 for row in originals]), rel=1e-4)


def test_the_new_subject_answers_as_measured_and_the_old_one_is_untouched(garage: Garage, reports: dict[Split, RepairReport]) -> None:
    report = reports[Split.RANDOM]
    new = load_subject(report.toml)
    assert new.sha256 != garage.subject.sha256
    assert load_subject(garage.toml).sha256 == garage.subject.sha256 == report.subject_sha256
    assert new.description.name == "fixed-random"
    assert any(not torch.equal(a, b) for a, b in zip(new.module.parameters(), garage.subject.module.parameters(), strict=True))


def test_the_counts_tell_what_was_taken(reports: dict[Split, RepairReport]) -> None:
    report = reports[Split.RANDOM]
    assert report.available_mutants == report.training_mutants + report.held_out_mutants == 1000
    assert (report.training_mutants, report.held_out_mutants, report.held_out_frames) == (33 * 20, 17 * 20, 17)
    assert (report.training_frames, report.training_originals, report.shared_frames) == (60, 0, 0)
    assert [row.pictures for row in report.improvements] == [ORIGINALS, "deeptest-fog", "deeptest-rain", ALL_MUTANTS]
    assert [row.cases for row in report.improvements] == [17, 170, 170, 340]
    assert "near-duplicates" in report.notes[0]
    assert "stretches" in reports[Split.TIME].notes[0]
    assert not any("another subject" in note for note in report.notes)


def test_a_run_of_another_subject_can_be_used_and_it_says_so(garage: Garage, reports: dict[Split, RepairReport], tmp_path: Path) -> None:
    other = load_subject(reports[Split.TIME].toml)
    report = repair(other, garage.run, tmp_path / "new", replace(QUICK, epochs=1, max_mutants=100))
    assert any("another subject" in note for note in report.notes)


def test_the_same_seed_gives_the_same_bytes(garage: Garage, tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=2, max_mutants=200)
    same = [repair(garage.subject, garage.run, tmp_path / name, settings) for name in ("a", "b")]
    other = repair(garage.subject, garage.run, tmp_path / "c", replace(settings, seed=1))
    assert Path(same[0].weights).read_bytes() == Path(same[1].weights).read_bytes()
    assert same[0].improvements == same[1].improvements
    assert other.weights_sha256 != same[0].weights_sha256


def test_without_a_training_drive_the_originals_stand_in_and_it_says_so(garage: Garage, tmp_path: Path) -> None:
    report = repair(garage.subject, garage.run, tmp_path / "new", replace(QUICK, epochs=1, max_mutants=400))
    assert report.training_drive == ""
    assert report.training_frames == 0
    assert report.training_originals == 50 - report.held_out_frames
    assert any(note.startswith("no training drive") for note in report.notes)
    assert any("400 of the 1000" in note for note in report.notes)


def test_held_out_frames_are_left_out_of_a_training_drive_that_holds_them(garage: Garage, tmp_path: Path) -> None:
    from skidpad.drives.opening import open_drive

    report = repair(garage.subject, garage.run, tmp_path / "new", replace(QUICK, epochs=1), open_drive(garage.test_text))
    assert report.shared_frames == report.held_out_frames == 17
    assert report.training_frames == 33
    assert any("shares 17 held-out frames" in note for note in report.notes)


def test_frames_of_another_drive_are_not_taken_for_the_same_because_they_are_called_alike(garage: Garage, tmp_path: Path) -> None:
    from skidpad.drives.opening import drive_from_arrays, open_drive

    own = open_drive(garage.test_text)
    other = drive_from_arrays(255 - own.read(range(len(own))).frames, own.steering_rad, frame_ids=own.frame_ids)
    report = repair(garage.subject, garage.run, tmp_path / "new", replace(QUICK, epochs=1), other)
    assert (report.shared_frames, report.training_frames) == (0, 50)


def test_from_scratch_does_not_start_from_the_weights(garage: Garage, tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=1, learning_rate=1e-9, max_mutants=100)  # so slow that the start shows
    kept = load_subject(repair(garage.subject, garage.run, tmp_path / "kept", settings).toml)
    fresh = load_subject(repair(garage.subject, garage.run, tmp_path / "fresh", replace(settings, from_scratch=True)).toml)
    old, same, new = (next(iter(subject.module.parameters())) for subject in (garage.subject, kept, fresh))
    assert torch.allclose(old, same, atol=1e-6)
    assert not torch.allclose(old, new, atol=1e-3)


@pytest.mark.parametrize("name", ["new.toml", "new.safetensors"])
def test_a_place_that_is_taken_is_refused_before_any_work(garage: Garage, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(BadSubjectError, match="writes over no subject"):
        repair(garage.subject, garage.run, tmp_path / "new", QUICK)
    assert (tmp_path / name).read_text() == "mine"


def test_a_network_that_cannot_be_trained_is_refused(garage: Garage) -> None:
    description = replace(TOY.describe("script", "script.ts"), format=Format.TORCHSCRIPT, architecture=None)
    script = NetworkSubject.of_module(garage.subject.module, description)
    with pytest.raises(BadSubjectError, match=r"format 'torchscript'.*zoo"):
        check_repairable(script)


def test_a_network_with_memory_is_refused_by_the_papers_way() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(16 * 8 * 2, 1))
    spec = replace(SPEC, history=History(2, HistoryKind.STACK))
    stacked = NetworkSubject.of_module(module, TOY.describe("stacked", "stacked.safetensors", spec))
    with pytest.raises(BadSubjectError, match="'stacked' looks at 2 frames at once, and the paper's retraining knows single pictures"):
        check_repairable(stacked)


def test_a_report_survives_json(reports: dict[Split, RepairReport]) -> None:
    report = reports[Split.TIME]
    assert RepairReport.from_json(report.to_json()) == report
    assert json.loads(report.to_json())["settings"]["split"] == "time"
    silent = replace(report, improvements=(replace(report.improvements[0], mse_before_rad2=float("nan"), mse_control_rad2=float("nan")),))
    assert json.loads(silent.to_json())["improvements"][0]["mse_before_rad2"] is None
    assert np.isnan(RepairReport.from_json(silent.to_json()).improvements[0].mse_before_rad2)
    assert set(json.loads(report.to_json())["improvements"][0]) >= {"mse_change", "mse_change_control", "mse_change_beyond_control"}
    assert RepairReport.from_json(replace(report, settings=replace(report.settings, control=False)).to_json()).settings.control is False
