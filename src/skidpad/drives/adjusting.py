"""Options that every recording takes: which way and at which axle its labels are counted, which labels to drop, how its camera hung."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from skidpad.core.errors import BadDriveError
from skidpad.core.images import NumpyFrames
from skidpad.core.units import Axle
from skidpad.drives.drive import Drive, FrameSource, Problem, ProblemKind
from skidpad.drives.readers import ADJUSTING_OPTIONS, Options

_LABELS = ("sign", "axle", "ratio", "drop_beyond")


class Rotation(Enum):
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
    rotation: Rotation
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
    return _turned(_relabelled(drive, options), options)


def _turned(drive: Drive, options: Options) -> Drive:
    rotation, flip = options.choice("rotate", Rotation), options.choice("flip", Flip)
    if rotation is Rotation.NONE and flip is Flip.NONE:
        return drive
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
        read_as = replace(read_as, ratio=_above_zero(options, "ratio"))
        if read_as.axle is not Axle.ROAD_WHEEL:
            raise BadDriveError("option 'ratio' turns angles of the road wheels into those of the steering wheel; add axle=road-wheel")
    labels_rad, problems = drive.steering_rad, drive.problems
    if options.text("drop_beyond"):
        beyond = np.flatnonzero(np.abs(labels_rad) > _above_zero(options, "drop_beyond") * read_as.unit.rad).tolist()
        labels_rad = labels_rad.copy()
        labels_rad[beyond] = np.nan
        why = f"beyond drop_beyond={options.text('drop_beyond')} {read_as.unit.value}"
        problems += tuple(Problem(ProblemKind.DROPPED_LABEL, drive.frame_ids[place], why) for place in beyond)
    turned_rad = labels_rad * read_as.factor + 0.0  # straight ahead is 0.0 whichever way is positive, not -0.0
    return replace(drive, steering_rad=turned_rad, problems=problems, labels_as=read_as)


def _above_zero(options: Options, name: str) -> float:
    value = options.real(name)
    if not (value > 0.0 and math.isfinite(value)):
        raise BadDriveError(f"option {name!r} is a number above 0; got {options.text(name)!r}")
    return value
