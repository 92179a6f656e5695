"""Limits that must not move: `skidpad gate RUN --hold fog.visibility_m=150`, and `assert_holds` in a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.errors import BadParametersError
from skidpad.core.progress import silent
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.limits.curves import LimitRow, all_rows, row_named, with_unit
from skidpad.kinds.limits.probes import Probe, ProbePart, ProbeWork
from skidpad.kinds.limits.summary import Found, point_of
from skidpad.kinds.pictures.judging import Originals
from skidpad.runs.gate import Outcome
from skidpad.runs.workers.here import open_lanes
from skidpad.stimuli.registry import stimuli

if TYPE_CHECKING:
    from skidpad.core.stimuli import Recipe
    from skidpad.kinds.limits.campaign import Limits
    from skidpad.kinds.limits.curves import LimitPoint
    from skidpad.runs.folder import Run

_NEAR = 0.5
"""Steps by which a limit may be worse: a value that was rounded when it was printed still names the step that it was printed for."""


def held(run: Run, texts: Sequence[str]) -> tuple[Outcome, ...]:
    """Judges a run by the limits that it must hold."""
    campaign: Limits = load_campaign(run.config, str(run.path), run.manifest)  # type: ignore[assignment] # a run of this kind
    found = Found.of(campaign, run)
    return tuple(_outcome(found, *read_hold(text, campaign.rows)) for text in texts)


def read_hold(text: str, rows: Sequence[LimitRow]) -> tuple[LimitRow, float]:
    """Reads a limit to hold, as fog.visibility_m=150."""
    name, equals, number = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise BadParametersError(f"a limit to hold is written as fog.visibility_m=150; got {text!r}")
    first, tested_here = name.partition(".")[0], {each for row in rows for each in (row.name, row.stimulus)}
    known = {each for row in all_rows(stimuli(), 1) for each in (row.name, row.stimulus)}
    if first in known - tested_here:
        raise BadParametersError(
            f"{first} was not tested in this run, so that it says nothing of {text!r}; it tested {', '.join(row.name for row in rows)}; "
            f"name {first} among the --conditions of `skidpad limits`, or leave them out"
        )
    try:
        value = float(number)
    except ValueError as error:
        row = row_named(name, rows)
        unit = f" in {row.severity.unit}" if row.severity.unit else ""
        raise BadParametersError(f"a limit to hold is a plain number{unit}, as {name}={row.severity.worst:g}; got {text!r}") from error
    row = row_named(name, rows, value)
    row.position(value, "--hold")
    return row, value


def _outcome(found: Found, row: LimitRow, value: float) -> Outcome:
    name = f"{row.name} holds to {with_unit(value, row.severity.unit)}"
    limit = next((each for each in found.limits if each.row == row), None)
    point = None if limit is None else limit.curve.holds_to
    reached = 0 if point is None else point.position
    if row.position(value, "--hold") <= reached + _NEAR:
        is_sure = limit is None or limit.is_sure
        few = "" if is_sure else ", but it has too few frames to be sure"
        return Outcome(name, is_kept=True, said=f"{name}: the run holds to {row.words(reached)}{few}", is_sure=is_sure)
    now = "holds at no tested severity" if point is None else f"holds to {row.words(reached)}"
    return Outcome(name, is_kept=False, said=f"{row.name} {now} only, which is worse than {with_unit(value, row.severity.unit)}")


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """One severity, tested without a run. worst: the record of the frame that moves the answer most, None where none counts."""

    point: LimitPoint
    frames: int
    worst: Mapping[str, Any] | None


def tested(campaign: Limits, recipe: Recipe) -> Tested:
    """Shows the subject the frames of a campaign under one recipe, and judges."""
    campaign.check_frames()
    chunks = range(len(campaign.sample.chunks))
    with open_lanes() as lanes:
        before = ProbeWork(campaign, None)
        unchanged = pa.concat_tables([shard.records for shard in lanes.map(lambda index: before.originals(index, silent), chunks)])
        indices = unchanged["frame_index"].to_numpy()
        size = len(campaign.drive)
        originals = Originals(np.full(size, np.nan), np.full(size, np.nan), np.zeros(size, np.bool_))
        originals.answer[indices], originals.label[indices] = (unchanged[name].to_numpy() for name in ("original", "label"))
        originals.seen[indices] = True
        work, probe = ProbeWork(campaign, originals), Probe(recipe.name, campaign.settings.steps, recipe)
        table = pa.concat_tables(list(lanes.map(lambda chunk: work.probe(ProbePart(probe, chunk), silent), chunks)))
    judged = table.filter(pc.invert(pc.is_nan(table["excess"])))
    worst = judged.slice(int(np.argmax(judged["excess"].to_numpy())), 1).to_pylist()[0] if judged.num_rows else None
    return Tested(point_of(table, indices, campaign.settings), len(indices), worst)
