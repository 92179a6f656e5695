"""Shows runs of duels on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING

from skidpad.core.errors import SkidpadError
from skidpad.kinds.presenting import reproduction_json, show_reproduction
from skidpad.page.terminal import print_json, say, table

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.kinds.duels.campaign import Duel
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.kinds.duels.replaying import DuelReplay
    from skidpad.kinds.duels.summary import Column, DuelSummary
    from skidpad.runs.folder import Run


_SHOWN = ("outcome", "steps", "ego_actions", "front_actions", "ego_mps", "front_mps", "impact_s", "avoidable_until_s", "first_break")


@dataclass(frozen=True)
class DuelPresenter:
    """Shows a run of `skidpad duel`."""

    campaign: Duel
    run: Run

    @cached_property
    def _work(self) -> DuelWork:
        return self.campaign.work(self.run)

    @cached_property
    def _summary(self) -> DuelSummary:
        from skidpad.kinds.duels.summary import summarise

        return summarise(self._work)

    def payload(self) -> Mapping[str, object]:
        """Returns the failure rates, the comparisons with chance, the trainings and the crashes."""
        from skidpad.kinds.duels.summary import can_decide

        summary = self._summary
        return {
            "unmeasured": summary.unmeasured,
            "ego": summary.best_ego,
            "columns": [_column_json(column) for column in summary.columns],
            "each_given": [_column_json(column) for column in summary.each_given],
            "versus_random": [
                {
                    "group": versus.group,
                    "p_value": test.p_value if can_decide(test) else None,
                    "a12": effect.size if can_decide(test) else None,
                    "is_enough": can_decide(test),
                }
                for versus in summary.versus
                for test, effect in (versus.over_trainings,)
            ],
            "trainings": [{"phase": found.phase, "failure_rates": list(found.failure_rates)} for found in summary.trainings],
            "crashes": [
                {
                    "family": found.family,
                    "column": found.column,
                    "kept": found.count,
                    "avoidable_1s_before": found.avoidable_before(1.0),
                    "avoidable_2s_before": found.avoidable_before(2.0),
                    "avoidable_3s_before": found.avoidable_before(3.0),
                    "never": found.never,
                    "undecided": found.undecided,
                    "broken_by": dict(found.broken_by),
                }
                for found in summary.crashes
            ],
            "policies": str(self.run.path / "policies"),
        }

    def show(self) -> None:
        """Prints failure rates, how avoidable the crashes were, and the command that shows the worst one."""
        from skidpad.kinds.duels.summary import can_decide
        from skidpad.runs.worst import worst_finding

        summary, run = self._summary, self.run
        if summary.columns:
            shown = [each for found in summary.columns for each in (found, *(summary.each_given if _is_given(found) else ()))]
            rows = [
                (
                    column.family,
                    column.column,
                    f"{column.across_trainings.mean:.1%}" if column.judged else "not measured",
                    f"{column.interval.low:.1%} to {column.interval.high:.1%}" if column.judged else "-",
                    f"{column.ego_mps:.1f}" if isfinite(column.ego_mps) else "-",
                    column.episodes,
                    column.errors,
                )
                for column in shown
            ]
            table("failure rates", ("ego", "against", "failure rate", "95 % interval", "ego m/s", "episodes", "errors"), rows)
        for versus in summary.versus:
            test, effect = versus.over_trainings
            if not can_decide(test):
                say(f"{versus.group} against random, a training as the unit: too few trainings to compare ({test.n} and {test.m})")
            else:
                say(f"{versus.group} against random, a training as the unit: p = {test.p_value:.2g}, A12 = {effect.size:.2f}")
        for found in summary.crashes:
            if found.family == "ego" and isfinite(found.avoidable_before(1.0)):
                shares = ", ".join(f"{found.avoidable_before(second):.0%} {second:g} s before" for second in (1.0, 2.0, 3.0))
                say(f"crashes with {found.column}: still avoidable {shares} the impact")
        for column in summary.columns:
            if column.judged and column.errors:
                which = f"{column.family} against {column.column}"
                say(f"{which}: {column.errors} of {column.episodes} episodes ended because a policy failed; the rate leaves them out")
        problem = next((column.problem for column in summary.columns if column.problem), "")
        if summary.unmeasured:
            say(summary.unmeasured)
        elif problem:
            say(f"{summary.errors} episodes ended because a policy failed; the first failure: {problem}")
        if (run.path / "policies").is_dir():
            say(f"policies: {run.path / 'policies'}")
        worst = worst_finding(run)
        if worst:
            film = " --picture crash.svg" if self.campaign.arena.is_judged else ""
            say(f"worst crash: skidpad replay {run.place} {worst}{film}")

    def write_report(self, path: Path) -> None:
        """Writes the HTML page."""
        from skidpad.kinds.duels.page import duel_page
        from skidpad.page.html import render_page, write_text_whole

        write_text_whole(path, render_page(duel_page(self._work)))

    def replay(self, finding: str, picture: Path | None, json: bool) -> bool:
        """Drives an episode again, from its actions and by asking both drivers, and compares everything."""
        from skidpad.kinds.duels.replaying import replay_episode

        result = replay_episode(self._work, finding)
        drawn: tuple[Path, ...] = () if picture is None else self._write_film(result, picture)
        row = result.row
        if json:
            print_json(
                {
                    "case_id": row["case_id"],
                    "ego": row["ego"],
                    "front": row["front"],
                    **{name: result.again[name] for name in _SHOWN},
                    **reproduction_json(result.reproduction),
                    "pictures": [str(path) for path in drawn],
                }
            )
            return result.is_reproduced
        table(
            f"{row['case_id']}: {row['ego']} against {row['front']}",
            ("", "in the run", "now"),
            [(n, row[n], result.again[n]) for n in _SHOWN],
        )
        show_reproduction(result.reproduction)
        if drawn and not row["violated"]:
            say("note: this episode ended without a crash")
        if drawn:
            say(f"film strip: {drawn[0]}; moving: {drawn[1]}")
        return result.is_reproduced

    def _write_film(self, result: DuelReplay, path: Path) -> tuple[Path, Path]:
        """Writes the film strip and the animation; returns both paths."""
        from skidpad.core.files import write_atomically
        from skidpad.kinds.duels.film import animation, film_strip, standalone
        from skidpad.kinds.duels.films import film_of

        if path.suffix != ".svg":
            raise SkidpadError(f"films are written as SVG; name the file {path.with_suffix('.svg').name}")
        if result.trace is None:
            raise SkidpadError("episodes in a scene of highway-env cannot be drawn; choose one from the built-in highway")
        film = film_of(self._work, result.row, result.trace)
        title = f"{result.row['ego']} against {result.row['front']}"
        moving = path.with_name(f"{path.stem}.moving.svg")
        for target, drawn in ((path, film_strip("strip", title, film)), (moving, animation("moving", title, film))):
            write_atomically(target, standalone(drawn).encode())
        return (path, moving)


def _is_given(column: Column) -> bool:
    from skidpad.kinds.duels.phases import EGO
    from skidpad.kinds.duels.settings import GIVEN

    return (column.family, column.column) == (EGO, GIVEN)


def _column_json(column: Column) -> dict[str, object]:
    return {
        "family": column.family,
        "column": column.column,
        "failure_rate": column.across_trainings.mean,
        "sem": column.across_trainings.sem,
        "low": column.interval.low,
        "high": column.interval.high,
        "ego_mps": column.ego_mps,
        "front_mps": column.front_mps,
        "trainings": len(column.rates),
        "episodes": column.episodes,
        "crashes": column.crashes,
        "overtaken": column.overtaken,
        "timeouts": column.timeouts,
        "errors": column.errors,
        "problem": column.problem,
    }
