"""How fit a style is: how many uncovered regions it enters, and how far it moves the answers.

Reference: TACTIC, section 3.2.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, isnan, pi

from skidpad.core.errors import BadParametersError

LARGEST_DIVERGENCE_RAD = 4.0 * pi
"""No divergence counts for more in the mean: two turns of a steering wheel; an answer that is not finite counts for as much."""


@dataclass(frozen=True, slots=True)
class FitnessWeights:
    """w_c and w_d; the paper treats both measures as equal."""

    coverage: float = 1.0
    divergence: float = 1.0

    def __post_init__(self) -> None:
        if not (0.0 <= self.coverage < float("inf") and 0.0 <= self.divergence < float("inf")) or self.coverage + self.divergence == 0.0:
            raise BadParametersError(f"the weights of a fitness are 0 or more and not both 0; got {self.coverage} and {self.divergence}")


def diversity(newly: float, uncovered: int) -> float:
    """F_c = |R_s| / |R_t|: the share of the regions uncovered so far that a style enters; 0 where none is left."""
    return newly / uncovered if uncovered else 0.0


def norm(value: float) -> float:
    """Returns x / (x + 1), within 0..1."""
    return 1.0 if isinf(value) else value / (value + 1.0)


def fitness(newly: float, uncovered: int, divergence: float, weights: FitnessWeights) -> float:
    """F = w_c F_c + w_d norm(F_d); divergence: F_d, the mean of |f(x) - f(g(x, s))| over the scenes.

    Deviates: the paper does not say the unit of F_d, which norm hangs on; here it is radians, in which norm stays far from 1 and
    a larger divergence keeps counting.
    """
    if isnan(divergence):
        raise BadParametersError("the mean divergence is not a number; leave out scenes whose original answer is none")
    return weights.coverage * diversity(newly, uncovered) + weights.divergence * norm(divergence)
