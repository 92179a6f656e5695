"""Shards side by side on the cores, for work that lets go of the interpreter; and one progress for many phases."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event, Lock
from typing import TYPE_CHECKING

from skidpad.core.errors import InterruptedRunError

if TYPE_CHECKING:
    from skidpad.core.progress import Progress
    from skidpad.runs.segments import ShardResult
    from skidpad.runs.shards import ShardMap, Work


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Meter:
    """Adds up what the shards of all phases tell of their progress, from any thread; a shard that hears of a stop ends itself."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0.0
        self._note = ""
        self._lock = Lock()
        self.stop = Event()

    def begin(self, note: str, kept: int) -> None:
        """Begins a phase, of which `kept` is done already."""
        self._note = note
        self._add(kept)

    def part(self, weight: int) -> Progress:
        """Returns the progress of one shard of a phase."""
        seen = 0.0

        def report(done: int, total: int, note: str = "") -> None:
            nonlocal seen
            if self.stop.is_set():
                raise InterruptedRunError(f"stopped during {self._note}")
            now = weight * done / total if total else 0.0
            self._add(now - seen, note)
            seen = now

        return report

    def _add(self, amount: float, note: str = "") -> None:
        with self._lock:
            self._done += amount
            self._progress(min(round(self._done), self._total), self._total, f"{self._note}: {note}" if note else self._note)


def side_by_side(stop: Event, workers: int = 0) -> ShardMap:
    """Returns a map that computes shards on threads, `workers` at a time (0: one a core).

    However the caller leaves, nothing is at work afterwards: `stop` is set, and shards that have not begun never do.
    """

    def shard_map(work: Work, indices: Sequence[int]) -> Iterator[ShardResult]:
        with ThreadPoolExecutor(workers or cores(), thread_name_prefix="skidpad-shard") as pool:
            futures = [pool.submit(work, index) for index in indices]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                stop.set()
                raise
            finally:
                for future in futures:
                    future.cancel()

    return shard_map


def metered(work: Callable[[int, Progress], ShardResult], meter: Meter, weight: int) -> Work:
    """Returns work that reports to a meter."""

    def run(index: int) -> ShardResult:
        part = meter.part(weight)
        result = work(index, part)
        part(1, 1)
        return result

    return run
