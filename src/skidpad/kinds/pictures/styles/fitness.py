"""How fit a style is: how many uncovered regions it enters, and how far it moves the answers; and when a try can be dropped.

Reference: TACTIC, section 3.2.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf, isnan, pi, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import torch

from skidpad.core.errors import BadParametersError
from skidpad.stimuli.weather.classifier import WeatherClassifier
from skidpad.stimuli.weather.validity import StructureAndClass, StructureKept, target_class

if TYPE_CHECKING:
    from skidpad.stimuli.weather.files import WeatherCard
    from skidpad.stimuli.weather.validity import SceneFilter


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
        raise BadParametersError("the mean divergence is not a number; leave out scenes whose original answer is not a number")
    return weights.coverage * diversity(newly, uncovered) + weights.divergence * norm(divergence)


_FEW = 2
"""Up to so many sections, one pass over the batch for each is faster than a scatter."""


class Tally:
    """Counts the regions that a style enters, and keeps the divergence of every scene.

    uncovered: which regions count, (neurons, sections) bool on the device. divergence: (scenes,) float64, zero for scenes not seen.
    """

    def __init__(self, uncovered: torch.Tensor, scenes: int) -> None:
        neurons, sections = uncovered.shape
        self._uncovered = uncovered
        self._sections = sections
        # column 0 takes what enters no region
        self._entered = torch.zeros((neurons, sections + 1), dtype=torch.int32, device=uncovered.device)
        self.divergence = torch.zeros(scenes, dtype=torch.float64, device=uncovered.device)
        self.rungs: list[torch.Tensor] = []
        self.brightness = torch.zeros(2, dtype=torch.float64, device=uncovered.device)
        self.rejected = torch.zeros((), dtype=torch.int64, device=uncovered.device)

    def add(self, scenes: slice, regions: torch.Tensor, divergence: torch.Tensor) -> None:
        """Takes the scenes of one block: regions (N, neurons) with -1 for none, divergence (N,)."""
        self.divergence[scenes] = divergence
        if self._sections <= _FEW:
            for section in range(self._sections):
                self._entered[:, section + 1] += (regions == section).sum(0, dtype=torch.int32)
        else:
            columns = regions.long().add_(1).t()
            self._entered.scatter_add_(1, columns, torch.ones_like(columns, dtype=torch.int32))

    def figures(self, best: Tally | None, seen: int) -> torch.Tensor:
        """Closes a rung and returns its figures over the scenes seen, (4,) float64.

        They are: regions newly entered, the sum of divergences, the deviation of the differences from the best
        one's divergences, and how many regions only one of the two has entered.
        """
        entered = self._entered[:, 1:]
        newly = entered.gt(0) & self._uncovered
        rung = len(self.rungs)
        self.rungs.append(newly)
        own = self.divergence[:seen]
        difference = own if best is None else own - best.divergence[:seen]
        spread = difference.std() if seen > 1 else torch.full_like(own.sum(), torch.inf)
        apart = newly.sum() if best is None else (newly ^ best.rungs[rung]).sum()
        return torch.stack([newly.sum().double(), own.sum(), spread, apart.double()])


def sighting(figures: list[float], seen: int) -> Sighting:
    """Reads what `Tally.figures` gave."""
    return Sighting(seen, int(figures[0]), figures[1])


# Racing: when a try that was looked at on some of the scenes alone can be dropped. Scenes come in one fixed random order, and tries are
# compared with the best so far on the same scenes. Two kinds of bounds on what a try can still reach:
#
# - Sound: every further scene enters at most one region of each neuron, no try covers more than what is uncovered, and no divergence
#   is larger than `largest_divergence`. A try below this bound cannot win, whatever the rest brings. Such a bound is wide: it bites
#   near the end alone.
# - Likely, with a risk that the user sets. Both measures are compared with the best one's on the same scenes, a sample without
#   replacement, by the normal quantile of the risk. The mean difference of divergences has a standard error that shrinks to nothing at
#   the last scene. The difference of entered regions is the sum of those that only the one or only the other has entered: as a count it
#   is off by about the root of their number, and it grows at most as the best one's own count has grown from there to the end.
#
# Reference: Maron and Moore (1994), Hoeffding races, for racing itself.


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


OFF, STRUCTURE = "off", "structure"


def filter_of(text: str, weather: WeatherCard, device: str = "cpu") -> SceneFilter | None:
    """Returns the filter that a setting names: none for `off` or nothing, `structure`, or the file of a classifier of weathers.

    weather: whose class is asked for; FILE=CLASS names another.
    """
    if text in {"", OFF}:
        return None
    if text == STRUCTURE:
        return StructureKept()
    file, label = file_and_class(text)
    classifier = WeatherClassifier.load(Path(file), device)
    return StructureAndClass(classifier, target_class(classifier.card, weather, label))


def file_and_class(text: str) -> tuple[str, str]:
    """Takes FILE=CLASS apart; the class is empty where none is named. Folders may have an = in their names."""
    name, _, label = Path(text).name.partition("=")
    return str(Path(text).with_name(name)) if label else text, label
