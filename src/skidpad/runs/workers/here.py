"""Threads of this process, each with one piece of work from its beginning to its end.

Spreading one batch over all cores makes every operation wait for the slowest core, some fifty times a batch; on a machine that does
anything else besides, that costs several times the work itself. It also lets the number of threads decide in which order a product is
summed, so that the last bits of an answer would hang on the machine. One thread a batch needs no waiting and gives the same bits for any
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from skidpad.core.errors import InterruptedRunError
from skidpad.core.progress import Progress
from skidpad.runs.workers.performing import Bench, default_lanes, pinned

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.runs.workers.protocol import Heard, Performer, Reload


S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many pieces of work are computed at a time."""

    count: int
    _pool: ThreadPoolExecutor

    def as_they_come(self, work: Callable[[S], T], items: Sequence[S], stop: Event | None = None) -> Generator[tuple[int, T], None, None]:
        """Yields the place of each item with `work(item)`; however the caller stops, nothing is at work afterwards.

        stop: is set when nobody wants what is at work any more, so that it can end itself.
        """
        waiting: dict[Future[T], int] = {}
        left = iter(enumerate(items))
        try:
            while True:
                # one item beyond those at work, so that no lane waits for this thread
                for place, item in left:
                    waiting[self._pool.submit(work, item)] = place
                    if len(waiting) > self.count:
                        break
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    place = waiting.pop(future)
                    yield place, future.result()
        finally:
            if stop is not None:
                stop.set()
            for future in waiting:
                future.cancel()
            wait(waiting)

    def map(self, work: Callable[[S], T], items: Sequence[S]) -> Generator[T, None, None]:
        """Yields `work(item)` in the order of the items."""
        early: dict[int, T] = {}
        coming = self.as_they_come(work, items)
        place = 0
        try:
            for number, result in coming:
                early[number] = result
                while place in early:
                    yield early.pop(place)
                    place += 1
        finally:
            coming.close()


@contextmanager
def open_lanes(count: int = 0) -> Iterator[Lanes]:
    """Gives the work within so many lanes (0: one for each thread that torch may use), and torch and OpenCV one thread a lane."""
    count = count or default_lanes()
    # The same threads to the end: memory that a thread has freed goes to its own next batch, but not to another thread's.
    with pinned(), ThreadPoolExecutor(count, thread_name_prefix="skidpad-lane") as pool:
        yield Lanes(count, pool)


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
