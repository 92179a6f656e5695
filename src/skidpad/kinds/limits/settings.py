"""The settings of a campaign that looks for the limits of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from skidpad.core.errors import SkidpadError
from skidpad.core.settings import Count, Natural, OneOf, Positive, Within
from skidpad.kinds.kind import CampaignSettings
from skidpad.kinds.pictures.settings import NOTES

REFEREE = ("on", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSettings(CampaignSettings):
    """One search for limits.

    subject: path of a description. drive: text for `open_drive`. conditions: names of conditions or of their severities; empty means
    all. output, relation, tolerance, threshold: as in `skidpad test`, by default `steers-alike`. accepted_share: of frames that may
    fail where a network still holds. frames: how many of the drive are shown, evenly spaced (0: all). stretch_frames: neighbouring
    frames that are drawn together by the bootstrap (0: those of two seconds). steps: into how many steps the way from harmless to
    worst is cut; limits are found to one of them. pairs: two severities each, as "fog,dusk". online: whether the built-in world is
    driven too; scenarios, domain, seconds: what is driven there. referee: whether changed pictures that are another scene are left out.
    """

    campaign: ClassVar = "limits"
    notes: ClassVar = NOTES

    subject: str
    drive: str
    conditions: tuple[str, ...] = ()
    output: str = "steering"
    relation: str = ""
    tolerance: Positive | None = None
    threshold: float = 0.5
    accepted_share: Annotated[float, Within(above=0, below=1)] = 0.05
    frames: Natural = 500
    stretch_frames: Natural = 0
    steps: Annotated[int, Within(least=4, most=1024)] = 32
    pairs: tuple[str, ...] = ()
    online: bool = False
    scenarios: Count = 6
    domain: str = "restricted"
    seconds: Annotated[float, Within(least=1, most=120)] = 10.0
    referee: Annotated[str, OneOf("setting of the referee", REFEREE)] = "on"
    seed: int = 0
    device: str = "cpu"

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if self.steps % 4:
            raise SkidpadError(f"steps is a multiple of 4, since the search begins at the quarters of the way; got {self.steps}")
