"""The settings of a comparison of offline and online testing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Self

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.units import AngleUnit
from skidpad.kinds.drives.settings import check_seconds, read_settings
from skidpad.oracles.agreement import ACCEPTABLE_MAE
from skidpad.oracles.lane_departure import ACCEPTABLE_MDCL

EPSILON = 0.1
"""How far the steering of a comparable pair may be apart on average; offline and online testing, section III-B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparingSettings:
    """One comparison of a subject's results offline and online.

    drive: text for `open_drive`, a recorded drive with labels for RQ0; "" leaves RQ0 out. matched: scenarios of the restricted domain
    that are matched with it. scenarios: of `domain`, for RQ1. stimulus: what sits in front of the camera in RQ1 (see
    `stimuli.grammar`). epsilon, mae_limit: in `unit`, which is `rad` for the numbers that
    Udacity's file holds (the paper computes with those), or `scaled25` for the degrees that the paper reads them as. mdcl_limit: of the
    normalised distance.

    Reference: offline and online testing, sections III-B and III-C.
    """

    subject: str
    drive: str = ""
    world: str = "built-in"
    domain: str = "extended"
    scenarios: int = 50
    matched: int = 100
    stimulus: str = "original"
    seconds: float = 20.0
    unit: str = AngleUnit.RAD.value
    epsilon: float = EPSILON
    mae_limit: float = ACCEPTABLE_MAE
    mdcl_limit: float = ACCEPTABLE_MDCL
    width: int = 0
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("scenarios", "matched"):
            if getattr(self, name) < 1:
                raise SkidpadError(f"{name} is at least 1; got {getattr(self, name)}")
        if self.width < 0:
            raise SkidpadError(f"width must not be negative; got {self.width}")
        for name in ("epsilon", "mae_limit", "mdcl_limit"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0.0):
                raise SkidpadError(f"{name} is a number above 0; got {getattr(self, name)}")
        check_seconds(self.seconds)
        units = [unit.value for unit in AngleUnit]
        if self.unit not in units:
            raise UnknownNameError.among("unit of angles", self.unit, units)

    @property
    def unit_rad(self) -> float:
        """How many radians of the steering wheel one of the unit is."""
        return AngleUnit(self.unit).rad

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`."""
        return {"campaign": "compare", **asdict(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads what `to_config` wrote; unknown keys are errors, missing ones keep their default."""
        return cls(**read_settings(config, {field.name for field in fields(cls)}))
