"""Folders of pictures with their labels: Udacity's challenge and simulator, Donkey Car's tubs, and any other with a csv.

Reference: for tubs, donkeycar, parts/datastore.py (version 1, a JSON file a record) and parts/tub_v2.py (version 2, JSON lines).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any

from skidpad.core.errors import BadDriveError
from skidpad.core.files import open_regular
from skidpad.core.units import AngleUnit, Axle
from skidpad.drives.drive import Drive, LabelConvention, SideBySide
from skidpad.drives.frames import frame_id_of, is_picture, natural_key
from skidpad.drives.indexing import Index
from skidpad.drives.readers import READERS, Option, Options, Reader
from skidpad.drives.tables import CsvRow, CsvTable, TimeUnit, read_columns, read_rows, read_table

TRUE_LABELS = "CH2_final_evaluation.csv"
FILLER = "final_example.csv"
FILLER_REASON = "random filler from the challenge's example submission, not what the human did"
PREDICTIONS = "predictions-*.csv"


@READERS.register("udacity")
class Udacity(Reader):
    """Reads CH2 drives; the ids are stamps in nanoseconds, the labels radians as recorded.

    The labels are CH2_final_evaluation.csv, else the only csv with the columns; without one the drive has no labels.
    """

    looks_for = "a folder 'center' of pictures, with a csv of frame_id and steering_angle beside it"
    options = (Option("csv", "the file of labels, where there are several"),)

    def recognises(self, path: Path) -> bool:
        """Looks for the folder of the centre camera."""
        return (path / "center").is_dir() and not (path / "driving_log.csv").exists()

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the folder."""
        if not (path / "center").is_dir():
            raise BadDriveError(f"no folder 'center' in {str(path)!r}; a Udacity drive has {self.looks_for}")
        index = Index(path.name, path / "center")
        labels = _named(path, options.text("csv")) if options.text("csv") else _found(path, index)
        if labels is None:
            index.add_pictures()
            return index.drive(natural_order=True)
        table = read_table(labels)
        frame, steering = table.column("frame_id"), table.column("steering_angle")
        public = table.columns.index("public") if "public" in table.columns else None
        index.add_table(table, frame, steering, public=public)
        return index.drive(natural_order=True)


def _named(path: Path, name: str) -> Path:
    if Path(name).name == FILLER:
        raise BadDriveError(f"{name!r} is {FILLER_REASON}; the true labels are in {TRUE_LABELS}")
    if fnmatch(Path(name).name, PREDICTIONS):
        raise BadDriveError(f"{name!r} holds a network's answers, not labels; score them with load_predictions")
    return path / name


def _found(path: Path, index: Index) -> Path | None:
    if (path / FILLER).exists():
        index.ignore(FILLER, FILLER_REASON)
    if (path / TRUE_LABELS).exists():
        return path / TRUE_LABELS
    files = [file for file in sorted(path.glob("*.csv")) if file.name != FILLER and not fnmatch(file.name, PREDICTIONS)]
    fitting = [file for file in files if {"frame_id", "steering_angle"} <= set(read_columns(file))]
    for file in files:
        if file not in fitting:
            found = ", ".join(read_columns(file)) or "nothing readable"
            index.ignore(file.name, f"no columns frame_id and steering_angle; found: {found}")
    if len(fitting) > 1:
        names = ", ".join(file.name for file in fitting)
        raise BadDriveError(f"{str(path)!r} has several files of labels: {names}; say which, as ?csv={fitting[0].name}")
    if not fitting:
        index.ignore_other_tables(path)
        return None
    return fitting[0]


LOG = "driving_log.csv"
COLUMNS = ("center", "left", "right", "steering", "throttle", "brake", "speed")


class SimulatorCamera(Enum):
    """Which of the simulator's three cameras."""

    CENTER = "center"
    LEFT = "left"
    RIGHT = "right"


@READERS.register("simulator")
class SimulatorFolder(Reader):
    """Reads driving_log.csv with or without a header; the paths inside count by their file name only.

    The simulator writes steering as a share of 25 degrees of the road wheels, positive to the right. The side cameras carry the
    same label as the centre one: no correction is added.
    """

    looks_for = f"{LOG} and pictures in IMG"
    options = (
        Option("camera", "center, left or right; several, as left,center,right, stand side by side in every frame", "center"),
        Option("unit", "unit of the steering column: rad, deg or scaled25", AngleUnit.SCALED_25.value),
    )

    def recognises(self, path: Path) -> bool:
        """Looks for the log."""
        return (path / LOG).is_file()

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the log."""
        chosen = options.choices("camera", SimulatorCamera) or (options.choice("camera", SimulatorCamera),)
        if len(set(chosen)) != len(chosen):
            raise BadDriveError(f"each camera is named once; got camera={options.text('camera')}")
        labels_as = LabelConvention(options.choice("unit", AngleUnit), sign=-1, axle=Axle.ROAD_WHEEL)
        table = _table(path / LOG)
        cameras = {each: table.column(each.value) for each in SimulatorCamera if each in chosen or each.value in table.columns}
        steering = table.column("steering")
        index = Index(path.name, path / "IMG" if (path / "IMG").is_dir() else path, labels_as)
        named: set[str] = set()
        beside: dict[str, list[str]] = {}
        for row in table.rows:
            named.update(frame_id_of(row.cell(column)) for column in cameras.values())
            seen = [frame_id_of(row.cell(cameras[camera])) for camera in chosen]
            if index.add_row(seen[0], row.cell(steering), f"line {row.line} of {LOG}", beside=seen[1:]):
                beside[seen[0]] = seen[1:]
        index.leave_out(frame_id for frame_id in index.unlisted() if frame_id not in named)
        drive = index.drive(natural_order=False)
        if len(chosen) == 1:
            return drive
        others = zip(*(beside[frame_id] for frame_id in drive.frame_ids), strict=True)
        sources = (drive.source, *(index.source_of(frame_ids) for frame_ids in others))
        return replace(drive, source=SideBySide(drive.frame_ids, sources), cameras=tuple(camera.value for camera in chosen))


def _table(path: Path) -> CsvTable:
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise BadDriveError(f"{str(path)!r} is empty; drive a lap with recording on")
    if _is_header(first):
        return CsvTable(path, tuple(cell.strip().lower() for cell in first.cells), rows)
    if len(first.cells) < 4:
        found = ", ".join(first.cells)
        raise BadDriveError(f"{str(path)!r} needs the columns {', '.join(COLUMNS)}, of which the first four must be there; found: {found}")
    return CsvTable(path, COLUMNS[: len(first.cells)], chain((first,), rows))


def _is_header(row: CsvRow) -> bool:
    return bool({cell.strip().lower() for cell in row.cells} & set(COLUMNS))


MANIFEST = "manifest.json"
_RECORDS = "record_*.json"
_PICTURE, _ANGLE, _TIME_MS, _NUMBER = "cam/image_array", "user/angle", "_timestamp_ms", "_index"
_MAX_RECORD_BYTES, _MAX_LINE_BYTES = 1 << 20, 1 << 26


def is_tub(path: Path) -> bool:
    """Tells a tub by its manifest and catalogs, or by its records."""
    return path.is_dir() and (_is_second(path) or next(path.glob(_RECORDS), None) is not None)


@READERS.register("donkey")
class Donkey(Reader):
    """Reads tubs of both versions; steering is a share of the car's full lock, positive to the right.

    A tub does not say how far the lock is: 25 degrees of the road wheels are assumed, as in the Udacity simulator.
    """

    looks_for = f"a Donkey tub: {_RECORDS} beside pictures, or {MANIFEST} with *.catalog"
    options = (Option("unit", "unit of user/angle: rad, deg or scaled25 (1 is 25 degrees)", AngleUnit.SCALED_25.value),)

    def recognises(self, path: Path) -> bool:
        """Looks for records or catalogs."""
        return is_tub(path)

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the records; those deleted in the manifest are left aside."""
        if not is_tub(path):
            raise BadDriveError(f"{str(path)!r} is no Donkey tub; it needs {_RECORDS} beside pictures, or {MANIFEST} with *.catalog")
        is_second = _is_second(path)
        folder = path / "images" if is_second and (path / "images").is_dir() else path
        index = Index(path.name, folder, LabelConvention(options.choice("unit", AngleUnit), sign=-1, axle=Axle.ROAD_WHEEL))
        index.ticks_per_s = 1000.0
        deleted = _deleted(path / MANIFEST) if is_second else frozenset()
        left_aside: set[str] = set()
        for where, record in _rows(path):
            frame_id = frame_id_of(str(record.get(_PICTURE, "")))
            if record.get(_NUMBER) in deleted:
                left_aside.add(frame_id)
                continue
            time = record.get(_TIME_MS)
            index.add_row(frame_id, str(record.get(_ANGLE, "")), where, None if time is None else str(time))
        for frame_id in sorted(left_aside):
            index.ignore(frame_id, f"its record is deleted in {MANIFEST}")
        index.leave_out(frame_id for frame_id in index.unlisted() if frame_id not in left_aside)
        return index.drive(natural_order=True)


def _is_second(path: Path) -> bool:
    return (path / MANIFEST).is_file() and next(path.glob("*.catalog"), None) is not None


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each record of a tub, with where it stands."""
    is_second = _is_second(path)
    for file in sorted(path.glob("*.catalog" if is_second else _RECORDS), key=lambda entry: natural_key(entry.name)):
        for line, record in _records(file, whole=not is_second):
            yield f"line {line} of {file.name}" if is_second else file.name, record


def _deleted(manifest: Path) -> frozenset[object]:
    """Returns the numbers of deleted records, which stand in the last line of a manifest."""
    found = [record.get("deleted_indexes") for _, record in _records(manifest)]
    return frozenset(number for numbers in found if isinstance(numbers, list) for number in numbers if isinstance(number, int))


def _records(file: Path, *, whole: bool = False) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields (line, record) of JSON lines, or of one file that is a single record; what is no JSON object is an empty record."""
    with open_regular(file) as data:
        lines = [data.read(_MAX_RECORD_BYTES)] if whole else iter(lambda: data.readline(_MAX_LINE_BYTES), b"")
        for line, text in enumerate(lines, 1):
            try:
                record = json.loads(text)
            except (ValueError, RecursionError):
                record = None
            yield line, record if isinstance(record, dict) else {}


@READERS.register("folder")
class Folder(Reader):
    """Reads pictures in natural order; a csv, if named, is the index and its unit must be said."""

    looks_for = "pictures in the folder itself"
    options = (
        Option("csv", "file of labels, from the folder; not given: no labels"),
        Option("id", "column of the picture's name", "frame_id"),
        Option("steering", "column of the steering angle", "steering_angle"),
        Option("unit", "unit of that column: rad, deg or scaled25; needed with csv"),
        Option("time", "column of the time; not given: from names that are stamps"),
        Option("time_unit", "unit of that column: s, ms, us or ns", TimeUnit.SECONDS.value),
        Option("rate", "frames per second, where no time is known"),
    )

    def recognises(self, path: Path) -> bool:
        """Looks for a picture in the folder itself, where no other reader's log lies."""
        others = (path / "driving_log.csv").exists() or (path / "center").is_dir() or is_tub(path)
        return path.is_dir() and not others and any(is_picture(entry.name) for entry in path.iterdir() if not entry.name.startswith("."))

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the folder."""
        rate_hz = options.above_zero("rate") if options.text("rate") else None
        if not options.text("csv"):
            options.refuse_without_csv("rate")
            index = Index(path.name, path)
            for file in sorted(path.glob("*.csv")):
                index.ignore(file.name, f"no csv was named; to use it: ?csv={file.name}&id=COLUMN&steering=COLUMN&unit=deg")
            index.ignore_other_tables(path)
            index.add_pictures()
            return index.drive(natural_order=True, rate_hz=rate_hz)
        index = Index(path.name, path, LabelConvention(options.csv_unit()))
        index.ticks_per_s = options.choice("time_unit", TimeUnit).per_s
        table = read_table(path / options.text("csv"))
        frame, steering = table.column(options.text("id")), table.column(options.text("steering"))
        index.add_table(table, frame, steering, time=table.column(options.text("time")) if options.text("time") else None)
        return index.drive(natural_order=True, rate_hz=rate_hz)
