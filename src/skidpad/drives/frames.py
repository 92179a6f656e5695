"""What a drive is made of: frames, their names and sources, pictures in folders, reading ahead, and what can be wrong with a frame."""

from __future__ import annotations

import os
import re
from array import array
from calendar import timegm
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import LostDriveError
from skidpad.core.files import read_regular
from skidpad.core.images import MAX_PICTURE_BYTES, FloatArray, IntArray, NumpyFrames, decode, why_not_decoded

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


class ProblemKind(Enum):
    """What can be wrong with one frame of a drive without ending the work."""

    MISSING_FILE = "missing file"
    CORRUPT = "corrupt or truncated picture"
    NAN_LABEL = "label is not a number"
    DUPLICATE_ID = "duplicate frame id"
    OTHER_SIZE = "size differs from the drive's"
    UNLISTED = "picture without a row in the csv"
    DROPPED_LABEL = "label dropped because it is too large"
    BAD_ROW = "row of the csv that cannot be used"
    IGNORED_FILE = "file left aside"
    UNMATCHED = "no label near in time"
    BAD_MESSAGE = "message that cannot be used"
    BREAK = "recording is damaged or breaks off"


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken frame: counted and listed, never the end of a run."""

    kind: ProblemKind
    frame_id: str
    detail: str

    def __str__(self) -> str:
        return f"{self.frame_id}: {self.kind.value} ({self.detail})"


class FrameSource(Protocol):
    """Where frames come from: a folder, memory, a renderer, later a video or a bag."""

    def read(self, index: int) -> NumpyFrames | Problem:
        """Returns frame `index` as (height, width, 3) uint8 RGB, or the problem with it; safe in threads."""

    def fingerprint(self, index: int) -> str:
        """Returns a cheap text that changes when the frame's file does (its size, say)."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Frames that hold the pictures of several cameras of one size side by side, from the left."""

    frame_ids: Sequence[str]
    sources: tuple[FrameSource, ...]

    def read(self, index: int) -> NumpyFrames | Problem:
        """Reads one picture of each camera; the first problem is the frame's."""
        pictures: list[NumpyFrames] = []
        for source in self.sources:
            picture = source.read(index)
            if isinstance(picture, Problem):
                return replace(picture, frame_id=self.frame_ids[index])
            pictures.append(picture)
        if len({picture.shape for picture in pictures}) > 1:
            sizes = ", ".join(f"{picture.shape[1]}x{picture.shape[0]}" for picture in pictures)
            return Problem(ProblemKind.OTHER_SIZE, self.frame_ids[index], f"its cameras' pictures are of {sizes}")
        return np.concatenate(pictures, axis=1)

    def fingerprint(self, index: int) -> str:
        """Returns those of all cameras."""
        return " ".join(source.fingerprint(index) for source in self.sources)

    def each(self, change: Callable[[FrameSource], FrameSource]) -> SideBySide:
        """Returns the same frames with every camera's source changed."""
        return replace(self, sources=tuple(map(change, self.sources)))


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Frames that could be read, in order, with their positions in the drive; and those that could not.

    clip: (lead + N, height, width, 3), the N frames and before them those that a subject with memory looks back at; all but
    `clip` tells of the N alone. An empty batch has an empty clip.
    """

    indices: IntArray
    frame_ids: tuple[str, ...]
    clip: NumpyFrames
    steering_rad: FloatArray
    problems: tuple[Problem, ...]

    def __len__(self) -> int:
        return len(self.frame_ids)

    @property
    def frames(self) -> NumpyFrames:
        """The N frames themselves, (N, height, width, 3): a view of the clip."""
        return self.clip[len(self.clip) - len(self) :]

    def whole(self) -> FrameBatch:
        """Returns the batch, of frames that could be read before; refuses one that lacks any, since the drive has lost it."""
        if self.problems:
            raise LostDriveError(f"a frame of the drive can no longer be read: {self.problems[0]}; put the drive back as it was")
        return self


SUFFIXES = frozenset({"jpg", "jpeg", "png", "bmp", "webp", "tif", "tiff", "ppm"})

TOO_MANY_BYTES = f"more than the {MAX_PICTURE_BYTES >> 20} MiB that are read as one picture"

_NUMBER = re.compile(r"([0-9]+)")
_SEPARATOR = re.compile(r"[\\/]")
_CLOCK = re.compile(r"(\d{4})_(\d\d)_(\d\d)_(\d\d)_(\d\d)_(\d\d)_(\d{3})$")
_TICKS_PER_S = {19: 1_000_000_000, 16: 1_000_000, 13: 1_000}  # digits of a Unix time in ns, us, ms: from 2001 to 2286


@dataclass(frozen=True, slots=True)
class PictureSource:
    """Frames that are picture files of one folder."""

    folder: Path
    names: Sequence[str]

    def read(self, index: int) -> NumpyFrames | Problem:
        """Reads and decodes one picture."""
        name = self.names[index]
        try:
            data = picture_bytes(self.folder / name)
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise gone(self.folder) from None
            return Problem(ProblemKind.MISSING_FILE, frame_id_of(name), f"no file {name} in {self.folder.name}")
        except OSError as error:
            return Problem(ProblemKind.CORRUPT, frame_id_of(name), f"{name}: {error.strerror}")
        frame = decode(data)
        return Problem(ProblemKind.CORRUPT, frame_id_of(name), f"{name}: {why_not_decoded(data)}") if frame is None else frame

    def fingerprint(self, index: int) -> str:
        """Returns the size of the file; its date changes with every copy, so it says nothing."""
        try:
            return str((self.folder / self.names[index]).stat().st_size)
        except OSError:
            if not self.folder.is_dir():
                raise gone(self.folder) from None  # or the drive would be taken for another one
            return "missing"


def picture_bytes(path: Path) -> bytes:
    """Reads a file that may be a picture; raises OSError for what is no file or too large to be one."""
    return read_regular(path, MAX_PICTURE_BYTES, TOO_MANY_BYTES)


def gone(place: Path) -> LostDriveError:
    """Says that a drive is no longer there: not one broken frame, but all of them, and perhaps only for a while."""
    return LostDriveError(f"the drive's {place} is gone; put it back or mount it again")


def pictures_in(folder: Path) -> list[str]:
    """Returns the names of the pictures in a folder, in natural order; hidden files are not looked at."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and is_picture(entry.name))

    def key(name: str) -> tuple[list[str | int], str]:
        return natural_key(frame_id_of(name))

    # Numbers of one width are in order already, and a million keys at once would weigh more than all else about the frames.
    is_natural = all(one <= other for one, other in pairwise(map(key, names)))
    return names if is_natural else sorted(names, key=key)


def is_picture(name: str) -> bool:
    """Tells by the suffix whether a file is a picture."""
    return name.rpartition(".")[2].lower() in SUFFIXES


def file_name_of(text: str) -> str:
    """Returns the last part of a Windows or a Linux path."""
    return _SEPARATOR.split(text.strip())[-1]


def frame_id_of(text: str) -> str:
    """Returns the file name of a path without the suffix of a picture."""
    name = file_name_of(text)
    return name.rpartition(".")[0] if is_picture(name) else name


def natural_key(text: str) -> tuple[list[str | int], str]:
    """Sorts `frame2` before `frame10`."""
    # Splitting by a group leaves text at even places and digits at odd ones, so keys always compare like with like.
    parts: list[str | int] = [int(part) if place % 2 else part.casefold() for place, part in enumerate(_NUMBER.split(text))]
    return parts, text


def times_of(frame_ids: Sequence[str]) -> FloatArray | None:
    """Returns the seconds since the first frame where every id is a Unix time in ns, us or ms, or ends in a simulator's clock."""
    if not frame_ids:
        return None
    ticks_per_s = _TICKS_PER_S.get(len(frame_ids[0]))
    if ticks_per_s and all(len(text) == len(frame_ids[0]) and text.isdecimal() and text[0] != "0" for text in frame_ids):
        ticks = np.fromiter(map(int, frame_ids), np.uint64, len(frame_ids))
        # Whole numbers are subtracted first: a float holds a Unix time only to a quarter of a microsecond.
        return np.asarray((ticks - ticks.min()) / ticks_per_s, np.float64)
    if clock_ms(frame_ids[0]) is None:
        return None
    clocks = [clock_ms(text) for text in frame_ids]
    known = np.array([clock for clock in clocks if clock is not None], np.int64)
    return (known - known.min()) / 1000.0 if len(known) == len(clocks) else None


def clock_ms(frame_id: str) -> int | None:
    """Returns the milliseconds of a name such as `center_2016_12_01_13_30_48_287`; only differences mean something."""
    match = _CLOCK.search(frame_id)
    if match is None:
        return None
    year, month, day, hour, minute, second, millisecond = (int(part) for part in match.groups())
    try:
        return timegm((year, month, day, hour, minute, second)) * 1000 + millisecond
    except ValueError:  # month 13, say: a number that only looks like a clock
        return None


S = TypeVar("S")
T = TypeVar("T")

BATCHES_AHEAD = 2
FRAMES_PER_TASK = 8  # decoding one frame costs about as much as handing over ten tasks; eight make that cost vanish


def default_threads() -> int:
    """Returns how many threads decode frames where nobody says: one per usable core, at most 8."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, 8)


def map_ahead(function: Callable[[S], T], items: Iterable[S], threads: int, ahead: int) -> Generator[T, None, None]:
    """Yields `function(item)` in the order of the items, working at most `ahead` items beyond the last one yielded.

    Items are drawn in the caller's thread. However the caller stops, waiting work is dropped and every thread has ended.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="skidpad-frames")
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@dataclass(slots=True)
class _Buffer(Generic[T]):
    """One batch while threads fill it."""

    positions: IntArray
    frames: NumpyFrames
    notes: list[T] = field(default_factory=list)


def filled_in_order(
    fill: Callable[[IntArray, NumpyFrames], list[T]],
    count: int,
    batch_size: int,
    shape: tuple[int, int, int],
    threads: int,
) -> Generator[tuple[IntArray, NumpyFrames, list[T]], None, None]:
    """Yields positions, frames and notes of each batch of `count` frames, filled by threads.

    fill: writes the frames at some positions into a part of the batch's array, and returns one note for each.
    """

    def tasks() -> Iterator[tuple[_Buffer[T], slice]]:
        for start in range(0, count, batch_size):
            positions = np.arange(start, min(start + batch_size, count), dtype=np.int64)
            buffer = _Buffer[T](positions, np.empty((len(positions), *shape), np.uint8))
            for first in range(0, len(positions), FRAMES_PER_TASK):
                yield buffer, slice(first, first + FRAMES_PER_TASK)

    def work(task: tuple[_Buffer[T], slice]) -> tuple[_Buffer[T], list[T]]:
        buffer, part = task
        return buffer, fill(buffer.positions[part], buffer.frames[part])

    tasks_per_batch = -(-batch_size // FRAMES_PER_TASK)
    with closing(map_ahead(work, tasks(), threads, BATCHES_AHEAD * tasks_per_batch)) as done:
        for buffer, notes in done:
            buffer.notes.extend(notes)
            if len(buffer.notes) == len(buffer.positions):
                yield buffer.positions, buffer.frames, buffer.notes
