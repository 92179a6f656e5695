"""Rounds of driving and retraining: the network drives, the world says what would have been right there, and it learns from that.

Reference: Ross, Gordon and Bagnell 2011, A reduction of imitation learning and structured prediction to no-regret online learning
(DAgger), algorithm 3.1, in which the network always drives alone (beta is 0 from the first round on, since it can drive already).
Deviates: half of the scenarios lie near drives that failed; frames of a clean drive are trained on beside the network's own, and weights
go back towards the first network's where the clean error rose.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from io import BytesIO
from math import nan
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import load as load_tensors

from skidpad.core.errors import BadDriveError, BadRunError
from skidpad.core.images import as_numpy
from skidpad.core.progress import Progress, silent
from skidpad.kinds.drives.loop import Moment, Wheel
from skidpad.kinds.drives.records import build_records
from skidpad.kinds.drives.summary import is_unavoidable
from skidpad.repairs.blending import BLENDS, between, write_network
from skidpad.repairs.driving.plan import CLEAN_SHARES, clean_drive
from skidpad.repairs.lessons import AVERAGING
from skidpad.repairs.plan import BEFORE, CONTROL, check_labels
from skidpad.repairs.retraining import repeated
from skidpad.runs.workers.here import pinned
from skidpad.subjects.description import discard, write_atomically
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.data import Labelled, Lesson, collect
from skidpad.subjects.training.fitting import answers_rad, copied, fit
from skidpad.subjects.windows import Assembler

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import nn

    from skidpad.core.images import BoolArray, FloatArray
    from skidpad.drives.drive import Drive
    from skidpad.kinds.drives.records import Case
    from skidpad.kinds.drives.work import ClosedLoopRunner
    from skidpad.repairs.driving.plan import DrivingSettings, DrivingTask
    from skidpad.subjects.inputs import InputSpec

RULES = 1
"""How a repair from drives is trained and measured; a folder that was begun under others is not continued."""

_PART = 16
"""Drives that are kept in one file: what a repair that is killed while it drives loses at most."""

_LEAST = 4
"""Frames with a label that each part of the clean drive must have."""


class DrivingLesson(Lesson):
    """Labels alone; the mean of the weights over steps is kept."""

    averaging = AVERAGING
    key = "driving"


class Keeper:
    """Keeps frames of drives at the network's size, every n-th up to where a car leaves its lane, and what would have been right there."""

    def __init__(self, spec: InputSpec, every_steps: int) -> None:
        self._assembler, self._every = Assembler(spec, torch.device("cpu")), every_steps
        self._drives: dict[int, tuple[list[torch.Tensor], list[float]]] = {}

    def __call__(self, moment: Moment) -> None:
        """Keeps the frames of one step; a network that looks back needs those between, too."""
        cars = np.flatnonzero(moment.inside)
        if not len(cars) or (not self._assembler.lead and moment.step % self._every):
            return
        for car, picture in zip(cars.tolist(), self._assembler.shrink(as_numpy(moment.shown)[cars]), strict=True):
            pictures, labels = self._drives.setdefault(int(moment.slots[car]), ([], []))
            pictures.append(picture)
            labels.append(float(moment.truth_rad[car]))

    def data(self) -> Labelled | None:
        """Returns what was kept, drive by drive; None where every car stood outside of its lane from the beginning."""
        parts = [self._drive(*self._drives[slot]) for slot in sorted(self._drives)]
        return parts[0].joined(*parts[1:]) if parts else None

    def _drive(self, pictures: list[torch.Tensor], labels: list[float]) -> Labelled:
        lead, labels_rad = self._assembler.lead, np.array(labels)
        if not lead:
            return Labelled(torch.stack(pictures), labels_rad)
        windows = np.maximum(np.arange(len(labels))[:, None] - np.arange(lead, -1, -1), 0)
        return Labelled(torch.stack(pictures), labels_rad, windows).select(np.arange(0, len(labels), self._every))


@dataclass(frozen=True, slots=True, eq=False)
class Driven:
    """How N drives of one network went, (N,) each. judged: whether the drive counts at all."""

    failed: BoolArray
    judged: BoolArray
    mdcl: FloatArray
    max_lateral_m: FloatArray


@dataclass(frozen=True, slots=True)
class Taught:
    """One network and how it does on the scenarios that choose. frames: that it was trained on, each counted once.

    blend: how far its weights lie on the way from the first network's to the trained ones.
    """

    name: str
    frames: int
    clean_rmse_rad: float
    drives: int
    failures: int
    mean_mdcl: float
    blend: float = 1.0

    @property
    def badness(self) -> tuple[float, float]:
        """What networks are ordered by, the best first."""
        return self.failures, self.mean_mdcl


class DrivingRepair:
    """Drives, trains and measures; whatever is done is kept in a folder, and is not done again."""

    def __init__(self, task: DrivingTask, out: Path, settings: DrivingSettings, progress: Progress = silent) -> None:
        self.task, self.out, self.settings, self.progress = task, out, settings, progress
        self._spec = task.subject.description.input
        drive = clean_drive(settings, task)
        share, after, _ = CLEAN_SHARES
        first, self._judged_drive = drive.split(share + after)
        self._train_drive, self._validation_drive = first.split(share / (share + after))
        for part, name in ((self._train_drive, "train on"), (self._validation_drive, "choose on"), (self._judged_drive, "judge on")):
            if int(np.isfinite(part.steering_rad).sum()) < _LEAST:
                raise BadDriveError(f"{drive.name!r} leaves fewer than {_LEAST} frames with a label to {name}; use a longer --train-drive")
        self.clean_name, self.clean_sha256 = drive.name, drive.sha256
        self.notes = (*task.notes, *check_labels(task.subject, self._train_drive))

    # What is driven.

    def cases(self, name: str, count: int) -> tuple[Case, ...]:
        """Draws the cases of a set."""
        return self.task.cases(name, count, self.settings.seed)

    def runner(self, module: nn.Module) -> ClosedLoopRunner:
        """Returns what makes the drives of a network."""
        subject = NetworkSubject.of_module(module.eval(), self.task.subject.description, device=self.settings.device)
        return self.task.runner(subject, self.settings.device)

    def drive(self, name: str, module: nn.Module, cases: Sequence[Case]) -> Driven:
        """Lets a network drive, or reads how it drove."""
        parts = self._parts(name, module, cases, is_kept=False)
        return Driven(*(np.concatenate([part[key] for part in parts]) for key in ("failed", "judged", "mdcl", "max_lateral_m")))

    def frames(self, name: str, module: nn.Module, cases: Sequence[Case]) -> Labelled:
        """Lets a network drive, and returns what it saw with what would have been right there."""
        single = self._spec.history.frames == 1
        parts = [part for part in self._parts(name, module, cases, is_kept=True) if "labels" in part]
        made = [Labelled(torch.from_numpy(part["pictures"]), part["labels"], None if single else part["windows"]) for part in parts]
        if not made:
            raise BadRunError(f"the world {self.task.world!r} could begin no scenario of {name}, so that there is nothing to learn from")
        return made[0].joined(*made[1:])

    def _parts(self, name: str, module: nn.Module, cases: Sequence[Case], *, is_kept: bool) -> list[Mapping[str, np.ndarray]]:
        runner = self.runner(module)
        found: list[Mapping[str, np.ndarray]] = []
        for first in range(0, len(cases), _PART):
            path, part = self.out / "work" / f"{name}-{first // _PART:03d}.npz", cases[first : first + _PART]
            if not path.is_file():
                buffer = BytesIO()
                np.savez(buffer, **self._driven(runner, part, is_kept=is_kept))  # type: ignore[arg-type] # numpy's stub
                write_atomically(path, buffer.getvalue())
            with np.load(path) as stored:
                found.append({key: stored[key] for key in stored.files})
            self.progress(min(first + _PART, len(cases)), len(cases), f"driving, {name}")
        return found

    def _driven(self, runner: ClosedLoopRunner, cases: Sequence[Case], *, is_kept: bool) -> dict[str, np.ndarray]:
        keeper = Keeper(self._spec, self.settings.every_steps)
        with pinned():
            courses = runner.courses(cases, Wheel.SUBJECT, self.settings.threads, observer=keeper if is_kept else None)
        rows = build_records(cases, courses, Wheel.SUBJECT, runner.world, runner.subject.sha256).to_pylist()
        found = {
            "failed": np.array([row["violated"] for row in rows]),
            "judged": np.array([(row["violated"] or not row["problem"]) and not is_unavoidable(row) for row in rows]),
            "mdcl": np.array([row["mdcl"] for row in rows]),
            "max_lateral_m": np.array([row["max_lateral_m"] for row in rows]),
        }
        data = keeper.data()
        return found if data is None else found | {"pictures": data.pictures.numpy(), "labels": data.labels_rad, "windows": data.rows()}

    # What is trained and chosen on.

    @cached_property
    def clean(self) -> Labelled:
        """Frames of the clean drive that are trained on."""
        return self._collected(self._train_drive)

    @cached_property
    def clean_validation(self) -> Labelled:
        """Frames of the clean drive that choose."""
        return self._collected(self._validation_drive)

    @cached_property
    def clean_judged(self) -> Labelled:
        """Frames of the clean drive that judge."""
        return self._collected(self._judged_drive)

    def _collected(self, drive: Drive) -> Labelled:
        return collect(drive[: self.settings.clean_frames], self._spec, self.progress).data

    @cached_property
    def before(self) -> Taught:
        """The network as it is."""
        return self.measured(self.task.subject.module, Taught(BEFORE, 0, nan, 0, 0, nan))

    def rounds(self) -> list[Taught]:
        """Trains the network of every round, each from the first network's weights on the frames of all rounds so far."""
        found: list[Taught] = []
        driver, learned = self.task.subject.module, self.clean
        for number in range(1, self.settings.rounds + 1):
            name = f"round-{number}"
            learned = learned.joined(self.frames(name, driver, self.cases(name, self.settings.scenarios)))
            found.append(self.train(name, learned))
            driver = self.module_of(found[-1].name)
        return found

    def control(self, frames: int) -> Taught:
        """Trains the control: for as many steps as the last round, on the clean drive alone."""
        return self.train(CONTROL, repeated(self.clean, frames, self.settings.seed), len(self.clean))

    def train(self, name: str, data: Labelled, frames: int = 0) -> Taught:
        """Trains from the first network's weights, or reads what was trained; a checkpoint stands beside until the end.

        frames: how many of the data differ, where some are repeated.
        """
        record = self.out / "candidates" / f"{name}.json"
        if record.is_file():
            return Taught(**json.loads(record.read_text()))
        module, description = copied(self.task.subject.module), self.task.subject.description
        checkpoint = self.out / "work" / f"{name}.checkpoint.pt"
        fit(
            module,
            description,
            data,
            None,
            self.settings.training(),
            progress=lambda done, total, note="": self.progress(done, total, f"{name}, {note}"),
            checkpoint=checkpoint,
            lesson=DrivingLesson(),
        )
        blend = self._blended(module)
        found = self.measured(module, Taught(name, frames or len(data), nan, 0, 0, nan, blend))
        write_network(module, replace(description, name=name), record.with_suffix(".safetensors"))
        write_atomically(record, json.dumps(asdict(found), indent=2).encode())
        discard(checkpoint)
        return found

    def _blended(self, module: nn.Module) -> float:
        """Goes back towards the first network's weights until the clean error is what it may be; returns how far it is from them."""
        first = self.task.subject.module
        limit = (1.0 + self.settings.most_cost) * self.clean_rmse_rad(first, self.clean_validation)
        start, end = first.state_dict(), {name: each.clone() for name, each in module.state_dict().items()}
        for share in BLENDS:
            module.load_state_dict(between(start, end, share))
            if self.clean_rmse_rad(module, self.clean_validation) <= limit:
                break
        return share

    def clean_rmse_rad(self, module: nn.Module, data: Labelled) -> float:
        """Returns the error of a network on frames of the clean drive."""
        answers = answers_rad(module, self.task.subject.description, data, self.settings.device)
        return float(np.sqrt(np.mean((answers - data.labels_rad) ** 2)))

    def measured(self, module: nn.Module, made: Taught) -> Taught:
        """Measures a network on the scenarios and frames that choose."""
        how = self.drive(f"validation-{made.name}", module, self.cases("validation", self.settings.validation_scenarios))
        return replace(
            made,
            clean_rmse_rad=self.clean_rmse_rad(module, self.clean_validation),
            drives=int(how.judged.sum()),
            failures=int((how.failed & how.judged).sum()),
            mean_mdcl=float(how.mdcl[how.judged].mean()) if how.judged.any() else nan,
        )

    def module_of(self, name: str) -> nn.Module:
        """Returns a trained network."""
        module = copied(self.task.subject.module)
        module.load_state_dict(load_tensors((self.out / "candidates" / f"{name}.safetensors").read_bytes()))
        return module.eval()
