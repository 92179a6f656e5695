"""A campaign of served drives: the scenarios, the client that steers through them one by one, and their records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self

import numpy as np
import pyarrow as pa

from skidpad.core.errors import SkidpadError
from skidpad.core.images import FloatArray, as_numpy
from skidpad.core.progress import Progress, silent
from skidpad.core.settings import Count, OneOf, Within
from skidpad.core.stimuli import Stimulus
from skidpad.kinds.drives.campaign import check_seconds, scenarios_of
from skidpad.kinds.drives.filmstrip import ShownStage
from skidpad.kinds.drives.loop import AFTER_S, Course, Wheel, seen
from skidpad.kinds.drives.page import online_page
from skidpad.kinds.drives.records import SCHEMA, Case, build_records, cases_of, pack, scenario_json, unpack
from skidpad.kinds.drives.replaying import OnlineReplay, replayed
from skidpad.kinds.kind import CampaignSettings, check_unchanged, start_run
from skidpad.kinds.shards import one_by_one, resumable, run_shards
from skidpad.oracles.lane_departure import CAP_M
from skidpad.page.wording import counted
from skidpad.runs.records import ShardResult
from skidpad.stimuli.registry import WrittenStimulus, conditions_of, model_hashes
from skidpad.worlds.builtin import BuiltInWorld, steps_of
from skidpad.worlds.scenario.files import NamedScenario, SkippedScenario
from skidpad.worlds.scenario.scenario import BadScenarioError, Scenario
from skidpad.worlds.serve.donkey import DonkeyPilot
from skidpad.worlds.serve.simulators import SIMULATORS, UDACITY, Answer, DisconnectedError, FaultError, Moment, Pilot, Simulator
from skidpad.worlds.serve.udacity import UdacityPilot
from skidpad.worlds.world import STEP_S, EgoState

if TYPE_CHECKING:
    from skidpad.page.model import Page
    from skidpad.runs.folder import Run
    from skidpad.runs.manifest import Manifest
    from skidpad.runs.replay import Replayed
    from skidpad.runs.workers.protocol import Work, Workers

LEAST_M = 5.0
"""A car that has not come further says nothing about its steering."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedCourse(Course):
    """A course, with the pedal, (steps,), -1 to 1, and the speed at each frame; answers that were clamped, or came unasked."""

    pedal: FloatArray = field(default_factory=lambda: np.zeros(0))
    speed_m_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    clamped: int = 0
    unasked: int = 0


def serve_drive(world: BuiltInWorld, case: Case, stimuli: Mapping[str, Stimulus], pilot: Pilot, *, realtime: bool = False) -> ServedCourse:
    """Drives one case from a standing start, as the simulators begin, and returns its course.

    It ends as any closed-loop drive does: after its time, AFTER_S after the car has left its lane, or with an answer that is none.
    """
    state = world.reset([case.scenario], start_m_s=0.0)
    count = end = steps_of(case.scenario)
    log: list[tuple[float, float, float, float, float]] = []
    collided: int | None = None
    problem, before, answer = "", state, Answer(float(state.steering_rad[0]), 0.0)
    clamped = unasked = step = 0
    tick = monotonic()
    pilot.begin()
    while step < min(count, end):
        moment = _moment(world, case, stimuli, step, state, before, answer)
        lateral, truth = moment.lateral_m, float(world.truth_rad()[0])
        if moment.collided and collided is None:
            collided = step
        try:
            answer = _asked(pilot, moment)
        except FaultError as error:
            problem = str(error)
            log.append((lateral, np.nan, truth, 0.0, moment.speed_m_s))
            break
        clamped, unasked = clamped + answer.clamped, unasked + answer.unasked
        log.append((lateral, answer.steering_rad, truth, answer.pedal, moment.speed_m_s))
        if abs(lateral) >= CAP_M:
            end = min(end, step + 1 + round(AFTER_S / STEP_S))
        before, state = state, world.step(np.array([answer.steering_rad]), np.array([answer.pedal]))
        step += 1
        if realtime:
            tick = max(tick + STEP_S, monotonic())
            sleep(max(tick - monotonic(), 0.0))
    else:
        pilot.end(_moment(world, case, stimuli, step, state, before, answer))
    lateral_m, answers, truths, pedal, speed = np.array(log, np.float64).reshape(-1, 5).T
    came_m = float(speed.sum() * STEP_S)
    if not problem and came_m < LEAST_M:
        problem = f"the car came {came_m:.1f} m in {len(log) * STEP_S:.0f} s, too little to judge; its client gave it no throttle"
    return ServedCourse(lateral_m, answers, truths, collided, problem, pedal=pedal, speed_m_s=speed, clamped=clamped, unasked=unasked)


def _asked(pilot: Pilot, moment: Moment) -> Answer:
    """Asks; a client that is gone before its drive has begun is waited for again."""
    while True:
        try:
            return pilot.ask(moment)
        except DisconnectedError:
            if moment.step:
                raise
            pilot.begin()


def _moment(
    world: BuiltInWorld, case: Case, stimuli: Mapping[str, Stimulus], step: int, state: EgoState, before: EgoState, answer: Answer
) -> Moment:
    return Moment(
        step=step,
        time_s=step * STEP_S,
        frame=as_numpy(seen(world.frames(), [case.recipe], stimuli, time_s=step * STEP_S))[0],
        pose=state.poses[0],
        speed_m_s=float(state.speed_m_s[0]),
        acceleration_m_s2=float(state.speed_m_s[0] - before.speed_m_s[0]) / STEP_S,
        yaw_rate_rad_s=float(state.poses[0, 2] - before.poses[0, 2]) / STEP_S,
        steering_rad=float(state.steering_rad[0]),
        pedal=answer.pedal,
        lateral_m=float(world.lateral_m()[0]),
        collided=bool(world.collided()[0]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSettings(CampaignSettings):
    """One campaign of drives that an outside client steers.

    simulator: udacity or donkey. name: what the report calls the client. host, port: where it is met (port 0: the simulator's own).
    connects: whether a Donkey client listens and is connected to. domain, scenarios, files, stimuli, repeats, seconds: as of a closed-loop
    campaign. timeout_s: how long an answer may take. wait_s: how long to wait for a client. realtime: 20 steps a second at most.
    """

    campaign: ClassVar = "served"

    simulator: Annotated[str, OneOf("simulator", ("udacity", "donkey"))] = "udacity"
    name: str = ""
    host: str = "127.0.0.1"
    port: Annotated[int, Within(least=0, most=65535)] = 0
    connects: bool = False
    domain: str = "restricted"
    scenarios: Count = 10
    files: tuple[str, ...] = ()
    stimuli: tuple[str, ...] = ()
    repeats: Count = 1
    seconds: Annotated[float, Within(least=0)] = 20.0
    timeout_s: Annotated[float, Within(above=0)] = 15.0
    wait_s: Annotated[float, Within(above=0)] = 300.0
    realtime: bool = False
    seed: int = 0

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if self.seconds:
            check_seconds(self.seconds)

    @property
    def world(self) -> str:
        """The world that a served drive takes place in, a row of WORLDS."""
        return self.simulator

    @property
    def searches(self) -> tuple[str, ...]:
        """None: nobody waits for a search over somebody else's program."""
        return ()


PHASE = "served"

SERVED_SCHEMA = pa.schema(
    [
        *SCHEMA,
        pa.field("pedal", pa.binary(), nullable=False),
        pa.field("speed_m_s", pa.binary(), nullable=False),
        pa.field("clamped", pa.int32(), nullable=False),
        pa.field("unasked", pa.int32(), nullable=False),
    ]
)
"""The columns of a closed-loop drive, and: pedal, from -1 (all brake) to 1 (all throttle), and speed_m_s, packed 64-bit floats, one a
frame; clamped: answers beyond what the car can do; unasked: answers that came before the frame, and were thrown away."""


@dataclass(frozen=True)
class Served:
    """A campaign with everything loaded; the client itself is met when the first drive begins."""

    settings: ServedSettings
    scenarios: tuple[NamedScenario, ...]
    conditions: tuple[WrittenStimulus, ...]
    stimuli: Mapping[str, Stimulus]
    skipped: tuple[SkippedScenario, ...] = ()

    @classmethod
    def load(cls, settings: ServedSettings) -> Self:
        """Draws or reads the scenarios and looks up every name, so that a wrong one ends the work at once."""
        conditions, stimuli = conditions_of(settings.stimuli)
        chosen = scenarios_of(settings.domain, settings.scenarios, settings.files, settings.seconds, settings.seed)
        followed = tuple(replace(named, scenario=_unpursued(named.scenario)) for named in chosen.scenarios)
        return cls(settings, followed, conditions, stimuli, chosen.skipped)

    @property
    def simulator(self) -> Simulator:
        """Which simulator is played."""
        return SIMULATORS[self.settings.simulator]

    @property
    def name(self) -> str:
        """What the client is called."""
        return self.settings.name or self.simulator.client

    @property
    def runner(self) -> ShownStage:
        """What shows recorded drives again."""
        return ShownStage(self.settings.world, self.stimuli)

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of all scenarios and of the models behind stimuli; the client's network stays its own affair."""
        text = "\n".join(scenario_json(named.scenario) for named in self.scenarios)
        return {"scenarios": sha256(text.encode()).hexdigest(), **model_hashes(self.stimuli)}

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Every scenario under every condition, as often as the settings say."""
        return cases_of(self.scenarios, self.conditions, self.stimuli, self.settings.seed, self.settings.repeats)

    def pilot(self) -> Pilot:
        """Makes what speaks with the client."""
        s = self.settings
        port = s.port or self.simulator.port
        if self.simulator is UDACITY:
            return UdacityPilot(s.host, port, s.timeout_s, s.wait_s)
        return DonkeyPilot(s.host, port, s.timeout_s, s.wait_s, connects=s.connects)

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        return start_run(self, out, self.settings.to_config(), SERVED_SCHEMA)

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:  # noqa: ARG002  one client, one process
        """Serves the drives that the run lacks, each kept as soon as it is over."""
        check_unchanged(self, run, SERVED_SCHEMA)
        with run.lock(), resumable(run):
            if len(run.completed(PHASE)) < len(self.cases):
                with closing(self.pilot()) as pilot:
                    world = self.simulator.world()
                    progress(len(run.completed(PHASE)), len(self.cases), f"waiting for {self.simulator.client}")

                    def served(index: int) -> ShardResult:
                        case = self.cases[index]
                        try:
                            course = serve_drive(world, case, self.stimuli, pilot, realtime=self.settings.realtime)
                        except BadScenarioError as error:
                            nothing = np.zeros(0)
                            course = ServedCourse(nothing, nothing, nothing, problem=str(error))
                        return ShardResult(PHASE, index, self.records(case, course))

                    run_shards(run, PHASE, len(self.cases), one_by_one(served), progress, parts="drives")
            run.finish({PHASE: len(self.cases)})

    def records(self, case: Case, course: ServedCourse) -> pa.Table:
        """Judges one drive."""
        table = build_records([case], [course], Wheel.SUBJECT, self.settings.world, sha256(self.name.encode()).hexdigest())
        more = {"pedal": pack(course.pedal), "speed_m_s": pack(course.speed_m_s), "clamped": course.clamped, "unasked": course.unasked}
        return pa.Table.from_pylist([{**table.to_pylist()[0], **more}], schema=SERVED_SCHEMA)

    def step(self, name: str, given: None) -> Work:  # noqa: ARG002  nobody else can do it
        """Refuses: a client speaks with one process."""
        raise SkidpadError("served drives are made by one process, which the client speaks with; leave out --workers")

    def item_name(self, step: str, item: object) -> str:  # noqa: ARG002  see `step`
        """Names a drive."""
        return str(item)


def load_served(config: Mapping[str, Any], seen: Manifest | None = None) -> Served:  # noqa: ARG001  a client is never loaded
    """Plays another simulator for a client that stays as it is, and judges how it keeps its lane through scenarios."""
    return Served.load(ServedSettings.from_config(config))


def _unpursued(scenario: Scenario) -> Scenario:
    """Leaves out vehicles that come from behind in the ego's lane: they keep their speed, and would run into a car that starts slowly."""
    kept = tuple(each for each in scenario.vehicles if each.ahead_m > 0.0 or each.lane != scenario.ego.lane)
    return replace(scenario, vehicles=kept)


class RecordedPilot:
    """Answers what a client answered in a recorded drive."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._problem = str(row["problem"])
        self._answers_rad, self._pedal = unpack(row["answers_rad"]), unpack(row["pedal"])

    def begin(self) -> None:
        """Is always there."""

    def ask(self, moment: Moment) -> Answer:
        """Answers from the record; where the client had failed, it fails again."""
        if moment.step >= len(self._answers_rad) or not np.isfinite(self._answers_rad[moment.step]):
            raise FaultError(self._problem)
        return Answer(float(self._answers_rad[moment.step]), float(self._pedal[moment.step]))

    def end(self, moment: Moment) -> None:
        """Needs no telling."""

    def close(self) -> None:
        """Has nothing to close."""


def replay_served(campaign: Served, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Drives the world again with the recorded answers and compares the course and its judgement."""
    row = run.find_row(finding)
    course = serve_drive(campaign.simulator.world(), Case.from_row(row), campaign.stimuli, RecordedPilot(row))
    again = campaign.records(Case.from_row(row), course).to_pylist()[0]
    result = replayed(campaign.runner, OnlineReplay(row, again, run.manifest.changes()), picture)
    note = f"The world was driven again with the recorded answers; {campaign.name} was not asked."
    return replace(result, remarks=(*result.remarks, note))


def refuse_shrinking(*_: object) -> NoReturn:
    """Says why a served drive cannot be made smaller."""
    raise SkidpadError(
        "a served drive cannot be made smaller: every try needs the client's answers, and it is not there; "
        "describe its network in a file and use skidpad drive, whose findings shrink"
    )


def refuse_export(*_: object) -> NoReturn:
    """Says why a served drive cannot become a test."""
    raise SkidpadError(
        "a served drive cannot be exported as a test: its check would need the client, and it is not there; "
        "use skidpad replay --picture drive.svg for its film, or skidpad drive for a network in a file"
    )


_SPEED = (
    "Every drive begins at rest, and the client chooses its speed; the one that a scenario names is its plan for cars of constant speed."
)


def served_page(campaign: Served, run: Run) -> Page:
    """Counts the run; what the client did out of turn is said among the remarks."""
    page = online_page(campaign, run)
    return replace(page, notes=(*page.notes, _SPEED), remarks=(*page.remarks, *_manners(run)))


def _manners(run: Run) -> list[str]:
    rows = run.records(columns=("clamped", "unasked", "speed_m_s")).to_pylist()
    clamped, unasked = (sum(row[name] for row in rows) for name in ("clamped", "unasked"))
    said = []
    ways_m = [float(unpack(row["speed_m_s"]).sum()) * STEP_S for row in rows]
    if ways_m:
        said.append(f"The car came {median(ways_m):.0f} m in the median drive, {min(ways_m):.0f} m in the shortest; it begins at rest.")
    if clamped:
        said.append(f"{counted(clamped, 'answer')} lay outside -1 to 1 and {'was' if clamped == 1 else 'were'} clipped.")
    if unasked:
        said.append(f"{counted(unasked, 'answer')} came before the frame that they could have answered, and were thrown away.")
    return said
