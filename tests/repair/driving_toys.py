"""A world in which a bar shows what a careful driver would steer, and a toy network that knows left bends alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from repair_toys import HEIGHT_PX, WIDTH_PX, trained_subject, write_drive

from skidpad.core.images import BoolArray, FloatArray, NumpyFrames
from skidpad.drives.opening import open_drive
from skidpad.kinds.drives.campaign import Online, OnlineSettings
from skidpad.repairs.driving.plan import DrivingSettings
from skidpad.runs.folder import Run
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.worlds.scenario.scenario import RoadKind, Scenario, Side
from skidpad.worlds.world import STEP_S, EgoState

BARS = "bars"
WIDEST_RAD = 0.5


def needed_rad(scenario: Scenario) -> float:
    """Returns the steering that a scenario's road takes: more in tighter bends."""
    if scenario.road.kind is not RoadKind.CURVED:
        return 0.0
    return (1.0 if scenario.road.side is Side.LEFT else -1.0) * min(0.4, 25.0 / scenario.road.radius_m)


class BarWorld:
    """Wrong steering moves a car aside; the bar of its picture stands where the careful driver would steer to."""

    frame_shape = (HEIGHT_PX, WIDTH_PX)

    def __init__(self, width: int, _threads: int) -> None:
        self.width = width

    def reset(self, scenarios: Sequence[Scenario]) -> EgoState:
        self._needed = np.array([needed_rad(scenario) for scenario in scenarios])
        self._lateral = np.zeros(len(scenarios))
        return self._state()

    def frames(self, wanted: BoolArray | None = None) -> NumpyFrames:
        frames = np.full((len(self._needed), HEIGHT_PX, WIDTH_PX, 3), 60, np.uint8)
        for car, angle in enumerate(self.truth_rad().tolist()):
            column = round((angle / WIDEST_RAD + 1.0) / 2.0 * (WIDTH_PX - 6))
            frames[car, 4:, column : column + 6] = 150
        return frames

    def step(self, steering_rad: FloatArray) -> EgoState:
        self._lateral = self._lateral + 4.0 * (steering_rad - self._needed) * STEP_S
        return self._state()

    def lateral_m(self) -> FloatArray:
        return self._lateral

    def truth_rad(self) -> FloatArray:
        return np.clip(self._needed - 0.1 * self._lateral, -0.45, 0.45)

    def collided(self) -> BoolArray:
        return np.zeros(len(self._needed), np.bool_)

    def _state(self) -> EgoState:
        count = len(self._needed)
        return EgoState(np.zeros((count, 3)), np.full(count, 10.0), np.zeros(count))


@dataclass(frozen=True)
class Course:
    """A toy that learned left bends alone, the drive that it learned them from, and its run over both kinds of bends."""

    folder: Path
    toml: Path
    subject: NetworkSubject
    drive: str
    run: Run


def course(folder: Path) -> Course:
    text = write_drive(folder / "drive", 90)
    table = folder / "drive" / "labels.csv"
    head, *rows = table.read_text().splitlines()
    table.write_text("\n".join([head, *(row for row in rows if float(row.split(",")[1]) > -0.02)]) + "\n")
    subject = trained_subject(open_drive(text), folder / "lefty", epochs=30)
    return Course(folder, folder / "lefty.toml", subject, text, run_over(folder / "lefty.toml", folder / "run"))


def run_over(toml: Path, out: Path, **changes: object) -> Run:
    given = {"world": BARS, "domain": "restricted", "scenarios": 16, "seconds": 2.0, "seed": 5, **changes}
    campaign = Online.load(OnlineSettings(subject=str(toml), **given))
    run = campaign.start(out)
    campaign.execute(run)
    return run


def quick(course: Course, **changes: object) -> DrivingSettings:
    given = {
        "rounds": 2,
        "scenarios": 12,
        "validation_scenarios": 12,
        "judged_scenarios": 16,
        "every_steps": 2,
        "train_drive": course.drive,
        "epochs": 16,
        "learning_rate": 4e-3,
        "batch_size": 16,
        "mirror": False,
        "most_cost": 5.0,
    }
    return DrivingSettings(**{**given, **changes})
