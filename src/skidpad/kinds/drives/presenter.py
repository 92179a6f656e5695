"""Runs of `skidpad drive` on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import degrees, isfinite
from typing import TYPE_CHECKING

from skidpad.kinds.presenting import reproduction_json, show_reproduction
from skidpad.page.terminal import print_json, say, table

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.kinds.drives.campaign import Online
    from skidpad.kinds.drives.replaying import OnlineReplay
    from skidpad.kinds.drives.search import Reach
    from skidpad.kinds.drives.summary import OnlineSummary
    from skidpad.kinds.drives.work import Rides
    from skidpad.runs.folder import Run


_SHOWN = ("steps", "mdcl", "max_lateral_m", "departed_at_s", "collided_at_s", "mae_rad", "violated", "problem")


@dataclass(frozen=True)
class OnlinePresenter:
    """Shows a run of `skidpad drive`."""

    campaign: Online
    run: Run

    @cached_property
    def _summary(self) -> OnlineSummary:
        from skidpad.kinds.drives.summary import summarise

        return summarise(self.run)

    def _reached(self) -> list[Reach]:
        from skidpad.kinds.drives.search import reach_of

        return [reach_of(self._summary, name) for name in self.campaign.settings.searches]

    def payload(self) -> Mapping[str, object]:
        """Returns the rates and every case's verdict."""
        summary = self._summary
        return {
            "drives": summary.drives,
            "failure_rate": summary.rate.estimate,
            "low": summary.rate.low,
            "high": summary.rate.high,
            "searches": [asdict(reach) for reach in self._reached()],
            "skipped": [{"scenario": each.name, "reason": each.reason} for each in self.campaign.skipped],
            "conditions": [
                {
                    "condition": row.condition,
                    **{name: getattr(row, name) for name in ("passed", "failed", "flaky", "errors", "departed", "collided", "median_mdcl")},
                    "failure_rate": row.rate.estimate,
                    "low": row.rate.low,
                    "high": row.rate.high,
                }
                for row in summary.conditions
            ],
            "cases": [
                {
                    "case_id": case.case_id,
                    "scenario": case.scenario_name,
                    "condition": case.condition,
                    "verdict": case.verdict.value,
                    "failed": case.failed,
                    "judged": case.judged,
                    "errors": case.errors,
                    "low": case.failures.low,
                    "high": case.failures.high,
                    "mdcl": case.mdcl,
                    "max_lateral_m": case.max_lateral_m,
                    "departed_at_s": case.departed_at_s,
                    "collided_at_s": case.collided_at_s,
                    "mae_rad": case.mae_rad,
                    "problem": case.problem,
                }
                for case in summary.cases
            ],
        }

    def show(self) -> None:
        """Prints rates by condition, the worst drives, and what could not be judged."""
        from skidpad.page.wording import counted

        summary, run = self._summary, self.run
        rows = [
            (
                row.condition,
                row.passed,
                row.failed,
                row.flaky,
                row.errors,
                row.departed,
                row.collided,
                _known(row.median_mdcl),
                f"{row.rate.estimate:.1%}" if isfinite(row.rate.estimate) else "-",
                f"{row.rate.low:.1%} to {row.rate.high:.1%}",
            )
            for row in summary.conditions
        ]
        columns = ("condition", "PASS", "FAIL", "FLAKY", "ERROR", "departed", "collided", "median MDCL", "fail", "95 % interval")
        table(f"{counted(len(summary.cases), 'case')}, {counted(summary.drives, 'drive')}", columns, rows)
        if self.campaign.settings.searches:
            reached = [(r.name, r.drives, r.failures, r.cells_tried, r.cells_failing, r.first or None) for r in self._reached()]
            heads = ("search", "drives", "failures", "cells tried", "cells with a failure", "first failure after")
            table("searches at the same budget", heads, reached)
        if summary.worst:
            worst = [
                (
                    case.case_id,
                    case.scenario_name,
                    case.condition,
                    case.verdict.value,
                    *map(_known, (case.mdcl, case.departed_at_s, case.collided_at_s)),
                )
                for case in summary.worst[:8]
            ]
            table("worst drives", ("case", "scenario", "condition", "verdict", "MDCL", "departs at s", "collides at s"), worst)
            say(f"look again: skidpad replay {run.place} {summary.worst[0].case_id} --picture drive.svg")
        for skipped in self.campaign.skipped:
            say(f"skipped {skipped.name}: {skipped.reason}")
        lost = [case for case in summary.cases if case.problem]
        if lost:
            say(f"{counted(len(lost), 'case')} met a problem; the first, {lost[0].scenario_name}: {lost[0].problem}")

    def write_report(self, path: Path) -> None:
        """Writes the HTML page."""
        from skidpad.kinds.drives.page import online_page
        from skidpad.page.html import render_page, write_text_whole

        write_text_whole(path, render_page(online_page(self.campaign, self.run)))

    def replay(self, finding: str, picture: Path | None, json: bool) -> bool:
        """Makes a drive again and compares everything."""
        return replay_and_show(self.campaign.rides, self.run, finding, picture, json)


def replay_and_show(rides: Rides, run: Run, finding: str, picture: Path | None, json: bool) -> bool:
    """Makes a recorded drive again, prints how it compares, and draws it where asked; tells whether it is the same."""
    from skidpad.kinds.drives.replaying import replay_drive

    result = replay_drive(rides, run, finding)
    drawn: tuple[Path, ...] = () if picture is None else _write_film(rides, result, picture)
    row = result.row
    if json:
        print_json(
            {
                "case_id": row["case_id"],
                "scenario": row["scenario"],
                "recipe": row["recipe"],
                **{name: result.again[name] for name in _SHOWN},
                **reproduction_json(result.reproduction),
                "pictures": [str(path) for path in drawn],
            }
        )
        return result.is_reproduced
    rows = [(name, _known(row[name]), _known(result.again[name])) for name in _SHOWN]
    table(f"{row['case_id']}: {row['mode']}, {row['scenario_name']}, {row['condition']}", ("", "in the run", "now"), rows)
    say(f"scenario: {row['scenario']}")
    if isfinite(row["mae_rad"]):
        say(f"mean distance of its answers from the truth: {degrees(row['mae_rad']):.2f} degrees of the steering wheel")
    show_reproduction(result.reproduction)
    if drawn:
        say(f"film strip: {drawn[0]}; moving: {drawn[1]}")
    return result.is_reproduced


def _known(value: object) -> object:
    """Returns what a table shows of a value: nothing where it never happened or was not measured."""
    return None if value == "" or (isinstance(value, float) and not isfinite(value)) else value


def _write_film(rides: Rides, result: OnlineReplay, path: Path) -> tuple[Path, Path]:
    """Writes the strip and the same moving; returns both paths."""
    from skidpad.core.errors import SkidpadError
    from skidpad.core.files import write_atomically
    from skidpad.kinds.drives.filmstrip import film_of, moving, strip
    from skidpad.kinds.duels.film import standalone

    if path.suffix != ".svg":
        raise SkidpadError(f"a film is drawn as SVG, which any browser opens; name the file {path.with_suffix('.svg').name}")
    film = film_of(rides, result.row)
    title = f"{result.row['scenario_name']}, {result.row['condition']}"
    beside = path.with_name(f"{path.stem}.moving.svg")
    for target, drawn in ((path, strip("strip", title, film)), (beside, moving("moving", title, film))):
        write_atomically(target, standalone(drawn).encode())
    return (path, beside)
