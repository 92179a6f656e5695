"""Which tests first? Orders of tests, and how early each order meets the failures.

An order is a permutation, (N,): the place of the test that runs first, second and so on.
"""

from __future__ import annotations

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, IntArray


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
