"""Searches over styles that learn from whole generations, by well-kept libraries: CMA-ES (cmaes) and MAP-Elites (pyribs).

Generations are told whole, so no try of them may be dropped before it is finished.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from skidpad.core.errors import MissingExtraError
from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_seed
from skidpad.search.evolution import STYLE_SEARCHES, StyleFitness, StyleTask
from skidpad.search.protocol import check_feedback, check_width

_SEED_BITS = 32
_WORST = -1e9
"""What a library is told of a style without a fitness."""


class Generations(ABC):
    """Hands out a generation piece by piece, and lets a subclass learn from it once all of it is told."""

    name = ""
    races = False

    def __init__(self, task: StyleTask) -> None:
        self.task = task
        self.best: FloatArray | None = None
        self.best_fitness = -inf
        self.tries = 0
        self.failures = 0
        self._generation: list[FloatArray] = []
        self._told: list[StyleFitness] = []
        self._asked = 0

    @property
    def done(self) -> bool:
        """Whether patience or budget is spent."""
        return self.failures >= self.task.patience or 0 < self.task.budget <= self.tries

    @property
    def seed(self) -> int:
        """A seed of the size that libraries take."""
        return child_seed(self.task.seed, self.name) % (1 << _SEED_BITS)

    def ask(self, width: int) -> list[FloatArray]:
        """Returns what is left of the generation, at most `width`."""
        check_width(width)
        if self.done:
            self._asked = 0
            return []
        if not self._generation:
            self._generation = [self.task.within(np.asarray(style, np.float64)) for style in self._draw()]
        left = self.task.budget - self.tries if self.task.budget else width
        pending = self._generation[len(self._told) :][: min(width, left)]
        self._asked = len(pending)
        return list(pending)

    def tell(self, feedback: Sequence[StyleFitness]) -> None:
        """Takes every try."""
        check_feedback(self._asked, len(feedback))
        for fitness in feedback:
            style = self._generation[len(self._told)]
            self._told.append(fitness)
            self.tries += 1
            better = isfinite(fitness.value) and fitness.value > self.best_fitness
            if better or self.best is None:
                self.best, self.best_fitness, self.failures = style, fitness.value, 0
            else:
                self.failures += 1
        self._asked = 0
        if len(self._told) == len(self._generation):
            self._learn(self._generation, self._told)
            self._generation, self._told = [], []

    @abstractmethod
    def _draw(self) -> Sequence[FloatArray]:
        """Draws the next generation."""

    @abstractmethod
    def _learn(self, styles: Sequence[FloatArray], told: Sequence[StyleFitness]) -> None:
        """Learns from a whole generation."""


@STYLE_SEARCHES.register("cma-es")
class CmaEs(Generations):
    """CMA-ES from the middle of the style space, with a first step of 1.

    Reference: Hansen (2016), The CMA Evolution Strategy: A Tutorial; the library's own sizes of generations.
    """

    name = "cma-es"

    def __init__(self, task: StyleTask) -> None:
        super().__init__(task)
        try:
            from cmaes import CMA  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError.of("cmaes", "search", "the search cma-es") from error
        # One number alone has no covariance; a second that nothing hangs on gives it one.
        self._size = max(task.dimensions, 2)
        self._optimizer: Any = CMA(mean=np.zeros(self._size), sigma=1.0, seed=self.seed)

    def _draw(self) -> list[FloatArray]:
        self._points = [np.asarray(self._optimizer.ask()) for _ in range(self._optimizer.population_size)]
        return [point[: self.task.dimensions] for point in self._points]

    def _learn(self, _styles: Sequence[FloatArray], told: Sequence[StyleFitness]) -> None:
        # the library minimises
        pairs = zip(self._points, told, strict=True)
        self._optimizer.tell([(point, -fitness.value if isfinite(fitness.value) else -_WORST) for point, fitness in pairs])


@STYLE_SEARCHES.register("map-elites")
class StyleElites(Generations):
    """MAP-Elites: the fittest style of every cell of a map of brightness and colour, changed by normal steps.

    Reference: Mouret and Clune (2015), Illuminating search spaces by mapping elites.
    """

    name = "map-elites"
    CELLS, BATCH, STEP = (8, 8), 12, 0.5

    def __init__(self, task: StyleTask) -> None:
        super().__init__(task)
        try:
            from ribs.archives import GridArchive  # noqa: PLC0415 - an extra
            from ribs.emitters import GaussianEmitter  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError.of("ribs", "search", "the search map-elites") from error
        self._archive: Any = GridArchive(
            solution_dim=task.dimensions, dims=self.CELLS, ranges=[(0.0, 1.0), (0.0, 1.0)], seed=self.seed, dtype=np.float64
        )
        first = [task.fresh(self.name, number) for number in range(self.BATCH)]
        self._emitter: Any = GaussianEmitter(
            self._archive, sigma=self.STEP, initial_solutions=np.stack(first), batch_size=self.BATCH, seed=self.seed
        )

    @property
    def filled(self) -> int:
        """How many cells of the map hold a style."""
        return len(self._archive)

    def _draw(self) -> list[FloatArray]:
        return list(np.asarray(self._emitter.ask(), np.float64))

    def _learn(self, styles: Sequence[FloatArray], told: Sequence[StyleFitness]) -> None:
        values = np.array([fitness.value if isfinite(fitness.value) else _WORST for fitness in told])
        self._archive.add(np.stack(styles), values, np.array([fitness.measures for fitness in told]))
