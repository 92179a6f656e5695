import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from skidpad.core.errors import BadDriveError, BadSubjectError
from skidpad.drives.drive import Drive, Problem, ProblemKind
from skidpad.drives.opening import drive_from_arrays
from skidpad.subjects.description import Description
from skidpad.subjects.inputs import Crop, InputSpec
from skidpad.subjects.loading import load_subject
from skidpad.subjects.training import fitting
from skidpad.subjects.training.data import Labelled, collect
from skidpad.subjects.training.fitting import TrainingSettings, copied, fit
from skidpad.subjects.training.training import beside, train


class Tiny(nn.Module):
    """Can learn on which side the bright bar stands."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2)
        self.drop = nn.Dropout(0.1)
        self.dense = nn.Linear(4 * 3 * 7, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(self.drop(torch.relu(self.conv(x))).flatten(1))


def bars(count: int, height: int = 24, width: int = 48, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Frames with a bright bar, and the steering that points at it, in radians."""
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 40, (count, height, width, 3), dtype=np.uint8)
    places = rng.integers(0, width - 6, count)
    for frame, place in zip(frames, places, strict=True):
        frame[:, place : place + 6] = 220
    return frames, (places + 2.5 - (width - 1) / 2) / width


@pytest.fixture
def tiny_description(small_description: Description) -> Description:
    return replace(small_description, input=InputSpec(16, 8))


@pytest.fixture
def data(tiny_description: Description) -> tuple[Labelled, Labelled]:
    frames, labels = bars(96)
    everything = Labelled.of(frames, labels, tiny_description.input)
    return everything.select(np.arange(72)), everything.select(np.arange(72, 96))


@pytest.fixture
def fast() -> TrainingSettings:
    return TrainingSettings(epochs=6, batch_size=16, learning_rate=0.01, seed=3)


def fresh() -> nn.Module:
    torch.manual_seed(0)
    return Tiny()


def test_a_network_learns_what_can_be_learnt(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings
) -> None:
    report = fit(fresh(), tiny_description, *data, replace(fast, epochs=25, patience=25))
    assert report.best.validation_mse_rad2 < 0.1 * float(np.var(data[1].labels_rad))
    assert report.curve[0].learning_rate == 0.01
    assert report.curve[-1].learning_rate < 0.001


def test_in_half_precision_it_learns_as_much_and_weights_stay_whole(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings
) -> None:
    whole, half = fresh(), fresh()
    reports = [fit(each, tiny_description, *data, replace(fast, half=each is half)) for each in (whole, half)]
    errors = [report.best.validation_mse_rad2 for report in reports]
    assert errors[1] == pytest.approx(errors[0], rel=0.2)
    assert errors[1] != errors[0]
    assert {weight.dtype for weight in half.parameters()} == {torch.float32}
    assert all(weight.is_contiguous() for weight in (*whole.parameters(), *half.parameters()))


def test_the_same_seed_gives_the_same_weights_and_another_does_not(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings
) -> None:
    nets = [fresh() for _ in range(3)]
    for net, seed in zip(nets, (3, 3, 4), strict=True):
        torch.manual_seed(int(torch.randint(1000, ())))  # the caller's generator must not matter
        fit(net, tiny_description, *data, replace(fast, seed=seed, epochs=2))
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))
    assert not torch.equal(nets[0].dense.weight, nets[2].dense.weight)


@pytest.mark.parametrize("outside", [1, 3])
def test_the_threads_are_those_of_the_settings_whatever_torch_has(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings, outside: int
) -> None:
    seen: set[int] = set()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(outside)
        settings = replace(fast, epochs=1, threads=2)
        fit(fresh(), tiny_description, *data, settings, progress=lambda *_: seen.add(torch.get_num_threads()))
        assert torch.get_num_threads() == outside
    finally:
        torch.set_num_threads(before)
    assert seen == {2}


def test_the_callers_generator_is_left_alone(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings
) -> None:
    net = fresh()
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    fit(net, tiny_description, *data, replace(fast, epochs=1))
    assert torch.equal(torch.rand(3), expected)


def test_a_stopped_training_resumes_to_the_same_weights(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings, tmp_path: Path
) -> None:
    whole, stopped, checkpoint = fresh(), fresh(), tmp_path / "net.checkpoint.pt"
    expected = fit(whole, tiny_description, *data, fast)

    class PowerCutError(Exception):
        pass

    def cut(done: int, total: int, note: str = "") -> None:
        if done > total // 2:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        fit(stopped, tiny_description, *data, fast, progress=cut, checkpoint=checkpoint)
    torch.manual_seed(99)
    resumed = Tiny()
    report = fit(resumed, tiny_description, *data, fast, checkpoint=checkpoint)
    assert report == expected
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))


def test_a_foreign_or_broken_checkpoint_is_refused(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "net.checkpoint.pt"
    fit(fresh(), tiny_description, *data, replace(fast, epochs=1), checkpoint=checkpoint)
    with pytest.raises(BadSubjectError, match="checkpoint of another training"):
        fit(fresh(), tiny_description, *data, replace(fast, epochs=2), checkpoint=checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:500])
    with pytest.raises(BadSubjectError, match="no whole checkpoint"):
        fit(fresh(), tiny_description, *data, fast, checkpoint=checkpoint)


def test_training_stops_when_the_validation_does_not_improve(data: tuple[Labelled, Labelled], tiny_description: Description) -> None:
    net = fresh()
    settings = TrainingSettings(epochs=50, batch_size=16, learning_rate=0.05, patience=2)
    impossible = Labelled(data[1].pictures, np.random.default_rng(0).normal(0, 1, len(data[1])))
    report = fit(net, tiny_description, data[0], impossible, settings)
    assert len(report.curve) < 50
    assert report.best_epoch == len(report.curve) - 2
    assert report.best.validation_mse_rad2 == min(row.validation_mse_rad2 for row in report.curve)


def test_mirrored_pictures_carry_the_opposite_label(tiny_description: Description, monkeypatch: pytest.MonkeyPatch) -> None:
    frames, labels = bars(40)
    one_side = Labelled.of(frames[labels > 0.05], labels[labels > 0.05], tiny_description.input)
    other = Labelled.of(frames[labels < -0.05], labels[labels < -0.05], tiny_description.input)
    settings = TrainingSettings(epochs=60, batch_size=8, learning_rate=0.01)
    with_mirror = fit(fresh(), tiny_description, one_side, other, replace(settings, patience=60))
    without = fit(fresh(), tiny_description, one_side, other, replace(settings, patience=60, mirror=False))
    assert with_mirror.best.validation_mse_rad2 < 0.25 * without.best.validation_mse_rad2


def test_a_lopsided_crop_cannot_be_mirrored(data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings) -> None:
    lopsided = replace(tiny_description, input=replace(tiny_description.input, crop=Crop(left=0.2)))
    with pytest.raises(BadSubjectError, match="turn mirror off"):
        fit(fresh(), lopsided, *data, fast)
    fit(fresh(), lopsided, *data, replace(fast, mirror=False, epochs=1))


def test_without_validation_the_last_epoch_stays(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings
) -> None:
    report = fit(fresh(), tiny_description, data[0], None, replace(fast, epochs=3))
    assert report.best_epoch == 3
    assert np.isnan(report.best.validation_mse_rad2)


def test_a_diverging_training_says_what_to_do(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings
) -> None:
    wild = Labelled(data[0].pictures, np.full(len(data[0]), 1e30))
    with pytest.raises(BadSubjectError, match="training diverged in epoch 1"):
        fit(fresh(), tiny_description, wild, None, fast)


def test_a_copy_is_trained_and_the_subject_stays(
    data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings
) -> None:
    net = fresh().requires_grad_(requires_grad=False)
    before = net.dense.weight.clone()
    retrained = copied(net)
    fit(retrained, tiny_description, *data, replace(fast, epochs=1))
    assert torch.equal(net.dense.weight, before)
    assert not torch.equal(retrained.dense.weight, before)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"validation_fraction": 1.0},
        {"threads": 0},
    ],
)
def test_settings_out_of_bounds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadSubjectError, match=next(iter(wrong))):
        replace(TrainingSettings(), **wrong)


def bar_drive(count: int = 60) -> Drive:
    frames, labels = bars(count, 60, 80)
    pictures: list[np.ndarray | Problem] = list(frames)
    pictures[3] = Problem(ProblemKind.CORRUPT, "000003", "planted")
    labels[[7, 8]] = np.nan
    return drive_from_arrays(pictures, labels, name="bars")


QUICK = TrainingSettings(epochs=2, batch_size=16, learning_rate=1e-3, validation_fraction=0.2)


def test_collecting_skips_and_counts(tiny_description: Description) -> None:
    drive = bar_drive()
    collected = collect(drive, tiny_description.input, batch_size=7)
    assert (len(collected.data), collected.broken, collected.unlabelled) == (57, 1, 2)
    kept = [index for index in range(60) if index not in {3, 7, 8}]
    assert np.array_equal(collected.data.labels_rad, drive.steering_rad[kept])
    whole = drive.read(kept)
    assert torch.equal(collected.data.pictures, Labelled.of(whole.frames, whole.steering_rad, tiny_description.input).pictures)
    with pytest.raises(BadDriveError, match="no frame with a label"):
        collect(drive_from_arrays(whole.frames[:3]), tiny_description.input)


def test_training_writes_a_subject_that_loads_and_the_same_bytes_again(tmp_path: Path) -> None:
    drive = bar_drive()
    seen: list[str] = []
    report = train(
        "pilotnet", drive, tmp_path / "a" / "net", QUICK, command="skidpad train", progress=lambda done, total, note="": seen.append(note)
    )
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["net.safetensors", "net.toml", "net.training.json"]
    assert (report.training_frames, report.validation_frames) == (45, 12)
    assert (report.broken_frames, report.unlabelled_frames) == (1, 2)
    assert any("epoch 2" in note for note in seen)
    subject = load_subject(report.saved.toml)
    held_out = collect(drive.split(0.8)[1], subject.description.input).data
    answers = subject.predict(drive.split(0.8)[1].read(range(12)).frames)[:, 0]
    assert np.sqrt(np.mean((answers - held_out.labels_rad) ** 2)) == pytest.approx(report.validation_rmse_rad, abs=1e-6)
    record = json.loads(report.curve_file.read_text())
    assert record["command"] == "skidpad train"
    assert len(record["curve"]) == 2
    assert record["hashes"]["drive"] == drive.sha256
    assert record["frames"] == {"training": 45, "validation": 12, "extra": 0, "broken": 1, "unlabelled": 2}
    again = train("pilotnet", drive, tmp_path / "b" / "net.safetensors", QUICK, command="skidpad train")
    assert again.saved.weights.read_bytes() == report.saved.weights.read_bytes()
    assert again.curve_file.read_bytes() == report.curve_file.read_bytes()
    assert again.saved.toml.read_bytes() == report.saved.toml.read_bytes()


def test_initial_weights_and_extra_pictures_are_used(tmp_path: Path) -> None:
    drive = bar_drive(30)
    settings = replace(QUICK, epochs=1, learning_rate=1e-9)
    first = train("pilotnet", drive, tmp_path / "first", replace(settings, seed=5))
    start = load_subject(first.saved.toml)
    frames, labels = bars(6, 60, 80, seed=9)
    extra = Labelled.of(frames, labels, start.description.input)
    second = train("pilotnet", drive, tmp_path / "second", settings, initial=start.module.state_dict(), extra=extra)
    assert second.extra_frames == 6
    moved = load_subject(second.saved.toml).module.state_dict()
    assert all(torch.allclose(tensor, moved[name], atol=1e-6) for name, tensor in start.module.state_dict().items())
    with pytest.raises(BadSubjectError, match="initial weights are not those of 'pilotnet'"):
        train("pilotnet", drive, tmp_path / "third", settings, initial={"a": torch.zeros(1)})


def test_resume_continues_and_a_new_start_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = bar_drive(30)
    checkpoint = beside(tmp_path / "net", ".checkpoint.pt")
    kept: list[bytes] = []
    save = fitting.Fitting.save

    def save_and_keep(self: fitting.Fitting, path: Path, key: str) -> None:
        save(self, path, key)
        kept.append(path.read_bytes())

    monkeypatch.setattr(fitting.Fitting, "save", save_and_keep)
    whole = train("pilotnet", drive, tmp_path / "net", QUICK)
    assert not checkpoint.exists()
    expected = whole.saved.weights.read_bytes()
    checkpoint.write_bytes(kept[0])
    epochs: list[int] = []
    resumed = train(
        "pilotnet", drive, tmp_path / "net", QUICK, resume=True, progress=lambda done, total, note="": epochs.append("epoch 1" in note)
    )
    assert resumed.saved.weights.read_bytes() == expected
    assert not any(epochs)
    checkpoint.write_bytes(b"junk")
    assert train("pilotnet", drive, tmp_path / "net", QUICK).saved.weights.read_bytes() == expected


def test_too_short_a_drive_and_an_unwritable_place_say_so(tmp_path: Path) -> None:
    frames, labels = bars(2, 60, 80)
    with pytest.raises(BadDriveError, match="too few for training and validation"):
        train("pilotnet", drive_from_arrays(frames, labels), tmp_path / "net", replace(QUICK, validation_fraction=0.1))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadSubjectError, match="cannot write"):
        train("pilotnet", bar_drive(30), tmp_path / "file" / "net", replace(QUICK, epochs=1))


def test_importing_skidpad_does_not_import_torch() -> None:
    code = "import sys, skidpad, skidpad.subjects, skidpad.subjects.base, skidpad.subjects.description; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_network_learns_on_the_gpu(data: tuple[Labelled, Labelled], tiny_description: Description, fast: TrainingSettings) -> None:
    report = fit(fresh(), tiny_description, *data, replace(fast, epochs=25, patience=25, device="cuda"))
    assert report.best.validation_mse_rad2 < 0.1 * float(np.var(data[1].labels_rad))
