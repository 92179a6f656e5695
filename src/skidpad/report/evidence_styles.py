"""Scenes under critical conditions, shown like any other pair of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skidpad.campaigns.shrinking_styles import StyleCampaign
from skidpad.report.evidence import WITNESSES
from skidpad.report.evidence_pictures import PictureWitness

if TYPE_CHECKING:
    from skidpad.campaigns.tactic import Tactic
    from skidpad.runs.folder import Run


@WITNESSES.register("tactic")
def style_witness(campaign: Tactic, run: Run) -> PictureWitness:
    """Returns what shows the scenes of a search for conditions."""
    return PictureWitness(StyleCampaign(campaign), run)
