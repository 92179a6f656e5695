"""Runs of `skidpad weather search` for programs, and their scenes computed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import degrees, isfinite, isnan
from typing import TYPE_CHECKING

from skidpad.core.images import write_image
from skidpad.core.stimuli import Recipe
from skidpad.kinds.pictures.replaying import verdict_of
from skidpad.kinds.pictures.styles.applying import picture as rendered
from skidpad.kinds.pictures.styles.applying import replay_scene, reproduction
from skidpad.kinds.pictures.styles.page import tactic_warnings
from skidpad.kinds.pictures.styles.settings import GUIDES
from skidpad.kinds.pictures.styles.summary import ConditionSummary, summarise
from skidpad.oracles.error import times_tolerated
from skidpad.page.arrows import pair_picture
from skidpad.page.model import values_of
from skidpad.runs.replay import Replayed

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.kinds.pictures.styles.campaign import Tactic
    from skidpad.runs.folder import Run
    from skidpad.runs.replay import ReplayResult


def tactic_figures(campaign: Tactic, run: Run) -> Mapping[str, object]:
    """Returns every condition, the means over repeats and the tests."""
    summary = summarise(campaign, run)
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
        "warnings": list(tactic_warnings(campaign, summary)),
        "problems": summary.problems,
        "tests": {other: [asdict(test) for test in summary.compare(first, other)] for other in summary.searches[1:]},
    }


def replay_style(campaign: Tactic, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Translates a scene again and compares picture, answers and verdict; draws the pair where asked."""
    result = replay_scene(campaign, run, finding)
    record = result.record
    # a scene that the filter refused was not judged, and is not now
    excess = record.excess if isnan(record.excess) else result.excess
    rows: list[tuple[str, object, object]] = [
        ("original (deg)", degrees(record.original), degrees(result.original)),
        ("mutant (deg)", degrees(record.mutant), degrees(result.mutant)),
        *([("human (deg)", degrees(record.label), degrees(record.label))] if isfinite(record.label) else []),
        ("error", times_tolerated(record.excess), times_tolerated(excess)),
        ("verdict", verdict_of(record.excess), verdict_of(excess)),
        ("picture", record.picture or "not stored", result.picture_again),
    ]
    return Replayed(
        title=f"{record.case_id}: {record.recipe} on frame {record.frame_id}",
        rows=tuple(rows),
        figures={
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
        },
        reproduction=reproduction(campaign, result),
        pictures=() if picture is None else (_write_pair(campaign, result, picture),),
    )


def _write_pair(campaign: Tactic, result: ReplayResult, path: Path) -> Path:
    record = result.record
    original, mutant = (rendered(campaign.drive, campaign.weather, record.frame_index, recipe) for recipe in (Recipe(), record.recipe))
    answers = (degrees(result.original), degrees(result.mutant), degrees(record.label))
    return write_image(path, pair_picture(original, mutant, *answers, caption=str(record.recipe), unit="deg"))


def _condition_json(each: ConditionSummary) -> dict[str, object]:
    condition = each.condition
    return {
        **values_of(condition, "search repeat fitness diversity divergence_rad dropped frames seconds refused"),
        "condition": condition.number,
        "style": list(condition.style),
        "errors": list(each.errors),
        "judged": each.judged,
        "rejection_rate": each.rejection_rate.estimate,
        "coverage": list(each.coverage),
        "tries": len(condition.tries),
    }
