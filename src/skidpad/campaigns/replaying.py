"""A finding of a DeepTest run, computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skidpad.campaigns.originals import Originals
from skidpad.runs.replay import ReplayResult, replay

if TYPE_CHECKING:
    from skidpad.campaigns.deeptest import DeepTest
    from skidpad.core.images import NumpyFrames
    from skidpad.core.stimuli import Recipe
    from skidpad.runs.folder import Run


def replay_case(campaign: DeepTest, run: Run, prefix: str) -> ReplayResult:
    """Renders the case whose id begins with `prefix`, asks the subject again and judges again."""
    record = run.find(prefix)
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))

    def render(_frame_id: str, recipe: Recipe) -> NumpyFrames:
        return campaign.picture(record.frame_index, recipe)

    def predict(_frame_id: str, recipe: Recipe) -> float:
        return campaign.answer(record.frame_index, recipe)

    return replay(record, run.manifest, render, predict, relation)
