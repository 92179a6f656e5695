"""Metamorphic relations: steers-alike, steers-right, label-mse (DeepTest's Eq. 2), decides-alike, answers-alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, nextafter, radians
from typing import ClassVar, Protocol

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray
from skidpad.core.registry import Registry


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

    def excess(self, answers: Answers) -> FloatArray:
        """Returns how bad each case is, (N,): the error divided by the tolerated one where there is one; above 1 is a violation.

        Infinite where the mutant's answer is not finite; NaN where the case cannot be judged (no label, say).
        """


def violated(relation: Relation, answers: Answers) -> BoolArray:
    """Tells which cases break the relation; a case that cannot be judged does not."""
    return relation.excess(answers) > 1.0


def fails_unchanged(relation: Relation, original: FloatArray, label: FloatArray) -> BoolArray:
    """Tells which frames break the relation as they are, (N,): a finding on one of them need not be the stimulus's fault."""
    return violated(relation, Answers(original, original, label))


RELATIONS: Registry[Callable[..., Relation]] = Registry("relation", "relations", ())


def excess_of(error: FloatArray, tolerated: float, mutant: FloatArray) -> FloatArray:
    """Divides errors by the largest tolerated one; infinite where the mutant's answer is not finite, (N,).

    Above 1 exactly where error > tolerated, also where nothing is tolerated and where the quotient overflows.
    """
    if tolerated > 0:
        with np.errstate(over="ignore", invalid="ignore"):
            excess = np.asarray(error / tolerated, np.float64)
    else:
        excess = np.where(error > 0, inf, error)
    return np.where(np.isfinite(mutant), excess, inf)


@RELATIONS.register("steers-alike")
@dataclass(frozen=True, slots=True)
class SteersAlike:
    """The mutant must be steered as the original was: |mutant - original| < within_deg; for any angle.

    A case whose original answer is not finite cannot be judged. A difference of exactly `within_deg` is a violation, so
    the largest tolerated one is the next smaller float, and `excess` is above 1 exactly where the relation breaks.

    Reference: TACTIC, section 3.2.2; DeepRoad's bounds of 10, 20, 30 and 40 degrees.
    """

    within_deg: float = 10.0

    name: ClassVar[str] = "steers-alike"

    def __post_init__(self) -> None:
        if not (isfinite(self.within_deg) and self.within_deg > 0):
            raise BadParametersError(f"relation 'steers-alike' takes within_deg above 0, got {self.within_deg!r}; the papers use 10 to 40")

    @property
    def tolerated_rad(self) -> float:
        """The largest difference that still holds, in radians."""
        return nextafter(radians(self.within_deg), 0.0)

    def excess(self, answers: Answers) -> FloatArray:
        """Returns the difference divided by the tolerated one, (N,)."""
        return excess_of(deviation(answers), self.tolerated_rad, answers.mutant)


@RELATIONS.register("steers-right")
@dataclass(frozen=True, slots=True)
class SteersRight(SteersAlike):
    """The mutant must be steered as the human did, or as the original was: a finding is `within_deg` or more away from both.

    So the answer is wrong and the stimulus made it so. A frame without a label, or on which the answer is wrong as it is, cannot be
    judged: what happens there is not the stimulus's doing.
    """

    name: ClassVar[str] = "steers-right"

    def excess(self, answers: Answers) -> FloatArray:
        """Returns the smaller of the two differences divided by the tolerated one, (N,)."""
        wrong, wrong_before = (np.abs(said - answers.label) for said in (answers.mutant, answers.original))
        excess = excess_of(np.minimum(wrong, deviation(answers)), self.tolerated_rad, answers.mutant)
        return np.where(wrong_before <= self.tolerated_rad, excess, np.nan)


@RELATIONS.register("label-mse")
@dataclass(frozen=True, slots=True)
class LabelMse:
    """The mutant's squared error against the label must be within lambda times the originals' mean: Eq. 2.

    A case without a label cannot be judged. The relation has no unit: lambda is a pure number.

    Reference: DeepTest, section 3.4, Eq. 2; lambda = 5 in its section 5 (RQ4).
    """

    mse_original_rad2: float
    lambda_: float = 5.0

    name: ClassVar[str] = "label-mse"

    def __post_init__(self) -> None:
        if not (isfinite(self.lambda_) and self.lambda_ > 0):
            raise BadParametersError(f"relation 'label-mse' takes lambda_ above 0, got {self.lambda_!r}; the paper uses 1 to 10")
        if not (isfinite(self.mse_original_rad2) and self.mse_original_rad2 >= 0):
            raise BadParametersError(
                f"relation 'label-mse' needs the mean squared error on the originals, got {self.mse_original_rad2!r} rad^2; "
                "use a drive with labels and a subject that answers with numbers, or the relation 'steers-alike'"
            )

    @property
    def tolerated_rad2(self) -> float:
        """The largest squared error that still holds, in square radians."""
        return self.lambda_ * self.mse_original_rad2

    def excess(self, answers: Answers) -> FloatArray:
        """Returns the squared error divided by the tolerated one, (N,)."""
        return excess_of(squared_error_rad2(answers), self.tolerated_rad2, answers.mutant)


@RELATIONS.register("decides-alike")
@dataclass(frozen=True, slots=True)
class DecidesAlike:
    """The mutant must be decided as the original was: both answers reach the threshold, or neither; for brakes, collisions.

    There is no tolerated error, so `excess` is 1 + |mutant - original| where the decisions differ, and the widest moves come
    first; elsewhere it is the move, at most 1. A case whose original answer is not finite cannot be judged.

    Reference: TACTIC, section 3.2.2: braking is a truth value, and the two must not differ.
    """

    threshold: float = 0.5

    name: ClassVar[str] = "decides-alike"

    def __post_init__(self) -> None:
        if not isfinite(self.threshold):
            raise BadParametersError(f"relation 'decides-alike' takes a finite threshold, got {self.threshold!r}; 0.5 suits a probability")

    def excess(self, answers: Answers) -> FloatArray:
        """Returns 1 + the move where the decisions differ, else the move up to 1, (N,)."""
        move = deviation(answers)
        differ = (answers.original >= self.threshold) != (answers.mutant >= self.threshold)
        # a move too small to be seen beside 1 still is a violation
        broken = np.maximum(1.0 + move, nextafter(1.0, inf))
        excess = np.where(differ, broken, np.minimum(move, 1.0))
        unjudged = np.where(np.isfinite(answers.original), excess, np.nan)
        return np.where(np.isfinite(answers.mutant), unjudged, inf)


@RELATIONS.register("answers-alike")
@dataclass(frozen=True, slots=True)
class AnswersAlike:
    """The mutant must be answered as the original was: |mutant - original| < within, in the unit of the output.

    As `steers-alike`, for outputs that are no angles: a throttle, a speed.
    """

    within: float

    name: ClassVar[str] = "answers-alike"

    def __post_init__(self) -> None:
        if not (isfinite(self.within) and self.within > 0):
            raise BadParametersError(f"relation 'answers-alike' takes `within` above 0 in the output's unit, got {self.within!r}")

    def excess(self, answers: Answers) -> FloatArray:
        """Returns the difference divided by the tolerated one, (N,)."""
        return excess_of(deviation(answers), nextafter(self.within, 0.0), answers.mutant)


def deviation(answers: Answers) -> FloatArray:
    """Returns |mutant - original|, (N,): infinite where the mutant's is not finite, else NaN where the original's is not."""
    original = np.where(np.isfinite(answers.original), answers.original, np.nan)
    return _distance(answers.mutant, original)


def squared_error_rad2(answers: Answers) -> FloatArray:
    """Returns (mutant - label)^2, (N,): infinite where the mutant's answer is not finite, else NaN without a label."""
    label = np.where(np.isfinite(answers.label), answers.label, np.nan)
    with np.errstate(over="ignore"):
        return np.square(_distance(answers.mutant, label))


def _distance(mutant: FloatArray, reference_rad: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(np.asarray(mutant, np.float64) - reference_rad)
    return np.where(np.isfinite(mutant), distance, inf)
