"""A bundled closed-loop drive, and how a subject does on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import degrees, isfinite
from pathlib import Path
from typing import Any

from skidpad.campaigns.bundles import Judgement, loaded
from skidpad.campaigns.online_loop import Wheel
from skidpad.campaigns.online_records import Case, build_records
from skidpad.campaigns.online_work import Rides
from skidpad.core.stimuli import Recipe
from skidpad.subjects.base import Subject
from skidpad.transforms import stimuli
from skidpad.workers.pinning import pinned
from skidpad.worlds.scenario_files import read_scenario


@dataclass(frozen=True, slots=True, eq=False)
class JudgedDrive:
    """A drive that was made for a judgement, as a row of the records."""

    rides: Rides
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DriveCheck:
    """A closed-loop drive: a scenario file, the recipe in front of the camera as JSON, the world, and the slot of the case."""

    scenario: str
    recipe: str
    world: str
    slot: int = 0

    def judge(self, folder: Path, subject: str | Path | Subject) -> Judgement:
        """Lets the subject steer; it must neither leave its lane nor touch anything."""
        asked, recipe = loaded(subject), Recipe.from_json(self.recipe)
        case = Case("bundle", read_scenario(folder / self.scenario), recipe.name, recipe, slot=self.slot)
        rides = Rides(asked, self.world, stimuli(dict.fromkeys(step.stimulus for step in recipe.steps)))
        with pinned():
            courses = rides.courses([case], Wheel.SUBJECT)
        row = build_records([case], courses, Wheel.SUBJECT, self.world, asked.sha256).to_pylist()[0]
        if row["problem"] and not row["violated"]:
            return Judgement(holds=False, said=row["problem"])
        times = [("leaves its lane", row["departed_at_s"]), ("touches something", row["collided_at_s"])]
        failures = [f"{what} after {time_s:.1f} s" for what, time_s in times if isfinite(time_s)]
        mae_deg = degrees(row["mae_rad"])
        strayed = f"strays {row['max_lateral_m']:.2f} m at most, {mae_deg:.2f} deg of the steering wheel from the truth on average"
        return Judgement(not row["violated"], "; ".join([*failures, strayed]), JudgedDrive(rides, row))
