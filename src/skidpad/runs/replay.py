"""Computing a record again from its recipe, to see whether it still holds."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import isnan

import numpy as np

from skidpad.core.images import NumpyFrames, pixel_hash
from skidpad.core.stimuli import Recipe
from skidpad.oracles.relation import Answers, Relation
from skidpad.runs.manifest import Manifest, VersionChange
from skidpad.runs.records import Record

DEFAULT_TOLERANCE = 1e-4
"""Batches of another size and other machines round differently; 0.006 degrees is far below any relation's tolerance."""


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
        """Whether the case is judged as it was."""
        return self.violated == self.record.violated

    @property
    def answer_change(self) -> float:
        """The larger change of the two answers; infinite where one of them became or ceased to be a number."""
        pairs = ((self.original, self.record.original), (self.mutant, self.record.mutant))
        return max(_change(again, stored) for again, stored in pairs)

    def is_reproduced(self, tolerance: float = DEFAULT_TOLERANCE) -> bool:
        """Tells whether picture, answers and verdict are those of the run."""
        return self.picture is not PictureMatch.DIFFERENT and self.same_verdict and self.answer_change <= tolerance


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
