"""What came nearest to a finding, as pictures, for the page of a run that found nothing: a reader sees what the network withstood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import BadDriveError, BadRunError
from skidpad.oracles.error import scale_of_run, times_tolerated
from skidpad.page.pictures import Gallery, gallery_row
from skidpad.runs.records import Record

if TYPE_CHECKING:
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.runs.folder import Run

MOST = 6
"""Stimuli that are shown, those nearest to a finding first."""

_COLUMNS = ("case_id", "stimulus", "frame_index", "frame_id", "recipe", "label", "original", "mutant", "excess", "violated")

_CAPTION = (
    "Nothing broke the relation. Of each stimulus the changed picture that came nearest to it, right of the frame that its answer was "
    "compared with."
)


def nearest_galleries(run: Run, campaign: DeepTest) -> tuple[Gallery, ...]:
    """Shows the judged mutant with the largest excess of each stimulus; nothing where none was judged."""
    scale = scale_of_run(run.config)
    rows = []
    for record in _nearest(run)[:MOST]:
        try:
            pair = campaign.original(record.frame_index, record.recipe), campaign.picture(record.frame_index, record.recipe)
        except (BadRunError, BadDriveError):
            continue  # the page says already that frames can no longer be read
        note = f"{record.recipe} on {record.frame_id}, {times_tolerated(record.excess, scale)}"
        rows.append(gallery_row(record.recipe.name, note, list(pair)))
    return (Gallery("Nearest to a finding", _CAPTION, tuple(rows)),) if rows else ()


def _nearest(run: Run) -> list[Record]:
    """Returns the mutant with the largest excess of each stimulus, the nearest to a finding first."""
    found: dict[str, Record] = {}
    for table in run.iter_records(None, _COLUMNS):
        excess, stimuli = table["excess"].to_numpy(), np.array(table["stimulus"].to_pylist(), object)
        for stimulus in dict.fromkeys(stimuli[np.isfinite(excess)].tolist()):
            place = int(np.argmax(np.where((stimuli == stimulus) & np.isfinite(excess), excess, -np.inf)))
            if stimulus not in found or excess[place] > found[stimulus].excess:
                found[stimulus] = Record.from_row(table.slice(place, 1).to_pylist()[0])
    return sorted(found.values(), key=lambda record: (-record.excess, record.case_id))
