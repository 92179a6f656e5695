"""Pairs of transformations with rows of their grids, drawn as in Algorithm 1."""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe, Step, Stimulus, grid_recipes
from skidpad.search.protocol import SEARCHES, SearchTask, check_feedback, check_width, taken


def draw_pair(stimuli: Mapping[str, Stimulus], rng: np.random.Generator, first: str | None = None) -> Recipe:
    """Draws T1 (unless `first` names it), P1, T2 and P2, in this order; T1 may equal T2.

    Names are drawn from their sorted order, so the order in which a user lists transforms changes nothing.

    Reference: DeepTest 3.3, Algorithm 1, lines 12 to 17.
    """
    names = sorted(stimuli)
    return Recipe((_draw_step(stimuli, names, rng, first), _draw_step(stimuli, names, rng, None)))


def _draw_step(stimuli: Mapping[str, Stimulus], names: list[str], rng: np.random.Generator, given: str | None) -> Step:
    name = names[int(rng.integers(len(names)))] if given is None else given
    return Step(name, stimuli[name].space.pick(rng))


def stack_order(seed_images: int) -> range:
    """Returns the order in which Algorithm 1 visits its seed images: pushed in order, popped from the end."""
    return range(seed_images - 1, -1, -1)


@SEARCHES.register("greedy")
class Greedy:
    """Algorithm 1 on one seed image: transformations that raised coverage are tried again first.

    The draws of try t come from a generator of their own, so tries can be drawn ahead on the guess that those before
    them fail. After a success the guess was wrong: later draws are void and drawn again with the longer queue. Whatever
    the width, the tries taken are those of the loop as printed. Between images only coverage is carried, by the caller.

    Reference: DeepTest 3.3, Algorithm 1.
    Deviates: `max_tries` of the task caps the tries of one image; None gives the loop as printed.
    """

    def __init__(self, task: SearchTask) -> None:
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
        """Whether more than `max_failed_tries` tries failed, or the cap is reached."""
        return self._left() < 1

    def ask(self, width: int) -> list[Recipe]:
        """Draws the next tries on the guess that each before the last fails."""
        check_width(width)
        waiting = self.queue
        self._asked = [
            draw_pair(
                self._task.stimuli,
                child_rng(self._task.seed, "guided", self._task.frame_id, self._tries + ahead),
                waiting[ahead] if ahead < len(waiting) else None,
            )
            for ahead in range(min(width, self._left()))
        ]
        return list(self._asked)

    def tell(self, feedback: Sequence[bool]) -> tuple[int, ...]:
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
        # "numFailedTries <= maxFailedTries" runs the loop once more than maxFailedTries says.
        left = self._task.max_failed_tries + 1 - self._failed_tries
        return left if self._task.max_tries is None else min(left, self._task.max_tries - self._tries)


@SEARCHES.register("grid")
class Grid:
    """The cumulative baseline: each transformation alone with each row of its grid, in the order given.

    Reference: DeepTest 5, RQ3 (i): 7 transformations x 10 parameters on every seed image.
    """

    def __init__(self, task: SearchTask) -> None:
        self._recipes = grid_recipes(task.stimuli)
        self._asked = 0
        self._tries = 0

    @property
    def tries(self) -> int:
        """How many recipes were taken."""
        return self._tries

    @property
    def done(self) -> bool:
        """Whether every row was taken."""
        return self._tries >= len(self._recipes)

    def ask(self, width: int) -> list[Recipe]:
        """Returns the next rows."""
        check_width(width)
        recipes = self._recipes[self._tries : self._tries + width]
        self._asked = len(recipes)
        return list(recipes)

    def tell(self, feedback: Sequence[bool]) -> None:
        """Takes every candidate, whatever it brought."""
        check_feedback(self._asked, len(feedback))
        self._tries += self._asked
        self._asked = 0


@SEARCHES.register("random")
class RandomPairs:
    """Pairs drawn as in Algorithm 1 with no feedback from coverage: what the guidance must beat."""

    def __init__(self, task: SearchTask) -> None:
        tries = task.max_failed_tries + 1 if task.unguided_tries is None else task.unguided_tries
        self._total = tries if task.max_tries is None else min(tries, task.max_tries)
        self._task = task
        self._asked = 0
        self._tries = 0

    @property
    def tries(self) -> int:
        """How many pairs were taken."""
        return self._tries

    @property
    def done(self) -> bool:
        """Whether as many pairs were taken as the task allows."""
        return self._tries >= self._total

    def ask(self, width: int) -> list[Recipe]:
        """Draws the next pairs."""
        check_width(width)
        self._asked = min(width, self._total - self._tries)
        return [
            draw_pair(self._task.stimuli, child_rng(self._task.seed, "random", self._task.frame_id, self._tries + ahead))
            for ahead in range(self._asked)
        ]

    def tell(self, feedback: Sequence[bool]) -> None:
        """Takes every candidate, whatever it brought."""
        check_feedback(self._asked, len(feedback))
        self._tries += self._asked
        self._asked = 0
