"""One piece of work, wherever it is computed: patience with a drive that is gone for a while, and words for what went wrong."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from skidpad.core.errors import LostDriveError, SkidpadError

if TYPE_CHECKING:
    from skidpad.core.progress import Progress
    from skidpad.workers.protocol import Performer, Work

T = TypeVar("T")

WAITS_S = (0.5, 1.0, 2.0, 4.0)
"""How long to wait for a drive that is gone before each new try: a network folder that is mounted again takes seconds."""


def patiently(read: Callable[[], T]) -> T:
    """Returns what `read` does; where the drive is gone, waits some seconds for it to come back."""
    for wait_s in WAITS_S:
        try:
            return read()
        except LostDriveError:
            time.sleep(wait_s)
    return read()


class Bench:
    """A performer and the work of the step that it is at."""

    def __init__(self, performer: Performer) -> None:
        self.performer = performer
        self._number = -1
        self._work: Work | None = None

    def prepare(self, number: int, step: str, given: Any) -> None:
        """Turns to another step; what the step before it was given is let go."""
        if number != self._number:
            self._work = None
            self._work = self.performer.step(step, given)
            self._number = number

    def perform(self, item: Any, progress: Progress) -> Any:
        """Computes one item of the step."""
        work = self._work
        if work is None:
            raise RuntimeError("no step was prepared")
        return patiently(lambda: work(item, progress))


def told(error: BaseException) -> BaseException:
    """Returns an error that can travel: one of ours as it is, another with its traceback as a note."""
    if isinstance(error, SkidpadError):
        return error
    lines = "".join(traceback.format_exception(error))
    carried: BaseException = error if type(error).__module__ == "builtins" else RuntimeError(f"{type(error).__name__}: {error}")
    carried.__traceback__ = None
    carried.__cause__ = carried.__context__ = None
    carried.add_note(f"in a worker:\n{lines}")
    return carried
