"""The settings of a campaign: what the command line, a file and Python all fill in, and what a run stores."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

from skidpad.core.settings import Natural, OneOf, Positive
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse
from skidpad.stimuli.registry import Preset

NOTES = frozenset({"unit"})
"""What a stored config says beside the settings: the unit of the answers."""


class StimulusOn(Enum):
    """Which of the frames that a subject with memory looks at are changed: all of them, as one condition, or the last."""

    WINDOW = "window"
    LAST_FRAME = "last-frame"


StimulusOnName = Annotated[str, OneOf("way to show a stimulus to a subject with memory", StimulusOn)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepTestSettings(CampaignSettings):
    """One DeepTest campaign.

    subject: path of a description. drive: text for `open_drive`. transforms: names; empty: the preset's. searches: among `grid`,
    `greedy` and `random`, each a phase of the run. output: which of the subject's outputs is judged. relation: by default one that
    suits output and drive. tolerance: lambda of `label-mse`, degrees of `steers-alike`, the output's unit of `answers-alike`; by
    default the relation's own. threshold: of `decides-alike`. criteria: the first one guides the greedy search; a black box has
    none. profile_drive: the training drive that gives KMNC, NBC and SNAC their bounds. stimulus_on: for subjects with memory, see
    `StimulusOn`. seeds: how many frames, evenly spaced, `greedy` and `random` start from (0: all). shard_frames: frames a shard,
    the unit of resuming (0: 64, or more for a long memory).
    """

    campaign: ClassVar = "deeptest"
    notes: ClassVar = NOTES
    former: ClassVar = {"preset": Preset.DEEPTEST.value, "referee": RefereeUse.OFF.value}

    subject: str
    drive: str
    transforms: tuple[str, ...] = ()
    preset: Annotated[str, OneOf("preset", Preset)] = Preset.CONDITIONS.value
    searches: tuple[str, ...] = ("grid",)
    output: str = "steering"
    relation: str = ""
    tolerance: Positive | None = None
    threshold: float = 0.5
    criteria: tuple[str, ...] = ("nc",)
    profile_drive: str = ""
    stimulus_on: StimulusOnName = StimulusOn.WINDOW.value
    seeds: Natural = 100
    max_failed_tries: Natural = 10
    shard_frames: Natural = 0
    keep_activations: bool = False
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"
