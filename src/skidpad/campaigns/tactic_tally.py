"""What one style brought so far: how often each region was entered, and how far each answer moved; all of it on the device."""

from __future__ import annotations

import torch

from skidpad.search.racing import Sighting

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
