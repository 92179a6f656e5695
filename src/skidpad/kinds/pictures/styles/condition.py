"""Finding one critical condition: ask the search, look at what it asks, tell it; then what was found, in plain values.

Reference: TACTIC, section 3.3.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Self

from skidpad.search.evolution import Styles
from skidpad.search.protocol import SEARCHES, Fitness, SearchTask, asked_of, taken

if TYPE_CHECKING:
    from skidpad.kinds.pictures.styles.evaluation import Evaluator, Goal, Looked


Told = Callable[[int, float], None]
"""Hears after each step of a search how many tries were made, and the best fitness."""


@dataclass(frozen=True, slots=True)
class Try:
    """One try of a search: its fitness (None: dropped as one that cannot win), on how many scenes it was looked at, if it was kept."""

    fitness: float | None
    scenes: int
    kept: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that a search ended with.

    diversity, divergence_rad: F_c and F_d. uncovered: regions that were open when the search began. tries: in order; those that were
    drawn ahead and became void are not among them, but their frames count in `frames`. seconds: of the search. refused: scenes that
    the referee's quick looks do not keep, which count as nothing.
    """

    search: str
    repeat: int
    number: int
    style: tuple[float, ...]
    fitness: float
    diversity: float
    divergence_rad: float
    newly: int
    uncovered: int
    rejected: int
    tries: tuple[Try, ...]
    frames: int
    seconds: float
    refused: int = 0

    def to_json(self) -> bytes:
        """Writes the condition."""
        values = {**asdict(self), "tries": [[each.fitness, each.scenes, each.kept] for each in self.tries]}
        return json.dumps(values, allow_nan=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Reads what `to_json` wrote."""
        values: dict[str, Any] = json.loads(data)
        tries = tuple(Try(fitness, scenes, kept) for fitness, scenes, kept in values["tries"])
        return cls(**{**values, "style": tuple(values["style"]), "tries": tries})

    @property
    def dropped(self) -> int:
        """How many tries were given up before the last scene."""
        return sum(each.fitness is None for each in self.tries)

    @property
    def best_after(self) -> tuple[float, ...]:
        """The best fitness after each try."""
        best, after = -inf, []
        for each in self.tries:
            best = each.fitness if each.kept and each.fitness is not None else best
            after.append(best)
        return tuple(after)

    @property
    def farthest(self) -> float:
        """The largest number of the style, by which it strays from N(0, 1)."""
        return max(abs(number) for number in self.style)


@dataclass(frozen=True, slots=True)
class FoundStyle:
    """The best style of a search, and how it was found."""

    best: Looked
    tries: tuple[Try, ...]
    frames: int
    seconds: float


def find(name: str, task: SearchTask[Styles], evaluator: Evaluator, goal: Goal, at_once: int = 0, told: Told | None = None) -> FoundStyle:
    """Runs one search to its end; at_once: tries that are looked at together (0: as many as fill a batch).

    However many are looked at together and whether they are raced or not, a search accepts the same steps, unless a race drops a
    winner, which `goal.risk` bounds.
    """
    search = SEARCHES.get(name)(task)
    width = at_once or evaluator.width
    begun, frames = time.perf_counter(), evaluator.frames_seen
    best: Looked | None = None
    tries: list[Try] = []
    while not search.done:
        styles = asked_of(search, width, name)
        looked = evaluator.look(styles, goal, best if getattr(search, "races", False) else None)
        accepted = search.tell([Fitness(each.value, measures=each.measures) for each in looked])
        for place in range(taken(len(looked), accepted)):
            each = looked[place]
            better = best is None or each.value > best.value
            best = each if better else best
            tries.append(Try(each.value if isfinite(each.value) else None, each.seen, better))
        if told is not None and best is not None:
            told(len(tries), best.value)
    if best is None:
        raise ValueError(f"the search {name!r} ended without a try")
    return FoundStyle(best, tuple(tries), evaluator.frames_seen - frames, time.perf_counter() - begun)
