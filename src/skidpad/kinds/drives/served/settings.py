"""The settings of served drives: which simulator is played, for whom, through what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from skidpad.core.settings import Count, OneOf, Within, check
from skidpad.kinds.drives.settings import check_seconds
from skidpad.kinds.kind import CampaignSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSettings(CampaignSettings):
    """One campaign of drives that an outside client steers.

    simulator: udacity or donkey. name: what the report calls the client. host, port: where it is met (port 0: the simulator's own).
    connects: whether a Donkey client listens and is connected to. domain, scenarios, files, stimuli, repeats, seconds: as of a closed-loop
    campaign. timeout_s: how long an answer may take. wait_s: how long to wait for a client. realtime: 20 steps a second at most.
    """

    campaign: ClassVar = "served"

    simulator: Annotated[str, OneOf("simulator", ("udacity", "donkey"))] = "udacity"
    name: str = ""
    host: str = "127.0.0.1"
    port: Annotated[int, Within(least=0, most=65535)] = 0
    connects: bool = False
    domain: str = "restricted"
    scenarios: Count = 10
    files: tuple[str, ...] = ()
    stimuli: tuple[str, ...] = ()
    repeats: Count = 1
    seconds: Annotated[float, Within(least=0)] = 20.0
    timeout_s: Annotated[float, Within(above=0)] = 15.0
    wait_s: Annotated[float, Within(above=0)] = 300.0
    realtime: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check(self)
        if self.seconds:
            check_seconds(self.seconds)

    @property
    def world(self) -> str:
        """The world that a served drive takes place in, a row of WORLDS."""
        return self.simulator

    @property
    def searches(self) -> tuple[str, ...]:
        """None: nobody waits for a search over somebody else's program."""
        return ()
