"""When a try that was looked at on some of the scenes alone can be dropped: bounds on what it can still reach.

Scenes come in one fixed random order, and tries are compared with the best so far on the same scenes. Two kinds of bounds:

- Sound: every further scene enters at most one region of each neuron, no try covers more than what is uncovered, and no divergence
  is larger than `largest_divergence`. A try below this bound cannot win, whatever the rest brings. Such a bound is wide: it bites
  near the end alone.
- Likely, with a risk that the user sets. Both measures are compared with the best one's on the same scenes, a sample without
  replacement, by the normal quantile of the risk. The mean difference of divergences has a standard error that shrinks to nothing at
  the last scene. The difference of entered regions is the sum of those that only the one or only the other has entered: as a count it
  is off by about the root of their number, and it grows at most as the best one's own count has grown from there to the end.

Reference: Maron and Moore (1994), Hoeffding races, for racing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from statistics import NormalDist

from skidpad.core.errors import BadParametersError


@dataclass(frozen=True, slots=True)
class Sighting:
    """A try after some of the scenes: regions entered that were uncovered, and the sum of divergences."""

    seen: int
    newly: int
    divergence_sum: float


@dataclass(frozen=True, slots=True)
class Apart:
    """How far a try lies from the best one on the scenes seen.

    difference_std: the sample standard deviation of the differences of divergences, try minus best. regions: how many of the
    uncovered regions exactly one of the two has entered.
    """

    difference_std: float
    regions: int


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a try can reach: newly covered regions and mean divergence over all scenes."""

    newly: float
    divergence: float


def sound_bound(now: Sighting, scenes: int, neurons: int, uncovered: int, largest_divergence: float = inf) -> Bound:
    """Returns what no try can pass that stands at `now`; neurons: those with an uncovered region."""
    rest = scenes - now.seen
    divergence = (now.divergence_sum + rest * largest_divergence) / scenes if rest else now.divergence_sum / scenes
    return Bound(min(uncovered, now.newly + rest * neurons), divergence)


def likely_bound(now: Sighting, best: Sighting, best_end: Sighting, apart: Apart, risk: float) -> Bound:
    """Returns what a try will hardly pass, given the best one on the same scenes and at the end."""
    if not 0.0 < risk < 0.5:
        raise BadParametersError(f"the risk of dropping a winner lies between 0 and 0.5; got {risk}")
    scenes, seen = best_end.seen, now.seen
    rest = scenes - seen
    if rest == 0:
        return Bound(now.newly, now.divergence_sum / seen)
    quantile = NormalDist().inv_cdf(1.0 - risk)
    error = apart.difference_std / sqrt(seen) * sqrt(rest / max(scenes - 1, 1))
    difference = (now.divergence_sum - best.divergence_sum) / seen + quantile * error
    # Two that have entered the same regions so far may still part.
    noise = quantile * sqrt(max(apart.regions, 1))
    growth = max(best_end.newly / best.newly if best.newly else scenes / seen, 1.0)
    newly = best_end.newly + growth * (now.newly - best.newly + noise)
    return Bound(max(newly, now.newly), best_end.divergence_sum / scenes + difference)
