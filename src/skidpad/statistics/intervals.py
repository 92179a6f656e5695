"""How sure a rate or a mean is."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray

_CHUNK = 1 << 20


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
    sample = _sample(values)
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

    Reference: Student (1908).
    """
    _check_confidence(confidence)
    found = mean_error(values)
    if found.n < 2:
        return Interval(found.mean, nan, nan, confidence, found.n, found.note)
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


def _sample(values: ArrayLike) -> FloatArray:
    sample = np.asarray(values, np.float64).reshape(-1)
    return sample[~np.isnan(sample)]
