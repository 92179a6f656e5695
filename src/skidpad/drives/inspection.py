"""What a drive is, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skidpad.core.errors import BadDriveError
from skidpad.core.progress import Progress, silent
from skidpad.drives.drive import Drive, LabelConvention, Problem, ProblemKind
from skidpad.drives.opening import LabelSummary, label_warnings, rate_warnings, recorded_hz, summarise_labels

GAP_S, GAP_STEPS = 1.0, 5.0
"""A pause between two frames is a gap beyond both: this many seconds, and this many times the usual step."""

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class ProblemCount:
    """How often one kind of problem occurs, and the first few."""

    kind: ProblemKind
    count: int
    examples: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class DriveReport:
    """A drive in figures; None where the drive cannot say (no times, no labels, no readable frame).

    count: frames indexed. readable: frames of the drive's size that decode. problems: in order of their first occurrence,
    those of the whole recording's index before those of the frames. recorded_hz: the rate of the whole recording. gaps: how
    often two frames lie further apart than GAP_S and GAP_STEPS usual steps. longest_gap_after: the frame before the longest
    gap. labels_as: how the recording counts its angles.
    """

    name: str
    origin: str
    count: int
    readable: int
    width_px: int | None
    height_px: int | None
    rate_hz: float | None
    recorded_hz: float | None
    duration_s: float | None
    longest_gap_s: float | None
    longest_gap_after: str | None
    gaps: int
    labels: LabelSummary | None
    labels_as: LabelConvention
    problems: tuple[ProblemCount, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What can be read but is hardly meant."""
        return (*label_warnings(self.labels), *rate_warnings(self.recorded_hz), *self._gap_warnings())

    def _gap_warnings(self) -> tuple[str, ...]:
        if not self.gaps or self.longest_gap_s is None:
            return ()
        count = "a gap" if self.gaps == 1 else f"{self.gaps} gaps, the longest"
        where = f"{count} of {self.longest_gap_s:.1f} s after frame {self.longest_gap_after}"
        return (f"the recording has {where}: a network that looks back takes the frames before it for its past",)


def inspect_drive(drive: Drive, progress: Progress = silent, *, batch_size: int = 64, threads: int | None = None) -> DriveReport:
    """Reads every frame once and tells what the drive is and what is wrong with it; a wholly broken drive has a report too."""
    problems = list(drive.problems)
    readable = done = 0
    width_px = height_px = None
    try:
        height_px, width_px, _ = drive.frame_shape
    except BadDriveError:
        frames = (drive.source.read(drive.row(position)) for position in range(len(drive)))
        problems += [frame for frame in frames if isinstance(frame, Problem)]
    else:
        for batch in drive.scan(batch_size, threads):
            readable += len(batch)
            problems += batch.problems
            done += len(batch) + len(batch.problems)
            progress(done, len(drive), "reading frames")
    gaps_s = None if drive.time_s is None or len(drive) < 2 else np.diff(drive.time_s)
    return DriveReport(
        name=drive.name,
        origin=drive.origin,
        count=len(drive),
        readable=readable,
        width_px=width_px,
        height_px=height_px,
        rate_hz=drive.rate_hz,
        recorded_hz=recorded_hz(drive),
        duration_s=None if gaps_s is None else float(gaps_s.sum()),
        longest_gap_s=None if gaps_s is None else float(gaps_s.max()),
        longest_gap_after=None if gaps_s is None else drive.frame_ids[int(gaps_s.argmax())],
        gaps=0 if gaps_s is None else int(np.sum(gaps_s > max(GAP_S, GAP_STEPS * float(np.median(gaps_s))))),
        labels=summarise_labels(drive),
        labels_as=drive.labels_as,
        problems=count_problems(problems),
    )


def count_problems(problems: Iterable[Problem]) -> tuple[ProblemCount, ...]:
    """Groups problems by kind."""
    groups: dict[ProblemKind, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.kind, []).append(problem)
    return tuple(ProblemCount(kind, len(group), tuple(group[:_EXAMPLES])) for kind, group in groups.items())
