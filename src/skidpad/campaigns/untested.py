"""Which frames of a drive went untested, and why: a rate over what is left must say how much that is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skidpad.drives.drive import ProblemKind
from skidpad.drives.readers import SLICING
from skidpad.oracles.relations import LabelMse

if TYPE_CHECKING:
    from skidpad.campaigns.originals import Originals
    from skidpad.campaigns.summary import Summary
    from skidpad.drives.drive import Drive
    from skidpad.oracles.relation import Relation

NO_LABEL, NO_ANSWER = "without a label", "without a finite answer on the original"
NOT_DRAWN, NOT_REACHED = "not drawn by the search", "not reached yet"


@dataclass(frozen=True, slots=True)
class Untested:
    """How many frames were judged, of how many. reasons: why the others were not, with how many; most first."""

    judged: int
    frames: int
    reasons: tuple[tuple[str, int], ...]

    @property
    def is_damage(self) -> bool:
        """Whether something is wrong with frames or answers; else the search left them out by its plan."""
        return any(why not in {NOT_DRAWN, NOT_REACHED} for why, _ in self.reasons)


def untested_frames(summary: Summary, originals: Originals, drive: Drive, relation: Relation, *, finished: bool) -> Untested:
    """Counts the frames of a drive by what became of them; every frame has one reason."""
    seen = originals.seen
    reasons: Counter[str] = Counter(problem.kind.value for problem in summary.problems)
    if isinstance(relation, LabelMse):
        reasons[NO_LABEL] = int(np.isnan(originals.label[seen]).sum())
    else:
        reasons[NO_ANSWER] = int((~np.isfinite(originals.answer[seen])).sum())
    rest = len(drive) - summary.frames - reasons.total()
    reasons[NOT_DRAWN if finished else NOT_REACHED] = max(rest, 0)
    if not _is_sliced(drive.origin):
        # a slice carries the problems of the whole recording, most of which lie outside it
        unlisted = sum(problem.kind is ProblemKind.UNLISTED for problem in drive.problems)
        reasons[ProblemKind.UNLISTED.value] += unlisted
    frames = len(drive) + reasons[ProblemKind.UNLISTED.value]
    return Untested(summary.frames, frames, tuple((why, number) for why, number in reasons.most_common() if number))


def _is_sliced(origin: str) -> bool:
    return not set(SLICING).isdisjoint(part.partition("=")[0] for part in origin.partition("?")[2].split("&"))
