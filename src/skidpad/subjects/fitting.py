"""The core of training and of repair: fits a network's steering to labels, the same way for the same seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from io import BytesIO
from math import cos, isfinite, pi
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.subjects.answers import steering_answer
from skidpad.subjects.description import Description
from skidpad.subjects.labelled import Labelled
from skidpad.subjects.preprocess import Preprocessor
from skidpad.subjects.torch_subject import usable_device
from skidpad.subjects.writing import write_atomically


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long, how fast and on what a network is trained.

    The learning rate falls along a half cosine to a hundredth; training stops early after `patience` epochs without a better
    validation. With `mirror` every picture is flipped left to right in half of its epochs, and its label's sign with it.
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

    def __post_init__(self) -> None:
        for name, low in (("epochs", 1), ("batch_size", 1), ("patience", 1)):
            if getattr(self, name) < low:
                raise BadSubjectError(f"the training setting {name!r} must be at least {low}; got {getattr(self, name)}")
        if not (isfinite(self.learning_rate) and self.learning_rate > 0.0 and self.weight_decay >= 0.0):
            raise BadSubjectError(
                f"learning_rate must be above 0 and weight_decay not below; got {self.learning_rate}, {self.weight_decay}"
            )
        if not 0.0 <= self.validation_fraction < 1.0:
            raise BadSubjectError(f"validation_fraction must lie within 0 and 1; got {self.validation_fraction}")


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One row of the training curve; errors are mean squares in radians squared (NaN: no validation)."""

    epoch: int
    learning_rate: float
    training_mse_rad2: float
    validation_mse_rad2: float


@dataclass(frozen=True, slots=True)
class FitReport:
    """The curve, and the epoch whose weights the network has now."""

    curve: tuple[EpochRow, ...]
    best_epoch: int

    @property
    def best(self) -> EpochRow:
        """The row of the best epoch."""
        return self.curve[self.best_epoch - 1]


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
    """
    if len(data) == 0:
        raise BadSubjectError("there are no labelled pictures to train on; give a drive with labels")
    crop = description.input.crop
    if settings.mirror and crop.left != crop.right:
        raise BadSubjectError(
            f"mirrored pictures need a crop alike on both sides; got left {crop.left}, right {crop.right}: turn mirror off"
        )
    run = _Run(module, description, data, validation, settings)
    key = _key(description, data, validation, settings) if checkpoint else ""
    if checkpoint is not None and checkpoint.is_file():
        run.restore(checkpoint, key)
    devices = [run.device] if run.device.type == "cuda" else []
    with torch.random.fork_rng(devices):  # dropout draws from torch's global generator, which is the caller's
        while not run.finished:
            run.epoch(progress)
            if checkpoint is not None:
                run.save(checkpoint, key)
    module.load_state_dict(run.best_state)
    module.eval()
    return FitReport(tuple(run.curve), run.best_epoch)


class _Run:
    """What changes from epoch to epoch."""

    def __init__(
        self, module: nn.Module, description: Description, data: Labelled, validation: Labelled | None, settings: TrainingSettings
    ) -> None:
        self.device = usable_device(settings.device)
        self.module = module.to(self.device)
        self.curve: list[EpochRow] = []
        self.best_epoch = 0
        self.best_state: Mapping[str, torch.Tensor] = {}
        self._description = description
        self._settings = settings
        self._preprocess = Preprocessor(description.input, self.device)
        self._pictures = data.pictures.to(self.device)
        self._labels = torch.from_numpy(data.labels_rad).to(self.device, torch.float32)
        self._validation = validation if validation is not None and len(validation) else None
        self._optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)

    @property
    def finished(self) -> bool:
        """Whether all epochs are done or the validation has stopped improving."""
        done = len(self.curve)
        return done >= self._settings.epochs or done - self.best_epoch >= self._settings.patience

    def epoch(self, progress: Progress) -> None:
        """Runs one epoch; everything random in it comes from the seed and the epoch's number."""
        settings, number = self._settings, len(self.curve) + 1
        rng = child_rng(settings.seed, "training", number)
        torch.manual_seed(child_seed(settings.seed, "dropout", number))
        order = torch.from_numpy(rng.permutation(len(self._labels))).to(self.device)
        mirrored = torch.from_numpy(rng.random(len(order)) < (0.5 if settings.mirror else 0.0)).to(self.device)
        rate = settings.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + cos(pi * (number - 1) / settings.epochs)))
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self.module.train()
        batches = [order[start : start + settings.batch_size] for start in range(0, len(order), settings.batch_size)]
        loss_sum = torch.zeros((), device=self.device, dtype=torch.float64)
        for position, chosen in enumerate(batches, 1):
            loss_sum += self._step(chosen, mirrored[chosen]) * len(chosen)
            progress((number - 1) * len(batches) + position, settings.epochs * len(batches), self._note(number))
        training = float(loss_sum) / len(order)
        validated = self._error(self._validation) if self._validation is not None else float("nan")
        if not isfinite(training):
            raise BadSubjectError(f"training diverged in epoch {number} with learning_rate {settings.learning_rate}; use a tenth of it")
        better = self.best_epoch == 0 or self._validation is None or validated < self.curve[self.best_epoch - 1].validation_mse_rad2
        self.curve.append(EpochRow(number, rate, training, validated))
        if better:
            self.best_epoch = number
            self.best_state = {name: tensor.detach().clone() for name, tensor in self.module.state_dict().items()}

    def _step(self, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        pictures, labels = self._pictures[chosen], self._labels[chosen]
        if self._settings.mirror:
            pictures = torch.where(mirrored[:, None, None, None], pictures.flip(2), pictures)
            labels = torch.where(mirrored, -labels, labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self._answer(pictures), labels)
        torch.autograd.backward(loss)
        self._optimizer.step()
        return loss.detach()

    def _answer(self, pictures: torch.Tensor) -> torch.Tensor:
        answer = steering_answer(self._description, self.module(self._preprocess.normalise(pictures)), len(pictures))
        return answer * self._description.steering.rad_per_answer

    def _error(self, data: Labelled) -> float:
        self.module.eval()
        with torch.inference_mode():
            answers = torch.cat([self._answer(data.pictures[start : start + 256]) for start in range(0, len(data), 256)])
        return float(np.mean((answers.double().cpu().numpy() - data.labels_rad) ** 2))

    def _note(self, number: int) -> str:
        best = self.curve[self.best_epoch - 1].validation_mse_rad2 ** 0.5 if self.best_epoch else float("nan")
        return f"epoch {number}, best validation RMSE {best:.4f} rad" if isfinite(best) else f"epoch {number}"

    def save(self, path: Path, key: str) -> None:
        """Writes everything the next epoch needs, as tensors and plain values."""
        buffer = BytesIO()
        state = {
            "key": key,
            "curve": json.dumps([asdict(row) for row in self.curve]),
            "best_epoch": self.best_epoch,
            "best": dict(self.best_state),
            "module": self.module.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }
        torch.save(state, buffer)
        write_atomically(path, buffer.getvalue())

    def restore(self, path: Path, key: str) -> None:
        """Continues from what `save` wrote."""
        try:
            state: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=True)
            if state["key"] != key:
                raise BadSubjectError(
                    f"{path} is the checkpoint of another training (data, settings or network differ); remove it to start anew"
                )
            self.module.load_state_dict(state["module"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.curve = [EpochRow(**row) for row in json.loads(state["curve"])]
            self.best_epoch, self.best_state = state["best_epoch"], state["best"]
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, EOFError) as error:
            raise BadSubjectError(f"{path} is no whole checkpoint ({error}); remove it to start anew") from error


def _key(description: Description, data: Labelled, validation: Labelled | None, settings: TrainingSettings) -> str:
    digest = sha256(repr((replace(description, name="", file=""), replace(settings, device=""))).encode())
    for part in (data, validation):
        if part is not None:
            digest.update(np.ascontiguousarray(part.labels_rad).data)
            digest.update(part.pictures.contiguous().numpy().data)
    return digest.hexdigest()


def copied(module: nn.Module) -> nn.Module:
    """Returns a network of its own with the same weights, ready to be trained."""
    return deepcopy(module).requires_grad_(requires_grad=True)
