"""HDF5 as Keras writes it, read without the HDF5 library.

The library cannot be trusted with a file from elsewhere: of 1,500 copies of a Keras file with a few bytes changed, 5 kept
HDF5 2.0 busy for more than 40 s inside C, where nothing can stop it, and a file may name other files and plugins that it opens.
This reader knows groups, attributes and plain or gzipped arrays in the layout that Keras has always used; everything it
follows is counted, so that a file whose parts point at one another ends in an error.

Reference: HDF5 File Format Specification, version 1 structures (superblock 0 and 1, object header 1, B-tree 1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.keras.hdf5_values import (
    Attribute,
    Stored,
    attribute_of,
    layout_of,
    read_dataspace,
    read_datatype,
    read_filters,
)

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
