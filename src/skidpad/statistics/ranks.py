"""Rank tests (Mann-Whitney, Wilcoxon, Spearman), effect sizes (A12, Cohen's d) with the words that papers use, and Jaccard distances.

P-values are exact for small samples, ties included, and need no import of scipy.stats, which takes over a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from math import copysign, erfc, inf, isnan, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray

EXACT_UP_TO = 50
"""Samples of so many values together, or so many pairs that differ, get the exact distribution."""


class Alternative(Enum):
    """What the test looks for: any difference, the first sample greater, or the first sample less."""

    TWO_SIDED = "two-sided"
    GREATER = "greater"
    LESS = "less"


@dataclass(frozen=True, slots=True)
class RankTest:
    """The answer of a rank test; `statistic` and `p_value` are NaN, and `note` says why, where there is none.

    statistic: U of the first sample, or the sum of the ranks of positive differences. n, m: values used of each sample,
    or pairs that differ (m = n). method: `exact`, `normal` or `none`.
    """

    statistic: float
    p_value: float
    n: int
    m: int
    method: str
    alternative: Alternative
    note: str = ""


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's rank correlation of `pairs` pairs; NaN, and `note` says why, where it is not defined."""

    rho: float
    p_value: float
    pairs: int
    note: str = ""


def mann_whitney(first: ArrayLike, second: ArrayLike, alternative: Alternative = Alternative.TWO_SIDED) -> RankTest:
    """Tests whether one sample tends to be larger; the same test as Wilcoxon's rank-sum, whose W is this U.

    Ties share their mean rank. Up to `EXACT_UP_TO` values the p-value is that of the permutation distribution of those
    very ranks, so ties are exact as well; above, the normal approximation with corrections for ties and continuity. The
    two-sided p-value is twice the smaller tail, at most 1. NaN is left out, infinities rank.

    Reference: TACTIC, section 4.2, and the adversarial paper, Table I (U); DeepTest, Table 5 (Wilcoxon by direction).
    """
    a, b = numbers_of(first), numbers_of(second)
    n, m = len(a), len(b)
    dropped = np.size(first) + np.size(second) - n - m
    note = f"{dropped} NaN left out" if dropped else ""
    if n == 0 or m == 0:
        return RankTest(nan, nan, n, m, "none", alternative, "a sample is empty")
    ranks = midranks(np.concatenate([a, b]))
    statistic = float(ranks[:n].sum() - n * (n + 1) / 2)
    if n + m <= EXACT_UP_TO:
        doubled = np.rint(2 * ranks).astype(np.int64)
        p_value = _exact(_subset_sums(doubled, n), int(doubled[:n].sum()), alternative)
        return RankTest(statistic, p_value, n, m, "exact", alternative, note)
    _, ties = np.unique(ranks, return_counts=True)
    size = n + m
    spread = sqrt(n * m / 12 * ((size + 1) - _tie_sum(ties) / (size * (size - 1))))
    return RankTest(statistic, _normal(statistic - n * m / 2, spread, alternative), n, m, "normal", alternative, note)


def signed_rank(first: ArrayLike, second: ArrayLike, alternative: Alternative = Alternative.TWO_SIDED) -> RankTest:
    """Tests whether paired values differ, by Wilcoxon's signed ranks of first - second.

    Pairs that are equal are left out, as Wilcoxon did, and so are those with a value that is not finite. Up to
    `EXACT_UP_TO` pairs the p-value is exact, ties included; above, normal with corrections for ties and continuity.

    Reference: DeepTest, section 5 (RQ2: coverage of mutant and seed; RQ4: deviations of I_err and I_org).
    """
    a, b, note = _pairs(first, second)
    difference = a - b
    difference = difference[difference != 0]
    n = len(difference)
    if n == 0:
        return RankTest(nan, 1.0 if len(a) else nan, 0, 0, "none", alternative, "no pair differs" if len(a) else "there are no pairs")
    ranks = midranks(np.abs(difference))
    statistic = float(ranks[difference > 0].sum())
    if n <= EXACT_UP_TO:
        doubled = np.rint(2 * ranks).astype(np.int64)
        p_value = _exact(sign_sums(doubled), int(doubled[difference > 0].sum()), alternative)
        return RankTest(statistic, p_value, n, n, "exact", alternative, note)
    _, ties = np.unique(ranks, return_counts=True)
    spread = sqrt(n * (n + 1) * (2 * n + 1) / 24 - _tie_sum(ties) / 48)
    return RankTest(statistic, _normal(statistic - n * (n + 1) / 4, spread, alternative), n, n, "normal", alternative, note)


def spearman(first: ArrayLike, second: ArrayLike) -> Correlation:
    """Measures how monotone the relation of two paired samples is, in [-1, 1], with a two-sided p-value.

    Ties share their mean rank; pairs with a value that is not finite are left out. The p-value is that of Student's t
    with pairs - 2 degrees of freedom, which is rough below ten pairs.

    Reference: DeepTest, Table 5 (coverage of a picture against its steering angle).
    """
    a, b, note = _pairs(first, second)
    pairs = len(a)
    if pairs < 3:
        return Correlation(nan, nan, pairs, "fewer than three pairs")
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return Correlation(nan, nan, pairs, "a sample is constant")
    x, y = midranks(a), midranks(b)
    x, y = x - x.mean(), y - y.mean()
    rho = float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))
    if abs(rho) == 1:
        return Correlation(rho, 0.0, pairs, note)
    from scipy.special import stdtr  # noqa: PLC0415  a fifth of a second that most commands need not spend

    t = abs(rho) * sqrt((pairs - 2) / ((1 - rho) * (1 + rho)))
    return Correlation(rho, float(2 * stdtr(pairs - 2, -t)), pairs, note)


def midranks(values: FloatArray) -> FloatArray:
    """Returns ranks from 1; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], np.float64)


def _subset_sums(doubled: NDArray[np.int64], n: int) -> FloatArray:
    """Returns the chance of each sum of n of the numbers drawn without replacement, (sum + 1,)."""
    total = int(doubled.sum())
    ways = np.zeros((n + 1, total + 1))
    ways[0, 0] = 1
    for rank in doubled.tolist():
        # the right side is evaluated whole before it is added, so that no number is drawn twice
        ways[1:, rank:] = ways[1:, rank:] + ways[:-1, : total + 1 - rank]
    return np.asarray(ways[n] / ways[n].sum(), np.float64)


def sign_sums(doubled: NDArray[np.int64]) -> FloatArray:
    """Returns the chance of each sum when every number is taken or left by a coin, (sum + 1,)."""
    chances = np.zeros(int(doubled.sum()) + 1)
    chances[0] = 1
    for rank in doubled.tolist():
        chances = chances / 2
        chances[rank:] = chances[rank:] + chances[: len(chances) - rank]
    return chances


def _exact(chances: FloatArray, at: int, alternative: Alternative) -> float:
    less, greater = float(chances[: at + 1].sum()), float(chances[at:].sum())
    tails = {Alternative.LESS: less, Alternative.GREATER: greater, Alternative.TWO_SIDED: 2 * min(less, greater)}
    return min(1.0, tails[alternative])


def _normal(distance: float, spread: float, alternative: Alternative) -> float:
    if spread == 0:
        return 1.0
    greater = erfc((distance - 0.5) / spread / sqrt(2)) / 2
    less = erfc((-distance - 0.5) / spread / sqrt(2)) / 2
    tails = {Alternative.LESS: less, Alternative.GREATER: greater, Alternative.TWO_SIDED: 2 * min(less, greater)}
    return min(1.0, tails[alternative])


def _tie_sum(ties: NDArray[Any]) -> float:
    counts = ties.astype(np.float64)
    return float((counts**3 - counts).sum())


def numbers_of(sample: ArrayLike) -> FloatArray:
    """Returns the numbers of a sample without NaN, (N,)."""
    values = np.asarray(sample, np.float64).reshape(-1)
    return values[~np.isnan(values)]


def _pairs(first: ArrayLike, second: ArrayLike) -> tuple[FloatArray, FloatArray, str]:
    a, b = np.asarray(first, np.float64).reshape(-1), np.asarray(second, np.float64).reshape(-1)
    if len(a) != len(b):
        raise BadParametersError(f"paired samples must be equally long, got {len(a)} and {len(b)}; pair them by frame")
    kept = np.isfinite(a) & np.isfinite(b)
    dropped = int((~kept).sum())
    return a[kept], b[kept], f"{dropped} pairs that are not finite left out" if dropped else ""


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
    a, b = numbers_of(first), numbers_of(second)
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
    a, b = numbers_of(first), numbers_of(second)
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
