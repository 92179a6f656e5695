"""The settings of a DeepRoad campaign: which weathers, under which styles, counted at which error bounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

from skidpad.core.errors import SkidpadError
from skidpad.core.settings import Count, Natural, OneOf, Positive
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse
from skidpad.kinds.pictures.settings import NOTES, StimulusOn, StimulusOnName

THRESHOLDS_DEG = (10.0, 20.0, 30.0, 40.0)
"""DeepRoad's error bounds (Table 2)."""


class StyleChoice(Enum):
    """Where the styles of a MUNIT weather come from: what real pictures have on average, their spread, or N(0, 1) as MUNIT draws."""

    MEAN = "mean"
    REAL = "real"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepRoadSettings(CampaignSettings):
    """One DeepRoad campaign.

    subject: path of a description. drive: text for `open_drive`. weathers: paths of learned weathers. thresholds_deg: error
    bounds, ascending; the first one tells what a finding is. style, styles: which styles, and how many, each MUNIT weather is
    tried under; UNIT has one look. output: an angle among the subject's outputs. stimulus_on: for subjects with memory, see
    `StimulusOn`. shard_frames: the unit of resuming (0: what suits device and subject). device: where weathers run;
    subject_device: where the subject does (empty: the same, or the CPU for one that cannot).
    """

    campaign: ClassVar = "deeproad"
    notes: ClassVar = NOTES

    subject: str
    drive: str
    weathers: tuple[str, ...]
    thresholds_deg: tuple[Positive, ...] = THRESHOLDS_DEG
    style: Annotated[str, OneOf("choice of styles", StyleChoice)] = StyleChoice.MEAN.value
    styles: Count = 1
    output: str = "steering"
    stimulus_on: StimulusOnName = StimulusOn.WINDOW.value
    shard_frames: Natural = 0
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"
    subject_device: str = ""

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if not self.weathers:
            raise SkidpadError("a test under weather needs a weather; give one with --weather FILE, as `skidpad weather train` writes it")
        bounds = self.thresholds_deg
        if not bounds or list(bounds) != sorted(set(bounds)):
            words = ", ".join(f"{bound:g}" for bound in bounds) or "none"
            raise SkidpadError(f"thresholds are degrees above 0, ascending and each once, as 10,20,30,40; got {words}")
        if self.style == StyleChoice.MEAN.value and self.styles > 1:
            raise SkidpadError(f"the mean style is one style; got styles = {self.styles}: leave it out, or choose --style real or random")
