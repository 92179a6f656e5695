"""Batches side by side, each on one thread from its pixels to its verdict.

Spreading one batch over all cores makes every operation wait for the slowest core, some fifty times a batch; on a
machine that does anything else besides, that costs several times the work itself. It also lets the number of threads
decide in which order a product is summed, so that the last bits of an answer would hang on the machine's load. One
thread a batch needs no waiting and gives the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import cv2

from skidpad.drives.prefetch import map_ahead

S = TypeVar("S")
T = TypeVar("T")

BATCH_FRAMES = 32
"""Frames a batch. With 64, the maps of a first convolution no longer fit into what the allocator keeps, and the system
clears new pages for each batch: a tenth of the time. Fewer than 16 make the network slower."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many batches are computed at a time."""

    count: int

    def map(self, work: Callable[[S], T], items: Sequence[S]) -> Generator[T, None, None]:
        """Yields `work(item)` in the order of the items."""
        return map_ahead(work, items, self.count, 2 * self.count)


@contextmanager
def open_lanes(device: str) -> Iterator[Lanes]:
    """Gives the work within one lane for each thread that torch may use, and torch and OpenCV one thread a lane.

    Both settings belong to the whole process; they are put back at the end. A GPU has one lane: it spreads a batch itself.
    """
    import torch  # noqa: PLC0415  # a campaign's settings can be read without it

    lanes = torch.get_num_threads() if device == "cpu" else 1
    opencv_threads = cv2.getNumThreads()
    torch_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        yield Lanes(lanes)
    finally:
        torch.set_num_threads(torch_threads)
        cv2.setNumThreads(opencv_threads)


def batches_of(count: int) -> list[slice]:
    """Cuts `count` frames into batches."""
    return [slice(start, min(start + BATCH_FRAMES, count)) for start in range(0, count, BATCH_FRAMES)]
