"""The filter of Eq. 3: which transformations should leave the steering as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, IntArray

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
