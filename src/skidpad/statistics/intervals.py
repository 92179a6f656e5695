"""How sure a rate or a mean is, and whether a rate has risen: between two samples, and between the same cases judged twice.

Ninety mutants of one frame are not ninety independent cases: what fails on one often fails on the next. Rates that are compared are
therefore taken over clusters, such as frames, and count as many cases as independent ones would tell as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray
from skidpad.statistics.ranks import numbers_of, sign_sums


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate of `n` observations with its interval; NaN, and `note` says why, where there is none."""

    estimate: float
    low: float
    high: float
    confidence: float
    n: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class MeanError:
    """A mean, the sample's standard deviation and the standard error of the mean; NaN where there are too few values."""

    mean: float
    std: float
    sem: float
    n: int
    note: str = ""


def mean_error(values: ArrayLike) -> MeanError:
    """Returns mean, standard deviation (n - 1) and standard error; NaN is left out.

    Reference: the adversarial paper, Table I (SEM over runs).
    """
    sample = numbers_of(values)
    n = len(sample)
    if n == 0:
        return MeanError(nan, nan, nan, 0, "there are no values")
    if n == 1:
        return MeanError(float(sample[0]), nan, nan, 1, "one value has no spread")
    # the deviation of a constant is zero, not what rounding leaves of its mean
    std = float(sample.std(ddof=1)) if np.ptp(sample) > 0 else 0.0
    return MeanError(float(sample.mean()), std, std / sqrt(n), n)


def student_mean(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns Student's t interval of a mean, for few values as of three seeds; NaN is left out.

    Equal values have none: the interval would be of no width, and claim that every further value is the same.

    Reference: Student (1908).
    """
    _check_confidence(confidence)
    found = mean_error(values)
    if not found.std > 0.0:
        return Interval(found.mean, nan, nan, confidence, found.n, found.note or "all values are equal, and their spread says nothing")
    half = found.sem * _wider(confidence, found.n - 1.0) * NormalDist().inv_cdf((1 + confidence) / 2)
    return Interval(found.mean, found.mean - half, found.mean + half, confidence, found.n)


def wilson(hits: float, trials: float, confidence: float = 0.95) -> Interval:
    """Returns Wilson's score interval of a rate; without trials nothing is known, and it is [0, 1].

    Effective counts, as of trials that are not independent, need not be whole.

    Reference: Wilson (1927).
    """
    _check_confidence(confidence)
    if not 0 <= hits <= trials:
        raise BadParametersError(f"a rate needs 0 <= hits <= trials, got {hits} of {trials}")
    if trials == 0:
        return Interval(nan, 0.0, 1.0, confidence, 0, "there were no trials")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = hits / trials
    scale = 1 + z * z / trials
    centre = (rate + z * z / (2 * trials)) / scale
    half = z / scale * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    # at 0 and 1 the bound is the rate itself, which rounding must not miss
    low = 0.0 if hits == 0 else centre - half
    high = 1.0 if hits == trials else centre + half
    return Interval(rate, low, high, confidence, int(trials))


def none_failed(trials: int, confidence: float = 0.95) -> float:
    """Returns the largest rate at which none of so many independent trials still fails with a chance of 1 - confidence; 1 without trials.

    Exact and one-sided, as "at most" is meant: the two-sided intervals are no such bound.

    Reference: Clopper and Pearson (1934).
    """
    _check_confidence(confidence)
    if trials < 0:
        raise BadParametersError(f"a bound needs trials, got {trials}")
    return float(1.0 - (1.0 - confidence) ** (1.0 / trials)) if trials else 1.0


def share_over_stretches(
    failed: ArrayLike, stretch: int, rng: np.random.Generator, confidence: float = 0.95, resamples: int = 2000
) -> Interval:
    """Returns the interval of a share in a series, (N,) of 0 and 1, whose neighbours are alike; NaN keeps its place and is left out.

    A bootstrap draws stretches of `stretch` neighbours, not single values, and its variance tells how many independent values the series
    is worth. Wilson's interval of so many follows: percentiles of the bootstrap would lie too low where few fail. The interval reaches at
    least as far as `none_failed` says that so few stretches could have missed: all of it where all values are the same.

    Reference: Kuensch (1989), Annals of Statistics 17; stretches wrap around the end, as Politis and Romano (1992) propose. Student's t
    takes the place of the normal distribution, since there may be few stretches.
    """
    _check_confidence(confidence)
    series = np.asarray(failed, np.float64).reshape(-1)
    if not 1 <= stretch <= max(len(series), 1):
        raise BadParametersError(f"a stretch has at least 1 value and at most all {len(series)}, got {stretch}")
    there = ~np.isnan(series)
    n = int(there.sum())
    if n == 0:
        return Interval(nan, nan, nan, confidence, 0, "there are no values")
    share = float(series[there].mean())
    missed = none_failed(max(n // stretch, 1), confidence)
    if np.ptp(series[there]) == 0:
        return Interval(share, max(share - missed, 0.0), min(share + missed, 1.0), confidence, n, "every value is the same")
    sums, counts = (_stretch_sums(each, stretch) for each in (np.where(there, series, 0.0), there.astype(np.float64)))
    drawn = rng.integers(len(series), size=(resamples, -(-len(series) // stretch)))
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    many = max(len(series) / stretch, 2.0)
    variance = float(np.nanvar(shares)) * many / (many - 1.0)
    worth = min(share * (1.0 - share) / variance, n) if variance > 0 else n
    worth *= _wider(confidence, many - 1.0) ** -2
    found = wilson(share * worth, worth, confidence)
    return Interval(share, min(found.low, 1.0 - missed), max(found.high, missed), confidence, n)


def _stretch_sums(series: FloatArray, stretch: int) -> FloatArray:
    """Returns the sum of the values of the stretch that begins at each place, (N,); the end is followed by the beginning."""
    total = np.concatenate(([0.0], np.cumsum(np.concatenate((series, series[: stretch - 1])))))
    return total[stretch:] - total[:-stretch]


def _wider(confidence: float, freedom: float) -> float:
    """Returns how many times as far out Student's t has its bound as the normal distribution."""
    from scipy.special import stdtrit  # noqa: PLC0415  a fifth of a second that most commands need not spend

    tail = (1 - confidence) / 2
    return float(stdtrit(freedom, tail)) / NormalDist().inv_cdf(tail)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise BadParametersError(f"confidence lies between 0 and 1, got {confidence!r}; 0.95 is usual")


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
        return float(sign_sums(sizes)[(total + reach) // 2 :].sum())
    spread = float(np.sqrt(np.square(sizes.astype(np.float64)).sum()))
    # sums differ by two, so half of that is the step to be corrected for
    return 1.0 - NormalDist().cdf((total - 1) / spread)


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
