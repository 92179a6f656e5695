"""A case of a search for critical conditions, computed again from its frame and its style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skidpad.campaigns.tactic_applying import picture, style_of
from skidpad.core.errors import BadRunError
from skidpad.core.images import as_numpy
from skidpad.oracles.relations import SteersAlike
from skidpad.runs.replay import ReplayResult, Reproduction, replay

if TYPE_CHECKING:
    from skidpad.campaigns.tactic import Tactic
    from skidpad.core.images import NumpyFrames
    from skidpad.core.stimuli import Recipe
    from skidpad.runs.folder import Run

TOLERANCE_RAD = {"cpu": 2e-3, "cuda": 5e-2}
"""One scene alone is rounded otherwise than in a batch: by a level of 255 here and there, in bfloat16 by a few."""


def replay_scene(campaign: Tactic, run: Run, prefix: str) -> ReplayResult:
    """Translates the scene whose case id begins with `prefix`, asks the subject again and judges again."""
    record = run.find(prefix)

    def render(_frame_id: str, recipe: Recipe) -> NumpyFrames:
        return picture(campaign.drive, campaign.weather, record.frame_index, recipe)

    def predict(_frame_id: str, recipe: Recipe) -> float:
        batch = campaign.drive.read([record.frame_index], lead=campaign.subject.lead)
        if not len(batch):
            raise BadRunError(f"the frame can no longer be read: {batch.problems[0]}; put the drive back as it was")
        clip = as_numpy(campaign.weather.translate(batch.clip, style_of(recipe))) if recipe.steps else batch.clip
        return float(campaign.subject.predict(clip)[0, campaign.column])

    return replay(record, run.manifest, render, predict, SteersAlike(within_deg=campaign.settings.bounds_deg[0]))


def reproduction(campaign: Tactic, result: ReplayResult) -> Reproduction:
    """Compares picture, answers and verdict, within the rounding of one scene against a batch."""
    return result.reproduction(TOLERANCE_RAD.get(campaign.decoder.device.type, 2e-3))
