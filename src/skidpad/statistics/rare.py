"""How likely is a failure? Estimates of rare probabilities from few simulations, each with an interval that may be looked at early.

A problem is a criticality over the unit cube: 1 and more is a failure. Points are drawn evenly from where the cube is valid, so that the
probability is that of the domain they are read in. An estimator is a generator: it yields points, is sent their criticalities, and
returns an `Estimate`. It hangs on its seed and on what it is sent alone, so that a stopped one goes on by being told again.

Inside, a point is a standard normal vector, whose distribution function is the point of the cube.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import exp, inf, isnan, nan, sqrt

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.statistics.estimation import (
    Batch,
    Estimate,
    Estimator,
    Goal,
    Looks,
    Method,
    Task,
    Valid,
    bernoulli_sequence,
    everywhere,
    monte_carlo,
    to_cube,
)
from skidpad.statistics.intervals import Interval, none_failed

__all__ = ["Batch", "Estimate", "Estimator", "Goal", "Method", "Valid", "bernoulli_sequence", "estimate", "estimator", "everywhere"]


def estimator(method: Method, dimensions: int, goal: Goal, seed: int, is_valid: Valid = everywhere) -> Estimator:
    """Returns the estimator of a method."""
    task = Task(dimensions, goal, child_rng(seed, "rare", method.value), is_valid)
    if method is Method.MONTE_CARLO:
        return monte_carlo(task, "as asked for")
    if method is Method.IMPORTANCE:
        return importance(task, "as asked for")
    if method is Method.SPLITTING:
        return splitting(task, "as asked for")
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


_PILOT = 200
_ENOUGH = 100
"""Failures that Monte Carlo needs for an interval within 30 % that may be looked at early."""
_COMMON = 0.05
"""The share of failures from which on plain draws meet so many that no other method is worth its detour."""


def _auto(task: Task) -> Estimator:
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
        return (yield from monte_carlo(task, f"{seen}, so that the budget will do for plain draws"))
    if hits >= _COMMON * trials:
        return (yield from monte_carlo(task, f"{seen}, which is common enough for plain draws to go on"))
    if not is_affordable(task):
        return (yield from monte_carlo(task, f"{seen}; importance sampling and splitting were not tried (budget too small)"))
    return (yield from importance(task, f"{seen}, too few for plain draws to do within the budget", (z, values)))


_PARTICLES, _KEPT, _MOVES = 100, 0.5, 4
_REPLICATES = 6
"""Splittings before the first look at their interval."""


def splitting(task: Task, chosen: str) -> Estimator:
    """Lets points climb from level to level, copies of those that are ahead replacing those behind; independent repeats give the interval.

    Reference: Cerou and Guyader, Adaptive multilevel splitting (2007); Au and Beck, Subset simulation (2001), for the moves.
    """
    goal = task.goal
    looks, stopped = Looks(_REPLICATES, goal.confidence), ""
    found: list[float] = []
    particles = max(min(_PARTICLES, goal.budget // 60), 20)
    interval = Interval(0.0, 0.0, 1.0, goal.confidence, 0)
    is_tried = task.left >= particles
    while not stopped and task.left > 0:
        one = yield from _one_splitting(task, particles)
        if not isnan(one):
            found.append(one)
        is_last = task.left <= 0
        if len(found) >= looks.next or is_last:
            interval = looks.at(np.array(found), none_failed(task.plain_trials, goal.confidence), is_last=is_last)
            stopped = goal.reached(interval) or ("the budget is spent" if is_last else "")
    if interval.note or len(found) < 3:
        task.is_spent = False  # what is too little for a splitting does for plain draws, which those before count among
        tried = "the budget was too small for splitting" if is_tried else "it was not tried (budget too small)"
        return (yield from monte_carlo(task, f"{chosen}; {tried}, so that plain draws count"))
    return task.done(interval, Method.SPLITTING, chosen, stopped)


def _one_splitting(task: Task, particles: int) -> Generator[Batch, FloatArray, float]:
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


def importance(task: Task, chosen: str, pilot: tuple[FloatArray, FloatArray] | None = None) -> Estimator:
    """Draws where failures are, as cross-entropy finds it, and weights each by how much rarer it is in the domain.

    Reference: Rubinstein and Kroese, The Cross-Entropy Method (2004), section 3; Hesterberg (1995) for the defensive part.
    Deviates: dimensions whose mean or deviation does not differ significantly are left alone.
    """
    goal, rng = task.goal, task.rng
    share = _valid_share(task)
    # Levels are worth a third of the budget or so: what they show is not in the estimate.
    width = _width(goal)
    tilt, level, met, shown = _Tilt(np.zeros(task.dimensions), np.ones(task.dimensions)), -inf, 0, _Shown(task.dimensions)
    rounds = 0
    while rounds < _MAX_LEVELS and met <= _POLISHED and is_affordable(task):
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
        tried = (
            f"tilted draws did not get to failures in {rounds} rounds" if rounds else "importance sampling was not tried (budget too small)"
        )
        return (yield from splitting(task, f"{chosen}; {tried}, so that splitting goes on"))
    # the tilts on the way lie between the domain and the failures, and catch those that the last one is too narrow for
    tilts, parts = shown.mixture(tilt)
    looks, stopped = Looks(2 * max(goal.batch, 50), goal.confidence), ""
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


def is_affordable(task: Task) -> bool:
    """Tells whether what is left of the budget does for a first round of tilted draws and for weighted ones after it."""
    return task.left > 3 * _width(task.goal)


def _width(goal: Goal) -> int:
    return min(max(goal.budget // 8, 50), 300)


def _valid_share(task: Task, draws: int = 2048) -> float:
    """Returns the share of the cube that is valid, from points that are only looked at."""
    if task.is_valid is everywhere:
        return 1.0
    return max(float(task.is_valid(task.rng.random((draws, task.dimensions))).mean()), 1.0 / draws)


def _draw(tilt: _Tilt, rng: np.random.Generator, count: int) -> FloatArray:
    return np.asarray(tilt.mean + tilt.std * rng.standard_normal((count, len(tilt.mean))), np.float64)


def _tilted(task: Task, tilt: _Tilt, count: int) -> FloatArray:
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
        shares = [_DEFENSIVE, *([_ON_THE_WAY / max(way, 1)] * way), 1 - _DEFENSIVE - (_ON_THE_WAY if way else 0.0)]
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
