"""Orders in which to run tests, with their APFD; and which roads first, by their shapes and what earlier verdicts tell of shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, IntArray

_STEP_M = 2.0
_WINDOW_M = 10.0
"""Over which a bend is measured: points of a road are often a metre or less apart, and their noise must not look like a bend."""
_STRAIGHT_PER_M = 0.005
_SHRINKAGE, _ROUNDS = 1.0, 25
_SHARPEST = 2
"""The column of the sharpest bend."""


def road_features(points_m: FloatArray) -> FloatArray:
    """Returns what a road, (N, 2) points along it, is like: lengths, turns and bends; zeros where it has fewer than three points.

    Columns: length, all turning, the sharpest bend, the 90th percentile and the mean of bends, how fast bends change, changes of side,
    the straight share, and where the sharpest bend is.
    """
    steps = np.hypot(*np.diff(points_m, axis=0).T) if len(points_m) > 1 else np.zeros(0)
    kept = np.concatenate([[True], steps > 1e-9]) if len(points_m) else np.zeros(0, np.bool_)
    places = np.concatenate([[0.0], np.cumsum(steps)])[kept] if len(points_m) else np.zeros(0)
    if len(places) < 3 or places[-1] < 2 * _STEP_M:
        return np.zeros(9)
    even = np.arange(0.0, places[-1], _STEP_M)
    x, y = (np.interp(even, places, column[kept]) for column in points_m.T)
    heading = np.unwrap(np.arctan2(np.diff(y), np.diff(x)))
    window = min(max(round(_WINDOW_M / _STEP_M), 1), max(len(heading) - 1, 1))
    bend = (heading[window:] - heading[:-window]) / (window * _STEP_M)
    if not len(bend):
        bend = np.zeros(1)
    size = np.abs(bend)
    sides = np.sign(bend[size > _STRAIGHT_PER_M])
    return np.array(
        [
            places[-1],
            float(np.abs(np.diff(heading)).sum()),
            float(size.max()),
            float(np.quantile(size, 0.9)),
            float(size.mean()),
            float(np.abs(np.diff(bend)).max()) if len(bend) > 1 else 0.0,
            float((np.diff(sides) != 0).sum()),
            float((size < _STRAIGHT_PER_M).mean()),
            float(np.argmax(size)) / len(size),
        ]
    )


def rank_roads(roads: Sequence[FloatArray], seen: Sequence[FloatArray] = (), failed: BoolArray | None = None) -> IntArray:
    """Returns the order in which roads are worth driving, (N,): by what was learned of seen ones, else the sharpest bends first.

    seen, failed: roads that were driven, and which of them failed; a logistic regression learns from them where both kinds are there.
    """
    features = np.array([road_features(road) for road in roads], np.float64).reshape(len(roads), 9)
    if failed is None or not failed.any() or failed.all():
        return by_score(features[:, _SHARPEST])
    known = np.array([road_features(road) for road in seen], np.float64)
    scaled = standardised(np.concatenate((known, features)))
    weights = _logistic(scaled[: len(known)], failed.astype(np.float64))
    return by_score(scaled[len(known) :] @ weights)


def _logistic(features: FloatArray, failed: FloatArray) -> FloatArray:
    """Fits weights by Newton's method, held back by a ridge; the constant is left out, since it changes no order."""
    design = np.column_stack((features, np.ones(len(features))))
    ridge = np.diag([*([_SHRINKAGE] * features.shape[1]), 1e-6])
    weights = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (failed - chance) - ridge @ weights
        weights = weights + np.linalg.solve((design * (chance * (1 - chance))[:, None]).T @ design + ridge, slope)
    return np.asarray(weights[:-1], np.float64)


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
