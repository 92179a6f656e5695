"""The core of training and of repair: fits a network's steering to labels, the same way for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.progress import Progress, silent
from skidpad.subjects.description import Description
from skidpad.subjects.network import usable_device
from skidpad.subjects.training.data import Labelled
from skidpad.subjects.training.staged import EpochRow, FitReport
from skidpad.subjects.training.stages import Fitting, stages_of

__all__ = ["EpochRow", "FitReport", "TrainingSettings", "copied", "fit"]


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long, how fast and on what a network is trained.

    The learning rate falls along a half cosine to a hundredth; training stops early after `patience` epochs without a better
    validation. With `mirror` every picture, or all of a window, is flipped left to right in half of its epochs, and its label's
    sign with it. A network in two stages is trained for `epochs` in each, and each has its own patience.

    threads: of the CPU. Sums are split among them, so their number decides the last bits of every step and, after some epochs,
    which network comes out; hence it is a setting, and neither the machine's nor that of OMP_NUM_THREADS.
    """

    epochs: int = 30
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    patience: int = 8
    validation_fraction: float = 0.15
    mirror: bool = True
    seed: int = 0
    device: str = "cpu"
    threads: int = 1

    def __post_init__(self) -> None:
        for name, low in (("epochs", 1), ("batch_size", 1), ("patience", 1), ("threads", 1)):
            if getattr(self, name) < low:
                raise BadSubjectError(f"the training setting {name!r} must be at least {low}; got {getattr(self, name)}")
        if not (isfinite(self.learning_rate) and self.learning_rate > 0.0 and self.weight_decay >= 0.0):
            raise BadSubjectError(
                f"learning_rate must be above 0 and weight_decay not below; got {self.learning_rate}, {self.weight_decay}"
            )
        if not 0.0 <= self.validation_fraction < 1.0:
            raise BadSubjectError(f"validation_fraction must lie within 0 and 1; got {self.validation_fraction}")


def fit(
    module: nn.Module,
    description: Description,
    data: Labelled,
    validation: Labelled | None,
    settings: TrainingSettings,
    *,
    progress: Progress = silent,
    checkpoint: Path | None = None,
) -> FitReport:
    """Trains `module` in place with Adam on the squared error in radians, and leaves the best epoch's weights in it.

    Best is the lowest validation error, or the last epoch without a validation. `checkpoint` is written after every epoch and
    continued from where it fits the same data, settings and network; the result is that of a run never stopped.

    A `TwoStage` network that looks back is trained in two stages: its features on single frames, then its window on features
    that stay as they are; the second starts from the best of the first.
    """
    if len(data) == 0:
        raise BadSubjectError("there are no labelled pictures to train on; give a drive with labels")
    crop = description.input.crop
    if settings.mirror and crop.left != crop.right:
        raise BadSubjectError(
            f"mirrored pictures need a crop alike on both sides; got left {crop.left}, right {crop.right}: turn mirror off"
        )
    _check_windows(description, data, validation)
    device = usable_device(settings.device)
    held_out = validation if validation is not None and len(validation) else None
    stages = stages_of(module, description.input, data, held_out, device, mirror=settings.mirror)
    run = Fitting(module.to(device), description, stages, data, held_out, settings)
    key = _key(description, data, validation, settings) if checkpoint else ""
    if checkpoint is not None and checkpoint.is_file():
        run.restore(checkpoint, key)
    devices = [device] if device.type == "cuda" else []
    with _threads(settings.threads), torch.random.fork_rng(devices):  # dropout draws from torch's global generator, which is the caller's
        while run.next_stage():
            run.epoch(progress)
            if checkpoint is not None:
                run.save(checkpoint, key)
    module.load_state_dict(run.best_state)
    module.eval()
    return FitReport(tuple(run.curve), run.best_epoch)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_windows(description: Description, data: Labelled, validation: Labelled | None) -> None:
    frames = description.input.history.frames
    for part in (data, validation):
        if part is not None and part.rows().shape[1] != frames:
            raise BadSubjectError(
                f"{description.name!r} looks at {frames} frames at a time, but the pictures to train on come in windows of "
                f"{part.rows().shape[1]}; collect them from a drive with this network's input"
            )


def _key(description: Description, data: Labelled, validation: Labelled | None, settings: TrainingSettings) -> str:
    digest = sha256(repr((replace(description, name="", file=""), replace(settings, device=""))).encode())
    for part in (data, validation):
        if part is not None:
            digest.update(np.ascontiguousarray(part.labels_rad).data)
            digest.update(part.pictures.contiguous().numpy().data)
            if part.windows is not None:
                digest.update(np.ascontiguousarray(part.windows).data)
    return digest.hexdigest()


def copied(module: nn.Module) -> nn.Module:
    """Returns a network of its own with the same weights, ready to be trained."""
    return deepcopy(module).requires_grad_(requires_grad=True)
