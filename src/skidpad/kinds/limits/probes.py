"""What is asked of the subject, by a worker that has loaded the campaign: frames, and drives, under one severity; and their records."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from skidpad.core.images import as_numpy
from skidpad.core.stimuli import Recipe
from skidpad.drives.drive import capture_of
from skidpad.kinds.pictures.reading import LastRead
from skidpad.oracles.lane_departure import CAP_M, departure_step, mdcl
from skidpad.oracles.relations import Answers, fails_unchanged
from skidpad.runs.records import ORIGINALS, ShardResult, case_id, case_ids, storable

if TYPE_CHECKING:
    from skidpad.core.images import BoolArray, Capture, FloatArray, Frames, IntArray
    from skidpad.core.progress import Progress
    from skidpad.core.stimuli import Stimulus
    from skidpad.drives.drive import Drive, FrameBatch
    from skidpad.kinds.drives.loop import Course
    from skidpad.kinds.drives.records import Case
    from skidpad.kinds.limits.campaign import Limits
    from skidpad.kinds.pictures.judging import JudgedOutput, Originals
    from skidpad.oracles.relations import Relation
    from skidpad.referee.verdict import Verdicts
    from skidpad.subjects.base import Subject

UNCHANGED, OFFLINE, ONLINE = "unchanged", "offline", "online"

SCHEMA = pa.schema(
    [
        pa.field("case_id", pa.string(), nullable=False),
        pa.field("mode", pa.string(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("other_position", pa.int32(), nullable=False),
        pa.field("frame_index", pa.int64(), nullable=False),
        pa.field("frame_id", pa.string(), nullable=False),
        pa.field("stimulus", pa.string(), nullable=False),
        pa.field("recipe", pa.string(), nullable=False),
        pa.field("label", pa.float64(), nullable=False),
        pa.field("original", pa.float64(), nullable=False),
        pa.field("expected", pa.float64(), nullable=False),
        pa.field("mutant", pa.float64(), nullable=False),
        pa.field("word", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("excess", pa.float64(), nullable=False),
        pa.field("violated", pa.bool_(), nullable=False),
    ]
)
"""mode: `unchanged` or `offline` (a frame of the drive as it is, or changed), or `online` (a drive in the built-in world). severity: the
row, or two of them with a comma; "" for what is unchanged. position, other_position: how many steps from harmless the one and the other
are. label, original, expected, mutant: the human's, the subject's on the unchanged picture, the right one for the changed picture (the
original's, moved where the camera is), the subject's there; angles in radians. word, reason: the referee's on the changed picture, and why;
"" where it did not look. excess: NaN for frames that do not count: refused, or wrong before anything is changed.
Of a drive, frame_index and frame_id are its scenario, and the numbers are metres: original, mutant and expected are the largest distance
from the middle of the lane without the stimulus (NaN where it is not known), with it, and at which the lane is left."""


def frame_records(
    probe: Probe,
    indices: IntArray,
    frame_ids: Sequence[str],
    label: FloatArray,
    original: FloatArray,
    expected: FloatArray,
    mutant: FloatArray,
    excess: FloatArray,
    referee: Sequence[str],
    reason: Sequence[str],
) -> pa.Table:
    """Builds the rows of N frames under one probe."""
    rows = len(frame_ids)
    text = probe.recipe.to_json()
    columns = {
        "case_id": case_ids(frame_ids, probe.recipe),
        "mode": [OFFLINE if probe.severity else UNCHANGED] * rows,
        "severity": [probe.severity] * rows,
        "position": np.full(rows, probe.position, np.int32),
        "other_position": np.full(rows, probe.other_position, np.int32),
        "frame_index": indices,
        "frame_id": [storable(each) for each in frame_ids],
        "stimulus": [probe.recipe.name] * rows,
        "recipe": [text] * rows,
        "label": label,
        "original": original,
        "expected": expected,
        "mutant": mutant,
        "word": list(referee),
        "reason": list(reason),
        "excess": excess,
        "violated": np.asarray(excess > 1.0, np.bool_),
    }
    return pa.table(columns, schema=SCHEMA)


def drive_records(probe: Probe, cases: Sequence[Case], courses: Sequence[Course]) -> pa.Table:
    """Builds the rows of N drives under one probe."""
    rows = []
    for number, (case, course) in enumerate(zip(cases, courses, strict=True)):
        furthest = mdcl(course.lateral_m).max_m
        left = departure_step(course.lateral_m) is not None or course.collided_step is not None
        excess = float("nan") if course.problem else max(furthest / CAP_M, np.nextafter(1.0, 2.0) if left else 0.0)
        rows.append(
            {
                "case_id": case_id(f"{case.name}\x1e{probe.severity}", probe.recipe),
                "mode": ONLINE,
                "severity": probe.severity,
                "position": probe.position,
                "other_position": 0,
                "frame_index": number,
                "frame_id": storable(case.name),
                "stimulus": probe.recipe.name,
                "recipe": probe.recipe.to_json(),
                "label": float("nan"),
                "original": float("nan"),
                "expected": CAP_M,
                "mutant": furthest,
                "word": "",
                "reason": course.problem,
                "excess": excess,
                "violated": bool(left and probe.recipe != Recipe() and not course.problem),
            }
        )
    return pa.Table.from_pylist(rows, SCHEMA)


PROBES, DRIVES = "probes", "drives"

KEPT = "kept"
"""The referee's word on a picture that counts."""

CHUNK_FRAMES = 32
"""Frames that are shown at once; see `kinds.pictures.work`."""

_KEPT_BYTES = 1 << 30
"""Of decoded frames, so that most drives are decoded once."""

_RATE_HZ = 20.0
"""Of a drive without times: as Udacity's were recorded."""

_STRETCH_S = 2.0
"""How long a scene stays about the same."""

_LEAST_STRETCHES = 8
"""A bootstrap of fewer stretches says nothing."""

_LOOKED_AT = 8
"""Pictures that the referee looks at under each severity; it takes longer than most networks."""


class Judge(Protocol):
    """A referee: are the changed pictures still the scenes of the originals?"""

    def __call__(self, reference: Frames, changed: Frames, pixel_map: FloatArray | None = None, /) -> Verdicts:
        """Judges N pairs."""
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """One severity, or two of a pair, to show the subject. severity: the name of the row, or two with a comma."""

    severity: str
    position: int
    recipe: Recipe
    other_position: int = 0

    def __str__(self) -> str:
        return f"{self.recipe}"


@dataclass(frozen=True, slots=True)
class ProbePart:
    """A probe on one chunk of the frames."""

    probe: Probe
    chunk: int


@dataclass(frozen=True, slots=True, eq=False)
class FrameSample:
    """The frames of a drive that are shown, in order. indices: (N,). chunks: which of them are shown at once, as places.

    stretch: how many neighbours are alike. looked_at: (N,), which ones the referee looks at.
    """

    indices: IntArray
    chunks: tuple[slice, ...]
    stretch: int
    looked_at: BoolArray

    @classmethod
    def of(cls, drive: Drive, frames: int, stretch: int, lead: int) -> FrameSample:
        """Chooses frames evenly over the drive; for a subject with memory, evenly spaced runs of frames that follow one another."""
        size = max(CHUNK_FRAMES, 2 * lead)
        count = min(frames or len(drive), len(drive))
        if count == len(drive):
            indices = np.arange(len(drive))
        elif lead == 0:
            indices = np.linspace(0, len(drive) - 1, count).round().astype(np.int64)
        else:
            runs = max(count // size, 1)
            starts = np.linspace(0, len(drive) - min(size, count), runs).round().astype(np.int64)
            indices = np.unique(np.concatenate([start + np.arange(min(size, count)) for start in starts]))
        edges = [0, *(np.flatnonzero(np.diff(indices) > 1) + 1).tolist(), len(indices)] if lead else [0, len(indices)]
        chunks = [slice(start, min(start + size, stop)) for first, stop in itertools.pairwise(edges) for start in range(first, stop, size)]
        looked = np.zeros(len(indices), np.bool_)
        looked[np.linspace(0, len(indices) - 1, min(_LOOKED_AT, len(indices))).round().astype(np.int64)] = True
        return cls(indices, tuple(chunks), stretch or _stretch_of(drive, len(indices)), looked)


def _stretch_of(drive: Drive, count: int) -> int:
    rate_hz = (drive.rate_hz or _RATE_HZ) * count / max(len(drive), 1)
    return max(1, min(round(_STRETCH_S * rate_hz), count // _LEAST_STRETCHES))


@dataclass(frozen=True, slots=True, eq=False)
class ShownFrames:
    """What a subject said to N frames under a recipe. frames: the changed ones, as shown. `SCHEMA` says what the numbers are."""

    frames: Frames
    reference: Frames
    original: FloatArray
    expected: FloatArray
    label: FloatArray
    mutant: FloatArray
    predictions: int


def show(
    subject: Subject,
    judged: JudgedOutput,
    stimuli: Mapping[str, Stimulus],
    clip: Frames,
    capture: Capture,
    recipe: Recipe,
    answered: FloatArray,
    label: FloatArray,
) -> ShownFrames:
    """Shows the subject a clip of lead + N frames under a recipe.

    answered: what it said to the N frames unchanged, (N,); where the recipe moves the camera, the subject is asked again about the frames
    cut as the moved ones are, and the right steering is the one from the moved place.
    """
    lead = subject.lead
    changed = recipe.apply(clip, stimuli, capture) if recipe.steps else clip
    mutant = np.asarray(subject.predict(changed)[:, judged.column], np.float64)
    if not recipe.moves_camera(stimuli):
        return ShownFrames(changed[lead:], clip[lead:], answered, answered, label, mutant, len(mutant))
    reference = recipe.reference(clip, stimuli, capture)
    before = np.asarray(subject.predict(reference)[:, judged.column], np.float64)
    moved, human = (recipe.moved_rad(each, stimuli) for each in (before, label)) if judged.is_steering else (before, label)
    return ShownFrames(changed[lead:], reference[lead:], before, moved, human, mutant, 2 * len(mutant))


class ProbeWork:
    """Computes the steps over frames for one worker; frames stay decoded as long as they fit."""

    def __init__(self, campaign: Limits, originals: Originals | None) -> None:
        self._campaign = campaign
        self._originals = originals
        pixels = int(np.prod(campaign.drive.frame_shape)) * max(CHUNK_FRAMES, 2 * campaign.subject.lead)
        self._read: LastRead[tuple[FrameBatch, Frames]] = LastRead(max(2, _KEPT_BYTES // pixels))

    @cached_property
    def _relation(self) -> Relation:
        if self._originals is None:
            raise ValueError("the originals come first")
        return self._campaign.relation(self._originals)

    def originals(self, index: int, _: Progress) -> ShardResult:
        """Shows the subject a chunk as it is."""
        campaign = self._campaign
        batch, clip = self._read.get(index, partial(self._frames, index))
        unchanged = Probe("", 0, Recipe())
        answered = np.asarray(campaign.subject.predict(clip)[:, campaign.judged.column], np.float64) if len(batch) else np.zeros(0)
        nothing = [""] * len(batch)
        label = self._labels(batch)
        passed = np.zeros(len(batch))
        table = frame_records(unchanged, batch.indices, batch.frame_ids, label, answered, answered, answered, passed, nothing, nothing)
        return ShardResult(ORIGINALS, index, table, problems=batch.problems)

    def probe(self, part: ProbePart, _: Progress) -> pa.Table:
        """Shows the subject a chunk under a severity, lets the referee look at some of it, and judges."""
        campaign, probe, known = self._campaign, part.probe, self._originals
        if known is None:
            raise ValueError("the originals come first")
        batch, clip = self._read.get(part.chunk, partial(self._frames, part.chunk))
        if not len(batch):
            return SCHEMA.empty_table()
        capture = capture_of(campaign.drive, batch.indices, campaign.subject.lead)
        answered, label = known.answer[batch.indices], known.label[batch.indices]
        shown = show(campaign.subject, campaign.judged, campaign.stimuli, clip, capture, probe.recipe, answered, label)
        referee, reason = self._words(batch.indices, shown, probe.recipe)
        wrong = fails_unchanged(self._relation, known.answer[batch.indices], known.label[batch.indices])
        counts = np.array([word in {"", KEPT} for word in referee]) & ~wrong & np.isfinite(shown.expected)
        excess = np.where(counts, self._relation.excess(Answers(shown.expected, shown.mutant, shown.label)), np.nan)
        return frame_records(
            probe,
            batch.indices,
            batch.frame_ids,
            shown.label,
            shown.original,
            shown.expected,
            shown.mutant,
            excess,
            referee,
            reason,
        )

    def _frames(self, chunk: int) -> tuple[FrameBatch, Frames]:
        campaign = self._campaign
        indices = campaign.sample.indices[campaign.sample.chunks[chunk]]
        if self._originals is None:
            batch = campaign.drive.read(indices, 1, lead=campaign.subject.lead)
        else:
            batch = campaign.drive.read(indices[self._originals.seen[indices]], 1, lead=campaign.subject.lead).whole()
        return batch, batch.clip

    def _labels(self, batch: FrameBatch) -> FloatArray:
        return batch.steering_rad if self._campaign.judged.is_steering else np.full(len(batch), np.nan)

    def _words(self, indices: IntArray, shown: ShownFrames, recipe: Recipe) -> tuple[Sequence[str], Sequence[str]]:
        """Returns the referee's word and reason for each frame, "" for those it does not look at."""
        campaign, sample = self._campaign, self._campaign.sample
        words, reasons = [""] * len(indices), [""] * len(indices)
        asked = np.flatnonzero(sample.looked_at[np.searchsorted(sample.indices, indices)])
        if campaign.judge is None or not len(asked) or recipe.shows_past(campaign.stimuli):
            return words, reasons
        camera = capture_of(campaign.drive, indices).camera
        pixel_map = recipe.pixel_map(campaign.stimuli, camera) if recipe.moves_camera(campaign.stimuli) else None
        verdicts = campaign.judge(as_numpy(shown.reference)[asked], as_numpy(shown.frames)[asked], pixel_map)
        for place, word, reason in zip(asked.tolist(), verdicts.words, verdicts.reasons, strict=True):
            words[place], reasons[place] = str(word.value), str(reason.value)
        return words, reasons
