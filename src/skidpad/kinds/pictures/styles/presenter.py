"""Runs of `skidpad weather search` on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import degrees, isfinite, isnan
from typing import TYPE_CHECKING

from skidpad.kinds.presenting import reproduction_json, show_reproduction
from skidpad.oracles.error import times_tolerated
from skidpad.page.terminal import print_json, say, table

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.kinds.pictures.styles.campaign import Tactic
    from skidpad.kinds.pictures.styles.summary import Compared, ConditionSummary, TacticSummary
    from skidpad.runs.folder import Run
    from skidpad.runs.replay import ReplayResult


@dataclass(frozen=True)
class TacticPresenter:
    """Shows a run of `skidpad weather search`."""

    campaign: Tactic
    run: Run

    @cached_property
    def _summary(self) -> TacticSummary:
        from skidpad.kinds.pictures.styles.summary import summarise

        return summarise(self.campaign, self.run)

    def payload(self) -> Mapping[str, object]:
        """Returns every condition, the means over repeats and the tests."""
        from skidpad.kinds.pictures.styles.settings import GUIDES

        summary = self._summary
        first = summary.searches[0] if summary.searches else ""
        return {
            "bounds_deg": list(summary.bounds_deg),
            "criterion": summary.criterion,
            "reachable_share": dict(zip(GUIDES, summary.reachable, strict=True)),
            "conditions": [_condition_json(each) for repeat in summary.repeats for each in repeat.conditions],
            "repeats": [
                {"search": repeat.search, "repeat": repeat.number, "coverage": list(repeat.coverage), "errors": list(repeat.errors)}
                for repeat in summary.repeats
            ],
            "warnings": list(self._warnings()),
            "problems": summary.problems,
            "tests": {other: [asdict(test) for test in summary.compare(first, other)] for other in summary.searches[1:]},
        }

    def show(self) -> None:
        """Prints conditions, means and tests."""
        from skidpad.kinds.pictures.styles.page import filter_words, search_name, shown_words
        from skidpad.runs.worst import worst_finding

        summary, run = self._summary, self.run
        for warning in self._warnings():
            say(f"warning: {warning}")
        bounds = [f"{bound:g} deg" for bound in summary.bounds_deg]
        for search in summary.searches:
            rows = [
                (
                    each.condition.number + 1,
                    each.condition.fitness,
                    each.condition.diversity,
                    degrees(each.condition.divergence_rad),
                    *each.errors,
                    each.judged,
                    len(each.condition.tries),
                    each.condition.dropped,
                    each.condition.seconds,
                )
                for each in summary.worst_of(search).conditions
            ]
            columns = ("condition", "F", "F_c", "F_d (deg)", *bounds, "scenes", "tries", "dropped", "seconds")
            # a random style is guided by nothing
            guide = "" if search == "random-styles" else f"guided by {summary.criterion.upper()}"
            words = ", ".join(filter(None, (search_name(search), guide, shown_words(summary, search))))
            table(f"{words}: errors at each bound", columns, rows)
        if len(summary.repeats) > 1:
            self._show_means(bounds)
        if self.campaign.settings.validity:
            say(filter_words(self.campaign, summary))
        worst = worst_finding(run)
        if worst:
            say(f"worst finding: skidpad replay {run.place} {worst}")

    def _warnings(self) -> tuple[str, ...]:
        from skidpad.kinds.pictures.styles.page import tactic_warnings

        return tactic_warnings(self.campaign, self._summary)

    def _show_means(self, bounds: list[str]) -> None:
        from skidpad.kinds.pictures.styles.page import search_name

        summary = self._summary
        rows = [(search_name(search), len(summary.of(search)), *summary.means(search).tolist()) for search in summary.searches]
        table("means over repeats, all conditions together", ("search", "repeats", "KMNC", "NBC", *bounds), rows)
        first = summary.searches[0]
        for other in summary.searches[1:]:
            tests = [
                (
                    each.metric,
                    each.mean,
                    each.other_mean,
                    *_test_words(each),
                )
                for each in summary.compare(first, other)
            ]
            table(f"{search_name(first)} against {search_name(other)}", ("metric", first, other, "p", "A12"), tests)

    def write_report(self, path: Path) -> None:
        """Writes the HTML page."""
        from skidpad.kinds.pictures.styles.page import tactic_page
        from skidpad.page.html import render_page, write_text_whole

        write_text_whole(path, render_page(tactic_page(self.campaign, self.run)))

    def replay(self, finding: str, picture: Path | None, json: bool) -> bool:
        """Translates a scene again and compares picture, answers and verdict."""
        from skidpad.kinds.pictures.styles.applying import replay_scene, reproduction

        result = replay_scene(self.campaign, self.run, finding)
        compared = reproduction(self.campaign, result)
        drawn = None if picture is None else self._write_pair(result, picture)
        record = result.record
        if json:
            print_json(
                {
                    "case_id": record.case_id,
                    "frame_id": record.frame_id,
                    "recipe": str(record.recipe),
                    "picture": result.picture.value,
                    "violated": result.violated,
                    "original_deg": degrees(result.original),
                    "mutant_deg": degrees(result.mutant),
                    "label_deg": degrees(record.label),
                    "excess": result.excess,
                    "answer_change": result.answer_change,
                    **reproduction_json(compared),
                }
            )
            return compared.is_reproduced
        # a scene that the filter refused was not judged, and is not now
        excess = record.excess if isnan(record.excess) else result.excess
        rows: list[tuple[str, object, object]] = [
            ("original (deg)", degrees(record.original), degrees(result.original)),
            ("mutant (deg)", degrees(record.mutant), degrees(result.mutant)),
            *([("human (deg)", degrees(record.label), degrees(record.label))] if isfinite(record.label) else []),
            ("error", times_tolerated(record.excess), times_tolerated(excess)),
            ("verdict", _verdict(record.excess), _verdict(excess)),
            ("picture", record.picture or "not stored", result.picture_again),
        ]
        table(f"{record.case_id}: {record.recipe} on frame {record.frame_id}", ("", "in the run", "now"), rows)
        show_reproduction(compared)
        if drawn is not None:
            say(f"picture: {drawn}")
        return compared.is_reproduced

    def _write_pair(self, result: ReplayResult, path: Path) -> Path:
        from skidpad.core.images import write_image
        from skidpad.core.stimuli import Recipe
        from skidpad.kinds.pictures.styles.applying import picture as rendered
        from skidpad.page.arrows import pair_picture

        record = result.record
        drive, weather = self.campaign.drive, self.campaign.weather
        original, mutant = (rendered(drive, weather, record.frame_index, recipe) for recipe in (Recipe(), record.recipe))
        answers = (degrees(result.original), degrees(result.mutant), degrees(record.label))
        return write_image(path, pair_picture(original, mutant, *answers, caption=str(record.recipe), unit="deg"))


def _verdict(excess: float) -> str:
    return "not judged" if isnan(excess) else "finding" if excess > 1.0 else "passed"


def _test_words(test: Compared) -> tuple[str | None, str | None]:
    from skidpad.kinds.pictures.styles.summary import FAILED

    if test.tested:
        return f"{test.p_value:.2g}", f"{test.a12:.3g}"
    return (FAILED, FAILED) if test.failed else (None, None)


def _condition_json(each: ConditionSummary) -> dict[str, object]:
    condition = each.condition
    return {
        "search": condition.search,
        "repeat": condition.repeat,
        "condition": condition.number,
        "style": list(condition.style),
        "fitness": condition.fitness,
        "diversity": condition.diversity,
        "divergence_rad": condition.divergence_rad,
        "errors": list(each.errors),
        "judged": each.judged,
        "rejection_rate": each.rejection_rate.estimate,
        "coverage": list(each.coverage),
        "tries": len(condition.tries),
        "dropped": condition.dropped,
        "frames": condition.frames,
        "seconds": condition.seconds,
    }
