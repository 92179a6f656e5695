"""Threads of this process, each with one piece of work from its beginning to its end.

Spreading one batch over all cores makes every operation wait for the slowest core, some fifty times a batch; on a machine that does
anything else besides, that costs several times the work itself. It also lets the number of threads decide in which order a product is
summed, so that the last bits of an answer would hang on the machine. One thread a batch needs no waiting and gives the same bits for any
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from skidpad.workers.pinning import default_lanes, pinned

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
