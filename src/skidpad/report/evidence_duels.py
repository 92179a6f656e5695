"""Crashes of duels: the film, the scenario, both vehicles' actions, and the ego's policy where it is a file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skidpad.campaigns.bundled_duels import DuelCheck
from skidpad.campaigns.duel_replaying import trace_of
from skidpad.campaigns.duel_settings import GIVEN
from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.duels.evaluation import scenario_against
from skidpad.duels.layout import EGO, FRONT, HEADING, SPEED, X, Y
from skidpad.duels.opponents import ConstantActions, Idm
from skidpad.report.duel_film import animation, film_strip, standalone
from skidpad.report.duel_films import film_of
from skidpad.report.evidence import WITNESSES, Evidence

if TYPE_CHECKING:
    from skidpad.campaigns.duel import Duel
    from skidpad.campaigns.duel_phases import DuelWork
    from skidpad.duels.scenario import Scenario
    from skidpad.duels.tracing import Trace
    from skidpad.runs.folder import Run

_SCENARIO, _COURSE, _EGO = "scenario.json", "course.csv", "ego.safetensors"


@WITNESSES.register("duel")
@dataclass(frozen=True)
class DuelWitness:
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
        paths = folder / f"{stem}.svg", folder / f"{stem}.moving.svg"
        folder.mkdir(parents=True, exist_ok=True)
        for path, drawn in zip(paths, (film_strip("strip", title, film), animation("moving", title, film)), strict=True):
            write_atomically(path, standalone(drawn).encode())
        return paths

    def testify(self, row: Mapping[str, Any], folder: Path) -> Evidence:
        """Writes the film, the scenario, the course and the ego's policy."""
        self.draw(row, folder, "strip")
        (folder / _SCENARIO).write_text(self._scenario(row).to_json() + "\n", encoding="utf-8")
        _write_course(self._trace(row), folder / _COURSE)
        files = {
            "strip.svg": "moments of the episode",
            "strip.moving.svg": "the episode, moving",
            _SCENARIO: "the highway and its traffic",
            _COURSE: "both vehicles at every simulation step",
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
        table.writerow(("time_s", *(f"{who}_{name}" for who in ("ego", "front") for name in columns)))
        for time_s, state in zip(trace.times_s.tolist(), trace.states, strict=True):
            table.writerow((f"{time_s:.3f}", *(repr(float(state[side, at])) for side in (EGO, FRONT) for at in columns.values())))
