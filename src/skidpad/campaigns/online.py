"""Closed-loop drives as a job: scenarios under what sits in front of the camera, repeated, judged, shard by shard into a run.

Reference: offline and online testing, sections II-C and II-E.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from skidpad.campaigns.campaign import CAMPAIGNS, subject_of
from skidpad.campaigns.crews import crew_for
from skidpad.campaigns.online_camera import Condition, conditions_of
from skidpad.campaigns.online_loop import Wheel
from skidpad.campaigns.online_records import SCHEMA, Case, scenario_json
from skidpad.campaigns.online_scenarios import domain_lasting, scenarios_of
from skidpad.campaigns.online_search import ScenarioSearch
from skidpad.campaigns.online_settings import OnlineSettings
from skidpad.campaigns.online_work import Drives, Phase, Rides, check_unchanged, command
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Stimulus
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.search.vectors import VECTOR_SEARCHES
from skidpad.subjects.recorded import subject_record
from skidpad.worlds.scenario_files import NamedScenario, SkippedScenario
from skidpad.worlds.world import WORLDS

if TYPE_CHECKING:
    from skidpad.subjects.base import Subject
    from skidpad.workers.protocol import Work, Workers

DRIVES = "online"
"""The phase of the drives."""


@dataclass(frozen=True)
class Online:
    """A campaign with everything loaded."""

    settings: OnlineSettings
    subject: Subject
    scenarios: tuple[NamedScenario, ...]
    conditions: tuple[Condition, ...]
    stimuli: Mapping[str, Stimulus]
    skipped: tuple[SkippedScenario, ...] = ()

    @classmethod
    def load(cls, settings: OnlineSettings, seen: Manifest | None = None) -> Self:
        """Loads the subject, draws or reads the scenarios and looks up every name, so that a wrong one ends the work at once."""
        WORLDS.get(settings.world)
        for name in settings.searches:
            VECTOR_SEARCHES.get(name)
        conditions, stimuli = conditions_of(settings.stimuli)
        chosen = scenarios_of(settings.domain, settings.scenarios, settings.files, settings.seconds, settings.seed)
        subject = subject_of(seen, settings.subject, settings.device)
        _ = subject.description.steering_column  # a subject without steering ends the work here
        return cls(settings, subject, chosen.scenarios, conditions, stimuli, chosen.skipped)

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of the subject and of all scenarios."""
        text = "\n".join(scenario_json(scenario.scenario) for scenario in self.scenarios)
        return {"subject": self.subject.sha256, "scenarios": sha256(text.encode()).hexdigest()}

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Every scenario under every condition, as often as the settings say."""
        return tuple(
            Case(
                named.name,
                named.scenario,
                condition.text,
                condition.recipe(self.stimuli, self.settings.seed, place),
                repeat,
                number * len(self.scenarios) + place,
            )
            for repeat in range(self.settings.repeats)
            for number, condition in enumerate(self.conditions)
            for place, named in enumerate(self.scenarios)
        )

    @property
    def rides(self) -> Rides:
        """What makes the drives."""
        return Rides(self.subject, self.settings.world, self.stimuli, self.settings.width, self.settings.device)

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        manifest = Manifest.collect(
            device=self.settings.device,
            seed=self.settings.seed,
            hashes=self.hashes,
            command=command(),
            subject=subject_record(self.subject),
        )
        return Run.create(out, self.settings.to_config(), manifest, SCHEMA)

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records."""
        check_unchanged(run, self.hashes, SCHEMA)
        with run.lock(), crew_for(self, run, workers, self.settings.device) as crew:
            if self.settings.searches:
                run.finish({search.name: search.execute(run, crew, progress) for search in self.searches()})
            else:
                run.finish(self.rides.execute(run, [Phase(DRIVES, Wheel.SUBJECT, self.cases)], crew, progress))

    def step(self, name: str, given: None) -> Work:  # noqa: ARG002  a drive needs nothing but its case
        """Returns the work of the one step: making drives."""
        return self.rides.step

    def item_name(self, step: str, item: Drives) -> str:  # noqa: ARG002  there is one step
        """Names the drives of an item."""
        return str(item)

    def searches(self) -> tuple[ScenarioSearch, ...]:
        """The searches of the settings; none where scenarios are drawn or read."""
        s = self.settings
        domain = domain_lasting(s.domain, s.seconds)
        return tuple(ScenarioSearch(name, domain, s.scenarios, s.seed, self.rides) for name in s.searches)


@CAMPAIGNS.register("online")
def load_online(config: Mapping[str, Any], seen: Manifest | None = None) -> Online:
    """Drives a network through scenarios in a closed loop, judged by how far it strays from its lane."""
    return Online.load(OnlineSettings.from_config(config), seen)
