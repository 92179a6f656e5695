"""Rank tests (Mann-Whitney, Wilcoxon, Spearman), and orders of tests with their APFD.

P-values are exact for small samples, ties included, and need no import of scipy.stats, which takes over a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import erfc, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, IntArray

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
    (a, dropped_a), (b, dropped_b) = _clean(first), _clean(second)
    note = f"{dropped_a + dropped_b} NaN left out" if dropped_a + dropped_b else ""
    n, m = len(a), len(b)
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
        p_value = _exact(_sign_sums(doubled), int(doubled[difference > 0].sum()), alternative)
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


def _sign_sums(doubled: NDArray[np.int64]) -> FloatArray:
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


def _clean(sample: ArrayLike) -> tuple[FloatArray, int]:
    values = np.asarray(sample, np.float64).reshape(-1)
    kept = values[~np.isnan(values)]
    return kept, len(values) - len(kept)


def _pairs(first: ArrayLike, second: ArrayLike) -> tuple[FloatArray, FloatArray, str]:
    a, b = np.asarray(first, np.float64).reshape(-1), np.asarray(second, np.float64).reshape(-1)
    if len(a) != len(b):
        raise BadParametersError(f"paired samples must be equally long, got {len(a)} and {len(b)}; pair them by frame")
    kept = np.isfinite(a) & np.isfinite(b)
    dropped = int((~kept).sum())
    return a[kept], b[kept], f"{dropped} pairs that are not finite left out" if dropped else ""


def apfd(failed: BoolArray, order: IntArray, costs: FloatArray | None = None) -> float:
    """Returns the average percentage of faults detected: near 1 where failures come first, 0.5 by chance, NaN without failures.

    failed: (N,), which tests fail; each failure counts as a fault of its own. costs: (N,), what each test takes, as seconds; without
    any, all take the same.

    Reference: Elbaum, Malishevsky and Rothermel, Test case prioritization (2002) for APFD; Malishevsky et al., Cost-cognizant test case
    prioritization (2006), Eq. 1, for costs, with faults of one severity.
    """
    prices = np.ones(len(failed)) if costs is None else np.asarray(costs, np.float64)
    if sorted(order.tolist()) != list(range(len(failed))) or prices.shape != failed.shape or bool((prices <= 0).any()):
        raise BadParametersError(f"an order names each of {len(failed)} tests once, and each has a cost above 0")
    if not failed.any():
        return float("nan")
    spent = prices[order]
    # what is left to spend when a test has run, and half of its own cost: its failure shows somewhere within it
    left = spent.sum() - np.cumsum(spent) + spent / 2
    return float(left[failed[order]].mean() / spent.sum())


def ideal_order(failed: BoolArray, costs: FloatArray | None = None) -> IntArray:
    """Returns the best order there is, which knows the verdicts: failures first, of these the cheap ones."""
    prices = np.ones(len(failed)) if costs is None else np.asarray(costs, np.float64)
    return np.lexsort((prices, ~failed)).astype(np.int64)


def by_score(scores: FloatArray, costs: FloatArray | None = None) -> IntArray:
    """Returns the order from the highest score on, for its cost where one is given; NaN comes last, equals stay in their order."""
    worth = np.where(np.isnan(scores), -np.inf, scores)
    if costs is not None:
        low = float(worth[np.isfinite(worth)].min()) if np.isfinite(worth).any() else 0.0
        worth = (worth - low) / costs
    return np.argsort(-worth, kind="stable").astype(np.int64)


def farthest_first(features: FloatArray) -> IntArray:
    """Returns the order in which each test is the farthest from all before it, (N, dimensions) scaled alike; the oddest comes first.

    Reference: Gonzalez, Clustering to minimize the maximum intercluster distance (1985).
    """
    scaled = standardised(features)
    count = len(scaled)
    nearest = np.square(scaled).sum(axis=1)
    order = np.empty(count, np.int64)
    for place in range(count):
        chosen = int(np.argmax(nearest))
        order[place] = chosen
        nearest = np.minimum(nearest, np.square(scaled - scaled[chosen]).sum(axis=1))
        nearest[order[: place + 1]] = -1.0
    return order


def standardised(features: FloatArray) -> FloatArray:
    """Returns features of mean 0 and deviation 1; those that never vary, and what is not known, are 0."""
    known = np.where(np.isfinite(features), features, np.nan)
    held = ~np.isnan(known).all(axis=0)
    scaled = np.zeros(known.shape)
    spread = np.nanstd(known[:, held], axis=0)
    scaled[:, held] = (known[:, held] - np.nanmean(known[:, held], axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.nan_to_num(scaled)


def by_gain(covered: BoolArray) -> IntArray:
    """Returns the order in which each test covers the most that none before it did, (N, regions); then begins anew with the rest.

    Reference: the additional strategy of Rothermel et al., Prioritizing test cases for regression testing (2001).
    """
    count = len(covered)
    left, seen = np.ones(count, np.bool_), np.zeros(covered.shape[1] if covered.ndim > 1 else 0, np.bool_)
    order = np.empty(count, np.int64)
    for place in range(count):
        gains = np.where(left, (covered & ~seen).sum(axis=1), -1)
        if gains.max() == 0 and seen.any():
            seen[:] = False
            gains = np.where(left, covered.sum(axis=1), -1)
        chosen = int(np.argmax(gains))
        order[place], left[chosen] = chosen, False
        seen |= covered[chosen]
    return order
