"""Counts of violations over whole ranges of thresholds, from stored answers; nothing is run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import radians

import numpy as np

from skidpad.core.angles import AngleUnit
from skidpad.core.images import FloatArray, IntArray
from skidpad.oracles.error import squared_to_rad2
from skidpad.oracles.filters import Groups, Keys, group

TABLE_7_LAMBDAS = tuple(float(step) for step in range(1, 11))
"""DeepTest, Table 7."""
TABLE_7_EPSILONS_RAD2 = tuple(squared_to_rad2(step / 100, AngleUnit.SCALED_25) for step in range(1, 6))
"""DeepTest, Table 7: 0.01 to 0.05 in (degrees / 25)^2."""
BOUNDS_DEG = (10.0, 20.0, 30.0, 40.0)
"""DeepRoad and TACTIC."""


@dataclass(frozen=True, slots=True)
class SimpleSweep:
    """Violations of Eq. 2 among the groups that Eq. 3 keeps: (lambdas, epsilons); `kept_groups` (epsilons,)."""

    lambdas: tuple[float, ...]
    epsilons_rad2: tuple[float, ...]
    mse_original_rad2: float
    violations: IntArray
    groups: int
    kept_groups: IntArray


@dataclass(frozen=True, slots=True)
class CompositeSweep:
    """Violations of Eq. 2 by lambda and stimulus, without a filter: (lambdas, stimuli)."""

    lambdas: tuple[float, ...]
    stimuli: tuple[str, ...]
    mse_original_rad2: float
    violations: IntArray
    cases: IntArray


@dataclass(frozen=True, slots=True)
class DeviationSweep:
    """Violations of |mutant - original| < bound by bound and stimulus: (bounds, stimuli)."""

    bounds_deg: tuple[float, ...]
    stimuli: tuple[str, ...]
    violations: IntArray
    cases: IntArray


def sweep_simple(
    keys: Keys,
    squared_error_rad2: FloatArray,
    mse_original_rad2: float,
    lambdas: Sequence[float] = TABLE_7_LAMBDAS,
    epsilons_rad2: Sequence[float] = TABLE_7_EPSILONS_RAD2,
) -> SimpleSweep:
    """Counts for every lambda and epsilon; one key a case names its transformation and parameter.

    An answer that is not finite is counted at every epsilon, as `near_original` keeps it.

    Reference: DeepTest, Table 7, left.
    """
    groups = group(keys, squared_error_rad2)
    tolerated = np.asarray(lambdas, np.float64) * mse_original_rad2
    above = _above(groups, squared_error_rad2, tolerated)
    # NaN, a group without a judged case, is near nothing
    kept = np.abs(groups.mse_rad2 - mse_original_rad2)[:, None] <= np.asarray(epsilons_rad2, np.float64)
    finite = above - groups.not_finite[:, None]
    violations = finite.T @ kept.astype(np.int64) + groups.not_finite.sum()
    return SimpleSweep(tuple(lambdas), tuple(epsilons_rad2), mse_original_rad2, violations, len(groups.keys), kept.sum(axis=0))


def sweep_composite(
    stimuli: Keys,
    squared_error_rad2: FloatArray,
    mse_original_rad2: float,
    lambdas: Sequence[float] = TABLE_7_LAMBDAS,
) -> CompositeSweep:
    """Counts for every lambda by stimulus, without a filter.

    Reference: DeepTest, Table 7, right.
    """
    groups = group(stimuli, squared_error_rad2)
    above = _above(groups, squared_error_rad2, np.asarray(lambdas, np.float64) * mse_original_rad2)
    return CompositeSweep(tuple(lambdas), groups.keys, mse_original_rad2, np.ascontiguousarray(above.T), groups.cases)


def sweep_deviation(stimuli: Keys, deviation_rad: FloatArray, bounds_deg: Sequence[float] = BOUNDS_DEG) -> DeviationSweep:
    """Counts the cases whose answer moved by at least each bound, by stimulus.

    deviation_rad: (N,), as of `skidpad.oracles.relations.deviation`.

    Reference: DeepRoad's table of inconsistent behaviours; TACTIC, section 4.1.
    """
    groups = group(stimuli, deviation_rad)
    # the relation is strict, so the largest tolerated difference is the float just below the bound
    tolerated = np.nextafter([radians(bound) for bound in bounds_deg], 0.0)
    above = _above(groups, deviation_rad, np.asarray(tolerated, np.float64))
    return DeviationSweep(tuple(bounds_deg), groups.keys, np.ascontiguousarray(above.T), groups.cases)


def _above(groups: Groups, error: FloatArray, tolerated: FloatArray) -> IntArray:
    """Counts each group's cases with error > tolerated, (groups, len(tolerated)), in one pass over the cases."""
    error = np.asarray(error, np.float64)
    judged = ~np.isnan(error)
    order = np.argsort(tolerated, kind="stable")
    passed = np.searchsorted(tolerated[order], error[judged], side="left")
    width = len(tolerated) + 1
    counts = np.bincount(groups.group_of[judged] * width + passed, minlength=len(groups.keys) * width).reshape(len(groups.keys), width)
    # a case that passes j thresholds passes the j smallest
    exceeding = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    result = np.empty_like(exceeding)
    result[:, order] = exceeding
    return result.astype(np.int64)
