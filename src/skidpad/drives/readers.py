"""What a reader of drives is, the options of each and those that all take, and the registry of readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

import numpy as np

from skidpad.core.errors import BadDriveError, BadParametersError, UnknownNameError
from skidpad.core.images import NumpyFrames
from skidpad.core.registry import Registry
from skidpad.core.units import STEERING_RATIO, AngleUnit, Axle
from skidpad.drives.drive import Drive, FrameSource, Problem, ProblemKind, SideBySide

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a reader: `name=value` after the `?`; an empty default means: not given."""

    name: str
    meaning: str
    default: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one reader as given, checked against those it declares."""

    reader: str
    declared: tuple[Option, ...]
    given: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, reader: str, declared: tuple[Option, ...], given: Mapping[str, str]) -> Options:
        """Refuses names that the reader does not declare."""
        known = [option.name for option in declared]
        for name in given:
            if name in ADJUSTING and name not in known:
                raise BadParametersError(
                    f"the reader {reader!r} takes no option {name!r}: its angles are those of the steering wheel in rad, positive to the "
                    "left; leave it out"
                )
            if name not in known:
                raise UnknownNameError.among(f"option of reader {reader!r}", name, [*known, *SLICING, *ADJUSTING])
        return cls(reader, declared, tuple(given.items()))

    def text(self, name: str) -> str:
        """Returns the option as given, or its default."""
        defaults = {option.name: option.default for option in self.declared}
        return dict(self.given).get(name, defaults[name])

    def whole(self, name: str) -> int:
        """Returns the option as a whole number."""
        return whole_option(name, self.text(name))

    def real(self, name: str) -> float:
        """Returns the option as a number."""
        return real_option(name, self.text(name))

    def seconds(self, name: str) -> float:
        """Returns the option as a span of time."""
        value = self.real(name)
        if not (value >= 0.0 and math.isfinite(value)):
            raise BadDriveError(f"option {name!r} is in seconds, 0 or more; got {self.text(name)!r}")
        return value

    def above_zero(self, name: str) -> float:
        """Returns the option as a finite number above 0."""
        value = self.real(name)
        if not (value > 0.0 and math.isfinite(value)):
            raise BadDriveError(f"option {name!r} is a number above 0; got {self.text(name)!r}")
        return value

    def csv_unit(self) -> AngleUnit:
        """Returns the unit of the column of angles, which nobody may leave open."""
        if not self.text("unit"):
            raise BadDriveError(f"say the unit of the column {self.text('steering')!r}: unit=rad, unit=deg or unit=scaled25")
        return self.choice("unit", AngleUnit)

    def refuse_without_csv(self, *others: str) -> None:
        """Refuses options that describe a csv, all but `others`, where none is named."""
        for name, _ in self.given:
            if name not in others:
                raise BadDriveError(f"option {name!r} describes a csv, but none is named; add csv=FILE")

    def choice(self, name: str, kind: type[E]) -> E:
        """Returns the option as a member of an Enum, by its value."""
        return self._member(name, self.text(name), kind)

    def choices(self, name: str, kind: type[E]) -> tuple[E, ...]:
        """Returns the option as members of an Enum, separated by commas; none where it is not given."""
        return tuple(self._member(name, text, kind) for text in self.text(name).split(",") if self.text(name))

    def _member(self, name: str, text: str, kind: type[E]) -> E:
        for member in kind:
            if member.value == text:
                return member
        known = ", ".join(str(member.value) for member in kind)
        raise BadDriveError(f"option {name!r} of reader {self.reader!r} is one of {known}; got {text!r}")

    def __str__(self) -> str:
        return "&".join(f"{name}={quote(value, safe='/,:')}" for name, value in self.given)


SLICING_OPTIONS = (
    Option("from", "share of the frames, by time, at which to begin: 0 to 1"),
    Option("to", "share of the frames, by time, at which to end: 0 to 1"),
    Option("start", "position of the first frame"),
    Option("stop", "position after the last frame"),
    Option("step", "take every n-th frame"),
)
"""Options that `open_drive` takes for every reader; a reader cannot declare these names."""

SLICING = tuple(option.name for option in SLICING_OPTIONS)

ADJUSTING_OPTIONS = (
    Option("sign", "1: positive angles are to the left, -1: to the right; not given: as the format has it"),
    Option("axle", "what the angles are of: steering-wheel or road-wheel; not given: as the format has it"),
    Option("ratio", f"degrees of the steering wheel for one of the road wheels; not given: {STEERING_RATIO:g}"),
    Option("drop_beyond", "drop labels further from 0 than this, in the unit of the labels"),
    Option("rotate", "turn every picture clockwise: 0, 90, 180 or 270 degrees", "0"),
    Option("flip", "mirror every picture: none, horizontal or vertical", "none"),
)
"""Options that `open_drive` takes for every reader of recordings; a reader cannot declare these names."""

ADJUSTING = tuple(option.name for option in ADJUSTING_OPTIONS)


def whole_option(name: str, text: str) -> int:
    """Parses an option that is a whole number."""
    try:
        return int(text)
    except ValueError:
        raise BadDriveError(f"option {name!r} takes a whole number; got {text!r}") from None


def real_option(name: str, text: str) -> float:
    """Parses an option that is a number."""
    try:
        return float(text)
    except ValueError:
        raise BadDriveError(f"option {name!r} takes a number; got {text!r}") from None


class Reader(Protocol):
    """Opens one kind of drive; a row of READERS is a class (or function) that makes a reader without arguments."""

    looks_for: str
    """What the reader needs to find, in words, for messages."""
    needs_path: bool = True
    """False for a drive that is made, not found: it is opened by the reader's name alone."""
    takes_files: bool = False
    """Whether a drive of this kind may be a single file."""
    options: tuple[Option, ...] = ()
    """The options that `open` understands."""

    def recognises(self, path: Path) -> bool:
        """Tells whether the folder or file is this reader's kind of drive; cheap, and false wherever another reader's is true."""

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the drive without reading a frame; `open_drive` fills in the origin. Without a path, `path` is Path().

        Labels are radians as recorded; `Drive.labels_as` says of which axle and in which direction, and `open_drive` turns them
        to the steering wheel, positive left.
        """


READERS: Registry[Callable[[], Reader]] = Registry(
    "reader",
    "readers",
    (
        "skidpad.drives.folders",
        "skidpad.drives.rosbag",
        "skidpad.drives.mcap",
        "skidpad.drives.video",
        "skidpad.drives.lerobot",
        "skidpad.worlds.rendered",
    ),
)


_LABELS = ("sign", "axle", "ratio", "drop_beyond")


class PictureRotation(Enum):
    """By how many degrees, clockwise, the recorded pictures must be turned to stand upright."""

    NONE = "0"
    RIGHT = "90"
    HALF = "180"
    LEFT = "270"


class Flip(Enum):
    """Along which direction the recorded pictures are mirrored."""

    NONE = "none"
    HORIZONTAL = "horizontal"
    VERTICAL = "vertical"


@dataclass(frozen=True, slots=True)
class TurnedFrames:
    """The frames of another source, rotated and then mirrored."""

    source: FrameSource
    rotation: PictureRotation
    flip: Flip

    def read(self, index: int) -> NumpyFrames | Problem:
        """Reads one frame and turns it."""
        frame = self.source.read(index)
        if isinstance(frame, Problem):
            return frame
        frame = np.rot90(frame, -int(self.rotation.value) // 90)
        if self.flip is not Flip.NONE:
            frame = np.flip(frame, 1 if self.flip is Flip.HORIZONTAL else 0)
        return np.ascontiguousarray(frame)

    def fingerprint(self, index: int) -> str:
        """Returns the source's, and how it is turned: these are other pictures."""
        return f"{self.source.fingerprint(index)}-{self.rotation.value}-{self.flip.value}"


def adjusted(drive: Drive, reader: str, given: Mapping[str, str]) -> Drive:
    """Turns labels as recorded into angles of the steering wheel, positive left, and pictures upright.

    drive: as a reader opens it, its labels still at the axle and in the direction that `labels_as` says. given: those of
    ADJUSTING_OPTIONS that the user gave.
    """
    options = Options.of(reader, ADJUSTING_OPTIONS, given)
    drive = _relabelled(drive, options)
    rotation, flip = options.choice("rotate", PictureRotation), options.choice("flip", Flip)
    if rotation is PictureRotation.NONE and flip is Flip.NONE:
        return drive
    if isinstance(drive.source, SideBySide):
        return replace(drive, source=drive.source.each(lambda source: TurnedFrames(source, rotation, flip)))
    return replace(drive, source=TurnedFrames(drive.source, rotation, flip))


def _relabelled(drive: Drive, options: Options) -> Drive:
    said = [name for name in _LABELS if options.text(name)]
    if said and not drive.has_labels:
        raise BadDriveError(f"option {said[0]!r} describes labels, but no frame of drive {drive.name!r} has one; name its csv or its topic")
    read_as = drive.labels_as
    if options.text("sign"):
        if options.text("sign") not in {"1", "+1", "-1"}:
            raise BadDriveError(f"option 'sign' is 1 (positive is left) or -1 (positive is right); got {options.text('sign')!r}")
        read_as = replace(read_as, sign=options.whole("sign"))
    if options.text("axle"):
        read_as = replace(read_as, axle=options.choice("axle", Axle))
    if options.text("ratio"):
        read_as = replace(read_as, ratio=options.above_zero("ratio"))
        if read_as.axle is not Axle.ROAD_WHEEL:
            raise BadDriveError("option 'ratio' turns angles of the road wheels into those of the steering wheel; add axle=road-wheel")
    labels_rad, problems = drive.steering_rad, drive.problems
    if options.text("drop_beyond"):
        beyond = np.flatnonzero(np.abs(labels_rad) > options.above_zero("drop_beyond") * read_as.unit.rad).tolist()
        labels_rad = labels_rad.copy()
        labels_rad[beyond] = np.nan
        why = f"beyond drop_beyond={options.text('drop_beyond')} {read_as.unit.value}"
        problems += tuple(Problem(ProblemKind.DROPPED_LABEL, drive.frame_ids[place], why) for place in beyond)
    turned_rad = labels_rad * read_as.factor + 0.0  # straight ahead is 0.0 whichever way is positive, not -0.0
    return replace(drive, steering_rad=turned_rad, problems=problems, labels_as=read_as)
