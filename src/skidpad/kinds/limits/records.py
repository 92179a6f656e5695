"""The records of a search for limits: one row a frame under a severity, or a drive under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skidpad.core.stimuli import Recipe
from skidpad.oracles.lane_departure import CAP_M, departure_step, mdcl
from skidpad.runs.records import case_id, case_ids, storable

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray, IntArray
    from skidpad.kinds.drives.loop import Course
    from skidpad.kinds.drives.records import Case
    from skidpad.kinds.limits.probes import Probe

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
