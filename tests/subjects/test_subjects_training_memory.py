"""Training networks that look back, on a road that slides past: only the past tells which way."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from skidpad.cli.training import _predict
from skidpad.core.errors import BadSubjectError
from skidpad.drives import Drive, Problem, ProblemKind, drive_from_arrays
from skidpad.subjects.inputs import Colour, Crop, History, HistoryKind, InputSpec, Range
from skidpad.subjects.loading import load_subject
from skidpad.subjects.training import fitting
from skidpad.subjects.training.data import Labelled, collect, flow_examples, two_stages, window_examples
from skidpad.subjects.training.fitting import TrainingSettings, fit
from skidpad.subjects.training.training import beside, save_subject, train
from skidpad.subjects.windows import Assembler
from skidpad.subjects.zoo import ARCHITECTURES

CPU = torch.device("cpu")
SPECS = {
    "rambo": InputSpec(48, 32, Colour.GREY, Range((-3.0,), (3.0,)), history=History(3, HistoryKind.DIFFERENCES)),
    "autumn": InputSpec(66, 66, Colour.RGB, Range((0.0,), (1.0,)), history=History(4, HistoryKind.OPTICAL_FLOW)),
    "chauffeur": InputSpec(48, 32, Colour.GREY, Range((-0.5,), (0.5,)), history=History(5, HistoryKind.RECURRENT)),
}
QUICK = TrainingSettings(epochs=2, batch_size=16, validation_fraction=0.25)
LONGER = replace(QUICK, epochs=7, patience=7, batch_size=8)


def sliding_road(count: int = 60, seed: int = 0) -> Drive:
    """A bar on a rough road that slides to and fro every 20 frames; steering follows how fast it slides and where the bar is."""
    rng = np.random.default_rng(seed)
    ground = cv2.GaussianBlur(rng.integers(0, 256, (66, 200, 3), dtype=np.uint8), (0, 0), 2)
    phase = 2.0 * np.pi * (np.arange(count) % 20) / 20.0
    place = 40 + np.round(12.0 * np.cos(phase)).astype(int)
    frames = [ground[:, start : start + 80].copy() for start in place]
    bars = 37 + np.round(30 * np.sin(phase)).astype(int)
    for frame, bar in zip(frames, bars, strict=True):
        frame[50:, bar : bar + 6] = 255
    return drive_from_arrays(frames, 0.3 * np.sin(phase), name="road")


@pytest.mark.parametrize("name", list(SPECS))
def test_a_network_that_looks_back_learns_and_is_loaded_again(name: str, tmp_path: Path) -> None:
    drive = sliding_road()
    settings = replace(LONGER, mirror=name == "chauffeur")
    notes: list[str] = []
    report = train(
        name,
        drive,
        tmp_path / "net",
        settings,
        spec=SPECS[name],
        progress=lambda done, total, note="": notes.append(f"{done <= total} {note}"),
    )
    assert report.validation_rmse_rad < 0.8 * report.mean_rmse_rad
    assert not any(note.startswith("False") for note in notes)
    assert (report.training_frames, report.validation_frames) == (45, 15)
    subject = load_subject(report.saved.toml)
    # Validation starts anew: its windows hold none of the frames that were trained on.
    held_out = drive.split(0.75)[1]
    answers = subject.predict(held_out.read(range(15), lead=subject.lead).clip)[:, 0]
    assert np.sqrt(np.mean((answers - held_out.steering_rad) ** 2)) == pytest.approx(report.validation_rmse_rad, abs=1e-5)
    rows = json.loads(report.curve_file.read_text())["curve"]
    assert {row["stage"] for row in rows} == ({"features", "windows"} if name == "chauffeur" else {""})


@pytest.mark.parametrize("name", list(SPECS))
def test_a_training_stopped_after_any_epoch_ends_with_the_same_bytes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = sliding_road(40)
    checkpoint = beside(tmp_path / "net", ".checkpoint.pt")
    kept: list[bytes] = []
    save = fitting.Fitting.save

    def save_and_keep(self: fitting.Fitting, path: Path, key: str) -> None:
        save(self, path, key)
        kept.append(path.read_bytes())

    monkeypatch.setattr(fitting.Fitting, "save", save_and_keep)
    whole = train(name, drive, tmp_path / "net", QUICK, spec=SPECS[name])
    expected = (whole.saved.weights.read_bytes(), whole.curve_file.read_bytes())
    stops = list(kept)
    assert len(stops) == (4 if name == "chauffeur" else 2)
    for stop in stops:
        checkpoint.write_bytes(stop)
        again = train(name, drive, tmp_path / "net", QUICK, spec=SPECS[name], resume=True)
        assert (again.saved.weights.read_bytes(), again.curve_file.read_bytes()) == expected


def test_the_second_stage_leaves_the_features_as_they_are() -> None:
    spec = SPECS["chauffeur"]
    data = collect(sliding_road(30), spec).data
    torch.manual_seed(0)
    net = ARCHITECTURES.get("chauffeur").build(spec)
    description = ARCHITECTURES.get("chauffeur").describe("x", "x")
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def watch(done: int, total: int, note: str = "") -> None:
        seen.append((net.cnn.convolutions[0].weight.detach().clone(), net.back.weight.detach().clone()))

    fit(net, replace(description, input=spec), data, None, replace(QUICK, batch_size=30), progress=watch)
    convolutions, backs = zip(*seen, strict=True)
    assert [torch.equal(*pair) for pair in pairwise(convolutions)] == [False, True, True]
    assert [torch.equal(*pair) for pair in pairwise(backs)] == [True, False, False]


def test_each_stage_has_its_own_patience(tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=30, patience=1, learning_rate=0.05)
    report = train("chauffeur", sliding_road(40), tmp_path / "net", settings, spec=SPECS["chauffeur"])
    curve = report.fitted.curve
    assert [row.epoch for row in curve] == list(range(1, len(curve) + 1))
    assert {row.stage for row in curve} == {"features", "windows"}
    assert len(curve) < 60
    assert report.fitted.best.stage == "windows"
    assert next(row.learning_rate for row in curve if row.stage == "windows") == 0.05


def test_windows_of_a_drive_are_those_that_a_subject_sees() -> None:
    road = sliding_road(20)
    frames: list[np.ndarray | Problem] = list(road.read(range(20)).frames)
    frames[6] = Problem(ProblemKind.CORRUPT, "000006", "planted")
    labels = road.steering_rad.copy()
    labels[[2, 9]] = np.nan
    drive = drive_from_arrays(frames, labels)
    spec = SPECS["chauffeur"]
    collected = collect(drive, spec, batch_size=4)
    assert (collected.broken, collected.unlabelled, len(collected.data)) == (1, 2, 17)
    shrink = Assembler(spec, CPU).shrink
    positions = [position for position in range(20) if position not in {2, 6, 9}]
    for row, position in zip(collected.data.rows(), positions, strict=True):
        assert torch.equal(collected.data.pictures[torch.from_numpy(row)], shrink(drive.read([position], lead=4).clip))


def test_labelled_clips_are_joined_and_selected_with_their_windows() -> None:
    spec = SPECS["rambo"]
    clip, now = sliding_road(9).read(range(9)).frames, sliding_road(7, seed=2).read(range(7)).frames
    plain, changed = Labelled.of(clip, np.arange(7.0), spec), Labelled.of(clip, np.arange(7.0) + 10, spec, now)
    both = plain.joined(changed)
    shrink = Assembler(spec, CPU).shrink
    assert len(both) == 14
    assert len(both.pictures) == 9 + 16
    chosen = both.select(np.array([12, 3, 12]))
    assert chosen.labels_rad.tolist() == [15.0, 3.0, 15.0]
    assert len(chosen.pictures) == 6
    expected = [np.concatenate([clip[5:7], now[5:6]]), clip[3:6], np.concatenate([clip[5:7], now[5:6]])]
    for row, window in zip(chosen.rows(), expected, strict=True):
        assert torch.equal(chosen.pictures[torch.from_numpy(row)], shrink(window))


def test_single_pictures_stay_single() -> None:
    spec = InputSpec(48, 32)
    frames, other = sliding_road(6).read(range(6)).frames, sliding_road(6, seed=3).read(range(6)).frames
    assert torch.equal(Labelled.of(frames, np.zeros(6), spec, other).pictures, Labelled.of(other, np.zeros(6), spec).pictures)
    data = Labelled.of(frames, np.zeros(6), spec)
    assert data.joined(data).windows is None
    assert data.select(np.array([1])).windows is None
    with pytest.raises(ValueError, match="3 windows and 6 labels"):
        Labelled(data.pictures, data.labels_rad, data.rows()[:3])


@pytest.mark.parametrize("kind", [HistoryKind.STACK, HistoryKind.DIFFERENCES, HistoryKind.RECURRENT, HistoryKind.OPTICAL_FLOW])
def test_a_mirrored_window_is_the_window_of_mirrored_frames(kind: HistoryKind) -> None:
    spec = InputSpec(32, 24, history=History(3, kind))
    clip = sliding_road(12).read(range(12)).frames
    given, flipped = (Labelled.of(frames, np.zeros(10), spec) for frames in (clip, clip[:, :, ::-1]))
    module = torch.nn.Identity()
    places, marks = torch.tensor([4, 0, 7]), torch.tensor([True, False, True])
    if kind is HistoryKind.OPTICAL_FLOW:
        examples = [flow_examples(data, spec, CPU, mirror=True) for data in (given, flipped)]
    else:
        examples = [window_examples(data, spec, CPU) for data in (given, flipped)]
    got = examples[0](module, places, marks)
    assert torch.equal(got[0], examples[1](module, places, torch.zeros(3, dtype=torch.bool))[0])
    assert torch.equal(got[1], examples[0](module, places, torch.zeros(3, dtype=torch.bool))[1])
    assembler = Assembler(spec, CPU)
    rows = torch.from_numpy(given.rows())
    expected = assembler.inputs(assembler.codes(given.pictures, rows), rows[places])
    assert torch.equal(got[1], expected[1])


def test_pictures_without_windows_are_refused() -> None:
    row = ARCHITECTURES.get("rambo")
    data = Labelled.of(sliding_road(8).read(range(8)).frames, np.zeros(8), InputSpec(48, 32, Colour.GREY))
    described = replace(row.describe("x", "x"), input=SPECS["rambo"])
    with pytest.raises(BadSubjectError, match=r"looks at 3 frames at a time, but the pictures .* windows of 1"):
        fit(row.build(SPECS["rambo"]), described, data, None, QUICK)
    with pytest.raises(BadSubjectError, match="has no two stages"):
        two_stages(torch.nn.Identity())


def test_the_answer_without_labels_is_not_trained(tmp_path: Path) -> None:
    spec = InputSpec(32, 32, Colour.GREY, crop=Crop(top=0.2))
    settings = replace(QUICK, validation_fraction=0.0)
    report = train("dronet", sliding_road(30), tmp_path / "net", settings, spec=spec)
    subject = load_subject(report.saved.toml)
    assert [output.name for output in subject.description.outputs] == ["steering", "collision"]
    answers = subject.predict(sliding_road(4).read(range(4)).frames)
    assert answers.shape == (4, 2)
    assert ((answers[:, 1] > 0.0) & (answers[:, 1] < 1.0)).all()
    again = train("dronet", sliding_road(30), tmp_path / "longer", replace(settings, epochs=3), spec=spec)
    weights = [load_subject(each.saved.toml).module.state_dict() for each in (report, again)]
    assert torch.equal(weights[0]["collision.weight"], weights[1]["collision.weight"])
    assert not torch.equal(weights[0]["steering.weight"], weights[1]["steering.weight"])


def test_evaluating_in_batches_is_predicting_the_whole_drive(tmp_path: Path) -> None:
    spec = SPECS["rambo"]
    row = ARCHITECTURES.get("rambo")
    torch.manual_seed(0)
    toml = save_subject(row.build(spec), row.describe("net", "", spec), tmp_path / "net").toml
    frames: list[np.ndarray | Problem] = list(sliding_road(150).read(range(150)).frames)
    frames[70] = Problem(ProblemKind.CORRUPT, "000070", "planted")
    drive = drive_from_arrays(frames)
    answers_rad, broken = _predict(str(toml), drive, "cpu")
    whole = drive.read(range(150), lead=2)
    assert broken == 1
    assert np.isnan(answers_rad[70])
    np.testing.assert_allclose(answers_rad[whole.indices], load_subject(toml).predict(whole.clip)[:, 0], atol=1e-6)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", list(SPECS))
def test_a_network_that_looks_back_learns_on_the_gpu(name: str, tmp_path: Path) -> None:
    settings = replace(LONGER, mirror=name == "chauffeur", device="cuda")
    report = train(name, sliding_road(), tmp_path / "net", settings, spec=SPECS[name])
    assert report.validation_rmse_rad < 0.8 * report.mean_rmse_rad
