"""What a drive is, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skidpad.core.errors import BadDriveError
from skidpad.core.progress import Progress, silent
from skidpad.drives.drive import Drive, LabelConvention, Problem, ProblemKind

NEAR_STRAIGHT_DEG = 2.0
"""A recorded angle below this, either way, counts as driving straight; most of a drive does."""

LOCK_DEG = 470.0
"""No steering wheel is known to be turned further, either way, while a car drives: 8.2 rad is where the drive-by-wire of the car that
recorded Udacity's drives ends, and usual cars reach 1.3 to 1.6 turns. What lies beyond is most likely in another unit."""

GAP_S, GAP_STEPS = 1.0, 5.0
"""A pause between two frames is a gap beyond both: this many seconds, and this many times the usual step."""

SLOWEST_HZ, FASTEST_HZ = 0.2, 1000.0
"""Rates beyond these are most likely times read in another unit."""

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class ProblemCount:
    """How often one kind of problem occurs, and the first few."""

    kind: ProblemKind
    count: int
    examples: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class LabelSummary:
    """The labels of a drive in degrees.

    straight_share: the share of them below NEAR_STRAIGHT_DEG either way. beyond_lock: how many lie beyond LOCK_DEG.
    """

    count: int
    min_deg: float
    max_deg: float
    mean_deg: float
    std_deg: float
    straight_share: float
    beyond_lock: int = 0


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
        return (*_label_warnings(self.labels), *_rate_warnings(self.recorded_hz), *self._gap_warnings())

    def _gap_warnings(self) -> tuple[str, ...]:
        if not self.gaps or self.longest_gap_s is None:
            return ()
        count = "a gap" if self.gaps == 1 else f"{self.gaps} gaps, the longest"
        where = f"{count} of {self.longest_gap_s:.1f} s after frame {self.longest_gap_after}"
        return (f"the recording has {where}: a network that looks back takes the frames before it for its past",)


def drive_warnings(drive: Drive) -> tuple[str, ...]:
    """Says what is hardly meant, from the index alone: labels beyond any wheel, rates of no camera, label files passed over."""
    if drive.has_labels:
        return (*_label_warnings(_summarise(drive)), *_rate_warnings(_recorded_hz(drive)))
    aside = [problem for problem in drive.problems if problem.kind is ProblemKind.IGNORED_FILE][:_EXAMPLES]
    passed_over = (f"no frame of {drive.name!r} has a label, and {problem.frame_id} was left aside: {problem.detail}" for problem in aside)
    return (*passed_over, *_rate_warnings(_recorded_hz(drive)))


def _rate_warnings(rate_hz: float | None) -> tuple[str, ...]:
    if rate_hz is None or SLOWEST_HZ <= rate_hz <= FASTEST_HZ:
        return ()
    apart = f"{1.0 / rate_hz:.3g} s"
    return (f"frames lie {apart} apart, as of no camera in a car: is the time in another unit? time_unit=ms reads milliseconds, s seconds",)


def _recorded_hz(drive: Drive) -> float | None:
    """Returns the rate of the whole recording: every 200th frame of it is no reason for doubt."""
    return drive.rate_hz if drive.cut is None else drive.cut.whole.rate_hz


def _label_warnings(labels: LabelSummary | None) -> tuple[str, ...]:
    if labels is None or not labels.beyond_lock:
        return ()
    most = max(abs(labels.min_deg), abs(labels.max_deg))
    lie = "label lies" if labels.count == 1 else "labels lie"
    found = f"{labels.beyond_lock} of {labels.count} {lie} beyond {LOCK_DEG:g} degrees ({most:.0f} at most)"
    return (f"{found}, further than a steering wheel turns: is the column in another unit? unit=deg reads degrees",)


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
        recorded_hz=_recorded_hz(drive),
        duration_s=None if gaps_s is None else float(gaps_s.sum()),
        longest_gap_s=None if gaps_s is None else float(gaps_s.max()),
        longest_gap_after=None if gaps_s is None else drive.frame_ids[int(gaps_s.argmax())],
        gaps=0 if gaps_s is None else int(np.sum(gaps_s > max(GAP_S, GAP_STEPS * float(np.median(gaps_s))))),
        labels=_summarise(drive),
        labels_as=drive.labels_as,
        problems=count_problems(problems),
    )


def count_problems(problems: Iterable[Problem]) -> tuple[ProblemCount, ...]:
    """Groups problems by kind."""
    groups: dict[ProblemKind, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.kind, []).append(problem)
    return tuple(ProblemCount(kind, len(group), tuple(group[:_EXAMPLES])) for kind, group in groups.items())


def _summarise(drive: Drive) -> LabelSummary | None:
    labels_deg = np.degrees(drive.steering_rad[np.isfinite(drive.steering_rad)])
    if not len(labels_deg):
        return None
    return LabelSummary(
        count=len(labels_deg),
        min_deg=float(labels_deg.min()),
        max_deg=float(labels_deg.max()),
        mean_deg=float(labels_deg.mean()),
        std_deg=float(labels_deg.std()),
        straight_share=float(np.mean(np.abs(labels_deg) < NEAR_STRAIGHT_DEG)),
        beyond_lock=int(np.sum(np.abs(labels_deg) > LOCK_DEG)),
    )
