"""The Udacity challenge's drives: `center/*.jpg` and a csv `frame_id,steering_angle[,public]` in radians."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from skidpad.core.errors import BadDriveError
from skidpad.drives.drive import Drive
from skidpad.drives.indexing import Index
from skidpad.drives.pictures import frame_id_of
from skidpad.drives.readers import READERS, Option, Options
from skidpad.drives.tables import read_columns, read_table

TRUE_LABELS = "CH2_final_evaluation.csv"
FILLER = "final_example.csv"
FILLER_REASON = "random filler from the challenge's example submission, not what the human did"
PREDICTIONS = "predictions-*.csv"


@READERS.register("udacity")
@dataclass(frozen=True, slots=True)
class Udacity:
    """Reads CH2 drives; the ids are stamps in nanoseconds, the labels radians as recorded.

    The labels are CH2_final_evaluation.csv, else the only csv with the columns; without one the drive has no labels.
    """

    looks_for: str = "a folder 'center' of pictures, with a csv of frame_id and steering_angle beside it"
    needs_path: bool = True
    takes_files: bool = False
    options: tuple[Option, ...] = (Option("csv", "the file of labels, where there are several"),)

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
        for row in table.rows:
            marked = None if public is None else row.cell(public) == "1"
            where = f"line {row.line} of {labels.name}"
            index.add_row(frame_id_of(row.cell(frame)), row.cell(steering), where, public=marked)
        index.leave_out(index.unlisted())
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
