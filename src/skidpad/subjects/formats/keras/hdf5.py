"""HDF5 as Keras writes it, read without a library: groups, attributes, and plain or gzipped arrays.

No library can be trusted with a file from elsewhere. Of 1,500 copies of a Keras file with a few bytes changed, 5 kept HDF5 2.0 (h5py) busy
for more than 40 s inside C, where nothing can stop it, and a file may name other files and plugins that it opens; pyfive 1.3, in Python,
asked for more than 6 GB for 7 of them and took more than 10 s for 2. Here everything that is followed is counted, so that a file whose
parts point at one another ends in an error.

Reference: HDF5 File Format Specification, version 1 structures (superblock 0 and 1, object header 1, B-tree 1).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from mmap import mmap
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError

Attribute: TypeAlias = str | tuple[str, ...] | None
"""A text, a list of texts, or None for what Keras does not use."""

MAX_NUMBERS = 2**28
"""The most numbers of one array: twice all of VGG-16."""
_MAX_TEXTS = 100_000
_MAX_STRUCTURES = 200_000
"""How many parts of a file are followed; a network of a thousand layers has about 20,000."""
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_NOWHERE = 0xFFFFFFFFFFFFFFFF
_SOFT_LINK, _SHARED = 2, 0x02
_DATASPACE, _DATATYPE, _EXTERNAL, _LAYOUT, _FILTERS, _ATTRIBUTE, _CONTINUATION, _SYMBOL_TABLE = 1, 3, 7, 8, 11, 12, 16, 17
_NEW_GROUP = frozenset((2, 6))
_FIXED, _FLOAT, _TEXT, _ANY_LENGTH = 0, 1, 3, 9
_DEFLATE, _SHUFFLE, _FLETCHER = 1, 2, 3
_IEEE = {2: (5, 10), 4: (8, 23), 8: (11, 52)}
"""Bits of exponent and mantissa of floats, by bytes."""
_COMPACT, _CONTIGUOUS, _CHUNKED = 0, 1, 2
_CANNOT_BE_READ = "it has an array of {}, which Keras never writes; save the weights again"
_NEWER = "it is HDF5 of a newer layout ({}); write it again with h5py.File(name, 'w')"


class Hdf5File:
    """The bytes of a file and the groups in it."""

    def __init__(self, data: bytes | mmap) -> None:
        self.data = data
        self._left = _MAX_STRUCTURES
        if data[:8] != _SIGNATURE:
            raise BadSubjectError("it is no HDF5 file")
        version = data[8]
        if version > 1 or data[13:15] != b"\x08\x08":
            raise BadSubjectError(_NEWER.format(f"superblock {version}"))
        base, root = self.numbers("<Q24x8xQ", 24 if version == 0 else 28)
        if base != 0:
            raise BadSubjectError(f"its HDF5 part begins at byte {base}; only whole HDF5 files are read")
        self.root = Node(self, root)

    def numbers(self, form: str, address: int) -> tuple[int, ...]:
        """Unpacks little-endian whole numbers at an address; counts as one structure."""
        self._left -= 1
        if self._left < 0:
            raise BadSubjectError("its HDF5 structures point at one another without end")
        if address + struct.calcsize(form) > len(self.data):
            raise BadSubjectError("it ends before its data does; copy it again")
        return struct.unpack_from(form, self.data, address)

    def part(self, address: int, size: int) -> bytes:
        """Returns `size` bytes at an address, all of which must be there."""
        if address + size > len(self.data):
            raise BadSubjectError("it ends before its data does; copy it again")
        return bytes(self.data[address : address + size])

    def text(self, address: int, limit: int = 4096) -> str:
        """Returns the text at an address up to its zero byte."""
        return self.part(address, min(limit, len(self.data) - address)).split(b"\0", 1)[0].decode()

    def heap_object(self, address: int, index: int) -> bytes:
        """Returns one object of a global heap, where texts of any length are kept."""
        (size,) = self.numbers("<8xQ", address)
        if self.part(address, 4) != b"GCOL":
            raise BadSubjectError("a text in it points at no heap")
        place, end = address + 16, address + size
        while place + 16 <= end:
            found, length = self.numbers("<H6xQ", place)
            if found == index and index:
                return self.part(place + 16, length)
            if found == 0:
                break
            place += 16 + (length + 7) // 8 * 8
        raise BadSubjectError("a text in it is missing from its heap")


class Node:
    """A group or an array of the file; nothing is read before it is asked for."""

    def __init__(self, file: Hdf5File, address: int) -> None:
        self._file = file
        self._messages = tuple(_messages(file, address))
        self._children: Mapping[str, int] | None = None

    def attributes(self) -> dict[str, Attribute]:
        """Returns the attributes by name."""
        found = (message for message in self._messages if message.kind == _ATTRIBUTE)
        return dict(_attribute(self._file.part(message.address, message.size), self._file) for message in found)

    def children(self) -> Mapping[str, int]:
        """Returns where each member of a group is, by name."""
        if self._children is None:
            tables = [message for message in self._messages if message.kind == _SYMBOL_TABLE]
            if not tables and any(message.kind in _NEW_GROUP for message in self._messages):
                raise BadSubjectError(_NEWER.format("groups with links"))
            self._children = dict(_members(self._file, tables[0])) if tables else {}
        return self._children

    def child(self, path: str) -> Node | None:
        """Returns the member at a path such as `conv2d_1/kernel:0`, or None."""
        node = self
        for part in filter(None, path.split("/")):
            address = node.children().get(part)
            if address is None:
                return None
            node = Node(self._file, address)
        return node

    def stored(self) -> Stored | None:
        """Tells shape, type and place of an array; None for a group."""
        parts = {message.kind: message for message in self._messages}
        if _LAYOUT not in parts:
            return None
        if _EXTERNAL in parts:
            raise BadSubjectError("its weights lie in another file; save them in one")
        if any(parts[kind].flags & _SHARED for kind in (_DATASPACE, _DATATYPE, _LAYOUT, _FILTERS) if kind in parts):
            raise BadSubjectError("its arrays share their descriptions, which Keras never writes")
        raw = {kind: self._file.part(message.address, message.size) for kind, message in parts.items()}
        filters = tuple(_filters(raw[_FILTERS])) if _FILTERS in raw else ()
        return Stored(self._file, _shape(raw[_DATASPACE]), _datatype(raw[_DATATYPE])[2], raw[_LAYOUT], filters)

    def array(self) -> NDArray[np.generic]:
        """Reads the array."""
        stored = self.stored()
        if stored is None:
            raise BadSubjectError("it has a group where an array of weights belongs")
        return stored.read()


@dataclass(frozen=True, slots=True)
class Stored:
    """An array as the file describes it; nothing of it is in memory. dtype: None for what is no number."""

    file: Hdf5File
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic] | None
    layout: bytes
    filters: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.layout[0] != 3 or self.layout[1] > _CHUNKED:
            raise BadSubjectError(_CANNOT_BE_READ.format(f"layout {self.layout[0]}.{self.layout[1]}"))

    def read(self) -> NDArray[np.generic]:
        """Reads the array; its bytes must all be in the file."""
        if self.dtype is None:
            raise BadSubjectError(_CANNOT_BE_READ.format("something that is no number"))
        count, kind = prod(self.shape), self.layout[1]
        if count > MAX_NUMBERS or len(self.shape) > 8:
            raise BadSubjectError(f"it has an array of shape {self.shape}; at most {MAX_NUMBERS} numbers are read")
        if count == 0:
            return np.zeros(self.shape, self.dtype)
        if kind == _CHUNKED:
            return self._read_chunks(self.dtype)
        if self.filters:
            raise BadSubjectError(_CANNOT_BE_READ.format("filtered bytes without chunks"))
        if kind == _COMPACT:
            raw = self.layout[4 : 4 + struct.unpack_from("<H", self.layout, 2)[0]]
        else:
            raw = self.file.part(struct.unpack_from("<Q", self.layout, 2)[0], count * self.dtype.itemsize)
        return np.frombuffer(raw, self.dtype, count).reshape(self.shape)

    def _read_chunks(self, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        chunk = struct.unpack_from(f"<{self.layout[2]}I", self.layout, 11)[:-1]
        elements = prod(chunk)
        if len(chunk) != len(self.shape) or not 0 < elements <= max(MAX_NUMBERS >> 4, 2 * prod(self.shape)):
            raise BadSubjectError(f"it has an array of shape {self.shape} in chunks of {chunk}")
        whole = np.zeros(self.shape, dtype)
        filled = 0
        for address, size, mask, corner in self._chunks():
            filters = self.filters if mask == 0 else ()
            raw = _unfiltered(self.file.part(address, size), filters, elements * dtype.itemsize, dtype.itemsize)
            place = whole[tuple(slice(start, start + extent) for start, extent in zip(corner, chunk, strict=True))]
            place[...] = np.frombuffer(raw, dtype, elements).reshape(chunk)[tuple(slice(0, extent) for extent in place.shape)]
            filled += place.size
            if filled > whole.size:
                raise BadSubjectError("it has an array whose chunks overlap")
        if filled != whole.size:
            raise BadSubjectError("it has an array whose chunks are not all there; copy or save it again")
        return whole

    def _chunks(self) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
        """Walks the B-tree of the chunks: address, bytes, skipped filters and first element of each."""
        waiting = [struct.unpack_from("<Q", self.layout, 3)[0]]
        rank = len(self.shape)
        while waiting:
            address = waiting.pop()
            if self.file.part(address, 5) != b"TREE\x01":
                raise BadSubjectError("it has an array without a list of chunks")
            level, used = self.file.numbers("<BH", address + 5)
            for position in range(used):
                size, mask, *corner, _, child = self.file.numbers(f"<II{rank + 1}QQ", address + 24 + (24 + 8 * rank) * position)
                if level:
                    waiting.append(child)
                else:
                    yield child, size, mask, tuple(corner)


@dataclass(frozen=True, slots=True)
class _Message:
    kind: int
    flags: int
    address: int
    size: int


def _messages(file: Hdf5File, address: int) -> Iterator[_Message]:
    version, count, size = file.numbers("<BxH4xI", address)
    if version != 1:
        raise BadSubjectError(_NEWER.format("object headers"))
    blocks = [(address + 16, size)]
    while blocks:
        place, left = blocks.pop()
        while left >= 8 and count > 0:
            kind, length, flags = file.numbers("<HHB", place)
            count -= 1
            if kind == _CONTINUATION:
                start, extent = file.numbers("<QQ", place + 8)
                blocks.append((start, extent))
            elif kind:
                yield _Message(kind, flags, place + 8, length)
            place, left = place + 8 + length, left - 8 - length


def _members(file: Hdf5File, table: _Message) -> Iterator[tuple[str, int]]:
    """Walks the B-tree of a group; links to elsewhere are left out, as if they were not there."""
    tree, heap = file.numbers("<QQ", table.address)
    if file.part(heap, 4) != b"HEAP":
        raise BadSubjectError("a group in it has no names")
    (names,) = file.numbers("<24xQ", heap)
    waiting = [tree]
    while waiting:
        address = waiting.pop()
        kind = file.part(address, 4)
        if kind == b"TREE":
            _, _, used = file.numbers("<BBH", address + 4)
            waiting += [file.numbers("<Q", address + 32 + 16 * position)[0] for position in reversed(range(used))]
        elif kind == b"SNOD":
            (used,) = file.numbers("<H", address + 6)
            for position in range(used):
                name, header, cache = file.numbers("<QQI", address + 8 + 40 * position)
                if cache != _SOFT_LINK and header != _NOWHERE:
                    yield file.text(names + name), header
        else:
            raise BadSubjectError("a group in it has no list of members")


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


def _shape(raw: bytes) -> tuple[int, ...]:
    """Returns the shape, () for one element, (0,) for none."""
    version, rank = raw[0], raw[1]
    return (0,) if version == 2 and raw[3] == 2 else struct.unpack_from(f"<{rank}Q", raw, 8 if version == 1 else 4)


def _datatype(raw: bytes) -> tuple[int, int, np.dtype[np.generic] | None]:
    """Returns the kind of one element, its bytes, and its NumPy type where it is a number."""
    kind, order = raw[0] & 0x0F, ">" if raw[1] & 1 else "<"
    (size,) = struct.unpack_from("<I", raw, 4)
    if kind == _FIXED and size in {1, 2, 4, 8}:
        return kind, size, np.dtype(f"{order}{'i' if raw[1] & 8 else 'u'}{size}")
    return kind, size, np.dtype(f"{order}f{size}") if kind == _FLOAT and _IEEE.get(size) == (raw[13], raw[15]) else None


def _filters(raw: bytes) -> Iterator[int]:
    """Yields the filters that every chunk went through, in order."""
    first = raw[0] == 1
    place = 8 if first else 2
    for _ in range(raw[1]):
        kind, name = struct.unpack_from("<HH", raw, place)
        (values,) = struct.unpack_from("<H", raw, place + (6 if first else 4))
        if kind not in {_DEFLATE, _SHUFFLE, _FLETCHER}:
            raise BadSubjectError(_CANNOT_BE_READ.format(f"filter {kind}"))
        place += 8 + (name + 7) // 8 * 8 + 4 * (values + values % 2) if first else 6 + 4 * values
        yield kind


def _attribute(raw: bytes, file: Hdf5File) -> tuple[str, Attribute]:
    """Returns name and value of an attribute; only texts have a value."""
    version, flags, *sizes = struct.unpack_from("<BBHHH", raw, 0)
    place, parts = 9 if version == 3 else 8, []
    for size in sizes:
        parts.append(raw[place : place + size])
        place += (size + 7) // 8 * 8 if version == 1 else size
    name = parts[0].split(b"\0", 1)[0].decode()
    if version not in {1, 2, 3} or (version > 1 and flags):
        return name, None
    (kind, size, _), shape = _datatype(parts[1]), _shape(parts[2])
    count = prod(shape)
    if count > _MAX_TEXTS or kind not in {_TEXT, _ANY_LENGTH}:
        return name, () if count == 0 else None
    texts = tuple(_text(raw, place + position * size, kind, size, file) for position in range(count))
    return name, texts[0] if shape == () else texts


def _text(raw: bytes, place: int, kind: int, size: int, file: Hdf5File) -> str:
    if kind == _TEXT:
        return raw[place : place + size].rstrip(b"\0 ").decode() if size else ""
    length, address, index = struct.unpack_from("<IQI", raw, place)
    return file.heap_object(address, index)[:length].decode() if length else ""
