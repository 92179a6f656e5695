"""DeepTest's coverage-guided greedy search for combinations of transformations."""

from collections import deque
from collections.abc import Sequence

from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe
from skidpad.search.pairs import draw_pair
from skidpad.search.protocol import SEARCHES, SearchTask, check_feedback, check_width, taken


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

    def tell(self, feedback: Sequence[bool]) -> int | None:
        """Takes whether each mutant would raise coverage; returns the position of the first that does.

        The coverage to compare with is the one before this batch; up to the first success nothing changes it.
        """
        check_feedback(len(self._asked), len(feedback))
        accepted = next((position for position, increase in enumerate(feedback) if increase), None)
        used = taken(len(self._asked), accepted)
        for _ in range(min(used, len(self._queue))):
            self._queue.popleft()
        if accepted is not None:
            self._queue.extend(step.stimulus for step in self._asked[accepted].steps)
        self._tries += used
        self._failed_tries += used if accepted is None else accepted
        self._asked = []
        return accepted

    def _left(self) -> int:
        # "numFailedTries <= maxFailedTries" runs the loop once more than maxFailedTries says.
        left = self._task.max_failed_tries + 1 - self._failed_tries
        return left if self._task.max_tries is None else min(left, self._task.max_tries - self._tries)
