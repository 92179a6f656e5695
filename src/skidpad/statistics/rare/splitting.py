"""Adaptive multilevel splitting: points climb from level to level of criticality, in independent repeats."""

from __future__ import annotations

from collections.abc import Generator
from math import exp, inf, isnan, nan, sqrt

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.statistics.intervals import Interval, none_failed
from skidpad.statistics.rare.task import Batch, Estimator, Looks, Method, Task, monte_carlo, to_cube

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
