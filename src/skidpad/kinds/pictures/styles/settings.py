"""The settings of a search for critical conditions: which network, which scenes, which weather, how hard to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.kinds.pictures.styles.fitness import FitnessWeights
from skidpad.search.evolution import PATIENCE, STYLE_LIMIT, STYLE_SEARCHES

BOUNDS_DEG = (10.0, 20.0, 30.0, 40.0)
"""TACTIC, section 4.1, after DeepRoad."""

GUIDES = ("kmnc", "nbc")
"""TACTIC, section 3.2.1; both are reported whichever guides."""

CONDITIONS = 4
"""TACTIC, section 3.3: a fifth adds no coverage to speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TacticSettings:
    """One campaign.

    subject: path of a description. drive: text for `open_drive`. weather: file of a weather learned by MUNIT. criterion: what guides.
    frames: scenes, evenly spaced over the drive (0: all). searches: rows of STYLE_SEARCHES, each repeated `repeats` times. patience:
    tries without anything better that end a search; iterations: tries that end it in any case (0: none). racing: drop tries that
    cannot win before they have seen all scenes; risk: how willingly (0: only where it is certain). at_once: tries that are looked at
    together, a matter of speed alone (0: as many as fill a batch). profile_drive: gives the neurons' bounds; the drive itself where
    empty. validity: file of a filter of scenes; off where empty. output: which of the subject's outputs is judged; an angle.
    """

    subject: str
    drive: str
    weather: str
    criterion: str = "nbc"
    conditions: int = CONDITIONS
    frames: int = 0
    searches: tuple[str, ...] = ("es",)
    repeats: int = 1
    patience: int = PATIENCE
    iterations: int = 0
    racing: bool = True
    risk: float = 0.001
    at_once: int = 0
    bounds_deg: tuple[float, ...] = BOUNDS_DEG
    coverage_weight: float = 1.0
    divergence_weight: float = 1.0
    style_limit: float = STYLE_LIMIT
    profile_drive: str = ""
    validity: str = ""
    output: str = "steering"
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("conditions", "repeats", "patience"):
            if getattr(self, name) < 1:
                raise SkidpadError(f"{name} is at least 1; got {getattr(self, name)}")
        for name in ("frames", "iterations", "at_once"):
            if getattr(self, name) < 0:
                raise SkidpadError(f"{name} must not be negative; got {getattr(self, name)}")
        if self.criterion not in GUIDES:
            raise UnknownNameError.among("criterion that can guide the search", self.criterion, GUIDES)
        if not self.searches or len(set(self.searches)) != len(self.searches):
            raise SkidpadError(f"name at least one search, each once; got {', '.join(self.searches) or 'none'}")
        for search in self.searches:
            STYLE_SEARCHES.get(search)
        if not 0.0 <= self.risk < 0.5:
            raise SkidpadError(f"the risk of dropping a winner lies within 0 and 0.5; got {self.risk}")
        if not self.bounds_deg or list(self.bounds_deg) != sorted(set(self.bounds_deg)) or not self.bounds_deg[0] > 0.0:
            raise SkidpadError(
                f"error bounds are degrees above 0, the smallest first; got {', '.join(map(str, self.bounds_deg)) or 'none'}"
            )
        if not self.style_limit >= 0.0:
            raise SkidpadError(f"style_limit must not be negative; got {self.style_limit}")
        _ = self.weights

    @property
    def weights(self) -> FitnessWeights:
        """w_c and w_d."""
        return FitnessWeights(self.coverage_weight, self.divergence_weight)

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`."""
        return {"campaign": "tactic", **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads what `to_config` wrote; unknown and missing keys are errors."""
        known = {field.name for field in fields(cls)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in config.items() if name != "campaign"
        }
        for name in values:
            if name not in known:
                raise UnknownNameError.among("setting", name, known)
        for name in ("subject", "drive", "weather"):
            if not isinstance(values.get(name), str):
                raise SkidpadError(f'the campaign lacks the setting {name!r}; add it, as {name} = "..."')
        return cls(**values)
