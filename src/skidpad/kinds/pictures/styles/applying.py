"""A condition applied to every scene: answers, verdicts, coverage under all criteria, and the pictures of the worst.

Pictures are hashed as `Weather.translate` makes each alone, so that they can be made again on the same kind of machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import radians
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch

from skidpad.core.images import BoolArray, FloatArray, NumpyFrames, as_numpy, pixel_hash
from skidpad.core.stimuli import Params, Recipe
from skidpad.kinds.pictures.judging import frame_again
from skidpad.kinds.pictures.styles.evaluation import Glance
from skidpad.oracles.relations import Answers, SteersAlike
from skidpad.referee.verdict import Reason, Word
from skidpad.runs.records import build_records
from skidpad.runs.replay import ReplayResult, Reproduction, replay
from skidpad.runs.workers.here import patiently
from skidpad.stimuli.weather.translation import REDRAWN, TOLERANCE_RAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.coverage.tracker import CoverageTracker
    from skidpad.drives.drive import Drive
    from skidpad.kinds.pictures.styles.campaign import Tactic
    from skidpad.kinds.pictures.styles.evaluation import Evaluator
    from skidpad.runs.folder import Run
    from skidpad.stimuli.weather.translation import Weather


_AROUND = 1e-6
"""The bound is an error, whichever way its radians were rounded."""

HASHED = 8
"""How many of the worst scenes of a condition have their picture's hash kept."""


@dataclass(frozen=True)
class AppliedCondition:
    """Every scene under one condition, in the order of the set: answers, whether the filter took it, neurons active.

    reasons: the whole referee's, None for a scene whose answer did not move far. refused: how many scenes its quick looks did not keep.
    """

    answers: FloatArray
    accepted: BoolArray
    active: np.ndarray
    reasons: tuple[Reason | None, ...] | None = None
    refused: int = 0

    @property
    def kept(self) -> BoolArray:
        """Which scenes the referee kept, or was not asked about, (N,)."""
        if self.reasons is None:
            return np.ones(len(self.answers), np.bool_)
        return np.array([reason is None or reason.word is Word.KEPT for reason in self.reasons], np.bool_)


def recipe_of(weather: str, style: Sequence[float]) -> Recipe:
    """Returns the recipe of a weather under a style."""
    return Recipe.of(weather, Params(**{f"style_{place}": float(number) for place, number in enumerate(style)}))


def style_of(recipe: Recipe) -> torch.Tensor:
    """Returns the style that a recipe holds, (style,) float32."""
    params = recipe.steps[0].params
    return torch.tensor([params.real(f"style_{place}") for place in range(len(params))])


def apply(evaluator: Evaluator, style: FloatArray, tracker: CoverageTracker, bound_deg: float) -> AppliedCondition:
    """Shows the subject every scene under the style; the tracker takes what those cover that are kept.

    bound_deg: from where on a moved answer is an error, for which the whole referee is asked.
    """
    scenes = evaluator.scenes
    norms = evaluator.decoder.norms(torch.from_numpy(np.asarray(style))[None])
    counted = scenes.counted
    answers, accepted, active = np.full(len(scenes), np.nan), np.ones(len(scenes), np.bool_), np.zeros(len(scenes), np.int32)
    reasons: list[Reason | None] = []
    refused = 0
    from_rad = (1.0 - _AROUND) * radians(bound_deg)
    glances = [Glance(number, norms, whole=True, judged_from_rad=from_rad) for number in range(len(scenes.blocks))]
    for block, shown in zip(scenes.blocks, evaluator.show_all(glances), strict=True):
        if shown.accepted is not None:
            accepted[block.scenes] = shown.accepted.cpu().numpy()
        answers[block.scenes] = shown.answers.cpu().numpy()
        reasons += shown.reasons or ()
        use = torch.from_numpy(accepted[block.scenes]) & counted[block.scenes]
        if shown.kept is not None:
            kept = shown.kept.cpu()
            refused += int((~kept & counted[block.scenes]).sum())
            use &= kept
        if shown.values is not None:
            values = shown.values if bool(use.all()) else shown.values[use.to(shown.values.device)]
            active[np.flatnonzero(use.numpy()) + block.scenes.start] = tracker.update(values).active_neurons
    return AppliedCondition(answers, accepted, active, tuple(reasons) or None, refused)


def picture(drive: Drive, weather: Weather, index: int, recipe: Recipe) -> NumpyFrames:
    """Renders one frame of the drive under a recipe, (height, width, 3)."""
    made: NumpyFrames = _pictures(drive, weather, [index], recipe)[0]
    return made


def _pictures(drive: Drive, weather: Weather, indices: Sequence[int], recipe: Recipe) -> NumpyFrames:
    frames = drive.read(indices).whole().frames
    return as_numpy(weather.translate(frames, style_of(recipe))) if recipe.steps else frames


def records_of(
    applied: AppliedCondition, evaluator: Evaluator, recipe: Recipe, bound_deg: float, pictures: Sequence[str | None]
) -> pa.Table:
    """Builds the records of one condition, one a scene; a scene that the filter refused is not judged."""
    scenes = evaluator.scenes
    excess, broken = verdicts(applied, scenes.original, bound_deg)
    said: list[Reason | None] = [None] * len(scenes)
    if applied.reasons is not None:
        asked = verdicts(replace(applied, reasons=None), scenes.original, bound_deg)[1]
        said = [reason if is_broken else None for reason, is_broken in zip(applied.reasons, asked.tolist(), strict=True)]
    return build_records(
        frame_index=scenes.indices,
        frame_ids=scenes.frame_ids,
        recipes=[recipe] * len(scenes),
        label=scenes.label,
        original=scenes.original,
        mutant=applied.answers,
        excess=excess,
        violated=broken,
        active_neurons=applied.active.astype(np.int64),
        picture=pictures,
        referee=[reason and reason.word.value for reason in said],
        reason=[reason and (reason.value or None) for reason in said],
    )


def verdicts(applied: AppliedCondition, original: FloatArray, bound_deg: float) -> tuple[FloatArray, BoolArray]:
    """Returns the excess over the smallest error bound and whether it is broken; NaN and False for scenes that do not count."""
    answers = Answers(original, applied.answers, np.full(len(original), np.nan))
    excess = np.where(applied.accepted & np.isfinite(original), SteersAlike(within_deg=bound_deg).excess(answers), np.nan)
    with np.errstate(invalid="ignore"):
        broken = excess > 1.0
    # as elsewhere, the referee is asked about what broke the relation alone
    excess[broken & ~applied.kept] = np.nan
    return excess, broken & applied.kept


def hashes(
    applied: AppliedCondition, evaluator: Evaluator, recipe: Recipe, bound_deg: float, drive: Drive, weather: Weather
) -> list[str | None]:
    """Hashes the pictures of the worst scenes; None for the others."""
    scenes = evaluator.scenes
    excess, broken = verdicts(applied, scenes.original, bound_deg)
    found: list[str | None] = [None] * len(scenes)
    order = np.argsort(-np.where(broken, excess, -np.inf), kind="stable")[:HASHED]
    worst = order[broken[order]]
    # A GPU fills every batch up to one size, so that a picture costs as much alone as in company, and rounds alike.
    size = 1 if weather.device.type == "cpu" else HASHED
    for start in range(0, len(worst), size):
        places = worst[start : start + size].tolist()
        made = patiently(partial(_pictures, drive, weather, scenes.indices[places].tolist(), recipe))
        for place, one in zip(places, made, strict=True):
            found[place] = pixel_hash(one)
    return found


def replay_scene(campaign: Tactic, run: Run, prefix: str) -> ReplayResult:
    """Translates the scene whose case id begins with `prefix`, asks the subject again and judges again."""
    record = run.find(prefix)

    def render(_frame_id: str, recipe: Recipe) -> NumpyFrames:
        return picture(campaign.drive, campaign.weather, record.frame_index, recipe)

    def predict(_frame_id: str, recipe: Recipe) -> float:
        batch = frame_again(campaign.drive, record.frame_index, campaign.subject.lead)
        clip = as_numpy(campaign.weather.translate(batch.clip, style_of(recipe))) if recipe.steps else batch.clip
        return float(campaign.subject.predict(clip)[0, campaign.column])

    return replay(record, run.manifest, render, predict, SteersAlike(within_deg=campaign.settings.bounds_deg[0]))


def reproduction(campaign: Tactic, result: ReplayResult) -> Reproduction:
    """Compares picture, answers and verdict, within the rounding of one scene against a batch."""
    kind = campaign.decoder.device.type
    return result.reproduction(TOLERANCE_RAD.get(kind, 2e-3), REDRAWN.get(kind, ""))
