"""An episode of a duel run, driven again: once from its recorded actions, once by asking both drivers again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.highway.episodes import Trace, trace
from skidpad.highway.evaluation import evaluate_starts, scenario_against
from skidpad.highway.layout import Side
from skidpad.highway.opponents import Idm, RandomActions
from skidpad.kinds.duels.records import Bout, actions_of, build_records
from skidpad.kinds.estimating import PHASE
from skidpad.page.svg import write_film
from skidpad.runs.manifest import VersionChange
from skidpad.runs.replay import Replayed, Reproduction

if TYPE_CHECKING:
    from skidpad.highway.episodes import Episodes
    from skidpad.highway.opponents import Driver, Opponent, PlannedActions
    from skidpad.highway.scenario import Scenario
    from skidpad.kinds.duels.campaign import Duel
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.runs.folder import Run


_MEASURED = ("ego_mps", "front_mps", "impact_s", "avoidable_until_s")
_COMPARED = ("outcome", "steps", "ego_actions", "front_actions", *_MEASURED, "first_break", "problem")

BOUND = 1e-6
"""How far a number of an episode on another processor may lie from the run's, as a part of it; with the same actions, only rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class DuelReplay:
    """A record, the same computed again, and the states along the recorded actions; no states where a scene was played."""

    row: Mapping[str, Any]
    again: Mapping[str, Any]
    scenario: Scenario
    trace: Trace | None
    version_changes: tuple[VersionChange, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """The columns that came out differently, to the last bit."""
        return tuple(name for name in _COMPARED if not _same(self.row[name], self.again[name]))

    @property
    def reproduction(self) -> Reproduction:
        """Compares every column; on another processor numbers may differ in their last digits, actions and outcome may not."""
        near = all(name in _MEASURED and isclose(self.row[name], self.again[name], rel_tol=BOUND) for name in self.differences)
        return Reproduction(self.differences, near, f"{BOUND:g} of each number", self.version_changes)

    @property
    def is_reproduced(self) -> bool:
        """Tells whether the episode is that of the run."""
        return self.reproduction.is_reproduced


def replay_episode(work: DuelWork, prefix: str) -> DuelReplay:
    """Drives the episode whose case id begins with `prefix` again."""
    row = work.run.find_row(prefix)
    ego, front = work.drivers.tested_ego(row["ego"]), work.drivers.front(row["front"])
    hashes = work.drivers.hash(row["ego"], Side.EGO), work.drivers.hash(row["front"], Side.FRONT)
    scenario = scenario_against(work.arena.pretraining if isinstance(front, Idm) else work.arena.scenario, front)
    if row["family"] == PHASE:
        episodes = _from_start(row, scenario, ego, front)
    else:
        episodes = work.arena.drive(ego, front, 1, row["seed"], row["episode"])
    bout = Bout(row["family"], row["column"], row["ego"], row["front"], row["training"], row["test"], 1, row["seed"], row["episode"])
    again = build_records(bout, episodes, *hashes).to_pylist()[0]
    return DuelReplay(row, again, scenario, trace_of(row, scenario), work.run.manifest.changes())


def _from_start(row: Mapping[str, Any], scenario: Scenario, ego: Driver | PlannedActions, front: Opponent) -> Episodes:
    """Drives a duel of an estimate, whose start and random front no seed decides."""
    start, number = np.array([row["start"]], np.float64), np.array([row["episode"]])
    played = actions_of(row["front_actions"], row["steps"])[None].astype(np.int8) if isinstance(front, RandomActions) else None
    return evaluate_starts(scenario, ego, front, start, row["seed"], number, played=played)


_SHOWN = ("outcome", "steps", "ego_actions", "front_actions", "ego_mps", "front_mps", "impact_s", "avoidable_until_s", "first_break")


def replay_finding(campaign: Duel, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Drives an episode again, from its actions and by asking both drivers, and compares everything; draws it where asked."""
    work = campaign.work(run)
    result = replay_episode(work, finding)
    row = result.row
    drawn: tuple[Path, ...] = () if picture is None else _write_film(work, result, picture)
    return Replayed(
        title=f"{row['case_id']}: {row['ego']} against {row['front']}",
        rows=tuple((name, row[name], result.again[name]) for name in _SHOWN),
        figures={
            "case_id": row["case_id"],
            "ego": row["ego"],
            "front": row["front"],
            **{name: result.again[name] for name in _SHOWN},
            "pictures": [str(path) for path in drawn],
        },
        reproduction=result.reproduction,
        remarks=("this episode ended without a crash",) if drawn and not row["violated"] else (),
        pictures=drawn,
    )


def _write_film(work: DuelWork, result: DuelReplay, path: Path) -> tuple[Path, Path]:
    """Writes the film strip and the animation; returns both paths."""
    from skidpad.kinds.duels.film import animation, film_strip  # noqa: PLC0415  films are drawn from replays
    from skidpad.kinds.duels.films import film_of  # noqa: PLC0415  see above

    if result.trace is None:
        raise SkidpadError("episodes in a scene of highway-env cannot be drawn; choose one from the built-in highway")
    film = film_of(work, result.row, result.trace)
    title = f"{result.row['ego']} against {result.row['front']}"
    return write_film(path, film_strip("strip", title, film), animation("moving", title, film))


def trace_of(row: Mapping[str, Any], scenario: Scenario) -> Trace | None:
    """Drives a record's actions from its start; None where the engine cannot, in a scene of highway-env."""
    start = np.array(row["start"], np.float64)
    if not np.isfinite(start).all():
        return None
    steps = row["steps"]
    return trace(scenario, start, actions_of(row["ego_actions"], steps), actions_of(row["front_actions"], steps))


def _same(stored: object, now: object) -> bool:
    both_nan = isinstance(stored, float) and isinstance(now, float) and not isfinite(stored) and not isfinite(now)
    return stored == now or both_nan
