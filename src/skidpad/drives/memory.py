"""Drives made of arrays in memory, for tests and for users of the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skidpad.core.errors import BadDriveError
from skidpad.core.images import FloatArray, NumpyFrames, pixel_hash
from skidpad.drives.drive import Drive, Problem


@dataclass(frozen=True, eq=False, slots=True)
class ArraySource:
    """Frames in memory; a problem in place of a frame is a broken one."""

    frames: Sequence[NumpyFrames | Problem]

    def read(self, index: int) -> NumpyFrames | Problem:
        """Returns the frame itself, not a copy."""
        return self.frames[index]

    def fingerprint(self, index: int) -> str:
        """Returns the hash of the pixels."""
        frame = self.frames[index]
        return str(frame) if isinstance(frame, Problem) else pixel_hash(frame)


def drive_from_arrays(
    frames: NumpyFrames | Sequence[NumpyFrames | Problem],
    steering_rad: Sequence[float] | FloatArray | None = None,
    *,
    frame_ids: Sequence[str] | None = None,
    time_s: Sequence[float] | FloatArray | None = None,
    name: str = "memory",
) -> Drive:
    """Makes a drive of frames in memory, which are not copied.

    frames: (N, height, width, 3) uint8 RGB, or N arrays (height, width, 3). steering_rad: N labels, None or NaN where there
    are none. frame_ids: N distinct names, the positions by default. time_s: N seconds, never falling.
    """
    pictures: list[NumpyFrames | Problem] = list(frames)
    for place, frame in enumerate(pictures):
        if not isinstance(frame, Problem) and (frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3):
            raise BadDriveError(f"frames are uint8 RGB of shape (height, width, 3); frame {place} is {frame.dtype} {frame.shape}")
    ids = tuple(frame_ids) if frame_ids is not None else tuple(f"{place:06d}" for place in range(len(pictures)))
    if len(ids) != len(pictures) or len(set(ids)) != len(ids):
        raise BadDriveError(f"{len(pictures)} frames need as many distinct ids; got {len(ids)}, {len(set(ids))} of them distinct")
    return Drive(
        name=name,
        frame_ids=ids,
        steering_rad=np.full(len(ids), np.nan) if steering_rad is None else np.asarray(steering_rad, np.float64),
        time_s=None if time_s is None else np.asarray(time_s, np.float64),
        source=ArraySource(pictures),
    )
