"""What rules and rankings know of a drive before it is driven: road, speed, weather, surroundings, and what sits in front of the camera."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.kinds.ruling import failed_of, judged_rows, recipe_traits
from skidpad.statistics.rules import Cases, Trait
from skidpad.worlds.render.weather import visibility_m
from skidpad.worlds.scenario.features import lateral_m_s2
from skidpad.worlds.scenario.scenario import RoadKind, Scenario
from skidpad.worlds.scenario.tables import scenario_of

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


def _radius_m(scenario: Scenario) -> float:
    return scenario.road.radius_m if scenario.road.kind is RoadKind.CURVED else nan


def _road(scenario: Scenario) -> str:
    road = scenario.road
    return f"a bend to the {road.side.value}" if road.kind is RoadKind.CURVED else road.kind.value


def _sun_deg(scenario: Scenario) -> float:
    return nan if scenario.conditions.night else scenario.conditions.sun_elevation_deg


def _turned_deg(scenario: Scenario) -> float:
    return scenario.road.turn_deg if scenario.road.kind is RoadKind.CURVED else nan


_NUMBERS: tuple[tuple[str, str, str, str, Callable[[Scenario], float]], ...] = (
    ("the bend's radius", "m", "the bend is tighter than {}", "the bend is wider than {}", _radius_m),
    ("the bend's turn", "degrees", "the bend turns by less than {}", "the bend turns by at least {}", _turned_deg),
    ("the speed", "m/s", "", "", lambda s: s.ego.speed_m_s),
    ("the push sideways", "m/s²", "", "", lateral_m_s2),
    ("the visibility", "m", "", "", lambda s: visibility_m(s.conditions)),
    ("the sun's elevation", "degrees", "", "", _sun_deg),
    ("the lane's width", "m", "", "", lambda s: s.road.lane_width_m),
    ("the density of trees", "", "", "", lambda s: s.surroundings.trees),
    ("the density of buildings", "", "", "", lambda s: s.surroundings.buildings),
    ("the number of other vehicles", "", "", "", lambda s: float(len(s.vehicles))),
    ("the number of pedestrians", "", "", "", lambda s: float(len(s.pedestrians))),
)
_TEXTS: tuple[tuple[str, Callable[[Scenario], str]], ...] = (
    ("the road", _road),
    ("the weather", lambda s: s.conditions.weather.value),
    ("the time", lambda s: "night" if s.conditions.night else "day"),
)


def scenario_traits(scenarios: Sequence[Scenario]) -> tuple[Trait, ...]:
    """Returns the traits of scenarios."""
    numbers = (
        Trait(name, np.array([value(each) for each in scenarios], np.float64), unit, below, above)
        for name, unit, below, above, value in _NUMBERS
    )
    return (*numbers, *(Trait(name, [value(each) for each in scenarios]) for name, value in _TEXTS))


def drive_cases(_campaign: Any, run: Run) -> Cases:
    """Reads the drives of a run in which the subject steered; drives of one scenario belong together."""
    rows = judged_rows(run, ("scenario", "scenario_name", "recipe"), ("mode", "online"))
    scenarios = [scenario_of(json.loads(row["scenario"])) for row in rows]
    traits = (*scenario_traits(scenarios), *recipe_traits([row["recipe"] for row in rows]))
    return Cases(failed_of(rows), traits, [row["scenario_name"] for row in rows])
