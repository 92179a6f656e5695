"""What the settings of every kind of campaign share: how a run stores them and how they are read again."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, Self

from skidpad.core.settings import OneOf, plain, read


class RefereeUse(Enum):
    """Whether the referee is asked if a finding's picture still shows the same scene; without it every finding counts, as in the papers."""

    ON = "on"
    OFF = "off"


def asks_referee(setting: str) -> bool:
    """Tells whether a setting asks the referee."""
    return setting == RefereeUse.ON.value


RefereeName = Annotated[str, OneOf("use of the referee", RefereeUse)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSettings:
    """Settings of one kind of campaign; a subclass is a frozen dataclass whose annotations say what its fields may be.

    campaign: the name of the kind. notes: what a stored config says beside the settings.
    """

    campaign: ClassVar[str]
    notes: ClassVar[frozenset[str]] = frozenset({"campaign"})

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`; what is None is left out."""
        return {"campaign": self.campaign, **plain(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads what `to_config` wrote; keys left out keep their default, unknown ones and wrong values are errors."""
        return read(cls, {name: value for name, value in config.items() if name not in cls.notes}, "the campaign", noun="setting")
