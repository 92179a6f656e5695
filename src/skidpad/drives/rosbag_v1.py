"""ROS 1 bags, read from start to end: a bag that was cut off gives what it holds before the cut.

Of a bag cut off at each of 99 places, rosbags 0.11 reads none and this reader 61: the library goes by the index at the end, which a broken
bag has lost. Its types are used (`recording`).

Reference: ROS wiki, Bags/Format/2.0.
"""

from __future__ import annotations

import bz2
import struct
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from skidpad.core.errors import BadDriveError, optional
from skidpad.drives.recording import BrokenRecordingError, Damage, Encoding, Message, Place, Recent, Topic

MAGIC = b"#ROSBAG V2.0\n"
_MESSAGE, _BAG, _CHUNK, _CONNECTION = 2, 3, 5, 7
_LENGTH = struct.Struct("<I")
_STAMP = struct.Struct("<II")
_MAX_HEADER_BYTES = 1 << 24
_CHUNKS_KEPT = 8


@dataclass(frozen=True, slots=True)
class _Record:
    """The fields of a record, and where its data lie in the stream it was read from."""

    start: int
    fields: Mapping[bytes, bytes]
    data_start: int
    data_bytes: int

    @property
    def op(self) -> int:
        """What kind of record it is; 0 where it does not say."""
        return int.from_bytes(self.fields.get(b"op", b""), "little")

    @property
    def is_plain(self) -> bool:
        """Whether a chunk is not compressed."""
        return self.fields.get(b"compression") == b"none"

    def is_within(self, size: int) -> bool:
        """Tells whether its data end within so many bytes."""
        return self.data_start + self.data_bytes <= size

    def number(self, name: bytes) -> int:
        """Returns a field that is an unsigned number."""
        value = self.fields.get(name, b"")
        if len(value) not in {4, 8}:
            raise BrokenRecordingError(f"a record at byte {self.start} has no field {name.decode()!r}")
        return int.from_bytes(value, "little")


@dataclass(frozen=True, eq=False)
class BagV1:
    """One file `*.bag`; whole, unindexed (`*.bag.active`) or cut off."""

    path: Path
    _chunks: Recent[int, bytes] = field(default_factory=lambda: Recent(_CHUNKS_KEPT))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The one file."""
        return (self.path,)

    @cached_property
    def topics(self) -> tuple[Topic, ...]:
        """The connections of the index at the end of the bag; of the whole bag where the index is lost."""
        with self._open() as file:
            size = self.path.stat().st_size
            try:
                head = _read(file, len(MAGIC), size)
                index_start = head.number(b"index_pos") if head.op == _BAG else 0
                if index_start:
                    return self._indexed(file, index_start, head.number(b"conn_count"), size)
            except BrokenRecordingError:
                pass
            found: dict[int, Topic] = {}
            for _ in self._messages(file, size, found, frozenset()):
                pass
            return tuple(found.values())

    def scan(self, wanted: frozenset[int]) -> Generator[Message | Damage, None, None]:
        """Reads chunk after chunk; a chunk that cannot be read is passed over."""
        with self._open() as file:
            yield from self._messages(file, self.path.stat().st_size, {}, wanted)

    def fetch(self, place: Place) -> bytes:
        """Reads one message: of an uncompressed chunk the message alone, else the chunk, which is kept for the next."""
        start, within = place
        with self._open() as file:
            size = self.path.stat().st_size
            if within < 0:
                return _data(file, _read(file, start, size))
            chunk = _read(file, start, size)
            if chunk.is_plain:
                return _data(file, _read(file, chunk.data_start + within, size))
            data = self._chunks.get(start, lambda _: _unpacked(file, chunk))
        stream = BytesIO(data)
        return _data(stream, _read(stream, within, len(data)))

    def _open(self) -> BinaryIO:
        file = self.path.open("rb")
        if file.read(len(MAGIC)) != MAGIC:
            file.close()
            raise BadDriveError(f"{str(self.path)!r} is not a ROS 1 bag of version 2.0: it does not begin with {MAGIC.decode().strip()!r}")
        return file

    def _indexed(self, file: BinaryIO, start: int, count: int, size: int) -> tuple[Topic, ...]:
        topics = []
        for _ in range(count):
            record = _read(file, start, size)
            if record.op != _CONNECTION:
                raise BrokenRecordingError(f"the index holds something else than connections at byte {start}")
            topics.append(_topic(file, record))
            start = record.data_start + record.data_bytes
        return tuple(topics)

    def _messages(
        self, file: BinaryIO, size: int, found: dict[int, Topic], wanted: frozenset[int]
    ) -> Generator[Message | Damage, None, None]:
        """Yields the wanted messages, and notes the connections on the way."""
        start, cut = len(MAGIC), False
        while start < size:
            try:
                record = _header(file, start)
                if record.op == _CHUNK and record.is_plain and not record.is_within(size):
                    # What an uncompressed chunk holds are records as any others: those before the cut are whole.
                    start, cut = record.data_start, True
                    continue
                record = _read(file, start, size)
            except BrokenRecordingError as error:
                yield Damage(f"the bag breaks off at byte {start} of {size}: {error}")
                return
            if record.op != _CHUNK:
                yield from _parsed(file, record, (start, -1), found, wanted)
            else:
                try:
                    data = _unpacked(file, record)
                except BrokenRecordingError as error:
                    yield Damage(str(error))
                else:
                    yield from _chunk_messages(data, start, found, wanted)
            start = record.data_start + record.data_bytes
        if cut:
            yield Damage(f"the bag breaks off at byte {size}, in the middle of a chunk")


def _chunk_messages(data: bytes, start: int, found: dict[int, Topic], wanted: frozenset[int]) -> Generator[Message | Damage, None, None]:
    stream = BytesIO(data)
    within = 0
    while within < len(data):
        try:
            record = _read(stream, within, len(data))
        except BrokenRecordingError as error:
            yield Damage(f"the chunk at byte {start} is damaged from its byte {within} on: {error}")
            return
        yield from _parsed(stream, record, (start, within), found, wanted)
        within = record.data_start + record.data_bytes


def _parsed(
    stream: BinaryIO, record: _Record, place: Place, found: dict[int, Topic], wanted: frozenset[int]
) -> Generator[Message | Damage, None, None]:
    try:
        if record.op == _CONNECTION:
            topic = _topic(stream, record)
            found.setdefault(topic.key, topic)
        elif record.op == _MESSAGE and record.number(b"conn") in wanted:
            seconds, nanoseconds = _STAMP.unpack(record.number(b"time").to_bytes(8, "little"))
            yield Message(record.number(b"conn"), seconds * 10**9 + nanoseconds, place, _data(stream, record))
    except BrokenRecordingError as error:
        yield Damage(str(error))


def _read(stream: BinaryIO, start: int, size: int) -> _Record:
    """Reads the header of the record at `start` of a stream of `size` bytes, in which the record must end."""
    record = _header(stream, start)
    if not record.is_within(size):
        left = max(size - record.data_start, 0)
        raise BrokenRecordingError(f"the record at byte {start} needs {record.data_bytes} bytes, but {left} are left")
    return record


def _header(stream: BinaryIO, start: int) -> _Record:
    stream.seek(start)
    header_bytes = _length(stream, start)
    if header_bytes > _MAX_HEADER_BYTES:
        raise BrokenRecordingError(f"no record at byte {start}: its header would have {header_bytes} bytes")
    header = _exactly(stream, header_bytes)
    data_bytes = _length(stream, start)
    return _Record(start, _fields(header, start), start + header_bytes + 2 * _LENGTH.size, data_bytes)


def _fields(header: bytes, start: int) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    place = 0
    while place < len(header):
        end = place + _LENGTH.size
        length = int.from_bytes(header[place:end], "little")
        name, equals, value = header[end : end + length].partition(b"=")
        if not equals or end + length > len(header):
            raise BrokenRecordingError(f"no record at byte {start}: its header is not made of name=value")
        fields[name] = value
        place = end + length
    return fields


def _topic(stream: BinaryIO, record: _Record) -> Topic:
    fields = _fields(_data(stream, record), record.start)
    name = fields.get(b"topic", record.fields.get(b"topic", b"")).decode("utf-8", "replace")
    package, _, kind = fields.get(b"type", b"").decode("utf-8", "replace").partition("/")
    text = fields.get(b"message_definition", b"").decode("utf-8", "replace")
    return Topic(record.number(b"conn"), name, f"{package}/msg/{kind}", text, Encoding.ROS1, wire="ros1")


def _unpacked(file: BinaryIO, chunk: _Record) -> bytes:
    data = _data(file, chunk)
    compression = chunk.fields.get(b"compression", b"").decode("utf-8", "replace")
    if compression == "none":
        return data
    if compression not in _DECOMPRESSORS:
        raise BrokenRecordingError(f"the chunk at byte {chunk.start} is compressed as {compression!r}, which no bag should be")
    try:
        return _DECOMPRESSORS[compression](data)
    except (OSError, EOFError, ValueError, RuntimeError) as error:
        raise BrokenRecordingError(f"the chunk at byte {chunk.start} cannot be decompressed ({error})") from error


def _lz4(data: bytes) -> bytes:
    return bytes(optional("lz4.frame", "lz4", "ros", "reading a compressed bag").decompress(data))


_DECOMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {"bz2": bz2.decompress, "lz4": _lz4}


def _length(stream: BinaryIO, start: int) -> int:
    data = stream.read(_LENGTH.size)
    if len(data) < _LENGTH.size:
        raise BrokenRecordingError(f"the record at byte {start} is cut off")
    return int(_LENGTH.unpack(data)[0])


def _data(stream: BinaryIO, record: _Record) -> bytes:
    stream.seek(record.data_start)
    return _exactly(stream, record.data_bytes)


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise BrokenRecordingError(f"{count} bytes were expected, {len(data)} are left")
    return data
