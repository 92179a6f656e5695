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
from skidpad.search.protocol import Fitness, SearchTask, check_feedback, check_width, left_of, searches, taken

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
class Greedy:
    """Algorithm 1 on one seed image: transformations that raised coverage are tried again first.

    The draws of try t come from a generator of their own, so tries can be drawn ahead on the guess that those before
    them fail. After a success the guess was wrong: later draws are void and drawn again with the longer queue. Whatever
    the width, the tries taken are those of the loop as printed. Between images only coverage is carried, by the caller.

    Reference: DeepTest 3.3, Algorithm 1.
    Deviates: the budget of the task caps the tries of one image; None gives the loop as printed.
    """

    def __init__(self, task: SearchTask[Pairs]) -> None:
        self._task = task
        self._queue: deque[str] = deque()
        self._asked: list[Recipe] = []
        self._tries = 0
        self._failed_tries = 0

    @property
    def tries(self) -> int:
        """How many tries were taken, successful or not."""
        return self._tries

    @property
    def failed_tries(self) -> int:
        """How many tries left coverage as it was."""
        return self._failed_tries

    @property
    def queue(self) -> tuple[str, ...]:
        """The transformations that wait to be tried again, next one first."""
        return tuple(self._queue)

    @property
    def done(self) -> bool:
        """Whether more tries failed than Algorithm 1 allows, or the cap is reached."""
        return self._left() < 1

    def ask(self, width: int) -> list[Recipe]:
        """Draws the next tries on the guess that each before the last fails."""
        check_width(width)
        waiting = self.queue
        self._asked = [
            draw_pair(
                self._task.space.stimuli,
                child_rng(self._task.seed, "guided", self._task.place, self._tries + ahead),
                waiting[ahead] if ahead < len(waiting) else None,
            )
            for ahead in range(min(width, self._left()))
        ]
        return list(self._asked)

    def tell(self, feedback: Sequence[Fitness]) -> tuple[int, ...]:
        """Takes whether each mutant would raise coverage; keeps the first that does.

        The coverage to compare with is the one before this batch; up to the first success nothing changes it.
        """
        check_feedback(len(self._asked), len(feedback))
        accepted = next(((position,) for position, increase in enumerate(feedback) if increase), ())
        used = taken(len(self._asked), accepted)
        for _ in range(min(used, len(self._queue))):
            self._queue.popleft()
        for position in accepted:
            self._queue.extend(step.stimulus for step in self._asked[position].steps)
        self._tries += used
        self._failed_tries += used - len(accepted)
        self._asked = []
        return accepted

    def _left(self) -> int:
        return left_of(self._task, self._tries, self._failed_tries)


class _Unguided:
    """A search that takes every candidate, whatever it brought. total: how many there are."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._asked = 0
        self._tries = 0

    @property
    def tries(self) -> int:
        """How many candidates were taken."""
        return self._tries

    @property
    def done(self) -> bool:
        """Whether every candidate was taken."""
        return self._tries >= self._total

    def _next(self, width: int) -> range:
        """Returns the numbers of the next candidates."""
        check_width(width)
        self._asked = min(width, self._total - self._tries)
        return range(self._tries, self._tries + self._asked)

    def tell(self, feedback: Sequence[Fitness]) -> None:
        """Takes every candidate, whatever it brought."""
        check_feedback(self._asked, len(feedback))
        self._tries += self._asked
        self._asked = 0


@searches("grid", Pairs)
class Grid(_Unguided):
    """The cumulative baseline: each transformation alone with each row of its grid, in the order given.

    Reference: DeepTest 5, RQ3 (i): 7 transformations x 10 parameters on every seed image.
    """

    def __init__(self, task: SearchTask[Pairs]) -> None:
        self._recipes = grid_recipes(task.space.stimuli)
        super().__init__(len(self._recipes))

    def ask(self, width: int) -> list[Recipe]:
        """Returns the next rows."""
        return [self._recipes[number] for number in self._next(width)]


@searches("random", Pairs)
class RandomPairs(_Unguided):
    """Pairs drawn as in Algorithm 1 with no feedback from coverage: what the guidance must beat."""

    def __init__(self, task: SearchTask[Pairs]) -> None:
        limits = (task.patience if task.unguided_tries is None else task.unguided_tries, task.budget)
        super().__init__(min((limit for limit in limits if limit is not None), default=sys.maxsize))
        self._task = task

    def ask(self, width: int) -> list[Recipe]:
        """Draws the next pairs."""
        task = self._task
        return [draw_pair(task.space.stimuli, child_rng(task.seed, "random", task.place, number)) for number in self._next(width)]
