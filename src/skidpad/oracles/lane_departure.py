"""Lane keeping: the maximum distance from the centre of the lane (MDCL), and who has departed.

Reference: offline and online testing, section II-E.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

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
