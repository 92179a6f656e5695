"""Whether two ways of testing agree on the same scenarios.

Reference: offline and online testing, section III-C and Table III.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray

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
