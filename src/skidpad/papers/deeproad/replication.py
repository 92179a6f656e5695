"""DeepRoad's Table 2 beside ours, the ranks, and the scoreboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import ClassVar

from skidpad.core.errors import BadParametersError, BadRunError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures.weather.campaign import DeepRoad, DeepRoadSettings
from skidpad.kinds.pictures.weather.page import deeproad_page, road_warnings
from skidpad.kinds.pictures.weather.summary import summarise_road
from skidpad.page.writing import render_page, write_text_whole
from skidpad.papers.deeproad import paper
from skidpad.papers.deeproad.paper import FILE, WeatherCell, kept_cells
from skidpad.papers.doubts import comparable, doubt_facts, left_out, shown_subject
from skidpad.papers.scoreboard import (
    Figure,
    Replication,
    Row,
    Sheet,
    check_names,
    named,
    run_at,
    stem,
)
from skidpad.runs.findings import run_doubts

_UNTOLD = "the paper's frames are not told, see the traps"


def scoreboard(cells: Sequence[WeatherCell]) -> tuple[Row, ...]:
    """Returns what can be compared: how many behaviours are inconsistent under each of the paper's weathers, and whether ranks hold."""
    cells = comparable(cells)
    rows: list[Row] = []
    for theirs in ("snowy", "rainy"):
        ours = [cell for cell in cells if counterpart(cell) == theirs]
        printed = [row for row in paper.TABLE_2 if row.weather == theirs]
        for place, bound in enumerate(paper.THRESHOLDS_DEG):
            rows.append(
                Row.beside(
                    "Table 2",
                    f"{theirs}, {bound:g} degrees: inconsistent behaviours",
                    _range([row.counts[place] for row in printed]),
                    _range([found for cell in ours if (found := _at(cell, bound)) is not None]),
                    f"{', '.join(sorted({_named(cell) for cell in ours})) or 'no weather of ours'}; {_UNTOLD}",
                )
            )
    rows.append(Row.compared("4.4", "models rank alike in every weather, by the first bound", "yes", _ranks_alike(cells), _orders(cells)))
    return tuple(rows)


def table_2(cells: Sequence[WeatherCell]) -> Sheet:
    """Returns Table 2, ours: the counts of every subject under every weather."""
    bounds = cells[0].thresholds_deg if cells else paper.THRESHOLDS_DEG
    columns = (
        *("weather", "method", "subject", *(f"{bound:g} deg" for bound in bounds), "frames", f"share at {bounds[0]:g} deg (%)"),
        *("95 % interval (%)", "mean change (deg)", "spread (deg)", "change / spread", "RMSE (rad)", "RMSE as recorded (rad)"),
    )
    rows: list[tuple[Figure, ...]] = []
    for cell in sorted(cells, key=lambda cell: (cell.weather, cell.method, cell.subject)):
        first = cell.counts[0]
        rows.append(
            (
                _named(cell),
                f"{cell.method.upper()}, {cell.style}",
                shown_subject(cell),
                *cell.inconsistent,
                cell.cases,
                round(100.0 * first.rate, 1) if cell.cases else None,
                f"{100.0 * first.low:.1f} to {100.0 * first.high:.1f}",
                cell.mean_deg,
                cell.spread_deg,
                cell.moved,
                cell.rmse_rad,
                cell.original_rmse_rad,
            )
        )
    return Sheet("Table 2: inconsistent behaviours, ours", columns, tuple(rows), "Neighbouring frames are alike: intervals are too narrow.")


def brief_table_2(cells: Sequence[WeatherCell]) -> Sheet:
    """Returns Table 2, ours, with the counts alone."""
    bounds = cells[0].thresholds_deg if cells else paper.THRESHOLDS_DEG
    order = sorted(cells, key=lambda cell: (cell.weather, cell.method, cell.subject))
    rows: list[tuple[Figure, ...]] = [
        (f"{_named(cell)} ({cell.method.upper()})", shown_subject(cell), *cell.inconsistent, cell.cases) for cell in order
    ]
    columns = ("weather", "subject", *(f"{bound:g} deg" for bound in bounds), "frames")
    return Sheet("Table 2: inconsistent behaviours, ours", columns, tuple(rows))


def paper_table_2() -> Sheet:
    """Returns Table 2 as printed."""
    columns = ("weather", "model", *(f"{bound:g} deg" for bound in paper.THRESHOLDS_DEG))
    return Sheet(
        "Table 2: inconsistent behaviours, the paper's", columns, tuple((row.weather, row.model, *row.counts) for row in paper.TABLE_2)
    )


def ranking(cells: Sequence[WeatherCell]) -> Sheet:
    """Returns the subjects that were tested under every weather and whose answers can be compared, the most consistent first."""
    senseless = left_out(cells)
    cells = comparable(cells)
    weathers = {(cell.weather, cell.weather_sha256, cell.style) for cell in cells}
    bounds = cells[0].thresholds_deg if cells else paper.THRESHOLDS_DEG
    subjects = dict.fromkeys(cell.subject for cell in cells)
    rows: list[tuple[Figure, ...]] = []
    untried: list[str] = []
    for subject in subjects:
        mine = [cell for cell in cells if cell.subject == subject]
        if {(cell.weather, cell.weather_sha256, cell.style) for cell in mine} != weathers:
            untried.append(subject)
            continue
        cases = sum(cell.cases for cell in mine)
        found = [sum(cell.inconsistent[place] for cell in mine) for place in range(len(bounds))]
        moved = [cell.moved for cell in mine if cell.moved is not None]
        share = round(100.0 * found[0] / cases, 1) if cases else None
        rows.append((subject, *found, cases, share, mine[0].spread_deg, sum(moved) / len(moved) if moved else None))
    rows.sort(key=lambda row: tuple(row[1 : 1 + len(bounds)]))
    ranked = tuple((place, *row) for place, row in enumerate(rows, 1))
    columns = (
        *("rank", "subject", *(f"{bound:g} deg" for bound in bounds), "cases"),
        *(f"share at {bounds[0]:g} deg (%)", "spread (deg)", "mean change / spread"),
    )
    notes = [f"Not ranked: {senseless}."] if senseless else []
    notes += [f"Left out, since not every weather was tried on them yet: {', '.join(untried)}."] if untried else []
    return Sheet("Subjects by robustness, the most consistent first", columns, ranked, " ".join(notes))


def counterpart(cell: WeatherCell) -> str | None:
    """Returns the paper's weather that one of ours is most like."""
    return next((theirs for word, theirs in paper.COUNTERPARTS.items() if word in cell.weather.lower()), None)


def _named(cell: WeatherCell) -> str:
    return f"{cell.weather} (rendered)" if cell.rendered else cell.weather


def _at(cell: WeatherCell, bound: float) -> int | None:
    return dict(zip(cell.thresholds_deg, cell.inconsistent, strict=True)).get(bound)


def _range(values: Sequence[int]) -> str | None:
    if not values:
        return None
    return f"{min(values):,} to {max(values):,}" if len(values) > 1 else f"{values[0]:,}"


def _by_weather(cells: Sequence[WeatherCell]) -> dict[str, list[str]]:
    """Returns, for each weather that has several subjects, their names, the most consistent first."""
    weathers = dict.fromkeys(f"{cell.weather} {cell.method}" for cell in cells)
    orders: dict[str, list[str]] = {}
    for weather in weathers:
        mine = [cell for cell in cells if f"{cell.weather} {cell.method}" == weather]
        if len(mine) > 1:
            order = sorted(mine, key=lambda cell: (*(count.rate for count in cell.counts), cell.subject))
            orders[weather] = [cell.subject for cell in order]
    return orders


def _ranks_alike(cells: Sequence[WeatherCell]) -> str | None:
    orders = _by_weather(cells)
    shared = set.intersection(*(set(order) for order in orders.values())) if orders else set()
    if len(orders) < 2 or len(shared) < 2:
        return None
    kept = {tuple(name for name in order if name in shared) for order in orders.values()}
    return "yes" if len(kept) == 1 else "no"


def _orders(cells: Sequence[WeatherCell]) -> str:
    return "; ".join(f"{weather}: {' < '.join(order)}" for weather, order in _by_weather(cells).items())


@dataclass(frozen=True, slots=True, eq=False)
class RoadReplication(Replication):
    """The cells that are measured so far."""

    paper_name: ClassVar = paper.PAPER
    title: ClassVar = "DeepRoad, replicated"
    beside: ClassVar = "the least to the most of its models"
    traps: ClassVar = paper.TRAPS

    settings: DeepRoadSettings
    cells: tuple[WeatherCell, ...]

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard."""
        return scoreboard(self.cells)

    def behind(self) -> tuple[Sheet, ...]:
        """Returns Table 2, ours and the paper's, and the ranks."""
        return (table_2(self.cells), paper_table_2(), ranking(self.cells))

    def brief(self) -> Sheet:
        """Returns Table 2, ours, for a narrow terminal."""
        return brief_table_2(self.cells)

    def more(self) -> dict[str, object]:
        """Returns the cells."""
        return {"cells": self.cells}

    def facts(self) -> tuple[str, ...]:
        """Returns what was done, in words."""
        subjects = dict.fromkeys(cell.subject for cell in self.cells)
        weathers = dict.fromkeys(f"{cell.weather} ({cell.method.upper()})" for cell in self.cells)
        most = max((cell.cases for cell in self.cells), default=0)
        return (
            f"subjects: {', '.join(subjects)}",
            f"weathers: {', '.join(weathers)}",
            f"drive: {self.cells[0].drive if self.cells else '-'}, {most:,} cases a cell; seed {self.settings.seed}",
            *doubt_facts(self.cells, "the scoreboard and the ranks"),
            *dict.fromkeys(f"warning: {warning}" for cell in self.cells for warning in cell.warnings),
        )


def replicate(
    subjects: Sequence[str], settings: DeepRoadSettings, folder: Path, frames: int = 0, progress: Progress = silent
) -> RoadReplication:
    """Runs or resumes one campaign a subject and weather in FOLDER/SUBJECT/WEATHER, and writes FOLDER/deeproad.json and .md after each.

    settings: of every campaign; its own subject does not matter, and each of its weathers is a cell. frames: at most so many
    evenly spaced frames (0: all): every second, third and so on, so that there may be fewer.
    """
    if frames < 0:
        raise BadParametersError(f"--frames is a number of frames, 0 for all; got {frames}")
    names, weathers = ([stem(file) for file in files] for files in (subjects, settings.weathers))
    check_names(subjects=names, weathers=weathers)
    drive = open_drive(settings.drive)
    drive = drive[:: max(1, ceil(len(drive) / frames))] if frames else drive
    settings = replace(settings, drive=drive.origin or settings.drive)
    cells: list[WeatherCell] = []
    answer = RoadReplication(settings, ())
    for weather, file in zip(weathers, settings.weathers, strict=True):
        for name, subject in zip(names, subjects, strict=True):
            path = folder / name / weather
            told = named(progress, f"{name} under {weather}")
            cells.append(_measured(replace(settings, subject=subject, weathers=(file,)), path, told))
            answer = RoadReplication(settings, kept_cells(folder, cells))
            answer.write(folder, "deeproad")
    return answer


def _measured(settings: DeepRoadSettings, path: Path, progress: Progress) -> WeatherCell:
    campaign = DeepRoad.load_road(settings)
    if (path / FILE).exists():
        kept = WeatherCell.from_json((path / FILE).read_text(encoding="utf-8"), str(path / FILE))
        other = kept.other_than(campaign)
        if not other:
            return replace(kept, warnings=road_warnings(campaign))
        raise BadRunError(f"{path / FILE} was measured with another {' and another '.join(other)}; choose another --out, or remove {path}")
    # Where files lie may differ from one machine to the next; what they hold is checked by their hashes.
    run = run_at(path, campaign.road, campaign.start, ("subject", "drive", "weathers"))
    campaign.execute(run, progress)
    write_text_whole(path / "report.html", render_page(deeproad_page(campaign, run)))
    cell = WeatherCell.of(campaign, summarise_road(run, campaign), run_doubts(run))
    write_atomically(path / FILE, cell.to_json().encode())
    return cell
