"""Reading ahead in a few threads: order kept, memory bounded, no thread left behind."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from skidpad.core.images import IntArray, NumpyFrames

S = TypeVar("S")
T = TypeVar("T")

BATCHES_AHEAD = 2
FRAMES_PER_TASK = 8  # decoding one frame costs about as much as handing over ten tasks; eight make that cost vanish


def default_threads() -> int:
    """Returns how many threads decode frames where nobody says: one per usable core, at most 8."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, 8)


def map_ahead(function: Callable[[S], T], items: Iterable[S], threads: int, ahead: int) -> Generator[T, None, None]:
    """Yields `function(item)` in the order of the items, working at most `ahead` items beyond the last one yielded.

    Items are drawn in the caller's thread. However the caller stops, waiting work is dropped and every thread has ended.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="skidpad-frames")
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@dataclass(slots=True)
class _Buffer(Generic[T]):
    """One batch while threads fill it."""

    positions: IntArray
    frames: NumpyFrames
    notes: list[T] = field(default_factory=list)


def filled_in_order(
    fill: Callable[[IntArray, NumpyFrames], list[T]],
    count: int,
    batch_size: int,
    shape: tuple[int, int, int],
    threads: int,
) -> Generator[tuple[IntArray, NumpyFrames, list[T]], None, None]:
    """Yields positions, frames and notes of each batch of `count` frames, filled by threads.

    fill: writes the frames at some positions into a part of the batch's array, and returns one note for each.
    """

    def tasks() -> Iterator[tuple[_Buffer[T], slice]]:
        for start in range(0, count, batch_size):
            positions = np.arange(start, min(start + batch_size, count), dtype=np.int64)
            buffer = _Buffer[T](positions, np.empty((len(positions), *shape), np.uint8))
            for first in range(0, len(positions), FRAMES_PER_TASK):
                yield buffer, slice(first, first + FRAMES_PER_TASK)

    def work(task: tuple[_Buffer[T], slice]) -> tuple[_Buffer[T], list[T]]:
        buffer, part = task
        return buffer, fill(buffer.positions[part], buffer.frames[part])

    tasks_per_batch = -(-batch_size // FRAMES_PER_TASK)
    with closing(map_ahead(work, tasks(), threads, BATCHES_AHEAD * tasks_per_batch)) as done:
        for buffer, notes in done:
            buffer.notes.extend(notes)
            if len(buffer.notes) == len(buffer.positions):
                yield buffer.positions, buffer.frames, buffer.notes
