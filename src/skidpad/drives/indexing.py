"""How a reader turns the rows of its csv and the pictures of its folder into a drive, counting what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from skidpad.core.angles import AngleUnit
from skidpad.core.errors import BadDriveError
from skidpad.drives.drive import Drive, Problem, ProblemKind
from skidpad.drives.names import Names
from skidpad.drives.pictures import PictureSource, frame_id_of, pictures_in, times_of
from skidpad.drives.tables import parse_angle, parse_number


@dataclass(frozen=True, slots=True)
class _Entry:
    """One frame of the index; time_s and public are None where the csv does not say."""

    frame_id: str
    file_name: str
    steering_rad: float
    time_s: float | None
    public: bool | None


@dataclass(slots=True)
class Index:
    """Collects the frames of one folder while a reader goes through its rows."""

    name: str
    folder: Path
    unit: AngleUnit
    problems: list[Problem] = field(default_factory=list)
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _files: dict[str, str] = field(default_factory=dict)  # by id, in natural order
    _listed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for file_name in pictures_in(self.folder):
            frame_id = frame_id_of(file_name)
            if frame_id in self._files:
                detail = f"{file_name} beside {self._files[frame_id]}"
                self.problems.append(Problem(ProblemKind.DUPLICATE_ID, frame_id, detail))
            else:
                self._files[frame_id] = file_name
        if not self._files:
            raise BadDriveError(f"no pictures in {str(self.folder)!r}; a drive needs frames (jpg, png, bmp, webp, tiff or ppm)")

    @property
    def picture_ids(self) -> tuple[str, ...]:
        """The ids of all pictures in the folder, in natural order."""
        return tuple(self._files)

    def ignore(self, file_name: str, why: str) -> None:
        """Notes a file that is deliberately not used."""
        self.problems.append(Problem(ProblemKind.IGNORED_FILE, file_name, why))

    def add_row(self, frame_id: str, label: str, where: str, time: str | None = None, *, public: bool | None = None) -> None:
        """Adds one row of a csv; the first row of an id is kept.

        label, time: the cells as written; time is None where there is no such column. where: the row, in words.
        """
        if not frame_id:
            self.problems.append(Problem(ProblemKind.BAD_ROW, where, "it names no frame"))
            return
        if frame_id in self._listed:
            self.problems.append(Problem(ProblemKind.DUPLICATE_ID, frame_id, f"again in {where}; the first row is kept"))
            return
        self._listed.add(frame_id)
        time_s = None if time is None else parse_number(time)
        if time_s is not None and math.isnan(time_s):
            self.problems.append(Problem(ProblemKind.BAD_ROW, frame_id, f"{where} has the time {time!r}"))
            return
        if frame_id not in self._files:
            self.problems.append(Problem(ProblemKind.MISSING_FILE, frame_id, f"{where} has no picture in {self.folder.name}"))
            return
        steering_rad = parse_angle(label, self.unit)
        if math.isnan(steering_rad):
            self.problems.append(Problem(ProblemKind.NAN_LABEL, frame_id, f"{where} has {label!r}"))
        self._entries[frame_id] = _Entry(frame_id, self._files[frame_id], steering_rad, time_s, public)

    def add_pictures(self) -> None:
        """Adds every picture of the folder without a label, for a drive that has no csv."""
        for frame_id, file_name in self._files.items():
            self._entries[frame_id] = _Entry(frame_id, file_name, math.nan, None, None)

    def leave_out(self, unlisted: Iterable[str]) -> None:
        """Notes pictures that no row names; the csv is the index of the drive, so they are not part of it."""
        for frame_id in unlisted:
            self.problems.append(Problem(ProblemKind.UNLISTED, frame_id, f"{self._files[frame_id]} is left out"))

    def unlisted(self) -> list[str]:
        """Returns the ids of the pictures that no row has named so far."""
        return [frame_id for frame_id in self._files if frame_id not in self._listed]

    def drive(self, *, natural_order: bool, rate_hz: float | None = None) -> Drive:
        """Makes the drive, in order of time where every frame has one, else in natural or in row order.

        Times come from the csv, else from the ids, else from the rate.
        """
        if not self._entries:
            raise BadDriveError(self._no_match())
        ids = self._files if natural_order else self._entries
        entries = [self._entries[frame_id] for frame_id in ids if frame_id in self._entries]
        times = self._times(entries)
        if times is not None:
            order = sorted(range(len(entries)), key=times.__getitem__)
            entries, times = [entries[place] for place in order], [times[place] for place in order]
        elif rate_hz is not None:
            times = [place / rate_hz for place in range(len(entries))]
        public = [entry.public for entry in entries]
        return Drive(
            name=self.name,
            frame_ids=Names.of(entry.frame_id for entry in entries),
            steering_rad=np.array([entry.steering_rad for entry in entries], np.float64),
            time_s=None if times is None else np.array(times, np.float64),
            source=PictureSource(self.folder, Names.of(entry.file_name for entry in entries)),
            problems=tuple(self.problems),
            public=None if None in public else np.array(public, np.bool_),
        )

    def _times(self, entries: list[_Entry]) -> list[float] | None:
        known = [entry.time_s for entry in entries if entry.time_s is not None]
        if len(known) == len(entries):
            start = min(known)
            return [time - start for time in known]
        return times_of([entry.frame_id for entry in entries])

    def _no_match(self) -> str:
        rows = next(iter(self._listed), None)
        picture = next(iter(self._files))
        got = f"a row says {rows!r}, a picture is called {picture!r}" if rows is not None else "it has no usable rows"
        return f"no row of the csv of drive {self.name!r} names a picture in {self.folder.name!r}: {got}; check the id column"
