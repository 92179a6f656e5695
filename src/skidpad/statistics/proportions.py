"""Whether a rate has risen: between two samples, and between the same cases judged twice, where cases come in clusters.

Ninety mutants of one frame are not ninety independent cases: what fails on one often fails on the next. Rates are therefore taken over
clusters, such as frames, and count as many cases as independent ones would tell as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from statistics import NormalDist

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.statistics.intervals import Interval, wilson

_EXACT_STEPS = 20_000_000
"""Additions up to which a distribution is summed exactly: a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """How often cases of each cluster failed; hits, trials: (K,)."""

    hits: IntArray
    trials: IntArray

    def __post_init__(self) -> None:
        if self.hits.shape != self.trials.shape or bool((self.hits < 0).any() or (self.hits > self.trials).any()):
            raise BadParametersError("clusters need as many hits as trials, each between 0 and its trials")

    @property
    def total(self) -> int:
        """All cases."""
        return int(self.trials.sum())

    @property
    def failed(self) -> int:
        """The cases that failed."""
        return int(self.hits.sum())

    @property
    def rate(self) -> float:
        """The share that failed; NaN without cases."""
        return self.failed / self.total if self.total else nan

    @property
    def design_effect(self) -> float:
        """How many cases tell as much as one independent case, at least 1; 1 where every cluster is one case.

        Reference: Rao and Scott, A simple method for the analysis of clustered binary data (1992).
        """
        used = self.trials > 0
        count, rate = int(used.sum()), self.rate
        if count < 2 or not 0.0 < rate < 1.0:
            return 1.0
        residual = self.hits[used] - rate * self.trials[used]
        # clusters vary about a mean that was taken from them, which makes few of them look more alike than they are
        few = count / (count - 1) if self.total > count else 1.0
        return max(1.0, few * float(np.square(residual).sum()) / (self.total * rate * (1.0 - rate)))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Returns Wilson's interval at the effective number of cases; `n` is the number of all cases."""
        effective = self.total / self.design_effect
        found = wilson(self.rate * effective if self.total else 0, effective, confidence)
        return Interval(self.rate, found.low, found.high, confidence, self.total, found.note)


def two_proportions(now: Clusters, then: Clusters) -> float:
    """Returns how likely chance alone makes the rate of `now` so much higher than that of `then`: Fisher's exact test, one-sided.

    Counts are effective ones, rounded; NaN where either has no cases.
    """
    from scipy.stats import hypergeom  # noqa: PLC0415 - takes longer to import than everything else here

    if not now.total or not then.total:
        return nan
    sizes = [max(1, round(each.total / each.design_effect)) for each in (now, then)]
    hits = [round(each.rate * size) for each, size in zip((now, then), sizes, strict=True)]
    return float(hypergeom.sf(hits[0] - 1, sum(sizes), sum(hits), sizes[0]))


def sign_flip(differences: IntArray) -> float:
    """Returns how likely chance alone makes the differences sum to so much, had each as well been of the other sign; one-sided.

    differences: (K,), new minus mended findings of each cluster. Where every cluster is one case this is McNemar's exact test.

    Reference: McNemar (1947); Fisher's randomisation test for pairs (1935).
    """
    sizes = np.abs(differences[differences != 0]).astype(np.int64)
    total, reach = int(differences.sum()), int(sizes.sum())
    if not len(sizes):
        return 1.0
    if len(sizes) * (2 * reach + 1) <= _EXACT_STEPS:
        return float(_sums(sizes, reach)[total + reach :].sum())
    spread = float(np.sqrt(np.square(sizes.astype(np.float64)).sum()))
    # sums differ by two, so half of that is the step to be corrected for
    return 1.0 - NormalDist().cdf((total - 1) / spread)


def _sums(sizes: IntArray, reach: int) -> FloatArray:
    """Returns how likely each sum of the sizes with random signs is, from -reach to reach."""
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for size in sizes.tolist():
        moved = np.zeros_like(chance)
        moved[size:] = 0.5 * chance[:-size]
        moved[:-size] += 0.5 * chance[size:]
        chance = moved
    return chance


def holm(p_values: FloatArray, alpha: float) -> list[bool]:
    """Tells which of several tests are significant, so that all of them together err with a chance of at most alpha; NaN never is.

    Reference: Holm, A simple sequentially rejective multiple test procedure (1979).
    """
    known = np.flatnonzero(~np.isnan(p_values))
    found = [False] * len(p_values)
    for rank, place in enumerate(known[np.argsort(p_values[known], kind="stable")].tolist()):
        if p_values[place] > alpha / (len(known) - rank):
            break
        found[place] = True
    return found
