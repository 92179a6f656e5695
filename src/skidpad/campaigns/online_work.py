"""The shards of closed-loop campaigns: cases side by side in a world, one lane a core."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from skidpad.campaigns.lanes import Lanes, open_lanes
from skidpad.campaigns.online_loop import BATCH, Course, Wheel, ride
from skidpad.campaigns.online_records import Case, build_records, refused
from skidpad.campaigns.side_by_side import Meter, cores, metered, side_by_side
from skidpad.core.errors import BadRunError
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Stimulus
from skidpad.runs.segments import ShardResult
from skidpad.runs.shards import run_shards
from skidpad.worlds.scenario import BadScenarioError
from skidpad.worlds.world import WORLDS

if TYPE_CHECKING:
    from skidpad.runs.folder import Run
    from skidpad.subjects.base import Subject
    from skidpad.worlds.world import World

WIDTH = 2 * BATCH
"""Scenarios side by side where nobody says: what a step costs besides pictures and answers is then shared by enough of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """Drives of one kind: who steers, and the cases."""

    name: str
    wheel: Wheel
    cases: tuple[Case, ...]


@dataclass(frozen=True, eq=False)
class Rides:
    """Makes the drives of one subject in one world; what comes out does not hang on width, threads or the order of the shards."""

    subject: Subject
    world: str
    stimuli: Mapping[str, Stimulus]
    width: int = 0
    device: str = "cpu"

    def execute(self, run: Run, phases: Sequence[Phase], progress: Progress = silent) -> dict[str, int]:
        """Computes the shards that a run lacks; returns how many shards each phase has."""
        cuts = {phase.name: self.cut(len(phase.cases)) for phase in phases}
        meter = Meter(progress, sum(len(phase.cases) for phase in phases))
        with open_lanes(self.device) as lanes:
            for phase in phases:
                parts = cuts[phase.name]
                lasting = sum(parts[index].stop - parts[index].start for index in run.completed(phase.name) if index < len(parts))
                meter.begin(phase.name, lasting)
                workers = max(1, min(lanes.count, len(parts)))
                # Where there are fewer shards than cores, the cores share the rendering.
                threads = max(1, cores() // workers)

                def work(index: int, report: Progress, phase: Phase = phase, threads: int = threads) -> ShardResult:
                    part = cuts[phase.name][index]
                    return ShardResult(phase.name, index, self.records(phase.cases[part], phase.wheel, threads, report))

                mapped = side_by_side(meter.stop, workers)
                weight = max(1, round(len(phase.cases) / max(len(parts), 1)))
                run_shards(run, phase.name, len(parts), metered(work, meter, weight), shard_map=mapped)
        return {name: len(parts) for name, parts in cuts.items()}

    def records(self, cases: Sequence[Case], wheel: Wheel, threads: int = 1, progress: Progress = silent) -> pa.Table:
        """Makes some drives and judges them."""
        return build_records(cases, self.courses(cases, wheel, threads, progress), wheel, self.world, self.subject.sha256)

    def courses(self, cases: Sequence[Case], wheel: Wheel, threads: int = 1, progress: Progress = silent) -> list[Course]:
        """Makes some drives side by side, or as many at a time as the world can."""
        world = WORLDS.get(self.world)(len(cases), threads)
        courses: list[Course] = []
        for first in range(0, len(cases), world.width):
            courses += self._ride(world, cases[first : first + world.width], wheel, progress)
        return courses

    def courses_in(self, lanes: Lanes, cases: Sequence[Case], wheel: Wheel) -> list[Course]:
        """Makes some drives, a part of them in each lane; nobody's course hangs on who is beside it."""
        parts = _evenly(len(cases), min(lanes.count, len(cases)))
        threads = max(1, cores() // max(len(parts), 1))
        return [course for some in lanes.map(lambda part: self.courses(cases[part], wheel, threads), parts) for course in some]

    def cut(self, cases: int) -> list[slice]:
        """Cuts cases into shards of about one size, none wider than the width."""
        return _evenly(cases, -(-cases // (self.width or WIDTH)))

    def _ride(self, world: World, cases: Sequence[Case], wheel: Wheel, progress: Progress) -> list[Course]:
        problems = _unusable(world, cases)
        usable = [case for place, case in enumerate(cases) if place not in problems]
        scenarios, recipes = [case.scenario for case in usable], [case.recipe for case in usable]
        driven = iter(ride(world, scenarios, recipes, self.stimuli, self.subject, wheel, progress) if usable else ())
        return [refused(problems[place]) if place in problems else next(driven) for place in range(len(cases))]


def _evenly(count: int, parts: int) -> list[slice]:
    edges = [round(place * count / parts) for place in range(parts + 1)] if parts else [0]
    return [slice(edges[place], edges[place + 1]) for place in range(parts)]


def _unusable(world: World, cases: Sequence[Case]) -> dict[int, str]:
    """Returns what is wrong with the scenarios that the world refuses, by place; one that it refuses does not stop the others."""
    try:
        world.reset([case.scenario for case in cases])
    except BadScenarioError:
        found = {}
        for place, case in enumerate(cases):
            try:
                world.reset([case.scenario])
            except BadScenarioError as error:
                found[place] = str(error)
        return found
    return {}


def check_unchanged(run: Run, hashes: Mapping[str, str]) -> None:
    """Refuses to go on with a run whose subject or scenarios are not those it began with."""
    for what, now in hashes.items():
        if run.manifest.hashes.get(what) != now:
            raise BadRunError(
                f"the {what} has changed since the run {run.path} began, so its drives would not belong together; "
                "put it back, or start a new run with another --out"
            )


def command() -> tuple[str, ...]:
    """Returns the command line for the manifest."""
    return (Path(sys.argv[0]).name, *sys.argv[1:])
