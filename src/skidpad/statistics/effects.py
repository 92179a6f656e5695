"""Effect sizes (A12, Cohen's d) with the words that papers use for them, and distances between sets of neurons."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from math import copysign, inf, isnan, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.statistics.ranks import RankTest, mann_whitney, midranks


class Magnitude(Enum):
    """How large an effect is, in words."""

    NEGLIGIBLE = "negligible"
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"
    UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect size with its word; NaN and `undefined`, and `note` says why, where there is none."""

    size: float
    magnitude: Magnitude
    n: int
    m: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class DirectionTest:
    """Whether a figure differs between pictures steered to the positive and to the negative side.

    verdict: `positive > negative`, `positive < negative` or `not significant`, at `alpha`.
    """

    positive: int
    negative: int
    test: RankTest
    effect: Effect
    alpha: float
    verdict: str


def a12(first: ArrayLike, second: ArrayLike) -> Effect:
    """Returns Vargha and Delaney's A12: the chance that a value of the first sample is larger, ties counting half.

    0.5 is no effect; from 0.56, 0.64 and 0.71 on (or as far below 0.5) it is small, medium and large. NaN is left out.

    Reference: TACTIC, section 4.2; the adversarial paper, Table I. Bounds: Vargha and Delaney (2000).
    """
    a, b = _sample(first), _sample(second)
    n, m = len(a), len(b)
    if n == 0 or m == 0:
        return Effect(nan, Magnitude.UNDEFINED, n, m, "a sample is empty")
    ranks = midranks(np.concatenate([a, b]))
    size = float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))
    # rounded, because 0.56 - 0.5 is a little more than 0.06, and 0.5 - 0.44 a little less
    return Effect(size, _word(round(abs(size - 0.5), 12), (0.06, 0.14, 0.21)), n, m)


def cohens_d(first: ArrayLike, second: ArrayLike) -> Effect:
    """Returns Cohen's d: the difference of means (first - second) in pooled standard deviations.

    Below 0.2 it is negligible, from there small, from 0.5 medium, from 0.8 large. Two different constants are infinitely
    far apart; two equal ones not at all. NaN is left out.

    Reference: DeepTest, Table 5 and Figure 5.
    """
    a, b = _sample(first), _sample(second)
    n, m = len(a), len(b)
    if n == 0 or m == 0:
        return Effect(nan, Magnitude.UNDEFINED, n, m, "a sample is empty")
    if n + m < 3:
        return Effect(nan, Magnitude.UNDEFINED, n, m, "two values have no spread")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return Effect(nan, Magnitude.UNDEFINED, n, m, "a value is infinite")
    distance = float(a.mean() - b.mean())
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        if a[0] == b[0]:
            return Effect(0.0, Magnitude.NEGLIGIBLE, n, m, "both samples are the same constant")
        return Effect(copysign(inf, distance), Magnitude.LARGE, n, m, "both samples are constant")
    squares = float(np.square(a - a.mean()).sum() + np.square(b - b.mean()).sum())
    spread = sqrt(squares / (n + m - 2))
    size = distance / spread if spread > 0 else copysign(inf, distance)
    return Effect(size, _word(abs(size), (0.2, 0.5, 0.8)), n, m)


def compare_directions(figure: ArrayLike, steering_rad: ArrayLike, alpha: float = 0.05) -> DirectionTest:
    """Compares a figure of each picture, its activated neurons say, between the two sides that it is steered to.

    figure, steering_rad: (N,). Pictures steered straight (0) or with NaN belong to neither side. The sign is the drive's
    own: Udacity's positive is left.

    Reference: DeepTest, Table 5 (Wilcoxon's rank-sum test and Cohen's d by steering direction).
    """
    values, steering = np.asarray(figure, np.float64), np.asarray(steering_rad, np.float64)
    positive, negative = values[steering > 0], values[steering < 0]
    test = mann_whitney(positive, negative)
    verdict = "not significant"
    if not isnan(test.p_value) and test.p_value < alpha:
        verdict = "positive > negative" if test.statistic > test.n * test.m / 2 else "positive < negative"
    return DirectionTest(test.n, test.m, test, cohens_d(positive, negative), alpha, verdict)


def _word(size: float, bounds: tuple[float, float, float]) -> Magnitude:
    words = (Magnitude.NEGLIGIBLE, Magnitude.SMALL, Magnitude.MEDIUM, Magnitude.LARGE)
    return words[sum(size >= bound for bound in bounds)]


def _sample(values: ArrayLike) -> FloatArray:
    sample = np.asarray(values, np.float64).reshape(-1)
    return sample[~np.isnan(sample)]


PackedBits = NDArray[np.uint8]
"""Bits as of `numpy.packbits` along the last axis; the padding is zero."""

_ONES = np.array([value.bit_count() for value in range(256)], np.uint8)


@dataclass(frozen=True, slots=True)
class PairDistance:
    """Jaccard distances between what two transforms activate on the same pictures, (pictures,)."""

    first: str
    second: str
    distance: FloatArray

    @property
    def median(self) -> float:
        """The median over the pictures; NaN without pictures."""
        return float(np.median(self.distance)) if len(self.distance) else float("nan")


def count_bits(packed: PackedBits) -> IntArray:
    """Returns how many bits are set along the last axis."""
    # numpy.bitwise_count came with NumPy 2, and a table is as fast
    return np.asarray(_ONES[packed].sum(axis=-1, dtype=np.int64))


def jaccard_packed(first: PackedBits, second: PackedBits) -> FloatArray:
    """Returns 1 - |A and B| / |A or B| along the last axis; the other axes broadcast. Two empty sets are equal: 0.

    Reference: DeepTest, section 5 (RQ2), Figure 4.1.
    """
    if first.shape[-1] != second.shape[-1]:
        raise BadParametersError(
            f"sets must have equally many bits, got {first.shape[-1]} and {second.shape[-1]} bytes; compare one subject's"
        )
    both = count_bits(first & second)
    either = count_bits(first | second)
    return np.asarray(1.0 - np.where(either > 0, both / np.maximum(either, 1), 1.0), np.float64)


def transform_distances(names: tuple[str, ...], packed: PackedBits) -> tuple[PairDistance, ...]:
    """Returns the distances of every pair of transforms; packed: (transforms, pictures, bytes)."""
    _check_names(names, packed)
    return tuple(PairDistance(names[i], names[j], jaccard_packed(packed[i], packed[j])) for i, j in combinations(range(len(names)), 2))


def cumulative_counts(names: tuple[str, ...], packed: PackedBits) -> IntArray:
    """Returns how many neurons the first 1, 2, ... transforms activate together on each picture, (transforms, pictures).

    Reference: DeepTest, section 5 (RQ2), Figure 4.2.
    """
    _check_names(names, packed)
    return count_bits(np.bitwise_or.accumulate(packed, axis=0))


def _check_names(names: tuple[str, ...], packed: PackedBits) -> None:
    if packed.ndim != 3 or len(names) != len(packed):
        raise BadParametersError(f"{len(names)} transforms need bits of shape ({len(names)}, pictures, bytes), got {packed.shape}")
