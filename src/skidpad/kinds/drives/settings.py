"""The settings of a closed-loop campaign: who drives, where, through what, how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from skidpad.core.errors import SkidpadError
from skidpad.core.settings import Count, Natural, OneOf, Within
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse
from skidpad.statistics.rare import Method


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSettings(CampaignSettings):
    """One campaign of closed-loop drives.

    subject: path of a description. world: a row of WORLDS. domain, scenarios: so many are drawn from this domain model, unless `files`
    names scenario files. stimuli: what sits in front of the camera, each a condition of its own (see `stimuli.registry`); without any,
    nothing does. repeats: of every case. seconds: how long each drive lasts (0: as long as its scenario says). width: scenarios side
    by side, a matter of speed alone (0: 16, on a GPU 128). searches: searches over scenarios; each looks for scenarios of the domain in
    which the subject fails and tries `scenarios` of them, instead of those that are drawn; it learns after every `width` (0: 8).
    estimate: a method of `statistics.rare`, which tells how likely a failure is in the domain, from at most `scenarios` drives; stop_below,
    within: when it may stop earlier (see `rare.Goal`); "" for no estimate.
    """

    campaign: ClassVar = "online"

    subject: str
    world: str = "built-in"
    domain: str = "restricted"
    scenarios: Count = 50
    files: tuple[str, ...] = ()
    stimuli: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    estimate: Annotated[str, OneOf("method of estimating", ("", *(method.value for method in Method)))] = ""
    stop_below: Annotated[float, Within(least=0)] = 0.0
    within: Annotated[float, Within(least=0)] = 0.3
    repeats: Count = 1
    seconds: Annotated[float, Within(least=0)] = 20.0
    width: Natural = 0
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if self.searches and (self.files or self.stimuli or self.repeats > 1):
            raise SkidpadError("a search makes its own scenarios and drives each once; leave out scenario files, stimuli and repeats")
        if self.estimate and (self.searches or self.files or self.stimuli or self.repeats > 1):
            raise SkidpadError("an estimate draws its own scenarios and drives each once; leave out searches, files, stimuli and repeats")
        if len(set(self.searches)) != len(self.searches):
            raise SkidpadError(f"each search is named once; got {', '.join(self.searches)}")
        if self.seconds:
            check_seconds(self.seconds)


def check_seconds(seconds: float) -> None:
    """Refuses drives shorter or longer than a scenario can be."""
    if not 1.0 <= seconds <= 120.0:
        raise SkidpadError(f"a drive lasts 1 to 120 s; got {seconds:g} s")
