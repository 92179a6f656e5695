"""How rows of labels and frames become a drive, counting what is wrong; and indexes of long recordings, made once and kept."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadDriveError
from skidpad.core.files import write_atomically
from skidpad.core.images import FloatArray, IntArray
from skidpad.drives.drive import Drive, LabelConvention, Problem, ProblemKind
from skidpad.drives.frames import Names, PictureSource, frame_id_of, pictures_in, times_of
from skidpad.drives.readers import Options
from skidpad.drives.remote import cache_folder
from skidpad.drives.tables import CsvTable, TimeUnit, parse_angle, parse_number

_SUFFIXES = ".json .jsonl .ndjson .txt .tsv .xml .yaml .yml .parquet .npy .npz .pkl .pickle .h5 .hdf5 .mat"
_TABLES = frozenset(_SUFFIXES.split())
"""Suffixes of files that often hold labels."""

_NO_ROW, _NOT_SAID = np.int64(-1), np.int8(-1)


class Index:
    """Collects the frames of one folder while a reader goes through its rows.

    What is known of a picture stands in arrays by its place in natural order: a million pictures as objects would be a gigabyte.
    """

    def __init__(self, name: str, folder: Path, labels_as: LabelConvention | None = None) -> None:
        self.name = name
        self.folder = folder
        self.labels_as = labels_as or LabelConvention()
        self.ticks_per_s = 1.0  # of the times in the rows
        self.problems: list[Problem] = []
        self._places: dict[str, int] = {}  # by id, in natural order
        files: list[str] = []
        for file_name in pictures_in(folder):
            frame_id = frame_id_of(file_name)
            place = self._places.setdefault(frame_id, len(files))
            if place < len(files):
                self.problems.append(Problem(ProblemKind.DUPLICATE_ID, frame_id, f"{file_name} beside {files[place]}"))
            else:
                files.append(file_name)
        if not files:
            raise BadDriveError(f"no pictures in {str(folder)!r}; a drive needs frames (jpg, png, bmp, webp, tiff or ppm)")
        self._files = Names.of(files)
        count = len(files)
        self._rows = 0
        self._row = np.full(count, _NO_ROW)
        self._steering_rad = np.full(count, np.nan)
        self._ticks = np.full(count, np.nan)
        self._public = np.full(count, _NOT_SAID)
        self._listed = np.zeros(count, np.bool_)
        self._absent: set[str] = set()  # listed, but without a picture

    def ignore(self, file_name: str, why: str) -> None:
        """Notes a file that is deliberately not used."""
        self.problems.append(Problem(ProblemKind.IGNORED_FILE, file_name, why))

    def ignore_other_tables(self, folder: Path) -> None:
        """Notes files beside the pictures that may hold labels and that no reader knows, one line for each suffix."""
        found: dict[str, list[str]] = {}
        for entry in sorted(folder.iterdir()):
            if entry.suffix.lower() in _TABLES and not entry.name.startswith("."):
                found.setdefault(entry.suffix.lower(), []).append(entry.name)
        for suffix, names in found.items():
            what = f"{names[0]} is" if len(names) == 1 else f"{len(names)} files such as {names[0]} are"
            self.ignore(f"*{suffix}", f"{what} not read: labels come from a csv; write one and name it with ?csv=FILE")

    def add_row(
        self, frame_id: str, label: str, where: str, time: str | None = None, *, public: bool | None = None, beside: Sequence[str] = ()
    ) -> bool:
        """Adds one row of a csv and returns whether it became a frame; the first row of an id is kept.

        label, time: the cells as written; time is None where there is no such column. where: the row, in words. beside: ids of other
        cameras' pictures that the frame needs as well.
        """
        if not frame_id:
            self.problems.append(Problem(ProblemKind.BAD_ROW, where, "it names no frame"))
            return False
        place = self._places.get(frame_id)
        if frame_id in self._absent or (place is not None and self._listed[place]):
            self.problems.append(Problem(ProblemKind.DUPLICATE_ID, frame_id, f"again in {where}; the first row is kept"))
            return False
        if place is None:
            self._absent.add(frame_id)
        else:
            self._listed[place] = True
        ticks = None if time is None else parse_number(time)
        if ticks is not None and math.isnan(ticks):
            self.problems.append(Problem(ProblemKind.BAD_ROW, frame_id, f"{where} has the time {time!r}"))
            return False
        missing = [other for other in (frame_id, *beside) if other not in self._places]
        if place is None or missing:
            what = f" {missing[0]}" if place is not None else ""
            self.problems.append(Problem(ProblemKind.MISSING_FILE, frame_id, f"{where} has no picture{what} in {self.folder.name}"))
            return False
        steering_rad = parse_angle(label, self.labels_as.unit)
        if math.isnan(steering_rad):
            self.problems.append(Problem(ProblemKind.NAN_LABEL, frame_id, f"{where} has {label!r}"))
        self._row[place], self._rows = self._rows, self._rows + 1
        self._steering_rad[place] = steering_rad
        if ticks is not None:
            self._ticks[place] = ticks
        if public is not None:
            self._public[place] = public
        return True

    def add_table(self, table: CsvTable, frame: int, steering: int, *, time: int | None = None, public: int | None = None) -> None:
        """Adds every row of a csv by its columns, and notes the pictures that none names."""
        for row in table.rows:
            marked = None if public is None else row.cell(public) == "1"
            where = f"line {row.line} of {table.path.name}"
            self.add_row(frame_id_of(row.cell(frame)), row.cell(steering), where, None if time is None else row.cell(time), public=marked)
        self.leave_out(self.unlisted())

    def add_pictures(self) -> None:
        """Adds every picture of the folder without a label, for a drive that has no csv."""
        self._row = np.arange(len(self._files))

    def leave_out(self, unlisted: Iterable[str]) -> None:
        """Notes pictures that no row names; the csv is the index of the drive, so they are not part of it."""
        for frame_id in unlisted:
            self.problems.append(Problem(ProblemKind.UNLISTED, frame_id, f"{self._files[self._places[frame_id]]} is left out"))

    def source_of(self, frame_ids: Sequence[str]) -> PictureSource:
        """Returns where pictures of the folder are read from."""
        return PictureSource(self.folder, Names.of(self._files[self._places[frame_id]] for frame_id in frame_ids))

    def unlisted(self) -> list[str]:
        """Returns the ids of the pictures that no row has named so far."""
        return [frame_id for frame_id, place in self._places.items() if not self._listed[place]]

    def drive(self, *, natural_order: bool, rate_hz: float | None = None) -> Drive:
        """Makes the drive, in order of time where every frame has one, else in natural or in row order.

        Times come from the csv, else from the ids, else from the rate.
        """
        places = np.flatnonzero(self._row != _NO_ROW)
        if not len(places):
            raise BadDriveError(self._no_match())
        if not natural_order:
            places = places[np.argsort(self._row[places])]
        ids = list(self._places)
        times_s = self._times_s(places, ids)
        if times_s is not None:
            order = np.argsort(times_s, kind="stable")
            places, times_s = places[order], times_s[order]
        elif rate_hz is not None:
            times_s = np.arange(len(places)) / rate_hz
        public = self._public[places]
        return Drive(
            name=self.name,
            frame_ids=Names.of(ids[place] for place in places.tolist()),
            steering_rad=self._steering_rad[places],
            time_s=times_s,
            source=PictureSource(self.folder, Names.of(self._files[place] for place in places.tolist())),
            problems=tuple(self.problems),
            public=None if np.any(public == _NOT_SAID) else public == 1,
            labels_as=self.labels_as,
        )

    def _times_s(self, places: IntArray, ids: Sequence[str]) -> FloatArray | None:
        ticks: FloatArray = self._ticks[places]
        if np.isnan(ticks).any():
            return times_of([ids[place] for place in places.tolist()])
        ticks -= ticks.min()  # before the division: a float holds a Unix time in seconds only to a quarter of a microsecond
        ticks /= self.ticks_per_s
        return ticks

    def _no_match(self) -> str:
        row = next(iter(self._absent), None) or next((name for name, place in self._places.items() if self._listed[place]), None)
        picture = next(iter(self._places))
        got = f"a row says {row!r}, a picture is called {picture!r}" if row is not None else "it has no usable rows"
        return f"no row of the csv of drive {self.name!r} names a picture in {self.folder.name!r}: {got}; check the id column"


_MAX_KEY = 1e21  # nanoseconds of thirty thousand years: what lies beyond is no clock and no counter
WORTH_BYTES = 64 << 20
"""A recording below this is gone through in less time than it takes to think about it."""

_FORMAT = 1
_PROBLEMS = "problems"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False, slots=True)
class RecordingIndex:
    """What one pass over a recording brought: arrays by name, and the problems found."""

    arrays: Mapping[str, NDArray[np.int64] | NDArray[np.float64]]
    problems: tuple[Problem, ...]


def cached(files: Sequence[Path], words: str, make: Callable[[], RecordingIndex]) -> RecordingIndex:
    """Returns the index of some files, from the cache where they are as they were; `words` say what was looked for in them."""
    status = [(path, path.stat()) for path in files]
    if sum(each.st_size for _, each in status) < WORTH_BYTES:
        return make()
    identity = [[str(path.absolute()), each.st_size, each.st_mtime_ns] for path, each in status]
    key = sha256(json.dumps([_FORMAT, identity, words]).encode()).hexdigest()[:40]
    kept = cache_folder() / "indexes" / f"{key}.npz"
    with suppress(*_UNREADABLE):
        return _unpacked(kept.read_bytes())
    index = make()
    with suppress(OSError):  # a cache that cannot be written to costs time, nothing else
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, _packed(index))
    return index


def _packed(index: RecordingIndex) -> bytes:
    rows = [[problem.kind.name, problem.frame_id, problem.detail] for problem in index.problems]
    arrays: dict[str, Any] = {**index.arrays, _PROBLEMS: np.frombuffer(json.dumps(rows).encode(), np.uint8)}
    sink = BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def _unpacked(data: bytes) -> RecordingIndex:
    with np.load(BytesIO(data), allow_pickle=False) as file:
        rows = json.loads(file[_PROBLEMS].tobytes())
        arrays = {name: file[name] for name in file.files if name != _PROBLEMS}
    return RecordingIndex(arrays, tuple(Problem(ProblemKind[kind], frame_id, detail) for kind, frame_id, detail in rows))


def nearest(stamps: IntArray | FloatArray, others: IntArray | FloatArray, tolerance: int) -> IntArray:
    """Returns for each stamp the place of the nearest of the others, the earlier of two as near; -1 beyond the tolerance.

    others: never falling.
    """
    if not len(others):
        return np.full(len(stamps), -1, np.int64)
    after = np.minimum(np.searchsorted(others, stamps), len(others) - 1)
    before = np.maximum(after - 1, 0)
    chosen = np.where(np.abs(others[after] - stamps) < np.abs(others[before] - stamps), after, before)
    return np.where(np.abs(others[chosen] - stamps) <= tolerance, chosen, -1).astype(np.int64)


def matched_labels(
    matched: IntArray, angles_rad: FloatArray, frame_ids: Sequence[str], problems: list[Problem], far: str, empty: str
) -> FloatArray:
    """Returns the label of each frame, at the place that `nearest` found for it; notes the frames without one, with the reason."""
    steering_rad = np.full(len(matched), np.nan)
    steering_rad[matched >= 0] = angles_rad[matched[matched >= 0]]
    problems += [Problem(ProblemKind.UNMATCHED, frame_ids[place], far) for place in np.flatnonzero(matched < 0).tolist()]
    without = np.flatnonzero((matched >= 0) & np.isnan(steering_rad)).tolist()
    problems += [Problem(ProblemKind.NAN_LABEL, frame_ids[place], empty) for place in without]
    return steering_rad


def table_labels(table: CsvTable, frame_ids: Sequence[str], frames_s: FloatArray, options: Options, problems: list[Problem]) -> FloatArray:
    """Labels the frames of a video by the rows of a csv, nearest in time or of the same number, as the options say."""
    unit, steering = options.csv_unit(), table.column(options.text("steering"))
    if bool(options.text("time")) == bool(options.text("frame")):
        raise BadDriveError(
            "say how the rows belong to the frames: time=COLUMN (seconds) or frame=COLUMN (numbers from 0), one of them; "
            f"columns: {', '.join(table.columns)}"
        )
    by_time = bool(options.text("time"))
    place_of = table.column(options.text("time") or options.text("frame"))
    keys: list[float] = []
    angles: list[float] = []
    for row in table.rows:
        key = parse_number(row.cell(place_of))
        if not abs(key) < _MAX_KEY or not (by_time or key.is_integer()):
            problems.append(Problem(ProblemKind.BAD_ROW, f"line {row.line} of {table.path.name}", f"it has {row.cell(place_of)!r}"))
            continue
        keys.append(key)
        angles.append(parse_angle(row.cell(steering), unit))
    order = np.argsort(keys, kind="stable")
    sorted_keys, sorted_angles = np.array(keys, np.float64)[order], np.array(angles, np.float64)[order]
    if by_time:
        matched = _by_time(sorted_keys, frames_s, options)
        lacking = f"no row within {options.real('tolerance'):g} s"
    else:
        matched = nearest(np.arange(len(frame_ids)), sorted_keys - _frame_base(sorted_keys, options), 0)
        lacking = "no row with this number"
    return matched_labels(matched, sorted_angles, frame_ids, problems, lacking, "the angle in its row is not a number")


def _by_time(rows: FloatArray, frames_s: FloatArray, options: Options) -> IntArray:
    """Matches rows to frames by time; refuses a clock that fits the video in another unit, or not at all.

    In the wrong unit all frames lie near one row, which would label them all.
    """
    tolerance_ns, offset_s = options.seconds("tolerance") * 1e9, options.real("offset")
    frames_ns = np.round(frames_s * 1e9)

    def match(unit: TimeUnit, start_s: float) -> IntArray:
        return nearest(frames_ns, np.round((rows / unit.per_s - start_s) * 1e9), round(tolerance_ns))

    def used(matched: IntArray) -> int:
        return len(np.unique(matched[matched >= 0]))

    unit = options.choice("time_unit", TimeUnit)
    matched = match(unit, offset_s)
    if not len(rows):
        return matched
    clock = f"column {options.text('time')!r} runs from {rows[0]:.10g} to {rows[-1]:.10g}, the video from 0 to {frames_s[-1]:.3f} s"
    guesses = [(each, start_s) for each in (unit, *TimeUnit) for start_s in (offset_s, float(rows[0] / each.per_s))]
    best, start_s = max(guesses, key=lambda guess: used(match(*guess)))
    if best is not unit and used(match(best, start_s)) > 2 * used(matched):
        offset = f"&offset={start_s:.10g}" if start_s != offset_s else ""
        raise BadDriveError(f"{clock}, and fits it in another unit than {unit.value}: write time_unit={best.value}{offset}")
    if not used(matched):
        at = f"offset={rows[0] / unit.per_s:.10g}"
        raise BadDriveError(f"{clock}, so no row belongs to a frame; say what the clock reads at the first one, as {at}")
    return matched


def _frame_base(numbers: FloatArray, options: Options) -> int:
    """Returns the number of the first frame; one that nobody said must be beyond doubt, or every label would be one frame off."""
    base = options.text("frame_base")
    if base not in {"0", "1"}:
        raise BadDriveError(f"option 'frame_base' is 0 or 1, the number of the first frame; got {base!r}")
    if "frame_base" not in dict(options.given) and len(numbers) and numbers[0] == 1:
        raise BadDriveError(
            f"the numbers in column {options.text('frame')!r} begin at 1: write frame_base=1 if 1 is the first frame, "
            "or frame_base=0 if the first frame is 0 and has no row"
        )
    return int(base)
