"""Recorded drives: frames in order, what the human did, and what is wrong with the recording."""

from skidpad.drives.drive import Drive, FrameBatch, FrameSource, Problem, ProblemKind
from skidpad.drives.inspection import DriveReport, inspect_drive
from skidpad.drives.opening import drive_from_arrays, drive_warnings, open_drive
from skidpad.drives.readers import READERS
from skidpad.drives.tables import load_predictions

__all__ = [
    "READERS",
    "Drive",
    "DriveReport",
    "FrameBatch",
    "FrameSource",
    "Problem",
    "ProblemKind",
    "drive_from_arrays",
    "drive_warnings",
    "inspect_drive",
    "load_predictions",
    "open_drive",
]
