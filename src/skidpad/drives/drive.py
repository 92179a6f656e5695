"""The drive type: lazy frames in order, steering labels, counted problems, and how its frames were taken."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import numpy as np

from skidpad.core.errors import BadDriveError
from skidpad.core.images import LATE_S, BoolArray, Camera, Capture, FloatArray, IntArray, NumpyFrames
from skidpad.core.units import STEERING_RATIO, AngleUnit, Axle
from skidpad.drives.frames import (
    FRAMES_PER_TASK,
    FrameBatch,
    FrameSource,
    Names,
    Problem,
    ProblemKind,
    SideBySide,
    default_threads,
    filled_in_order,
)

__all__ = ["Cut", "Drive", "FrameBatch", "FrameSource", "LabelConvention", "Problem", "ProblemKind", "SideBySide"]

_LABELS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class LabelConvention:
    """How a recording counts its steering angles; inside they are radians of the steering wheel, positive to the left.

    sign: 1 where the recording's positive angles are to the left, -1 where they are to the right. ratio: degrees of the steering
    wheel for one of the road wheels; only of interest for these.
    """

    unit: AngleUnit = AngleUnit.RAD
    sign: int = 1
    axle: Axle = Axle.STEERING_WHEEL
    ratio: float = STEERING_RATIO

    @property
    def factor(self) -> float:
        """What turns radians as recorded into radians of the steering wheel, positive left."""
        return self.sign * (self.ratio if self.axle is Axle.ROAD_WHEEL else 1.0)

    def __str__(self) -> str:
        wheels = "the steering wheel" if self.axle is Axle.STEERING_WHEEL else f"the road wheels (times {self.ratio:g})"
        return f"{self.unit.value} of {wheels}, positive to the {'left' if self.sign > 0 else 'right'}"


@dataclass(frozen=True, eq=False, slots=True)
class Cut:
    """Which frames of which whole drive a slice holds."""

    whole: Drive
    rows: IntArray


@dataclass(frozen=True, eq=False)
class Drive:
    """A recorded drive in time order; frames are read when they are asked for.

    frame_ids: N distinct names, kept as `Names` however they are given. steering_rad: (N,), NaN where a frame has no label.
    time_s: (N,) seconds since the first frame of the recording, never falling, or None. source: asked for frame i of the
    whole drive. problems: found while indexing the whole recording; a slice carries them all. origin: the text that
    `open_drive` opens to the same drive again, empty where there is none (arrays in memory, frames picked without a
    pattern). public: (N,), the public half of a challenge's split, or None. cut: set on slices only. labels_as: how the
    recording counts its angles, before they became `steering_rad`. cameras: the names of those whose pictures each frame holds
    side by side, from the left; none where it is the picture of one.
    """

    name: str
    frame_ids: Sequence[str]
    steering_rad: FloatArray
    time_s: FloatArray | None
    source: FrameSource
    problems: tuple[Problem, ...] = ()
    origin: str = ""
    public: BoolArray | None = None
    cut: Cut | None = None
    labels_as: LabelConvention = LabelConvention()
    cameras: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame_ids", Names.of(self.frame_ids))
        count = len(self.frame_ids)
        for what, values in (("labels", self.steering_rad), ("times", self.time_s), ("split marks", self.public)):
            if values is not None and values.shape != (count,):
                raise BadDriveError(f"drive {self.name!r} has {count} frames but {what} of shape {values.shape}; give one per frame")
        if self.time_s is not None and not bool(np.all(self.time_s[1:] >= self.time_s[:-1])):
            raise BadDriveError(f"the times of drive {self.name!r} are not in order or not numbers; sort the frames by time")

    def __len__(self) -> int:
        return len(self.frame_ids)

    def __getitem__(self, frames: slice) -> Drive:
        if not isinstance(frames, slice):
            raise TypeError(f"a drive is sliced, as drive[10:20]; got drive[{frames!r}]; one frame is drive.frame({frames!r})")
        return self.select(np.arange(len(self), dtype=np.int64)[frames])

    def __repr__(self) -> str:
        return f"Drive({self.name!r}, {len(self)} frames, {self.origin or 'no origin'})"

    @property
    def views(self) -> int:
        """How many cameras' pictures a frame holds, side by side."""
        return max(len(self.cameras), 1)

    @property
    def has_labels(self) -> bool:
        """Whether at least one frame has a label."""
        return bool(np.isfinite(self.steering_rad).any())

    @property
    def rate_hz(self) -> float | None:
        """Frames per second: one over the median distance in time; None where times are unknown."""
        if self.time_s is None or len(self) < 2:
            return None
        step_s = float(np.median(np.diff(self.time_s)))
        return 1.0 / step_s if step_s > 0.0 else None

    @cached_property
    def frame_shape(self) -> tuple[int, int, int]:
        """(height, width, 3) of the first readable frame; a slice has the shape of the whole drive."""
        if self.cut is not None:
            return self.cut.whole.frame_shape
        first: Problem | None = None
        for index in range(len(self)):
            frame = self.source.read(index)
            if not isinstance(frame, Problem):
                return frame.shape[0], frame.shape[1], 3
            first = first or frame
        raise self._unreadable(first)

    @cached_property
    def sha256(self) -> str:
        """The hash of ids, labels and the source's fingerprints; where the drive lies does not matter."""
        digest = sha256()
        for position in range(len(self)):
            digest.update(f"{self.identity(position)}\x1e".encode())
        for start in range(0, len(self), _LABELS_AT_ONCE):
            labels = self.steering_rad[start : start + _LABELS_AT_ONCE]
            digest.update(np.where(np.isnan(labels), np.nan, labels).astype("<f8").tobytes())
        return digest.hexdigest()

    def identity(self, position: int) -> str:
        """Tells a frame from those of other drives: its id and its source's fingerprint."""
        return f"{self.frame_ids[position]}\x1f{self.source.fingerprint(self.row(position))}"

    def select(self, indices: Sequence[int] | IntArray) -> Drive:
        """Returns the drive of these frames, which must be distinct and in time order; nothing is read."""
        chosen = self._checked(indices)
        if np.any(np.diff(chosen) <= 0):
            raise IndexError(f"frames of drive {self.name!r} are selected once each and in time order; got {chosen[:10].tolist()} ...")
        rows = chosen if self.cut is None else self.cut.rows[chosen]
        whole = self if self.cut is None else self.cut.whole
        return replace(
            self,
            frame_ids=Names.of(self.frame_ids[position] for position in chosen.tolist()),
            steering_rad=self.steering_rad[chosen],
            time_s=None if self.time_s is None else self.time_s[chosen],
            public=None if self.public is None else self.public[chosen],
            origin=_origin_of(whole, rows),
            cut=Cut(whole, rows),
        )

    def head(self, count: int) -> Drive:
        """Returns the first `count` frames, or all where there are fewer."""
        return self[: max(count, 0)]

    def split(self, fraction: float) -> tuple[Drive, Drive]:
        """Cuts the drive in two by time order: the first `fraction` of its frames, rounded, and the rest."""
        place = self.position_at(fraction)
        return self[:place], self[place:]

    def position_at(self, fraction: float) -> int:
        """Returns how many frames the first `fraction` of the drive holds, rounded."""
        if not 0.0 <= fraction <= 1.0:
            raise BadDriveError(f"a share of a drive lies within 0 and 1; got {fraction}")
        return round(len(self) * fraction)

    def times_at(self, indices: Sequence[int] | IntArray, lead: int = 0) -> FloatArray:
        """Returns the times of a clip of these frames, (lead + N,) seconds; at 20 frames a second where the drive has none."""
        chosen = self._checked(indices)
        before = chosen[0] - np.arange(lead, 0, -1) if len(chosen) else np.zeros(0, np.int64)
        places = np.concatenate([np.maximum(before, 0), chosen])
        if self.time_s is not None:
            return np.asarray(self.time_s[places], np.float64)
        return np.asarray((places if self.cut is None else self.cut.rows[places]) / 20.0, np.float64)

    def frame(self, position: int) -> NumpyFrames | Problem:
        """Reads one frame, or the problem with it; a frame of another size than the drive's is one."""
        shape = self.frame_shape
        frame = self.source.read(self.row(position))
        if isinstance(frame, Problem) or frame.shape == shape:
            return frame
        detail = f"{frame.shape[1]}x{frame.shape[0]} where the drive has {shape[1]}x{shape[0]}"
        return Problem(ProblemKind.OTHER_SIZE, self.frame_ids[position], detail)

    def read(self, indices: Sequence[int] | IntArray, threads: int | None = None, *, lead: int = 0) -> FrameBatch:
        """Reads these frames, in the order given, with a few threads where there are many; broken ones are listed, not returned.

        With a `lead` the frames must follow one another, with none but broken frames between them. A frame's past is the last
        `lead` readable frames of this drive before it, however far back, filled up in front with the drive's first readable
        frame: the same whichever frames are read together, and never from beyond the start of a slice.
        """
        chosen = self._checked(indices)
        batch = self._read(chosen, threads)
        if lead == 0 or len(batch) == 0:
            return batch
        self._check_consecutive(batch.indices)
        return _with_past(batch, self._past(int(chosen[0]), lead, threads), lead)

    def batches(self, batch_size: int, threads: int | None = None, *, lead: int = 0) -> Generator[FrameBatch, None, None]:
        """Reads the whole drive in order, decoding ahead in a few threads (default: one per core, at most 8).

        Holds at most two decoded batches beside the one in the caller's hands and the one before it. No batch is empty: the
        problems of one without a readable frame ride with a neighbour. Raises BadDriveError where no frame can be read.
        With a `lead`, every batch has the clip that `read` would give it; no frame is decoded twice.
        """
        held: FrameBatch | None = None
        carried: tuple[Problem, ...] = ()
        past = np.empty((0, *self.frame_shape) if lead and len(self) else (0, 0, 0, 3), np.uint8)
        with closing(self.scan(batch_size, threads)) as scanned:
            for batch in scanned:
                if not len(batch):
                    carried += batch.problems
                    continue
                if held is not None:
                    yield held
                held, carried = replace(batch, problems=carried + batch.problems), ()
                if lead:
                    held = _with_past(held, past, lead)
                    past = held.clip[-lead:]
        if held is not None:
            yield replace(held, problems=held.problems + carried)
        elif carried:
            raise self._unreadable(carried[0])

    def scan(self, batch_size: int, threads: int | None = None) -> Generator[FrameBatch, None, None]:
        """Reads as `batches` does, but yields one batch for every `batch_size` frames, even where none of them is readable."""
        if batch_size < 1:
            raise ValueError(f"a batch holds at least one frame; got batch_size={batch_size}")
        shape = self.frame_shape if len(self) else (0, 0, 3)
        with closing(filled_in_order(self._fill, len(self), batch_size, shape, threads or default_threads())) as filled:
            for positions, frames, problems in filled:
                yield self._batch(positions, frames, problems)

    def _read(self, chosen: IntArray, threads: int | None) -> FrameBatch:
        if len(chosen) <= FRAMES_PER_TASK or threads == 1:
            # one thread of its own would be handed every frame while this one waits
            frames = np.empty((len(chosen), *self.frame_shape), np.uint8)
            return self._batch(chosen, frames, self._fill(chosen, frames))

        def fill(slots: IntArray, part: NumpyFrames) -> list[Problem | None]:
            return self._fill(chosen[slots], part)

        ((_, frames, problems),) = filled_in_order(fill, len(chosen), len(chosen), self.frame_shape, threads or default_threads())
        return self._batch(chosen, frames, problems)

    def _past(self, stop: int, lead: int, threads: int | None) -> NumpyFrames:
        """Reads the last `lead` readable frames before a position; fewer only where the drive starts."""
        parts: list[NumpyFrames] = []
        missing = lead
        while missing and stop:
            start = max(stop - missing, 0)
            parts.append(self._read(np.arange(start, stop, dtype=np.int64), threads).clip)
            missing, stop = missing - len(parts[-1]), start
        return np.concatenate(parts[::-1]) if parts else np.empty((0, *self.frame_shape), np.uint8)

    def _check_consecutive(self, readable: IntArray) -> None:
        between = np.setdiff1d(np.arange(readable[0], readable[-1] + 1), readable)
        ordered = bool(np.all(np.diff(readable) > 0))
        if not ordered or any(not isinstance(self.frame(position), Problem) for position in between.tolist()):
            raise ValueError(
                f"frames of drive {self.name!r} that are read with a lead follow one another; got {readable[:10].tolist()} ...: "
                "read each run of consecutive frames by itself"
            )

    def _fill(self, positions: IntArray, frames: NumpyFrames) -> list[Problem | None]:
        problems: list[Problem | None] = []
        for slot, position in enumerate(positions.tolist()):
            frame = self.frame(position)
            if isinstance(frame, Problem):
                problems.append(frame)
            else:
                frames[slot] = frame
                problems.append(None)
        return problems

    def _batch(self, positions: IntArray, frames: NumpyFrames, problems: list[Problem | None]) -> FrameBatch:
        found = tuple(problem for problem in problems if problem is not None)
        if found:
            kept = np.array([problem is None for problem in problems])
            positions, frames = positions[kept], frames[kept]
        return FrameBatch(
            indices=positions,
            frame_ids=tuple(self.frame_ids[position] for position in positions.tolist()),
            clip=frames,
            steering_rad=self.steering_rad[positions],
            problems=found,
        )

    def row(self, position: int) -> int:
        """Returns where the source keeps the frame at a position of this drive."""
        return position if self.cut is None else int(self.cut.rows[position])

    def _checked(self, indices: Sequence[int] | IntArray) -> IntArray:
        chosen = np.asarray(indices, np.int64).reshape(-1)
        if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(self)):
            raise IndexError(f"drive {self.name!r} has frames 0 to {len(self) - 1}; got {chosen.min()} to {chosen.max()}")
        return chosen

    def _unreadable(self, first: Problem | None) -> BadDriveError:
        cause = f"the first problem is {first}" if first else "it has no frames"
        return BadDriveError(f"no frame of drive {self.name!r} can be read: {cause}; look at it with `skidpad inspect`")


def _with_past(batch: FrameBatch, past: NumpyFrames, lead: int) -> FrameBatch:
    """Puts `lead` frames before those of a batch that is not empty; where the past is shorter, its first frame is repeated."""
    first = past[:1] if len(past) else batch.clip[:1]
    return replace(batch, clip=np.concatenate([np.repeat(first, lead - len(past), 0), past, batch.clip]))


def _origin_of(whole: Drive, rows: IntArray) -> str:
    if not whole.origin:
        return ""
    steps = np.diff(rows)
    step = int(steps[0]) if len(steps) else 1
    if np.any(steps != step):
        return ""
    start, stop = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
    every = f"&step={step}" if step != 1 else ""
    return f"{whole.origin}{'&' if '?' in whole.origin else '?'}start={start}&stop={stop}{every}"


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
