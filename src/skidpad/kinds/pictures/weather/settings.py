"""The settings of a DeepRoad campaign: which weathers, under which styles, counted at which error bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from math import isfinite
from typing import Any, Self

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.kinds.pictures.settings import StimulusOn

THRESHOLDS_DEG = (10.0, 20.0, 30.0, 40.0)
"""DeepRoad's error bounds (Table 2)."""

_INFORMATION = frozenset({"campaign", "unit"})


class StyleChoice(Enum):
    """Where the styles of a MUNIT weather come from: what real pictures have on average, their spread, or N(0, 1) as MUNIT draws."""

    MEAN = "mean"
    REAL = "real"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepRoadSettings:
    """One DeepRoad campaign.

    subject: path of a description. drive: text for `open_drive`. weathers: paths of learned weathers. thresholds_deg: error
    bounds, ascending; the first one tells what a finding is. style, styles: which styles, and how many, each MUNIT weather is
    tried under; UNIT has one look. output: an angle among the subject's outputs. stimulus_on: for subjects with memory, see
    `StimulusOn`. shard_frames: the unit of resuming (0: what suits device and subject). device: where weathers run;
    subject_device: where the subject does (empty: the same, or the CPU for one that cannot).
    """

    subject: str
    drive: str
    weathers: tuple[str, ...]
    thresholds_deg: tuple[float, ...] = THRESHOLDS_DEG
    style: str = StyleChoice.MEAN.value
    styles: int = 1
    output: str = "steering"
    stimulus_on: str = StimulusOn.WINDOW.value
    shard_frames: int = 0
    seed: int = 0
    device: str = "cpu"
    subject_device: str = ""

    def __post_init__(self) -> None:
        if not self.weathers:
            raise SkidpadError("a test under weather needs a weather; give one with --weather FILE, as `skidpad weather train` writes it")
        bounds = self.thresholds_deg
        if not bounds or list(bounds) != sorted(set(bounds)) or not all(isfinite(bound) and bound > 0.0 for bound in bounds):
            words = ", ".join(f"{bound:g}" for bound in bounds) or "none"
            raise SkidpadError(f"thresholds are degrees above 0, ascending and each once, as 10,20,30,40; got {words}")
        choices = [choice.value for choice in StyleChoice]
        if self.style not in choices:
            raise UnknownNameError.among("choice of styles", self.style, choices)
        kinds = [kind.value for kind in StimulusOn]
        if self.stimulus_on not in kinds:
            raise UnknownNameError.among("way to show a stimulus to a subject with memory", self.stimulus_on, kinds)
        for name, least in (("styles", 1), ("shard_frames", 0)):
            if getattr(self, name) < least:
                raise SkidpadError(f"{name} must be at least {least}; got {getattr(self, name)}")
        if self.style == StyleChoice.MEAN.value and self.styles > 1:
            raise SkidpadError(f"the mean style is one style; got styles = {self.styles}: leave it out, or choose --style real or random")

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {"campaign": "deeproad", **values}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads what `to_config` wrote; unknown and missing keys and wrong kinds are errors."""
        known = {field.name: str(field.type) for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in config.items():
            if name in _INFORMATION:
                continue
            if name not in known:
                raise UnknownNameError.among("setting", name, known)
            values[name] = _checked(name, value, known[name])
        for name in ("subject", "drive", "weathers"):
            if name not in values:
                raise SkidpadError(f"the campaign lacks the setting {name!r}; add it")
        return cls(**values)


_ITEMS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "a text"),
    "int": (int, "a whole number"),
    "tuple[str, ...]": (str, "a list of texts"),
    "tuple[float, ...]": ((int, float), "a list of numbers"),
}


def _checked(name: str, value: Any, kind: str) -> Any:
    item, words = _ITEMS[kind]
    is_list = kind.startswith("tuple")
    items = list(value) if is_list and isinstance(value, list | tuple) else [value]
    fits = (not is_list or isinstance(value, list | tuple)) and all(isinstance(each, item) and not isinstance(each, bool) for each in items)
    if not fits:
        raise SkidpadError(f"the setting {name!r} must be {words}; got {value!r}")
    if kind == "tuple[float, ...]":
        return tuple(float(each) for each in items)
    return tuple(items) if is_list else value
