"""DeepTest as a job: every frame under every recipe, judged, with coverage, shard by shard into a run.

Reference: DeepTest, sections 3 and 5.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from skidpad.campaigns.cases import CaseColumns, Judged, judged
from skidpad.campaigns.guided import SearchPhase
from skidpad.campaigns.lanes import Lanes, open_lanes
from skidpad.campaigns.originals import ORIGINALS, Originals
from skidpad.core.errors import BadRunError, SkidpadError
from skidpad.core.images import Frames, NumpyFrames, as_numpy
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Recipe, Stimulus, grid_recipes
from skidpad.coverage.criterion import CRITERIA
from skidpad.coverage.profile import Profile, profile_of
from skidpad.coverage.tracker import CoverageTracker
from skidpad.drives.drive import Drive, Problem
from skidpad.drives.opening import open_drive
from skidpad.oracles.relations import RELATIONS, LabelMse, SteersAlike
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.segments import ShardResult
from skidpad.runs.shards import run_shards
from skidpad.search.protocol import SEARCHES
from skidpad.subjects.loading import load_subject
from skidpad.transforms import stimuli

if TYPE_CHECKING:
    from skidpad.campaigns.settings import DeepTestSettings
    from skidpad.core.images import IntArray
    from skidpad.oracles.relation import Relation
    from skidpad.subjects.base import Observation, Subject


@dataclass(frozen=True)
class DeepTest:
    """A campaign with everything loaded: the subject once, the drive lazily."""

    settings: DeepTestSettings
    subject: Subject
    drive: Drive
    stimuli: Mapping[str, Stimulus]

    @classmethod
    def load(cls, settings: DeepTestSettings) -> Self:
        """Loads the subject, opens the drive and looks up every name, so that a wrong one ends the work at once."""
        RELATIONS.get(settings.relation)
        for name in settings.searches:
            SEARCHES.get(name)
        needy = [name for name in settings.criteria if CRITERIA.get(name)().needs_profile]
        if needy and not settings.profile_drive:
            raise SkidpadError(f"{', '.join(needy)} needs neuron bounds from a training drive; give one with --profile-drive DRIVE")
        chosen = stimuli(settings.transforms or None)
        campaign = cls(settings, load_subject(settings.subject, settings.device), open_drive(settings.drive), chosen)
        if settings.relation == LabelMse.name and not campaign.drive.has_labels:
            raise campaign.lacks_labels()
        return campaign

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        hashes = {"subject": self.subject.sha256, "drive": self.drive.sha256}
        manifest = Manifest.collect(
            device=self.settings.device, seed=self.settings.seed, hashes=hashes, command=(Path(sys.argv[0]).name, *sys.argv[1:])
        )
        return Run.create(out, self.settings.to_config(), manifest)

    def execute(self, run: Run, progress: Progress = silent) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records."""
        self._check_unchanged(run)
        with run.lock(), open_lanes(self.settings.device) as lanes:
            tracker = self.blank_tracker(self.profile(run, progress, lanes.count))
            blocks = ceil(len(self.drive) / self.settings.shard_frames)
            run_shards(run, ORIGINALS, blocks, lambda index: self._originals_shard(index, tracker), progress, lanes.map)
            originals = Originals.of(run, len(self.drive))
            shards = {ORIGINALS: blocks}
            relation = self.relation(originals)
            seeds = self._seed_frames(originals)
            for search in self.settings.searches:
                if search == "grid":
                    shards[search] = blocks
                    run_shards(run, search, blocks, lambda index: self._grid_shard(index, originals, relation, tracker, lanes), progress)
                else:
                    shards[search] = len(seeds)
                    work = SearchPhase(self, run, search, seeds, originals, relation, tracker, lanes)
                    run_shards(run, search, len(seeds), work, progress)
            run.finish(shards)

    def relation(self, originals: Originals) -> Relation:
        """Returns the relation that judges this campaign's answers."""
        if self.settings.relation == SteersAlike.name:
            return SteersAlike(within_deg=self.settings.tolerance)
        if originals.labelled == 0:
            raise self.lacks_labels()
        return LabelMse(lambda_=self.settings.tolerance, mse_original_rad2=originals.mse_rad2)

    def lacks_labels(self) -> SkidpadError:
        """Says that the relation cannot be used on this drive."""
        return SkidpadError(
            f"the relation {LabelMse.name} compares with the human's steering, but {self.drive.name!r} has no frame with a label and a "
            f"finite answer; use --relation {SteersAlike.name}"
        )

    def picture(self, frame_index: int, recipe: Recipe) -> NumpyFrames:
        """Renders one frame under a recipe, (height, width, 3); the same pixels as in the run."""
        frame = self.drive.frame(frame_index)
        if isinstance(frame, Problem):
            raise BadRunError(f"the frame can no longer be read: {frame}; put the drive back as it was")
        mutant: NumpyFrames = as_numpy(self.mutate(frame[np.newaxis], recipe))[0]
        return mutant

    def mutate(self, frames: NumpyFrames, recipe: Recipe) -> Frames:
        """Applies a recipe on the campaign's device."""
        return recipe.apply(self._on_device(frames), self.stimuli)

    def observe(self, frames: NumpyFrames) -> Observation:
        """Asks the subject on the campaign's device."""
        return self.subject.observe(self._on_device(frames))

    def blank_tracker(self, profile: Profile | None) -> CoverageTracker:
        """Returns a tracker of the campaign's criteria with nothing covered."""
        criteria = [CRITERIA.get(name)() for name in self.settings.criteria]
        return CoverageTracker(criteria, self.subject.layers, profile, self.settings.device)

    def profile(self, run: Run, progress: Progress = silent, threads: int = 1) -> Profile | None:
        """Returns the neuron bounds that some criteria need; measured once a run on the profile drive, a batch a thread."""
        if not any(CRITERIA.get(name)().needs_profile for name in self.settings.criteria):
            return None
        drive = open_drive(self.settings.profile_drive)
        path = run.path / "state" / "profile.safetensors"
        if not path.exists():
            batches = drive.batches(self.settings.shard_frames)
            profile_of(self.subject, batches, drive.sha256, len(drive), progress, threads).save(path)
        return Profile.load(path, subject_sha256=self.subject.sha256, drive_sha256=drive.sha256)

    def _check_unchanged(self, run: Run) -> None:
        for what, now in (("subject", self.subject.sha256), ("drive", self.drive.sha256)):
            then = run.manifest.hashes.get(what)
            if then != now:
                raise BadRunError(
                    f"the {what} has changed since the run {run.path} began ({then} then, {now} now), so its findings would not "
                    "belong together; put it back, or start a new run with another --out"
                )

    def _on_device(self, frames: NumpyFrames) -> Frames:
        if self.settings.device == "cpu":
            return frames
        return torch.from_numpy(frames).to(self.settings.device)

    def _block(self, index: int) -> range:
        start = index * self.settings.shard_frames
        return range(start, min(start + self.settings.shard_frames, len(self.drive)))

    def _originals_shard(self, index: int, tracker: CoverageTracker) -> ShardResult:
        batch = self.drive.read(self._block(index))
        covered = tracker.fresh()
        columns = CaseColumns(keep_activations=self.settings.keep_activations)
        if len(batch):
            observation = self.observe(batch.frames)
            activity = covered.update(observation.values, packed=self.settings.keep_activations)
            columns.add_originals(batch, observation.steering_rad, activity)
        return ShardResult(ORIGINALS, index, columns.table(), {Recipe().name: covered.pack()}, batch.problems)

    def _grid_shard(self, index: int, originals: Originals, relation: Relation, tracker: CoverageTracker, lanes: Lanes) -> ShardResult:
        batch = self.drive.read(originals.readable(self._block(index)))
        columns = CaseColumns(keep_activations=self.settings.keep_activations)
        covered: dict[str, CoverageTracker] = {}
        frames = self._on_device(batch.frames)
        tasks = [(recipe, part) for recipe in grid_recipes(self.stimuli) for part in lanes.cut(len(batch))]

        def evaluate(task: tuple[Recipe, slice]) -> tuple[Judged, torch.Tensor]:
            recipe, part = task
            mutants = recipe.apply(frames[part], self.stimuli)
            observation = self.subject.observe(mutants)
            return judged(relation, originals.answers(batch.indices[part], observation.steering_rad), mutants), observation.values

        with closing(lanes.map(evaluate, tasks)) as evaluated:
            for (recipe, part), (cases, values) in zip(tasks, evaluated, strict=True):
                if recipe.name not in covered:
                    covered[recipe.name] = tracker.fresh()
                activity = covered[recipe.name].update(values, packed=self.settings.keep_activations)
                columns.add(cases, [recipe] * len(values), batch.indices[part], batch.frame_ids[part], activity)
        return ShardResult("grid", index, columns.table(), {name: state.pack() for name, state in covered.items()})

    def _seed_frames(self, originals: Originals) -> IntArray:
        readable = originals.readable(range(len(self.drive)))
        count = min(self.settings.seeds or len(readable), len(readable))
        spaced = np.linspace(0, len(readable) - 1, count).round().astype(np.int64) if count else np.zeros(0, np.int64)
        return readable[spaced]
