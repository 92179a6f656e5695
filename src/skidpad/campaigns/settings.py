"""The settings of a campaign: what the command line, a file and Python all fill in, and what a run stores."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from skidpad.core.errors import SkidpadError, UnknownNameError

LAMBDA = 5.0
"""DeepTest's highlighted tolerance (section 5, Table 8)."""

WITHIN_DEG = 10.0
"""DeepRoad's tightest error bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepTestSettings:
    """One DeepTest campaign.

    subject: path of a description. drive: text for `open_drive`. transforms: names; empty means all nine. searches: among `grid`,
    `greedy` and `random`, each a phase of the run. relation: `label-mse` with tolerance lambda, or `steers-alike` with tolerance in
    degrees. criteria: the first one guides the greedy search. profile_drive: the training drive that gives KMNC, NBC and SNAC their
    bounds. seeds: how many frames, evenly spaced, `greedy` and `random` start from (0: all). shard_frames: frames a shard, the unit
    of resuming.
    """

    subject: str
    drive: str
    transforms: tuple[str, ...] = ()
    searches: tuple[str, ...] = ("grid",)
    relation: str = "label-mse"
    tolerance: float = LAMBDA
    criteria: tuple[str, ...] = ("nc",)
    profile_drive: str = ""
    seeds: int = 100
    max_failed_tries: int = 10
    shard_frames: int = 64
    keep_activations: bool = False
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("seeds", "max_failed_tries"):
            if getattr(self, name) < 0:
                raise SkidpadError(f"{name} must not be negative; got {getattr(self, name)}")
        if self.shard_frames < 1:
            raise SkidpadError(f"shard_frames must be at least 1; got {self.shard_frames}")
        if not self.tolerance > 0:
            raise SkidpadError(f"the tolerance of a relation must be above 0; got {self.tolerance}")

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`."""
        return {
            "campaign": "deeptest",
            **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()},
        }

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
        for name in ("subject", "drive"):
            if name not in values:
                raise SkidpadError(f'the campaign lacks the setting {name!r}; add it, as {name} = "..."')
        return cls(**values)
