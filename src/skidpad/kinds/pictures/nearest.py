"""What came nearest to a finding, as pictures, for the page of a run that found nothing: a reader sees what the network withstood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import BadDriveError, BadRunError
from skidpad.oracles.error import scale_of_run, times_tolerated
from skidpad.page.pictures import Gallery, gallery_row
from skidpad.page.wording import answer
from skidpad.runs.records import Record

if TYPE_CHECKING:
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.runs.folder import Run

MOST = 6
"""Stimuli that are shown, those nearest to a finding first."""

_COLUMNS = ("case_id", "stimulus", "frame_index", "frame_id", "recipe", "label", "original", "mutant", "excess", "violated")

_CAPTION = (
    "Nothing that counts broke the relation. Each row shows, for one stimulus, the changed picture that came nearest to breaking it, and "
    "left of it the frame whose answer it was compared with."
)


def nearest_galleries(run: Run, campaign: DeepTest) -> tuple[Gallery, ...]:
    """Shows the judged mutant with the largest excess of each stimulus; nothing where none was judged."""
    scale, judged = scale_of_run(run.config), campaign.judged
    rows = []
    for record in _nearest(run)[:MOST]:
        try:
            pair = campaign.original(record.frame_index, record.recipe), campaign.picture(record.frame_index, record.recipe)
        except (BadRunError, BadDriveError):
            continue  # the page says already that frames can no longer be read
        before, after = (answer(judged.shown(value), judged.shown_unit) for value in (record.original, record.mutant))
        note = f"{record.recipe} on {record.frame_id}: {before} became {after}, {times_tolerated(record.excess, scale)}"
        rows.append(gallery_row(record.recipe.name, note, list(pair)))
    return (Gallery("Nearest to a finding", _CAPTION, tuple(rows)),) if rows else ()


def _nearest(run: Run) -> list[Record]:
    """Returns the mutant with the largest excess of each stimulus, the nearest to a finding first."""
    found: dict[str, Record] = {}
    for table in run.iter_records(None, _COLUMNS):
        excess, stimuli = table["excess"].to_numpy(), np.array(table["stimulus"].to_pylist(), object)
        moved = np.abs(table["mutant"].to_numpy() - table["original"].to_numpy())
        for stimulus in dict.fromkeys(stimuli[np.isfinite(excess)].tolist()):
            of_it = np.flatnonzero((stimuli == stimulus) & np.isfinite(excess))
            # where decisions are compared, all that are alike have one excess
            place = int(of_it[np.lexsort((-moved[of_it], -excess[of_it]))[0]])
            record = Record.from_row(table.slice(place, 1).to_pylist()[0])
            found[stimulus] = min(found.get(stimulus, record), record, key=_order)
    return sorted(found.values(), key=_order)


def _order(record: Record) -> tuple[float, float, str]:
    return -record.excess, -abs(record.mutant - record.original), record.case_id
