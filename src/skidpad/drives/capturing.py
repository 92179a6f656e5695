"""How the frames of a drive were taken: camera, times, and what was seen before them."""

from collections.abc import Callable, Mapping

import numpy as np

from skidpad.core.camera import Camera
from skidpad.core.errors import BadDriveError
from skidpad.core.images import FloatArray, IntArray, NumpyFrames
from skidpad.core.stimuli import LATE_S, Capture
from skidpad.drives.drive import Drive, Problem


def capture_at(drive: Drive, times_s: FloatArray, read: Mapping[int, NumpyFrames] | None = None) -> Capture:
    """Returns how frames of a drive that were taken at some times were taken. read: see `earlier_of`."""
    height, width, _ = drive.frame_shape
    return Capture(Camera.guess(height, width // drive.views), times_s, earlier_of(drive, read), drive.views)


def capture_of(drive: Drive, indices: IntArray, lead: int = 0, clip: NumpyFrames | None = None) -> Capture:
    """Returns how frames of a drive were taken, with the `lead` frames before the first of them.

    clip: the frames with their lead, where they were read already: what a late camera shows of them is not read again.
    """
    read = {} if clip is None else dict(zip(np.asarray(indices).tolist(), clip[lead:], strict=True))
    return capture_at(drive, drive.times_at(indices, lead), read)


def earlier_of(drive: Drive, read: Mapping[int, NumpyFrames] | None = None) -> Callable[[IntArray, FloatArray], NumpyFrames]:
    """Returns `Capture.earlier` for frames of a drive: the frames that were the last ones at some times.

    They come from the drive, never from beyond the start of a slice; a broken one is replaced by the last readable one before it. read:
    frames by position that were read already.
    """
    known = read or {}

    def earlier(_: IntArray, then_s: FloatArray) -> NumpyFrames:
        times_s = drive.times_at(range(len(drive)))  # only few stimuli ask, and a drive may have a million frames
        positions = np.clip(np.searchsorted(times_s, then_s + LATE_S, side="right") - 1, 0, len(drive) - 1).tolist()
        frames = {position: known[position] if position in known else _readable(drive, position) for position in set(positions)}
        return np.stack([frames[position] for position in positions])

    return earlier


def _readable(drive: Drive, position: int) -> NumpyFrames:
    for place in (*range(position, -1, -1), *range(position + 1, len(drive))):
        frame = drive.frame(place)
        if not isinstance(frame, Problem):
            return frame
    raise BadDriveError(f"no frame of drive {drive.name!r} can be read; check where its pictures are")
