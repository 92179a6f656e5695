"""Donkey Car's recordings, called tubs: one JSON file a record (version 1), or a manifest with catalogs of JSON lines (version 2).

Reference: donkeycar, parts/datastore.py and parts/tub_v2.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skidpad.core.errors import BadDriveError
from skidpad.core.files import open_regular
from skidpad.core.units import AngleUnit, Axle
from skidpad.drives.drive import Drive, LabelConvention
from skidpad.drives.indexing import Index
from skidpad.drives.pictures import frame_id_of, natural_key
from skidpad.drives.readers import READERS, Option, Options

MANIFEST = "manifest.json"
_RECORDS = "record_*.json"
_PICTURE, _ANGLE, _TIME_MS, _NUMBER = "cam/image_array", "user/angle", "_timestamp_ms", "_index"
_MAX_RECORD_BYTES, _MAX_LINE_BYTES = 1 << 20, 1 << 26


def is_tub(path: Path) -> bool:
    """Tells a tub by its manifest and catalogs, or by its records."""
    return path.is_dir() and (_is_second(path) or next(path.glob(_RECORDS), None) is not None)


@READERS.register("donkey")
@dataclass(frozen=True, slots=True)
class Donkey:
    """Reads tubs of both versions; steering is a share of the car's full lock, positive to the right.

    A tub does not say how far the lock is: 25 degrees of the road wheels are assumed, as in the Udacity simulator.
    """

    looks_for: str = f"a Donkey tub: {_RECORDS} beside pictures, or {MANIFEST} with *.catalog"
    needs_path: bool = True
    takes_files: bool = False
    options: tuple[Option, ...] = (Option("unit", "unit of user/angle: rad, deg or scaled25 (1 is 25 degrees)", AngleUnit.SCALED_25.value),)

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
        for where, record in _catalogued(path) if is_second else _recorded(path):
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


def _recorded(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for file in sorted(path.glob(_RECORDS), key=lambda entry: natural_key(entry.name)):
        yield file.name, next(_records(file, whole=True))[1]


def _catalogued(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for file in sorted(path.glob("*.catalog"), key=lambda entry: natural_key(entry.name)):
        for line, record in _records(file):
            yield f"line {line} of {file.name}", record


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
