"""How likely is a failure? Estimates of rare probabilities from few simulations, each with an interval that may be looked at early.

A problem is a criticality over the unit cube: 1 and more is a failure. Points are drawn evenly from where the cube is valid, so that the
probability is that of the domain they are read in. An estimator is a generator: it yields points, is sent their criticalities, and
returns an `Estimate`. It hangs on its seed and on what it is sent alone, so that a stopped one goes on by being told again.

Inside, a point is a standard normal vector, whose distribution function is the point of the cube.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.statistics.rare.importance import importance, is_affordable, splitting
from skidpad.statistics.rare.task import (
    Batch,
    Estimate,
    Estimator,
    Goal,
    Method,
    Task,
    Valid,
    bernoulli_sequence,
    everywhere,
    monte_carlo,
)

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
