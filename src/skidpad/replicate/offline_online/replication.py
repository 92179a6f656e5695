"""RQ0 and RQ1 for any subjects, the paper beside: from nothing to the scoreboard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skidpad.campaigns.comparing import Comparing
from skidpad.campaigns.comparing_settings import ComparingSettings
from skidpad.campaigns.comparing_summary import summarise
from skidpad.core.errors import BadParametersError, BadRunError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.replicate.offline_online import paper, tables
from skidpad.replicate.offline_online.tables import SubjectAnswer
from skidpad.replicate.render import markdown, payload_of, scoreboard_sheet
from skidpad.replicate.rows import Row, Sheet
from skidpad.report.comparison import comparison_page, verdict
from skidpad.report.render import render_page, write_text_whole
from skidpad.runs.folder import Run

TITLE = "Offline and online testing, replicated"


@dataclass(frozen=True, slots=True, eq=False)
class OfflineOnline:
    """The answers to both questions for every subject."""

    settings: ComparingSettings
    answers: tuple[SubjectAnswer, ...]

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard."""
        return tables.scoreboard(self.answers)

    def sheets(self) -> tuple[Sheet, ...]:
        """Returns the scoreboard, and the tables behind it."""
        return (scoreboard_sheet("Scoreboard", f"{paper.PAPER}, the most alike", self.rows()), *self.behind())

    def behind(self) -> tuple[Sheet, ...]:
        """Returns Table III and the sensitivity of every subject."""
        return tuple(sheet for answer in self.answers for sheet in (tables.table_3(answer), tables.sensitivity(answer)))

    def facts(self) -> tuple[str, ...]:
        """Returns what was done and what came out, in words."""
        s = self.settings
        recorded = f"RQ0: {s.matched} restricted scenarios against {Path(s.drive).name}" if s.drive else "RQ0: left out, no recorded drive"
        return (
            f"RQ1: {s.scenarios} scenarios of the domain {s.domain!r}, {s.seconds:g} s each, seed {s.seed}; {recorded}",
            f"errors in {s.unit}; acceptable offline: MAE < {s.mae_limit:g}; acceptable online: MDCL < {s.mdcl_limit:g}",
            *(f"{answer.name}: {verdict(answer.found)}" for answer in self.answers),
        )

    def payload(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return payload_of(
            paper.PAPER, self.settings, self.rows(), self.behind(), paper.TRAPS, subjects=[answer.name for answer in self.answers]
        )

    def markdown(self) -> str:
        """Returns the page for the docs."""
        return markdown(TITLE, self.facts(), self.sheets(), paper.TRAPS)


def replicate(subjects: Sequence[str], settings: ComparingSettings, folder: Path, progress: Progress = silent) -> OfflineOnline:
    """Runs or resumes one comparison a subject in FOLDER/NAME; writes FOLDER/offline-online.json and .md, and a report beside each run.

    settings: of every comparison; its own subject does not matter.
    """
    names = [Path(subject).stem for subject in subjects]
    if not names or len(set(names)) != len(names):
        raise BadParametersError(f"a replication needs subjects whose files have names of their own; got {', '.join(names) or 'none'}")
    answers = tuple(
        _measured(name, replace(settings, subject=subject), folder / name, progress) for name, subject in zip(names, subjects, strict=True)
    )
    answer = OfflineOnline(settings, answers)
    write_atomically(folder / "offline-online.json", (json.dumps(answer.payload(), indent=2, allow_nan=False) + "\n").encode())
    write_atomically(folder / "offline-online.md", answer.markdown().encode())
    return answer


def _measured(name: str, settings: ComparingSettings, path: Path, progress: Progress) -> SubjectAnswer:
    def told(done: int, total: int, note: str = "") -> None:
        progress(done, total, f"{name}: {note}")

    campaign = Comparing.load(settings)
    if (path / "manifest.json").exists():
        run = Run.open(path)
        if ComparingSettings.from_config(run.config) != settings:
            raise BadRunError(f"{path} holds a run with other settings; choose another --out, or repeat the settings of that run")
    else:
        run = campaign.start(path)
    if not run.is_finished:
        campaign.execute(run, told)
    write_text_whole(path / "report.html", render_page(comparison_page(campaign, run)))
    return SubjectAnswer(name, campaign.subject.lead, summarise(campaign, run))
