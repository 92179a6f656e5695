"""A search that learns where failures are and looks for them where none was found yet: many points are drawn, few are tried."""

from __future__ import annotations

from math import isfinite

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.search.protocol import Fitness, SearchTask, searches
from skidpad.search.vectors import Cube, GenerationSearch, budget_of

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
        if self._tries < self.FIRST * budget_of(self._task) or len(self._values) < 5:
            return self._task.space.draw(rng)
        # A generation is planned whole, once for all its places.
        if self._planned[0] != self._tries:
            self._planned = (self._tries, self._plan(child_rng(self._task.seed, self.name, "plan", self._tries)))
        plan = self._planned[1]
        return plan[place] if place < len(plan) else self._task.space.draw(rng)

    def _learn(self, _place: int, point: FloatArray, fitness: Fitness, /) -> None:
        if not isfinite(fitness.value):
            return
        self._points.append(point)
        self._values.append(fitness.value)
        self._cells.append(fitness.cell)
        if fitness.value >= FAILED:
            self._failed[fitness.cell] = self._failed.get(fitness.cell, 0) + 1
        if fitness.cell not in self._best or fitness.value > self._best[fitness.cell][1]:
            self._best[fitness.cell] = (point, fitness.value)

    def _plan(self, rng: np.random.Generator) -> list[FloatArray]:
        """Returns points in the order in which they are worth trying."""
        drawn = rng.random((self.DRAWN, self._task.space.dimensions))
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
        if self._task.space.cell is not None:
            return self._task.space.cell(point)
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
