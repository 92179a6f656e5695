"""The plan of a repair: what is repaired and how, what counts, and whether the labels can teach it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from skidpad.core.errors import BadDriveError, BadParametersError, BadSubjectError, UnknownNameError
from skidpad.core.settings import Count, Natural, Positive, Within, check
from skidpad.core.stimuli import Recipe
from skidpad.oracles.relations import Relation
from skidpad.repairs.folder import shown
from skidpad.repairs.lessons import KEPT_RESPONSE, Diet, Loss, OwnStep
from skidpad.subjects.description import IN_MEMORY
from skidpad.subjects.training.fitting import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.core.images import FloatArray
    from skidpad.drives.drive import Drive
    from skidpad.kinds.limits.curves import LimitRow
    from skidpad.kinds.limits.probes import Judge
    from skidpad.subjects.network_subject import NetworkSubject

UNSEEN = ("atmosphere", "lens", "shadows")
"""Groups that no training sees unless someone says otherwise, so that a repair is judged by what it was not taught."""

CONTROL, BEFORE = "control", "before"

_LOWEST, _HIGHEST = 1 / 15, 15.0
"""Labels over answers: where answers follow labels, only another unit is so far away: degrees taken for radians are 57 times."""

_FOLLOWS = 0.8
"""Correlation from which on a network is taken to answer what the labels say, in whatever unit."""

_HARDLY = 0.3
"""Correlation below which a network hardly answers what the labels say."""

_ENOUGH = 16
"""Labels from which on a correlation means something: of 4 unrelated ones every tenth is beyond -0.8, of 16 hardly any."""

_MOST_RAD = 12.0
"""Steering wheels turn by less than two rounds to each side."""


class Way(Enum):
    """What a candidate learns from."""

    FINDINGS = "findings"
    """The run's findings that the referee kept, with their labels."""
    RANDOM = "random"
    """Random stimuli of the families that may be seen, with labels."""
    CONSISTENCY = "consistency"
    """The same pictures without their labels: a mutant is to be answered as its original is."""
    MIX = "mix"
    """Findings and random stimuli, with labels and consistency."""
    LOOKS = "looks"
    """The mix, and random looks, which belong to no family."""
    ANSWERS = "answers"
    """Pictures as for looks, seen from moved places; what is right is what the first network answers to the originals, and no label is."""

    @property
    def has_looks(self) -> bool:
        """Whether it learns from random looks."""
        return self in {Way.LOOKS, Way.ANSWERS}

    def diet(self, strength: float) -> Diet:
        """Returns what it is trained on, with so many mutants for each clean picture."""
        mixed = Diet(strength, 0.5, 1.0)
        known = {
            Way.CONSISTENCY: Diet(strength, 0.0, 1.0),
            Way.MIX: mixed,
            Way.LOOKS: mixed,
            Way.ANSWERS: Diet(strength, 0.6, 0.0, asks_first=True),
        }
        return known.get(self, Diet(strength, 1.0, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """One search for a repair.

    families: conditions that may be trained on; empty: the run's. unseen: groups or conditions that no training sees. judged: conditions
    that judge; empty: all, seen or not. weathers: learned ones that judge. train_weathers: learned ones that are trained on, and do not
    judge. train_share: of the drive by time; the last validation_share of that chooses, the rest of the drive judges. ways, strengths: each
    way with each strength is a candidate; a strength is how many mutants an epoch takes for each clean picture. learning_rates: if
    given, every way and strength is trained with each of them, instead of with learning_rate. repaints: the share of random looks that
    begin with a repaint (`repainting`). looks_each: random looks for each random stimulus. pictures: mutants under random stimuli,
    about; findings and looks come on top. judged_frames: frames under each severity that judges. mirror_choice: whether the stretch that
    chooses has its mirror image beside it, for clean error and response; needs mirror. most_cost: the share by which the clean error may
    rise. seeds: how often the recommended one and the control are trained. half: see `TrainingSettings`.
    """

    families: tuple[str, ...] = ()
    unseen: tuple[str, ...] = UNSEEN
    judged: tuple[str, ...] = ()
    weathers: tuple[str, ...] = ("night", "rain")
    train_weathers: tuple[str, ...] = ()
    train_share: Annotated[float, Within(above=0, below=1)] = 0.6
    validation_share: Annotated[float, Within(above=0, below=1)] = 0.15
    ways: tuple[str, ...] = tuple(way.value for way in Way)
    strengths: tuple[float, ...] = (1.0, 3.0)
    repaints: Annotated[float, Within(least=0, most=1)] = 0.67
    looks_each: Positive = 2.0
    pictures: Count = 4000
    judged_frames: Count = 12
    epochs: Count = 12
    patience: Count = 6
    learning_rate: Positive = 3e-4
    learning_rates: tuple[float, ...] = ()
    batch_size: Count = 64
    mirror: bool = True
    mirror_choice: bool = False
    most_cost: Annotated[float, Within(least=0)] = 0.02
    seeds: Count = 3
    referee: bool = True
    max_findings: Natural = 2000
    seed: int = 0
    device: str = "cpu"
    threads: Count = 1
    half: bool = False

    def __post_init__(self) -> None:
        check(self, BadParametersError)
        for way in self.ways:
            if way not in {one.value for one in Way}:
                raise UnknownNameError.among("way to repair", way, [one.value for one in Way])
        both = sorted({*self.weathers} & {*self.train_weathers})
        if both:
            raise BadParametersError(
                f"a weather that is trained on cannot judge a repair; got {', '.join(both)} as both: name others that judge (--weathers, "
                "which is night,rain by default), or none"
            )
        for name, values in (("way", self.ways), ("strength", self.strengths)):
            if not values:
                raise BadParametersError(f"a repair needs at least one {name}; got none: see --{name}s")
        if min(self.strengths) <= 0:
            raise BadParametersError(f"strengths must be above 0; got {shown(self.strengths)}")
        if min(self.learning_rates, default=1.0) <= 0:
            raise BadParametersError(f"learning rates must be above 0; got {shown(self.learning_rates)}")
        names = [each.name for each in self.candidates(self.ways)]
        if len({*names}) < len(names):
            raise BadParametersError(
                f"name each way, strength and learning rate once; got the ways {shown(self.ways)}, the strengths {shown(self.strengths)} "
                f"and the learning rates {shown(self.learning_rates)}"
            )
        if self.mirror_choice and not self.mirror:
            raise BadParametersError("mirror_choice chooses by mirrored pictures, and mirror is off; turn mirror on, or mirror_choice off")

    def candidates(self, ways: Sequence[str]) -> list[Candidate]:
        """Returns a candidate for each way, strength and learning rate."""
        rates = self.learning_rates or (None,)
        return [Candidate(way, strength, self.seed, rate) for way in ways for strength in self.strengths for rate in rates]

    def training(self, candidate: Candidate) -> TrainingSettings:
        """Returns how a candidate is trained."""
        return TrainingSettings(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=candidate.learning_rate or self.learning_rate,
            patience=self.patience,
            mirror=self.mirror,
            seed=candidate.seed,
            device=self.device,
            threads=self.threads,
            half=self.half,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Aim:
    """A limit to reach: a severity of a condition, and the value that is to hold."""

    row: LimitRow
    value: float

    @property
    def share(self) -> float:
        """How far along from harmless to worst the value lies."""
        return self.row.severity.share(self.value)

    def __str__(self) -> str:
        return f"{self.row.name} to {self.value:g} {self.row.severity.unit}".strip()


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is repaired, on what, and what counts as a failure. findings: frames of the drive with the recipes that failed on them.

    wanted: the conditions that a run tried; empty for all. judge: the referee, None where it is not asked. pool: a folder of rendered
    pictures that several repairs share; None for one of its own.
    """

    subject: NetworkSubject
    drive: Drive
    relation: Relation
    findings: tuple[tuple[int, Recipe], ...] = ()
    wanted: tuple[str, ...] = ()
    judge: Judge | None = None
    aim: Aim | None = None
    loss: Loss | None = None
    step: OwnStep | None = None
    pool: Path | None = None

    def __post_init__(self) -> None:
        if self.loss is not None and self.step is not None:
            raise BadParametersError("a training step returns its own loss; give a repair `loss` or `step`, not both")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way at one strength. learning_rate: its own, where the search tries several; None for the search's."""

    way: str
    strength: float
    seed: int
    learning_rate: float | None = None

    @property
    def name(self) -> str:
        """As its files are called."""
        rate = "" if self.learning_rate is None else f"-rate{self.learning_rate:g}"
        return f"{self.way}-{self.strength:g}{rate}-seed{self.seed}"

    @property
    def control(self) -> Candidate:
        """What it is compared with: trained for as many steps at the same learning rate, without mutants."""
        return replace(self, way=CONTROL)


@dataclass(frozen=True, slots=True)
class TrainedEpoch:
    """What the best of the epochs that count reached on the validation stretch, before its weights went back towards the start's.

    The start itself, epoch 0, is not among them.
    """

    epoch: int
    clean_rmse_rad: float
    stressed_rms_rad: float
    failure_rate: float
    response: float


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained candidate and its errors on the validation stretch. best_epoch: 0 where no epoch was better than the start.

    blend: how far its weights lie on the way from the start's to those of the best epoch. response: see `lessons.Validation`.
    reached: what training reached; None where nobody noted it down.
    """

    candidate: Candidate
    clean_rmse_rad: float
    stressed_rms_rad: float
    failure_rate: float
    best_epoch: int
    epochs: int
    weights: str
    blend: float = 1.0
    response: float = nan
    reached: TrainedEpoch | None = None

    @classmethod
    def read(cls, text: str) -> Trained:
        """Reads what was written of a candidate."""
        stored = json.loads(text)
        reached = stored.get("reached")
        return cls(
            **{**stored, "candidate": Candidate(**stored["candidate"]), "reached": None if reached is None else TrainedEpoch(**reached)}
        )


def is_flat(trained: Trained | TrainedEpoch, before: Trained) -> bool:
    """Whether a network steers clearly less into bends than before: one that always answers the same never fails, and is no repair."""
    return before.response > 0.0 and trained.response < KEPT_RESPONSE * before.response


def badness(trained: Trained) -> tuple[float, float]:
    """Returns what candidates are ordered by, the best first: failures, and then the error under stress."""
    return trained.failure_rate, trained.stressed_rms_rad


@dataclass(frozen=True, slots=True)
class Rate:
    """How one network fares on one set of pictures that no training saw; a clean set has no failures."""

    pictures: int
    failures: int
    rmse_rad: float
    moved_rms_rad: float

    @classmethod
    def of(cls, failures: int, error_rad: FloatArray, moved_rad: FloatArray) -> Rate:
        """Sums up the pictures that count, (N,) each: how far answers lie from the labels, and from those on the unchanged pictures."""
        return cls(len(error_rad), failures, *(float(np.sqrt(np.mean(each**2))) if len(each) else nan for each in (error_rad, moved_rad)))

    @classmethod
    def pooled(cls, rates: Sequence[Rate]) -> Rate:
        """Sums up several sets as one."""
        pictures = sum(rate.pictures for rate in rates)
        rmse_rad, moved_rad = (
            (sum(getattr(rate, name) ** 2 * rate.pictures for rate in rates if rate.pictures) / max(pictures, 1)) ** 0.5
            for name in ("rmse_rad", "moved_rms_rad")
        )
        return cls(pictures, sum(rate.failures for rate in rates), rmse_rad, moved_rad)

    @property
    def failure_rate(self) -> float:
        """The share that fails."""
        return self.failures / self.pictures if self.pictures else float("nan")


CLEAN, SEEN, UNSEEN_SET = "clean", "seen families", "unseen families"


def check_labels(subject: NetworkSubject, drive: Drive) -> tuple[str, ...]:
    """Refuses labels that are hardly in the network's unit or sign; returns what else is odd about them."""
    known = np.flatnonzero(np.isfinite(drive.steering_rad))
    places = known[np.linspace(0, len(known) - 1, min(64, len(known))).round().astype(np.int64)]
    lead = subject.lead
    answers = np.concatenate([subject.predict(drive.read([place], lead=lead).clip)[:, _steering(subject)] for place in places.tolist()])
    labels = drive.steering_rad[places]
    if not np.isfinite(answers).all():
        hint = "check its weights" if subject.description.file == IN_MEMORY else "see `skidpad inspect`"
        raise BadSubjectError(f"{subject.description.name!r} has no finite steering on some unchanged frames; {hint}")
    wide, said = (float(np.quantile(np.abs(each - np.median(each)), 0.9)) for each in (labels, answers))
    if wide == 0.0:
        raise BadDriveError(
            f"every label of the frames to train on is {labels[0]:g} rad, so that there is nothing to learn; check the drive"
        )
    ratio = wide / max(said, 1e-9)
    follows = float(np.corrcoef(labels, answers)[0, 1]) if said > 0.0 else 0.0
    if follows < -_FOLLOWS and len(places) >= _ENOUGH:
        raise BadDriveError(
            f"the labels of {drive.name!r} turn the other way than the answers of {subject.description.name!r} (correlation "
            f"{follows:.2f}); positive is left: turn the labels round with ?sign=-1 (leave it out if it is there), or describe the "
            "output with scale = -1.0"
        )
    if float(np.quantile(np.abs(labels), 0.9)) > _MOST_RAD or (follows > _FOLLOWS and not _LOWEST <= ratio <= _HIGHEST):
        way_out = (
            "degrees read as radians are 57 times too large: open the drive with ?unit=deg"
            if ratio > 1.0
            else "radians read as degrees are 57 times too small: open the drive with ?unit=rad"
        )
        raise BadDriveError(
            f"the labels of {drive.name!r} vary {ratio:.3g} times as much as the answers of {subject.description.name!r}, so that they are "
            f"hardly in its unit; {way_out}"
        )
    evaluate = "skidpad.evaluate(net, drive)" if subject.description.file == IN_MEMORY else "skidpad evaluate"
    if said == 0.0:
        same = (
            f"{subject.description.name!r} answers {float(np.median(answers)):.4g} rad to nearly every unchanged frame, so that there is "
            f"nothing to repair; train it first, or check how its input is described with `{evaluate}`"
        )
        return (same,)
    odd = (
        f"on unchanged frames the answers hardly follow the labels (correlation {follows:.2f}), so that there is little to repair; check "
        f"the unit and the sign of both with `{evaluate}`"
    )
    return (odd,) if follows < _HARDLY else ()


def _steering(subject: NetworkSubject) -> int:
    return int(subject.description.column("steering"))
