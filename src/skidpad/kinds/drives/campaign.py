"""The closed-loop campaign: its settings, its scenarios, drawn from a domain model or read from files, and how likely one fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import BoolArray, FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.core.settings import Count, Natural, OneOf, Within
from skidpad.core.stimuli import Recipe, Stimulus
from skidpad.kinds import kind as kinds
from skidpad.kinds.drives.loop import Wheel
from skidpad.kinds.drives.records import SCHEMA, Case, build_records, cases_of, scenario_json
from skidpad.kinds.drives.search import ScenarioSearch
from skidpad.kinds.drives.work import ClosedLoopRunner, DrivePhase, Drives
from skidpad.kinds.estimating import PHASE, FailureEstimate
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse, check_unchanged, start_run, subject_of
from skidpad.kinds.shards import crew_for
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.search.protocol import check_search
from skidpad.search.vectors import Cube
from skidpad.statistics.rare import Batch, Goal, Method
from skidpad.stimuli.registry import WrittenStimulus, conditions_of, model_hashes
from skidpad.worlds.scenario.domain import DOMAINS, Domain, sample
from skidpad.worlds.scenario.files import NamedScenario, ScenarioSet, SkippedScenario, read_scenarios
from skidpad.worlds.scenario.scenario import BadScenarioError, RoadKind, Scenario, Weather
from skidpad.worlds.world import WORLDS

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.runs.workers.protocol import Crew, Work, Workers
    from skidpad.subjects.base import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSettings(CampaignSettings):
    """One campaign of closed-loop drives.

    subject: path of a description. world: a row of WORLDS. domain, scenarios: so many are drawn from this domain model, unless `files`
    names scenario files. stimuli: what sits in front of the camera, each a condition of its own (see `stimuli.registry`); without any,
    nothing does. repeats: of every case. seconds: how long each drive lasts (0: as long as its scenario says). width: scenarios side
    by side, a matter of speed alone (0: 16, on a GPU 128). searches: searches over scenarios; each looks for scenarios of the domain in
    which the subject fails and tries `scenarios` of them, instead of those that are drawn; it learns after every `width` (0: 8).
    estimate: a method of `statistics.rare`, which tells how likely a failure is in the domain, from at most `scenarios` drives; stop_below,
    within: when it may stop earlier (see `rare.Goal`); "" for no estimate.
    """

    campaign: ClassVar = "online"

    subject: str
    world: str = "built-in"
    domain: str = "restricted"
    scenarios: Count = 50
    files: tuple[str, ...] = ()
    stimuli: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    estimate: Annotated[str, OneOf("method of estimating", ("", *(method.value for method in Method)))] = ""
    stop_below: Annotated[float, Within(least=0)] = 0.0
    within: Annotated[float, Within(least=0)] = 0.3
    repeats: Count = 1
    seconds: Annotated[float, Within(least=0)] = 20.0
    width: Natural = 0
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if self.searches and (self.files or self.stimuli or self.repeats > 1):
            raise SkidpadError("a search makes its own scenarios and drives each once; leave out scenario files, stimuli and repeats")
        if self.estimate and (self.searches or self.files or self.stimuli or self.repeats > 1):
            raise SkidpadError("an estimate draws its own scenarios and drives each once; leave out searches, files, stimuli and repeats")
        if len(set(self.searches)) != len(self.searches):
            raise SkidpadError(f"each search is named once; got {', '.join(self.searches)}")
        if self.seconds:
            check_seconds(self.seconds)


def check_seconds(seconds: float) -> None:
    """Refuses drives shorter or longer than a scenario can be."""
    if not 1.0 <= seconds <= 120.0:
        raise SkidpadError(f"a drive lasts 1 to 120 s; got {seconds:g} s")


BATCH = 32
"""Drives that an estimator asks for at once, where nobody says; plain Monte Carlo is looked at after so many."""


@dataclass(frozen=True, eq=False)
class DriveSimulation:
    """Drives a subject through scenarios of a domain."""

    domain: Domain
    runner: ClosedLoopRunner

    @property
    def dimensions(self) -> int:
        """How many variables the domain has."""
        return len(self.domain.variables)

    def is_valid(self, points: FloatArray) -> BoolArray:
        """Tells which scenarios obey the domain's constraints, (N,)."""
        return np.array([not self.domain.violations(self._scenario(point)) for point in points], np.bool_)

    def records(self, batch: Batch, first: int, crew: Crew) -> pa.Table:
        """Drives a batch."""
        cases = [
            Case(f"{PHASE}-{first + place:05d}", self._scenario(point), batch.stage, Recipe(), slot=first + place)
            for place, point in enumerate(batch.points)
        ]
        courses = self.runner.courses_by(crew, cases, Wheel.SUBJECT) if cases else []
        return build_records(cases, courses, Wheel.SUBJECT, self.runner.world, self.runner.subject.sha256)

    def _scenario(self, point: FloatArray) -> Scenario:
        # A scenario's own seed hangs on its point alone, so that the same point drives the same.
        seed = int.from_bytes(blake2b(point.tobytes(), digest_size=4).digest(), "big")
        return self.domain.decode(point, seed)


def drive_estimate(settings: OnlineSettings, domain: Domain, runner: ClosedLoopRunner) -> FailureEstimate:
    """Returns the estimate that the settings ask for."""
    goal = Goal(settings.scenarios, settings.stop_below, settings.within, batch=settings.width or BATCH)
    return FailureEstimate(DriveSimulation(domain, runner), Method(settings.estimate), goal, settings.seed)


def scenarios_of(domain: str, count: int, files: Sequence[str], seconds: float, seed: int) -> ScenarioSet:
    """Reads files and folders, or draws `count` scenarios of the domain where there are none; each lasts `seconds` (0: as it says).

    What cannot be read is skipped with the reason, as long as anything is left.
    """
    if files:
        return _read(files, seconds)
    drawn = sample(domain_lasting(domain, seconds), seed, count)
    return ScenarioSet(tuple(NamedScenario(f"{domain}-{number:03d}", each) for number, each in enumerate(drawn.scenarios)), ())


def domain_lasting(name: str, seconds: float) -> Domain:
    """Returns a domain model whose scenarios last `seconds` (0: as long as it says)."""
    model = DOMAINS.get(name)
    return replace(model, base=_lasting(model.base, seconds))


def _read(files: Sequence[str], seconds: float) -> ScenarioSet:
    sets = [read_scenarios(Path(name)) for name in files]
    found = [replace(each, scenario=_lasting(each.scenario, seconds)) for one in sets for each in one.scenarios]
    skipped = tuple(each for one in sets for each in one.skipped)
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise SkidpadError(f"each scenario has a name of its own; got {', '.join(names)}")
    if not found:
        raise BadScenarioError(f"none of the {len(skipped)} scenarios can be used; the first: {skipped[0].reason}")
    return ScenarioSet(tuple(found), skipped)


def features_of(table: Mapping[str, Any]) -> str:
    """Words what matters in a scenario for keeping a lane, from its table: road, speed, weather, who else is there."""
    road, conditions, ego = table["road"], table["conditions"], table["ego"]
    bend = f", {road['side']} {road['radius_m']:.0f} m" if road["kind"] == RoadKind.CURVED.value else ""
    lane = f", lane {ego['lane']} of {road['lanes']}" if road["lanes"] > 1 else ""
    sunny = conditions["weather"] == Weather.SUNNY.value
    weather = conditions["weather"] if sunny else f"{conditions['weather']} {100 * conditions['intensity']:.0f} %"
    time = " at night" if conditions["night"] else ""
    counts = [(len(table.get(group, ())), group) for group in ("vehicles", "pedestrians")]
    others = "".join(f", {count} {group if count > 1 else group[:-1]}" for count, group in counts if count)
    moves = sum(len(vehicle.get("moves", ())) for vehicle in table.get("vehicles", ()))
    others += f" with {moves} {'moves' if moves > 1 else 'move'}" if moves else ""
    return f"{road['kind']}{bend}{lane}, {ego['speed_m_s']:.0f} m/s, {weather}{time}{others}"


def _lasting(scenario: Scenario, seconds: float) -> Scenario:
    return replace(scenario, duration_s=seconds) if seconds else scenario


DRIVES = "online"
"""The phase of the drives."""


@dataclass(frozen=True)
class Online:
    """A campaign with everything loaded."""

    settings: OnlineSettings
    subject: Subject
    scenarios: tuple[NamedScenario, ...]
    conditions: tuple[WrittenStimulus, ...]
    stimuli: Mapping[str, Stimulus]
    skipped: tuple[SkippedScenario, ...] = ()

    @classmethod
    def load(cls, settings: OnlineSettings, seen: Manifest | None = None) -> Self:
        """Loads the subject, draws or reads the scenarios and looks up every name, so that a wrong one ends the work at once."""
        WORLDS.get(settings.world)
        for name in settings.searches:
            check_search(name, Cube)
        conditions, stimuli = conditions_of(settings.stimuli)
        # an estimate draws its own, as long as it goes on
        chosen = scenarios_of(
            settings.domain, 0 if settings.estimate else settings.scenarios, settings.files, settings.seconds, settings.seed
        )
        subject = subject_of(seen, settings.subject, settings.device)
        _ = subject.description.steering_column  # a subject without steering ends the work here
        return cls(settings, subject, chosen.scenarios, conditions, stimuli, chosen.skipped)

    @property
    def name(self) -> str:
        """What the subject is called."""
        return self.subject.description.name

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of the subject, of all scenarios, and of the models behind stimuli."""
        text = "\n".join(scenario_json(scenario.scenario) for scenario in self.scenarios)
        return {"subject": self.subject.sha256, "scenarios": sha256(text.encode()).hexdigest(), **model_hashes(self.stimuli)}

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Every scenario under every condition, as often as the settings say."""
        return cases_of(self.scenarios, self.conditions, self.stimuli, self.settings.seed, self.settings.repeats)

    @property
    def runner(self) -> ClosedLoopRunner:
        """What makes the drives."""
        s = self.settings
        is_refereed = kinds.asks_referee(s.referee)
        return ClosedLoopRunner(self.subject, s.world, self.stimuli, s.width, s.device, is_refereed)

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        return start_run(self, out, self.settings.to_config(), SCHEMA, self.runner.frame_shape)

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records."""
        check_unchanged(self, run, SCHEMA)
        with run.lock(), crew_for(self, run, workers, self.settings.device) as crew:
            if self.settings.estimate:
                run.finish({PHASE: self.estimate.execute(run, crew, progress)})
            elif self.settings.searches:
                run.finish({search.name: search.execute(run, crew, progress) for search in self.searches()})
            else:
                run.finish(self.runner.execute(run, [DrivePhase(DRIVES, Wheel.SUBJECT, self.cases)], crew, progress))

    def step(self, name: str, given: None) -> Work:  # noqa: ARG002  a drive needs nothing but its case
        """Returns the work of the one step: making drives."""
        return self.runner.step

    def item_name(self, step: str, item: Drives) -> str:  # noqa: ARG002  there is one step
        """Names the drives of an item."""
        return str(item)

    def searches(self) -> tuple[ScenarioSearch, ...]:
        """The searches of the settings; none where scenarios are drawn or read."""
        s = self.settings
        domain = domain_lasting(s.domain, s.seconds)
        return tuple(ScenarioSearch(name, domain, s.scenarios, s.seed, self.runner) for name in s.searches)

    @property
    def estimate(self) -> FailureEstimate:
        """How likely the subject fails in the domain; for settings that ask for it."""
        s = self.settings
        return drive_estimate(s, domain_lasting(s.domain, s.seconds), self.runner)


def load_online(config: Mapping[str, Any], seen: Manifest | None = None) -> Online:
    """Drives a network through scenarios in a closed loop, judged by how far it strays from its lane."""
    return Online.load(OnlineSettings.from_config(config), seen)
