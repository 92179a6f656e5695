"""Labelled pictures at the network's size, and what training asks of a network on them.

That is: which examples an epoch takes, what a step makes smaller, and which weights are best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadDriveError, BadSubjectError
from skidpad.core.images import FloatArray, Frames, IntArray
from skidpad.core.progress import Progress, silent
from skidpad.drives.drive import Drive
from skidpad.drives.frames import default_threads
from skidpad.subjects.description import Decode, Description
from skidpad.subjects.inputs import HistoryKind, InputSpec
from skidpad.subjects.network_subject import answer_columns
from skidpad.subjects.windows import Assembler, TwoStage, compact

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Labelled:
    """Pictures as bytes at the network's size, (P, height_px, width_px, channels) on the CPU, and steering (N,) in radians.

    windows: (N, T) rows of the pictures that each label's window holds, oldest first, for a network that looks back; None where
    each picture has its own label (P = N). Neighbouring windows share their pictures, so P x height_px x width_px x channels
    bytes stay in memory: 39.6 kB a frame for PilotNet, 223 MB for 5,614 frames. For optical flow pictures are grey.
    """

    pictures: torch.Tensor
    labels_rad: FloatArray
    windows: IntArray | None = None

    def __post_init__(self) -> None:
        count = len(self.pictures) if self.windows is None else len(self.windows)
        if count != len(self.labels_rad) or self.pictures.dtype != torch.uint8 or self.pictures.ndim != 4:
            raise ValueError(
                f"pictures must be uint8 (N, height, width, channels) with N labels; "
                f"got {self.pictures.dtype} {tuple(self.pictures.shape)}, {count} windows and {len(self.labels_rad)} labels"
            )

    def __len__(self) -> int:
        return len(self.labels_rad)

    @classmethod
    def of(cls, clip: Frames, labels_rad: FloatArray, spec: InputSpec, now: Frames | None = None) -> Self:
        """Brings frames to the network's size on the path that the subject itself takes.

        clip: (lead + N, height, width, 3), N labels for its last frames; `now` replaces the last frame of each window alone.
        """
        assembler, labels = Assembler(spec, _CPU), np.asarray(labels_rad, np.float64)
        if assembler.lead == 0:
            return cls(assembler.shrink(clip if now is None else now), labels)
        small, windows = assembler.windows(clip, now)
        return cls(small, labels, windows.numpy())

    def rows(self) -> IntArray:
        """Returns (N, T) rows of the pictures, also where each picture has its own label (T = 1)."""
        return np.arange(len(self))[:, None] if self.windows is None else self.windows

    def joined(self, *others: Labelled) -> Labelled:
        """Returns these pictures and then the others'."""
        parts = (self, *others)
        pictures = torch.cat([part.pictures for part in parts])
        labels_rad = np.concatenate([part.labels_rad for part in parts])
        if all(part.windows is None for part in parts):
            return Labelled(pictures, labels_rad)
        starts = np.cumsum([0, *(len(part.pictures) for part in parts[:-1])])
        windows = np.concatenate([part.rows() + start for part, start in zip(parts, starts, strict=True)])
        return Labelled(pictures, labels_rad, windows)

    def mirrored(self) -> Labelled:
        """Returns the pictures flipped left to right, with the labels that are then right."""
        return Labelled(self.pictures.flip(2), -self.labels_rad, self.windows)

    def select(self, indices: np.ndarray) -> Labelled:
        """Returns the windows at these positions; pictures that no window holds any more are left out."""
        chosen = np.asarray(indices, np.int64)
        used, places = np.unique(self.rows()[chosen], return_inverse=True)
        if self.windows is None:
            return Labelled(self.pictures[torch.from_numpy(chosen)], self.labels_rad[chosen])
        windows = places.reshape(len(chosen), -1).astype(np.int64)
        return Labelled(self.pictures[torch.from_numpy(used)], self.labels_rad[chosen], windows)


@dataclass(frozen=True, slots=True)
class Collected:
    """What of a drive can be trained on, and how many frames cannot: broken ones and those without a label."""

    data: Labelled
    broken: int
    unlabelled: int


def collect(drive: Drive, spec: InputSpec, progress: Progress = silent, batch_size: int = 64) -> Collected:
    """Reads a drive once and keeps its labelled frames at the network's size.

    For a network that looks back, frames without a label are kept for the windows that hold them; a window is what `Drive.read`
    gives as a lead, so none reaches beyond the start of the drive.
    """
    assembler = Assembler(spec, _CPU)
    pictures: torch.Tensor | None = None
    labels: list[FloatArray] = []
    filled = broken = unlabelled = 0
    for batch in drive.batches(batch_size):
        known = np.isfinite(batch.steering_rad)
        kept = known if assembler.lead == 0 else np.ones_like(known)
        small = assembler.shrink(batch.frames if kept.all() else batch.frames[kept])
        if pictures is None:
            pictures = torch.empty((len(drive), *small.shape[1:]), dtype=torch.uint8)
        pictures[filled : filled + len(small)] = small
        labels.append(batch.steering_rad[kept])
        filled += len(small)
        broken += len(batch.problems)
        unlabelled += int(len(known) - known.sum())
        progress(filled + broken + (0 if assembler.lead else unlabelled), len(drive), "reading the drive")
    labels_rad = np.concatenate(labels) if labels else np.zeros(0)
    known = np.isfinite(labels_rad)
    if pictures is None or not known.any():
        raise BadDriveError(f"drive {drive.name!r} has no frame with a label to train on ({broken} broken, {unlabelled} without a label)")
    if assembler.lead == 0:
        return Collected(Labelled(pictures[:filled], labels_rad), broken, unlabelled)
    ages = np.arange(assembler.lead, -1, -1)
    windows = np.maximum(np.flatnonzero(known)[:, None] - ages, 0)
    return Collected(Labelled(pictures[:filled], labels_rad[known], windows), broken, unlabelled)


_FEATURE_BATCH = 64
_FLOW_BATCH = 256


class Change(Protocol):
    """What is done to the pictures of examples before a network sees them: something of its own to each example, or the same to all."""

    def __call__(self, pictures: torch.Tensor, /) -> torch.Tensor:
        """Returns other bytes of the same shape for pictures, (n, height, width, channels), or for windows, (n, T, ...)."""
        ...

    def of(self, places: torch.Tensor, /) -> Change:
        """Returns what is done to the examples at some places, (n,)."""
        ...


class Examples(Protocol):
    """Answers of a module for some examples."""

    def __call__(self, module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None, /) -> object:
        """Returns what a module answers for the examples at some places, (n,), those marked in `mirrored`, (n,), flipped left to right.

        change: what is done to the pictures before the module sees them.
        """


def window_examples(data: Labelled, spec: InputSpec, device: torch.device) -> Examples:
    """Examples for a network that takes its input whole; a mirrored window is mirrored in all its frames."""
    assembler, pictures, windows = Assembler(spec, device), data.pictures.to(device), torch.from_numpy(data.rows()).to(device)
    rows = windows[:, -1] if spec.history.kind is HistoryKind.SINGLE else windows

    def answer(module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> object:
        return module(assembler.joined(_shown(pictures[rows[chosen]], mirrored, change)))

    return answer


def flow_examples(data: Labelled, spec: InputSpec, device: torch.device, *, mirror: bool) -> Examples:
    """Examples for a network that sees optical flow, which is computed once; mirrored frames have a flow of their own."""
    assembler, windows = Assembler(spec, device), torch.from_numpy(data.rows())

    def painted(pictures: torch.Tensor) -> torch.Tensor:
        codes = assembler.codes(pictures, windows, default_threads())
        return torch.cat([assembler.pictures(codes, part) for part in torch.split(windows, _FLOW_BATCH)])

    ways = torch.stack([painted(pictures) for pictures in _both_ways(data, mirror=mirror)]).to(device)

    def answer(module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> object:
        seen = ways[mirrored.long(), chosen]
        return module(assembler.normalise(seen if change is None else change(seen)))

    return answer


def frame_examples(data: Labelled, spec: InputSpec, device: torch.device) -> Examples:
    """Examples of the first stage of a network in two: the last frame of every window, answered for alone."""
    assembler, pictures, rows = Assembler(spec, device), data.pictures.to(device), torch.from_numpy(data.rows()[:, -1]).to(device)

    def answer(module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> object:
        staged = two_stages(module)
        return staged.alone(staged.features(_laid_out(assembler.normalise(_shown(pictures[rows[chosen]], mirrored, change)))))

    return answer


def feature_examples(module: nn.Module, data: Labelled, spec: InputSpec, device: torch.device, *, mirror: bool) -> Examples:
    """Examples of the second stage: windows over the features that a module has now, those of mirrored frames behind the others."""
    assembler, windows = Assembler(spec, device), torch.from_numpy(data.rows()).to(device)
    pictures = torch.cat(_both_ways(data, mirror=mirror)).to(device)
    with torch.no_grad(), _evaluating(module):
        parts = torch.split(pictures, _FEATURE_BATCH)
        codes = torch.cat([two_stages(module).features(_laid_out(assembler.normalise(part))) for part in parts])

    def answer(asked: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> object:
        if asked is not module or change is not None:
            raise ValueError("features that are known already are one module's, of pictures as they are")
        rows = windows[chosen] + mirrored.long()[:, None] * len(data.pictures)
        return two_stages(asked).forward_windows(*compact(codes, rows))

    return answer


def run_examples(data: Labelled, spec: InputSpec, device: torch.device) -> Examples:
    """Examples for a network in two stages that is trained at once: a frame that windows of a run share is looked at once.

    A run are examples that follow one another in the data and in the batch. All its windows are mirrored and changed as its first one is.
    """
    assembler, pictures, windows = Assembler(spec, device), data.pictures.to(device), torch.from_numpy(data.rows()).to(device)
    whole = window_examples(data, spec, device)

    def answer(module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> object:
        if not isinstance(module, TwoStage):
            return whole(module, chosen, mirrored, change)
        rows = windows[chosen] + first_of_run(chosen)[:, None] * len(pictures)
        frames, places = torch.unique(rows, return_inverse=True)
        first = frames // len(pictures)
        seen = _shown(pictures[frames % len(pictures)], mirrored[first], None if change is None else change.of(first))
        return module.forward_windows(module.features(_laid_out(assembler.normalise(seen))), places)

    return answer


def first_of_run(chosen: torch.Tensor) -> torch.Tensor:
    """Returns for each example of a batch, (n,), the place in the batch of the first one of its run."""
    places = torch.arange(len(chosen), device=chosen.device)
    begins = torch.ones_like(chosen, dtype=torch.bool)
    begins[1:] = chosen[1:] != chosen[:-1] + 1
    return torch.where(begins, places, 0).cummax(0).values


def _laid_out(inputs: torch.Tensor) -> torch.Tensor:
    """Returns the inputs with channels last in memory, in which convolutions take two thirds of the time on a CPU."""
    return inputs.contiguous(memory_format=torch.channels_last)


Stage = tuple[str, Callable[[Labelled, bool], Examples]]
"""The name of a part that is trained by itself, and what makes its examples, mirrored ones too, when its turn comes."""


def stages_of(module: nn.Module, spec: InputSpec, device: torch.device, *, at_once: bool = False) -> tuple[Stage, ...]:
    """Returns what is trained one after the other: nearly always the whole network at once."""
    if spec.history.kind is HistoryKind.OPTICAL_FLOW:
        return (("", lambda part, both: flow_examples(part, spec, device, mirror=both)),)
    if is_staged(module, spec) and at_once:
        return (("", lambda part, _: run_examples(part, spec, device)),)
    if is_staged(module, spec):
        return (
            ("features", lambda part, _: frame_examples(part, spec, device)),
            ("windows", lambda part, both: feature_examples(module, part, spec, device, mirror=both)),
        )
    return (("", lambda part, _: window_examples(part, spec, device)),)


def is_staged(module: nn.Module, spec: InputSpec) -> bool:
    """Tells whether a network has two stages that can be trained one after the other."""
    return spec.history.kind is HistoryKind.RECURRENT and isinstance(module, TwoStage)


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    before = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(before)


def _both_ways(data: Labelled, *, mirror: bool) -> list[torch.Tensor]:
    return [data.pictures, data.pictures.flip(2)] if mirror else [data.pictures]


def two_stages(module: nn.Module) -> TwoStage:
    """Returns the module as one in two stages."""
    if not isinstance(module, TwoStage):
        raise BadSubjectError(f"a {type(module).__name__} has no two stages to train one after the other")
    return module


def _shown(seen: torch.Tensor, mirrored: torch.Tensor, change: Change | None) -> torch.Tensor:
    flipped = _flipped(seen, mirrored)
    return flipped if change is None else change(flipped)


def _flipped(seen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
    """Flips the width, the last axis but one, of those that are to be mirrored."""
    marks = mirrored.reshape(-1, *(1,) * (seen.ndim - 1))
    return torch.where(marks, seen.flip(-2), seen)


_VALIDATION_BATCH = 256
_VALIDATION_WINDOWS = 64
"""Windows are many frames each."""


def steering_answer(description: Description, answer: object, count: int) -> torch.Tensor:
    """Picks the steering, (count,) in the network's own unit, out of what the network returned."""
    if description.steering.decode is Decode.BINS:
        raise BadSubjectError(f"{description.name!r} answers in bins, which cannot be trained here; it can be tested")
    return answer_columns(description, answer, count)[:, description.steering_column]


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """What a lesson can ask about examples, by their places (n,) and which of them are mirrored (n,)."""

    module: nn.Module
    description: Description
    examples: Examples
    labels_rad: torch.Tensor

    def answers(self, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> torch.Tensor:
        """Returns the network's steering, (n,) radians, on these pictures, or on what a change makes of them."""
        answer = steering_answer(self.description, self.examples(self.module, chosen, mirrored, change), len(chosen))
        return answer * self.description.steering.per_answer

    def labels(self, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        """Returns the right steering, (n,) radians."""
        return torch.where(mirrored, -self.labels_rad[chosen], self.labels_rad[chosen])

    def inputs(self, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        """Returns what the network is shown, for a network that takes its input whole."""
        return torch.as_tensor(self.examples(nn.Identity(), chosen, mirrored))


class Lesson:
    """What an epoch takes, what is asked of the answers, and which weights are best.

    This one takes every example once, asks for the labels by the squared error, and keeps the lowest error on the validation. key: tells
    lessons apart in a checkpoint. averaging: how much of the mean of the weights over steps is kept at each (0: there is no mean); the
    mean is validated and kept. keeps_start: whether the weights that training began with may be the best. settles: the share of the
    epochs, at the beginning, none of which may be the best. at_once: whether a network in two stages is trained whole.
    """

    key: str = ""
    averaging: float = 0.0
    keeps_start: bool = False
    settles: float = 0.0
    at_once: bool = False

    def order(self, rng: np.random.Generator, count: int) -> IntArray:
        """Returns the places of an epoch's examples, in their order."""
        return rng.permutation(count)

    def loss(self, asking: Asking, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        """Returns what a step makes smaller."""
        return nn.functional.mse_loss(asking.answers(chosen, mirrored), asking.labels(chosen, mirrored))

    def score(self, answers_rad: FloatArray, labels_rad: FloatArray, first_rad: FloatArray) -> float:  # noqa: ARG002 - for other lessons
        """Returns how bad the answers to the validation are. first_rad: those of the weights that training began with, if it keeps them."""
        return float(np.mean((answers_rad - labels_rad) ** 2))


def answers_of(asking: Asking, count: int, device: torch.device) -> FloatArray:
    """Returns the network's steering on the first `count` examples, (count,) radians; the network is in evaluation mode already."""
    single = asking.description.input.history.kind is HistoryKind.SINGLE
    places = torch.split(torch.arange(count, device=device), _VALIDATION_BATCH if single else _VALIDATION_WINDOWS)
    with torch.inference_mode():
        found = [asking.answers(part, torch.zeros_like(part, dtype=torch.bool)).double().cpu() for part in places if len(part)]
    return torch.cat(found).numpy() if found else np.zeros(0)
