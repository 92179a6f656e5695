"""Many names in little memory: a million frames have a million ids, and every worker holds them all."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 4096


class Names(Sequence[str]):
    """Texts in order, kept as one piece of bytes: a fifth of what a tuple of them takes; equal to any sequence of the same texts."""

    __slots__ = ("_data", "_ends")

    def __init__(self, data: bytearray, ends: NDArray[np.unsignedinteger[Any]]) -> None:
        self._data = data
        self._ends = ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> Names:
        """Packs texts; a generator is never held as a whole."""
        if isinstance(texts, Names):
            return texts
        data = bytearray()  # grows in place, where parts would be joined beside themselves
        lengths = array("I")
        left = iter(texts)
        while some := [_bytes(text) for text in islice(left, _AT_ONCE)]:
            data += b"".join(some)
            lengths.extend(map(len, some))
        ends: NDArray[np.unsignedinteger[Any]] = np.cumsum(lengths, dtype=np.uint32 if len(data) < 1 << 32 else np.uint64)
        return cls(data, ends)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(self._text(each) for each in range(*place.indices(len(self))))
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(f"there are {len(self)} names; got place {place}")
        return self._text(at)

    def __iter__(self) -> Iterator[str]:
        return (self._text(place) for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Names):
            return self._data == other._data and np.array_equal(self._ends, other._ends)
        if isinstance(other, Sequence) and not isinstance(other, str):
            return len(self) == len(other) and all(ours == theirs for ours, theirs in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash((bytes(self._data), len(self)))

    def __repr__(self) -> str:
        some = ", ".join(map(repr, self[:3]))
        return f"Names({some}{', ...' if len(self) > 3 else ''}; {len(self)})"

    def _text(self, place: int) -> str:
        return _str(self._data[self._ends[place - 1] if place else 0 : self._ends[place]])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # file names may hold bytes that are no text


def _str(data: bytearray) -> str:
    return data.decode("utf-8", "surrogatepass")
