"""How likely is a failure? Estimates of rare probabilities from few simulations, each with an interval that may be looked at early.

A problem is a criticality over the unit cube: 1 and more is a failure. Points are drawn evenly from where the cube is valid, so that the
probability is that of the domain they are read in. An estimator is a generator: it yields points, is sent their criticalities, and
returns an `Estimate`. It hangs on its seed and on what it is sent alone, so that a stopped one goes on by being told again.

Inside, a point is a standard normal vector, whose distribution function is the point of the cube.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from enum import Enum
from math import exp, inf, isnan, log, nan, sqrt
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray
from skidpad.core.seeding import child_rng
from skidpad.statistics.intervals import Interval, none_failed


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
            return f"the interval is within {self.within:.0%} of the estimate"
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


def estimator(method: Method, dimensions: int, goal: Goal, seed: int, is_valid: Valid = everywhere) -> Estimator:
    """Returns the estimator of a method."""
    task = _Task(dimensions, goal, child_rng(seed, "rare", method.value), is_valid)
    if method is Method.MONTE_CARLO:
        return _monte_carlo(task, "as asked for")
    if method is Method.IMPORTANCE:
        return _importance(task, "as asked for")
    if method is Method.SPLITTING:
        return _splitting(task, "as asked for")
    return _auto(task)


def estimate(
    simulate: Callable[[FloatArray], FloatArray], method: Method, dimensions: int, goal: Goal, seed: int, is_valid: Valid = everywhere
) -> Estimate:
    """Estimates how likely `simulate`, points (N, dimensions) to criticalities (N,), is 1 or more."""
    work = estimator(method, dimensions, goal, seed, is_valid)
    batch = next(work)
    while True:
        try:
            batch = work.send(simulate(batch.points))
        except StopIteration as end:
            found: Estimate = end.value
            return found


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
class _Task:
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
        return 0 if self.is_spent else self.goal.budget - self.simulations

    @property
    def scale(self) -> float:
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
        return bernoulli_sequence(self.plain_hits, self.plain_trials, self.goal.confidence, self.scale)

    def done(self, interval: Interval, method: Method, chosen: str, stopped: str) -> Estimate:
        interval = replace(interval, n=self.simulations)
        return Estimate(interval, method, self.simulations, self.failures, self.unjudged, chosen, stopped or "the budget is spent")


def to_cube(z: FloatArray) -> FloatArray:
    """Returns the point of the unit cube of standard normal numbers."""
    from scipy.special import ndtr  # noqa: PLC0415  see above

    return np.asarray(ndtr(z), np.float64)


_PILOT = 200
_ENOUGH = 100
"""Failures that Monte Carlo needs for an interval within 30 % that may be looked at early."""


def _auto(task: _Task) -> Estimator:
    """Begins with plain draws; stays with them where the budget will do."""
    goal = task.goal
    pilot = min(_PILOT, max(goal.budget // 4, 1))
    z = task.normal(pilot)
    values = yield from task.simulate("pilot", z, is_plain=True)
    hits, trials = task.plain_hits, max(task.plain_trials, 1)
    within = goal.within or 0.3
    needed = _ENOUGH * (0.3 / within) ** 2 * trials / max(hits, 0.5)
    if goal.stop_below:
        # with no failure at all the upper bound falls to about this after so many
        needed = min(needed, inf if hits / trials > goal.stop_below else 5.0 / goal.stop_below)
    seen = f"{hits} of {trials} plain draws failed"
    if needed <= goal.budget:
        return (yield from _monte_carlo(task, f"{seen}, so that the budget will do for plain draws"))
    return (yield from _importance(task, f"{seen}, too few for plain draws to do within the budget", (z, values)))


def _monte_carlo(task: _Task, chosen: str) -> Estimator:
    """Draws from the domain itself. Its interval holds whatever the failures look like."""
    stopped = task.goal.reached(task.plain()) if task.plain_trials else ""
    while not stopped and task.left > 0:
        yield from task.simulate("plain", task.normal(min(task.goal.batch, task.left)), is_plain=True)
        stopped = task.goal.reached(task.plain())
    return task.done(task.plain(), Method.MONTE_CARLO, chosen, stopped)


class _Looks:
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


@dataclass(frozen=True, slots=True)
class _Tilt:
    """A normal distribution with a mean and a deviation of each dimension, (dimensions,)."""

    mean: FloatArray
    std: FloatArray

    def log_ratio(self, z: FloatArray) -> FloatArray:
        """Returns log q(z) / p(z), (N,), p the standard normal density."""
        inside = np.square(z) - np.square((z - self.mean) / self.std)
        return np.asarray(0.5 * inside.sum(axis=1) - np.log(self.std).sum(), np.float64)


_DEFENSIVE = 0.15
"""The share of points that are drawn from the domain itself, so that no weight exceeds its inverse."""
_ON_THE_WAY = 0.35
_ELITE = 0.15
_CERTAIN = 2.8
"""Standard errors beyond which a dimension counts as one that matters; the others stay as the domain has them, since a weight is a
product over all dimensions, and dozens of small errors make it useless."""
_MAX_LEVELS = 10
_POLISHED = 2
"""Rounds more once failures are met, since the first to be met are not the likeliest."""


def _importance(task: _Task, chosen: str, pilot: tuple[FloatArray, FloatArray] | None = None) -> Estimator:
    """Draws where failures are, as cross-entropy finds it, and weights each by how much rarer it is in the domain.

    Reference: Rubinstein and Kroese, The Cross-Entropy Method (2004), section 3; Hesterberg (1995) for the defensive part.
    Deviates: dimensions whose mean or deviation does not differ significantly are left alone.
    """
    goal, rng = task.goal, task.rng
    share = _valid_share(task)
    # Levels are worth a third of the budget or so: what they show is not in the estimate.
    width = min(max(goal.budget // 8, 50), 300)
    tilt, level, met, shown = _Tilt(np.zeros(task.dimensions), np.ones(task.dimensions)), -inf, 0, _Shown(task.dimensions)
    rounds = 0
    while rounds < _MAX_LEVELS and met <= _POLISHED and task.left > 3 * width:
        if pilot is None:
            z = _tilted(task, tilt, width)
            values = yield from task.simulate("levels", z)
        else:
            (z, values), pilot = pilot, None
        shown.add(tilt, z, values)
        level = max(level, min(1.0, float(np.quantile(values, 1 - _ELITE))))
        met += level >= 1.0
        tilt = shown.fitted(level, tilt)
        rounds += 1
    if level < 1.0:
        said = f"{chosen}; tilted draws did not get to failures in {rounds} rounds, so that splitting goes on"
        return (yield from _splitting(task, said))
    # the tilts on the way lie between the domain and the failures, and catch those that the last one is too narrow for
    tilts, parts = shown.mixture(tilt)
    looks, stopped = _Looks(2 * max(goal.batch, 50), goal.confidence), ""
    terms, tries, plain, interval = np.empty(0), 0, 0, Interval(0.0, 0.0, 1.0, goal.confidence, 0)
    while not stopped and task.left > 0:
        count = min(goal.batch, task.left)
        which = rng.choice(len(parts), count, p=parts)
        drawn = tilts.mean[which] + tilts.std[which] * rng.standard_normal((count, task.dimensions))
        fine = task.is_valid(to_cube(drawn))
        values = np.full(count, -inf)
        values[fine] = yield from task.simulate("weighted", drawn[fine])
        weights = 1.0 / sum(part * np.exp(_Tilt(tilts.mean[k], tilts.std[k]).log_ratio(drawn)) for k, part in enumerate(parts))
        terms = np.concatenate((terms, np.where(values >= 1.0, weights / share, 0.0)))
        tries, plain = tries + count, plain + int(((which == 0) & fine).sum())
        is_last = task.left <= 0 or tries > 50 * goal.budget
        if tries >= looks.next or is_last:
            interval = looks.at(terms, none_failed(plain, goal.confidence), is_last=is_last)
            stopped = goal.reached(interval) or ("the budget is spent" if is_last else "")
    return task.done(interval, Method.IMPORTANCE, chosen, stopped)


def _valid_share(task: _Task, draws: int = 2048) -> float:
    """Returns the share of the cube that is valid, from points that are only looked at."""
    if task.is_valid is everywhere:
        return 1.0
    return max(float(task.is_valid(task.rng.random((draws, task.dimensions))).mean()), 1.0 / draws)


def _draw(tilt: _Tilt, rng: np.random.Generator, count: int) -> FloatArray:
    return np.asarray(tilt.mean + tilt.std * rng.standard_normal((count, len(tilt.mean))), np.float64)


def _tilted(task: _Task, tilt: _Tilt, count: int) -> FloatArray:
    """Draws valid points from a tilt."""
    found = np.empty((0, task.dimensions))
    for _ in range(1000):
        drawn = _draw(tilt, task.rng, count)
        found = np.concatenate((found, drawn[task.is_valid(to_cube(drawn))]))[:count]
        if len(found) == count:
            break
    return found


class _Shown:
    """All points of the levels so far, each weighted as one of the mixture of all the tilts that they were drawn from.

    Reference: Veach and Guibas (1995), the balance heuristic: no point that the first, untilted round could have drawn weighs much.
    """

    def __init__(self, dimensions: int) -> None:
        self._tilts: list[tuple[_Tilt, int]] = []
        self._z, self._values = np.empty((0, dimensions)), np.empty(0)

    def add(self, tilt: _Tilt, z: FloatArray, values: FloatArray) -> None:
        """Takes one round."""
        self._tilts.append((tilt, len(z)))
        self._z, self._values = np.concatenate((self._z, z)), np.concatenate((self._values, values))

    def mixture(self, last: _Tilt) -> tuple[_Tilt, FloatArray]:
        """Returns the domain's own distribution, the tilts on the way and the last one, (K, dimensions) each, and their shares, (K,)."""
        every = [*(tilt for tilt, _ in self._tilts), last]
        way = len(every) - 2
        shares = [_DEFENSIVE, *([_ON_THE_WAY / way] * way), 1 - _DEFENSIVE - (_ON_THE_WAY if way else 0.0)]
        return _Tilt(np.stack([tilt.mean for tilt in every]), np.stack([tilt.std for tilt in every])), np.array(shares)

    def fitted(self, level: float, before: _Tilt) -> _Tilt:
        """Returns the tilt nearest in cross-entropy to the points beyond a level, where they tell a dimension from the domain's."""
        z = self._z[self._values >= level]
        if len(z) < 5:
            return before
        share = 1.0 / np.sum([count * np.exp(tilt.log_ratio(z)) for tilt, count in self._tilts], axis=0)
        share = share / share.sum()
        worth = 1.0 / float(np.square(share).sum())
        mean = share @ z
        std = np.sqrt(share @ np.square(z - mean))
        moved = np.abs(mean) > _CERTAIN * std / sqrt(worth)
        other = np.abs(std - 1) > _CERTAIN / sqrt(2 * worth)
        # wider than the points, since the edge of the failures, towards the likely, carries the most weight
        return _Tilt(np.where(moved, mean, 0.0), np.where(moved | other, np.clip(1.2 * std, 0.4, 1.5), 1.0))


_PARTICLES, _KEPT, _MOVES = 100, 0.5, 4
_REPLICATES = 6
"""Splittings before the first look at their interval."""


def _splitting(task: _Task, chosen: str) -> Estimator:
    """Lets points climb from level to level, copies of those that are ahead replacing those behind; independent repeats give the interval.

    Reference: Cerou and Guyader, Adaptive multilevel splitting (2007); Au and Beck, Subset simulation (2001), for the moves.
    """
    goal = task.goal
    looks, stopped = _Looks(_REPLICATES, goal.confidence), ""
    found: list[float] = []
    particles = max(min(_PARTICLES, goal.budget // 60), 20)
    interval = Interval(0.0, 0.0, 1.0, goal.confidence, 0)
    while not stopped and task.left > 0:
        one = yield from _one_splitting(task, particles)
        if not isnan(one):
            found.append(one)
        is_last = task.left <= 0
        if len(found) >= looks.next or is_last:
            interval = looks.at(np.array(found), none_failed(task.plain_trials, goal.confidence), is_last=is_last)
            stopped = goal.reached(interval) or ("the budget is spent" if is_last else "")
    if interval.note or len(found) < 3:
        interval = replace(task.plain(), note="the budget was too small for splitting; this is what its plain draws say")
    return task.done(interval, Method.SPLITTING, chosen, stopped)


def _one_splitting(task: _Task, particles: int) -> Generator[Batch, FloatArray, float]:
    """Returns one estimate; NaN where the budget ran out, which a fuller one would have decided."""
    rng = task.rng
    if task.left < particles:
        task.is_spent = True
        return nan
    z = task.normal(particles)
    values = yield from task.simulate("level 0", z, is_plain=True)
    share, step = 1.0, 0.5
    for number in range(1, 60):
        level = float(np.quantile(values, 1 - _KEPT, method="lower"))
        if level >= 1.0:
            break
        alive = np.flatnonzero(values > level)
        share *= len(alive) / particles
        if not len(alive):
            return 0.0
        dead = np.flatnonzero(values <= level)
        source = rng.choice(alive, len(dead))
        z[dead], values[dead] = z[source], values[source]
        for _ in range(_MOVES):
            if task.left < len(dead):
                task.is_spent = True
                return nan
            moved = sqrt(1 - step**2) * z[dead] + step * rng.standard_normal((len(dead), task.dimensions))
            fine = task.is_valid(to_cube(moved))
            tried = np.full(len(dead), -inf)
            tried[fine] = yield from task.simulate(f"level {number}", moved[fine])
            taken = tried > level
            z[dead[taken]], values[dead[taken]] = moved[taken], tried[taken]
            step = float(np.clip(step * exp(taken.mean() - 0.35), 0.05, 0.9))
    return share * float((values >= 1.0).mean())
