"""The shards of closed-loop campaigns: cases side by side in a world, some of them by each worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Stimulus
from skidpad.kinds.drives.loop import BATCH, Course, Observer, Wheel, ride
from skidpad.kinds.drives.records import Case, build_records, refused
from skidpad.kinds.shards import Meter, mapped_parts, run_shards
from skidpad.runs.records import ShardResult
from skidpad.runs.workers.protocol import in_order
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.worlds.builtin import wants_gpu, world_on
from skidpad.worlds.scenario.scenario import BadScenarioError
from skidpad.worlds.world import WORLDS

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.runs.folder import Run
    from skidpad.runs.workers.protocol import Crew
    from skidpad.subjects.base import Subject
    from skidpad.worlds.world import World


DRIVES = "drives"
"""The step of a worker that makes drives."""

WIDTH, GPU_WIDTH = 2 * BATCH, 128
"""Scenarios side by side where nobody says: what a step costs besides pictures and answers is then shared by enough of them. A GPU that
renders as well wants more of them; a scene takes 2 MB there."""


@dataclass(frozen=True, slots=True, eq=False)
class DrivePhase:
    """Drives of one kind: who steers, and the cases."""

    name: str
    wheel: Wheel
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Drives:
    """Drives that one worker makes side by side; threads: how many share the rendering."""

    cases: tuple[Case, ...]
    wheel: Wheel
    threads: int = 1

    def __str__(self) -> str:
        return f"the drives {', '.join(case.name for case in self.cases)}"


@dataclass(frozen=True, eq=False)
class ClosedLoopRunner:
    """Makes the drives of one subject in one world; what comes out does not depend on width, threads or the order of the shards.

    To the last bit that holds where torch, its instruction set and its one thread are the same; see `online_loop.Eyes`.
    """

    subject: Subject
    world: str
    stimuli: Mapping[str, Stimulus]
    width: int = 0
    device: str = "cpu"
    is_refereed: bool = False

    @property
    def frame_shape(self) -> tuple[int, int]:
        """Height and width of the frames that the world shows."""
        return WORLDS.get(self.world)(1, 1).frame_shape

    def execute(self, run: Run, phases: Sequence[DrivePhase], crew: Crew, progress: Progress = silent) -> dict[str, int]:
        """Computes the shards that a run lacks; returns how many shards each phase has."""
        meter = Meter(progress, sum(len(phase.cases) for phase in phases))
        shards: dict[str, int] = {}
        for phase in phases:
            parts = self.cut(len(phase.cases))
            shards[phase.name] = len(parts)
            kept = sum(parts[index].stop - parts[index].start for index in run.completed(phase.name) if index < len(parts))
            meter.begin(phase.name, kept)
            # Where there are fewer shards than workers, some share a shard: no course hangs on who is beside it, if it is a network's.
            pieces = -(-crew.count // max(len(parts), 1)) if isinstance(self.subject, NetworkSubject) else 1
            cut = partial(_drives, phase, parts, pieces, crew)
            whole = partial(self._shard, phase, parts)
            run_shards(run, phase.name, len(parts), mapped_parts(crew, DRIVES, None, cut, whole, meter, _cases_of))
        return shards

    def step(self, drives: Drives, progress: Progress) -> list[Course]:
        """Makes some drives, for a worker."""
        return self.courses(drives.cases, drives.wheel, drives.threads, progress)

    def _shard(self, phase: DrivePhase, parts: Sequence[slice], index: int, courses: Sequence[Sequence[Course]]) -> ShardResult:
        driven = [course for some in courses for course in some]
        return ShardResult(phase.name, index, self._judged(phase.cases[parts[index]], driven, phase.wheel))

    def records(self, cases: Sequence[Case], wheel: Wheel, threads: int = 1, progress: Progress = silent) -> pa.Table:
        """Makes some drives and judges them."""
        return self._judged(cases, self.courses(cases, wheel, threads, progress), wheel)

    def _judged(self, cases: Sequence[Case], courses: Sequence[Course], wheel: Wheel) -> pa.Table:
        return build_records(cases, courses, wheel, self.world, self.subject.sha256)

    def courses(
        self, cases: Sequence[Case], wheel: Wheel, threads: int = 1, progress: Progress = silent, observer: Observer | None = None
    ) -> list[Course]:
        """Makes some drives side by side, or as many at a time as the world can. observer: is shown every step of them."""
        world = world_on(self.device, self.world, len(cases), threads)
        courses: list[Course] = []
        for first in range(0, len(cases), world.width):
            courses += self._ride(world, cases[first : first + world.width], wheel, progress, observer)
        return courses

    def courses_by(self, crew: Crew, cases: Sequence[Case], wheel: Wheel) -> list[Course]:
        """Makes some drives, a part of them by each worker; what is no network drives alone, so that the parts are always the same."""
        parts = _evenly(len(cases), min(crew.count, len(cases)) if isinstance(self.subject, NetworkSubject) else len(cases))
        items = [Drives(tuple(cases[part]), wheel, crew.spare_cores(len(parts))) for part in parts]
        return [course for some in in_order(crew.map(DRIVES, None, items)) for course in some]

    def cut(self, cases: int) -> list[slice]:
        """Cuts cases into shards of about one size, none wider than the width."""
        # By the settings alone, never by what this machine has: a run may be resumed on another one.
        usual = GPU_WIDTH if wants_gpu(self.device, self.world) else WIDTH
        return _evenly(cases, -(-cases // (self.width or usual)))

    def _ride(
        self, world: World, cases: Sequence[Case], wheel: Wheel, progress: Progress, observer: Observer | None = None
    ) -> list[Course]:
        problems = _unusable(world, cases)
        usable = [case for place, case in enumerate(cases) if place not in problems]
        scenarios, recipes, slots = [each.scenario for each in usable], [each.recipe for each in usable], [each.slot for each in usable]
        begin = partial(ride, world, scenarios, recipes, self.stimuli, self.subject, wheel, progress, slots)
        driven = iter(begin(is_refereed=self.is_refereed, observer=observer) if usable else ())
        return [refused(problems[place]) if place in problems else next(driven) for place in range(len(cases))]


def _drives(phase: DrivePhase, parts: Sequence[slice], pieces: int, crew: Crew, index: int) -> list[Drives]:
    cases = phase.cases[parts[index]]
    cut = _evenly(len(cases), min(pieces, len(cases)))
    threads = crew.spare_cores(len(parts) * len(cut))
    return [Drives(cases[part], phase.wheel, threads) for part in cut]


def _cases_of(drives: Drives) -> float:
    return float(len(drives.cases))


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
