"""How the frames of a drive were taken: camera, times, and what was seen before them."""

import numpy as np

from skidpad.core.camera import Camera
from skidpad.core.errors import BadDriveError
from skidpad.core.images import FloatArray, IntArray, NumpyFrames
from skidpad.core.stimuli import LATE_S, Capture
from skidpad.drives.drive import Drive, Problem

RATE_HZ = 20.0
"""Frames a second where a drive does not say."""


def capture_of(drive: Drive, indices: IntArray, lead: int = 0, clip: NumpyFrames | None = None) -> Capture:
    """Returns how frames of a drive were taken, with the `lead` frames before the first of them.

    clip: the frames with their lead, where they were read already: what a late camera shows of them is not read again. Earlier frames
    come from the drive, never from beyond the start of a slice; a broken one is replaced by the last readable one before it.
    """
    height, width, _ = drive.frame_shape
    rate_hz = drive.rate_hz or RATE_HZ
    times = np.asarray(np.arange(len(drive)) / rate_hz if drive.time_s is None else drive.time_s, np.float64)
    chosen = times[indices]
    before = chosen[:1] - np.arange(lead, 0, -1) / rate_hz if len(chosen) else chosen
    read = {} if clip is None else dict(zip(np.asarray(indices).tolist(), clip[lead:], strict=True))

    def earlier(_: IntArray, times_s: FloatArray) -> NumpyFrames:
        positions = np.clip(np.searchsorted(times, times_s + LATE_S, side="right") - 1, 0, len(drive) - 1)
        frames = {position: read[position] if position in read else _readable(drive, position) for position in set(positions.tolist())}
        return np.stack([frames[position] for position in positions.tolist()])

    return Capture(Camera.guess(height, width), np.concatenate((before, chosen)), earlier)


def _readable(drive: Drive, position: int) -> NumpyFrames:
    for place in (*range(position, -1, -1), *range(position + 1, len(drive))):
        frame = drive.frame(place)
        if not isinstance(frame, Problem):
            return frame
    raise BadDriveError(f"no frame of drive {drive.name!r} can be read; check where its pictures are")
