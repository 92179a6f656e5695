"""What every estimator works on: when to stop, what it has used up, and intervals that may be looked at early."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from enum import Enum
from math import exp, inf, log, nan, sqrt
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray
from skidpad.statistics.intervals import Interval


class Method(Enum):
    """How a probability is estimated. AUTO: begins as Monte Carlo, and goes on with what a first look at the failures suggests."""

    AUTO = "auto"
    MONTE_CARLO = "monte-carlo"
    IMPORTANCE = "importance"
    SPLITTING = "splitting"


@dataclass(frozen=True, slots=True)
class Goal:
    """When to stop: the upper bound is below `stop_below`, the interval is within a share `within` of the estimate, or `budget` is spent.

    0 switches a criterion off. batch: simulations that are made at once.
    """

    budget: int
    stop_below: float = 0.0
    within: float = 0.3
    confidence: float = 0.95
    batch: int = 50

    def __post_init__(self) -> None:
        if self.budget < 1 or self.batch < 1:
            raise BadParametersError(f"an estimate needs a budget and a batch of at least 1; got {self.budget} and {self.batch}")
        if not 0 <= self.stop_below < 1 or self.within < 0:
            raise BadParametersError(
                f"stop-below is a probability and within a share of the estimate, or 0; got {self.stop_below:g} and {self.within:g}"
            )

    def reached(self, interval: Interval) -> str:
        """Says which criterion an interval meets; empty where none."""
        if self.stop_below and interval.high <= self.stop_below:
            return f"the upper bound is below {self.stop_below:g}"
        half = max(interval.high - interval.estimate, interval.estimate - interval.low)
        if self.within and interval.estimate > 0 and half <= self.within * interval.estimate:
            return f"the interval is within {100 * self.within:.0f} % of the estimate"
        return ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Points of the unit cube, (N, dimensions), to be simulated next; stage: what for."""

    stage: str
    points: FloatArray


@dataclass(frozen=True, slots=True)
class Estimate:
    """A probability of failure.

    unjudged: simulations without a verdict, which Monte Carlo leaves out and the others take for no failure. chosen: why this method.
    stopped: why the work ended.
    """

    interval: Interval
    method: Method
    simulations: int
    failures: int
    unjudged: int
    chosen: str
    stopped: str

    @property
    def plain_simulations(self) -> float:
        """How many simulations plain Monte Carlo of a fixed size needs for an interval as wide as this one; NaN where it has no width."""
        p, half = self.interval.estimate, (self.interval.high - self.interval.low) / 2
        if not p > 0 or not half > 0:
            return nan
        return NormalDist().inv_cdf((1 + self.interval.confidence) / 2) ** 2 * p * (1 - p) / half**2


Estimator: TypeAlias = Generator[Batch, FloatArray, Estimate]
Valid: TypeAlias = Callable[[FloatArray], BoolArray]
"""Tells which points, (N, dimensions), are of the domain, (N,); costs no simulation."""


def everywhere(points: FloatArray) -> BoolArray:
    """The whole cube is valid."""
    return np.ones(len(points), np.bool_)


def bernoulli_sequence(hits: int, trials: int, confidence: float = 0.95, scale: float = 0.01) -> Interval:
    """Returns an interval of a rate that holds at all numbers of trials at once: look whenever you like, and stop when you like.

    It is narrowest for rates about `scale`, which must not hang on the trials.

    Reference: Robbins (1970), the mixture martingale with a beta prior; Ville's inequality makes it hold at every look.
    """
    from scipy.optimize import brentq  # noqa: PLC0415  takes longer to import than everything else here
    from scipy.special import betaln  # noqa: PLC0415  see above

    if not 0 <= hits <= trials:
        raise BadParametersError(f"a rate needs 0 <= hits <= trials, got {hits} of {trials}")
    if trials == 0:
        return Interval(nan, 0.0, 1.0, confidence, 0, "there were no trials")
    a = 0.5
    b = a / scale - a
    mixture = float(betaln(a + hits, b + trials - hits) - betaln(a, b)) + log(1 - confidence)

    def over(p: float) -> float:
        """Above zero where the rate p is refuted."""
        return mixture - (hits * log(p) if hits else 0.0) - ((trials - hits) * np.log1p(-p) if hits < trials else 0.0)

    rate, tiny = hits / trials, 1e-300
    low = brentq(over, tiny, rate, xtol=1e-18) if hits else 0.0
    high = brentq(over, max(rate, tiny), 1 - 1e-16) if hits < trials and over(1 - 1e-16) > 0 else 1.0
    return Interval(rate, float(low), float(high), confidence, trials)


@dataclass(slots=True)
class Task:
    """What an estimator works on, and what it has used up."""

    dimensions: int
    goal: Goal
    rng: np.random.Generator
    is_valid: Valid
    simulations: int = 0
    failures: int = 0
    unjudged: int = 0
    plain_hits: int = 0
    plain_trials: int = 0
    is_spent: bool = False
    """Whether what is left of the budget is too little for the next step."""

    @property
    def left(self) -> int:
        """How many simulations the budget still allows."""
        return 0 if self.is_spent else self.goal.budget - self.simulations

    @property
    def scale(self) -> float:
        """The rate about which the interval of plain draws is narrowest."""
        return self.goal.stop_below or 0.01

    def normal(self, count: int) -> FloatArray:
        """Draws valid points, (count, dimensions)."""
        found = np.empty((0, self.dimensions))
        for _ in range(10_000):
            drawn = self.rng.standard_normal((max(count - len(found), 1), self.dimensions))
            found = np.concatenate((found, drawn[self.is_valid(to_cube(drawn))]))
            if len(found) >= count:
                return found[:count]
        raise BadParametersError("hardly any point of the domain obeys its constraints, so none can be drawn; widen its ranges")

    def simulate(self, stage: str, z: FloatArray, *, is_plain: bool = False) -> Generator[Batch, FloatArray, FloatArray]:
        """Has valid points simulated in batches; returns their criticalities, -inf where there is no verdict."""
        found = []
        for first in range(0, len(z), self.goal.batch):
            some = to_cube(z[first : first + self.goal.batch])
            answer = np.asarray((yield Batch(stage, some)), np.float64)
            if answer.shape != (len(some),):
                raise ValueError(f"an estimator is sent one criticality for each of {len(some)} points; got the shape {answer.shape}")
            found.append(answer)
        values = np.concatenate(found) if found else np.empty(0)
        judged, failed = ~np.isnan(values), values >= 1.0
        self.simulations += len(values)
        self.failures += int(failed.sum())
        self.unjudged += int((~judged).sum())
        if is_plain:
            self.plain_hits += int(failed.sum())
            self.plain_trials += int(judged.sum())
        return np.where(judged, values, -inf)

    def plain(self) -> Interval:
        """Returns what the plain draws so far say."""
        return bernoulli_sequence(self.plain_hits, self.plain_trials, self.goal.confidence, self.scale)

    def done(self, interval: Interval, method: Method, chosen: str, stopped: str) -> Estimate:
        """Returns the estimate, with what it has used up."""
        interval = replace(interval, n=self.simulations)
        return Estimate(interval, method, self.simulations, self.failures, self.unjudged, chosen, stopped or "the budget is spent")


def to_cube(z: FloatArray) -> FloatArray:
    """Returns the point of the unit cube of standard normal numbers."""
    from scipy.special import ndtr  # noqa: PLC0415  see above

    return np.asarray(ndtr(z), np.float64)


def monte_carlo(task: Task, chosen: str) -> Estimator:
    """Draws from the domain itself. Its interval holds whatever the failures look like."""
    stopped = task.goal.reached(task.plain()) if task.plain_trials else ""
    while not stopped and task.left > 0:
        yield from task.simulate("plain", task.normal(min(task.goal.batch, task.left)), is_plain=True)
        stopped = task.goal.reached(task.plain())
    return task.done(task.plain(), Method.MONTE_CARLO, chosen, stopped)


class Looks:
    """Student's interval of a mean of independent values, looked at after `first`, twice as many, four times, and so on.

    Each look may err half as often as the one before, and the last one, when the budget is spent, as often as is left: together they
    err as often as one interval does. It is taken on a logarithmic scale, since such means are skewed, and with as many degrees of
    freedom as there are values that carry the sum: where one value is most of it, next to nothing is known.
    """

    def __init__(self, first: int, confidence: float) -> None:
        self.next, self.confidence, self._left = first, confidence, 1 - confidence

    def at(self, values: FloatArray, none: float, *, is_last: bool = False) -> Interval:
        """Returns the interval, of which `none` is the upper bound where all values are 0."""
        spent = self._left if is_last else self._left / 2
        self._left -= spent
        self.next = 2 * len(values)
        return mean_interval(values, spent, none, self.confidence)


def mean_interval(values: FloatArray, alpha: float, none: float = 1.0, confidence: float = 0.95) -> Interval:
    """Returns the interval of the mean of values >= 0 that errs with a chance of alpha; confidence: what is written beside it."""
    from scipy.special import stdtrit  # noqa: PLC0415  see above

    n, mean = len(values), float(values.mean()) if len(values) else 0.0
    if mean <= 0:
        return Interval(0.0, 0.0, none, confidence, n)
    carrying = float(values.sum() ** 2 / np.square(values).sum())
    freedom = max(min(carrying, n) - 1, 0.0)
    if n < 2 or freedom < 1:
        return Interval(mean, 0.0, 1.0, confidence, n, "one value carries the estimate")
    error = float(values.std(ddof=1)) / sqrt(n) / mean
    reach = min(float(-stdtrit(freedom, alpha / 2)) * error, 700.0)
    return Interval(mean, mean * exp(-reach), min(mean * exp(reach), 1.0), confidence, n)
