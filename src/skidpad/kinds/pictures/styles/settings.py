"""The settings of a search for critical conditions: which network, which scenes, which weather, how hard to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from skidpad.core.errors import SkidpadError
from skidpad.core.settings import Count, Natural, OneOf, Positive, Within
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse
from skidpad.kinds.pictures.styles.fitness import FitnessWeights
from skidpad.search.evolution import PATIENCE, STYLE_LIMIT, Styles
from skidpad.search.protocol import check_search

BOUNDS_DEG = (10.0, 20.0, 30.0, 40.0)
"""TACTIC, section 4.1, after DeepRoad."""

GUIDES = ("kmnc", "nbc")
"""TACTIC, section 3.2.1; both are reported whichever guides."""

CONDITIONS = 4
"""TACTIC, section 3.3: a fifth adds no coverage to speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TacticSettings(CampaignSettings):
    """One campaign.

    subject: path of a description. drive: text for `open_drive`. weather: file of a weather learned by MUNIT. criterion: what guides.
    frames: scenes, evenly spaced over the drive (0: all). searches: searches over styles, each repeated `repeats` times. patience:
    tries without anything better that end a search; iterations: tries that end it in any case (0: none). racing: drop tries that
    cannot win before they have seen all scenes; risk: how willingly (0: only where it is certain). at_once: tries that are looked at
    together, a matter of speed alone (0: as many as fill a batch). profile_drive: gives the neurons' bounds; the drive itself where
    empty. validity: file of a filter of scenes; off where empty. output: which of the subject's outputs is judged; an angle.
    """

    campaign: ClassVar = "tactic"

    subject: str
    drive: str
    weather: str
    criterion: Annotated[str, OneOf("criterion that can guide the search", GUIDES)] = "nbc"
    conditions: Count = CONDITIONS
    frames: Natural = 0
    searches: tuple[str, ...] = ("es",)
    repeats: Count = 1
    patience: Count = PATIENCE
    iterations: Natural = 0
    racing: bool = True
    risk: Annotated[float, Within(least=0, below=0.5)] = 0.001
    at_once: Natural = 0
    bounds_deg: tuple[Positive, ...] = BOUNDS_DEG
    coverage_weight: float = 1.0
    divergence_weight: float = 1.0
    style_limit: Annotated[float, Within(least=0)] = STYLE_LIMIT
    profile_drive: str = ""
    validity: str = ""
    output: str = "steering"
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if not self.searches or len(set(self.searches)) != len(self.searches):
            raise SkidpadError(f"name at least one search, each once; got {', '.join(self.searches) or 'none'}")
        for name in self.searches:
            check_search(name, Styles)
        if not self.bounds_deg or list(self.bounds_deg) != sorted(set(self.bounds_deg)):
            raise SkidpadError(
                f"error bounds are degrees above 0, the smallest first; got {', '.join(map(str, self.bounds_deg)) or 'none'}"
            )
        _ = self.weights

    @property
    def weights(self) -> FitnessWeights:
        """w_c and w_d."""
        return FitnessWeights(self.coverage_weight, self.divergence_weight)
