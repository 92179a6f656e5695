"""The control: what further training alone brings; and a repair that is killed and called again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from repair_toys import Garage, trained_subject

from skidpad.core.errors import BadSubjectError
from skidpad.oracles.error import PredictionError, prediction_error
from skidpad.repairs import retraining
from skidpad.repairs.mutants import Pool, campaign_of, gather
from skidpad.repairs.report import ALL_MUTANTS, ORIGINALS, Improvement, RepairReport
from skidpad.repairs.retraining import repair, repair_on, repeated
from skidpad.repairs.settings import RepairSettings
from skidpad.subjects.training import fitting
from skidpad.subjects.training.data import Labelled

LONG = RepairSettings(epochs=25, learning_rate=5e-3, mirror=False)
SHORT = replace(LONG, epochs=3, max_mutants=200)


@pytest.fixture(scope="module")
def pool(garage: Garage) -> Pool:
    return gather(campaign_of(garage.run, garage.subject, "cpu"), garage.run, LONG)


def row_of(report: RepairReport, pictures: str) -> Improvement:
    found = report.improvement(pictures)
    assert found is not None
    return found


def test_what_only_mutants_can_mend_stays_broken_in_the_control(garage: Garage, pool: Pool, tmp_path: Path) -> None:
    report = repair_on(garage.subject, pool, tmp_path / "new", LONG, garage.train_drive)
    fog = row_of(report, "deeptest-fog")
    assert fog.mse_after_rad2 < 0.5 * fog.mse_before_rad2
    assert fog.mse_control_rad2 > 0.8 * fog.mse_before_rad2
    assert fog.mse_change_beyond_control < -0.5
    assert fog.rmse_control_rad == pytest.approx(fog.mse_control_rad2**0.5)
    assert row_of(report, ORIGINALS).mse_control_rad2 < 2 * row_of(report, ORIGINALS).mse_before_rad2  # it learned on; fog was not in it


def test_where_further_training_explains_the_fall_the_control_falls_as_far(garage: Garage, pool: Pool, tmp_path: Path) -> None:
    raw = trained_subject(garage.train_drive, tmp_path / "raw", epochs=2)
    harmless = replace(pool, mutants=pool.originals.select(pool.frame_of))  # mutants that are their originals
    everything = row_of(repair_on(raw, harmless, tmp_path / "new", LONG), ALL_MUTANTS)
    assert everything.mse_change < -0.9
    assert everything.mse_change_control < -0.9
    assert everything.mse_change_beyond_control > -0.25
    assert abs(everything.mse_after_rad2 - everything.mse_control_rad2) < 0.01 * everything.mse_before_rad2


def test_both_networks_take_the_same_steps_from_the_same_weights(
    garage: Garage, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[torch.Tensor] = []
    sizes: list[int] = []
    steps: dict[str, int] = {}

    def watched(module: torch.nn.Module, description: object, data: Labelled, *rest: object, **named: object) -> fitting.FitReport:
        starts.append(torch.cat([parameter.detach().flatten().clone() for parameter in module.parameters()]))
        sizes.append(len(data))
        return fitting.fit(module, description, data, *rest, **named)  # type: ignore[arg-type]  # passed on as they are

    def count(_done: int, total: int, note: str = "") -> None:
        if "epoch" in note:
            name = note.partition(",")[0]
            steps[name] = steps.get(name, 0) + 1
            assert total == 2 * -(-sizes[-1] // settings.batch_size)

    monkeypatch.setattr(retraining, "fit", watched)
    for settings in (replace(SHORT, epochs=2), replace(SHORT, epochs=2, from_scratch=True)):
        steps.clear()
        repair_on(garage.subject, pool, tmp_path / f"new-{settings.from_scratch}", settings, progress=count)
        assert steps["retraining"] == steps["control"] > 0
        assert sizes[-1] == sizes[-2]
        assert torch.equal(starts[-1], starts[-2])
    assert not torch.equal(starts[0], starts[-1])


@given(base=st.integers(1, 40), more=st.integers(0, 200), seed=st.integers(0, 3))
def test_the_base_is_repeated_evenly(base: int, more: int, seed: int) -> None:
    marks = Labelled(torch.arange(base, dtype=torch.uint8).reshape(-1, 1, 1, 1), np.arange(base, dtype=np.float64))
    long = repeated(marks, base + more, seed)
    counts = np.bincount(long.labels_rad.astype(np.int64), minlength=base)
    assert len(long) == base + more
    assert counts.max() - counts.min() <= 1
    assert long.pictures.flatten().tolist() == long.labels_rad.tolist()
    assert repeated(marks, base + more, seed).labels_rad.tolist() == long.labels_rad.tolist()


def test_the_control_is_deterministic_and_leaves_the_repair_as_it_is(garage: Garage, pool: Pool, tmp_path: Path) -> None:
    first, second = (repair_on(garage.subject, pool, tmp_path / name, SHORT) for name in "ab")
    bare = repair_on(garage.subject, pool, tmp_path / "c", replace(SHORT, control=False))
    assert first.improvements == second.improvements
    assert bare.weights_sha256 == first.weights_sha256
    assert [row.mse_after_rad2 for row in bare.improvements] == [row.mse_after_rad2 for row in first.improvements]
    assert all(np.isnan([row.mse_control_rad2, row.rmse_control_rad, row.mse_change_beyond_control]).all() for row in bare.improvements)
    assert next(note for note in bare.notes if "control" in note).startswith("no control")
    assert next(note for note in first.notes if "control" in note).startswith("control: ")
    assert json.loads(bare.to_json())["improvements"][0]["mse_control_rad2"] is None


@given(st.lists(st.floats(1e-6, 10.0), min_size=3, max_size=3))
def test_the_changes_multiply(mse_rad2: list[float]) -> None:
    def error(mean: float) -> PredictionError:
        return prediction_error(np.full(3, mean**0.5), np.zeros(3), worst=0)

    before, after, control = mse_rad2
    row = Improvement.of("deeptest-fog", error(before), error(after), error(control))
    assert (1 + row.mse_change_control) * (1 + row.mse_change_beyond_control) == pytest.approx(1 + row.mse_change)
    assert (row.mse_change_beyond_control < 0) == (row.mse_after_rad2 < row.mse_control_rad2)


def kill_at(words: str) -> tuple[Callable[..., None], list[str]]:
    """Returns a progress that is interrupted at the first such note, and the notes that it has seen."""
    seen: list[str] = []

    def progress(_done: int, _total: int, note: str = "") -> None:
        seen.append(note)
        if words and note.startswith(words):
            raise KeyboardInterrupt

    return progress, seen


@pytest.mark.parametrize(("killed", "goes_on"), [("retraining, epoch 2", "retraining, epoch 2"), ("control, epoch 3", "control, epoch 3")])
def test_a_killed_repair_goes_on_to_the_same_bytes(garage: Garage, tmp_path: Path, killed: str, goes_on: str) -> None:
    whole = repair(garage.subject, garage.run, tmp_path / "whole" / "new", SHORT)
    out = tmp_path / "killed" / "new"
    with pytest.raises(KeyboardInterrupt):
        repair(garage.subject, garage.run, out, SHORT, progress=kill_at(killed)[0])
    assert not (tmp_path / "killed" / "new.toml").exists()
    assert list(out.parent.glob("*.checkpoint.pt"))
    progress, seen = kill_at("")
    resumed = repair(garage.subject, garage.run, out, SHORT, progress=progress)
    assert next(note for note in seen if "epoch" in note) == goes_on
    assert Path(resumed.weights).read_bytes() == Path(whole.weights).read_bytes()
    assert resumed.improvements == whole.improvements
    assert resumed.epochs == 3
    assert {path.name for path in out.parent.iterdir()} == {"new.toml", "new.safetensors"}


def test_a_checkpoint_is_not_taken_by_a_repair_from_other_weights_or_settings(garage: Garage, tmp_path: Path) -> None:
    other = trained_subject(garage.train_drive, tmp_path / "other", epochs=1)
    whole = repair(other, garage.run, tmp_path / "whole", SHORT)
    with pytest.raises(KeyboardInterrupt):
        repair(garage.subject, garage.run, tmp_path / "new", SHORT, progress=kill_at("retraining, epoch 2")[0])
    with pytest.raises(BadSubjectError, match="remove it to start anew"):
        repair(garage.subject, garage.run, tmp_path / "new", replace(SHORT, epochs=4))
    assert repair(other, garage.run, tmp_path / "new", SHORT).weights_sha256 == whole.weights_sha256
