"""Computing a record again from its recipe, to see whether it still holds."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import isnan

import numpy as np

from skidpad.core.images import FloatArray, NumpyFrames, pixel_hash
from skidpad.core.stimuli import Recipe
from skidpad.oracles.relation import Answers, Relation
from skidpad.runs.manifest import Manifest, VersionChange
from skidpad.runs.records import Record

DEFAULT_TOLERANCE_RAD = 1e-4
"""Batches of another size and other machines round differently; 0.006 degrees is far below any relation's tolerance."""


class PictureMatch(Enum):
    """How the mutant's pixels compare with those of the run."""

    SAME = "same"
    DIFFERENT = "different"
    NOT_STORED = "not stored"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A record and what computing it again gave; angles in radians."""

    record: Record
    picture: PictureMatch
    picture_again: str
    original_rad: float
    mutant_rad: float
    excess: float
    violated: bool
    version_changes: tuple[VersionChange, ...]

    @property
    def same_verdict(self) -> bool:
        """Whether the case is judged as it was."""
        return self.violated == self.record.violated

    @property
    def answer_change_rad(self) -> float:
        """The larger change of the two answers; infinite where one of them became or ceased to be a number."""
        pairs = ((self.original_rad, self.record.original_rad), (self.mutant_rad, self.record.mutant_rad))
        return max(_change(again, stored) for again, stored in pairs)

    def is_reproduced(self, tolerance_rad: float = DEFAULT_TOLERANCE_RAD) -> bool:
        """Tells whether picture, answers and verdict are those of the run."""
        return self.picture is not PictureMatch.DIFFERENT and self.same_verdict and self.answer_change_rad <= tolerance_rad


def replay(
    record: Record,
    manifest: Manifest,
    render: Callable[[str, Recipe], NumpyFrames],
    predict: Callable[[NumpyFrames], FloatArray],
    relation: Relation,
) -> ReplayResult:
    """Renders original and mutant, asks for both answers and judges them again.

    render: (frame id, recipe) to one frame (height, width, 3). predict: frames (N, height, width, 3) to (N,) radians.
    """
    original = render(record.frame_id, Recipe())
    mutant = render(record.frame_id, record.recipe)
    # One frame a call: a relation may one day compare frames of different sizes, and two frames cost nothing.
    original_rad, mutant_rad = (float(predict(frame[np.newaxis])[0]) for frame in (original, mutant))
    answers = Answers(np.array([original_rad]), np.array([mutant_rad]), np.array([record.label_rad]))
    excess = float(relation.excess(answers)[0])
    picture_again = pixel_hash(mutant)
    return ReplayResult(
        record=record,
        picture=_match(record.picture, picture_again),
        picture_again=picture_again,
        original_rad=original_rad,
        mutant_rad=mutant_rad,
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
