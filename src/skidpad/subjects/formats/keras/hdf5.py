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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from mmap import mmap
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


_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_NOWHERE = 0xFFFFFFFFFFFFFFFF
_MAX_STRUCTURES = 200_000
"""How many parts of a file are followed; a network of a thousand layers has about 20,000."""
_SOFT_LINK = 2
_DATASPACE, _DATATYPE, _EXTERNAL, _LAYOUT, _FILTERS, _ATTRIBUTE, _CONTINUATION, _SYMBOL_TABLE = 1, 3, 7, 8, 11, 12, 16, 17
_NEW_GROUP = frozenset((2, 6))
_SHARED = 0x02


class Hdf5File:
    """The bytes of a file and the groups in it."""

    def __init__(self, data: bytes | mmap) -> None:
        self.data = data
        self._left = _MAX_STRUCTURES
        if data[:8] != _SIGNATURE:
            raise BadSubjectError("it is no HDF5 file")
        version = data[8]
        if version > 1 or data[13:15] != b"\x08\x08":
            raise BadSubjectError(f"it is HDF5 of a newer layout (superblock {version}); write it again with h5py.File(name, 'w')")
        addresses = 24 if version == 0 else 28
        base, root = self.numbers("<Q24x8xQ", addresses)
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


@dataclass(frozen=True, slots=True)
class _Message:
    kind: int
    flags: int
    address: int
    size: int


class Node:
    """A group or an array of the file; nothing is read before it is asked for."""

    def __init__(self, file: Hdf5File, address: int) -> None:
        self._file = file
        self._messages = tuple(_messages(file, address))
        self._children: Mapping[str, int] | None = None

    def attributes(self) -> dict[str, Attribute]:
        """Returns the attributes: texts, lists of texts, or None for what Keras does not use."""
        found: dict[str, Attribute] = {}
        for message in self._messages:
            if message.kind == _ATTRIBUTE:
                name, value = attribute_of(self._file.part(message.address, message.size), self._file.heap_object)
                found[name] = value
        return found

    def children(self) -> Mapping[str, int]:
        """Returns where each member of a group is, by name."""
        if self._children is None:
            tables = [message for message in self._messages if message.kind == _SYMBOL_TABLE]
            if not tables and any(message.kind in _NEW_GROUP for message in self._messages):
                raise BadSubjectError("it is HDF5 of a newer layout (groups with links); write it again with h5py.File(name, 'w')")
            self._children = dict(_members(self._file, tables[0])) if tables else {}
        return self._children

    def child(self, path: str) -> Node | None:
        """Returns the member at a path such as `conv2d_1/kernel:0`, or None."""
        node = self
        for part in path.split("/"):
            if part:
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
        filters = read_filters(raw[_FILTERS]) if _FILTERS in raw else ()
        return Stored(read_dataspace(raw[_DATASPACE])[0], read_datatype(raw[_DATATYPE]), layout_of(raw[_LAYOUT]), filters)

    def array(self) -> NDArray[np.generic]:
        """Reads the array."""
        stored = self.stored()
        if stored is None:
            raise BadSubjectError("it has a group where an array of weights belongs")
        return stored.read(self._file.part, self._file.numbers)


def _messages(file: Hdf5File, address: int) -> Iterator[_Message]:
    version, count, size = file.numbers("<BxH4xI", address)
    if version != 1:
        raise BadSubjectError("it is HDF5 of a newer layout (object headers); write it again with h5py.File(name, 'w')")
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
