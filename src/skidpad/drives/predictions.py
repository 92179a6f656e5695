"""A network's published answers, aligned to a drive."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from skidpad.core.errors import BadDriveError
from skidpad.core.images import FloatArray
from skidpad.core.units import AngleUnit
from skidpad.drives.drive import Drive
from skidpad.drives.pictures import frame_id_of
from skidpad.drives.tables import parse_angle, read_table

_NAMED = 5


def load_predictions(
    path: Path | str,
    drive: Drive,
    unit: AngleUnit = AngleUnit.RAD,
    *,
    id_column: str = "frame_id",
    steering_column: str = "steering_angle",
) -> FloatArray:
    """Returns the answers of a csv for every frame of the drive, (N,) radians in the drive's order.

    Rows of other frames are passed over, since the drive may be a slice. A frame without an answer, with two, or with one
    that is no finite number is an error: a score over part of the frames is another score.
    """
    table = read_table(Path(path).expanduser())
    frame, steering = table.column(id_column), table.column(steering_column)
    wanted = set(drive.frame_ids)
    answers: dict[str, float] = {}
    for row in table.rows:
        frame_id = frame_id_of(row.cell(frame))
        if frame_id not in wanted:
            continue
        if frame_id in answers:
            raise BadDriveError(f"{table.path.name} answers frame {frame_id!r} twice, again in line {row.line}; keep one row")
        answers[frame_id] = parse_angle(row.cell(steering), unit)
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
