"""The Udacity simulator's recordings: `driving_log.csv` and the pictures of three cameras in `IMG/`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import chain
from pathlib import Path

from skidpad.core.errors import BadDriveError
from skidpad.core.units import AngleUnit, Axle
from skidpad.drives.drive import Drive, LabelConvention
from skidpad.drives.indexing import Index
from skidpad.drives.pictures import frame_id_of
from skidpad.drives.readers import READERS, Option, Options
from skidpad.drives.tables import Row, Table, read_rows

LOG = "driving_log.csv"
COLUMNS = ("center", "left", "right", "steering", "throttle", "brake", "speed")


class Camera(Enum):
    """Which of the simulator's three cameras."""

    CENTER = "center"
    LEFT = "left"
    RIGHT = "right"


@READERS.register("simulator")
@dataclass(frozen=True, slots=True)
class Simulator:
    """Reads driving_log.csv with or without a header; the paths inside count by their file name only.

    The simulator writes steering as a share of 25 degrees of the road wheels, positive to the right. The side cameras carry the
    same label as the centre one: no correction is added.
    """

    looks_for: str = f"{LOG} and pictures in IMG"
    needs_path: bool = True
    takes_files: bool = False
    options: tuple[Option, ...] = (
        Option("camera", "center, left or right", "center"),
        Option("unit", "unit of the steering column: rad, deg or scaled25", AngleUnit.SCALED_25.value),
    )

    def recognises(self, path: Path) -> bool:
        """Looks for the log."""
        return (path / LOG).is_file()

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the log."""
        camera = options.choice("camera", Camera)
        labels_as = LabelConvention(options.choice("unit", AngleUnit), sign=-1, axle=Axle.ROAD_WHEEL)
        table = _table(path / LOG)
        cameras = {each: table.column(each.value) for each in Camera if each is camera or each.value in table.columns}
        steering = table.column("steering")
        index = Index(path.name, path / "IMG" if (path / "IMG").is_dir() else path, labels_as)
        named: set[str] = set()
        for row in table.rows:
            named.update(frame_id_of(row.cell(column)) for column in cameras.values())
            index.add_row(frame_id_of(row.cell(cameras[camera])), row.cell(steering), f"line {row.line} of {LOG}")
        index.leave_out(frame_id for frame_id in index.unlisted() if frame_id not in named)
        return index.drive(natural_order=False)


def _table(path: Path) -> Table:
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise BadDriveError(f"{str(path)!r} is empty; drive a lap with recording on")
    if _is_header(first):
        return Table(path, tuple(cell.strip().lower() for cell in first.cells), rows)
    if len(first.cells) < 4:
        found = ", ".join(first.cells)
        raise BadDriveError(f"{str(path)!r} needs the columns {', '.join(COLUMNS)}, of which the first four must be there; found: {found}")
    return Table(path, COLUMNS[: len(first.cells)], chain((first,), rows))


def _is_header(row: Row) -> bool:
    return bool({cell.strip().lower() for cell in row.cells} & set(COLUMNS))
