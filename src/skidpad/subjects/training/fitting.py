"""The core of training and of repair: fits a network's steering to labels, stage by stage, the same way for the same seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from io import BytesIO
from math import cos, isfinite, pi
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.core.settings import Count, Natural, Positive, Within, check
from skidpad.subjects.description import Description, write_atomically
from skidpad.subjects.network_subject import usable_device
from skidpad.subjects.training.data import Asking, Examples, Labelled, Lesson, answers_of, stages_of


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One row of the training curve; errors are mean squares in radians squared (NaN: no validation).

    stage: what was trained, where a network is trained in stages. score: what decides which epoch is best; the validation's error
    unless the lesson says otherwise.
    """

    epoch: int
    learning_rate: float
    training_mse_rad2: float
    validation_mse_rad2: float
    stage: str = ""
    score: float = float("nan")


@dataclass(frozen=True, slots=True)
class FitReport:
    """The curve, and the epoch whose weights the network has now; 0 where those that it began with are the best."""

    curve: tuple[EpochRow, ...]
    best_epoch: int

    @property
    def best(self) -> EpochRow:
        """The row of the best epoch."""
        return self.curve[self.best_epoch - 1]


class Fitting:
    """What changes from epoch to epoch."""

    def __init__(
        self,
        module: nn.Module,
        description: Description,
        data: Labelled,
        validation: Labelled | None,
        settings: TrainingSettings,
        lesson: Lesson,
    ) -> None:
        self.device = next(module.parameters()).device
        self.module = module
        self.curve: list[EpochRow] = []
        self.best_epoch = 0
        self.best_state: Mapping[str, torch.Tensor] = {}
        self._best_score = float("inf")
        self._first = np.zeros(0)
        self._description = description
        self._settings = settings
        self._lesson = lesson
        self._steps = 0
        self._mean: dict[str, torch.Tensor] = {}
        self._stages = stages_of(module, description.input, self.device, at_once=lesson.at_once)
        self._data, self._validation = data, validation
        self._stage = 0
        self._before = 0
        self._examples: tuple[Examples, Examples | None] | None = None
        self._labels = torch.from_numpy(data.labels_rad).to(self.device, torch.float32)
        self._optimizer = self._fresh_optimizer()

    def next_stage(self) -> bool:
        """Goes on to the next stage where one is done; tells whether there is anything left to do."""
        done = len(self.curve) - self._before
        waited = len(self.curve) - max(self.best_epoch, self._before + self._settling)
        if done < self._settings.epochs and waited < self._settings.patience:
            return True
        if self._stage == len(self._stages) - 1:
            return False
        self.module.load_state_dict(self.best_state)
        self._stage, self._before, self.best_epoch = self._stage + 1, len(self.curve), 0
        self._examples, self._optimizer = None, self._fresh_optimizer()
        self._steps, self._mean, self._best_score = 0, {}, float("inf")
        return True

    def epoch(self, progress: Progress) -> None:
        """Runs one epoch; everything random in it comes from the seed and the epoch's number."""
        settings, number = self._settings, len(self.curve) + 1
        own = number - self._before
        examples, validation = self._open()
        rng = child_rng(settings.seed, "training", number)
        torch.manual_seed(child_seed(settings.seed, "dropout", number))
        order = torch.from_numpy(self._lesson.order(rng, len(self._labels))).to(self.device)
        mirrored = torch.from_numpy(rng.random(len(self._labels)) < (0.5 if settings.mirror else 0.0)).to(self.device)
        rate = settings.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + cos(pi * (own - 1) / settings.epochs)))
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if own == 1 and self._lesson.keeps_start and validation is not None:
            self._keep_start(validation)
        self.module.train()
        batches = [order[start : start + settings.batch_size] for start in range(0, len(order), settings.batch_size)]
        loss_sum = torch.zeros((), device=self.device, dtype=torch.float64)
        done = self._stage * settings.epochs + own - 1
        total = len(self._stages) * settings.epochs * len(batches)
        for position, chosen in enumerate(batches, 1):
            loss_sum += self._step(examples, chosen, mirrored[chosen]) * len(chosen)
            progress(done * len(batches) + position, total, self._note(own))
        training = float(loss_sum) / len(order)
        if not isfinite(training):
            raise BadSubjectError(f"training diverged in epoch {number} with learning_rate {settings.learning_rate}; use a tenth of it")
        kept = {name: tensor.clone() for name, tensor in self._mean.items()} or self._state()
        validated, score = self._validated(validation, kept)
        first = self.best_epoch == 0 and not self._lesson.keeps_start
        self.curve.append(EpochRow(number, rate, training, validated, self._stages[self._stage][0], score))
        if own > self._settling and (first or validation is None or score < self._best_score):
            self.best_epoch, self.best_state, self._best_score = number, kept, score

    @property
    def _settling(self) -> int:
        return int(self._lesson.settles * self._settings.epochs)

    def _keep_start(self, validation: Examples) -> None:
        """Makes the weights that training began with the best so far."""
        self.best_state = self._state()
        if self._validation is not None:
            self._first = self._answers(validation, len(self._validation))
        self._best_score = self._validated(validation, self.best_state)[1]

    def _state(self) -> dict[str, torch.Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.module.state_dict().items()}

    def _validated(self, validation: Examples | None, state: Mapping[str, torch.Tensor]) -> tuple[float, float]:
        """Returns the error of some weights on the validation, and their score; the network's own weights stay as they are."""
        if self._validation is None or validation is None:
            return float("nan"), float("nan")
        own = self._state() if self._mean else None
        if own is not None:
            self.module.load_state_dict(state)
        labels_rad = self._validation.labels_rad
        answers = self._answers(validation, len(labels_rad))
        if own is not None:
            self.module.load_state_dict(own)
        return float(np.mean((answers - labels_rad) ** 2)), self._lesson.score(answers, labels_rad, self._first)

    def _open(self) -> tuple[Examples, Examples | None]:
        if self._examples is None:
            _, make = self._stages[self._stage]
            held_out = None if self._validation is None else make(self._validation, False)  # noqa: FBT003 - the flag has a name where it is used
            self._examples = make(self._data, self._settings.mirror), held_out
        return self._examples

    def _fresh_optimizer(self) -> torch.optim.Adam:
        # What a stage does not use has no gradient, so that Adam leaves it as it is.
        return torch.optim.Adam(self.module.parameters(), lr=self._settings.learning_rate, weight_decay=self._settings.weight_decay)

    def _step(self, examples: Examples, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        asking = Asking(self.module, self._description, examples, self._labels)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._settings.half):
            loss = self._lesson.loss(asking, chosen, mirrored)
        torch.autograd.backward(loss)
        self._optimizer.step()
        if self._lesson.averaging:
            self._average()
        return loss.detach()

    def _average(self) -> None:
        self._steps += 1
        kept = min(self._lesson.averaging, self._steps / (self._steps + 10.0))  # the first steps are not held up by where they began
        for name, tensor in self.module.state_dict().items():
            if not self._mean or name not in self._mean or not tensor.is_floating_point():
                self._mean[name] = tensor.detach().clone()
            else:
                self._mean[name].lerp_(tensor.detach(), 1.0 - kept)

    def _answers(self, examples: Examples, count: int) -> FloatArray:
        self.module.eval()
        asking = Asking(self.module, self._description, examples, self._labels)
        return answers_of(asking, count, self.device)

    def _note(self, own: int) -> str:
        name = self._stages[self._stage][0]
        best = self.curve[self.best_epoch - 1].validation_mse_rad2 ** 0.5 if self.best_epoch else float("nan")
        epoch = f"{name}, epoch {own}" if name else f"epoch {own}"
        return f"{epoch}, best validation RMSE {best:.4f} rad" if isfinite(best) else epoch

    def save(self, path: Path, key: str) -> None:
        """Writes everything the next epoch needs, as tensors and plain values."""
        buffer = BytesIO()
        state = {
            "key": key,
            "stage": self._stage,
            "before": self._before,
            "curve": json.dumps([asdict(row) for row in self.curve]),
            "best_epoch": self.best_epoch,
            "best": dict(self.best_state),
            "best_score": self._best_score,
            "steps": self._steps,
            "mean": self._mean,
            "first": torch.from_numpy(self._first),
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
            self._stage, self._before = state["stage"], state["before"]
            self.curve = [EpochRow(**row) for row in json.loads(state["curve"])]
            self.best_epoch, self.best_state, self._best_score = state["best_epoch"], state["best"], state["best_score"]
            self._steps, self._mean, self._first = state["steps"], state["mean"], state["first"].cpu().numpy()
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, EOFError) as error:
            raise BadSubjectError(f"{path} is no whole checkpoint ({error}); remove it to start anew") from error


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long, how fast and on what a network is trained.

    The learning rate falls along a half cosine to a hundredth; training stops early after `patience` epochs without a better
    validation. With `mirror` every picture, or all of a window, is flipped left to right in half of its epochs, and its label's
    sign with it. A network in two stages is trained for `epochs` in each, and each has its own patience.

    half: compute the steps in bfloat16, in a third of the time where a GPU or a processor multiplies it fast; weights and what is measured
    stay in float32. Slower where it does not.

    threads: of the CPU. Sums are split among them, so their number decides the last bits of every step and, after some epochs,
    which network comes out; hence it is a setting, and neither the machine's nor that of OMP_NUM_THREADS.
    """

    epochs: Count = 30
    batch_size: Count = 64
    learning_rate: Positive = 1e-3
    weight_decay: Annotated[float, Within(least=0)] = 0.0
    patience: Count = 8
    validation_fraction: Annotated[float, Within(least=0, below=1)] = 0.15
    mirror: bool = True
    seed: Natural = 0
    device: str = "cpu"
    threads: Count = 1
    half: bool = False

    def __post_init__(self) -> None:
        check(self, BadSubjectError)


def fit(
    module: nn.Module,
    description: Description,
    data: Labelled,
    validation: Labelled | None,
    settings: TrainingSettings,
    *,
    progress: Progress = silent,
    checkpoint: Path | None = None,
    lesson: Lesson | None = None,
) -> FitReport:
    """Trains `module` in place with Adam, by default on the squared error in radians, and leaves the best epoch's weights in it.

    Best is the lowest validation error, or the last epoch without a validation. `checkpoint` is written after every epoch and
    continued from where it fits the same data, settings and network; the result is that of a run never stopped.

    A `TwoStage` network that looks back is trained in two stages unless the lesson trains it at once: its features on single frames, then
    its window on features that stay as they are; the second starts from the best of the first.
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
    lesson = lesson or Lesson()
    if device.type == "cpu":  # convolutions are then up to twice as fast
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch leaves this form out
    run = Fitting(module.to(device), description, data, held_out, settings, lesson)
    key = _key(description, data, validation, settings, lesson) if checkpoint else ""
    if checkpoint is not None and checkpoint.is_file():
        run.restore(checkpoint, key)
    devices = [device] if device.type == "cuda" else []
    with _threads(settings.threads), torch.random.fork_rng(devices):  # dropout draws from torch's global generator, which is the caller's
        while run.next_stage():
            run.epoch(progress)
            if checkpoint is not None:
                run.save(checkpoint, key)
    module.load_state_dict(run.best_state)
    module.to(memory_format=torch.contiguous_format).eval()  # type: ignore[call-overload] # see above
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


def _key(description: Description, data: Labelled, validation: Labelled | None, settings: TrainingSettings, lesson: Lesson) -> str:
    digest = sha256(repr((replace(description, name="", file=""), replace(settings, device=""), lesson.key)).encode())
    for part in (data, validation):
        if part is not None:
            digest.update(np.ascontiguousarray(part.labels_rad).data)
            digest.update(part.pictures.contiguous().numpy().data)
            if part.windows is not None:
                digest.update(np.ascontiguousarray(part.windows).data)
    return digest.hexdigest()


def answers_rad(module: nn.Module, description: Description, data: Labelled, device: str = "cpu") -> FloatArray:
    """Returns a network's steering, (N,) radians, on pictures that have its size already, windows and all."""
    on = usable_device(device)
    module.to(on).eval()
    _, make = stages_of(module, description.input, on)[-1]
    with torch.inference_mode():
        examples = make(data, False)  # noqa: FBT003 - the flag has a name where it is used
    return answers_of(Asking(module, description, examples, torch.zeros(0, device=on)), len(data), on)


def copied(module: nn.Module) -> nn.Module:
    """Returns a network of its own with the same weights, ready to be trained."""
    return deepcopy(module).requires_grad_(requires_grad=True)
