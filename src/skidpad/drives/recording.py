"""Recordings of messages on topics, whatever the file's format: their parts, the types of their messages, reading one again."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from skidpad.core.errors import BadDriveError, MissingExtraError

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore


K = TypeVar("K")
V = TypeVar("V")


class Encoding(Enum):
    """How a message's bytes are written."""

    ROS1 = "ros1"
    CDR = "cdr"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Topic:
    """One stream of messages of one type.

    kind: the type as `package/msg/Name`. definition: the type's text as the file carries it, empty where it carries none.
    is_idl: whether that text is IDL, not msg. wire: the encoding in the file's own words.
    """

    key: int
    name: str
    kind: str
    definition: str
    encoding: Encoding
    is_idl: bool = False
    wire: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


Place = tuple[int, int]
"""Where a message lies: the start of its record or chunk in the file, and where it is within that; -1: it is that record."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it lies in the file; log_ns: when it was recorded."""

    topic: int
    log_ns: int
    place: Place
    data: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a recording that cannot be read; what came before it is good, and often what comes after."""

    detail: str


class BrokenRecordingError(Exception):
    """A recording ends or makes no sense at some point. Caught within this package, where it becomes a Damage or a Problem."""


class Recording(Protocol):
    """A file of messages. It keeps no open file, so that it can be sent to another process."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that it is made of."""

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Every topic, in the order of the file."""

    def scan(self, wanted: frozenset[int]) -> Generator[Message | Damage, None, None]:
        """Reads the messages of some topics, from the start of the file to its end or to where it breaks off."""

    def fetch(self, place: Place) -> bytes:
        """Reads one message again; raises BrokenRecordingError or OSError where it is no longer there."""


@dataclass(slots=True)
class Recent(Generic[K, V]):
    """Remembers the last few values that were costly to get; safe in threads, and empty in a copy for another process.

    Threads read neighbouring frames at the same time, so a chunk must outlive the first who asked for it.
    """

    limit: int
    _values: OrderedDict[K, V] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: K, make: Callable[[K], V]) -> V:
        """Returns the value of a key, made now where it is not remembered; one thread makes, the others wait."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make(key)
                while len(self._values) > self.limit:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]

    def __reduce__(self) -> tuple[type[Recent[K, V]], tuple[int]]:
        return Recent, (self.limit,)


IMAGE, COMPRESSED_IMAGE = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
STEERING_FIELDS = ("steering_wheel_angle", "steering_tire_angle", "steering_angle", "wheel_angle", "steering", "angle", "data")
"""Fields that are a steering angle where nobody says which; `data` only on a topic whose name speaks of steering."""

_NUMBERS = frozenset({"float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})


@dataclass(frozen=True, slots=True)
class MessageType:
    """Reads the messages of one topic."""

    topic: Topic

    @property
    def _store(self) -> Typestore:
        return _typestore(self.topic)

    @property
    def has_header(self) -> bool:
        """Whether the first field is a std_msgs/Header."""
        fields = self._fields(self.topic.kind)
        return bool(fields) and fields[0][1] == "std_msgs/msg/Header"

    def stamp_ns(self, data: bytes) -> int:
        """Returns the stamp of the header, which stands at a fixed place; 0 where it was not set."""
        try:
            if self.topic.encoding is Encoding.ROS1:
                _, seconds, nanoseconds = struct.unpack_from("<III", data)
            else:
                order = "<" if data[1] & 1 else ">"
                seconds, nanoseconds = struct.unpack_from(f"{order}iI", data, 4)
        except (struct.error, IndexError) as error:
            raise BrokenRecordingError(f"a message of {len(data)} bytes on {self.topic.name} holds no header") from error
        return int(seconds) * 10**9 + int(nanoseconds)

    def numbers(self) -> tuple[str, ...]:
        """Returns the names of the fields that are numbers; a field within a field is written with a dot."""
        return tuple(self._numbers(self.topic.kind, ""))

    def is_of_road_wheels(self, field: str) -> bool:
        """Tells whether a field is an angle of the road wheels: Autoware's `steering_tire_angle`, and any angle of ackermann_msgs."""
        return field.endswith("steering_tire_angle") or self.topic.kind.startswith("ackermann_msgs/")

    def read(self, data: bytes) -> Any:
        """Returns the message as an object with the fields of its type."""
        # Damaged bytes reach generated code, which was not written to refuse them and fails in many ways.
        errors = (ValueError, IndexError, KeyError, TypeError, AssertionError, struct.error, MemoryError, OverflowError, _serde_error())
        try:
            if self.topic.encoding is Encoding.ROS1:
                return self._store.deserialize_ros1(data, self.topic.kind)
            return self._store.deserialize_cdr(data, self.topic.kind)
        except errors as error:
            raise BrokenRecordingError(f"a message of {len(data)} bytes on {self.topic.name} is no {self.topic.kind}: {error}") from error

    def number(self, data: bytes, field: str) -> float:
        """Returns a field of a message; NaN where it is not finite."""
        value = self.read(data)
        for name in field.split("."):
            value = getattr(value, name)
        return float(value) if math.isfinite(value) else math.nan

    def _numbers(self, kind: str, prefix: str) -> list[str]:
        found = []
        for name, inner in self._fields(kind):
            if inner in _NUMBERS:
                found.append(f"{prefix}{name}")
            elif "/" in inner and inner != "std_msgs/msg/Header" and prefix.count(".") < 3:
                found += self._numbers(inner, f"{prefix}{name}.")
        return found

    def _fields(self, kind: str) -> list[tuple[str, str]]:
        """Returns the plain fields of a type as (name, type); lists are left out."""
        from rosbags.interfaces import Nodetype  # noqa: PLC0415 - comes with an extra

        _, fields = self._store.fielddefs.get(kind, ((), ()))
        plain = []
        for name, (node, value) in fields:
            if node == Nodetype.NAME:
                plain.append((name, str(value)))
            elif node == Nodetype.BASE:
                plain.append((name, str(value[0])))
        return plain


def normal_kind(text: str) -> str:
    """Writes a type as `package/msg/Name`, which ROS 1 writes without the middle."""
    package, _, name = text.rpartition("/")
    return f"{package.removesuffix('/msg')}/msg/{name}" if package else text


def _serde_error() -> type[Exception]:
    from rosbags.serde import SerdeError  # noqa: PLC0415 - comes with an extra

    return SerdeError


@lru_cache(maxsize=64)  # making the code of a type costs as much as reading a hundred of its messages
def _typestore(topic: Topic) -> Typestore:
    try:
        from rosbags.typesys import Stores, TypesysError, get_types_from_idl, get_types_from_msg, get_typestore  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError.of("rosbags", "ros", f"reading the ROS messages of {topic.name}") from error
    if not topic.definition or topic.kind in {IMAGE, COMPRESSED_IMAGE}:  # these two are the same in every recording
        store = get_typestore(Stores.ROS1_NOETIC if topic.encoding is Encoding.ROS1 else Stores.ROS2_HUMBLE)
        if topic.kind not in store.fielddefs:
            raise BadDriveError(
                f"the recording does not say what a {topic.kind} is ({topic.name}); "
                "convert it with `ros2 bag convert` to MCAP, which carries definitions, or choose another topic"
            )
        return store
    store = get_typestore(Stores.EMPTY)
    try:
        if topic.is_idl:
            for part in topic.definition.split("=" * 80 + "\n"):
                text = part.partition("\n")[2] if part.startswith("IDL: ") else part
                if text.strip():
                    store.register(get_types_from_idl(text))
        else:
            store.register(get_types_from_msg(topic.definition, topic.kind))
    except (TypesysError, KeyError, ValueError, AssertionError, IndexError) as error:
        raise BadDriveError(f"the definition of {topic.kind} in the recording ({topic.name}) cannot be read: {error}") from error
    return store
