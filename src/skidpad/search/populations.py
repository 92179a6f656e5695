"""Searches over styles and scenarios that learn from whole generations, by well-kept libraries: CMA-ES (cmaes) and MAP-Elites (pyribs).

Generations are told whole, so no try of them may be dropped before it is finished.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from skidpad.core.errors import optional
from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng, child_seed
from skidpad.search.evolution import Styles
from skidpad.search.protocol import CountingSearch, Fitness, SearchTask, searches
from skidpad.search.vectors import Cube

_SEED_BITS = 32
POPULATION = 8
"""Few, because a drive takes seconds and a budget is some hundred of them."""
FIRST_STEP = 0.3
_CELLS = 256


class Generations(CountingSearch[FloatArray], ABC):
    """Hands out a generation piece by piece, and lets a subclass learn from it once all of it is told."""

    races = False
    UNTRIED = -1.0
    """What a library is told of a point that could not be tried: worse than any that could."""

    def __init__(self, task: SearchTask[Any]) -> None:
        super().__init__(task)
        self.best: FloatArray | None = None
        self.best_fitness = -inf
        self._generation: list[FloatArray] = []
        self._told: list[Fitness] = []

    @property
    def seed(self) -> int:
        """A seed of the size that libraries take."""
        return child_seed(self.task.seed, self.name) % (1 << _SEED_BITS)

    def _next(self, width: int) -> list[FloatArray]:
        if self.done:
            return []
        if not self._generation:
            self._generation = [self.task.space.within(np.asarray(point, np.float64)) for point in self._draw()]
        left = sys.maxsize if self.task.budget is None else self.task.budget - self.tries
        return [point.copy() for point in self._generation[len(self._told) :][: min(width, left)]]

    def _learn(self, asked: Sequence[FloatArray], feedback: Sequence[Fitness], /) -> None:
        super()._learn(asked, feedback)
        for fitness in feedback:
            point = self._generation[len(self._told)]
            self._told.append(fitness)
            better = isfinite(fitness.value) and fitness.value > self.best_fitness
            if better or self.best is None:
                self.best, self.best_fitness, self.failures = point, fitness.value, 0
            else:
                self.failures += 1
        if len(self._told) == len(self._generation):
            self._learn_all(self._generation, self._told)
            self._generation, self._told = [], []

    def value(self, fitness: Fitness) -> float:
        """Returns what a library is told of a fitness."""
        return fitness.value if isfinite(fitness.value) else self.UNTRIED

    @abstractmethod
    def _draw(self) -> Sequence[FloatArray]:
        """Draws the next generation."""

    @abstractmethod
    def _learn_all(self, points: Sequence[FloatArray], told: Sequence[Fitness]) -> None:
        """Learns from a whole generation."""


@searches("cma-es", Styles)
class CmaEs(Generations):
    """CMA-ES from the middle of the style space, with a first step of 1.

    Reference: Hansen (2016), The CMA Evolution Strategy: A Tutorial; the library's own sizes of generations.
    """

    name = "cma-es"
    UNTRIED = -1e9

    def __init__(self, task: SearchTask[Any]) -> None:
        super().__init__(task)
        # One number alone has no covariance; a second that nothing hangs on gives it one.
        self._library = self._made(optional("cmaes", "cmaes", "search", "the search cma-es"), max(task.space.dimensions, 2))

    def _made(self, cmaes: Any, size: int) -> Any:
        return cmaes.CMA(mean=np.zeros(size), sigma=1.0, seed=self.seed)

    def _draw(self) -> list[FloatArray]:
        self._points = [np.asarray(self._library.ask(), np.float64) for _ in range(self._library.population_size)]
        return [point[: self.task.space.dimensions] for point in self._points]

    def _learn_all(self, _points: Sequence[FloatArray], told: Sequence[Fitness]) -> None:
        # the library minimises
        self._library.tell([(point, -self.value(fitness)) for point, fitness in zip(self._points, told, strict=True)])


@searches("map-elites", Styles)
class StyleElites(Generations):
    """MAP-Elites: the fittest style of every cell of a map of brightness and colour, changed by normal steps.

    Reference: Mouret and Clune (2015), Illuminating search spaces by mapping elites.
    """

    name = "map-elites"
    UNTRIED = -1e9
    CELLS, BATCH, STEP = (8, 8), 12, 0.5

    def __init__(self, task: SearchTask[Any]) -> None:
        super().__init__(task)
        archives, emitters = (optional(f"ribs.{part}", "ribs", "search", "the search map-elites") for part in ("archives", "emitters"))
        self._archive: Any = archives.GridArchive(
            solution_dim=task.space.dimensions, dims=self.CELLS, ranges=[(0.0, 1.0), (0.0, 1.0)], seed=self.seed, dtype=np.float64
        )
        first = [task.space.draw(child_rng(task.seed, self.name, number)) for number in range(self.BATCH)]
        self._emitter: Any = emitters.GaussianEmitter(
            self._archive, sigma=self.STEP, initial_solutions=np.stack(first), batch_size=self.BATCH, seed=self.seed
        )

    @property
    def filled(self) -> int:
        """How many cells of the map hold a style."""
        return len(self._archive)

    def _draw(self) -> list[FloatArray]:
        return list(np.asarray(self._emitter.ask(), np.float64))

    def _learn_all(self, points: Sequence[FloatArray], told: Sequence[Fitness]) -> None:
        self._archive.add(
            np.stack(points), np.array([self.value(fitness) for fitness in told]), np.array([fitness.measures for fitness in told])
        )


@searches("cma-es", Cube)
class SeparableCma(CmaEs):
    """CMA-ES with a diagonal covariance: climbs to one failure quickly where many variables hardly hang together.

    Reference: Ros and Hansen (2008), A simple modification in CMA-ES achieving linear time and space complexity.
    """

    UNTRIED = Generations.UNTRIED

    def _made(self, cmaes: Any, size: int) -> Any:
        bounds, middle = np.tile([0.0, 1.0], (size, 1)), np.full(size, 0.5)
        return cmaes.SepCMA(mean=middle, sigma=FIRST_STEP, bounds=bounds, seed=self.seed, population_size=POPULATION)


@searches("cma-me", Cube)
class CmaMapElites(Generations):
    """CMA-ME: CMA-ES climbers that are rewarded for what is new in the map of features, cell by cell.

    Reference: Fontaine, Togelius, Nikolaidis, Hoover (2020), Covariance matrix adaptation for the rapid illumination of behavior space.
    """

    name = "cma-me"
    EMITTERS = 2

    def __init__(self, task: SearchTask[Any]) -> None:
        super().__init__(task)
        ribs = {part: optional(f"ribs.{part}", "ribs", "search", "the search cma-me") for part in ("archives", "emitters", "schedulers")}
        size = max(task.space.dimensions, 2)
        self._cells: dict[str, int] = {}
        # No bounds: it would draw again until every number lies within, and of dozens one is always outside. `ask` clips them.
        # Cells are names here: the archive has a row of places, given to names in the order in which they come up.
        archive = ribs["archives"].GridArchive(
            solution_dim=size, dims=[_CELLS], ranges=[(0.0, float(_CELLS))], seed=self.seed, dtype=np.float64
        )
        emitters = [
            ribs["emitters"].EvolutionStrategyEmitter(
                archive,
                x0=np.full(size, 0.5),
                sigma0=FIRST_STEP,
                es="sep_cma_es",
                batch_size=POPULATION,
                seed=(self.seed + number) % (1 << 32),
            )
            for number in range(self.EMITTERS)
        ]
        self._library: Any = ribs["schedulers"].Scheduler(archive, emitters)

    def _draw(self) -> list[FloatArray]:
        return [point[: self.task.space.dimensions] for point in np.asarray(self._library.ask(), np.float64)]

    def _learn_all(self, _points: Sequence[FloatArray], told: Sequence[Fitness]) -> None:
        places = [self._cells.setdefault(fitness.cell, min(len(self._cells), _CELLS - 1)) + 0.5 for fitness in told]
        self._library.tell(np.array([self.value(fitness) for fitness in told]), np.array(places)[:, None])
