"""Pairs of transformations with rows of their grids, drawn as in Algorithm 1."""

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe, Step, Stimulus, grid_recipes, shows_past
from skidpad.search.protocol import CountingSearch, Fitness, SearchTask, searches, taken

DEFAULT_MAX_FAILED_TRIES = 10
"""DeepTest 3.3 names maxFailedTries and leaves its value open; this one is ours."""

DEFAULT_MAX_TRIES = 1000
"""A safety: DeepTest kept 2 to 9 pictures a seed image (5, RQ3), so a search that gets here is lost."""


def draw_pair(stimuli: Mapping[str, Stimulus], rng: np.random.Generator, first: str | None = None) -> Recipe:
    """Draws T1 (unless `first` names it), P1, T2 and P2, in this order; T1 may equal T2.

    Names are drawn from their sorted order, so the order in which a user lists transforms changes nothing.

    Reference: DeepTest 3.3, Algorithm 1, lines 12 to 17.
    Deviates: where both show earlier frames, T2 is drawn again from those that do not, since only one can; T1 stands alone where there
    is none.
    """
    names = sorted(stimuli)
    one, two = _draw_step(stimuli, names, rng, first), _draw_step(stimuli, names, rng, None)
    if not (shows_past(stimuli[one.stimulus]) and shows_past(stimuli[two.stimulus])):
        return Recipe((one, two))
    others = [name for name in names if not shows_past(stimuli[name])]
    return Recipe((one, _draw_step(stimuli, others, rng, None)) if others else (one,))


def _draw_step(stimuli: Mapping[str, Stimulus], names: list[str], rng: np.random.Generator, given: str | None) -> Step:
    name = names[int(rng.integers(len(names)))] if given is None else given
    return Step(name, stimuli[name].space.pick(rng))


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of stimuli that a seed frame can be shown under."""

    noun: ClassVar[str] = "pairs of stimuli"

    stimuli: Mapping[str, Stimulus]

    def __post_init__(self) -> None:
        if not self.stimuli:
            raise BadParametersError("a search needs at least one stimulus and got none; name one, see `skidpad list transforms`")
        for name, stimulus in self.stimuli.items():
            if not stimulus.space.grid:
                raise BadParametersError(f"stimulus {name!r} has an empty grid, so no parameters can be drawn; leave it out")

    def draw(self, rng: np.random.Generator) -> Recipe:
        """Draws a pair as in Algorithm 1."""
        return draw_pair(self.stimuli, rng)

    def vary(self, candidate: Recipe, rng: np.random.Generator, step: float) -> Recipe:
        """Draws the parameters of each stimulus anew with the chance `step`."""

        def changed(each: Step) -> Step:
            return Step(each.stimulus, self.stimuli[each.stimulus].space.pick(rng)) if rng.random() < step else each

        return Recipe(tuple(map(changed, candidate.steps)))


def pairs_task(
    place: str,
    stimuli: Mapping[str, Stimulus],
    seed: int,
    max_failed_tries: int = DEFAULT_MAX_FAILED_TRIES,
    max_tries: int | None = DEFAULT_MAX_TRIES,
    unguided_tries: int | None = None,
) -> SearchTask[Pairs]:
    """Returns the task of one seed frame in the words of Algorithm 1, which ends after `max_failed_tries` and one more (line 8).

    max_tries: a cap on the tries of one image; None: as printed, without one. unguided_tries: see `SearchTask`; None: the fewest that the
    guided search can make.
    """
    if max_failed_tries < 0:
        raise BadParametersError(f"max_failed_tries must be 0 or more; got {max_failed_tries}")
    return SearchTask(Pairs(stimuli), seed, max_tries, max_failed_tries + 1, place, unguided_tries)


def stack_order(seed_images: int) -> range:
    """Returns the order in which Algorithm 1 visits its seed images: pushed in order, popped from the end."""
    return range(seed_images - 1, -1, -1)


@searches("greedy", Pairs)
class Greedy(CountingSearch[Recipe]):
    """Algorithm 1 on one seed image: transformations that raised coverage are tried again first.

    The draws of try t come from a generator of their own, so tries can be drawn ahead on the guess that those before
    them fail. After a success the guess was wrong: later draws are void and drawn again with the longer queue. Whatever
    the width, the tries taken are those of the loop as printed. Between images only coverage is carried, by the caller.

    Reference: DeepTest 3.3, Algorithm 1.
    Deviates: the budget of the task caps the tries of one image; None gives the loop as printed.
    """

    def __init__(self, task: SearchTask[Pairs]) -> None:
        super().__init__(task)
        self._queue: deque[str] = deque()

    @property
    def queue(self) -> tuple[str, ...]:
        """The transformations that wait to be tried again, next one first."""
        return tuple(self._queue)

    def _candidate(self, ahead: int, /) -> Recipe:
        first = self._queue[ahead] if ahead < len(self._queue) else None
        return draw_pair(self.task.space.stimuli, child_rng(self.task.seed, "guided", self.task.place, self.tries + ahead), first)

    def _learn(self, asked: Sequence[Recipe], feedback: Sequence[Fitness], /) -> tuple[int, ...]:
        """Takes whether each mutant would raise coverage; keeps the first that does.

        The coverage to compare with is the one before this batch; up to the first success nothing changes it.
        """
        accepted = next(((position,) for position, increase in enumerate(feedback) if increase), ())
        used = taken(len(asked), accepted)
        for _ in range(min(used, len(self._queue))):
            self._queue.popleft()
        for position in accepted:
            self._queue.extend(step.stimulus for step in asked[position].steps)
        self.tries += used
        self.failures += used - len(accepted)
        return accepted


@searches("grid", Pairs)
class Grid(CountingSearch[Recipe]):
    """The cumulative baseline: each transformation alone with each row of its grid, in the order given.

    Reference: DeepTest 5, RQ3 (i): 7 transformations x 10 parameters on every seed image.
    """

    def __init__(self, task: SearchTask[Pairs]) -> None:
        super().__init__(task)
        self._recipes = grid_recipes(task.space.stimuli)

    @property
    def left(self) -> int:
        """How many rows were not tried yet."""
        return len(self._recipes) - self.tries

    def _candidate(self, ahead: int, /) -> Recipe:
        return self._recipes[self.tries + ahead]


@searches("random", Pairs)
class RandomPairs(CountingSearch[Recipe]):
    """Pairs drawn as in Algorithm 1 with no feedback from coverage: what the guidance must beat."""

    @property
    def left(self) -> int:
        """How many pairs may still be drawn: as many as the guided search makes, or the fewest that it can."""
        limits = (self.task.patience if self.task.unguided_tries is None else self.task.unguided_tries, self.task.budget)
        return min((limit for limit in limits if limit is not None), default=sys.maxsize) - self.tries

    def _candidate(self, ahead: int, /) -> Recipe:
        task = self.task
        return draw_pair(task.space.stimuli, child_rng(task.seed, "random", task.place, self.tries + ahead))
