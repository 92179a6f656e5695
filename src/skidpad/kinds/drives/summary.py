"""What a closed-loop run says: a verdict for every case over its repeats, and rates with intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.kinds.ruling import failed_of, judged_rows, recipe_traits
from skidpad.statistics.intervals import Interval, none_failed, wilson
from skidpad.statistics.rules import Cases, Trait
from skidpad.worlds.careful import drive_carefully
from skidpad.worlds.render.weather import visibility_m
from skidpad.worlds.scenario.features import lateral_m_s2
from skidpad.worlds.scenario.scenario import Pace, RoadKind, Scenario, scenario_of

if TYPE_CHECKING:
    from skidpad.runs.folder import Run
    from skidpad.worlds.careful import CarefulOutcome

_COLUMNS = (
    "case_id",
    "scenario_name",
    "scenario",
    "condition",
    "recipe",
    "repeat",
    "mdcl",
    "max_lateral_m",
    "departed_at_s",
    "collided_at_s",
    "mae_rad",
    "problem",
    "violated",
)


class DriveVerdict(Enum):
    """What the repeats of one case say together; an error is a drive that could not be judged.

    UNAVOIDABLE: the careful driver who holds the pedals collides in the middle of the lane, too; such a case counts in no rate.
    """

    PASS = "PASS"  # noqa: S105 - a verdict, no password
    FAIL = "FAIL"
    FLAKY = "FLAKY"
    ERROR = "ERROR"
    UNAVOIDABLE = "UNAVOIDABLE"


def failure_rate(failed: int, judged: int) -> Interval:
    """Returns Wilson's interval; where none failed, up to the exact bound, so that tables say what the verdict says."""
    found = wilson(failed, judged)
    return found if failed or not judged else replace(found, high=none_failed(judged))


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """One case over its repeats. failures of judged drives; mdcl, max_lateral_m: the worst; times: the earliest, NaN for never.

    excused: collisions that nobody could avoid, which are not among those judged.
    """

    case_id: str
    scenario_name: str
    scenario: str
    condition: str
    recipe: str
    failures: Interval
    failed: int
    judged: int
    errors: int
    mdcl: float
    max_lateral_m: float
    mae_rad: float
    departed_at_s: float
    collided_at_s: float
    problem: str
    excused: int = 0

    @property
    def verdict(self) -> DriveVerdict:
        """FLAKY where repeats differ, be it that some could not be judged."""
        if not self.judged:
            return DriveVerdict.UNAVOIDABLE if self.excused else DriveVerdict.ERROR
        if self.failed == self.judged and not self.errors:
            return DriveVerdict.FAIL
        return DriveVerdict.PASS if not self.failed and not self.errors else DriveVerdict.FLAKY


@dataclass(frozen=True, slots=True)
class ConditionRate:
    """All cases under one condition: how many of them passed, failed, were flaky or could not be judged."""

    condition: str
    passed: int
    failed: int
    flaky: int
    errors: int
    departed: int
    collided: int
    median_mdcl: float
    unavoidable: int = 0

    @property
    def rate(self) -> Interval:
        """How often the subject failed among the cases that could be judged; a flaky one has failed."""
        return failure_rate(self.failed + self.flaky, self.passed + self.failed + self.flaky)


@dataclass(frozen=True, slots=True)
class OnlineSummary:
    """Every case in the order of the run, and the conditions in the order of the settings."""

    cases: tuple[CaseVerdict, ...]
    conditions: tuple[ConditionRate, ...]
    drives: int

    def count(self, verdict: DriveVerdict) -> int:
        """Returns how many cases have a verdict."""
        return sum(case.verdict is verdict for case in self.cases)

    @property
    def rate(self) -> Interval:
        """How often the subject failed, over all conditions."""
        failed = self.count(DriveVerdict.FAIL) + self.count(DriveVerdict.FLAKY)
        return failure_rate(failed, failed + self.count(DriveVerdict.PASS))

    @property
    def worst(self) -> tuple[CaseVerdict, ...]:
        """The cases that failed, those that left their lane first at the top; then those that only touched something."""
        failed = [case for case in self.cases if case.verdict in {DriveVerdict.FAIL, DriveVerdict.FLAKY} and case.failed]
        return tuple(sorted(failed, key=lambda case: (isnan(case.departed_at_s), _or_late(case.departed_at_s), -case.mdcl, case.case_id)))


def summarise(run: Run) -> OnlineSummary:
    """Counts the drives of a run, in the order of its phases."""
    rows = run.records(columns=_COLUMNS).to_pylist()
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["scenario_name"], row["condition"]), []).append(row)
    # a client that is served holds the pedals itself, so that a careful driver excuses nothing
    is_paced = "pedal" not in run.schema.names
    cases = tuple(_case(repeats, is_paced=is_paced) for repeats in groups.values())
    names = dict.fromkeys(case.condition for case in cases)
    return OnlineSummary(cases, tuple(_condition(name, [case for case in cases if case.condition == name]) for name in names), len(rows))


def is_unavoidable(row: Mapping[str, Any]) -> bool:
    """Returns whether a drive kept its lane and touched somebody whom the careful driver at its pedals touches as well."""
    if not row["violated"] or isfinite(row["departed_at_s"]):
        return False
    driver = beside_careful(row["scenario"])
    return driver is not None and not driver.avoided


@lru_cache(maxsize=1024)
def beside_careful(scenario: str) -> CarefulOutcome | None:
    """Returns what a careful driver does in a recorded scenario, None where nobody holds the pedals."""
    table = json.loads(scenario)
    return drive_carefully(scenario_of(table)) if table.get("ego", {}).get("pace") == Pace.CAREFUL.value else None


def _case(rows: Sequence[Mapping[str, Any]], *, is_paced: bool = True) -> CaseVerdict:
    first = rows[0]
    driven = [row for row in rows if row["violated"] or not row["problem"]]
    judged = [row for row in driven if not (is_paced and is_unavoidable(row))]
    failed = sum(row["violated"] for row in judged)
    return CaseVerdict(
        case_id=first["case_id"],
        scenario_name=first["scenario_name"],
        scenario=first["scenario"],
        condition=first["condition"],
        recipe=first["recipe"],
        failures=failure_rate(failed, len(judged)),
        failed=failed,
        judged=len(judged),
        errors=len(rows) - len(driven),
        excused=len(driven) - len(judged),
        mdcl=max((row["mdcl"] for row in driven), default=nan),
        max_lateral_m=max((row["max_lateral_m"] for row in driven), default=nan),
        mae_rad=max((row["mae_rad"] for row in driven), default=nan),
        departed_at_s=_earliest(row["departed_at_s"] for row in driven),
        collided_at_s=_earliest(row["collided_at_s"] for row in driven),
        problem=next((row["problem"] for row in rows if row["problem"]), ""),
    )


def _condition(name: str, cases: Sequence[CaseVerdict]) -> ConditionRate:
    found = [case.verdict for case in cases]
    strayed = [case.mdcl for case in cases if isfinite(case.mdcl)]
    return ConditionRate(
        condition=name,
        passed=found.count(DriveVerdict.PASS),
        failed=found.count(DriveVerdict.FAIL),
        flaky=found.count(DriveVerdict.FLAKY),
        errors=found.count(DriveVerdict.ERROR),
        departed=sum(isfinite(case.departed_at_s) for case in cases),
        collided=sum(isfinite(case.collided_at_s) for case in cases),
        median_mdcl=float(np.median(strayed)) if strayed else nan,
        unavoidable=found.count(DriveVerdict.UNAVOIDABLE),
    )


def _earliest(times: Any) -> float:
    known = [time for time in times if isfinite(time)]
    return min(known, default=nan)


def _or_late(time_s: float) -> float:
    return time_s if isfinite(time_s) else 0.0


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
