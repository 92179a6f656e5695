"""Recordings of messages on topics, whatever the file's format: their parts, and reading one message again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import Generic, Protocol, TypeVar

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
        ...

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Every topic, in the order of the file."""
        ...

    def scan(self, wanted: frozenset[int]) -> Generator[Message | Damage, None, None]:
        """Reads the messages of some topics, from the start of the file to its end or to where it breaks off."""
        ...

    def fetch(self, place: Place) -> bytes:
        """Reads one message again; raises BrokenRecordingError or OSError where it is no longer there."""
        ...


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
