"""What was read of a drive, kept for those who ask for it next."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from skidpad.drives.drive import FrameBatch

_GPU_KEPT_BYTES = 2 << 30
"""Of frames between two steps, some 9,300 of 320 x 240; what does not fit is read again."""

T = TypeVar("T")


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


class KeptBlocks:
    """Blocks as the originals' step read them, for the grid's: decoding all twice would take a GPU longer than some grids; safe in threads.

    On the CPU a picture costs more than its decoding, and nothing is kept.
    """

    def __init__(self, device: str) -> None:
        self._most_bytes = 0 if device == "cpu" else _GPU_KEPT_BYTES
        self._kept: dict[int, FrameBatch] = {}
        self._bytes = 0
        self._lock = Lock()

    def keep(self, block: int, batch: FrameBatch) -> None:
        """Keeps what could be read of a block, while there is room."""
        with self._lock:
            if block not in self._kept and self._bytes + batch.clip.nbytes <= self._most_bytes:
                self._kept[block] = replace(batch, problems=())
                self._bytes += batch.clip.nbytes

    def take(self, block: int) -> FrameBatch | None:
        """Hands a block over and forgets it; None where it was not kept."""
        with self._lock:
            batch = self._kept.pop(block, None)
            self._bytes -= 0 if batch is None else batch.clip.nbytes
            return batch
