"""The plan of a repair from drives: its settings, the worst drives of the run, and the scenarios that teach, choose and judge."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

from skidpad.core.errors import BadDriveError, BadParametersError, BadRunError, BadSubjectError
from skidpad.core.seeding import child_rng, child_seed
from skidpad.core.settings import Count, Positive, Within, check
from skidpad.core.stimuli import Stimulus
from skidpad.drives.opening import open_drive
from skidpad.kinds.drives.campaign import OnlineSettings, domain_lasting
from skidpad.kinds.drives.records import Case, scenario_json
from skidpad.kinds.drives.summary import is_unavoidable
from skidpad.kinds.drives.work import ClosedLoopRunner
from skidpad.kinds.kind import asks_referee
from skidpad.stimuli.registry import ORIGINAL, WrittenStimulus, conditions_of
from skidpad.subjects.training.data import is_staged
from skidpad.subjects.training.fitting import TrainingSettings
from skidpad.worlds.builtin import BUILT_IN
from skidpad.worlds.scenario.domain import Domain, sample
from skidpad.worlds.scenario.scenario import BadScenarioError, Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from skidpad.drives.drive import Drive
    from skidpad.runs.folder import Run
    from skidpad.subjects.network_subject import NetworkSubject

DRIVES = "online"
"""The campaign of `skidpad drive`."""

DRAWN, NEAR = "drawn", "near"
"""The halves of every set of scenarios, as the names of their cases begin: drawn from the domain, and near the worst drives of the run."""

_WORST = 8
"""At least so many drives of the run count as its worst, if it has them: all that fail, and then those that stray farthest."""

_NEARBY = 0.08
"""How far from a drive its neighbours lie in the unit cube of the domain, as a standard deviation: a fifth of a bend's radius."""

_NEARER = 0.7
"""By how much nearer each further try is, where a neighbour breaks a constraint; the drive itself breaks none."""


CLEAN_SHARES = (0.6, 0.2, 0.2)
"""Of the clean drive, by time: to train on, to choose and to judge."""

_APART = 16
"""Frames between two that are rendered of the clean drive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrivingSettings:
    """One repair from drives.

    rounds: how often the network drives and is retrained. scenarios: of a round. validation_scenarios: choose among the rounds.
    judged_scenarios: judge. Half of each are drawn from the domain, half lie near the worst drives of the run. every_steps: steps between
    frames that are kept of a drive. train_drive: a drive with labels whose frames are trained on beside, so that nothing is forgotten,
    and on which the clean error is measured; empty: one that is rendered. clean_frames: so many of them are trained on at most. most_cost:
    the share by which the clean error may rise.
    """

    rounds: Count = 3
    scenarios: Annotated[int, Within(least=2)] = 64
    validation_scenarios: Annotated[int, Within(least=2)] = 48
    judged_scenarios: Annotated[int, Within(least=2)] = 96
    every_steps: Count = 10
    train_drive: str = ""
    clean_frames: Annotated[int, Within(least=4)] = 4000
    epochs: Count = 8
    learning_rate: Positive = 1e-3
    batch_size: Count = 64
    mirror: bool = True
    most_cost: Annotated[float, Within(least=0)] = 0.02
    seed: int = 0
    device: str = "cpu"
    threads: Count = 1
    half: bool = False

    def __post_init__(self) -> None:
        check(self, BadParametersError)

    def training(self) -> TrainingSettings:
        """Returns how the network of a round is trained."""
        return TrainingSettings(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            patience=self.epochs,
            mirror=self.mirror,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
            half=self.half,
        )


@dataclass(frozen=True, slots=True, eq=False)
class DrivingTask:
    """What is repaired, and where it drives. worst: drives of the run, failures first; failures of so many `drives` that were judged."""

    subject: NetworkSubject
    world: str
    width: int
    is_refereed: bool
    domain: Domain
    conditions: tuple[WrittenStimulus, ...]
    stimuli: Mapping[str, Stimulus]
    worst: tuple[Case, ...]
    failures: int
    drives: int
    run: str = ""
    notes: tuple[str, ...] = field(default=())

    def runner(self, subject: NetworkSubject, device: str) -> ClosedLoopRunner:
        """Returns what makes the drives of a network, as those of the run were made."""
        return ClosedLoopRunner(subject, self.world, self.stimuli, self.width, device, self.is_refereed)

    @property
    def digest(self) -> str:
        """The hash of all that the run brought."""
        worst = [[scenario_json(case.scenario), case.condition] for case in self.worst]
        return sha256(json.dumps([self.world, self.domain.name, [each.text for each in self.conditions], worst]).encode()).hexdigest()

    def cases(self, name: str, count: int, seed: int) -> tuple[Case, ...]:
        """Draws the cases of a set: the first half from the domain, the others near the worst drives, under the stimulus of those.

        Sets of other names hold other scenarios, and none is one of the run's.
        """
        near = self.near(name, count // 2, seed) if self.worst else ()
        root = child_seed(seed, "repair", "drives", name)
        drawn = sample(self.domain, root, count - len(near)).scenarios
        texts = [self.conditions[place % len(self.conditions)].text for place in range(len(drawn))]
        named = [(DRAWN, scenario, text) for scenario, text in zip(drawn, texts, strict=True)] + [(NEAR, *each) for each in near]
        known = {condition.text: condition for condition in self.conditions}
        return tuple(
            Case(f"{half}-{place:03d}", scenario, text, known[text].recipe(self.stimuli, root, place), slot=place)
            for place, (half, scenario, text) in enumerate(named)
        )

    def near(self, name: str, count: int, seed: int) -> tuple[tuple[Scenario, str], ...]:
        """Draws scenarios near the worst drives, each with the stimulus of its drive."""
        rng = child_rng(seed, "repair", "near", name)
        chosen = [self.worst[place] for place in rng.integers(len(self.worst), size=count).tolist()]
        return tuple(
            (neighbour(self.domain, each.scenario, rng, child_seed(seed, "repair", "near", name, place)), each.condition)
            for place, each in enumerate(chosen)
        )


def neighbour(domain: Domain, scenario: Scenario, rng: np.random.Generator, seed: int) -> Scenario:
    """Returns a scenario of the domain that differs a little from a given one; `seed` becomes its own."""
    point, width = domain.encode(scenario), _NEARBY
    while width > 1e-9:
        moved = domain.decode(point + rng.normal(0.0, width, len(point)), seed)
        if not domain.violations(moved):
            return moved
        width *= _NEARER
    return replace(scenario, seed=seed)


def clean_drive(settings: DrivingSettings, task: DrivingTask) -> Drive:
    """Opens the drive that keeps the clean accuracy, or plans one through the domain that strays from its lane; nothing is rendered yet."""
    if settings.train_drive:
        drive = open_drive(settings.train_drive)
        if not drive.has_labels:
            raise BadDriveError(f"no frame of {drive.name!r} has a label to train on; use a drive with labels as --train-drive")
        return drive
    if task.world != BUILT_IN:
        raise BadRunError(
            f"the run drove in the world {task.world!r}, of which skidpad renders no drives; name one with labels whose frames the network "
            "answers well, as --train-drive my-drive, so that it does not forget them"
        )
    # one frame of a road in every second or so: neighbours are nearly the same picture; windows need them all the same
    step = 1 if task.subject.lead else _APART
    rendered = {
        "frames": round(settings.clean_frames / CLEAN_SHARES[0]) * step,
        "seed": child_seed(settings.seed, "repair", "clean drive") % 2**31,
        "domain": task.domain.name,
        "wander_m": 1,
        "step": step,
    }
    return open_drive("rendered?" + "&".join(f"{name}={value}" for name, value in rendered.items()))


def task_of(run: Run, subject: NetworkSubject) -> DrivingTask:
    """Reads a run of `skidpad drive`."""
    if run.config.get("campaign") != DRIVES:
        raise BadRunError(f"{run.path} is no run of `skidpad drive`")
    settings = OnlineSettings.from_config(run.config)
    if settings.files:
        raise BadRunError(
            f"{run.path} drove through scenario files, and a repair draws new scenarios to train, choose and judge on; make a run over a "
            "domain, as `skidpad drive SUBJECT --domain extended`"
        )
    if is_staged(subject.module, subject.description.input):
        raise BadSubjectError(
            f"{subject.description.name!r} has two stages and looks at {subject.lead + 1} frames at once, too many to keep of every drive; "
            "repair it from a run of `skidpad test`"
        )
    conditions, made = conditions_of(settings.stimuli)
    domain = domain_lasting(settings.domain, settings.seconds)
    worst, failures, drives = _worst(run, domain, {condition.text for condition in conditions})
    if not drives:
        raise BadRunError(f"no drive of {run.path} could be judged, so that there is nothing to repair; see `skidpad report {run.path}`")
    notes = []
    if not failures:
        notes.append(f"none of the {drives} drives of the run fails; its worst drives are those that stray farthest from their lane")
    said = run.manifest.hashes.get("subject")
    if said != subject.sha256:
        notes.append("the run is of another network than the one that is repaired, so that its worst drives may not be this one's")
    return DrivingTask(
        subject,
        settings.world,
        settings.width,
        asks_referee(settings.referee),
        domain,
        conditions,
        made,
        worst,
        failures,
        drives,
        run.path.name,
        tuple(notes),
    )


def _worst(run: Run, domain: Domain, texts: set[str]) -> tuple[tuple[Case, ...], int, int]:
    """Returns the worst drives of a run, how many fail, and how many were judged; drives of searches and estimates had no stimulus."""
    rows = [row for row in run.records().to_pylist() if (row["violated"] or not row["problem"]) and not is_unavoidable(row)]
    failures = sum(row["violated"] for row in rows)
    ordered = sorted(rows, key=lambda row: (not row["violated"], -row["mdcl"]))
    found: dict[tuple[str, str], Case] = {}
    for row in ordered:
        case = Case.from_row(row)
        text = case.condition if case.condition in texts else ORIGINAL
        if _is_of(domain, case.scenario):
            found.setdefault((row["scenario"], text), replace(case, condition=text))
        if len(found) >= max(_WORST, failures):
            break
    return tuple(found.values()), failures, len(rows)


def _is_of(domain: Domain, scenario: Scenario) -> bool:
    try:
        domain.encode(scenario)
    except BadScenarioError:
        return False
    return True
