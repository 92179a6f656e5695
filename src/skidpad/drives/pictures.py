"""Pictures in folders: finding them, their natural order, the time in their names, reading them."""

from __future__ import annotations

import errno
import os
import re
from calendar import timegm
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from skidpad.core.errors import LostDriveError
from skidpad.core.files import open_regular
from skidpad.core.images import MAX_PICTURE_BYTES, FloatArray, NumpyFrames, decode, why_not_decoded
from skidpad.drives.drive import Problem, ProblemKind

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
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_PICTURE_BYTES:
            raise OSError(errno.EFBIG, TOO_MANY_BYTES, str(path))
        return file.read()


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
