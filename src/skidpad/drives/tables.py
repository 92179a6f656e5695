"""Csv files of labels and predictions, read with clear errors."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from io import TextIOWrapper
from pathlib import Path

import numpy as np

from skidpad.core.errors import BadDriveError, UnknownNameError
from skidpad.core.files import NotAFileError, open_regular
from skidpad.core.images import FloatArray
from skidpad.core.units import AngleUnit
from skidpad.drives.drive import Drive
from skidpad.drives.frames import frame_id_of

_MAX_LINE = 1 << 20


class TimeUnit(Enum):
    """The unit in which a csv counts time."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"

    @property
    def per_s(self) -> float:
        """How many of this unit are one second."""
        return _PER_SECOND[self]


_PER_SECOND = {TimeUnit.SECONDS: 1.0, TimeUnit.MILLISECONDS: 1e3, TimeUnit.MICROSECONDS: 1e6, TimeUnit.NANOSECONDS: 1e9}


@dataclass(frozen=True, slots=True)
class CsvRow:
    """The cells of one line; `line` counts from 1, the header included."""

    line: int
    cells: tuple[str, ...]

    def cell(self, column: int) -> str:
        """Returns a cell without blanks around it; empty where the line is too short."""
        return self.cells[column].strip() if column < len(self.cells) else ""


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A csv with a header; its rows are read when they are gone through, once."""

    path: Path
    columns: tuple[str, ...]
    rows: Iterator[CsvRow]

    def column(self, name: str) -> int:
        """Returns where a column stands, or says which there are."""
        if name not in self.columns:
            raise BadDriveError(f"{self.path.name}: {UnknownNameError.among('column', name, self.columns)}")
        return self.columns.index(name)


def read_rows(path: Path) -> Iterator[CsvRow]:
    """Reads every line of a csv that is not blank, one after the other: a million of them would be half a gigabyte."""
    try:
        with _opened(path) as file:
            reader = csv.reader(_lines(file))
            yield from (CsvRow(reader.line_num, tuple(cells)) for cells in reader if any(cell.strip() for cell in cells))
    except UnicodeDecodeError as error:
        found = f"byte 0x{error.object[error.start]:02x} ({error.reason})"
        raise BadDriveError(f"{str(path)!r} is not UTF-8 text: {found}; save it as UTF-8") from error
    except csv.Error as error:
        raise BadDriveError(f"{str(path)!r} is not a csv: {error}") from error
    except FileNotFoundError as error:
        beside = sorted(entry.name for entry in path.parent.glob("*.csv")) if path.parent.is_dir() else []
        raise BadDriveError(f"no file {str(path)!r}; csv files there: {', '.join(beside) or 'none'}") from error
    except NotAFileError as error:
        raise BadDriveError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except OSError as error:
        raise BadDriveError(f"cannot read {str(path)!r}: {error.strerror}; check its permissions") from error


def read_table(path: Path) -> CsvTable:
    """Reads a csv whose first line names the columns."""
    rows = read_rows(path)
    header = next(rows, None)
    if header is None:
        raise BadDriveError(f"{str(path)!r} is empty; it needs a header and rows")
    return CsvTable(path, tuple(cell.strip() for cell in header.cells), rows)


def read_columns(path: Path) -> tuple[str, ...]:
    """Returns the names in the first line; empty where the file is no readable csv."""
    try:
        with _opened(path) as file:
            return tuple(cell.strip() for cell in next(csv.reader(_lines(file)), []))
    except (OSError, UnicodeDecodeError, csv.Error):
        return ()


def _opened(path: Path) -> TextIOWrapper:
    return TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="")


def _lines(file: TextIOWrapper) -> Iterator[str]:
    """Yields the lines of a file; refuses one that never ends before it fills the memory."""
    while line := file.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise csv.Error(f"a line has {_MAX_LINE:,} characters or more")
        yield line


def parse_number(text: str) -> float:
    """Returns the number that a cell holds; NaN where it holds none or an infinite one."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def parse_angle(text: str, unit: AngleUnit) -> float:
    """Returns radians; NaN where the cell is not a finite number."""
    return parse_number(text) * unit.rad


_NAMED = 5


def load_predictions(path: Path | str, drive: Drive) -> FloatArray:
    """Returns the answers of a csv (frame_id, steering_angle in radians) for every frame of the drive, (N,) radians in the drive's order.

    Rows of other frames are passed over, since the drive may be a slice. A frame without an answer, with two, or with one
    that is no finite number is an error: a score over part of the frames is another score.
    """
    table = read_table(Path(path).expanduser())
    frame, steering = table.column("frame_id"), table.column("steering_angle")
    wanted = set(drive.frame_ids)
    answers: dict[str, float] = {}
    for row in table.rows:
        frame_id = frame_id_of(row.cell(frame))
        if frame_id not in wanted:
            continue
        if frame_id in answers:
            raise BadDriveError(f"{table.path.name} answers frame {frame_id!r} twice, again in line {row.line}; keep one row")
        answers[frame_id] = parse_angle(row.cell(steering), AngleUnit.RAD)
        if math.isnan(answers[frame_id]):
            raise BadDriveError(f"{table.path.name} line {row.line}: {row.cell(steering)!r} is no steering angle for frame {frame_id!r}")
    missing = [frame_id for frame_id in drive.frame_ids if frame_id not in answers]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise BadDriveError(
            f"{table.path.name} has no answer for {len(missing)} of {len(drive)} frames of drive {drive.name!r}: "
            f"{', '.join(missing[:_NAMED])}{more}; slice the drive to the frames that were answered"
        )
    return np.array([answers[frame_id] for frame_id in drive.frame_ids], np.float64)
