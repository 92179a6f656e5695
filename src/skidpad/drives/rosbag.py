"""ROS bags: `*.bag` of ROS 1 (see `rosbag_v1`), and the folders or `*.db3` files (SQLite) of ROS 2, read in the order of writing.

Of a database cut off at each of 99 places, rosbags 0.11 reads messages at 1 and this reader at 11: the library asks for sums over all
messages before it gives the first one. Its types are used (`recording`).

Reference: rosbag2_storage_sqlite3, schema versions 1 to 4.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from skidpad.core.errors import BadDriveError
from skidpad.core.files import open_regular
from skidpad.drives.drive import Drive
from skidpad.drives.readers import READERS, Options, Reader
from skidpad.drives.recorded import OPTIONS, recorded_drive
from skidpad.drives.recording import BrokenRecordingError, Damage, Encoding, Message, Place, Recording, Topic, normal_kind
from skidpad.drives.rosbag_v1 import MAGIC as V1_MAGIC
from skidpad.drives.rosbag_v1 import BagV1

DB3_MAGIC = b"SQLite format 3\0"
_BROKEN = (sqlite3.Error, UnicodeDecodeError, OverflowError)
"""What a damaged database gives; not all of it comes from SQLite itself."""

_SPAN = 1 << 16
"""Topics of file f are numbered from f times this: two files of a split bag may number their topics differently."""


@dataclass(frozen=True, eq=False)
class BagDb3:
    """The database files of one bag; a message's place is (file, row)."""

    paths: tuple[Path, ...]

    @cached_property
    def topics(self) -> tuple[Topic, ...]:
        """The topics of every file."""
        return tuple(topic for number, path in enumerate(self.paths) for topic in _topics(path, number * _SPAN))

    def scan(self, wanted: frozenset[int]) -> Generator[Message | Damage, None, None]:
        """Reads row after row; a file that breaks off does not end the next one."""
        for number, path in enumerate(self.paths):
            keys = [key - number * _SPAN for key in sorted(wanted) if key // _SPAN == number]
            marks = ",".join("?" * len(keys))
            read = 0
            try:
                with _connected(path) as base:
                    rows = base.execute(
                        f"SELECT id, topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) ORDER BY id",  # noqa: S608 - marks only
                        keys,
                    )
                    for row, topic, log_ns, data in rows:
                        if isinstance(data, bytes) and isinstance(log_ns, int) and isinstance(row, int):
                            yield Message(number * _SPAN + topic, log_ns, (number, row), data)
                            read += 1
                        else:
                            yield Damage(f"row {row} of {path.name} holds no message")
            except _BROKEN as error:
                yield Damage(f"{path.name} is damaged or cut off: {error}; {read} messages before that are kept")

    def fetch(self, place: Place) -> bytes:
        """Reads one row."""
        number, row = place
        try:
            with _connected(self.paths[number]) as base:
                found = base.execute("SELECT data FROM messages WHERE id = ?", (row,)).fetchone()
        except _BROKEN as error:
            raise BrokenRecordingError(f"{self.paths[number].name}: {error}") from error
        if found is None or not isinstance(found[0], bytes):
            raise BrokenRecordingError(f"{self.paths[number].name} no longer has message {row}")
        return found[0]


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens a database that nobody writes to; SQLite itself would make a new one where there is none."""
    path.stat()
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as base:
        yield base


def _topics(path: Path, first: int) -> list[Topic]:
    try:
        with _connected(path) as base:
            columns = {row[1] for row in base.execute("PRAGMA table_info(topics)")}
            if not {"id", "name", "type", "serialization_format"} <= columns:
                raise BadDriveError(f"{str(path)!r} is not a ROS 2 bag: it has no table of topics")
            has_types = bool(base.execute("PRAGMA table_info(message_definitions)").fetchall())
            types = base.execute("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions") if has_types else ()
            definitions = {kind: (str(text), encoding == "ros2idl") for kind, encoding, text in types}
            rows = base.execute("SELECT id, name, type, serialization_format FROM topics ORDER BY id").fetchall()
    except _BROKEN as error:
        raise BadDriveError(f"{str(path)!r} cannot be read as a ROS 2 bag: {error}; nothing of it can be saved") from error
    return [
        Topic(
            first + key,
            name,
            normal_kind(kind),
            definitions.get(kind, ("", False))[0],
            Encoding.CDR if wire == "cdr" else Encoding.OTHER,
            is_idl=definitions.get(kind, ("", False))[1],
            wire=wire,
        )
        for key, name, kind, wire in rows
        if isinstance(key, int) and isinstance(name, str) and isinstance(kind, str)
    ]


METADATA = "metadata.yaml"


@READERS.register("rosbag")
class Rosbag(Reader):
    """Reads the pictures of one camera with the nearest steering angle; types come from the bag itself."""

    looks_for = f"a ROS 1 bag (*.bag), or a ROS 2 bag (a folder with {METADATA}, or *.db3)"
    takes_files = True
    options = OPTIONS

    def recognises(self, path: Path) -> bool:
        """Looks at the first bytes of a file, or for ROS 2's description in a folder."""
        if path.is_dir():
            return (path / METADATA).is_file()
        return first_bytes(path).startswith((V1_MAGIC, DB3_MAGIC)) or path.name.endswith((".bag", ".bag.active", ".db3"))

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the bag in one pass."""
        return recorded_drive(path.stem if path.is_file() else path.name, _recording(path), options)


def first_bytes(path: Path) -> bytes:
    """Returns the first few bytes of a file; none where it is not one."""
    try:
        with open_regular(path) as file:
            return file.read(16)
    except OSError:
        return b""


def _recording(path: Path) -> Recording:
    if path.is_dir():
        return _of_folder(path)
    return BagDb3((path,)) if path.suffix == ".db3" or first_bytes(path).startswith(DB3_MAGIC) else BagV1(path)


def _of_folder(path: Path) -> Recording:
    """A ROS 2 bag is a folder of one or more files of one storage; split files go on where the one before ends."""
    databases = tuple(sorted(path.glob("*.db3"), key=_part_number))
    if databases:
        return BagDb3(databases)
    captures = sorted(path.glob("*.mcap"), key=_part_number)
    if captures:
        from skidpad.drives.mcap import McapFiles  # noqa: PLC0415 - a bag of this kind alone needs it

        return McapFiles(tuple(captures))
    packed = sorted(entry.name for entry in path.glob("*.zstd"))
    if packed:
        raise BadDriveError(f"{packed[0]} in {str(path)!r} is compressed as a whole; unpack it first with: zstd -d {packed[0]}")
    raise BadDriveError(f"no *.db3 and no *.mcap in {str(path)!r}; a ROS 2 bag has its messages in one of them")


def _part_number(path: Path) -> tuple[int, str]:
    """Sorts `drive_2.db3` before `drive_10.db3`."""
    number = path.stem.rpartition("_")[2]
    return (int(number) if number.isdecimal() else -1, path.name)
