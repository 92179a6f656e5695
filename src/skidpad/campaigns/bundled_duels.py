"""A bundled crash, and how an ego does on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skidpad.campaigns.bundles import Judgement
from skidpad.campaigns.duel_drivers import open_policy
from skidpad.campaigns.duel_records import LETTERS
from skidpad.campaigns.shrinking_duels import play_scripts
from skidpad.core.errors import SkidpadError
from skidpad.duels.episodes import Episodes
from skidpad.duels.layout import CRASH, ERROR, Side
from skidpad.duels.scenario import Scenario as Highway
from skidpad.duels.tracing import Trace, trace
from skidpad.subjects.base import Subject


@dataclass(frozen=True, slots=True, eq=False)
class JudgedDuel:
    """The one episode that was driven for a judgement."""

    driven: Episodes

    def trace(self) -> Trace:
        """Returns the states along what both did."""
        return trace(self.driven.scenario, self.driven.starts[0], *(np.array(actions, np.int64) for actions in self.actions))

    @property
    def actions(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What ego and front did at each policy step."""
        steps = int(self.driven.steps[0])
        ego, front = (tuple(row[0, :steps].tolist()) for row in (self.driven.ego_actions, self.driven.front_actions))
        return ego, front


@dataclass(frozen=True, slots=True)
class DuelCheck:
    """A start and the front vehicle's actions, one letter a policy step; the ego is a policy file or `module:function`."""

    scenario: str
    start: tuple[float, ...]
    front_actions: str
    seed: int
    episode: int

    def judge(self, folder: Path, subject: str | Path | Subject) -> Judgement:
        """Lets the ego drive behind a front vehicle that does what it did; it must not crash."""
        if not isinstance(subject, str | Path):
            raise SkidpadError("a duel is driven by a policy: name its .safetensors file, or module:function")
        highway = Highway.from_json((folder / self.scenario).read_text(encoding="utf-8"))
        beside = folder / subject
        ego, _ = open_policy(str(beside if beside.is_file() else subject), Side.EGO, highway)
        script = tuple(LETTERS.index(letter) for letter in self.front_actions)
        driven = play_scripts(highway, ego, np.array(self.start), [script], self.seed, self.episode)
        if driven.outcomes[0] == ERROR:
            return Judgement(holds=False, said=f"the ego failed: {driven.failures[0].message}")
        crashed = bool(driven.outcomes[0] == CRASH)
        said = f"{'crashes' if crashed else 'does not crash'} within {int(driven.steps[0])} policy steps"
        return Judgement(not crashed, said, JudgedDuel(driven))
