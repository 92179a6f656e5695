"""A bundled closed-loop drive, and how a subject does on it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import degrees, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skidpad.core.errors import MissingExtraError
from skidpad.core.files import write_atomically
from skidpad.core.images import write_image
from skidpad.core.stimuli import Recipe
from skidpad.kinds.bundles import Evidence, Judgement, loaded
from skidpad.kinds.drives.campaign import features_of
from skidpad.kinds.drives.filmstrip import DriveFilm, film_of, moving, strip, told
from skidpad.kinds.drives.loop import Wheel
from skidpad.kinds.drives.records import Case, build_records, unpack
from skidpad.kinds.drives.work import ClosedLoopRunner
from skidpad.page.svg import standalone, write_film
from skidpad.runs.workers.here import pinned
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.base import Subject
from skidpad.worlds.openx.openscenario import export_scenario
from skidpad.worlds.scenario.files import read_scenario, write_scenario
from skidpad.worlds.world import STEP_S

if TYPE_CHECKING:
    from skidpad.kinds.drives.replaying import DriveCampaign
    from skidpad.runs.folder import Run


@dataclass(frozen=True, slots=True, eq=False)
class JudgedDrive:
    """A drive that was made for a judgement, as a row of the records."""

    suffix: ClassVar[str] = ".svg"

    runner: ClosedLoopRunner
    row: Mapping[str, Any]

    def draw(self, title: str, path: Path) -> None:
        """Draws the drive as a film strip."""
        write_atomically(path, standalone(strip("strip", title, film_of(self.runner, self.row))).encode())


@dataclass(frozen=True, slots=True)
class DriveCheck:
    """A closed-loop drive: a scenario file, the recipe in front of the camera as JSON, the world, and the slot of the case."""

    kind: ClassVar[str] = "drive"

    scenario: str
    recipe: str
    world: str
    slot: int = 0

    def judge(self, folder: Path, subject: str | Path | Subject) -> Judgement:
        """Lets the subject steer; it must neither leave its lane nor touch anything."""
        asked, recipe = loaded(subject), Recipe.from_json(self.recipe)
        case = Case("bundle", read_scenario(folder / self.scenario), recipe.name, recipe, slot=self.slot)
        runner = ClosedLoopRunner(asked, self.world, stimuli(dict.fromkeys(step.stimulus for step in recipe.steps)))
        with pinned():
            courses = runner.courses([case], Wheel.SUBJECT)
        row = build_records([case], courses, Wheel.SUBJECT, self.world, asked.sha256).to_pylist()[0]
        if row["problem"] and not row["violated"]:
            return Judgement(holds=False, said=row["problem"])
        times = [("leaves its lane", row["departed_at_s"]), ("touches something", row["collided_at_s"])]
        failures = [f"{what} after {time_s:.1f} s" for what, time_s in times if isfinite(time_s)]
        mae_deg = degrees(row["mae_rad"])
        strayed = f"strays {row['max_lateral_m']:.2f} m at most, {mae_deg:.2f} deg of the steering wheel from the truth on average"
        return Judgement(not row["violated"], "; ".join([*failures, strayed]), JudgedDrive(runner, row))


_SCENARIO, _RECIPE, _COURSE = "scenario.toml", "recipe.json", "course.csv"


@dataclass(frozen=True)
class DriveExporter:
    """Shows the drives of a run."""

    campaign: DriveCampaign
    run: Run

    def draw(self, row: Mapping[str, Any], folder: Path, stem: str) -> tuple[Path, ...]:
        """Draws a film strip and the same moving."""
        return _draw(film_of(self.campaign.runner, row), row, folder, stem)

    def export(self, row: Mapping[str, Any], folder: Path) -> Evidence:
        """Writes the film, the frames of its strip, the scenario, the road and the course."""
        case = Case.from_row(row)
        film = film_of(self.campaign.runner, row)
        _draw(film, row, folder, "strip")
        files = {"strip.svg": "moments of the drive", "strip.moving.svg": "its last seconds, moving"}
        for step in film.stills:
            name = f"frames/{step * STEP_S:05.2f}s.png"
            write_image(folder / name, film.pictures[step])
            files[name] = "what the subject saw"
        write_scenario(folder / _SCENARIO, case.scenario)
        (folder / _RECIPE).write_text(json.dumps(json.loads(row["recipe"]), indent=2) + "\n", encoding="utf-8")
        files |= {_SCENARIO: "the scenario, for `skidpad drive --scenario`", _RECIPE: "what sat in front of the camera"}
        files |= _asam(case, folder)
        _write_course(row, folder / _COURSE)
        files[_COURSE] = "place in the lane, answer and truth at every frame"
        times = (("left its lane", row["departed_at_s"]), ("touched something", row["collided_at_s"]))
        failures = " and ".join(f"{what} after {time_s:.1f} s" for what, time_s in times if isfinite(time_s))
        return Evidence(
            title=f"{row['scenario_name']}, {row['condition']}: {features_of(json.loads(row['scenario']))}",
            said=f"the car {failures}" if failures else told(film),
            subject=str(self.run.config.get("subject", "")),
            files=files,
            recipe=json.loads(row["recipe"]),
            answers={name: row[name] for name in ("mdcl", "max_lateral_m", "departed_at_s", "collided_at_s", "mae_rad", "excess")},
            check=DriveCheck(_SCENARIO, row["recipe"], self.campaign.runner.world, case.slot),
        )


def _draw(film: DriveFilm, row: Mapping[str, Any], folder: Path, stem: str) -> tuple[Path, ...]:
    title = f"{row['scenario_name']}, {row['condition']}"
    return write_film(folder / f"{stem}.svg", strip("strip", title, film), moving("moving", title, film))


def _asam(case: Case, folder: Path) -> dict[str, str]:
    """Writes OpenDRIVE and OpenSCENARIO; a bundle without the extra that writes them is still a bundle."""
    try:
        made = export_scenario(case.scenario, folder)
    except MissingExtraError:
        return {}
    return {made.opendrive.name: "the road as ASAM OpenDRIVE", made.openscenario.name: "the scenario as ASAM OpenSCENARIO"}


def _write_course(row: Mapping[str, Any], path: Path) -> None:
    series = [unpack(row[name]).tolist() for name in ("lateral_m", "answers_rad", "truth_rad")]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("time_s", "lateral_m", "answer_rad", "truth_rad"))
        table.writerows((f"{step * STEP_S:.2f}", *map(repr, values)) for step, values in enumerate(zip(*series, strict=True)))
