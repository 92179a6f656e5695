"""A finding of a run over pictures, computed again."""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.images import write_image
from skidpad.core.stimuli import Recipe
from skidpad.kinds.pictures.judging import Originals
from skidpad.oracles.error import scale_of, times_tolerated
from skidpad.oracles.relations import fails_unchanged
from skidpad.page.arrows import pair_picture
from skidpad.runs.replay import Replayed, ReplayResult, replay

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.core.images import NumpyFrames
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.runs.folder import Run


def replay_case(campaign: DeepTest, run: Run, prefix: str) -> ReplayResult:
    """Renders the case whose id begins with `prefix`, asks the subject again and judges again."""
    record = run.find(prefix)
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))

    def render(_frame_id: str, recipe: Recipe) -> NumpyFrames:
        return campaign.picture(record.frame_index, recipe)

    def predict(_frame_id: str, recipe: Recipe) -> float:
        return campaign.answer(record.frame_index, recipe) if recipe.steps else campaign.compared(record.frame_index, record.recipe)

    return replay(record, run.manifest, render, predict, relation)


def replay_finding(campaign: DeepTest, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Computes a finding again from its recipe and compares picture, answers and verdict; draws the pair where asked."""
    result = replay_case(campaign, run, finding)
    record, judged = result.record, campaign.judged
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))
    unit = f" ({judged.shown_unit})" if judged.shown_unit else ""
    scale = scale_of(campaign.settings.relation)
    # what the referee did not keep was not judged, and is not now
    excess = record.excess if isnan(record.excess) else result.excess
    rows: list[tuple[str, object, object]] = [
        (f"original{unit}", judged.shown(record.original), judged.shown(result.original)),
        (f"mutant{unit}", judged.shown(record.mutant), judged.shown(result.mutant)),
        *([(f"human{unit}", judged.shown(record.label), judged.shown(record.label))] if isfinite(record.label) else []),
        ("error", times_tolerated(record.excess, scale), times_tolerated(excess, scale)),
        ("verdict", verdict_of(record.excess), verdict_of(excess)),
        ("picture", record.picture or "not stored", result.picture_again),
    ]
    remarks = [f"memory: the stimulus is applied {campaign.window_words}"] if campaign.window_words else []
    if result.violated and bool(fails_unchanged(relation, np.array([result.original]), np.array([record.label]))[0]):
        remarks.append("the original breaks the relation without any change, so that the transform need not be at fault")
    if record.referee is not None:
        remarks.append(f"referee: {record.referee}" + (f" ({record.reason})" if record.reason else ""))
    output = "" if judged.is_steering else f", {judged.name}"
    return Replayed(
        title=f"{record.case_id}: {record.recipe} on frame {record.frame_id}{output}",
        rows=tuple(rows),
        figures=_figures(result, campaign),
        reproduction=result.reproduction(*campaign.rounding),
        remarks=tuple(remarks),
        pictures=() if picture is None else (_write_pair(campaign, result, picture),),
    )


def verdict_of(excess: float) -> str:
    """Words what an excess means."""
    return "not judged" if isnan(excess) else "finding" if excess > 1.0 else "passed"


def _write_pair(campaign: DeepTest, result: ReplayResult, path: Path) -> Path:
    record, judged = result.record, campaign.judged
    original, mutant = campaign.original(record.frame_index, record.recipe), campaign.picture(record.frame_index, record.recipe)
    answers = (judged.shown(result.original), judged.shown(result.mutant), judged.shown(record.label))
    moved = campaign.moved_by(record.recipe, result.original)
    words = times_tolerated(result.excess, scale_of(campaign.settings.relation))
    caption = f"{record.recipe} {campaign.window_words}".strip() + f": {verdict_of(result.excess)}, {words}"
    return write_image(path, pair_picture(original, mutant, *answers, caption, unit=judged.shown_unit, moved=moved))


def _figures(result: ReplayResult, campaign: DeepTest) -> dict[str, object]:
    record, judged = result.record, campaign.judged
    suffix = f"_{judged.shown_unit}" if judged.output.is_angle else ""
    return {
        "case_id": record.case_id,
        "frame_id": record.frame_id,
        "recipe": str(record.recipe),
        "frames": campaign.subject.lead + 1,
        "stimulus_on": campaign.settings.stimulus_on if campaign.subject.lead else None,
        "output": judged.name,
        "unit": judged.shown_unit,
        "picture": result.picture.value,
        "violated": result.violated,
        f"original{suffix}": judged.shown(result.original),
        f"mutant{suffix}": judged.shown(result.mutant),
        f"label{suffix}": judged.shown(record.label),
        "excess": result.excess,
        "answer_change": result.answer_change,
    }
