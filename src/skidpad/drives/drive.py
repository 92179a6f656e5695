"""The drive type: lazy frames in order, steering labels, and counted problems."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from skidpad.core.images import FloatArray, IntArray, NumpyFrames


class ProblemKind(Enum):
    """What can be wrong with one frame of a drive without ending the work."""

    MISSING_FILE = "missing file"
    CORRUPT = "corrupt or truncated picture"
    NAN_LABEL = "label is not a number"
    DUPLICATE_ID = "duplicate frame id"
    OTHER_SIZE = "size differs from the drive's"


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken frame: counted and listed, never the end of a run."""

    kind: ProblemKind
    frame_id: str
    detail: str


class FrameSource(Protocol):
    """Where frames come from: a folder, memory, a renderer, later a video or a bag."""

    def read(self, index: int) -> NumpyFrames | Problem:
        """Returns frame `index` as (height, width, 3) uint8 RGB, or the problem with it; safe in threads."""
        ...

    def fingerprint(self, index: int) -> str:
        """Returns a cheap text that changes when the frame's file does (its size, say)."""
        ...


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Frames that could be read, in order, with their positions in the drive; and those that could not."""

    indices: IntArray
    frame_ids: tuple[str, ...]
    frames: NumpyFrames
    steering_rad: FloatArray
    problems: tuple[Problem, ...]

    def __len__(self) -> int:
        return len(self.frame_ids)
