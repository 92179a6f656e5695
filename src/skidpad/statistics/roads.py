"""Which roads first? What the shape of a road tells of a test before it is run, and what earlier verdicts tell of shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.statistics.ranks import by_score, standardised

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
