"""Frames to a GPU and back, beside the work that it has in hand: copies of frames go through a stream of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch

from skidpad.core.images import BoolArray, FloatArray, Frames, IntArray, NumpyFrames, pixel_hash
from skidpad.core.stimuli import Recipe
from skidpad.oracles.relations import Answers, Relation, violated
from skidpad.referee.word import Reason, Word
from skidpad.runs.records import build_records, no_records

if TYPE_CHECKING:
    from skidpad.coverage.tracker import Activity
    from skidpad.drives.drive import FrameBatch
    from skidpad.referee.verdict import Verdicts

    Words = Callable[[IntArray, NumpyFrames], Verdicts]
    """Asks the referee about mutants, given their places in the batch."""


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
    for place, picture in zip(places.tolist(), shown, strict=True):
        pictures[place] = pixel_hash(picture)
    said: list[str | None] = [None] * len(excess)
    reasons = said.copy()
    if words is not None and len(places):
        verdicts = words(places, np.stack(shown))
        for place, reason in zip(places.tolist(), verdicts.reasons, strict=True):
            said[place], reasons[place] = None if reason is Reason.NO_ROAD else reason.word.value, reason.value or None
        apart = places[[not may_stand(reason) for reason in verdicts.reasons]]
        excess, broken = excess.copy(), broken.copy()
        excess[apart], broken[apart] = np.nan, False
    return Judged(answers, excess, broken, tuple(pictures), tuple(said), tuple(reasons))


class CaseColumns:
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
            return no_records()
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
