"""This process as the only worker: one thread, or a few where the work lets go of the interpreter.

Nothing has to be started, so it suits small runs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

from skidpad.core.errors import InterruptedRunError
from skidpad.core.progress import Progress
from skidpad.workers.lanes import Lanes, open_lanes
from skidpad.workers.performing import Bench

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.workers.protocol import Heard, Performer, Reload


@dataclass(frozen=True, slots=True)
class Here:
    """This process. threads: how many items at a time (0: as many as torch has threads, or cores)."""

    threads: int = 0

    @contextmanager
    def start(self, performer: Performer, reload: Reload, scratch: Path) -> Iterator[HereCrew]:  # noqa: ARG002  nothing is loaded anew
        """Gives torch and OpenCV one thread each until the end of the block."""
        with open_lanes(self.threads) as lanes:
            yield HereCrew(lanes, Bench(performer))


class HereCrew:
    """Threads of this process that share one performer."""

    def __init__(self, lanes: Lanes, bench: Bench) -> None:
        self._lanes = lanes
        self._bench = bench
        self._step: tuple[str, Any] | None = None
        self._steps = 0

    @property
    def count(self) -> int:
        """How many items are computed at a time."""
        return self._lanes.count

    def spare_cores(self, items: int) -> int:
        """Returns how many cores each item may use where so many are computed."""
        return max(1, self.count // max(items, 1))

    def map(self, step: str, given: Any, items: Sequence[Any], heard: Heard | None = None) -> Generator[tuple[int, Any], None, None]:
        """Yields the place of each item and its result, as they come."""
        if self._step is None or self._step[0] != step or self._step[1] is not given:
            self._step = (step, given)
            self._steps += 1
        self._bench.prepare(self._steps, step, given)
        stop = Event()

        def perform(place: int) -> Any:
            return self._bench.perform(items[place], _progress(place, heard, stop))

        if self.count == 1:
            # In the caller's thread, where Ctrl-C strikes at once.
            for place in range(len(items)):
                yield place, perform(place)
            return
        with closing(self._lanes.as_they_come(perform, range(len(items)), stop)) as results:
            yield from results


def _progress(place: int, heard: Heard | None, stop: Event) -> Progress:
    """Returns the progress of one item, which also ends work that nobody wants any more."""

    def report(done: int, total: int, note: str = "") -> None:
        if stop.is_set():
            raise InterruptedRunError("stopped")
        if heard is not None:
            heard(place, done / total if total else 0.0, note)

    return report
