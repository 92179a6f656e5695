"""A bundled crash, and how an ego does on it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.highway.episodes import Episodes, Trace, trace
from skidpad.highway.evaluation import scenario_against
from skidpad.highway.layout import CRASH, ERROR, HEADING, SPEED, Side, X, Y
from skidpad.highway.opponents import ConstantActions, Idm
from skidpad.highway.scenario import Scenario as Highway
from skidpad.kinds.bundles import Evidence, Judgement
from skidpad.kinds.duels.drivers import open_policy
from skidpad.kinds.duels.film import Film, animation, film_strip, vehicle_name
from skidpad.kinds.duels.films import film_of
from skidpad.kinds.duels.records import joint_actions
from skidpad.kinds.duels.replaying import trace_of
from skidpad.kinds.duels.settings import GIVEN
from skidpad.kinds.duels.shrinking import play_scripts
from skidpad.page.svg import standalone, write_film
from skidpad.subjects.base import Subject

if TYPE_CHECKING:
    from skidpad.highway.episodes import Trace
    from skidpad.highway.scenario import Scenario
    from skidpad.kinds.duels.campaign import Duel
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.runs.folder import Run


@dataclass(frozen=True, slots=True, eq=False)
class JudgedDuel:
    """The one episode that was driven for a judgement."""

    suffix: ClassVar[str] = ".svg"

    driven: Episodes

    def draw(self, title: str, path: Path) -> None:
        """Draws the episode as a film strip."""
        drawn = film_strip("strip", title, Film(self.trace(), self.driven.scenario.lanes, *self.actions))
        write_atomically(path, standalone(drawn).encode())

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
    """A start and the front vehicles' actions, one letter each a policy step; the ego is a policy file or `module:function`."""

    kind: ClassVar[str] = "duel"

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
        script = tuple(joint_actions(self.front_actions, highway.fronts).tolist())
        driven = play_scripts(highway, ego, np.array(self.start), [script], self.seed, self.episode)
        if driven.outcomes[0] == ERROR:
            return Judgement(holds=False, said=f"the ego failed: {driven.failures[0].message}")
        crashed = bool(driven.outcomes[0] == CRASH)
        said = f"{'crashes' if crashed else 'does not crash'} within {int(driven.steps[0])} policy steps"
        return Judgement(not crashed, said, JudgedDuel(driven))


_SCENARIO, _COURSE, _EGO = "scenario.json", "course.csv", "ego.safetensors"


@dataclass(frozen=True)
class DuelExporter:
    """Shows the episodes of a run."""

    campaign: Duel
    run: Run

    @cached_property
    def _work(self) -> DuelWork:
        return self.campaign.work(self.run)

    def draw(self, row: Mapping[str, Any], folder: Path, stem: str) -> tuple[Path, ...]:
        """Draws a film strip and the same moving."""
        film = film_of(self._work, row, self._trace(row))
        title = f"{row['ego']} against {row['front']}"
        return write_film(folder / f"{stem}.svg", film_strip("strip", title, film), animation("moving", title, film))

    def export(self, row: Mapping[str, Any], folder: Path) -> Evidence:
        """Writes the film, the scenario, the course and the ego's policy."""
        self.draw(row, folder, "strip")
        (folder / _SCENARIO).write_text(self._scenario(row).to_json() + "\n", encoding="utf-8")
        _write_course(self._trace(row), folder / _COURSE)
        files = {
            "strip.svg": "moments of the episode",
            "strip.moving.svg": "the episode, moving",
            _SCENARIO: "the highway and its traffic",
            _COURSE: "all vehicles at every simulation step",
        }
        subject = self.campaign.settings.ego if row["ego"] == GIVEN else ""
        if not subject and row["ego"] in self._trained():
            write_atomically(folder / _EGO, self._work.drivers.policy_file(row["ego"]).read_bytes())
            files[_EGO] = "the ego's policy"
            subject = _EGO
        closing = f"closing in at {row['closing_mps']:.1f} m/s" if row["violated"] else row["outcome"]
        is_scripted = bool(row["front_actions"]) and bool(subject)
        return Evidence(
            title=f"{row['ego']} against {row['front']} in {row['scenario']}, episode {row['episode']} of seed {row['seed']}",
            said=f"the ego crashes after {row['impact_s']:.1f} s, {closing}" if row["violated"] else closing,
            subject=subject,
            files=files,
            recipe={"start": list(row["start"]), "front_actions": row["front_actions"], "seed": row["seed"], "episode": row["episode"]},
            answers={name: row[name] for name in ("outcome", "steps", "ego_actions", "impact_s", "closing_mps", "avoidable_until_s")},
            check=DuelCheck(_SCENARIO, tuple(row["start"]), row["front_actions"], row["seed"], row["episode"]) if is_scripted else None,
        )

    def _trained(self) -> set[str]:
        return {path.stem for path in (self.run.path / "policies").glob("*.safetensors")}

    def _scenario(self, row: Mapping[str, Any]) -> Scenario:
        arena = self._work.arena
        # a shrunk case has a script in front, whose name no driver of the run bears
        is_idm = not row["front_actions"] and isinstance(self._work.drivers.front(row["front"]), Idm)
        return scenario_against(arena.pretraining, Idm()) if is_idm else scenario_against(arena.scenario, ConstantActions())

    def _trace(self, row: Mapping[str, Any]) -> Trace:
        trace = trace_of(row, self._scenario(row))
        if trace is None:
            raise SkidpadError("this episode was driven in a scene of highway-env, which has no film; only those of the engine are drawn")
        return trace


def _write_course(trace: Trace, path: Path) -> None:
    columns = {"x_m": X, "y_m": Y, "speed_mps": SPEED, "heading_rad": HEADING}
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        vehicles = range(trace.states.shape[1])
        table.writerow(("time_s", *(f"{vehicle_name(side)}_{name}" for side in vehicles for name in columns)))
        for time_s, state in zip(trace.times_s.tolist(), trace.states, strict=True):
            table.writerow((f"{time_s:.3f}", *(repr(float(state[side, at])) for side in vehicles for at in columns.values())))
