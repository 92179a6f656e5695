"""What the referee set apart, as pictures: mutants that broke their relation and count for nothing, by the reason that it gave."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skidpad.core.errors import BadDriveError, BadRunError
from skidpad.page.pictures import Gallery, GalleryRow, gallery_row
from skidpad.page.wording import count
from skidpad.runs.records import Record, may_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from skidpad.core.images import NumpyFrames
    from skidpad.core.stimuli import Recipe
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.runs.folder import Run

MOST_REASONS, CASES = 4, 2
"""Reasons that are shown, the most frequent first, and cases of each; every case is two pictures."""

_COLUMNS = ("case_id", "frame_index", "frame_id", "recipe", "label", "original", "mutant", "excess", "violated", "referee", "reason")

_CAPTION = (
    "The referee set these pictures apart: the answer moved, but the scene may no longer be the one that was driven, so they count in no "
    "rate. Each case is the frame that its answer was compared with and, right of it, the changed picture. If many of them still show the "
    "road, --referee off counts them."
)


def apart_galleries(run: Run, campaign: DeepTest, named: Callable[[Recipe], str] = str) -> tuple[Gallery, ...]:
    """Shows some of what the referee did not keep; nothing where it kept all. named: what a recipe is called."""
    numbers, chosen = _chosen(run)
    rows = [
        row for reason, _ in numbers.most_common(MOST_REASONS) if (row := _row(campaign, reason, numbers[reason], chosen[reason], named))
    ]
    return (Gallery("Set apart by the referee", _CAPTION, tuple(rows)),) if rows else ()


def _chosen(run: Run) -> tuple[Counter[str], dict[str, list[Record]]]:
    """Counts the reasons, and keeps cases of each: the furthest moved one of each stimulus, then the second of each, and so on."""
    numbers: Counter[str] = Counter()
    furthest: dict[tuple[str, str], list[Record]] = {}
    for table in run.iter_records(None, _COLUMNS):
        for row in table.filter(pa.array(~may_count(table))).to_pylist():
            record = Record.from_row(row)
            key = (record.reason or record.referee or "", record.recipe.name)
            numbers[key[0]] += 1
            furthest[key] = sorted([*furthest.get(key, []), record], key=_order)[:CASES]
    turns: dict[str, list[tuple[int, Record]]] = {}
    for (reason, _), records in furthest.items():
        turns.setdefault(reason, []).extend(enumerate(records))
    kept = {reason: sorted(each, key=lambda turn: (turn[0], _order(turn[1])))[:CASES] for reason, each in turns.items()}
    return numbers, {reason: [record for _, record in each] for reason, each in kept.items()}


def _order(record: Record) -> tuple[float, str]:
    moved = abs(record.mutant - record.original)
    return (-moved if np.isfinite(moved) else -np.inf, record.case_id)


def _row(campaign: DeepTest, reason: str, number: int, records: list[Record], named: Callable[[Recipe], str]) -> GalleryRow | None:
    pictures: list[NumpyFrames] = []
    words = []
    for record in records:
        try:
            pair = campaign.original(record.frame_index, record.recipe), campaign.picture(record.frame_index, record.recipe)
        except (BadRunError, BadDriveError):
            continue  # the page says already that frames can no longer be read
        pictures += pair
        words.append(f"{named(record.recipe)} on {record.frame_id}")
    return gallery_row(f"{reason} ({count(number)})", "; ".join(words), pictures) if pictures else None
