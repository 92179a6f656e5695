"""The settings of a closed-loop campaign: who drives, where, through what, how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from skidpad.core.errors import SkidpadError, UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSettings:
    """One campaign of closed-loop drives.

    subject: path of a description. world: a row of WORLDS. domain, scenarios: so many are drawn from this domain model, unless `files`
    names scenario files. stimuli: what sits in front of the camera, each a condition of its own (see `stimuli.grammar`); without any,
    nothing does. repeats: of every case. seconds: how long each drive lasts (0: as long as its scenario says). width: scenarios side
    by side, a matter of speed alone (0: 16, on a GPU 128). searches: rows of VECTOR_SEARCHES; each looks for scenarios of the domain in
    which the subject fails and tries `scenarios` of them, instead of those that are drawn; it learns after every `width` (0: 8).
    """

    subject: str
    world: str = "built-in"
    domain: str = "restricted"
    scenarios: int = 50
    files: tuple[str, ...] = ()
    stimuli: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    repeats: int = 1
    seconds: float = 20.0
    width: int = 0
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("scenarios", "repeats"):
            if getattr(self, name) < 1:
                raise SkidpadError(f"{name} is at least 1; got {getattr(self, name)}")
        if self.width < 0:
            raise SkidpadError(f"width must not be negative; got {self.width}")
        if self.searches and (self.files or self.stimuli or self.repeats > 1):
            raise SkidpadError("a search makes its own scenarios and drives each once; leave out scenario files, stimuli and repeats")
        if len(set(self.searches)) != len(self.searches):
            raise SkidpadError(f"each search is named once; got {', '.join(self.searches)}")
        if self.seconds:
            check_seconds(self.seconds)

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`."""
        return {"campaign": "online", **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads what `to_config` wrote; unknown keys are errors, missing ones keep their default."""
        return cls(**read_settings(config, {field.name for field in fields(cls)}))


def check_seconds(seconds: float) -> None:
    """Refuses drives shorter or longer than a scenario can be."""
    if not 1.0 <= seconds <= 120.0:
        raise SkidpadError(f"a drive lasts 1 to 120 s; got {seconds:g} s")


def read_settings(config: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """Returns the values of a config for settings of these names, lists as tuples; refuses other names, and one without a subject."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in config.items() if name != "campaign"
    }
    for name in values:
        if name not in known:
            raise UnknownNameError.among("setting", name, known)
    if not isinstance(values.get("subject"), str):
        raise SkidpadError("the campaign lacks the setting 'subject'; add it, as subject = \"model.toml\"")
    return values
