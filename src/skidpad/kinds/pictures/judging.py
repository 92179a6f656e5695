"""Judges answers: the output that counts, the answers on originals, the relation, and the table of judged cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from inspect import signature
from math import degrees
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import torch

from skidpad.core.errors import BadRunError, SkidpadError
from skidpad.core.images import BoolArray, Capture, FloatArray, Frames, IntArray, NumpyFrames, pixel_hash
from skidpad.core.stimuli import Recipe
from skidpad.core.units import PlainUnit
from skidpad.drives.drive import capture_at
from skidpad.kinds.kind import MOST
from skidpad.oracles.relations import RELATIONS, Answers, AnswersAlike, DecidesAlike, LabelMse, Relation, SteersAlike, SteersRight, violated
from skidpad.referee.verdict import Reason, Verdicts, Word
from skidpad.runs.records import ORIGINALS, SCHEMA, build_records
from skidpad.subjects.description import STEERING

if TYPE_CHECKING:
    from skidpad.coverage.tracker import Activity
    from skidpad.drives.drive import FrameBatch

    Words = Callable[[IntArray, Frames, Sequence[NumpyFrames]], Verdicts]
    "Judges the mutants at these places. It takes the whole batch of mutants, which may lie on a device, and those at the places as NumPy."
    from skidpad.drives.drive import Drive
    from skidpad.kinds.pictures.settings import DeepTestSettings
    from skidpad.runs.folder import Run
    from skidpad.subjects.description import Description, Output

_EDGES_DEG = tuple(float(edge) for edge in (0, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 40, 60, 90, 180))
_EDGES_SHARE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_EDGES_PLAIN = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, slots=True)
class JudgedOutput:
    """One output and its column among the subject's answers; angles are radians in a run, degrees where they are shown."""

    column: int
    output: Output

    @classmethod
    def of(cls, description: Description, name: str) -> JudgedOutput:
        """Looks the output up by name."""
        column = description.column(name)
        return cls(column, description.outputs[column])

    @property
    def name(self) -> str:
        """The name that the description gives it."""
        return self.output.name

    @property
    def is_steering(self) -> bool:
        """Whether drives have labels of it."""
        return self.output.name == STEERING

    @property
    def stored_unit(self) -> str:
        """The unit of the numbers in the records: rad for angles; empty where the description has none."""
        if self.output.is_angle:
            return "rad"
        return self.output.unit.value if self.output.unit is not None else ""

    @property
    def shown_unit(self) -> str:
        """The unit of the numbers that are printed: deg for angles; empty where the description has none."""
        return "deg" if self.output.is_angle else self.stored_unit

    def shown(self, value: float) -> float:
        """Returns a stored number as it is printed."""
        return degrees(value) if self.output.is_angle else value

    @property
    def edges(self) -> tuple[float, ...]:
        """Edges of the histogram of |mutant - original|, as shown: fine where relations are drawn, coarse where answers are absurd."""
        if self.output.is_angle:
            return _EDGES_DEG
        return _EDGES_SHARE if self.output.unit in {PlainUnit.PROBABILITY, PlainUnit.FRACTION} else _EDGES_PLAIN


@dataclass(frozen=True, slots=True)
class Originals:
    """Answers and labels by frame index, NaN where there is none, and which frames could be read; 17 bytes a frame are kept whole."""

    answer: FloatArray
    label: FloatArray
    seen: BoolArray

    @classmethod
    def of(cls, run: Run, frames: int) -> Self:
        """Reads the phase from a run over a drive of `frames` frames, or of more where the drive is no longer whole."""
        tables = list(run.iter_records(ORIGINALS, ("frame_index", "original", "label")))
        places = [table["frame_index"].to_numpy() for table in tables if table.num_rows]
        first, last = min((int(each.min()) for each in places), default=0), max((int(each.max()) for each in places), default=-1)
        if first < 0 or last >= max(frames, MOST):
            raise BadRunError(
                f"{run.path} has a record of frame {first if first < 0 else last}, which no drive has; restore it from a copy"
            )
        frames = max(frames, last + 1)
        answer, label = np.full(frames, np.nan), np.full(frames, np.nan)
        seen = np.zeros(frames, np.bool_)
        for table in tables:
            index = table["frame_index"].to_numpy()
            answer[index] = table["original"].to_numpy()
            label[index] = table["label"].to_numpy()
            seen[index] = True
        return cls(answer, label, seen)

    @property
    def labelled(self) -> int:
        """How many frames have a label and a finite answer."""
        return int(np.isfinite(self.answer - self.label).sum())

    @property
    def mse_rad2(self) -> float:
        """The mean squared error on the originals, MSE_orig of Eq. 2; NaN without labels."""
        error = self.answer - self.label
        finite = error[np.isfinite(error)]
        return float(np.mean(finite**2)) if len(finite) else float("nan")

    def readable(self, block: range) -> IntArray:
        """Returns the frames of a block, which follow one another, that could be read."""
        return np.flatnonzero(self.seen[block.start : block.stop]) + block.start

    def answers(self, indices: IntArray, mutant: FloatArray) -> Answers:
        """Puts the mutants' answers beside those on their originals."""
        return Answers(self.answer[indices], mutant, self.label[indices])


def frame_again(drive: Drive, index: int, lead: int = 0) -> FrameBatch:
    """Reads a frame of a record, with the `lead` frames before it; refuses a run whose drive has lost it."""
    batch = drive.read([index], lead=lead)
    if not len(batch):
        raise BadRunError(f"the frame can no longer be read: {batch.problems[0]}; put the drive back as it was")
    return batch


def captured(drive: Drive, times_s: FloatArray | None, lead: int = 0) -> Capture | None:
    """Returns how frames of a drive were taken, the first `lead` of them left out; None where nobody says when."""
    return None if times_s is None else capture_at(drive, times_s[lead:])


LAMBDA = 5.0
"""DeepTest's highlighted tolerance (section 5, Table 8)."""

WITHIN_DEG = 10.0
"""DeepRoad's tightest error bound."""

WITHIN_FRACTION = 0.1
"""A tenth of the way of a pedal."""


def default_relation(judged: JudgedOutput, drive: Drive) -> str:
    """Returns the relation that suits an output: Eq. 2 where there are labels, else the answer on the original."""
    if judged.is_steering and drive.has_labels:
        return LabelMse.name
    if judged.output.is_angle:
        return SteersAlike.name
    return DecidesAlike.name if judged.output.unit is PlainUnit.PROBABILITY else AnswersAlike.name


def default_tolerance(relation: str, judged: JudgedOutput) -> float | None:
    """Returns the tolerance of a relation where nobody names one; None for one that has none, or is not ours to know."""
    if relation == AnswersAlike.name and judged.output.unit not in {PlainUnit.FRACTION, PlainUnit.PROBABILITY}:
        unit = judged.shown_unit or "the unit of its answers"
        raise SkidpadError(f"the relation {relation} needs a tolerance for {judged.name!r}; give --within in {unit}")
    return {LabelMse.name: LAMBDA, SteersAlike.name: WITHIN_DEG, SteersRight.name: WITHIN_DEG, AnswersAlike.name: WITHIN_FRACTION}.get(
        relation
    )


def check_relation(relation: str, judged: JudgedOutput, drive: Drive) -> None:
    """Refuses a relation that cannot judge this output on this drive."""
    RELATIONS.get(relation)
    for_angles, for_others = f"use --relation {SteersAlike.name}", f"use --relation {DecidesAlike.name} or {AnswersAlike.name}"
    if relation in {LabelMse.name, SteersRight.name} and not judged.is_steering:
        other = for_angles if judged.output.is_angle else for_others
        raise SkidpadError(
            f"the relation {relation} compares with the human's steering, and drives hold no labels of {judged.name!r}; {other}"
        )
    if relation in {LabelMse.name, SteersRight.name} and not drive.has_labels:
        raise lacks_labels(drive, relation)
    if relation == SteersAlike.name and not judged.output.is_angle:
        raise SkidpadError(f"the relation {relation} takes degrees, and the output {judged.name!r} is no angle; {for_others}")
    if relation in {DecidesAlike.name, AnswersAlike.name} and judged.output.is_angle:
        raise SkidpadError(f"the relation {relation} is for outputs that are no angles, and {judged.name!r} is one; {for_angles}")


def relation_of(settings: DeepTestSettings, judged: JudgedOutput, drive: Drive, originals: Originals) -> Relation:
    """Returns the relation that judges a campaign's answers."""
    name = settings.relation or default_relation(judged, drive)
    if name == DecidesAlike.name:
        return DecidesAlike(threshold=settings.threshold)
    tolerance = default_tolerance(name, judged) if settings.tolerance is None else settings.tolerance
    if name == LabelMse.name:
        if originals.labelled == 0:
            raise lacks_labels(drive)
        return LabelMse(originals.mse_rad2, LAMBDA if tolerance is None else tolerance)
    make = RELATIONS.get(name)
    if tolerance is None:
        return make()
    try:
        signature(make).bind(tolerance)
    except TypeError as error:
        raise SkidpadError(f"the relation {name!r} takes no tolerance, and {tolerance:g} was given; leave it out") from error
    return make(tolerance)


def lacks_labels(drive: Drive, relation: str = LabelMse.name) -> SkidpadError:
    """Says that the relation cannot be used on this drive."""
    return SkidpadError(
        f"the relation {relation} compares with the human's steering, but {drive.name!r} has no frame with a label and a "
        f"finite answer; use --relation {SteersAlike.name}"
    )


def uploaded(frames: NumpyFrames, device: str) -> torch.Tensor:
    """Returns the frames on a device; they are there when this returns."""
    here = torch.from_numpy(frames)
    if not device.startswith("cuda"):
        return here.to(device)
    with torch.cuda.stream(_copying(torch.device(device))):
        there = here.to(device)
    # what is queued on them when they are let go still needs their memory
    there.record_stream(torch.cuda.current_stream(there.device))
    return there


def fetched(frames: Frames, places: IntArray) -> Sequence[NumpyFrames]:
    """Returns some of the frames as NumPy arrays, in one copy; a GPU must have made them already (an answer to them has come)."""
    if isinstance(frames, np.ndarray):
        return [frames[place] for place in places.tolist()]
    if not len(places):
        return []
    chosen = torch.from_numpy(places)
    if not frames.is_cuda:
        return list(frames[chosen.to(frames.device)].cpu().numpy())
    copying = _copying(frames.device)
    with torch.cuda.stream(copying):
        there = frames[chosen.to(frames.device)]
        here = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
        here.copy_(there, non_blocking=True)
        done = copying.record_event()
    done.synchronize()
    return list(here.numpy())


@cache
def _copying(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # torch leaves it untyped


@dataclass(frozen=True, slots=True)
class Judged:
    """N answers with their verdicts; for each violation a picture hash, so that a replay can be checked, and the referee's word."""

    answers: Answers
    excess: FloatArray
    violated: BoolArray
    pictures: tuple[str | None, ...]
    referee: tuple[str | None, ...]
    reasons: tuple[str | None, ...]


def may_stand(reason: Reason) -> bool:
    """Tells whether a mutant may count: the referee kept it, or could not judge it for want of a road in the original."""
    return reason is Reason.NO_ROAD or reason.word is Word.KEPT


def judged(relation: Relation, answers: Answers, mutants: Frames, words: Words | None = None) -> Judged:
    """Judges a batch, and hashes and shows to the referee the pictures of what broke the relation.

    words: the referee; what it does not keep cannot be judged. Without one all counts, and so does what it cannot judge for want of a
    road in the original: a referee that sees nothing must not hide findings.
    """
    excess = relation.excess(answers)
    broken = violated(relation, answers)
    pictures: list[str | None] = [None] * len(excess)
    places = np.flatnonzero(broken)
    shown = fetched(mutants, places)
    # pictures from a GPU are hashed by other threads while the referee is at work
    hashes = map(pixel_hash, shown) if isinstance(mutants, np.ndarray) else _hashing().map(pixel_hash, shown)
    said: list[str | None] = [None] * len(excess)
    reasons = said.copy()
    if words is not None and len(places):
        verdicts = words(places, mutants, shown)
        for place, reason in zip(places.tolist(), verdicts.reasons, strict=True):
            said[place], reasons[place] = None if reason is Reason.NO_ROAD else reason.word.value, reason.value or None
        apart = places[[not may_stand(reason) for reason in verdicts.reasons]]
        excess, broken = excess.copy(), broken.copy()
        excess[apart], broken[apart] = np.nan, False
    for place, digest in zip(places.tolist(), hashes, strict=True):
        pictures[place] = digest
    return Judged(answers, excess, broken, tuple(pictures), tuple(said), tuple(reasons))


@cache
def _hashing() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, "skidpad-hash")


class CaseTable:
    """Collects batches of cases and builds the table of a shard."""

    def __init__(self, *, keep_activations: bool) -> None:
        self._keep_activations = keep_activations
        self._cases: list[Judged] = []
        self._recipes: list[Recipe] = []
        self._indices: list[IntArray] = []
        self._frame_ids: list[str] = []
        self._active: list[np.ndarray] = []
        self._packed: list[bytes] = []

    def add(self, cases: Judged, recipes: Sequence[Recipe], indices: IntArray, frame_ids: Sequence[str], activity: Activity) -> None:
        """Takes one batch of judged mutants."""
        self._cases.append(cases)
        self._recipes.extend(recipes)
        self._indices.append(indices)
        self._frame_ids.extend(frame_ids)
        self._active.append(activity.active_neurons)
        if activity.packed is not None:
            self._packed.extend(row.tobytes() for row in activity.packed)

    def add_originals(self, batch: FrameBatch, answers: FloatArray, labels: FloatArray, activity: Activity) -> None:
        """Takes frames as they are: an answer compared with itself, which no relation judges."""
        nothing = np.full(len(batch), np.nan)
        none = (None,) * len(batch)
        cases = Judged(Answers(answers, answers, labels), nothing, np.zeros(len(batch), np.bool_), none, none, none)
        self.add(cases, [Recipe()] * len(batch), batch.indices, batch.frame_ids, activity)

    def table(self) -> pa.Table:
        """Builds the records."""
        if not self._cases:
            return SCHEMA.empty_table()
        return build_records(
            frame_index=np.concatenate(self._indices),
            frame_ids=self._frame_ids,
            recipes=self._recipes,
            label=np.concatenate([cases.answers.label for cases in self._cases]),
            original=np.concatenate([cases.answers.original for cases in self._cases]),
            mutant=np.concatenate([cases.answers.mutant for cases in self._cases]),
            excess=np.concatenate([cases.excess for cases in self._cases]),
            violated=np.concatenate([cases.violated for cases in self._cases]),
            active_neurons=np.concatenate(self._active),
            picture=[picture for cases in self._cases for picture in cases.pictures],
            activated=self._packed if self._keep_activations else None,
            referee=[word for cases in self._cases for word in cases.referee],
            reason=[reason for cases in self._cases for reason in cases.reasons],
        )
