"""Searching for scenarios in which a subject leaves its lane: the next ones hang on what the earlier ones brought.

A shard is one generation of a search. It follows from the records of those before it, so that a run that was stopped goes on alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skidpad.core.images import FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_seed
from skidpad.core.stimuli import Recipe
from skidpad.kinds.drives.loop import BATCH, Wheel
from skidpad.kinds.drives.records import Case, build_records, refused
from skidpad.kinds.shards import one_by_one, run_shards
from skidpad.runs.records import ShardResult
from skidpad.search.protocol import SEARCHES, Fitness, Search, SearchTask
from skidpad.search.vectors import Cube
from skidpad.worlds.scenario.scenario import RoadKind, Weather, table_of

if TYPE_CHECKING:
    from skidpad.kinds.drives.summary import OnlineSummary
    from skidpad.kinds.drives.work import ClosedLoopRunner
    from skidpad.runs.folder import Run
    from skidpad.runs.workers.protocol import Crew
    from skidpad.worlds.scenario.domain import Domain


GENERATION = BATCH
"""Scenarios that a search tries before it learns from them, where nobody says."""

BENDS_M = (60.0, 120.0, 300.0)
"""Radii between which the map of features tells bends apart."""


def cell_of(table: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the cell of a scenario's table in the map of features: its bend, and its weather with the time of day."""
    road, conditions = table["road"], table["conditions"]
    bend = "straight"
    if road["kind"] == RoadKind.CURVED.value:
        limits = [f"below {BENDS_M[0]:g} m", f"{BENDS_M[0]:g} to {BENDS_M[1]:g} m", f"{BENDS_M[1]:g} to {BENDS_M[2]:g} m"]
        bend = next((words for words, limit in zip(limits, BENDS_M, strict=True) if road["radius_m"] < limit), f"over {BENDS_M[2]:g} m")
    return bend, str(conditions["weather"]) + (" at night" if conditions["night"] else "")


def cell_at(domain: Domain, point: FloatArray) -> str:
    """Returns the cell of a point of a domain, as `fitness_of` names it; a scenario that the domain forbids has none."""
    scenario = domain.decode(point)
    return "" if domain.violations(scenario) else " / ".join(cell_of(table_of(scenario)))


def cells() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the rows and columns of the map."""
    first, second, third = BENDS_M
    bends = ("straight", f"over {third:g} m", f"{second:g} to {third:g} m", f"{first:g} to {second:g} m", f"below {first:g} m")
    return bends, tuple(weather.value + night for night in ("", " at night") for weather in Weather)


def fitness_of(row: Mapping[str, Any]) -> Fitness:
    """Returns how near to leaving its lane a drive came, 1 and more for one that did: the sooner, the more; NaN where it has no verdict."""
    table = json.loads(row["scenario"])
    value = row["mdcl"]
    if row["violated"] and row["departed_at_s"] == row["departed_at_s"]:
        value = 2.0 - row["departed_at_s"] / max(float(table["duration_s"]), 1e-9)
    return Fitness(nan if row["problem"] and not row["violated"] else float(value), " / ".join(cell_of(table)))


@dataclass(frozen=True, slots=True)
class Reach:
    """What a search has reached with its drives: failures, cells of the map that it tried and that hold a failure, and the first failure.

    first: the number of the drive that failed first, counted from 1; 0 where none did.
    """

    name: str
    drives: int
    failures: int
    cells_tried: int
    cells_failing: int
    first: int


def reach_of(summary: OnlineSummary, name: str) -> Reach:
    """Counts the drives of one search; what could not be tried has taken from its budget all the same."""
    cases = [case for case in summary.cases if case.condition == name]
    judged = [(cell_of(json.loads(case.scenario)), case.failed > 0) for case in cases if case.judged]
    return Reach(
        name,
        len(cases),
        sum(failed for _, failed in judged),
        len({cell for cell, _ in judged}),
        len({cell for cell, failed in judged if failed}),
        next((number for number, case in enumerate(cases, 1) if case.failed), 0),
    )


@dataclass(frozen=True, eq=False)
class ScenarioSearch:
    """One search with its budget; phase and condition of its records are its name."""

    name: str
    domain: Domain
    budget: int
    seed: int
    runner: ClosedLoopRunner

    @property
    def generations(self) -> int:
        """How many shards the search has."""
        return -(-self.budget // self._width)

    @property
    def _width(self) -> int:
        """Points of a generation."""
        return self.runner.width or GENERATION

    def execute(self, run: Run, crew: Crew, progress: Progress = silent) -> int:
        """Computes the generations that a run lacks, in order; returns how many there are."""
        state: dict[int, Search[FloatArray]] = {}

        def work(index: int) -> ShardResult:
            search = state.pop(index, None) or self._rebuilt(run, index)
            table = self._generation(search, index, crew)
            search.tell([fitness_of(row) for row in table.to_pylist()])
            state[index + 1] = search
            return ShardResult(self.name, index, table)

        run_shards(run, self.name, self.generations, one_by_one(work), progress)
        return self.generations

    def _rebuilt(self, run: Run, index: int) -> Search[FloatArray]:
        """Asks and tells again what the shards before this one hold."""
        task = SearchTask(Cube(len(self.domain.variables), partial(cell_at, self.domain)), self.seed, self.budget)
        search = SEARCHES.get(self.name)(task)
        for table in _first(run.iter_records(self.name), index):
            search.ask(self._width)
            search.tell([fitness_of(row) for row in table.to_pylist()])
        return search

    def _generation(self, search: Search[FloatArray], index: int, crew: Crew) -> pa.Table:
        cases, broken = [], {}
        for place, point in enumerate(search.ask(self._width)):
            number = index * self._width + place
            scenario = self.domain.decode(point, child_seed(self.seed, self.name, "scenario", number))
            cases.append(Case(f"{self.name}-{number:03d}", scenario, self.name, Recipe(), slot=number))
            names = self.domain.violations(scenario)
            if names:
                broken[place] = f"it breaks {', '.join(names)}"
        fine = [case for place, case in enumerate(cases) if place not in broken]
        driven = iter(self.runner.courses_by(crew, fine, Wheel.SUBJECT) if fine else ())
        courses = [refused(broken[place]) if place in broken else next(driven) for place in range(len(cases))]
        return build_records(cases, courses, Wheel.SUBJECT, self.runner.world, self.runner.subject.sha256)


def _first(tables: Iterable[pa.Table], count: int) -> Sequence[pa.Table]:
    return [table for _, table in zip(range(count), tables, strict=False)]
