"""Batches side by side, each on one thread from its pixels to its verdict.

Spreading one batch over all cores makes every operation wait for the slowest core, some fifty times a batch; on a
machine that does anything else besides, that costs several times the work itself. It also lets the number of threads
decide in which order a product is summed, so that the last bits of an answer would hang on the machine. One thread a
batch needs no waiting and gives the same bits for any number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import cv2
import torch

S = TypeVar("S")
T = TypeVar("T")

_CPU_FRAMES = 32
"""With 64, the maps of a first convolution are more than the allocator keeps, and the system clears new pages for each
batch: a tenth of the time. Fewer than 16 make the network itself slower."""

_AHEAD = 8
"""Batches a lane may be ahead of the slowest: a bilateral blur takes as long as ten other transforms."""

_GPU_FRAMES = 256
"""As many as a subject takes at once there."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many batches are computed at a time, and of how many frames each is."""

    count: int
    batch_frames: int
    _pool: ThreadPoolExecutor

    def map(self, work: Callable[[S], T], items: Sequence[S]) -> Generator[T, None, None]:
        """Yields `work(item)` in the order of the items; however the caller stops, nothing is at work afterwards."""
        waiting: deque[Future[T]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > _AHEAD * self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)

    def cut(self, frames: int, lead: int = 0) -> list[slice]:
        """Cuts `frames` frames into batches; how many lanes there are does not matter.

        lead: the frames that each batch brings along from before it; batches are long enough that these are a third at most.
        """
        size = max(self.batch_frames, 2 * lead)
        return [slice(start, min(start + size, frames)) for start in range(0, frames, size)]


@contextmanager
def open_lanes(device: str) -> Iterator[Lanes]:
    """Gives the work within a lane for each thread that torch may use, and torch and OpenCV one thread a lane.

    Both settings belong to the whole process and are put back at the end. A GPU is one lane, since it spreads a batch itself.
    """
    if device != "cpu":
        with _lanes(1, _GPU_FRAMES) as lanes:
            yield lanes
        return
    torch_threads, opencv_threads = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        with _lanes(torch_threads, _CPU_FRAMES) as lanes:
            yield lanes
    finally:
        torch.set_num_threads(torch_threads)
        cv2.setNumThreads(opencv_threads)


@contextmanager
def _lanes(count: int, batch_frames: int) -> Iterator[Lanes]:
    # The same threads to the end: memory that a thread has freed goes to its own next batch, but not to another thread's.
    with ThreadPoolExecutor(count, thread_name_prefix="skidpad-lane") as pool:
        yield Lanes(count, batch_frames, pool)
