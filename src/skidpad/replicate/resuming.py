"""Going on with a run that an earlier call of a replication left."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.core.errors import BadRunError

if TYPE_CHECKING:
    from skidpad.campaigns.deeproad_settings import DeepRoadSettings
    from skidpad.campaigns.tactic_settings import TacticSettings


def check_settings(path: Path, then: DeepRoadSettings | TacticSettings, now: DeepRoadSettings | TacticSettings) -> None:
    """Refuses to go on with a run under other settings than it was begun with, and names them."""
    before, after = asdict(then), asdict(now)
    other = [f"{name} was {before[name]!r} and is {after[name]!r}" for name in after if before.get(name) != after[name]]
    if other:
        raise BadRunError(
            f"{path} holds a run with other settings ({'; '.join(other)}); choose another --out, or repeat the settings of that run"
        )
