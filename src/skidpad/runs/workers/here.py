"""Threads of this process, each with one piece of work from its beginning to its end.

Spreading one batch over all cores makes every operation wait for the slowest core, some fifty times a batch; on a machine that does
anything else besides, that costs several times the work itself. It also lets the number of threads decide in which order a product is
summed, so that the last bits of an answer would hang on the machine. One thread a batch needs no waiting and gives the same bits for any
number of threads.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from skidpad.core.errors import InterruptedRunError, LostDriveError
from skidpad.core.progress import Progress
from skidpad.runs.workers.protocol import in_order

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.runs.workers.protocol import Heard, Performer, Reload, Work

VARIABLES: Mapping[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""What tells libraries before they are imported to use one thread."""


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_lanes() -> int:
    """Returns how many items this process computes at a time where nobody says: as many as torch has threads, else one a core."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else cores()


def pin_process() -> None:
    """Gives torch and OpenCV one thread for the rest of this process, where they are loaded; work without them stays light."""
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    if torch is not None:
        torch.set_num_threads(1)
    if cv2 is not None:
        cv2.setNumThreads(1)


@contextmanager
def pinned() -> Iterator[None]:
    """Gives torch and OpenCV one thread while the block runs; both settings belong to the process and are put back at the end."""
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    torch_threads = torch.get_num_threads() if torch is not None else 0
    opencv_threads = cv2.getNumThreads() if cv2 is not None else 0
    pin_process()
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(torch_threads)
        if cv2 is not None:
            cv2.setNumThreads(opencv_threads)


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


S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkLanes:
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
                    # in the caller's context, which holds whose code may run
                    waiting[self._pool.submit(copy_context().run, work, item)] = place
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
        with closing(self.as_they_come(work, items)) as coming:
            yield from in_order(coming)


@contextmanager
def open_lanes(count: int = 0) -> Iterator[WorkLanes]:
    """Gives the work within so many lanes (0: one for each thread that torch may use), and torch and OpenCV one thread a lane."""
    count = count or default_lanes()
    # The same threads to the end: memory that a thread has freed goes to its own next batch, but not to another thread's.
    with pinned(), ThreadPoolExecutor(count, thread_name_prefix="skidpad-lane") as pool:
        yield WorkLanes(count, pool)


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

    def __init__(self, lanes: WorkLanes, bench: Bench) -> None:
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
