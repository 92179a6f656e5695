"""What a relation is given and what it answers."""

from dataclasses import dataclass
from typing import Protocol

from skidpad.core.images import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Answers:
    """One output of N cases: on the original, on the mutant, and the human's (NaN: no label); angles in radians."""

    original: FloatArray
    mutant: FloatArray
    label: FloatArray


class Relation(Protocol):
    """A named relation with a tolerance; a report never mixes two of them."""

    @property
    def name(self) -> str:
        """The registry name."""
        ...

    def excess(self, answers: Answers) -> FloatArray:
        """Returns how bad each case is, (N,): the error divided by the tolerated one where there is one; above 1 is a violation.

        Infinite where the mutant's answer is not finite; NaN where the case cannot be judged (no label, say).
        """
        ...


def violated(relation: Relation, answers: Answers) -> BoolArray:
    """Tells which cases break the relation; a case that cannot be judged does not."""
    return relation.excess(answers) > 1.0


def fails_unchanged(relation: Relation, original: FloatArray, label: FloatArray) -> BoolArray:
    """Tells which frames break the relation as they are, (N,): a finding on one of them need not be the stimulus's fault."""
    return violated(relation, Answers(original, original, label))
