"""Computing a record again from its recipe, to see whether it still holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import isnan
from pathlib import Path

import numpy as np

from skidpad.core.images import NumpyFrames, pixel_hash
from skidpad.core.stimuli import Recipe
from skidpad.oracles.relations import Answers, Relation
from skidpad.runs.manifest import PROCESSOR, ROUNDING, Manifest, VersionChange
from skidpad.runs.records import Record

DEFAULT_TOLERANCE = 1e-4
"""A frame asked alone is rounded otherwise than in the batch of the run; 0.006 degrees is far below any relation's tolerance."""

ELSEWHERE_TOLERANCE = 2e-3
"""On another processor a picture may differ by a level of 255 here and there as well."""


class ReplayOutcome(Enum):
    """How a case computed again compares with the run."""

    IDENTICAL = "identical"
    WITHIN_BOUND = "within bound"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Whether a case computed again is the one of the run, and in what words.

    differences: what is not the same to the last bit. is_near: whether that is within `bound`, which counts where something rounds
    otherwise than in the run: another processor, other libraries, or what `rounds` says, "" for nothing.
    """

    differences: tuple[str, ...]
    is_near: bool
    bound: str
    changes: tuple[VersionChange, ...]
    rounds: str = ""

    @property
    def outcome(self) -> ReplayOutcome:
        """One of three answers; a replay that is within the bound without a cause for it is different."""
        if not self.differences:
            return ReplayOutcome.IDENTICAL
        return ReplayOutcome.WITHIN_BOUND if self.is_near and self._cause else ReplayOutcome.DIFFERENT

    @property
    def is_reproduced(self) -> bool:
        """Whether the case is the same, or near enough."""
        return self.outcome is not ReplayOutcome.DIFFERENT

    @property
    def said(self) -> str:
        """The outcome in one line."""
        if self.outcome is ReplayOutcome.IDENTICAL:
            return "reproduced: identical"
        if self.outcome is ReplayOutcome.WITHIN_BOUND:
            return f"reproduced within {self.bound}, {self._cause}"
        return f"NOT reproduced: {', '.join(self.differences)}"

    @property
    def _cause(self) -> str:
        changed = {change.part: change for change in self.changes if change.part in ROUNDING}
        if PROCESSOR in changed:
            return f"on another processor: {changed[PROCESSOR].then} in the run, {changed[PROCESSOR].now} now"
        return f"with another {', '.join(changed)}" if changed else self.rounds


@dataclass(frozen=True, slots=True)
class Replayed:
    """A case computed again, for any reader.

    rows: a name, the value in the run, and the value now. figures: the same for programs. remarks: what to know before comparing.
    pictures: the files that were drawn.
    """

    title: str
    rows: tuple[tuple[str, object, object], ...]
    figures: Mapping[str, object]
    reproduction: Reproduction
    remarks: tuple[str, ...] = ()
    pictures: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Returns what a program reads."""
        found = self.reproduction
        return {
            **self.figures,
            "replay": found.outcome.value,
            "reproduced": found.is_reproduced,
            "said": found.said,
            "differences": list(found.differences),
            "version_changes": [str(change) for change in found.changes],
        }


class PictureMatch(Enum):
    """How the mutant's pixels compare with those of the run."""

    SAME = "same"
    DIFFERENT = "different"
    NOT_STORED = "not stored"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A record and what computing it again gave; answers in the unit of the record's."""

    record: Record
    picture: PictureMatch
    picture_again: str
    original: float
    mutant: float
    excess: float
    violated: bool
    version_changes: tuple[VersionChange, ...]

    @property
    def same_verdict(self) -> bool:
        """Whether the case is judged as it was; one that was not judged has no verdict to differ from."""
        return isnan(self.record.excess) or self.violated == self.record.violated

    @property
    def answer_change(self) -> float:
        """The larger change of the two answers; infinite where one of them became or ceased to be a number."""
        pairs = ((self.original, self.record.original), (self.mutant, self.record.mutant))
        return max(_change(again, stored) for again, stored in pairs)

    def reproduction(self, tolerance: float = DEFAULT_TOLERANCE, redrawn: str = "") -> Reproduction:
        """Compares picture, answers and verdict; another processor or library may also draw another picture, within its own bound.

        redrawn: why the same machine may draw another picture as well, within the tolerance; "" where it may not.
        """
        elsewhere = any(change.part in ROUNDING for change in self.version_changes)
        bound = max(tolerance, ELSEWHERE_TOLERANCE) if elsewhere else tolerance
        same_picture = self.picture is not PictureMatch.DIFFERENT
        same = {"picture": same_picture, "answers": self.answer_change == 0.0, "verdict": self.same_verdict}
        return Reproduction(
            differences=tuple(name for name, is_same in same.items() if not is_same),
            is_near=(same_picture or elsewhere or bool(redrawn)) and self.same_verdict and self.answer_change <= bound,
            bound=f"{bound:g} of each answer",
            changes=self.version_changes,
            rounds=redrawn or "asked alone instead of in a batch",
        )

    def is_reproduced(self, tolerance: float = DEFAULT_TOLERANCE) -> bool:
        """Tells whether picture, answers and verdict are those of the run."""
        return self.reproduction(tolerance).is_reproduced


def replay(
    record: Record,
    manifest: Manifest,
    render: Callable[[str, Recipe], NumpyFrames],
    predict: Callable[[str, Recipe], float],
    relation: Relation,
) -> ReplayResult:
    """Renders the mutant, asks for the answers on original and mutant and judges them again.

    render: (frame id, recipe) to one frame (height, width, 3). predict: the same to the subject's answer on that frame.
    """
    original, mutant = (predict(record.frame_id, recipe) for recipe in (Recipe(), record.recipe))
    excess = float(relation.excess(Answers(np.array([original]), np.array([mutant]), np.array([record.label])))[0])
    picture_again = pixel_hash(render(record.frame_id, record.recipe))
    return ReplayResult(
        record=record,
        picture=_match(record.picture, picture_again),
        picture_again=picture_again,
        original=original,
        mutant=mutant,
        excess=excess,
        violated=excess > 1.0,
        version_changes=manifest.changes(),
    )


def _match(stored: str | None, again: str) -> PictureMatch:
    if stored is None:
        return PictureMatch.NOT_STORED
    return PictureMatch.SAME if stored == again else PictureMatch.DIFFERENT


def _change(again: float, stored: float) -> float:
    if again == stored or (isnan(again) and isnan(stored)):
        return 0.0
    change = abs(again - stored)
    return float("inf") if isnan(change) else change
