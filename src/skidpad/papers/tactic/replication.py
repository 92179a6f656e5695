"""TACTIC's tables for any subjects and weathers, cell by cell: stopped and called again it goes on, called with more it grows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from skidpad.core.errors import BadParametersError, InterruptedRunError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.kinds.pictures.styles.campaign import Tactic, TacticSettings
from skidpad.kinds.pictures.styles.page import tactic_page
from skidpad.kinds.pictures.styles.summary import summarise
from skidpad.page.writing import render_page, write_text_whole
from skidpad.papers.doubts import doubt_facts
from skidpad.papers.scoreboard import (
    Replication,
    Row,
    Sheet,
    check_names,
    named,
    run_at,
    stem,
)
from skidpad.papers.tactic import paper, tables
from skidpad.papers.tactic.tables import FILE, SearchCell, cell_warnings, kept_cells
from skidpad.runs.findings import run_doubts
from skidpad.runs.folder import Run

SEARCHES = (tables.ES, tables.RC, tables.RS)


@dataclass(frozen=True, slots=True, eq=False)
class TacticReplication(Replication):
    """The cells that have a finished repeat so far."""

    paper_name: ClassVar = paper.PAPER
    title: ClassVar = "TACTIC, replicated"
    beside: ClassVar = "its 30 cases"
    traps: ClassVar = paper.TRAPS

    settings: TacticSettings
    cells: tuple[SearchCell, ...]
    stopped: bool = False

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard."""
        return tables.scoreboard(self.cells)

    def behind(self) -> tuple[Sheet, ...]:
        """Returns the tables, ours and the paper's; those without a row are left out."""
        made = (
            tables.means(self.cells),
            tables.paper_means(self.cells),
            tables.one_condition(self.cells),
            tables.tests(self.cells, tables.RC),
            tables.tests(self.cells, tables.RS),
        )
        return tuple(sheet for sheet in made if sheet.rows)

    def more(self) -> dict[str, object]:
        """Returns the cells."""
        return {"cells": self.cells}

    def facts(self) -> tuple[str, ...]:
        """Returns what was done, in words."""
        subjects, weathers = (dict.fromkeys(getattr(cell, name) for cell in self.cells) for name in ("subject", "weather"))
        scenes = sorted({cell.scenes for cell in self.cells})
        races = "tries that could hardly win were dropped early" if self.settings.racing else "every try saw every scene"
        facts = [
            f"subjects: {', '.join(subjects) or '-'}",
            f"weathers: {', '.join(weathers) or '-'}",
            f"drive: {self.cells[0].drive if self.cells else '-'}, {' or '.join(f'{count:,}' for count in scenes) or '-'} scenes",
            f"patience {self.settings.patience}, {races}; seed {self.settings.seed}",
            *doubt_facts(self.cells, "the scoreboard"),
            *dict.fromkeys(f"warning: {warning}" for cell in self.cells for warning in cell.warnings),
            *filter(None, [tables.few_repeats(self.cells)]),
        ]
        return (*facts, "stopped by the clock; the same command goes on") if self.stopped else tuple(facts)


class Deadline:
    """Ends the work after so many minutes (0: never); what is kept stays."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60.0 * minutes if minutes else float("inf")

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end

    def watching(self, progress: Progress, name: str) -> Progress:
        """Returns a progress that ends the work when the time is up."""
        told = named(progress, name)

        def report(done: int, total: int, note: str = "") -> None:
            told(done, total, note)
            if self.is_over:
                raise InterruptedRunError(f"stopped by the clock during {name}; the same command goes on")

        return report


def replicate(
    subjects: Sequence[str],
    weathers: Sequence[str],
    criteria: Sequence[str],
    settings: TacticSettings,
    folder: Path,
    minutes: float = 0.0,
    progress: Progress = silent,
) -> TacticReplication:
    """Runs or resumes a cell a subject, weather and criterion in FOLDER/SUBJECT/WEATHER/CRITERION; writes FOLDER/tactic.json and .md.

    settings: of every cell; its own subject, weather and criterion do not matter. minutes: the work ends after so many, with tables of
    what is finished (0: when all is done).
    """
    if not minutes >= 0.0:
        raise BadParametersError(f"--minutes is a number of minutes, 0 for no end; got {minutes:g}")
    check_names(subjects=[stem(file) for file in subjects], weathers=[stem(file) for file in weathers], criteria=list(criteria))
    clock = Deadline(minutes)
    cells: list[SearchCell] = []
    answer = TacticReplication(settings, ())
    for weather in weathers:
        for subject in subjects:
            for criterion in criteria:
                path = folder / stem(subject) / stem(weather) / criterion
                own = replace(settings, subject=subject, weather=weather, criterion=criterion)
                cells.append(_measured(own, path, clock, progress))
                answer = TacticReplication(settings, kept_cells(folder, cells), clock.is_over)
                answer.write(folder, "tactic")
                if clock.is_over:
                    return answer
    return answer


def _measured(settings: TacticSettings, path: Path, clock: Deadline, progress: Progress) -> SearchCell:
    campaign = Tactic.load(settings)
    # Where files lie and how many repeats are wanted may differ from call to call; what the files hold is checked by their hashes.
    free = ("subject", "drive", "weather", "profile_drive", "repeats", "device", "at_once")
    run = run_at(path, settings, campaign.start, free)
    kept = _kept(campaign, run, path / FILE)
    if kept is not None:
        return kept
    try:
        campaign.execute(run, clock.watching(progress, f"{stem(settings.subject)} under {stem(settings.weather)}, {settings.criterion}"))
    except InterruptedRunError:
        if not clock.is_over:
            raise
    summary = summarise(campaign, run)
    cell = SearchCell.of(campaign, summary, run.manifest.device, run_doubts(run))
    if summary.repeats:
        write_text_whole(path / "report.html", render_page(tactic_page(campaign, run)))
        write_atomically(path / FILE, cell.to_json().encode())
    return cell


def _kept(campaign: Tactic, run: Run, file: Path) -> SearchCell | None:
    """Returns the cell that an earlier call left, wherever it ran, where nothing is to be measured any more."""
    settings = campaign.settings
    if not file.exists() or any(len(run.completed(phase)) < settings.conditions for phase, _, _ in campaign.phases()):
        return None
    cell = SearchCell.from_json(file.read_text(encoding="utf-8"), str(file))
    counts = {each.search: len(each.values) for each in cell.searches}
    cell = replace(cell, warnings=cell_warnings(campaign), doubts=run_doubts(run))
    return cell if cell.hashes == campaign.hashes and counts == dict.fromkeys(settings.searches, settings.repeats) else None
