"""Types, shapes and data of HDF5 arrays and attributes: numbers, texts, plain and gzipped."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError

Attribute: TypeAlias = str | tuple[str, ...] | None
Part: TypeAlias = Callable[[int, int], bytes]
Numbers: TypeAlias = Callable[[str, int], tuple[int, ...]]

MAX_NUMBERS = 2**28
"""The most numbers of one array: twice all of VGG-16."""
_MAX_TEXTS = 100_000
_FIXED, _FLOAT, _TEXT, _ANY_LENGTH = 0, 1, 3, 9
_DEFLATE, _SHUFFLE, _FLETCHER = 1, 2, 3
_IEEE = {2: (5, 10), 4: (8, 23), 8: (11, 52)}
"""Bits of exponent and mantissa of floats, by bytes."""
_COMPACT, _CONTIGUOUS, _CHUNKED = 0, 1, 2
_CANNOT_BE_READ = "it has an array of {}, which Keras never writes; save the weights again"


@dataclass(frozen=True, slots=True)
class Datatype:
    """What one element is; `numpy` is None for what is no number, `size` its bytes."""

    kind: int
    size: int
    numpy: np.dtype[np.generic] | None


@dataclass(frozen=True, slots=True)
class _Layout:
    kind: int
    address: int = 0
    size: int = 0
    inline: bytes = b""
    chunk: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """An array as the file describes it; nothing of it is in memory."""

    shape: tuple[int, ...]
    datatype: Datatype
    layout: _Layout
    filters: tuple[int, ...]

    def read(self, part: Part, numbers: Numbers) -> NDArray[np.generic]:
        """Reads the array; its bytes must all be in the file."""
        dtype = self.datatype.numpy
        if dtype is None:
            raise BadSubjectError(_CANNOT_BE_READ.format("something that is no number"))
        count = prod(self.shape)
        if count > MAX_NUMBERS or len(self.shape) > 8:
            raise BadSubjectError(f"it has an array of shape {self.shape}; at most {MAX_NUMBERS} numbers are read")
        if count == 0:
            return np.zeros(self.shape, dtype)
        if self.layout.kind == _CHUNKED:
            return self._read_chunks(dtype, part, numbers)
        if self.filters:
            raise BadSubjectError(_CANNOT_BE_READ.format("filtered bytes without chunks"))
        size = count * dtype.itemsize
        raw = self.layout.inline if self.layout.kind == _COMPACT else part(self.layout.address, size)
        return np.frombuffer(raw, dtype, count).reshape(self.shape)

    def _read_chunks(self, dtype: np.dtype[np.generic], part: Part, numbers: Numbers) -> NDArray[np.generic]:
        chunk = self.layout.chunk[:-1]
        elements = prod(chunk)
        if len(chunk) != len(self.shape) or not 0 < elements <= max(MAX_NUMBERS >> 4, 2 * prod(self.shape)):
            raise BadSubjectError(f"it has an array of shape {self.shape} in chunks of {chunk}")
        whole = np.zeros(self.shape, dtype)
        filled = 0
        for address, size, mask, corner in _chunks(self.layout.address, len(self.shape), part, numbers):
            raw = _unfiltered(part(address, size), self.filters if mask == 0 else (), elements * dtype.itemsize, dtype.itemsize)
            window = tuple(slice(start, start + extent) for start, extent in zip(corner, chunk, strict=True))
            place = whole[window]
            place[...] = np.frombuffer(raw, dtype, elements).reshape(chunk)[tuple(slice(0, extent) for extent in place.shape)]
            filled += place.size
            if filled > whole.size:
                raise BadSubjectError("it has an array whose chunks overlap")
        if filled != whole.size:
            raise BadSubjectError("it has an array whose chunks are not all there; copy or save it again")
        return whole


def _chunks(tree: int, rank: int, part: Part, numbers: Numbers) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
    """Walks the B-tree of an array's chunks: address, bytes, skipped filters and first element of each."""
    waiting = [tree]
    step = 8 + 8 * (rank + 1) + 8
    while waiting:
        address = waiting.pop()
        if part(address, 5) != b"TREE\x01":
            raise BadSubjectError("it has an array without a list of chunks")
        level, used = numbers("<BH", address + 5)
        for position in range(used):
            size, mask, *corner, _, child = numbers(f"<II{rank + 1}QQ", address + 24 + step * position)
            if level:
                waiting.append(child)
            else:
                yield child, size, mask, tuple(corner)


def _unfiltered(raw: bytes, filters: tuple[int, ...], size: int, itemsize: int) -> bytes:
    for kind in reversed(filters):
        if kind == _FLETCHER:
            raw = raw[:-4]
        elif kind == _DEFLATE:
            raw = zlib.decompressobj().decompress(raw, size + 4)
        else:
            raw = np.frombuffer(raw, np.uint8).reshape(itemsize, -1).T.tobytes()
    if len(raw) != size:
        raise BadSubjectError(f"it has a chunk of {len(raw)} bytes where {size} belong")
    return raw


def read_dataspace(raw: bytes) -> tuple[tuple[int, ...], int]:
    """Returns the shape, () for one element, (0,) for none, and the bytes that told it."""
    version, rank = raw[0], raw[1]
    start = 8 if version == 1 else 4
    if version == 2 and raw[3] == 2:
        return (0,), start
    return struct.unpack_from(f"<{rank}Q", raw, start), start + 8 * rank


def read_datatype(raw: bytes) -> Datatype:
    """Returns what one element is."""
    kind, order = raw[0] & 0x0F, ">" if raw[1] & 1 else "<"
    (size,) = struct.unpack_from("<I", raw, 4)
    numpy: np.dtype[np.generic] | None = None
    if kind == _FIXED and size in {1, 2, 4, 8}:
        numpy = np.dtype(f"{order}{'i' if raw[1] & 8 else 'u'}{size}")
    elif kind == _FLOAT and _IEEE.get(size) == (raw[13], raw[15]):
        numpy = np.dtype(f"{order}f{size}")
    return Datatype(kind, size, numpy)


def layout_of(raw: bytes) -> _Layout:
    """Returns where an array's bytes are."""
    version, kind = raw[0], raw[1]
    if version != 3 or kind > _CHUNKED:
        raise BadSubjectError(_CANNOT_BE_READ.format(f"layout {version}.{kind}"))
    if kind == _COMPACT:
        (size,) = struct.unpack_from("<H", raw, 2)
        return _Layout(kind, size=size, inline=raw[4 : 4 + size])
    if kind == _CONTIGUOUS:
        address, size = struct.unpack_from("<QQ", raw, 2)
        return _Layout(kind, address, size)
    (address,) = struct.unpack_from("<Q", raw, 3)
    return _Layout(kind, address, chunk=struct.unpack_from(f"<{raw[2]}I", raw, 11))


def read_filters(raw: bytes) -> tuple[int, ...]:
    """Returns the filters that every chunk went through, in order."""
    version, count = raw[0], raw[1]
    place, kinds = (8 if version == 1 else 2), []
    for _ in range(count):
        kind, name, _, values = (
            struct.unpack_from("<HHHH", raw, place) if version == 1 else (*struct.unpack_from("<H", raw, place), 0, 0, 0)
        )
        if kind not in {_DEFLATE, _SHUFFLE, _FLETCHER}:
            raise BadSubjectError(_CANNOT_BE_READ.format(f"filter {kind}"))
        if version != 1:
            (values,) = struct.unpack_from("<H", raw, place + 4)
            place += 6 + 4 * values
        else:
            place += 8 + (name + 7) // 8 * 8 + 4 * (values + values % 2)
        kinds.append(kind)
    return tuple(kinds)


def attribute_of(raw: bytes, heap_object: Callable[[int, int], bytes]) -> tuple[str, Attribute]:
    """Returns name and value of an attribute; only texts have a value."""
    version, flags, name_size, type_size, space_size = struct.unpack_from("<BBHHH", raw, 0)
    place = 9 if version == 3 else 8

    def taken(size: int) -> bytes:
        nonlocal place
        found = raw[place : place + size]
        place += (size + 7) // 8 * 8 if version == 1 else size
        return found

    name = taken(name_size).split(b"\0", 1)[0].decode()
    kind, space = taken(type_size), taken(space_size)
    if version not in {1, 2, 3} or (version > 1 and flags):
        return name, None
    shape, datatype = read_dataspace(space)[0], read_datatype(kind)
    count = prod(shape)
    if count > _MAX_TEXTS or datatype.kind not in {_TEXT, _ANY_LENGTH}:
        return name, () if count == 0 else None
    texts = tuple(_text(raw, place + position * datatype.size, datatype, heap_object) for position in range(count))
    return name, texts[0] if shape == () else texts


def _text(raw: bytes, place: int, datatype: Datatype, heap_object: Callable[[int, int], bytes]) -> str:
    if datatype.kind == _TEXT:
        text = raw[place : place + datatype.size].rstrip(b"\0 ") if datatype.size else b""
    else:
        length, address, index = struct.unpack_from("<IQI", raw, place)
        text = heap_object(address, index)[:length] if length else b""
    return text.decode()
