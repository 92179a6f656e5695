"""Searches over the unit cube: points are asked for, and told how fit they are and which cell of a map of features they fall into.

Points are made and taken in generations, because cars that drive side by side cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.images import FloatArray
from skidpad.core.registry import Registry
from skidpad.core.seeding import child_rng, child_seed
from skidpad.search.protocol import Search, check_feedback, check_width


@dataclass(frozen=True, slots=True)
class Fitness:
    """What a point brought: the higher the better, NaN where it could not be tried; and its cell of the map."""

    value: float
    cell: str = ""


@dataclass(frozen=True, slots=True)
class VectorTask:
    """A search over [0, 1]^dimensions that may try `budget` points. cell: tells a point's cell before it is tried, where one can."""

    dimensions: int
    budget: int
    seed: int
    cell: Callable[[FloatArray], str] | None = None

    def __post_init__(self) -> None:
        if self.dimensions < 1 or self.budget < 1:
            raise BadParametersError(f"a search needs a dimension and a budget; got {self.dimensions} and {self.budget}")


VectorSearch = Search[FloatArray, Fitness]
VECTOR_SEARCHES: Registry[Callable[[VectorTask], VectorSearch]] = Registry(
    "search over scenarios", "scenario-searches", ("skidpad.search.vectors", "skidpad.search.surrogate")
)


class GenerationSearch:
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
class RandomVectors(GenerationSearch):
    """Points drawn evenly, whatever they bring: what every search must beat at the same budget."""

    name = "random"


@dataclass(slots=True)
class _Climber:
    point: FloatArray
    fitness: float
    step: float
    failures: int = 0


@VECTOR_SEARCHES.register("es")
class OnePlusOne(GenerationSearch):
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
