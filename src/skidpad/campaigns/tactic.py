"""TACTIC as a job: the worst conditions of a weather, one after the other, for every search and repeat, into a run.

A phase is one repeat of one search, a shard is one condition: it starts from what the conditions before it have covered.

Reference: TACTIC, sections 3.3 and 4.
Deviates: R_t, the regions uncovered so far, are those that no condition found before has covered; tries that were not kept leave no
trace, so that the fitness of two tries of one search can be compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from skidpad.campaigns.campaign import CAMPAIGNS
from skidpad.campaigns.lanes import Lanes, open_lanes
from skidpad.campaigns.online_work import check_unchanged
from skidpad.campaigns.outputs import JudgedOutput
from skidpad.campaigns.tactic_applying import apply, hashes, recipe_of, records_of
from skidpad.campaigns.tactic_condition import Condition, find
from skidpad.campaigns.tactic_evaluation import Evaluator, Goal
from skidpad.campaigns.tactic_scenes import BLOCK, SceneSet, read_scenes
from skidpad.campaigns.tactic_settings import GUIDES, TacticSettings
from skidpad.campaigns.tactic_validity import filter_of
from skidpad.core.errors import BadSubjectError, SkidpadError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_seed
from skidpad.coverage.criterion import CRITERIA
from skidpad.coverage.profile import Profile, profile_of
from skidpad.coverage.tracker import CoverageTracker
from skidpad.drives.opening import open_drive
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.segments import ShardResult
from skidpad.runs.shards import run_shards
from skidpad.search.evolution import StyleTask
from skidpad.subjects.loading import load_subject
from skidpad.weather.decoding import FoldedDecoder
from skidpad.weather.files import load_weather
from skidpad.weather.translation import Weather

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.subjects.base import Subject

COVERED = "conditions"
"""The name of the coverage state of a shard."""


@dataclass(frozen=True)
class Tactic:
    """A campaign with everything loaded: subject and weather once, the drive lazily."""

    settings: TacticSettings
    subject: Subject
    drive: Drive
    weather: Weather
    decoder: FoldedDecoder

    @classmethod
    def load(cls, settings: TacticSettings) -> Self:
        """Loads subject and weather and opens the drive, so that a wrong one ends the work at once."""
        card, weights = load_weather(Path(settings.weather))
        decoder = FoldedDecoder(card, weights, settings.device)
        subject = _load_subject(settings)
        judged = JudgedOutput.of(subject.description, settings.output)
        if not judged.output.is_angle:
            raise SkidpadError(f"critical conditions are told by how far an angle moves, and the output {judged.name!r} is none")
        if not subject.layers:
            raise SkidpadError(
                f"the search is guided by coverage, and {subject.description.name!r} is a black box whose neurons cannot be seen; "
                "test it with `skidpad weather test`"
            )
        filter_of(settings.validity, card.name)
        return cls(settings, subject, open_drive(settings.drive), Weather(card, weights, settings.device), decoder)

    @cached_property
    def column(self) -> int:
        """The column of the judged output."""
        return JudgedOutput.of(self.subject.description, self.settings.output).column

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of subject, drive and weather."""
        return {"subject": self.subject.sha256, "drive": self.drive.sha256, "weather": self.weather.card.weights_sha256}

    def phases(self) -> tuple[tuple[str, str, int], ...]:
        """Returns each phase with its search and repeat; repeats of all searches go hand in hand, so that a stopped run compares."""
        return tuple(
            (phase_name(search, repeat), search, repeat) for repeat in range(self.settings.repeats) for search in self.settings.searches
        )

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        manifest = Manifest.collect(
            device=self.settings.device, seed=self.settings.seed, hashes=self.hashes, command=(Path(sys.argv[0]).name, *sys.argv[1:])
        )
        return Run.create(out, self.settings.to_config(), manifest)

    def execute(self, run: Run, progress: Progress = silent) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records."""
        check_unchanged(run, self.hashes)
        phases = self.phases()
        with run.lock(), open_lanes(self.settings.device) as lanes:
            if any(len(run.completed(phase)) < self.settings.conditions for phase, _, _ in phases):
                profile = self.profile(run, progress)
                with self.evaluator(profile, run.path / "state" / "contents.bin", progress, lanes) as evaluator:
                    for phase, search, repeat in phases:
                        work = _Conditions(self, run, evaluator, self.tracker(profile), phase, search, repeat, progress)
                        run_shards(run, phase, self.settings.conditions, work)
            run.finish({phase: self.settings.conditions for phase, _, _ in phases})

    def profile(self, run: Run, progress: Progress = silent) -> Profile:
        """Returns the bounds of the neurons, measured once a run."""
        drive = open_drive(self.settings.profile_drive) if self.settings.profile_drive else self.drive
        path = run.path / "state" / "profile.safetensors"
        if not path.exists():
            batches = drive.batches(BLOCK.get(self.decoder.device.type, 16), lead=self.subject.lead)
            profile_of(self.subject, batches, drive.sha256, len(drive), progress).save(path)
        return Profile.load(path, subject_sha256=self.subject.sha256, drive_sha256=drive.sha256)

    def tracker(self, profile: Profile) -> CoverageTracker:
        """Returns a tracker of every criterion that is reported, with nothing covered."""
        return CoverageTracker([CRITERIA.get(name)() for name in GUIDES], self.subject.layers, profile, self.decoder.device)

    @contextmanager
    def evaluator(
        self, profile: Profile, file: Path | None = None, progress: Progress = silent, lanes: Lanes | None = None
    ) -> Iterator[Evaluator]:
        """Reads and encodes the scenes, and frees them at the end."""
        s = self.settings
        scene_filter = filter_of(s.validity, self.weather.card.name, s.device)
        scenes: SceneSet = read_scenes(
            self.drive,
            self.subject,
            self.column,
            self.weather,
            self.decoder,
            wanted=s.frames,
            file=file,
            keep_sources=scene_filter is not None,
            progress=progress,
        )
        try:
            yield Evaluator(scenes, self.decoder, self.subject, self.column, CRITERIA.get(s.criterion)(), profile, scene_filter, lanes)
        finally:
            scenes.contents.close()


@dataclass(frozen=True)
class _Conditions:
    """The work of one phase: condition by condition."""

    campaign: Tactic
    run: Run
    evaluator: Evaluator
    tracker: CoverageTracker
    phase: str
    search: str
    repeat: int
    progress: Progress

    def __call__(self, index: int) -> ShardResult:
        s, campaign = self.campaign.settings, self.campaign
        covered = self._covered(index).state(s.criterion)
        # The repeats of all searches share their seeds, so that they begin with the same styles.
        task = StyleTask(
            campaign.weather.style_size,
            child_seed(s.seed, "repeat", self.repeat, "condition", index),
            s.patience,
            s.iterations,
            s.style_limit,
        )
        goal = Goal.of(covered.bits, covered.total, s.weights, racing=s.racing, risk=s.risk, measured=self.search == "map-elites")

        def told(tries: int, best: float) -> None:
            self.progress(index, s.conditions, f"{self.search}, repeat {self.repeat + 1}, condition {index + 1}: try {tries}, F {best:.3f}")

        found = find(self.search, task, self.evaluator, goal, s.at_once, told)
        tracker = self.tracker.fresh()
        applied = apply(self.evaluator, campaign.column, found.best.style, tracker)
        recipe = recipe_of(campaign.weather.card.name, found.best.style.tolist())
        pictures = hashes(applied, self.evaluator, recipe, s.bounds_deg[0], campaign.drive, campaign.weather)
        condition = Condition(
            self.search,
            self.repeat,
            index,
            tuple(found.best.style.tolist()),
            found.best.value,
            found.best.diversity,
            found.best.divergence_rad,
            found.best.newly,
            goal.regions,
            int((~applied.accepted).sum()),
            found.tries,
            found.frames,
            round(found.seconds, 3),
        )
        self.run.write_state(condition_file(self.phase, index), condition.to_json())
        table = records_of(applied, self.evaluator, recipe, s.bounds_deg[0], pictures)
        return ShardResult(self.phase, index, table, {COVERED: tracker.pack()}, self.evaluator.scenes.problems)

    def _covered(self, before: int) -> CoverageTracker:
        return covered_by(self.run, self.phase, self.tracker, before)


def covered_by(run: Run, phase: str, blank: CoverageTracker, before: int | None = None) -> CoverageTracker:
    """Returns what the conditions of a phase cover together, or those before one of them."""

    def unpack(data: bytes) -> CoverageTracker:
        tracker = blank.fresh()
        tracker.unpack(data)
        return tracker

    def merge(first: CoverageTracker, second: CoverageTracker) -> CoverageTracker:
        first.merge(second)
        return first

    return run.coverage(phase, unpack, merge, before).get(COVERED, blank.fresh())


def phase_name(search: str, repeat: int) -> str:
    """Returns the phase of one repeat of a search."""
    return f"{search}-r{repeat:02d}"


def condition_file(phase: str, number: int) -> str:
    """Returns the name of the state that holds a condition."""
    return f"condition-{phase}-{number:02d}.json"


def _load_subject(settings: TacticSettings) -> Subject:
    """Loads the subject where the weather runs; one that cannot run there (a format without a GPU) on the CPU."""
    try:
        return load_subject(settings.subject, settings.device)
    except BadSubjectError:
        if settings.device == "cpu":
            raise
        return load_subject(settings.subject, "cpu")


@CAMPAIGNS.register("tactic")
def from_config(config: Mapping[str, Any]) -> Tactic:
    """Searches a learned weather for the conditions under which a network errs most."""
    return Tactic.load(TacticSettings.from_config(config))
