"""DeepRoad's table for any subjects and weathers, cell by cell: stopped and called again it goes on, called with more it grows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from skidpad.campaigns.deeproad import DeepRoad
from skidpad.campaigns.deeproad_settings import DeepRoadSettings
from skidpad.campaigns.deeproad_summary import summarise_road
from skidpad.core.errors import BadParametersError, BadRunError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.drives.opening import open_drive
from skidpad.replicate.deeproad import paper, tables
from skidpad.replicate.deeproad.cells import FILE, Cell, kept_cells
from skidpad.replicate.render import markdown, payload_of, scoreboard_sheet
from skidpad.replicate.resuming import check_settings
from skidpad.replicate.rows import Row, Sheet
from skidpad.report.deeproad import deeproad_page, road_warnings
from skidpad.report.render import render_page, write_text_whole
from skidpad.runs.folder import Run

TITLE = "DeepRoad, replicated"


@dataclass(frozen=True, slots=True, eq=False)
class RoadReplication:
    """The cells that are measured so far."""

    settings: DeepRoadSettings
    cells: tuple[Cell, ...]

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard."""
        return tables.scoreboard(self.cells)

    def sheets(self) -> tuple[Sheet, ...]:
        """Returns the scoreboard, and the tables behind it."""
        return (scoreboard_sheet("Scoreboard", "the least to the most of its models", self.rows()), *self.behind())

    def behind(self) -> tuple[Sheet, ...]:
        """Returns Table 2, ours and the paper's, and the ranks."""
        return (tables.table_2(self.cells), tables.paper_table_2(), tables.ranking(self.cells))

    def brief(self) -> Sheet:
        """Returns Table 2, ours, for a narrow terminal."""
        return tables.brief_table_2(self.cells)

    def facts(self) -> tuple[str, ...]:
        """Returns what was done, in words."""
        subjects = dict.fromkeys(cell.subject for cell in self.cells)
        weathers = dict.fromkeys(f"{cell.weather} ({cell.method.upper()})" for cell in self.cells)
        most = max((cell.cases for cell in self.cells), default=0)
        return (
            f"subjects: {', '.join(subjects)}",
            f"weathers: {', '.join(weathers)}",
            f"drive: {self.cells[0].drive if self.cells else '-'}, {most:,} cases a cell; seed {self.settings.seed}",
            *dict.fromkeys(f"warning: {warning}" for cell in self.cells for warning in cell.warnings),
        )

    def payload(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return payload_of(paper.PAPER, self.settings, self.rows(), self.behind(), paper.TRAPS, cells=self.cells)

    def markdown(self) -> str:
        """Returns the page for the docs."""
        return markdown(TITLE, self.facts(), self.sheets(), paper.TRAPS)


def replicate(
    subjects: Sequence[str], settings: DeepRoadSettings, folder: Path, frames: int = 0, progress: Progress = silent
) -> RoadReplication:
    """Runs or resumes one campaign a subject and weather in FOLDER/SUBJECT/WEATHER, and writes FOLDER/deeproad.json and .md after each.

    settings: of every campaign; its own subject does not matter, and each of its weathers is a cell. frames: at most so many
    evenly spaced frames (0: all): every second, third and so on, so that there may be fewer.
    """
    if frames < 0:
        raise BadParametersError(f"--frames is a number of frames, 0 for all; got {frames}")
    names, weathers = ([_stem(file) for file in files] for files in (subjects, settings.weathers))
    for what, given in (("subjects", names), ("weathers", weathers)):
        if not given or len(set(given)) != len(given):
            raise BadParametersError(f"a replication needs {what} whose files have names of their own; got {', '.join(given) or 'none'}")
    drive = open_drive(settings.drive)
    drive = drive[:: max(1, ceil(len(drive) / frames))] if frames else drive
    settings = replace(settings, drive=drive.origin or settings.drive)
    cells: list[Cell] = []
    answer = RoadReplication(settings, ())
    for weather, file in zip(weathers, settings.weathers, strict=True):
        for name, subject in zip(names, subjects, strict=True):
            path = folder / name / weather
            told = _told(progress, f"{name} under {weather}")
            cells.append(_measured(replace(settings, subject=subject, weathers=(file,)), path, told))
            answer = RoadReplication(settings, kept_cells(folder, cells))
            write_atomically(folder / "deeproad.json", (json.dumps(answer.payload(), indent=2, allow_nan=False) + "\n").encode())
            write_atomically(folder / "deeproad.md", answer.markdown().encode())
    return answer


def _measured(settings: DeepRoadSettings, path: Path, progress: Progress) -> Cell:
    campaign = DeepRoad.load_road(settings)
    if (path / FILE).exists():
        kept = Cell.from_json((path / FILE).read_text(encoding="utf-8"), str(path / FILE))
        other = kept.other_than(campaign)
        if not other:
            return replace(kept, warnings=road_warnings(campaign))
        raise BadRunError(f"{path / FILE} was measured with another {' and another '.join(other)}; choose another --out, or remove {path}")
    if (path / "manifest.json").exists():
        run = Run.open(path)
        then = DeepRoadSettings.from_config(run.config)
        # Where files lie may differ from one machine to the next; what they hold is checked by their hashes.
        places = {name: getattr(campaign.road, name) for name in ("subject", "drive", "weathers")}
        check_settings(path, replace(then, **places), campaign.road)
    else:
        run = campaign.start(path)
    campaign.execute(run, progress)
    write_text_whole(path / "report.html", render_page(deeproad_page(run, campaign)))
    cell = Cell.of(campaign, summarise_road(run, campaign))
    write_atomically(path / FILE, cell.to_json().encode())
    return cell


def _told(progress: Progress, name: str) -> Progress:
    def report(done: int, total: int, note: str = "") -> None:
        progress(done, total, f"{name}: {note}")

    return report


def _stem(file: str) -> str:
    return Path(file).name.removesuffix(".toml").removesuffix(".safetensors")
