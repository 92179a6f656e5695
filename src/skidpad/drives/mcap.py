"""MCAP files, read from start to end by the library mcap: one that was cut off gives what it holds before the cut."""

from __future__ import annotations

import struct
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from skidpad.core.errors import BadDriveError, MissingExtraError
from skidpad.drives.drive import Drive
from skidpad.drives.readers import READERS, Options, Reader
from skidpad.drives.recorded import OPTIONS, recorded_drive
from skidpad.drives.recording import BrokenRecordingError, Damage, Encoding, Place, Recent, Topic, normal_kind
from skidpad.drives.recording import Message as OurMessage
from skidpad.drives.rosbag import first_bytes

if TYPE_CHECKING:
    from mcap.records import Channel, McapRecord, Schema


MAGIC = b"\x89MCAP0\r\n"
_CHUNKS_KEPT = 8
_SPAN = 1 << 16  # a channel's number has 16 bits
_PLACE_SHIFT = 44  # files of up to 16 TiB, and half a million of them
_CHUNK = 6
_CHUNK_HEAD = struct.Struct("<BQ28xI")  # opcode, length; times, size and checksum; how many letters the compression has
_RECORD_HEAD_BYTES, _LENGTH_BYTES = 9, 8
_ENCODINGS = {"ros1": Encoding.ROS1, "cdr": Encoding.CDR}


@dataclass(frozen=True, eq=False)
class McapFiles:
    """One MCAP file, or those of a split bag in order; a message's place is (its record or chunk, its number within the chunk)."""

    paths: tuple[Path, ...]
    _chunks: Recent[int, list[McapRecord]] = field(default_factory=lambda: Recent(_CHUNKS_KEPT))

    def __post_init__(self) -> None:
        _damaged()

    @cached_property
    def topics(self) -> tuple[Topic, ...]:
        """The channels of the summary at the end; of the whole file where the summary is lost."""
        return tuple(topic for number, path in enumerate(self.paths) for topic in self._topics(number, path))

    def scan(self, wanted: frozenset[int]) -> Generator[OurMessage | Damage, None, None]:
        """Reads chunk after chunk; a chunk whose checksum is wrong is passed over."""
        from mcap.records import Message  # noqa: PLC0415 - comes with the extra

        for number, path in enumerate(self.paths):
            for place, record in self._records(number, path):
                if isinstance(record, Damage):
                    yield record
                elif isinstance(record, Message) and number * _SPAN + record.channel_id in wanted:
                    yield OurMessage(number * _SPAN + record.channel_id, record.log_time, place, record.data)

    def fetch(self, place: Place) -> bytes:
        """Reads one message; its chunk is kept for the next."""
        from mcap.records import Message  # noqa: PLC0415 - comes with the extra

        start, within = place
        record = self._at(start) if within < 0 else self._chunks.get(start, self._chunk)[within]
        if not isinstance(record, Message):
            raise BrokenRecordingError("the file holds no message there any more")
        return record.data

    def _topics(self, number: int, path: Path) -> list[Topic]:
        from mcap.reader import SeekingReader  # noqa: PLC0415 - comes with the extra
        from mcap.records import Channel, Schema  # noqa: PLC0415

        with _opened(path) as file:
            try:
                summary = SeekingReader(file).get_summary()
            except _damaged():
                summary = None
        if summary is not None and summary.channels:
            schemas, channels = dict(summary.schemas), list(summary.channels.values())
        else:
            schemas, channels = {}, []
            for _, record in self._records(number, path):
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel) and all(record.id != channel.id for channel in channels):
                    channels.append(record)
        return [_topic(channel, schemas.get(channel.schema_id), number * _SPAN) for channel in channels]

    def _records(self, number: int, path: Path) -> Generator[tuple[Place, McapRecord | Damage], None, None]:
        """Yields every record, those of chunks among them, and in the place of what cannot be read a Damage."""
        from mcap.records import Chunk, DataEnd, Footer  # noqa: PLC0415 - comes with the extra
        from mcap.stream_reader import StreamReader, breakup_chunk  # noqa: PLC0415

        size = path.stat().st_size
        with _opened(path) as file:
            file.seek(len(MAGIC))
            reader = StreamReader(file, skip_magic=True, emit_chunks=True, record_size_limit=max(size, 1))
            records = reader.records
            while True:
                start = file.tell()
                try:
                    record = next(records, None)
                except _damaged() as error:
                    inside = _inside_cut_chunk(file, start, size)
                    if inside:
                        file.seek(inside)
                        records = reader.records
                        continue
                    yield (0, 0), Damage(f"{path.name} breaks off at byte {start} of {size}: {_words(error)}")
                    return
                if record is None or isinstance(record, DataEnd | Footer):
                    return
                at = (number << _PLACE_SHIFT) + start
                if not isinstance(record, Chunk):
                    yield (at, -1), record
                    continue
                try:
                    inner = breakup_chunk(record, validate_crc=True)
                except _damaged() as error:
                    yield (0, 0), Damage(f"the chunk at byte {start} of {path.name} is damaged: {_words(error)}")
                    continue
                for place, each in enumerate(inner):
                    yield (at, place), each

    def _at(self, start: int) -> McapRecord | None:
        from mcap.stream_reader import StreamReader  # noqa: PLC0415 - comes with the extra

        with _opened(self.paths[start >> _PLACE_SHIFT]) as file:
            file.seek(start & ((1 << _PLACE_SHIFT) - 1))
            try:
                return next(StreamReader(file, skip_magic=True, emit_chunks=True).records, None)
            except _damaged() as error:
                raise BrokenRecordingError(_words(error)) from error

    def _chunk(self, start: int) -> list[McapRecord]:
        from mcap.records import Chunk  # noqa: PLC0415 - comes with the extra
        from mcap.stream_reader import breakup_chunk  # noqa: PLC0415

        record = self._at(start)
        try:
            return breakup_chunk(record, validate_crc=True) if isinstance(record, Chunk) else []
        except _damaged() as error:
            raise BrokenRecordingError(_words(error)) from error


def _damaged() -> tuple[type[Exception], ...]:
    """What the library and its decompressors raise on bytes that make no sense."""
    try:
        from mcap.exceptions import McapError  # noqa: PLC0415 - comes with the extra
        from zstandard import ZstdError  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError.of("mcap", "mcap", "reading MCAP files") from error
    return McapError, ZstdError, struct.error, ValueError, EOFError, RuntimeError, MemoryError, OverflowError


def _opened(path: Path) -> BinaryIO:
    file = path.open("rb")
    if file.read(len(MAGIC)) != MAGIC:
        file.close()
        raise BadDriveError(f"{str(path)!r} is not an MCAP file: it does not begin with the letters MCAP0")
    return file


def _inside_cut_chunk(file: BinaryIO, start: int, size: int) -> int:
    """Returns where the records of an uncompressed chunk begin that the end of the file cuts off; 0 where there is none.

    They are records as any others, and those before the cut are whole. A file that ends as it should is not cut off: there the
    length is wrong, and what follows would be taken without a checksum.
    """
    file.seek(start)
    head = file.read(_CHUNK_HEAD.size)
    if len(head) < _CHUNK_HEAD.size:
        return 0
    opcode, length, compression_bytes = _CHUNK_HEAD.unpack(head)
    file.seek(-len(MAGIC), SEEK_END)
    is_cut = file.read() != MAGIC and start + _RECORD_HEAD_BYTES + length > size
    return start + _CHUNK_HEAD.size + _LENGTH_BYTES if opcode == _CHUNK and not compression_bytes and is_cut else 0


def _topic(channel: Channel, schema: Schema | None, first: int) -> Topic:
    kind, text, written = ("", b"", "") if schema is None else (schema.name, schema.data, schema.encoding)
    is_message = written in {"ros1msg", "ros2msg", "ros2idl", "omgidl"}
    return Topic(
        first + channel.id,
        channel.topic,
        normal_kind(kind),
        text.decode("utf-8", "replace") if is_message else "",
        _ENCODINGS.get(channel.message_encoding, Encoding.OTHER),
        is_idl=written in {"ros2idl", "omgidl"},
        wire=channel.message_encoding,
    )


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


@READERS.register("mcap")
class Mcap(Reader):
    """Reads the pictures of one camera with the nearest steering angle; types come from the file itself."""

    looks_for = "an MCAP file (*.mcap) with ROS messages"
    takes_files = True
    options = OPTIONS

    def recognises(self, path: Path) -> bool:
        """Looks at the first bytes and the suffix."""
        return path.is_file() and (path.suffix == ".mcap" or first_bytes(path).startswith(MAGIC))

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the file in one pass."""
        return recorded_drive(path.stem, McapFiles((path,)), options)
