"""Any folder of pictures, with or without a csv whose columns and unit are declared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from skidpad.core.errors import BadDriveError
from skidpad.core.units import AngleUnit
from skidpad.drives.donkey import is_tub
from skidpad.drives.drive import Drive, LabelConvention
from skidpad.drives.indexing import Index
from skidpad.drives.pictures import frame_id_of, is_picture
from skidpad.drives.readers import READERS, Option, Options
from skidpad.drives.tables import TimeUnit, read_table


@READERS.register("folder")
@dataclass(frozen=True, slots=True)
class Folder:
    """Reads pictures in natural order; a csv, if named, is the index and its unit must be said."""

    looks_for: str = "pictures in the folder itself"
    needs_path: bool = True
    takes_files: bool = False
    options: tuple[Option, ...] = (
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
        rate_hz = options.real("rate") if options.text("rate") else None
        if rate_hz is not None and not (rate_hz > 0.0 and math.isfinite(rate_hz)):
            raise BadDriveError(f"option 'rate' is frames per second, above 0; got {options.text('rate')!r}")
        if options.text("csv"):
            return self._labelled(path, options, rate_hz)
        for name, _ in options.given:
            if name != "rate":
                raise BadDriveError(f"option {name!r} describes a csv, but none is named; add csv=FILE")
        index = Index(path.name, path)
        for file in sorted(path.glob("*.csv")):
            index.ignore(file.name, f"no csv was named; to use it: ?csv={file.name}&id=COLUMN&steering=COLUMN&unit=deg")
        index.ignore_other_tables(path)
        index.add_pictures()
        return index.drive(natural_order=True, rate_hz=rate_hz)

    def _labelled(self, path: Path, options: Options, rate_hz: float | None) -> Drive:
        if not options.text("unit"):
            raise BadDriveError(f"say the unit of the column {options.text('steering')!r}: unit=rad, unit=deg or unit=scaled25")
        index = Index(path.name, path, LabelConvention(options.choice("unit", AngleUnit)))
        index.ticks_per_s = options.choice("time_unit", TimeUnit).per_s
        table = read_table(path / options.text("csv"))
        frame, steering = table.column(options.text("id")), table.column(options.text("steering"))
        time = table.column(options.text("time")) if options.text("time") else None
        for row in table.rows:
            where = f"line {row.line} of {table.path.name}"
            index.add_row(frame_id_of(row.cell(frame)), row.cell(steering), where, None if time is None else row.cell(time))
        index.leave_out(index.unlisted())
        return index.drive(natural_order=True, rate_hz=rate_hz)
