"""What guided search is measured against: every row of every grid, and pairs drawn blindly."""

from collections.abc import Sequence

from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe, grid_recipes
from skidpad.search.pairs import draw_pair
from skidpad.search.protocol import SEARCHES, SearchTask, check_feedback, check_width


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
