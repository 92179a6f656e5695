"""DeepTest as a job: every frame under every recipe, judged, with coverage, shard by shard into a run.

Reference: DeepTest, sections 3 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skidpad.core.errors import BadRunError, SkidpadError
from skidpad.core.images import Camera, FloatArray, Frames, NumpyFrames, as_numpy
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Recipe, Stimulus, grid_recipes
from skidpad.coverage.criteria import CRITERIA, neurons_of
from skidpad.coverage.profile import Profile
from skidpad.coverage.tracker import CoverageTracker
from skidpad.drives.drive import Drive, Problem
from skidpad.drives.opening import LostDrive, open_drive
from skidpad.kinds import kind as kinds
from skidpad.kinds.kind import check_unchanged, drive_of, start_run, subject_of
from skidpad.kinds.pictures.guided import GuidedPhase, check_guide
from skidpad.kinds.pictures.judging import (
    JudgedOutput,
    Originals,
    captured,
    check_relation,
    default_relation,
    default_tolerance,
    frame_again,
    relation_of,
    uploaded,
)
from skidpad.kinds.pictures.reading import KeptBlocks, reading_threads
from skidpad.kinds.pictures.settings import DeepTestSettings, StimulusOn
from skidpad.kinds.pictures.work import (
    GRID,
    PROFILE,
    RANDOM,
    TRIES,
    DeepTestWork,
    KnownSoFar,
    Tries,
    default_shard_frames,
    grid_cut,
    grid_whole,
    lanes,
    name_of,
    together,
    tries_cut,
)
from skidpad.kinds.shards import crew_for, mapped, mapped_parts, one_by_one, run_shards
from skidpad.oracles.relations import RELATIONS, Answers
from skidpad.referee.verdict import Verdicts, judge
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ORIGINALS, SCHEMA
from skidpad.runs.replay import DEFAULT_TOLERANCE
from skidpad.runs.workers.here import Here
from skidpad.runs.workers.protocol import in_order
from skidpad.search.pairs import Pairs
from skidpad.search.protocol import check_search
from skidpad.stimuli.registry import Preset, model_hashes, preset_stimuli, read, stimuli_of

if TYPE_CHECKING:
    from skidpad.core.images import IntArray
    from skidpad.drives.drive import FrameBatch
    from skidpad.kinds.pictures.judging import Words
    from skidpad.kinds.shards import Shards
    from skidpad.oracles.relations import Relation
    from skidpad.referee.on_device import SeenOriginals
    from skidpad.runs.workers.protocol import Crew, Work, Workers
    from skidpad.subjects.base import Observation, Subject

    Look = Callable[[Recipe], tuple[Frames, Observation]]
    """Shows the subject one clip under a recipe; gives the changed frames and what it said to them."""


@dataclass(frozen=True)
class DeepTest:
    """A campaign with everything loaded: the subject once, the drive lazily."""

    settings: DeepTestSettings
    subject: Subject
    drive: Drive
    stimuli: Mapping[str, Stimulus]

    @classmethod
    def load(cls, settings: DeepTestSettings, seen: Manifest | None = None) -> Self:
        """Loads the subject, opens the drive and looks up every name, so that a wrong one ends the work at once."""
        for name in settings.searches:
            if name != GRID:
                check_search(name, Pairs)
        needy = [name for name in settings.criteria if CRITERIA.get(name)().needs_profile]
        chosen = stimuli_of(settings.transforms) if settings.transforms else preset_stimuli(Preset(settings.preset))
        if settings.relation:
            RELATIONS.get(settings.relation)
        subject = subject_of(seen, settings.subject, settings.device)
        if needy and subject.layers and not settings.profile_drive:
            raise SkidpadError(f"{', '.join(needy)} needs neuron bounds from a training drive; give one with --profile-drive DRIVE")
        check_guide(settings, subject)
        drive = drive_of(seen, settings.drive)
        resolved = settings if isinstance(drive, LostDrive) else _resolved(settings, subject, drive)
        return cls(resolved, subject, drive, chosen)

    @cached_property
    def judged(self) -> JudgedOutput:
        """Which of the subject's outputs is judged."""
        return JudgedOutput.of(self.subject.description, self.settings.output)

    @cached_property
    def profile_drive(self) -> Drive:
        """The drive that gives the neurons their bounds."""
        return open_drive(self.settings.profile_drive)

    @cached_property
    def grid(self) -> tuple[Recipe, ...]:
        """The recipes that every frame is shown under: those that the settings name, else every row of every stimulus."""
        named = [recipe for text in self.settings.transforms for recipe in read(text, self.stimuli).grid(self.stimuli)]
        return tuple(dict.fromkeys(named)) or grid_recipes(self.stimuli)

    @property
    def shard_frames(self) -> int:
        """Frames a shard."""
        return self.settings.shard_frames or default_shard_frames(self.subject.lead, self.settings.device, self.drive)

    @property
    def has_coverage(self) -> bool:
        """Whether the subject's neurons can be seen; a black box has none."""
        return bool(self.subject.layers)

    @property
    def window_words(self) -> str:
        """Says which frames of a subject's memory a stimulus changes; empty for a subject without memory."""
        frames = self.subject.lead + 1
        if frames == 1:
            return ""
        return f"on the last of {frames} frames alone" if self._last_alone else f"on all {frames} frames that the subject sees"

    @property
    def rounding(self) -> tuple[float, str]:
        """How far an answer may be from the run's when it is asked for again, and why pictures may differ ("" where they may not)."""
        return DEFAULT_TOLERANCE, ""

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of subject and drive, and of the models behind stimuli."""
        return {"subject": self.subject.sha256, "drive": self.drive.sha256, **model_hashes(self.stimuli)}

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        return start_run(self, out, {**self.settings.to_config(), "unit": self.judged.stored_unit}, None, self.drive.frame_shape)

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records."""
        check_unchanged(self, run, SCHEMA)
        with run.lock(), closing(self.kept_blocks), self._crew(run, workers) as crew:
            profile = self._profile(run, crew, progress)
            blank = self.blank_tracker(profile)
            blocks = ceil(len(self.drive) / self.shard_frames)
            run_shards(run, ORIGINALS, blocks, mapped(crew, ORIGINALS, KnownSoFar(profile)), progress)
            known = KnownSoFar(profile, Originals.of(run, len(self.drive)))
            shards = {ORIGINALS: blocks}
            for search in self.settings.searches:
                shards[search] = blocks if search == GRID else len(self.seed_frames(known.originals))
                run_shards(run, search, shards[search], self._shards(run, search, known, blank, crew), progress)
            run.finish(shards)

    def step(self, name: str, given: KnownSoFar) -> Work:
        """Returns the work of a step."""
        return DeepTestWork(self, given).of(name)

    def item_name(self, step: str, item: Any) -> str:
        """Names the frames that an item is about."""
        return name_of(self, step, item)

    def relation(self, originals: Originals) -> Relation:
        """Returns the relation that judges this campaign's answers."""
        return relation_of(self.settings, self.judged, self.drive, originals)

    def picture(self, frame_index: int, recipe: Recipe) -> NumpyFrames:
        """Renders one frame under a recipe, (height, width, 3); the same pixels as in the run."""
        frame = self.drive.frame(frame_index)
        if isinstance(frame, Problem):
            raise BadRunError(f"the frame can no longer be read: {frame}; put the drive back as it was")
        mutant: NumpyFrames = as_numpy(self.mutate(frame[np.newaxis], recipe, self.drive.times_at([frame_index])))[0]
        return mutant

    def original(self, frame_index: int, recipe: Recipe) -> NumpyFrames:
        """Renders what a mutant is compared with, (height, width, 3): the frame as it is, or cut as a moved camera's picture is."""
        frame = self.picture(frame_index, Recipe())[np.newaxis]
        cut: NumpyFrames = as_numpy(recipe.reference(frame, self.stimuli, captured(self.drive, self.drive.times_at([frame_index]))))[0]
        return cut

    def compared(self, frame_index: int, recipe: Recipe) -> float:
        """Returns what the answer to a frame under a recipe is held against: that to the original, moved where the camera is."""
        batch = self.read_again([frame_index])
        times_s = self.times_s(batch.indices)
        answers = np.array([self.answer(frame_index, Recipe())])
        return float(self.held_against(Answers(answers, answers, batch.steering_rad), batch.clip, recipe, times_s).original[0])

    def moved_by(self, recipe: Recipe, compared: float) -> float:
        """Returns by how much a recipe moved the right answer, which is now `compared`, as it is shown; 0 where it did not."""
        if not self.judged.is_steering or not recipe.moves_camera(self.stimuli):
            return 0.0
        before = float(recipe.unmoved_rad(np.array([compared]), self.stimuli)[0])
        return self.judged.shown(compared) - self.judged.shown(before)

    def answer(self, frame_index: int, recipe: Recipe) -> float:
        """Asks the subject about one frame under a recipe, with the frames before it that it looks back at."""
        batch = frame_again(self.drive, frame_index, self.subject.lead)
        return float(self.look(batch.clip, recipe, self.times_s(batch.indices))[1].answers[0, self.judged.column])

    def times_s(self, indices: IntArray) -> FloatArray:
        """Returns when the frames of a clip were taken, (lead + N,)."""
        return self.drive.times_at(indices, self.subject.lead)

    def mutate(self, frames: NumpyFrames, recipe: Recipe, times_s: FloatArray | None = None) -> Frames:
        """Applies a recipe on the campaign's device; times_s: (N,), when the frames were taken."""
        return recipe.apply(self.on_device(frames), self.stimuli, captured(self.drive, times_s))

    def look(self, clip: Frames, recipe: Recipe, times_s: FloatArray | None = None) -> tuple[Frames, Observation]:
        """Shows the subject a clip of lead + N frames under a recipe; returns the N changed frames and what it said to them.

        A recipe has its parameters drawn already, and changes every frame in the same way: the window of a subject with
        memory is under one condition.
        """
        return self.looker(clip, times_s)(recipe)

    def looker(self, clip: Frames, times_s: FloatArray | None = None) -> Look:
        """Returns what `look` does for one clip, for many recipes."""
        clip = self.on_device(clip)
        lead = self.subject.lead

        def look(recipe: Recipe) -> tuple[Frames, Observation]:
            if self._last_alone:
                now = recipe.apply(clip[lead:], self.stimuli, captured(self.drive, times_s, lead))
                return now, self.subject.observe(clip, now)
            changed = recipe.apply(clip, self.stimuli, captured(self.drive, times_s))
            return changed[lead:], self.subject.observe(changed)

        return look

    def held_against(self, answers: Answers, clip: Frames, recipe: Recipe, times_s: FloatArray) -> Answers:
        """Returns what the answers to mutants are held against: as they are, or where a recipe moves the camera, moved with it.

        The subject is then asked about the frames cut as the moved ones are, and its answer and the label are those from the moved place.
        """
        if not recipe.moves_camera(self.stimuli):
            return answers
        lead, here = self.subject.lead, self.on_device(clip)
        if self._last_alone:
            now = recipe.reference(here[lead:], self.stimuli, captured(self.drive, times_s, lead))
            seen = self.subject.predict(here, now)
        else:
            seen = self.subject.predict(recipe.reference(here, self.stimuli, captured(self.drive, times_s)))
        original = np.asarray(seen[:, self.judged.column], np.float64)
        if not self.judged.is_steering:
            return replace(answers, original=original)
        moved = [recipe.moved_rad(values, self.stimuli) for values in (original, answers.label)]
        return replace(answers, original=moved[0], label=moved[1])

    def words(self, frames: NumpyFrames, recipe: Recipe, times_s: FloatArray, seen: SeenOriginals | None = None) -> Words | None:
        """Returns the referee for mutants of frames (N, height, width, 3) under a recipe; None where it is not asked.

        seen: the frames on the campaign's device, where the referee looks at them once for all recipes.
        """
        if not kinds.asks_referee(self.settings.referee) or recipe.shows_past(self.stimuli):
            return None

        def words(places: IntArray, mutants: Frames, pictures: Sequence[NumpyFrames]) -> Verdicts:
            if seen is not None and not recipe.moves_camera(self.stimuli):
                return seen.judge(mutants, places, lambda asked: [(frames[places[place]], pictures[place]) for place in asked])
            shown, pixel_map = frames[places], None
            if recipe.moves_camera(self.stimuli):
                shown = as_numpy(recipe.reference(shown, self.stimuli, captured(self.drive, times_s[places])))
                pixel_map = recipe.pixel_map(self.stimuli, Camera.guess(frames.shape[1], frames.shape[2] // self.drive.views))
            return judge(shown, mutants[places], pixel_map, self.settings.device, self.drive.views)

        return words

    def seen(self, frames: Frames) -> SeenOriginals | None:
        """Returns what the referee sees in frames on the campaign's device; None where it is not asked there."""
        if self.settings.device == "cpu" or not kinds.asks_referee(self.settings.referee):
            return None
        from skidpad.referee.on_device import SeenOriginals  # noqa: PLC0415  its network is for those who ask it

        return SeenOriginals(frames, self.settings.device, views=self.drive.views)

    def blank_tracker(self, profile: Profile | None, device: str = "") -> CoverageTracker:
        """Returns a tracker of the campaign's criteria with nothing covered; of none for a black box.

        device: where it counts; where the subject runs unless given.
        """
        criteria = [CRITERIA.get(name)() for name in self.settings.criteria] if self.has_coverage else []
        return CoverageTracker(criteria, self.subject.layers, profile, device or self.settings.device)

    def profile(self, run: Run, progress: Progress = silent) -> Profile | None:
        """Returns the neuron bounds that some criteria need; measured once a run on the profile drive."""
        with self._crew(run, None) as crew:
            return self._profile(run, crew, progress)

    def _crew(self, run: Run, workers: Workers | None) -> AbstractContextManager[Crew]:
        return crew_for(self, run, workers or Here(lanes(self.settings.device)))

    def _profile(self, run: Run, crew: Crew, progress: Progress) -> Profile | None:
        if not self.has_coverage or not any(CRITERIA.get(name)().needs_profile for name in self.settings.criteria):
            return None
        drive = self.profile_drive
        path = run.path / "state" / "profile.safetensors"
        if not path.exists():
            measured = Profile(neurons_of(self.subject.layers), subject_sha256=self.subject.sha256, drive_sha256=drive.sha256)
            for part in in_order(crew.map(PROFILE, KnownSoFar(), range(ceil(len(drive) / self.shard_frames)))):
                measured.merge(part)
                progress(measured.pictures, len(drive), "neuron bounds")
            measured.save(path)
        return Profile.load(path, subject_sha256=self.subject.sha256, drive_sha256=drive.sha256)

    @property
    def _last_alone(self) -> bool:
        return self.subject.lead > 0 and self.settings.stimulus_on == StimulusOn.LAST_FRAME.value

    def on_device(self, frames: Frames) -> Frames:
        """Brings frames to where the subject runs."""
        if self.settings.device == "cpu" or not isinstance(frames, np.ndarray):
            return frames
        return uploaded(frames, self.settings.device)

    def block(self, index: int, drive: Drive | None = None) -> range:
        """Returns the frames of a shard."""
        start = index * self.shard_frames
        return range(start, min(start + self.shard_frames, len(drive or self.drive)))

    @cached_property
    def kept_blocks(self) -> KeptBlocks:
        """What the originals' step read, for the grid's."""
        return KeptBlocks(self.settings.device if GRID in self.settings.searches else "cpu")

    def read(self, frames: Sequence[int] | IntArray, readers: int = 1) -> FrameBatch:
        """Reads frames with what the subject looks back at; readers: how many do so at once."""
        return self.drive.read(frames, reading_threads(self.settings.device, readers), lead=self.subject.lead)

    def read_again(self, frames: Sequence[int] | IntArray) -> FrameBatch:
        """Reads frames that could be read before."""
        return self.read(frames).whole()

    def seed_frames(self, originals: Originals | None) -> IntArray:
        """Returns the frames that searches start from, evenly spaced over those that could be read."""
        readable = originals.readable(range(len(self.drive))) if originals else np.zeros(0, np.int64)
        count = min(self.settings.seeds or len(readable), len(readable))
        spaced = np.linspace(0, len(readable) - 1, count).round().astype(np.int64) if count else np.zeros(0, np.int64)
        return readable[spaced]

    def _shards(self, run: Run, search: str, known: KnownSoFar, blank: CoverageTracker, crew: Crew) -> Shards:
        if search == GRID:
            # put together here while the lanes are at work, and so not on their device
            return mapped_parts(crew, GRID, known, partial(grid_cut, self), partial(grid_whole, self.blank_tracker(known.profile, "cpu")))
        if search == RANDOM:
            kept = Counter(frame for table in run.iter_records("greedy", ("frame_index",)) for frame in table["frame_index"].to_pylist())
            return mapped(crew, RANDOM, replace(known, accepted=dict(kept)))

        def look(frame_index: int, recipes: Sequence[Recipe]) -> Observation:
            tries = [Tries(frame_index, tuple(recipes[part])) for part in tries_cut(self, len(recipes))]
            return together(list(in_order(crew.map(TRIES, known, tries))))

        if known.originals is None:
            raise ValueError("the originals come first")
        return one_by_one(GuidedPhase(self, run, search, known.originals, blank, look))


def _resolved(settings: DeepTestSettings, subject: Subject, drive: Drive) -> DeepTestSettings:
    """Fills in what the settings leave to the subject and the drive, so that a run stores what was done."""
    output = JudgedOutput.of(subject.description, settings.output)
    relation = settings.relation or default_relation(output, drive)
    check_relation(relation, output, drive)
    tolerance = default_tolerance(relation, output) if settings.tolerance is None else settings.tolerance
    return replace(
        settings,
        relation=relation,
        tolerance=tolerance,
        shard_frames=settings.shard_frames or default_shard_frames(subject.lead, settings.device, drive),
    )


def from_config(config: Mapping[str, Any], seen: Manifest | None = None) -> DeepTest:
    """Tests a network on a drive under transformations, judged by a metamorphic relation."""
    return DeepTest.load(DeepTestSettings.from_config(config), seen)
