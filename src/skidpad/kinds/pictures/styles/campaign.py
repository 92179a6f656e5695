"""TACTIC as a job, with its settings: the worst conditions of a weather, one after the other, for every search and repeat, into a run.

A phase is one repeat of one search, a shard is one condition: it starts from what the conditions before it have covered.

Reference: TACTIC, sections 3.3 and 4.
Deviates: R_t, the regions uncovered so far, are those that no condition found before has covered; tries that were not kept leave no
trace, so that the fitness of two tries of one search can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from skidpad.core.errors import SkidpadError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_seed
from skidpad.core.settings import Count, Natural, OneOf, Positive, Within
from skidpad.coverage.criteria import CRITERIA
from skidpad.coverage.profile import Profile, profile_of
from skidpad.coverage.tracker import CoverageTracker
from skidpad.drives.opening import open_drive
from skidpad.kinds import kind as kinds
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse, check_unchanged, drive_of, start_run
from skidpad.kinds.pictures.guided import merged_coverage
from skidpad.kinds.pictures.judging import JudgedOutput
from skidpad.kinds.pictures.styles.applying import apply, hashes, recipe_of, records_of
from skidpad.kinds.pictures.styles.condition import Condition, find
from skidpad.kinds.pictures.styles.evaluation import Evaluator, Goal, ShowAll
from skidpad.kinds.pictures.styles.fitness import FitnessWeights, filter_of
from skidpad.kinds.pictures.styles.scenes import SceneSet, block_scenes, read_scenes
from skidpad.kinds.pictures.weather.campaign import one_camera, subject_beside
from skidpad.kinds.shards import crew_for, one_by_one, run_shards
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import SCHEMA, ShardResult
from skidpad.runs.workers.here import patiently
from skidpad.runs.workers.protocol import in_order
from skidpad.search.evolution import PATIENCE, STYLE_LIMIT, Styles
from skidpad.search.protocol import SearchTask, check_search
from skidpad.stimuli.weather.decoding import FoldedDecoder
from skidpad.stimuli.weather.files import BadWeatherError, load_weather
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.stimuli.weather.settings import Method
from skidpad.stimuli.weather.translation import Weather

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.kinds.pictures.styles.evaluation import Glance
    from skidpad.runs.workers.protocol import Crew, Work, Workers
    from skidpad.subjects.base import Subject

BOUNDS_DEG = (10.0, 20.0, 30.0, 40.0)
"""TACTIC, section 4.1, after DeepRoad."""

GUIDES = ("kmnc", "nbc")
"""TACTIC, section 3.2.1; both are reported whichever guides."""

CONDITIONS = 4
"""TACTIC, section 3.3: a fifth adds no coverage to speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TacticSettings(CampaignSettings):
    """One campaign.

    subject: path of a description. drive: text for `open_drive`. weather: file of a weather learned by MUNIT. criterion: what guides.
    frames: scenes, evenly spaced over the drive (0: all). searches: searches over styles, each repeated `repeats` times. patience:
    tries without anything better that end a search; iterations: tries that end it in any case (0: none). racing: drop tries that
    cannot win before they have seen all scenes; risk: how willingly (0: only where it is certain). at_once: tries that are looked at
    together, a matter of speed alone (0: as many as fill a batch). profile_drive: gives the neurons' bounds; the drive itself where
    empty. validity: file of a filter of scenes; off where empty. output: which of the subject's outputs is judged; an angle.
    """

    campaign: ClassVar = "tactic"

    subject: str
    drive: str
    weather: str
    criterion: Annotated[str, OneOf("criterion that can guide the search", GUIDES)] = "nbc"
    conditions: Count = CONDITIONS
    frames: Natural = 0
    searches: tuple[str, ...] = ("es",)
    repeats: Count = 1
    patience: Count = PATIENCE
    iterations: Natural = 0
    racing: bool = True
    risk: Annotated[float, Within(least=0, below=0.5)] = 0.001
    at_once: Natural = 0
    bounds_deg: tuple[Positive, ...] = BOUNDS_DEG
    coverage_weight: float = 1.0
    divergence_weight: float = 1.0
    style_limit: Annotated[float, Within(least=0)] = STYLE_LIMIT
    profile_drive: str = ""
    validity: str = ""
    output: str = "steering"
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if not self.searches or len(set(self.searches)) != len(self.searches):
            raise SkidpadError(f"name at least one search, each once; got {', '.join(self.searches) or 'none'}")
        for name in self.searches:
            check_search(name, Styles)
        if not self.bounds_deg or list(self.bounds_deg) != sorted(set(self.bounds_deg)):
            raise SkidpadError(
                f"error bounds are degrees above 0, the smallest first; got {', '.join(map(str, self.bounds_deg)) or 'none'}"
            )
        _ = self.weights

    @property
    def weights(self) -> FitnessWeights:
        """w_c and w_d."""
        return FitnessWeights(self.coverage_weight, self.divergence_weight)


COVERED = "conditions"
"""The name of the coverage state of a shard."""


LOOK = "look"
"""The step of a worker: a style's fitness is a map over blocks of scenes and a merge."""


@dataclass(frozen=True)
class SearchStage:
    """What looking at styles builds on: the scenes, encoded, and the bounds of the neurons."""

    scenes: SceneSet
    profile: Profile


@dataclass(frozen=True)
class Tactic:
    """A campaign with everything loaded: subject and weather once, the drive lazily."""

    settings: TacticSettings
    subject: Subject
    drive: Drive
    weather: Weather

    @property
    def decoder(self) -> FoldedDecoder:
        """The weather's."""
        return self.weather.decoder

    @classmethod
    def load(cls, settings: TacticSettings, seen: Manifest | None = None) -> Self:
        """Loads subject and weather and opens the drive, so that a wrong one ends the work at once."""
        card, weights = load_weather(weather_path(settings.weather))
        if card.method is not Method.MUNIT:
            raise BadWeatherError(f"the weather {card.name!r} was learned by {card.method.value}, which knows no styles; use one by munit")
        subject, _ = subject_beside(settings.device, settings.subject, seen)
        judged = JudgedOutput.of(subject.description, settings.output)
        if not judged.output.is_angle:
            raise SkidpadError(f"critical conditions are judged by how far an angle moves, and the output {judged.name!r} is not an angle")
        if not subject.layers:
            raise SkidpadError(
                f"the search is guided by coverage, and {subject.description.name!r} is a black box whose neurons cannot be seen; "
                "test it with `skidpad weather test`"
            )
        filter_of(settings.validity, card)
        return cls(settings, subject, one_camera(drive_of(seen, settings.drive)), Weather(card, weights, settings.device))

    @cached_property
    def column(self) -> int:
        """The column of the judged output."""
        return JudgedOutput.of(self.subject.description, self.settings.output).column

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of subject, drive and weather."""
        return {"subject": self.subject.sha256, "drive": self.drive.sha256, "weather": self.weather.card.sha256}

    def phases(self) -> tuple[tuple[str, str, int], ...]:
        """Returns each phase with its search and repeat; repeats of all searches go hand in hand, so that a stopped run compares."""
        return tuple(
            (phase_name(search, repeat), search, repeat) for repeat in range(self.settings.repeats) for search in self.settings.searches
        )

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        return start_run(self, out, self.settings.to_config(), None, self.drive.frame_shape)

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records."""
        check_unchanged(self, run, SCHEMA)
        phases = self.phases()
        with run.lock(), crew_for(self, run, workers, self.settings.device) as crew:
            if any(len(run.completed(phase)) < self.settings.conditions for phase, _, _ in phases):
                profile = self.profile(run, progress)
                with self.evaluator(profile, run.path / "state" / "contents.bin", progress, crew) as evaluator:
                    for phase, search, repeat in phases:
                        work = _Conditions(self, run, evaluator, self.tracker(profile), phase, search, repeat, progress)
                        parts = f"conditions of {search}, repeat {repeat + 1},"
                        run_shards(run, phase, self.settings.conditions, one_by_one(work), parts=parts)
            run.finish({phase: self.settings.conditions for phase, _, _ in phases})

    def step(self, name: str, given: SearchStage) -> Work:  # noqa: ARG002  there is one step
        """Returns the work of the one step: showing the subject a block of scenes under some styles."""
        if given.scenes.contents.needs_networks:
            given.scenes.contents.attach(self.weather, self.decoder)
        evaluator = self._evaluator(given)
        return lambda glance, _: evaluator.shown(glance)

    def item_name(self, step: str, item: Glance) -> str:  # noqa: ARG002  there is one step
        """Names a block of scenes."""
        return f"block {item.number} of the scenes under {len(item.norms)} styles"

    def profile(self, run: Run, progress: Progress = silent) -> Profile:
        """Returns the bounds of the neurons, measured once a run."""
        drive = open_drive(self.settings.profile_drive) if self.settings.profile_drive else self.drive
        path = run.path / "state" / "profile.safetensors"
        if not path.exists():
            size, lead = block_scenes(self.decoder), self.subject.lead
            patiently(lambda: profile_of(self.subject, drive.batches(size, lead=lead), drive.sha256, len(drive), progress)).save(path)
        return Profile.load(path, subject_sha256=self.subject.sha256, drive_sha256=drive.sha256)

    def tracker(self, profile: Profile) -> CoverageTracker:
        """Returns a tracker of every criterion that is reported, with nothing covered."""
        return CoverageTracker([CRITERIA.get(name)() for name in GUIDES], self.subject.layers, profile, self.decoder.device)

    @contextmanager
    def evaluator(
        self, profile: Profile, file: Path | None = None, progress: Progress = silent, crew: Crew | None = None
    ) -> Iterator[Evaluator]:
        """Reads and encodes the scenes, and frees them at the end; crew: who looks at them, the evaluator itself without one."""
        s = self.settings
        scenes = read_scenes(
            self.drive,
            self.subject,
            self.column,
            self.weather,
            self.decoder,
            wanted=s.frames,
            file=file,
            keep_sources=self._is_refereed or filter_of(s.validity, self.weather.card, s.device) is not None,
            progress=progress,
        )
        stage = SearchStage(scenes, profile)
        try:
            yield self._evaluator(stage, None if crew is None else lambda glances: in_order(crew.map(LOOK, stage, glances)))
        finally:
            scenes.contents.close()

    def _evaluator(self, stage: SearchStage, show_all: ShowAll | None = None) -> Evaluator:
        s = self.settings
        scene_filter = filter_of(s.validity, self.weather.card, s.device)
        criterion = CRITERIA.get(s.criterion)()
        return Evaluator(
            stage.scenes,
            self.decoder,
            self.subject,
            self.column,
            criterion,
            stage.profile,
            scene_filter,
            show_all,
            is_refereed=self._is_refereed,
        )

    @property
    def _is_refereed(self) -> bool:
        return kinds.asks_referee(self.settings.referee)


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
        space = Styles(campaign.weather.style_size, s.style_limit)
        seed = child_seed(s.seed, "repeat", self.repeat, "condition", index)
        task = SearchTask(space, seed, s.iterations or None, s.patience)
        goal = Goal.of(covered.bits, covered.reachable, s.weights, racing=s.racing, risk=s.risk, measured=self.search == "map-elites")

        def told(tries: int, best: float) -> None:
            self.progress(index, s.conditions, f"{self.search}, repeat {self.repeat + 1}, condition {index + 1}: try {tries}, F {best:.3f}")

        found = find(self.search, task, self.evaluator, goal, s.at_once, told)
        tracker = self.tracker.fresh()
        applied = apply(self.evaluator, found.best.style, tracker, s.bounds_deg[0])
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
            applied.refused,
        )
        table = records_of(applied, self.evaluator, recipe, s.bounds_deg[0], pictures)
        result = ShardResult(self.phase, index, table, {COVERED: tracker.pack()}, self.evaluator.scenes.problems)
        # last of all: with its file there and its shard not yet, a condition would look kept and be looked for again
        self.run.write_state(condition_file(self.phase, index), condition.to_json())
        return result

    def _covered(self, before: int) -> CoverageTracker:
        return covered_by(self.run, self.phase, self.tracker, before)


def covered_by(run: Run, phase: str, blank: CoverageTracker, before: int | None = None) -> CoverageTracker:
    """Returns what the conditions of a phase cover together, or those before one of them."""
    return merged_coverage(run, phase, blank, before).get(COVERED, blank.fresh())


def phase_name(search: str, repeat: int) -> str:
    """Returns the phase of one repeat of a search."""
    return f"{search}-r{repeat:02d}"


def condition_file(phase: str, number: int) -> str:
    """Returns the name of the state that holds a condition."""
    return f"condition-{phase.replace(':', '+')}-{number:02d}.json"


def from_config(config: Mapping[str, Any], seen: Manifest | None = None) -> Tactic:
    """Searches a learned weather for the conditions under which a network errs most."""
    return Tactic.load(TacticSettings.from_config(config), seen)
