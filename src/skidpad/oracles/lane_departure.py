"""Lane keeping: the maximum distance from the centre of the lane (MDCL), who has departed, and whether offline testing agrees.

Reference: offline and online testing, sections II-E and III-C, Table III.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Self

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray

CAP_M = 1.5
"""At this distance the car has left its lane; section II-E."""

ACCEPTABLE_MDCL = 0.7
"""Of the capped and normalised distance: about one metre; section III-C."""


@dataclass(frozen=True, slots=True)
class Mdcl:
    """How far a car strayed. max_m: the largest distance, to either side; step: when. NaN and -1 where there is no step."""

    max_m: float
    step: int

    @property
    def capped_m(self) -> float:
        """The distance, at most CAP_M."""
        return min(self.max_m, CAP_M) if self.max_m == self.max_m else nan

    @property
    def normalised(self) -> float:
        """The capped distance as a share of the cap, 0..1."""
        return self.capped_m / CAP_M

    @property
    def departed(self) -> bool:
        """Whether the car left its lane."""
        return self.max_m >= CAP_M


def mdcl(lateral_m: FloatArray) -> Mdcl:
    """Measures one car's distances from the centre of its lane, (steps,), positive to the left."""
    series = np.abs(np.asarray(lateral_m, np.float64))
    if series.ndim != 1 or not np.all(np.isfinite(series)):
        raise BadParametersError(f"distances from the lane are finite and of shape (steps,); got an array of shape {series.shape}")
    if not len(series):
        return Mdcl(nan, -1)
    step = int(series.argmax())
    return Mdcl(float(series[step]), step)


def departure_step(lateral_m: FloatArray) -> int | None:
    """Returns the first step at which the car has left its lane; None where it never does."""
    gone = np.flatnonzero(np.abs(lateral_m) >= CAP_M)
    return int(gone[0]) if len(gone) else None


ACCEPTABLE_MAE = 0.1
"""Offline, in the unit of the labels; section III-C."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Table III: scenarios by what offline and online testing say; a value below its threshold is acceptable.

    false_safe: offline acceptable, online not. false_alarm: the other way round.
    """

    both_safe: int
    false_safe: int
    false_alarm: int
    both_unsafe: int

    @classmethod
    def of(cls, offline: FloatArray, online: FloatArray, offline_limit: float, online_limit: float) -> Self:
        """Counts scenarios, (N,) each; one where either value is not finite cannot be judged and is left out."""
        if offline.shape != online.shape or offline.ndim != 1:
            raise BadParametersError(f"both ways of testing need one value a scenario; got {offline.shape} and {online.shape}")
        judged = np.isfinite(offline) & np.isfinite(online)
        fine, kept = offline[judged] < offline_limit, online[judged] < online_limit
        return cls(int((fine & kept).sum()), int((fine & ~kept).sum()), int((~fine & kept).sum()), int((~fine & ~kept).sum()))

    @property
    def total(self) -> int:
        """Scenarios that were judged both ways."""
        return self.both_safe + self.false_safe + self.false_alarm + self.both_unsafe

    @property
    def disagreeing(self) -> int:
        """Scenarios on which the two differ."""
        return self.false_safe + self.false_alarm

    @property
    def safe_online(self) -> int:
        """Scenarios that are acceptable online: the trials of the false-alarm rate."""
        return self.both_safe + self.false_alarm

    @property
    def unsafe_online(self) -> int:
        """Scenarios that are not acceptable online: the trials of the false-safe rate."""
        return self.both_unsafe + self.false_safe

    @property
    def optimist(self) -> str:
        """Which way of testing judges more kindly where they differ: `offline`, `online` or `neither`."""
        if self.false_safe == self.false_alarm:
            return "neither"
        return "offline" if self.false_safe > self.false_alarm else "online"
