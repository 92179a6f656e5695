"""Rendered pictures, kept while there is room."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

MAX_BYTES = 96 << 20


class PictureCache:
    """Keeps the bytes that were asked for last; any thread may ask."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable, render: Callable[[], bytes]) -> bytes:
        """Returns what is kept under a key, or renders it; two that ask at once may both render, and get the same."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        data = render()
        with self._lock:
            self._bytes += len(data) - len(self._kept.pop(key, b""))
            self._kept[key] = data
            while self._bytes > self._max_bytes and self._kept:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return data

    def __len__(self) -> int:
        return len(self._kept)
