"""What a gate's new findings are, in words: the transform and the answers, not the id alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import degrees, isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skidpad.oracles.excess import scale_of_run, times_tolerated
from skidpad.report.wording import DEGREES, answer, counted, plain
from skidpad.runs.records import SCHEMA, Record

if TYPE_CHECKING:
    from skidpad.runs.folder import Run

MOST_TOLD = 50
"""As many new findings as any of the gate's outputs lists."""
_NAMING = ("condition", "scenario_name", "column", "training", "test", "episode")
"""Columns that say what a case of a drive or a duel is."""


def finding_words(run: Run, cases: Sequence[str]) -> Mapping[str, str]:
    """Words cases of a run by their ids; of one that was met several times, the worst."""
    wanted = pa.array(list(cases), pa.string())
    rows: dict[str, Mapping[str, Any]] = {}
    for table in run.iter_records() if len(wanted) else ():
        for row in table.filter(pc.is_in(table["case_id"], value_set=wanted)).to_pylist():
            known = rows.get(row["case_id"])
            if known is None or row["excess"] > known["excess"]:
                rows[row["case_id"]] = row
    return {case: plain(_words(run, rows[case])) for case in cases if case in rows}


def new_words(shown: int, total: int) -> str:
    """Heads a list of new findings that may be cut."""
    return f"{counted(total, 'new finding')}" if shown >= total else f"the worst {shown} of {counted(total, 'new finding')}"


def _words(run: Run, row: Mapping[str, Any]) -> str:
    if not run.schema.equals(SCHEMA):
        return ", ".join(f"{name.replace('_name', '')} {row[name]}" for name in _NAMING if row.get(name) not in {None, ""})
    record = Record.from_row(row)
    unit = str(run.config.get("unit", "rad"))
    is_angle = unit == "rad"
    was, now, label = (
        answer(degrees(value) if is_angle else value, DEGREES if is_angle else unit)
        for value in (record.original, record.mutant, record.label)
    )
    human = f", the human: {label}" if isfinite(record.label) else ""
    times = times_tolerated(record.excess, scale_of_run(run.config))
    return f"{record.recipe} on frame {record.frame_id}: {was} became {now}{human} ({times})"
