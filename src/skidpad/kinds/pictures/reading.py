"""What was read of a drive, kept for those who ask for it next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

from skidpad.core.images import Frames
from skidpad.drives.frames import default_threads

if TYPE_CHECKING:
    from skidpad.drives.drive import FrameBatch
    from skidpad.referee.on_device import SeenOriginals

_MOST_KEPT_BYTES = 4 << 30
"""In the memory of computer and GPU together: some 5,600 frames of 320 x 240. Blocks that do not fit are read again."""
_SHARE_KEPT = 16
"""On a small GPU the limit is one part in so many of its memory."""
_LOOKED_BYTES = 300_000
"""What the referee keeps of a picture on the GPU, whatever the picture's size."""

T = TypeVar("T")


def reading_threads(device: str, readers: int = 1) -> int:
    """Returns how many threads each of so many readers has: a worker of the CPU one; those that feed a GPU share all there are."""
    return 1 if device == "cpu" else max(1, default_threads() // readers)


class LastRead(Generic[T]):
    """Keeps what was read last, since the parts of a shard follow one another; safe in threads, each key read once at a time."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._read: dict[int, Future[T]] = {}
        self._lock = Lock()

    def get(self, key: int, read: Callable[[], T]) -> T:
        """Returns what was read of a key, the frames and their clip on the device."""
        reading, is_mine = self._claim(key)
        if is_mine:
            self._fill(key, reading, read)
        return reading.result()

    def begin(self, key: int, read: Callable[[], T]) -> None:
        """Begins to read what will be asked for next, in a thread that ends with it."""
        reading, is_mine = self._claim(key)
        if is_mine:
            Thread(target=self._fill, args=(key, reading, read), name="skidpad-ahead").start()

    def _claim(self, key: int) -> tuple[Future[T], bool]:
        with self._lock:
            if key in self._read:
                return self._read[key], False
            while len(self._read) >= self._kept:
                del self._read[next(iter(self._read))]
            self._read[key] = Future()
            return self._read[key], True

    def _fill(self, key: int, reading: Future[T], read: Callable[[], T]) -> None:
        try:
            reading.set_result(read())
        except BaseException as error:  # noqa: BLE001  whoever waits for it is told
            with self._lock:
                if self._read.get(key) is reading:
                    del self._read[key]  # a drive that is gone may come back
            reading.set_exception(error)


@dataclass(frozen=True, slots=True)
class Shown:
    """Frames that were read, and their clip on the device; of a block, also its cuts and what the referee sees in each of them."""

    batch: FrameBatch
    clip: Frames
    cuts: Sequence[slice] = ()
    seen: Sequence[SeenOriginals | None] = ()


class KeptBlocks:
    """Blocks that the step of the originals read, kept for the step of the grid, so that no frame is decoded twice; safe in threads.

    Only on a GPU, where decoding all frames again takes longer than some grids. On the CPU nothing is kept.
    """

    def __init__(self, device: str) -> None:
        self._most_bytes = 0
        if device != "cpu":
            here = torch.device(device)
            room = torch.cuda.get_device_properties(here).total_memory if here.type == "cuda" else _MOST_KEPT_BYTES * _SHARE_KEPT
            self._most_bytes = min(_MOST_KEPT_BYTES, room // _SHARE_KEPT)
        self._kept: dict[int, tuple[Shown, int]] = {}
        self._bytes = 0
        self._lock = Lock()

    def keep(self, block: int, shown: Shown, views: int = 1) -> bool:
        """Keeps what could be read of a block where there is room, and tells whether there was; views: cameras of each frame."""
        size = 2 * shown.batch.clip.nbytes
        size += views * _LOOKED_BYTES * len(shown.batch) if any(seen is not None for seen in shown.seen) else 0
        with self._lock:
            has_room = block not in self._kept and self._bytes + size <= self._most_bytes
            if has_room:
                self._kept[block] = shown, size
                self._bytes += size
            return has_room

    def take(self, block: int) -> Shown | None:
        """Hands a block over and forgets it; None where it was not kept."""
        with self._lock:
            shown, size = self._kept.pop(block, (None, 0))
            self._bytes -= size
            return shown

    def close(self) -> None:
        """Forgets all."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
