"""The settings of a comparison of offline and online testing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from skidpad.core.settings import Count, Natural, OneOf, Positive
from skidpad.core.units import AngleUnit
from skidpad.kinds.drives.settings import check_seconds
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse
from skidpad.oracles.agreement import ACCEPTABLE_MAE
from skidpad.oracles.lane_departure import ACCEPTABLE_MDCL

EPSILON = 0.1
"""How far the steering of a comparable pair may be apart on average; offline and online testing, section III-B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineVsOnlineSettings(CampaignSettings):
    """One comparison of a subject's results offline and online.

    drive: text for `open_drive`, a recorded drive with labels for RQ0; "" leaves RQ0 out. matched: scenarios of the restricted domain
    that are matched with it. scenarios: of `domain`, for RQ1. stimulus: what sits in front of the camera in RQ1 (see
    `stimuli.registry`). epsilon, mae_limit: in `unit`, which is `rad` for the numbers that
    Udacity's file holds (the paper computes with those), or `scaled25` for the degrees that the paper reads them as. mdcl_limit: of the
    normalised distance.

    Reference: offline and online testing, sections III-B and III-C.
    """

    campaign: ClassVar = "compare"

    subject: str
    drive: str = ""
    world: str = "built-in"
    domain: str = "extended"
    scenarios: Count = 50
    matched: Count = 100
    stimulus: str = "original"
    seconds: float = 20.0
    unit: Annotated[str, OneOf("unit of angles", AngleUnit)] = AngleUnit.RAD.value
    epsilon: Positive = EPSILON
    mae_limit: Positive = ACCEPTABLE_MAE
    mdcl_limit: Positive = ACCEPTABLE_MDCL
    width: Natural = 0
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        check_seconds(self.seconds)

    @property
    def unit_rad(self) -> float:
        """How many radians of the steering wheel one of the unit is."""
        return AngleUnit(self.unit).rad
