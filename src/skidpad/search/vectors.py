"""Searches over scenarios, which are points of the unit cube here, told how fit they are and into which cell of a map they fall.

Points are made and taken in generations, because cars that drive side by side cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.search.protocol import CountingSearch, Fitness, SearchTask, searches


@dataclass(frozen=True, slots=True)
class Cube:
    """Points of [0, 1]^dimensions, each a scenario of a domain. cell: tells a point's cell of the map before it is tried, where one can."""

    noun: ClassVar[str] = "scenarios"

    dimensions: int
    cell: Callable[[FloatArray], str] | None = None

    def __post_init__(self) -> None:
        if self.dimensions < 1:
            raise BadParametersError(f"a search over scenarios needs a dimension; got {self.dimensions}")

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draws a point evenly."""
        return rng.random(self.dimensions)

    def vary(self, candidate: FloatArray, rng: np.random.Generator, step: float) -> FloatArray:
        """Adds normal steps."""
        return self.within(candidate + step * rng.standard_normal(self.dimensions))

    def within(self, point: FloatArray) -> FloatArray:
        """Returns the point with its numbers brought back into the cube."""
        return np.clip(point, 0.0, 1.0)


class GenerationSearch(CountingSearch[FloatArray]):
    """Takes every point; a subclass makes points and learns from each. budget: what a search divides that draws evenly at first."""

    task: SearchTask[Cube]

    def __init__(self, task: SearchTask[Cube]) -> None:
        if task.budget is None:
            raise BadParametersError("a search over scenarios needs a budget; got none")
        super().__init__(task)
        self.budget = task.budget

    def _candidate(self, ahead: int, /) -> FloatArray:
        return self._point(ahead, child_rng(self.task.seed, self.name, self.tries + ahead))

    def _learn(self, asked: Sequence[FloatArray], feedback: Sequence[Fitness], /) -> None:
        for place, (point, fitness) in enumerate(zip(asked, feedback, strict=True)):
            if isfinite(fitness.value):
                self._note(place, point, fitness)
        super()._learn(asked, feedback)

    def _point(self, _place: int, rng: np.random.Generator, /) -> FloatArray:
        """Makes the point at a place of a generation."""
        return self.task.space.draw(rng)

    def _note(self, _place: int, _point: FloatArray, _fitness: Fitness, /) -> None:
        """Learns nothing from a point that could be tried."""


@searches("random", Cube)
class RandomVectors(GenerationSearch):
    """Points drawn evenly, whatever they bring: what every search must beat at the same budget."""

    name = "random"


@dataclass(slots=True)
class _Climber:
    point: FloatArray
    fitness: float
    step: float
    failures: int = 0


@searches("es", Cube)
class OnePlusOne(GenerationSearch):
    """(1+1)-ES side by side, one climber for each place of a generation, by the one-fifth rule; who is stuck begins anew."""

    name = "es"
    FIRST_STEP, SMALLEST_STEP, PATIENCE = 0.2, 0.01, 12
    _GROW = 1.5
    _SHRINK = _GROW**-0.25

    def __init__(self, task: SearchTask[Cube]) -> None:
        super().__init__(task)
        self._climbers: dict[int, _Climber] = {}

    def _point(self, place: int, rng: np.random.Generator, /) -> FloatArray:
        climber = self._climbers.get(place)
        return self.task.space.draw(rng) if climber is None else self.task.space.vary(climber.point, rng, climber.step)

    def _note(self, place: int, point: FloatArray, fitness: Fitness, /) -> None:
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


@searches("map-elites", Cube)
class MapElites(GenerationSearch):
    """Keeps the fittest point of every cell of the map and changes those of cells tried least, so that failures of every kind are found.

    Reference: Mouret and Clune (2015), Illuminating search spaces by mapping elites.
    Deviates: every other child has half of its parent's numbers drawn anew. A budget is a few points a cell, and only so do choices change,
    and with them the cell; with small steps alone, fewer cells hold a failure than by chance.
    """

    name = "map-elites"
    FIRST, FRESH, LEAPING, REDRAWN, CHANGED, STEP = 0.25, 0.1, 0.5, 0.5, 0.25, 0.15
    """Shares: of the budget that is drawn evenly at first, of later points that still are, of children that leap, of their numbers that are
    drawn anew, of numbers that are moved; and by how much these are."""

    def __init__(self, task: SearchTask[Cube]) -> None:
        super().__init__(task)
        self.elites: dict[str, tuple[FloatArray, float]] = {}
        self._visits: dict[str, int] = {}

    def _point(self, _place: int, rng: np.random.Generator, /) -> FloatArray:
        space = self.task.space
        fresh = space.draw(rng)
        if not self.elites or self.tries < self.FIRST * self.budget or rng.random() < self.FRESH:
            return fresh
        fewest = min(self._visits[cell] for cell in self.elites)
        cells = sorted(cell for cell in self.elites if self._visits[cell] == fewest)
        parent = self.elites[cells[int(rng.integers(len(cells)))]][0]
        redrawn = self.REDRAWN if rng.random() < self.LEAPING else 0.0
        chance = rng.random(space.dimensions)
        moved = space.vary(parent, rng, self.STEP)
        return np.where(chance < redrawn, fresh, np.where(chance < redrawn + self.CHANGED, moved, parent))

    def _note(self, _place: int, point: FloatArray, fitness: Fitness, /) -> None:
        self._visits[fitness.cell] = self._visits.get(fitness.cell, 0) + 1
        best = self.elites.get(fitness.cell)
        if best is None or fitness.value > best[1]:
            self.elites[fitness.cell] = (point, fitness.value)


FAILED = 1.0
"""The fitness from which on a try counts as a failure."""


@searches("surrogate", Cube)
class SurrogateSearch(GenerationSearch):
    """Fits fitness by ridge regression, and tries the points that promise most in cells of the map that hold no failure yet.

    A fifth of the budget is drawn evenly. Then each generation draws many points, evenly and near the fittest of each cell, predicts
    them, and takes the best of each cell in turn, cells without a failure first. Where a task cannot tell a point's cell before it is
    tried, the point nearest to it says which.

    Reference: Jin, Surrogate-assisted evolutionary computation (2011); the map is that of Mouret and Clune (2015).
    """

    name = "surrogate"
    FIRST, DRAWN, NEAR, STEP, CHANGED = 0.2, 256, 0.5, 0.15, 0.3
    """Shares of the budget that is drawn evenly at first; points that are drawn for a generation, the share of these that are made from
    a fittest point, how far their numbers are moved, and the share of numbers that are."""
    RIDGES = (0.1, 1.0, 10.0, 100.0)

    def __init__(self, task: SearchTask[Cube]) -> None:
        super().__init__(task)
        self._points: list[FloatArray] = []
        self._values: list[float] = []
        self._cells: list[str] = []
        self._failed: dict[str, int] = {}
        self._best: dict[str, tuple[FloatArray, float]] = {}
        self._planned: tuple[int, list[FloatArray]] = (-1, [])

    def _point(self, place: int, rng: np.random.Generator, /) -> FloatArray:
        if self.tries < self.FIRST * self.budget or len(self._values) < 5:
            return self.task.space.draw(rng)
        # A generation is planned whole, once for all its places.
        if self._planned[0] != self.tries:
            self._planned = (self.tries, self._plan(child_rng(self.task.seed, self.name, "plan", self.tries)))
        plan = self._planned[1]
        return plan[place] if place < len(plan) else self.task.space.draw(rng)

    def _note(self, _place: int, point: FloatArray, fitness: Fitness, /) -> None:
        self._points.append(point)
        self._values.append(fitness.value)
        self._cells.append(fitness.cell)
        if fitness.value >= FAILED:
            self._failed[fitness.cell] = self._failed.get(fitness.cell, 0) + 1
        if fitness.cell not in self._best or fitness.value > self._best[fitness.cell][1]:
            self._best[fitness.cell] = (point, fitness.value)

    def _plan(self, rng: np.random.Generator) -> list[FloatArray]:
        """Returns points in the order in which they are worth trying."""
        drawn = rng.random((self.DRAWN, self.task.space.dimensions))
        best = [point for point, _ in self._best.values()]
        for row in range(int(self.NEAR * self.DRAWN)):
            parent = best[int(rng.integers(len(best)))]
            moved = np.clip(parent + self.STEP * rng.standard_normal(len(parent)), 0.0, 1.0)
            drawn[row] = np.where(rng.random(len(parent)) < self.CHANGED, moved, parent)
        promise = self._predicted(drawn)
        cells = [self._cell(point) for point in drawn]
        by_cell: dict[str, list[int]] = {}
        for row in np.argsort(-promise, kind="stable").tolist():
            if cells[row]:
                by_cell.setdefault(cells[row], []).append(row)
        # cells with fewest failures first, of these the most promising
        order = sorted(by_cell, key=lambda cell: (self._failed.get(cell, 0), -promise[by_cell[cell][0]]))
        return [drawn[by_cell[cell][0]] for cell in order]

    def _cell(self, point: FloatArray) -> str:
        if self.task.space.cell is not None:
            return self.task.space.cell(point)
        return self._cells[int(np.argmin(np.square(np.stack(self._points) - point).sum(axis=1)))]

    def _predicted(self, points: FloatArray) -> FloatArray:
        """Predicts fitness from numbers and their squares; how strongly the fit is held back is chosen by leaving one out at a time."""
        seen, values = _features(np.stack(self._points)), np.array(self._values)
        middle, mean = seen.mean(axis=0), values.mean()
        left, sizes, right = np.linalg.svd(seen - middle, full_matrices=False)
        turned = left.T @ (values - mean)
        best, weights = np.inf, np.zeros(seen.shape[1])
        for ridge in self.RIDGES:
            kept = sizes**2 / (sizes**2 + ridge)
            hat = np.square(left) @ kept + 1.0 / len(values)
            error = float(np.mean(np.square((values - mean - left @ (kept * turned)) / np.maximum(1.0 - hat, 1e-6))))
            if error < best:
                best, weights = error, right.T @ (kept / np.maximum(sizes, 1e-12) * turned)
        return np.asarray((_features(points) - middle) @ weights + mean, np.float64)


def _features(points: FloatArray) -> FloatArray:
    return np.concatenate((points, np.square(points - 0.5)), axis=1)
