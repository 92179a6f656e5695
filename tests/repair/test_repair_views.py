"""Moved views: the network that is trained and the first one see the same, and no label is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from repair_toys import Garage
from torch import nn

from skidpad.oracles.relations import SteersAlike
from skidpad.repairs.lessons import RepairLesson, Validation
from skidpad.repairs.pairs import Pairs
from skidpad.repairs.plan import Candidate, SearchSettings, Task, Way
from skidpad.repairs.search import Repairs
from skidpad.repairs.views import Views
from skidpad.subjects.inputs import History, HistoryKind, InputSpec
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.data import Asking, Change, Labelled, frame_examples, run_examples, window_examples
from skidpad.subjects.training.fitting import TrainingSettings, copied, fit

CPU = torch.device("cpu")
SETTINGS = SearchSettings(
    families=("gamma", "camera-yaw"),
    unseen=(),
    weathers=(),
    ways=("answers",),
    strengths=(1.0,),
    pictures=64,
    epochs=3,
    learning_rate=3e-3,
    batch_size=16,
    referee=False,
)


@pytest.fixture
def repairs(garage: Garage, tmp_path: Path) -> Repairs:
    subject = NetworkSubject.of_module(copied(garage.subject.module), garage.subject.description)
    return Repairs(Task(subject, garage.train_drive, SteersAlike(within_deg=6.0)), tmp_path / "out", SETTINGS)


def seen_plainly(picture: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Samples a picture at the places that a map gives, pixel by pixel, mirrored at its edges."""
    height, width, _ = picture.shape
    found = np.zeros(picture.shape)

    def inside(index: int, size: int) -> int:
        index = index % (2 * size)
        return index if index < size else 2 * size - 1 - index

    for row in range(height):
        for column in range(width):
            x, y, w = place @ np.array([(2 * column + 1) / width - 1, (2 * row + 1) / height - 1, 1.0])
            right, down = ((x / w + 1) * width - 1) / 2, ((y / w + 1) * height - 1) / 2
            left, top = int(np.floor(right)), int(np.floor(down))
            for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
                weight = (1 - abs(down - top - i)) * (1 - abs(right - left - j))
                found[row, column] += weight * picture[inside(top + i, height), inside(left + j, width)]
    return found


def test_a_view_is_what_its_map_says() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (4, 9, 14, 3), dtype=np.uint8)
    torch.manual_seed(3)
    views = Views.drawn(4, 14 / 9)
    assert max(float((each - torch.eye(3)).abs().max()) for each in views.maps) > 0.1
    found = views(torch.from_numpy(pictures)).numpy()
    assert found.dtype == np.uint8
    for picture, view, place in zip(pictures, found, views.maps.double().numpy(), strict=True):
        assert np.abs(view - seen_plainly(picture, place)).max() < 0.51


def test_no_move_is_the_picture_itself() -> None:
    pictures = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (2, 6, 10, 3), dtype=np.uint8))
    assert torch.equal(Views(torch.eye(3).expand(2, 3, 3))(pictures), pictures)
    torch.manual_seed(0)
    maps = Views.drawn(400, 2.5).maps
    assert 0.08 < float((maps == torch.eye(3)).all(-1).all(-1).float().mean()) < 0.25  # some are left as they are


def test_all_pictures_of_a_window_are_seen_from_one_place() -> None:
    windows = torch.from_numpy(np.random.default_rng(2).integers(0, 256, (3, 5, 6, 10, 3), dtype=np.uint8))
    torch.manual_seed(1)
    views = Views.drawn(3, 10 / 6)
    found = views(windows)
    assert found.shape == windows.shape
    for frame in range(5):
        assert torch.equal(found[:, frame], views(windows[:, frame]))


class Recording:
    """Examples that note what a module was shown."""

    def __init__(self, data: Labelled, spec: InputSpec) -> None:
        self._examples = window_examples(data, spec, CPU)
        self.shown: list[tuple[nn.Module, torch.Tensor]] = []

    def __call__(self, module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> object:
        def seen(inputs: torch.Tensor) -> torch.Tensor:
            self.shown.append((module, inputs))
            return inputs

        return self._examples(nn.Sequential(Shown(seen), module), chosen, mirrored, change)


class Shown(nn.Module):
    def __init__(self, seen: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._seen = seen

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self._seen(inputs)


def test_both_networks_see_the_same_view_and_no_label_is_asked(repairs: Repairs) -> None:
    pairs, clean = repairs.pool("answers"), repairs.clean
    data, first = clean.joined(pairs.mutants, pairs.originals), repairs.task.subject.module
    description, student = repairs.task.subject.description, copied(first)
    lesson = RepairLesson(len(clean), len(pairs), Way.ANSWERS.diet(1.0), repairs.validation, first=first)
    chosen = torch.cat([torch.arange(6), len(clean) + torch.arange(6), len(clean) + torch.arange(len(pairs) - 6, len(pairs))])
    mirrored = torch.arange(len(chosen)) % 2 == 1
    losses = []
    for shift_rad in (0.0, 5.0):
        examples = Recording(data, description.input)
        asking = Asking(student, description, examples, torch.from_numpy(data.labels_rad + shift_rad).float())
        torch.manual_seed(7)
        losses.append(float(lesson.loss(asking, chosen, mirrored).detach()))
        (first_asked, its), (student_asked, own) = examples.shown
        assert (first_asked, student_asked) == (first, student)
        assert torch.equal(its[:6], own[:6])  # a clean picture is its own original
        assert not torch.equal(its[6:], own[6:])
        torch.manual_seed(7)
        views = Views.drawn(len(chosen), description.input.width_px / description.input.height_px)
        partner = torch.where(chosen < len(clean), chosen, chosen + len(pairs))
        for places, inputs in ((partner, its), (chosen, own)):
            pictures = data.pictures[places]
            pictures = torch.where(mirrored[:, None, None, None], pictures.flip(2), pictures)
            assert torch.allclose(inputs[:, 0], views(pictures)[..., 0] / 255.0, atol=1e-5)
    # A constant that all labels share is no constant for those that are mirrored, but it is the same for a mutant and its original.
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_moved_camera_moves_what_is_right(repairs: Repairs) -> None:
    pairs, clean = repairs.pool("answers"), repairs.clean
    moved = np.flatnonzero(np.abs(pairs.mutants.labels_rad - pairs.originals.labels_rad) > 0.01)[:4]
    assert len(moved) == 4
    first, description = repairs.task.subject.module, repairs.task.subject.description
    data = clean.joined(pairs.mutants, pairs.originals)
    examples = window_examples(data, description.input, CPU)
    asking = Asking(first, description, examples, torch.from_numpy(data.labels_rad).float())
    lesson = RepairLesson(len(clean), len(pairs), Way.ANSWERS.diet(1.0), repairs.validation, first=first)
    chosen, mirrored = torch.from_numpy(len(clean) + moved), torch.tensor([False, True, False, True])
    torch.manual_seed(2)
    loss = lesson.loss(asking, chosen, mirrored)
    torch.manual_seed(2)
    views = Views.drawn(4, description.input.width_px / description.input.height_px)
    shift = torch.from_numpy((pairs.mutants.labels_rad - pairs.originals.labels_rad)[moved]).float() * torch.tensor([1.0, -1.0, 1.0, -1.0])
    wanted = asking.answers(chosen + len(pairs), mirrored, views) + shift
    assert torch.allclose(loss, Way.ANSWERS.diet(1.0).labels * ((asking.answers(chosen, mirrored, views) - wanted) ** 2).mean())


def test_killed_within_it_the_way_answers_goes_on_to_the_same_network(
    garage: Garage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = count(0, -1)
    monkeypatch.setattr(RepairLesson, "score", lambda *_: float(next(scores)))  # the last epoch is the best, whatever it brings
    task, candidate = Task(garage.subject, garage.train_drive, SteersAlike(within_deg=6.0)), Candidate("answers", 3.0, 0)

    def kill(_done: int, _total: int, note: str = "") -> None:
        if note.startswith("answers-3-seed0, epoch 3"):
            raise KeyboardInterrupt

    whole = Repairs(task, tmp_path / "whole", SETTINGS)
    found = whole.train(candidate)
    with pytest.raises(KeyboardInterrupt):
        Repairs(task, tmp_path / "killed", SETTINGS, kill).train(candidate)
    again = Repairs(task, tmp_path / "killed", SETTINGS).train(candidate)
    assert again == found
    assert (tmp_path / "killed" / found.weights).read_bytes() == (tmp_path / "whole" / found.weights).read_bytes()
    assert (tmp_path / "whole" / found.weights).read_bytes() != (garage.folder / garage.subject.description.file).read_bytes()


class Staged(nn.Module):
    """Two stages: the mean of a picture, and the sum over a window."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.factor * inputs.mean((1, 2, 3))[:, None]

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        return codes

    def forward_windows(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        return codes[windows].sum(1)


def windows_of(spec: InputSpec, windows: int, frames: int = 3) -> Labelled:
    """Random pictures, in windows that follow one another."""
    rng = np.random.default_rng(4)
    pictures = torch.from_numpy(rng.integers(0, 200, (windows + frames - 1, spec.height_px, spec.width_px, 1), dtype=np.uint8))
    return Labelled(pictures, np.linspace(-0.5, 0.5, windows), np.arange(windows)[:, None] + np.arange(frames))


class Brighter:
    """A change that brightens each example by something of its own, and counts the frames that it was shown."""

    def __init__(self, by: torch.Tensor, shown: list[int]) -> None:
        self.by, self.shown = by, shown

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        self.shown.append(len(pictures))
        return pictures + self.by.to(torch.uint8).reshape(-1, *(1,) * (pictures.ndim - 1))

    def of(self, places: torch.Tensor) -> Brighter:
        return Brighter(self.by[places], self.shown)


def test_a_frame_that_windows_of_a_run_share_is_looked_at_once(garage: Garage) -> None:
    spec = replace(garage.subject.description.input, history=History(3, HistoryKind.RECURRENT))
    data = windows_of(spec, 10)
    means = data.pictures.float().mean((1, 2, 3)) / 255.0
    chosen, mirrored = torch.tensor([1, 2, 3, 7, 8, 2]), torch.tensor([False, False, False, True, True, True])
    right = torch.stack([means[place : place + 3].sum() for place in chosen.tolist()])[:, None]
    shown: list[int] = []
    by = torch.tensor([51, 0, 0, 25, 0, 0])  # a run is changed as its first window is
    examples = run_examples(data, spec, CPU)
    assert torch.allclose(torch.as_tensor(examples(Staged(2.0), chosen, mirrored)), 2.0 * right, atol=1e-5)
    found = torch.as_tensor(examples(Staged(1.0), chosen, mirrored, Brighter(by, shown)))
    assert torch.allclose(found, right + torch.tensor([51.0, 51, 51, 25, 25, 0])[:, None] * 3 / 255.0, atol=1e-5)
    assert shown == [5 + 4 + 3]
    whole = torch.as_tensor(examples(nn.Identity(), chosen, mirrored))
    assert torch.equal(whole, torch.as_tensor(window_examples(data, spec, CPU)(nn.Identity(), chosen, mirrored)))


def test_the_first_stage_is_asked_about_changed_frames(garage: Garage) -> None:
    spec = replace(garage.subject.description.input, history=History(3, HistoryKind.RECURRENT))
    data = windows_of(spec, 6)
    means = data.pictures.float().mean((1, 2, 3)) / 255.0
    changed = Brighter(torch.tensor([51, 0]), [])
    alone = torch.as_tensor(frame_examples(data, spec, CPU)(Staged(1.0), torch.tensor([1, 4]), torch.tensor([False, True]), changed))
    assert torch.allclose(alone, torch.stack([means[3] + 0.2, means[6]])[:, None], atol=1e-5)


def test_a_run_is_seen_mirrored_and_moved_as_one(garage: Garage) -> None:
    spec = replace(garage.subject.description.input, history=History(3, HistoryKind.RECURRENT))
    description, clean, originals = replace(garage.subject.description, input=spec), windows_of(spec, 70), windows_of(spec, 90)
    pairs = Pairs(originals, originals, np.zeros(90, int), np.arange(90), np.ones(90, bool), ())
    first, seen = Staged(1.0), list[tuple[torch.Tensor, torch.Tensor]]()

    def examples(_module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> object:
        assert isinstance(change, Views)
        seen.append((mirrored, change.maps))
        return torch.zeros((len(chosen), 1), requires_grad=True)

    lesson = RepairLesson(70, 90, Way.ANSWERS.diet(1.0), Validation(clean, pairs), first=first, run=8)
    rng = np.random.default_rng(0)
    order = lesson.order(rng, 70 + 90 + 90)
    assert sorted(order[order < 70].tolist()) == list(range(70))
    assert order.max() < 160
    runs = np.split(order, np.flatnonzero(np.diff(order) != 1) + 1)
    assert len(runs) <= 20  # 9 or 10 of the clean windows, and as many of mutants
    assert all((run[0] - 70) % 8 == 0 for run in runs if run[0] >= 70)
    labels = torch.zeros(250)
    chosen = torch.tensor([70, 71, 72, 3, 4, 110])
    marks = torch.tensor([True, False, False, False, True, True])
    lesson.loss(Asking(nn.Identity(), description, examples, labels), chosen, marks)
    (asked, views), (answered, same) = seen
    assert asked.tolist() == answered.tolist() == [True, True, True, False, False, True]
    assert torch.equal(views, same)
    assert torch.equal(views[0], views[2])
    assert torch.equal(views[3], views[4])
    assert not torch.equal(views[0], views[3])


class TrainedStaged(nn.Module):
    """Two stages that learn: a picture's mean, weighed, and the weighed sum over a window."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1, 1), nn.Linear(1, 1)

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.first(inputs.mean((1, 2, 3))[:, None])

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        return codes

    def forward_windows(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        return self.last(codes[windows].sum(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(inputs.shape[0] * inputs.shape[1]).reshape(inputs.shape[:2])
        return self.forward_windows(self.features(inputs.flatten(0, 1)), rows)


def test_a_network_in_stages_is_repaired_at_once_and_a_killed_repair_ends_alike(
    garage: Garage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = count(0, -1)
    monkeypatch.setattr(RepairLesson, "score", lambda *_: float(next(scores)))  # the last epoch is the best, whatever it brings
    torch.manual_seed(0)
    spec = replace(garage.subject.description.input, history=History(3, HistoryKind.RECURRENT))
    description, rng = replace(garage.subject.description, input=spec), np.random.default_rng(4)

    def shown(windows: int) -> Labelled:
        pictures = torch.from_numpy(rng.integers(0, 200, (windows + 2, spec.height_px, spec.width_px, 1), dtype=np.uint8))
        return Labelled(pictures, np.linspace(-0.5, 0.5, windows), np.arange(windows)[:, None] + np.arange(3))

    clean, originals = shown(70), shown(90)
    mutants = Labelled(originals.pictures // 2 + 60, originals.labels_rad, originals.windows)
    pairs = Pairs(mutants, originals, np.zeros(90, int), np.arange(90), np.ones(90, bool), ())
    data, first = clean.joined(mutants, originals), TrainedStaged()
    settings = TrainingSettings(epochs=9, patience=9, learning_rate=0.05, batch_size=32)

    def trained(checkpoint: Path, progress: Callable[..., None] = lambda *_: None) -> dict[str, torch.Tensor]:
        lesson = RepairLesson(len(clean), len(pairs), Way.ANSWERS.diet(1.0), Validation(clean, pairs), first=first, most_cost=100.0, run=8)
        module = copied(first)
        found = fit(module, description, data, data, settings, progress=progress, checkpoint=checkpoint, lesson=lesson)
        assert [row.stage for row in found.curve] == [""] * 9
        return module.state_dict()

    def kill(_done: int, _total: int, note: str = "") -> None:
        if note.startswith("epoch 8"):
            raise KeyboardInterrupt

    whole = trained(tmp_path / "whole.pt")
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed.pt", kill)
    again = trained(tmp_path / "killed.pt")
    assert all(torch.equal(again[name], each) for name, each in whole.items())
    assert not torch.equal(whole["last.weight"], first.state_dict()["last.weight"])
