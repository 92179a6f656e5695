"""Searches over the unit cube: points are asked for, and told how fit they are and which cell of a map of features they fall into.

Points are made and taken in generations, because cars that drive side by side cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.core.registry import Registry
from skidpad.core.seeding import child_rng
from skidpad.search.protocol import Search, check_feedback, check_width


@dataclass(frozen=True, slots=True)
class Fitness:
    """What a point brought: the higher the better, NaN where it could not be tried; and its cell of the map."""

    value: float
    cell: str = ""


@dataclass(frozen=True, slots=True)
class VectorTask:
    """A search over [0, 1]^dimensions that may try `budget` points."""

    dimensions: int
    budget: int
    seed: int

    def __post_init__(self) -> None:
        if self.dimensions < 1 or self.budget < 1:
            raise BadParametersError(f"a search needs a dimension and a budget; got {self.dimensions} and {self.budget}")


VectorSearch = Search[FloatArray, Fitness]
VECTOR_SEARCHES: Registry[Callable[[VectorTask], VectorSearch]] = Registry(
    "search over scenarios", "vector-searches", ("skidpad.search.vectors", "skidpad.search.vector_libraries")
)


class _Generations:
    """Counts the budget; a subclass makes points and learns from them."""

    name = ""

    def __init__(self, task: VectorTask) -> None:
        self._task = task
        self._tries = 0
        self._asked: list[FloatArray] = []

    @property
    def done(self) -> bool:
        """Whether the budget is spent."""
        return self._tries >= self._task.budget

    def ask(self, width: int) -> list[FloatArray]:
        """Returns the next points, at most `width`; asking again without telling gives the same."""
        check_width(width)
        count = min(width, self._task.budget - self._tries)
        self._asked = [self._point(place, child_rng(self._task.seed, self.name, self._tries + place)) for place in range(count)]
        return list(self._asked)

    def tell(self, feedback: Sequence[Fitness]) -> None:
        """Takes every point."""
        check_feedback(len(self._asked), len(feedback))
        for place, (point, fitness) in enumerate(zip(self._asked, feedback, strict=True)):
            self._learn(place, point, fitness)
        self._tries += len(self._asked)
        self._asked = []

    def _point(self, _place: int, rng: np.random.Generator, /) -> FloatArray:
        """Makes the point at a place of a generation."""
        return rng.random(self._task.dimensions)

    def _learn(self, _place: int, _point: FloatArray, _fitness: Fitness, /) -> None:
        """Learns nothing."""


@VECTOR_SEARCHES.register("random")
class RandomVectors(_Generations):
    """Points drawn evenly, whatever they bring: what every search must beat at the same budget."""

    name = "random"


@dataclass(slots=True)
class _Climber:
    point: FloatArray
    fitness: float
    step: float
    failures: int = 0


@VECTOR_SEARCHES.register("es")
class OnePlusOne(_Generations):
    """(1+1)-ES side by side, one climber for each place of a generation, by the one-fifth rule; who is stuck begins anew."""

    name = "es"
    FIRST_STEP, SMALLEST_STEP, PATIENCE = 0.2, 0.01, 12
    _GROW = 1.5
    _SHRINK = _GROW**-0.25

    def __init__(self, task: VectorTask) -> None:
        super().__init__(task)
        self._climbers: dict[int, _Climber] = {}

    def _point(self, place: int, rng: np.random.Generator, /) -> FloatArray:
        climber = self._climbers.get(place)
        if climber is None:
            return rng.random(self._task.dimensions)
        return np.clip(climber.point + climber.step * rng.standard_normal(self._task.dimensions), 0.0, 1.0)

    def _learn(self, place: int, point: FloatArray, fitness: Fitness, /) -> None:
        if not isfinite(fitness.value):
            return
        climber = self._climbers.get(place)
        if climber is None:
            self._climbers[place] = _Climber(point, fitness.value, self.FIRST_STEP)
        elif fitness.value > climber.fitness:
            self._climbers[place] = _Climber(point, fitness.value, min(climber.step * self._GROW, 1.0))
        else:
            climber.failures += 1
            climber.step = max(climber.step * self._SHRINK, self.SMALLEST_STEP)
            if climber.failures >= self.PATIENCE:
                del self._climbers[place]


@VECTOR_SEARCHES.register("map-elites")
class MapElites(_Generations):
    """Keeps the fittest point of every cell of the map and changes those of cells tried least, so that failures of every kind are found.

    Reference: Mouret and Clune (2015), Illuminating search spaces by mapping elites.
    Deviates: every other child has half of its parent's numbers drawn anew. A budget is a few points a cell, and only so do choices change,
    and with them the cell; with small steps alone, fewer cells hold a failure than by chance.
    """

    name = "map-elites"
    FIRST, FRESH, LEAPING, REDRAWN, CHANGED, STEP = 0.25, 0.1, 0.5, 0.5, 0.25, 0.15
    """Shares: of the budget that is drawn evenly at first, of later points that still are, of children that leap, of their numbers that are
    drawn anew, of numbers that are moved; and by how much these are."""

    def __init__(self, task: VectorTask) -> None:
        super().__init__(task)
        self.elites: dict[str, tuple[FloatArray, float]] = {}
        self._visits: dict[str, int] = {}

    def _point(self, _place: int, rng: np.random.Generator, /) -> FloatArray:
        fresh = rng.random(self._task.dimensions)
        if not self.elites or self._tries < self.FIRST * self._task.budget or rng.random() < self.FRESH:
            return fresh
        fewest = min(self._visits[cell] for cell in self.elites)
        cells = sorted(cell for cell in self.elites if self._visits[cell] == fewest)
        parent = self.elites[cells[int(rng.integers(len(cells)))]][0]
        redrawn = self.REDRAWN if rng.random() < self.LEAPING else 0.0
        chance = rng.random(self._task.dimensions)
        moved = np.clip(parent + self.STEP * rng.standard_normal(self._task.dimensions), 0.0, 1.0)
        return np.where(chance < redrawn, fresh, np.where(chance < redrawn + self.CHANGED, moved, parent))

    def _learn(self, _place: int, point: FloatArray, fitness: Fitness, /) -> None:
        if not isfinite(fitness.value):
            return
        self._visits[fitness.cell] = self._visits.get(fitness.cell, 0) + 1
        best = self.elites.get(fitness.cell)
        if best is None or fitness.value > best[1]:
            self.elites[fitness.cell] = (point, fitness.value)
