"""How fit a style is: how many uncovered regions it enters, and how far it moves the answers.

Reference: TACTIC, section 3.2.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, isnan, pi
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from skidpad.core.errors import BadParametersError
from skidpad.search.racing import Sighting
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
