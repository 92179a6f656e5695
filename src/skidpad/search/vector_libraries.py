"""Searches over the unit cube by well-kept libraries: CMA-ES (cmaes) and CMA-ME (pyribs), behind the same ask and tell.

Both learn from whole generations of their own size, which are handed out piece by piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from skidpad.core.errors import MissingExtraError
from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_seed
from skidpad.search.protocol import check_feedback, check_width
from skidpad.search.vectors import VECTOR_SEARCHES, Fitness, VectorTask

POPULATION = 8
"""Few, because a drive takes seconds and a budget is some hundred of them."""
FIRST_STEP = 0.3
_UNTRIED = -1.0
"""What a library is told of a point that could not be tried: worse than any that could."""
_CELLS = 256


class _Whole:
    """Counts the budget and gathers a generation; a subclass draws it and learns from it once all of it is told."""

    name = ""

    def __init__(self, task: VectorTask) -> None:
        self._task = task
        self._tries = 0
        self._generation: list[FloatArray] = []
        self._told: list[Fitness] = []
        self._asked = 0

    @property
    def done(self) -> bool:
        """Whether the budget is spent."""
        return self._tries >= self._task.budget

    @property
    def seed(self) -> int:
        """A seed of the size that libraries take."""
        return child_seed(self._task.seed, self.name) % (1 << 32)

    def ask(self, width: int) -> list[FloatArray]:
        """Returns what is left of the generation, at most `width`; asking again without telling gives the same."""
        check_width(width)
        if not self._generation and not self.done:
            self._generation = [np.clip(np.asarray(point, np.float64), 0.0, 1.0) for point in self._draw()]
        pending = self._generation[len(self._told) :][: min(width, self._task.budget - self._tries)]
        self._asked = len(pending)
        return [point.copy() for point in pending]

    def tell(self, feedback: Sequence[Fitness]) -> None:
        """Takes every point."""
        check_feedback(self._asked, len(feedback))
        self._told += feedback
        self._tries += len(feedback)
        self._asked = 0
        if self._generation and len(self._told) == len(self._generation):
            self._learn(self._generation, self._told)
            self._generation, self._told = [], []

    def _draw(self) -> Sequence[FloatArray]:
        """Draws the next generation."""
        raise NotImplementedError

    def _learn(self, points: Sequence[FloatArray], told: Sequence[Fitness]) -> None:
        """Learns from a whole generation."""
        raise NotImplementedError


@VECTOR_SEARCHES.register("cma-es")
class SeparableCma(_Whole):
    """CMA-ES with a diagonal covariance: climbs to one failure quickly where many variables hardly hang together.

    Reference: Ros and Hansen (2008), A simple modification in CMA-ES achieving linear time and space complexity.
    """

    name = "cma-es"

    def __init__(self, task: VectorTask) -> None:
        super().__init__(task)
        try:
            from cmaes import SepCMA  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError.of("cmaes", "search", "the search cma-es") from error
        # One number alone has no covariance; a second that nothing hangs on gives it one.
        self._size = max(task.dimensions, 2)
        bounds = np.tile([0.0, 1.0], (self._size, 1))
        middle = np.full(self._size, 0.5)
        self._library: Any = SepCMA(mean=middle, sigma=FIRST_STEP, bounds=bounds, seed=self.seed, population_size=POPULATION)

    def _draw(self) -> list[FloatArray]:
        self._points = [np.asarray(self._library.ask(), np.float64) for _ in range(self._library.population_size)]
        return [point[: self._task.dimensions] for point in self._points]

    def _learn(self, _points: Sequence[FloatArray], told: Sequence[Fitness]) -> None:
        # The library minimises.
        self._library.tell([(point, -_value(fitness)) for point, fitness in zip(self._points, told, strict=True)])


@VECTOR_SEARCHES.register("cma-me")
class CmaMapElites(_Whole):
    """CMA-ME: CMA-ES climbers that are rewarded for what is new in the map of features, cell by cell.

    Reference: Fontaine, Togelius, Nikolaidis, Hoover (2020), Covariance matrix adaptation for the rapid illumination of behavior space.
    """

    name = "cma-me"
    EMITTERS = 2

    def __init__(self, task: VectorTask) -> None:
        super().__init__(task)
        try:
            from ribs.archives import GridArchive  # noqa: PLC0415 - an extra
            from ribs.emitters import EvolutionStrategyEmitter  # noqa: PLC0415 - likewise
            from ribs.schedulers import Scheduler  # noqa: PLC0415 - likewise
        except ImportError as error:
            raise MissingExtraError.of("ribs", "search", "the search cma-me") from error
        size = max(task.dimensions, 2)
        self._cells: dict[str, int] = {}
        # No bounds: it would draw again until every number lies within, and of dozens one is always outside. `ask` clips them.
        # Cells are names here: the archive has a row of places, given to names in the order in which they come up.
        archive = GridArchive(solution_dim=size, dims=[_CELLS], ranges=[(0.0, float(_CELLS))], seed=self.seed, dtype=np.float64)
        emitters = [
            EvolutionStrategyEmitter(
                archive,
                x0=np.full(size, 0.5),
                sigma0=FIRST_STEP,
                es="sep_cma_es",
                batch_size=POPULATION,
                seed=(self.seed + number) % (1 << 32),
            )
            for number in range(self.EMITTERS)
        ]
        self._library: Any = Scheduler(archive, emitters)

    def _draw(self) -> list[FloatArray]:
        return [point[: self._task.dimensions] for point in np.asarray(self._library.ask(), np.float64)]

    def _learn(self, _points: Sequence[FloatArray], told: Sequence[Fitness]) -> None:
        places = [self._cells.setdefault(fitness.cell, min(len(self._cells), _CELLS - 1)) + 0.5 for fitness in told]
        self._library.tell(np.array([_value(fitness) for fitness in told]), np.array(places)[:, None])


def _value(fitness: Fitness) -> float:
    return fitness.value if isfinite(fitness.value) else _UNTRIED
