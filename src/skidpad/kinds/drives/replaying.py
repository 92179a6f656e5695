"""A recorded drive made again: by asking the subject anew, from its recorded steering for pictures, and smaller while it still fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, degrees, isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import Frames, NumpyFrames, as_numpy
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Parameter, Real, Recipe, Value
from skidpad.kinds.drives.loop import BATCH, Wheel, past_steps, seen
from skidpad.kinds.drives.records import Case, unpack
from skidpad.kinds.pictures.shrinking import Ladder, changed, dials_of, ladder, recipe_changes
from skidpad.kinds.shrinking import LEFT_OUT, Change, Dial, Shrunk, minimise
from skidpad.page.svg import write_film
from skidpad.runs.manifest import VersionChange
from skidpad.runs.replay import Replayed, Reproduction
from skidpad.runs.workers.here import cores, pinned
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.scenario.domain import DOMAINS, Domain
from skidpad.worlds.scenario.scenario import BadScenarioError, Scenario, scenario_from, values_of
from skidpad.worlds.world import STEP_S, WORLDS

if TYPE_CHECKING:
    from skidpad.kinds.drives.campaign import Online
    from skidpad.kinds.drives.compare.campaign import OfflineVsOnline
    from skidpad.kinds.drives.filmstrip import ShownStage
    from skidpad.kinds.drives.work import ClosedLoopRunner
    from skidpad.runs.folder import Run

    ReplayStage: TypeAlias = ClosedLoopRunner | ShownStage
    """What it takes to show a recorded drive again: a world, and the stimuli that recipes name; the second never loads the subject."""
    DriveCampaign: TypeAlias = Online | OfflineVsOnline
    """A campaign whose findings are closed-loop drives."""

_COMPARED = (
    *("steps", "max_lateral_m", "mdcl", "departed_at_s", "collided_at_s", "mae_rad", "problem", "violated"),
    *("lateral_m", "answers_rad", "truth_rad"),
)


BOUND_M, BOUND_RAD = 0.02, 0.02
"""How far a drive on another processor may lie from the one of the run at any frame. 26 extended scenarios of 10 s with the bundled
network, under AVX2 and SSE4.1 instead of AVX-512: at most 0.004 m and 0.0055 rad, and every drive ended at the same frame."""


@dataclass(frozen=True, slots=True, eq=False)
class OnlineReplay:
    """A record and the same drive made again, alone."""

    row: Mapping[str, Any]
    again: Mapping[str, Any]
    version_changes: tuple[VersionChange, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """The columns that came out differently, to the last bit."""
        return tuple(name for name in _COMPARED if not _same(self.row[name], self.again[name]))

    @property
    def reproduction(self) -> Reproduction:
        """Compares every column; on another processor the last bits of an answer differ, and the loop makes them grow."""
        bound = f"{BOUND_M:g} m, {BOUND_RAD:g} rad and a frame"
        return Reproduction(self.differences, _is_near(self.row, self.again), bound, self.version_changes)

    @property
    def is_reproduced(self) -> bool:
        """Tells whether the drive is that of the run."""
        return self.reproduction.is_reproduced


def _is_near(row: Mapping[str, Any], again: Mapping[str, Any]) -> bool:
    """Tells whether two drives end alike, and lie within the bound at every frame."""
    if (row["violated"], row["problem"]) != (again["violated"], again["problem"]) or abs(row["steps"] - again["steps"]) > 1:
        return False
    times = [(row[name], again[name]) for name in ("departed_at_s", "collided_at_s")]
    if not all(_same(then, now) or abs(then - now) < 1.5 * STEP_S for then, now in times):
        return False
    bounds = {"lateral_m": BOUND_M, "answers_rad": BOUND_RAD, "truth_rad": BOUND_RAD}
    steps = min(row["steps"], again["steps"])
    series = {name: (unpack(row[name])[:steps], unpack(again[name])[:steps]) for name in bounds}
    return all(np.allclose(now, then, rtol=0.0, atol=bounds[name], equal_nan=True) for name, (then, now) in series.items())


def replay_drive(runner: ClosedLoopRunner, run: Run, prefix: str) -> OnlineReplay:
    """Makes the drive whose case id begins with `prefix` again, with nobody beside it."""
    row = run.find_row(prefix)
    with pinned():  # as in the run: torch on one thread, or the last bits would differ
        again = runner.records([Case.from_row(row)], Wheel(row["mode"])).to_pylist()[0]
    return OnlineReplay(row, again, run.manifest.changes())


_SHOWN = ("steps", "mdcl", "max_lateral_m", "departed_at_s", "collided_at_s", "mae_rad", "violated", "problem")


def replay_finding(campaign: DriveCampaign, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Makes a recorded drive again and compares everything; draws it where asked."""
    return replayed(campaign.runner, replay_drive(campaign.runner, run, finding), picture)


def replayed(stage: ReplayStage, result: OnlineReplay, picture: Path | None) -> Replayed:
    """Words how a drive and its record compare; draws it where asked."""
    row = result.row
    drawn: tuple[Path, ...] = () if picture is None else _write_film(stage, result, picture)
    remarks = [f"scenario: {row['scenario']}"]
    if isfinite(row["mae_rad"]):
        remarks.append(f"mean distance of its answers from the truth: {degrees(row['mae_rad']):.2f} degrees of the steering wheel")
    return Replayed(
        title=f"{row['case_id']}: {row['mode']}, {row['scenario_name']}, {row['condition']}",
        rows=tuple((name, _known(row[name]), _known(result.again[name])) for name in _SHOWN),
        figures={
            "case_id": row["case_id"],
            "scenario": row["scenario"],
            "recipe": row["recipe"],
            **{name: result.again[name] for name in _SHOWN},
            "pictures": [str(path) for path in drawn],
        },
        reproduction=result.reproduction,
        remarks=tuple(remarks),
        pictures=drawn,
    )


def _known(value: object) -> object:
    """Returns what a table shows of a value: nothing where it never happened or was not measured."""
    return None if value == "" or (isinstance(value, float) and not isfinite(value)) else value


def _write_film(stage: ReplayStage, result: OnlineReplay, path: Path) -> tuple[Path, Path]:
    """Writes the strip and the same moving; returns both paths."""
    from skidpad.kinds.drives.filmstrip import film_of, moving, strip  # noqa: PLC0415  film strips are drawn from replays

    film = film_of(stage, result.row)
    title = f"{result.row['scenario_name']}, {result.row['condition']}"
    return write_film(path, strip("strip", title, film), moving("moving", title, film))


def frames_at(stage: ReplayStage, row: Mapping[str, Any], steps: Sequence[int]) -> list[NumpyFrames]:
    """Returns what the subject saw at some steps of a recorded drive, in rising order; the subject is not asked.

    The world is steered as recorded; one that is not deterministic may show something else. The built-in one is rendered by the CPU,
    whatever rendered the run: nobody sees the difference, and no GPU is needed to look at a drive.
    """
    case = Case.from_row(row)
    world = WORLDS.get(stage.world)(1, 1)
    pedal = unpack(row["pedal"]) if row.get("pedal") is not None else None
    if pedal is None:
        world.reset([case.scenario])
    elif isinstance(world, BuiltInWorld):
        world.reset([case.scenario], start_m_s=0.0)
    else:
        raise SkidpadError(f"the world {stage.world!r} has no pedals, so a served drive cannot be shown again in it")
    steering = unpack(row["answers_rad" if row["mode"] == Wheel.SUBJECT.value else "truth_rad"])
    pictures: list[NumpyFrames] = []
    back = past_steps(stage.stimuli)
    past: deque[Frames] = deque(maxlen=back)
    for step in range(max(steps, default=-1) + 1):
        if any(step <= wanted <= step + back for wanted in steps):
            frames = world.frames()
            if step in steps:
                pictures.append(as_numpy(seen(frames, [case.recipe], stage.stimuli, time_s=step * STEP_S, past=past))[0])
            past.append(frames)
        wanted = np.nan_to_num(steering[step : step + 1])
        if pedal is not None and isinstance(world, BuiltInWorld):
            world.step(wanted, pedal[step : step + 1])
        else:
            world.step(wanted)
    return pictures


def _same(stored: object, now: object) -> bool:
    return stored == now or (isinstance(stored, float) and isinstance(now, float) and isnan(stored) and isnan(now))


_DURATION = Real("duration_s", 1.0, 120.0, 1.0)
_DOMAIN = "extended"
_ENTITIES = ("vehicles", "pedestrians")


@dataclass(frozen=True, slots=True)
class DriveStimulus:
    """What one drive is made of."""

    scenario: Scenario
    recipe: Recipe


@dataclass(frozen=True, eq=False)
class DriveProblem:
    """Drives like one that failed. case: its own, whose broken constraints are the only ones that smaller ones may break.

    made: the record of every drive that was judged; the smallest one is taken from here, since its last bits depend on its slot.

    A smaller scenario is one nearer to the domain's base: a straight road with one lane each way, in sunshine, alone.
    """

    runner: ClosedLoopRunner
    case: Case
    fails_after_s: float
    width: int = BATCH
    made: dict[DriveStimulus, dict[str, Any]] = field(default_factory=dict)

    @property
    def domain(self) -> Domain:
        """The domain that says what can be varied within which range."""
        return DOMAINS.get(_DOMAIN)

    def first_tries(self, stimulus: DriveStimulus) -> Sequence[DriveStimulus]:
        """The same drive, ended a little after it failed: what comes later costs as much as what matters, and only that."""
        if not isfinite(self.fails_after_s):
            return ()
        ends = [max(_DURATION.low, ceil(10.0 * (self.fails_after_s + more_s)) / 10.0) for more_s in (1.0, 0.3)]
        shorter = [replace(stimulus.scenario, duration_s=end_s) for end_s in ends if end_s < stimulus.scenario.duration_s]
        return [replace(stimulus, scenario=each) for each in shorter if self._is_allowed(each)]

    def pieces(self, stimulus: DriveStimulus) -> int:
        """Steps in front of the camera, other vehicles, pedestrians."""
        return len(stimulus.recipe.steps) + len(stimulus.scenario.vehicles) + len(stimulus.scenario.pedestrians)

    def dials(self, stimulus: DriveStimulus) -> Sequence[Dial[DriveStimulus]]:
        """The variables of the domain that have an effect, the parameters in front of the camera, and the seconds last.

        Were the seconds cut to the bone first, nothing could be changed any more that makes the car leave a little later.
        """
        scenario = [
            Dial(name, way.levels, partial(self._with_values, stimulus, name, way)) for name, way in self._variables(stimulus.scenario)
        ]
        camera = [
            Dial(f"camera.{place}.{name}", way.levels, partial(_with_camera, stimulus, place, name, way))
            for place, name, way in dials_of(stimulus.recipe, self.runner.stimuli)
        ]
        return [*camera, *scenario]

    def without(self, stimulus: DriveStimulus, pieces: AbstractSet[int], dials: AbstractSet[int]) -> DriveStimulus | None:
        """Leaves out pieces and puts dials to the base's values."""
        camera, variables = dials_of(stimulus.recipe, self.runner.stimuli), self._variables(stimulus.scenario)
        turned = [camera[dial] for dial in dials if dial < len(camera)]
        values = {name: way.at(0) for name, way in (variables[dial - len(camera)] for dial in dials if dial >= len(camera))}
        steps = len(stimulus.recipe.steps)
        recipe = changed(stimulus.recipe, {(place, name): way.at(0) for place, name, way in turned}, pieces)
        vehicles = len(stimulus.scenario.vehicles)
        scenario = replace(
            stimulus.scenario,
            vehicles=tuple(each for k, each in enumerate(stimulus.scenario.vehicles) if steps + k not in pieces),
            pedestrians=tuple(each for k, each in enumerate(stimulus.scenario.pedestrians) if steps + vehicles + k not in pieces),
        )
        made = self._made(scenario, values)
        return None if made is None else DriveStimulus(made, recipe)

    def fails(self, stimuli: Sequence[DriveStimulus]) -> Sequence[bool]:
        """Makes the drives, each in a slot of its own; how many threads share the rendering changes nothing about them."""
        cases = [replace(self.case, scenario=each.scenario, recipe=each.recipe, slot=self.case.slot + k) for k, each in enumerate(stimuli)]
        rows: list[dict[str, Any]] = self.runner.records(cases, Wheel.SUBJECT, cores()).to_pylist()
        self.made.update(zip(stimuli, rows, strict=True))
        return [row["violated"] for row in rows]

    def _variables(self, scenario: Scenario) -> list[tuple[str, Ladder]]:
        base = values_of(self.domain.base)
        relevant = self.domain.to_values(scenario)
        parameters: list[tuple[Parameter, Value, Value]] = [
            (variable.parameter, relevant[variable.name], base[variable.name])
            for variable in self.domain.variables
            if variable.entity is None and variable.name in relevant and not variable.name.endswith(".count")
        ]
        parameters.append((_DURATION, scenario.duration_s, _DURATION.low))
        ways = [(parameter.name, ladder(parameter, value, goal)) for parameter, value, goal in parameters if parameter.accepts(value)]
        return [(name, way) for name, way in ways if way is not None and way.levels]

    def _with_values(self, stimulus: DriveStimulus, name: str, way: Ladder, level: int) -> DriveStimulus | None:
        made = self._made(stimulus.scenario, {name: way.at(level)})
        return None if made is None else replace(stimulus, scenario=made)

    def _made(self, scenario: Scenario, values: Mapping[str, Value]) -> Scenario | None:
        """Puts values into a scenario; what then has no effect (a straight road's radius) becomes the base's."""
        try:
            made = scenario_from({**values_of(scenario), **values})
            relevant, base = self.domain.to_values(made), values_of(self.domain.base)
            idle = {name: base[name] for name in self.domain.names if name in base and name not in relevant}
            made = scenario_from({**values_of(made), **idle})
        except BadScenarioError:
            return None
        return made if self._is_allowed(made) else None

    def _is_allowed(self, scenario: Scenario) -> bool:
        return set(self.domain.violations(scenario)) <= set(self.domain.violations(self.case.scenario))


def _with_camera(stimulus: DriveStimulus, place: int, name: str, way: Ladder, level: int) -> DriveStimulus:
    return replace(stimulus, recipe=changed(stimulus.recipe, {(place, name): way.at(level)}))


def shrink_drive(campaign: DriveCampaign, run: Run, row: Mapping[str, Any], progress: Progress = silent) -> Shrunk:  # noqa: ARG001  as all
    """Shrinks the scenario of a closed-loop finding and what sits in front of its camera."""
    if row["mode"] != Wheel.SUBJECT.value:
        raise SkidpadError(f"the case {row['case_id']} was driven by the truth, which leaves no lane; shrink one whose mode is online")
    runner, case = campaign.runner, Case.from_row(row)
    times = [time for time in (row["departed_at_s"], row["collided_at_s"]) if isfinite(time)]
    problem = DriveProblem(runner, case, min(times, default=float("nan")))
    with pinned():
        found = minimise(problem, DriveStimulus(case.scenario, case.recipe), progress)
    smallest = problem.made[found.stimulus]
    changes = (*scenario_changes(case.scenario, found.stimulus.scenario), *recipe_changes(case.recipe, found.stimulus.recipe))
    return Shrunk(row, smallest, changes, found.judged, found.batches)


def scenario_changes(before: Scenario, after: Scenario) -> tuple[Change, ...]:
    """Words what was taken from a scenario."""
    changes = []
    for group in _ENTITIES:
        kept = list(getattr(after, group))
        for number, each in enumerate(getattr(before, group), 1):
            if kept and kept[0] == each:
                kept.pop(0)
            else:
                changes.append(Change(f"{group}.{number}", _told(before, group, number), LEFT_OUT))
    old, new = values_of(before), values_of(after)
    plain = [name for name in old if name.partition(".")[0] not in _ENTITIES]
    # what has no effect any more, such as a straight road's radius, is no news
    relevant = {*DOMAINS.get(_DOMAIN).to_values(after), _DURATION.name}
    named = [name for name in plain if old[name] != new[name] and name in relevant]
    return (*(Change(name, _worded(old[name]), _worded(new[name])) for name in named), *changes)


def _told(scenario: Scenario, group: str, number: int) -> str:
    start = f"{group}.{number}."
    mine = {name.removeprefix(start): value for name, value in values_of(scenario).items() if name.startswith(start)}
    return " ".join(f"{name}={_worded(value)}" for name, value in mine.items())


def _worded(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
