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
from skidpad.subjects.training.data import WINDOWS, Asking, Change, Labelled, Lesson, feature_examples, frame_examples, window_examples
from skidpad.subjects.training.fitting import TrainingSettings, answers_rad, copied, fit

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


def test_fixed_views_are_the_same_always_and_begin_with_the_drive_s_own() -> None:
    torch.manual_seed(9)
    first = torch.rand(1)
    torch.manual_seed(9)
    mine, again = Views.fixed(4, 2.5), Views.fixed(4, 2.5)
    assert torch.equal(torch.rand(1), first)  # nobody else's draws are touched
    assert len(mine) == 4
    assert all(torch.equal(one.maps, other.maps) for one, other in zip(mine, again, strict=True))
    pictures = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (3, 6, 15, 3), dtype=np.uint8))
    assert torch.equal(mine[0](pictures), pictures)
    for view in mine[1:]:
        seen = view(pictures)
        assert not torch.equal(seen, pictures)
        assert torch.equal(seen[2:], view(pictures[2:]))  # one view for all of them


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


def test_a_network_in_stages_is_asked_about_changed_frames(garage: Garage) -> None:
    spec = replace(garage.subject.description.input, history=History(3, HistoryKind.RECURRENT))
    rng = np.random.default_rng(4)
    pictures = torch.from_numpy(rng.integers(0, 200, (8, spec.height_px, spec.width_px, 1), dtype=np.uint8))
    data = Labelled(pictures, np.zeros(6), np.arange(6)[:, None] + np.arange(3))
    chosen, mirrored = torch.tensor([1, 4]), torch.tensor([False, True])
    mine, other = Staged(1.0), Staged(2.0)
    windows = feature_examples(data, spec, CPU, mirror=True)
    means = pictures.float().mean((1, 2, 3)) / 255.0
    plain = torch.stack([means[1:4].sum(), means[4:7].sum()])[:, None]

    shown: list[int] = []

    def brighter(seen: torch.Tensor) -> torch.Tensor:
        assert seen.shape[1:] == pictures.shape[1:]
        shown.append(len(seen))
        return seen + 51

    assert torch.allclose(torch.as_tensor(windows(mine, chosen, mirrored)), plain, atol=1e-5)
    assert torch.allclose(torch.as_tensor(windows(other, chosen, mirrored)), 2.0 * plain, atol=1e-5)
    for _ in range(2):
        assert torch.allclose(torch.as_tensor(windows(mine, chosen, mirrored, brighter)), plain + 3 * 0.2, atol=1e-5)
    assert shown == [16]  # all frames and their mirrored ones, one block, once
    frames = frame_examples(data, spec, CPU)
    alone = torch.as_tensor(frames(mine, chosen, mirrored, lambda seen: seen + 51))
    assert torch.allclose(alone, torch.stack([means[3], means[6]])[:, None] + 0.2, atol=1e-5)


def test_windows_are_learned_from_few_views_that_both_networks_see(repairs: Repairs) -> None:
    pairs, clean = repairs.pool("answers"), repairs.clean
    data, first = clean.joined(pairs.mutants, pairs.originals), repairs.task.subject.module
    description, student = repairs.task.subject.description, copied(first)
    lesson = RepairLesson(len(clean), len(pairs), Way.ANSWERS.diet(1.0), repairs.validation, first=first)
    seen: list[tuple[nn.Module, Change | None]] = []
    inner = window_examples(data, description.input, CPU)

    def examples(module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> object:
        seen.append((module, change))
        return inner(module, chosen, mirrored, change)

    asking = Asking(student, description, examples, torch.from_numpy(data.labels_rad).float(), WINDOWS)
    chosen = len(clean) + torch.arange(8)
    for _ in range(12):
        lesson.loss(asking, chosen, torch.zeros(8, dtype=torch.bool))
    assert {module for module, _ in seen} == {first, student}
    assert [change for module, change in seen if module is first] == [change for module, change in seen if module is student]
    assert 2 <= len({change for _, change in seen}) <= 4


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


def test_each_stage_is_measured_by_the_network_as_it_was_and_later_ones_are_shorter(garage: Garage) -> None:
    seen: list[np.ndarray] = []

    class Watching(Lesson):
        keeps_start = True
        later_stages = 0.5

        def score(self, answers_rad: np.ndarray, labels_rad: np.ndarray, first_rad: np.ndarray) -> float:
            seen.append(first_rad)
            return super().score(answers_rad, labels_rad, first_rad)

    spec = replace(garage.subject.description.input, history=History(3, HistoryKind.RECURRENT))
    description = replace(garage.subject.description, input=spec)
    pictures = torch.from_numpy(np.random.default_rng(4).integers(0, 200, (8, spec.height_px, spec.width_px, 1), dtype=np.uint8))
    data = Labelled(pictures, np.linspace(-0.5, 0.5, 6), np.arange(6)[:, None] + np.arange(3))
    module = TrainedStaged()
    as_it_was = answers_rad(copied(module), description, data)
    settings = TrainingSettings(epochs=4, patience=4, learning_rate=0.1, mirror=False)
    found = fit(module, description, data, data, settings, lesson=Watching())
    assert [row.stage for row in found.curve] == ["features"] * 4 + ["windows"] * 2
    # a score for the start of each stage, and one for each epoch
    windows = seen[5:]
    assert len(windows) == 3
    assert all(np.allclose(each, as_it_was) for each in windows)
    assert not np.allclose(answers_rad(module, description, data), as_it_was)


def test_killed_among_windows_the_way_answers_goes_on_to_the_same_network(
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
        lesson = RepairLesson(len(clean), len(pairs), Way.ANSWERS.diet(1.0), Validation(clean, pairs), first=first, most_cost=100.0)
        module = copied(first)
        found = fit(module, description, data, data, settings, progress=progress, checkpoint=checkpoint, lesson=lesson)
        assert [row.stage for row in found.curve] == ["features"] * 9 + ["windows"] * 3
        return module.state_dict()

    def kill(_done: int, _total: int, note: str = "") -> None:
        if note.startswith("windows, epoch 3"):
            raise KeyboardInterrupt

    whole = trained(tmp_path / "whole.pt")
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed.pt", kill)
    again = trained(tmp_path / "killed.pt")
    assert all(torch.equal(again[name], each) for name, each in whole.items())
    assert not torch.equal(whole["last.weight"], first.state_dict()["last.weight"])
