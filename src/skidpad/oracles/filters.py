"""The filter of Eq. 3: which transformations should leave the steering as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.core.units import AngleUnit
from skidpad.oracles.error import squared_to_rad2

Keys = Sequence[str] | NDArray[Any]
"""One key a case, as text or as whole numbers; cases with equal keys are one group."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The cases of each (transformation, parameter), with the group's mean squared error.

    keys: one a group, sorted. group_of: (N,) place in `keys`. mse_rad2: (groups,), over the group's finite errors; NaN
    where it has none. not_finite: (groups,) cases whose answer is not finite. unjudged: (groups,) cases without label.
    """

    keys: tuple[str, ...]
    group_of: IntArray
    mse_rad2: FloatArray
    cases: IntArray
    not_finite: IntArray
    unjudged: IntArray


@dataclass(frozen=True, slots=True)
class Filtered:
    """The answer of Eq. 3: `kept` (groups,) by group, `kept_cases` (N,) by case, `gap_rad2` (groups,) = |MSE - MSE_orig|."""

    groups: Groups
    gap_rad2: FloatArray
    kept: BoolArray
    kept_cases: BoolArray


def group(keys: Keys, squared_error_rad2: FloatArray) -> Groups:
    """Gathers cases by key; errors are NaN without a label and infinite where the answer is not finite."""
    error = np.asarray(squared_error_rad2, np.float64)
    names, group_of = np.unique(np.asarray(keys), return_inverse=True)
    if error.ndim != 1 or group_of.shape != error.shape:
        raise BadParametersError(f"there must be one key for each of the (N,) errors, got {group_of.shape} keys and {error.shape} errors")
    finite = np.isfinite(error)
    judged = _count(group_of[finite], len(names))
    total = np.bincount(group_of[finite], weights=error[finite], minlength=len(names))
    return Groups(
        keys=tuple(str(name) for name in names),
        group_of=group_of.astype(np.int64),
        mse_rad2=np.where(judged > 0, total / np.maximum(judged, 1), np.nan),
        cases=_count(group_of, len(names)),
        not_finite=_count(group_of[np.isinf(error)], len(names)),
        unjudged=_count(group_of[np.isnan(error)], len(names)),
    )


def near_original(keys: Keys, squared_error_rad2: FloatArray, mse_original_rad2: float, epsilon_rad2: float) -> Filtered:
    """Keeps the groups with |MSE_group - MSE_orig| <= epsilon.

    Epsilon has a unit. It is in square radians here, and the paper's 0.01 to 0.05 are in (degrees / 25)^2: convert
    with `skidpad.oracles.error.squared_to_rad2`.

    Reference: DeepTest, section 5 (RQ4), Eq. 3.
    Deviates: a case whose answer is not finite is kept whatever its group, and stays out of the group's mean. The filter
        is there because the right steering may change with the picture; no picture makes NaN right.
    """
    if not epsilon_rad2 >= 0:
        raise BadParametersError(f"the filter takes epsilon_rad2 of at least 0, got {epsilon_rad2!r}; the paper's 0.03 is 0.0057 rad^2")
    groups = group(keys, squared_error_rad2)
    gap = np.abs(groups.mse_rad2 - mse_original_rad2)
    kept = gap <= epsilon_rad2
    return Filtered(groups, gap, kept, kept[groups.group_of] | np.isinf(np.asarray(squared_error_rad2, np.float64)))


def _count(group_of: NDArray[Any], groups: int) -> IntArray:
    return np.bincount(group_of, minlength=groups).astype(np.int64)


TABLE_7_LAMBDAS = tuple(float(step) for step in range(1, 11))
"""DeepTest, Table 7."""
TABLE_7_EPSILONS_RAD2 = tuple(squared_to_rad2(step / 100, AngleUnit.SCALED_25) for step in range(1, 6))
"""DeepTest, Table 7: 0.01 to 0.05 in (degrees / 25)^2."""


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
