"""The settings of a campaign: what the command line, a file and Python all fill in, and what a run stores."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, Self

from skidpad.core.errors import SkidpadError, UnknownNameError

_INFORMATION = frozenset({"campaign", "unit"})
"""What a stored config says beside the settings: the kind of campaign, and the unit of the answers."""


class StimulusOn(Enum):
    """Which of the frames that a subject with memory looks at are changed: all of them, as one condition, or the last."""

    WINDOW = "window"
    LAST_FRAME = "last-frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepTestSettings:
    """One DeepTest campaign.

    subject: path of a description. drive: text for `open_drive`. transforms: names; empty means all nine. searches: among `grid`,
    `greedy` and `random`, each a phase of the run. output: which of the subject's outputs is judged. relation: by default one that
    suits output and drive. tolerance: lambda of `label-mse`, degrees of `steers-alike`, the output's unit of `answers-alike`; by
    default the relation's own. threshold: of `decides-alike`. criteria: the first one guides the greedy search; a black box has
    none. profile_drive: the training drive that gives KMNC, NBC and SNAC their bounds. stimulus_on: for subjects with memory, see
    `StimulusOn`. seeds: how many frames, evenly spaced, `greedy` and `random` start from (0: all). shard_frames: frames a shard,
    the unit of resuming (0: 64, or more for a long memory).
    """

    subject: str
    drive: str
    transforms: tuple[str, ...] = ()
    searches: tuple[str, ...] = ("grid",)
    output: str = "steering"
    relation: str = ""
    tolerance: float | None = None
    threshold: float = 0.5
    criteria: tuple[str, ...] = ("nc",)
    profile_drive: str = ""
    stimulus_on: str = StimulusOn.WINDOW.value
    seeds: int = 100
    max_failed_tries: int = 10
    shard_frames: int = 0
    keep_activations: bool = False
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("seeds", "max_failed_tries", "shard_frames"):
            if getattr(self, name) < 0:
                raise SkidpadError(f"{name} must not be negative; got {getattr(self, name)}")
        if self.tolerance is not None and not self.tolerance > 0:
            raise SkidpadError(f"the tolerance of a relation must be above 0; got {self.tolerance}")
        kinds = [kind.value for kind in StimulusOn]
        if self.stimulus_on not in kinds:
            raise UnknownNameError.among("way to show a stimulus to a subject with memory", self.stimulus_on, kinds)

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`; a tolerance that is left to the relation is left out."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items() if value is not None}
        return {"campaign": "deeptest", **values}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads what `to_config` wrote; unknown and missing keys are errors."""
        known = {field.name for field in fields(cls)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in config.items() if name not in _INFORMATION
        }
        for name in values:
            if name not in known:
                raise UnknownNameError.among("setting", name, known)
        for name in ("subject", "drive"):
            if name not in values:
                raise SkidpadError(f'the campaign lacks the setting {name!r}; add it, as {name} = "..."')
        for field in fields(cls):
            if field.name in values:
                _check_kind(field.name, values[field.name], str(field.type))
        return cls(**values)


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "a text"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "bool": (bool, "true or false"),
    "tuple": (tuple, "a list of names"),
}


def _check_kind(name: str, value: object, annotation: str) -> None:
    kind, words = next(row for key, row in _KINDS.items() if annotation.startswith((key, f"<class '{key}'")))
    wrong_bool = isinstance(value, bool) and kind is not bool
    wrong_item = isinstance(value, tuple) and not all(isinstance(item, str) for item in value)
    if not isinstance(value, kind) or wrong_bool or wrong_item:
        raise SkidpadError(f"the setting {name!r} must be {words}; got {list(value) if isinstance(value, tuple) else value!r}")
