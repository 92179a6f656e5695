"""Searches over the styles of a weather: TACTIC's (1+1)-ES, random search and random styles.

Reference: TACTIC, section 3.3 ((1+1)-ES, after Rechenberg) and 4.4 (random search under the same fitness and the same end).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.search.protocol import CountingSearch, Fitness, SearchTask, searches

PATIENCE = 100
"""TACTIC, section 3.3: the search ends when 100 iterations in a row have brought nothing better."""

STYLE_LIMIT = 4.0
"""One in 16,000 numbers of N(0, 1) lies beyond; the paper sets no limit."""


@dataclass(frozen=True, slots=True)
class Styles:
    """The styles of a weather, as MUNIT draws them. limit: no number of a style goes beyond it (0: no limit)."""

    noun: ClassVar[str] = "styles"

    dimensions: int
    limit: float = STYLE_LIMIT

    def __post_init__(self) -> None:
        if self.dimensions < 1 or not self.limit >= 0.0:
            raise BadParametersError(f"a style has at least one number, and a limit of 0 or more; got {self.dimensions} and {self.limit}")

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draws a style."""
        return self.within(rng.standard_normal(self.dimensions))

    def vary(self, candidate: FloatArray, rng: np.random.Generator, step: float) -> FloatArray:
        """Adds normal steps."""
        return self.within(candidate + step * rng.standard_normal(self.dimensions))

    def within(self, style: FloatArray) -> FloatArray:
        """Returns the style with its numbers brought back to the limit."""
        return np.clip(style, -self.limit, self.limit) if self.limit else style


class OneAtATime(CountingSearch[FloatArray]):
    """Keeps the best style; a try that is better takes its place. A subclass says what is tried next, and learns the step."""

    task: SearchTask[Styles]
    races = True
    """Whether a try that cannot beat the best may be dropped unfinished."""

    def __init__(self, task: SearchTask[Styles]) -> None:
        super().__init__(task)
        self.best: FloatArray | None = None
        self.best_fitness = -inf

    def _next(self, width: int) -> list[FloatArray]:
        return super()._next(width if self.best is not None else 1)  # the very first comes alone

    def _learn(self, asked: Sequence[FloatArray], feedback: Sequence[Fitness], /) -> tuple[int, ...]:
        """Takes results up to the first that is better than the best and is kept; what was drawn after it is void."""
        for place, fitness in enumerate(feedback):
            self.tries += 1
            better = isfinite(fitness.value) and fitness.value > self.best_fitness
            if self.best is not None:
                self._adapt(better=better)
            if better or self.best is None:
                self.best, self.best_fitness, self.failures = asked[place], fitness.value, 0
                return (place,)
            self.failures += 1
        return ()

    def _candidate(self, ahead: int, /) -> FloatArray:
        return self.task.space.draw(child_rng(self.task.seed, self.name, self.tries + ahead))

    def _adapt(self, *, better: bool) -> None:
        """Learns nothing from one try."""


@searches("es", Styles)
class OnePlusOneES(OneAtATime):
    """(1+1)-ES: the best style plus a normal step whose size follows the one-fifth rule.

    The first style is drawn from N(0, 1). A better one makes the step 1.5 times as large, any other 1.5 ** -0.25 times, so that it
    stays where one try in five succeeds. It lies within 0.1 and 2: styles nearer than that look alike, and telling them apart costs
    a look at every scene.

    Reference: TACTIC, section 3.3; Rechenberg's rule in the form of Kern et al. (2004).
    Deviates: the paper leaves the step open, and in its published code an integer division keeps it from ever shrinking.
    """

    name = "es"
    FIRST_STEP, SMALLEST_STEP, LARGEST_STEP = 0.5, 0.1, 2.0
    GROWTH = 1.5

    def __init__(self, task: SearchTask[Styles]) -> None:
        super().__init__(task)
        self.step = self.FIRST_STEP

    def _candidate(self, ahead: int, /) -> FloatArray:
        if self.best is None:
            return super()._candidate(ahead)
        step = self.step
        for _ in range(ahead):
            step = self._after(step, better=False)
        return self.task.space.vary(self.best, child_rng(self.task.seed, self.name, self.tries + ahead), step)

    def _adapt(self, *, better: bool) -> None:
        self.step = self._after(self.step, better=better)

    def _after(self, step: float, *, better: bool) -> float:
        changed = step * (self.GROWTH if better else self.GROWTH**-0.25)
        return min(max(changed, self.SMALLEST_STEP), self.LARGEST_STEP)


@searches("random-search", Styles)
class RandomSearch(OneAtATime):
    """RS: every try is a fresh draw; fitness, patience and budget are those of the evolution strategy.

    Reference: TACTIC, section 4.4.
    """

    name = "random-search"


@searches("random-styles", Styles)
class RandomStyles(OneAtATime):
    """R_c: one random style, whatever it brings.

    Reference: TACTIC, section 4.2.
    """

    name = "random-styles"

    @property
    def left(self) -> int:
        """One, until the style was tried."""
        return 1 - self.tries
