"""The work of a picture campaign's shards: frames under recipes, answered and judged, and how many at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from skidpad.core.images import FloatArray, Frames
from skidpad.core.stimuli import Recipe
from skidpad.coverage.criteria import neurons_of
from skidpad.coverage.profile import Profile
from skidpad.coverage.tracker import Activity, CoverageTracker
from skidpad.kinds.pictures.guided import SeedFrame, seed_frame_shard
from skidpad.kinds.pictures.judging import CaseTable, Judged, Originals, captured, judged
from skidpad.kinds.pictures.reading import LastRead, Shown, reading_threads
from skidpad.runs.records import ORIGINALS, ShardResult
from skidpad.runs.workers.here import cores
from skidpad.subjects.base import Observation

if TYPE_CHECKING:
    from skidpad.core.progress import Progress
    from skidpad.drives.drive import Drive, FrameBatch
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.oracles.relations import Relation
    from skidpad.runs.workers.protocol import Work


_CPU_FRAMES = 32
"""With 64, the maps of a first convolution are more than the allocator keeps, and the system clears new pages for each
batch: a tenth of the time. Fewer than 16 make the network itself slower."""

_GPU_FRAMES = 256
"""As many as a subject takes at once there."""

_GPU_PIXELS = _GPU_FRAMES * 320 * 240
"""Of a batch on a GPU: a transform takes some 60 bytes a pixel while it works, in every thread that feeds the GPU."""

_SHARD_FRAMES = 64

_GPU_SHARD_BYTES = 1 << 28
"""Of a shard's frames, which stay on the GPU while its mutants are made."""

_GPU_LANES = 4
"""What breaks a relation is hashed, a fifth of a millisecond a picture: one thread cannot keep up with a GPU. More threads wait for each
other's turn at the interpreter: on an H200, 19,981 images a second with four and 13,929 with eight; by `benchmarks/gpu_throughput.py`."""


def cut(frames: int, lead: int = 0, device: str = "cpu", frame_px: int = 0) -> list[slice]:
    """Cuts `frames` frames of `frame_px` pixels into batches; how many workers there are does not matter.

    lead: the earlier frames that each batch includes; batches are long enough that these are a third at most.
    """
    most = _CPU_FRAMES if device == "cpu" else min(_GPU_FRAMES, _GPU_PIXELS // max(frame_px, 1))
    size = max(most, 2 * lead, 1)
    return [slice(start, min(start + size, frames)) for start in range(0, frames, size)]


def default_shard_frames(lead: int, device: str, drive: Drive) -> int:
    """Returns how many frames a shard has where nobody says: enough that a subject's memory is at most half of what is shown.

    On a GPU they are a whole batch where their memory allows it.
    """
    fitting = 0
    if device != "cpu":
        height, width, channels = drive.frame_shape
        fitting = min(_GPU_FRAMES, _GPU_SHARD_BYTES // (height * width * channels))
    return max(_SHARD_FRAMES, 2 * lead, fitting)


def lanes(device: str) -> int:
    """Returns how many threads of this process compute: 0 (a thread a core) on the CPU, a few that feed a GPU."""
    return 0 if device == "cpu" else min(_GPU_LANES, cores())


PROFILE, GRID, TRIES, RANDOM = "profile", "grid", "tries", "random"

_PART_PICTURES = 512
"""Mutants of a part: seconds of work, so that handing it over costs nothing beside, and a few shards are many parts."""

_GPU_PART_PICTURES = 2048
"""A GPU is many times as fast; each thread that feeds it still gets a part of a shard."""

TRIES_A_BATCH = 8
"""Enough for the network to be fast, few enough that two workers have some of a search's sixteen."""


@dataclass(frozen=True, slots=True)
class KnownSoFar:
    """What earlier steps brought. originals: None before they are known. accepted: by frame, how many tests `greedy` kept there."""

    profile: Profile | None = None
    originals: Originals | None = None
    accepted: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GridPart:
    """Some rows of the grid on a block of the drive."""

    block: int
    rows: slice


@dataclass(frozen=True, slots=True)
class Tries:
    """Some recipes on a frame."""

    frame_index: int
    recipes: tuple[Recipe, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a shard: records, and packed coverage by stimulus."""

    records: pa.Table
    coverage: Mapping[str, bytes]


@dataclass(frozen=True)
class DeepTestWork:
    """Computes the steps for one worker."""

    campaign: DeepTest
    known: KnownSoFar
    last_read: LastRead[Shown] = field(init=False)

    def __post_init__(self) -> None:
        """On a GPU there is room for the block that is read ahead."""
        object.__setattr__(self, "last_read", LastRead(2 if self.campaign.settings.device == "cpu" else 3))

    def of(self, step: str) -> Work:
        """Returns the work of a step."""
        works: Mapping[str, Work] = {
            PROFILE: self.profile,
            ORIGINALS: self.originals_shard,
            GRID: self.grid_part,
            TRIES: self.tries,
            RANDOM: self.random_shard,
        }
        return works[step]

    @cached_property
    def _tracker(self) -> CoverageTracker:
        return self.campaign.blank_tracker(self.known.profile)

    @cached_property
    def _originals(self) -> Originals:
        if self.known.originals is None:
            raise ValueError("the originals come first")
        return self.known.originals

    @cached_property
    def _relation(self) -> Relation:
        return self.campaign.relation(self._originals)

    @cached_property
    def _asks_of_originals(self) -> bool:
        """Whether some recipe is compared with the unchanged frame; not so where the camera moves or an earlier frame is shown."""
        stimuli = self.campaign.stimuli
        return any(not recipe.moves_camera(stimuli) and not recipe.shows_past(stimuli) for recipe in self.campaign.grid)

    def profile(self, block: int, _: Progress) -> Profile:
        """Measures the bounds of the neurons over one block."""
        campaign, drive = self.campaign, self.campaign.profile_drive
        profile = Profile(neurons_of(campaign.subject.layers), subject_sha256=campaign.subject.sha256, drive_sha256=drive.sha256)
        device = campaign.settings.device
        batch = drive.read(campaign.block(block, drive), reading_threads(device, lanes(device)), lead=campaign.subject.lead)
        if len(batch):
            profile.update(campaign.subject.observe(batch.clip).values)
        return profile

    def originals_shard(self, index: int, _: Progress) -> ShardResult:
        """Shows the subject a block as it is. If the block is kept for the grid, the referee looks at it while other threads still read."""
        campaign = self.campaign
        shown = self._shown(campaign.read(campaign.block(index), lanes(campaign.settings.device)))
        batch = shown.batch
        covered = self._tracker.fresh()
        columns = CaseTable(keep_activations=campaign.settings.keep_activations)
        if len(batch):
            observation = campaign.look(shown.clip, Recipe())[1]
            activity = covered.update(observation.values, packed=campaign.settings.keep_activations)
            labels = batch.steering_rad if campaign.judged.is_steering else np.full(len(batch), np.nan)
            columns.add_originals(batch, observation.answers[:, campaign.judged.column], labels, activity)
            if campaign.kept_blocks.keep(index, shown, campaign.drive.views) and self._asks_of_originals:
                for seen in shown.seen:
                    if seen is not None:
                        seen.look()
        return ShardResult(ORIGINALS, index, columns.table(), {Recipe().name: covered.pack()}, batch.problems)

    def grid_part(self, part: GridPart, progress: Progress) -> Part:
        """Shows the subject a block under some rows of the grid; on a GPU the next block is read meanwhile."""
        campaign, keep = self.campaign, self.campaign.settings.keep_activations
        lead = campaign.subject.lead
        shown = self.last_read.get(part.block, partial(self._block, part.block))
        batch, cuts = shown.batch, shown.cuts
        if campaign.settings.device != "cpu" and len(campaign.block(part.block + 1)):
            self.last_read.begin(part.block + 1, partial(self._block, part.block + 1))
        covered: dict[str, CoverageTracker] = {}
        recipes = campaign.grid[part.rows]
        found: dict[tuple[int, int], tuple[Judged, Activity]] = {}
        for number, some in enumerate(cuts):
            part_clip, times_s = shown.clip[some.start : some.stop + lead], campaign.times_s(batch.indices[some])
            look = campaign.looker(part_clip, times_s)
            for place, recipe in enumerate(recipes):
                progress(number * len(recipes) + place, len(cuts) * len(recipes))  # where Ctrl-C is heard
                mutants, observation = look(recipe)
                answers = self._originals.answers(batch.indices[some], observation.answers[:, campaign.judged.column])
                answers = campaign.held_against(answers, part_clip, recipe, times_s)
                if recipe.name not in covered:
                    covered[recipe.name] = self._tracker.fresh()
                activity = covered[recipe.name].update(observation.values, packed=keep)
                words = campaign.words(batch.frames[some], recipe, times_s[lead:], shown.seen[number])
                found[place, number] = judged(self._relation, answers, mutants, words), activity
        columns = CaseTable(keep_activations=keep)
        for place, number in sorted(found):
            some = cuts[number]
            columns.add(
                found[place, number][0],
                [recipes[place]] * (some.stop - some.start),
                batch.indices[some],
                batch.frame_ids[some],
                found[place, number][1],
            )
        return Part(columns.table(), {name: tracker.pack() for name, tracker in covered.items()})

    def _block(self, block: int) -> Shown:
        kept = self.campaign.kept_blocks.take(block)
        return kept or self._shown(self.campaign.read_again(self._originals.readable(self.campaign.block(block))))

    def _shown(self, batch: FrameBatch) -> Shown:
        campaign, lead = self.campaign, self.campaign.subject.lead
        clip = campaign.on_device(batch.clip)
        cuts = cut(len(batch), lead, campaign.settings.device, clip.shape[1] * clip.shape[2])
        return Shown(batch, clip, cuts, [campaign.seen(clip[some.start + lead : some.stop + lead]) for some in cuts])

    def tries(self, tries: Tries, _: Progress) -> Observation:
        """Shows the subject one frame under some recipes, with the frames before it that it looks back at."""
        shown = self.last_read.get(tries.frame_index, partial(self._seed, tries.frame_index))
        return self._seen(shown.clip, tries.recipes, self.campaign.times_s(shown.batch.indices))

    def _seed(self, frame_index: int) -> Shown:
        batch = self.campaign.read_again([frame_index])
        return Shown(batch, self.campaign.on_device(batch.clip))

    def random_shard(self, index: int, _: Progress) -> ShardResult:
        """Computes the shard of one seed frame without a guide, which no other shard has to wait for."""
        seed = SeedFrame.of(self.campaign, index, self._originals)
        clip = self.campaign.on_device(seed.batch.clip)

        def look(recipes: Sequence[Recipe]) -> Observation:
            times_s = self.campaign.times_s(seed.batch.indices)
            parts = [self._seen(clip, recipes[part], times_s) for part in tries_cut(self.campaign, len(recipes))]
            return together(parts)

        accepted = self.known.accepted.get(seed.frame_index, 0)
        return seed_frame_shard(self.campaign, RANDOM, seed, self._originals, self._relation, self._tracker, look, accepted)

    def _seen(self, clip: Frames, recipes: Sequence[Recipe], times_s: FloatArray) -> Observation:
        campaign = self.campaign
        if campaign.subject.lead:
            # a window has its own past, so a subject with memory sees one mutant at a time
            return together([campaign.look(clip, recipe, times_s)[1] for recipe in recipes])
        mutants = [recipe.apply(clip, campaign.stimuli, captured(campaign.drive, times_s)) for recipe in recipes]
        if isinstance(clip, torch.Tensor):
            return campaign.look(torch.cat([torch.as_tensor(each) for each in mutants]), Recipe())[1]
        return campaign.look(np.concatenate(mutants), Recipe())[1]


def grid_cut(campaign: DeepTest, block: int) -> list[GridPart]:
    """Cuts the grid on a block into parts."""
    rows = len(campaign.grid)
    pictures = _PART_PICTURES if campaign.settings.device == "cpu" else _GPU_PART_PICTURES
    size = max(1, pictures // max(len(campaign.block(block)), 1))
    return [GridPart(block, slice(start, min(start + size, rows))) for start in range(0, rows, size)]


def grid_whole(blank: CoverageTracker, index: int, parts: Sequence[Part]) -> ShardResult:
    """Puts the parts of a block together."""
    covered: dict[str, CoverageTracker] = {}
    for part in parts:
        for name, packed in part.coverage.items():
            tracker = blank.fresh()
            tracker.unpack(packed)
            if name in covered:
                covered[name].merge(tracker)
            else:
                covered[name] = tracker
    records = pa.concat_tables([part.records for part in parts]).combine_chunks()
    return ShardResult(GRID, index, records, {name: tracker.pack() for name, tracker in covered.items()})


def tries_cut(campaign: DeepTest, tries: int) -> list[slice]:
    """Cuts the tries of a frame into batches; how many workers there are does not matter."""
    size = 1 if campaign.subject.lead else TRIES_A_BATCH
    return [slice(start, start + size) for start in range(0, tries, size)]


def together(parts: Sequence[Observation]) -> Observation:
    """Puts what was seen in several batches together."""
    return Observation(np.concatenate([part.answers for part in parts]), torch.cat([part.values for part in parts]))


def name_of(campaign: DeepTest, step: str, item: Any) -> str:
    """Names an item: which frames it is about."""
    if isinstance(item, Tries):
        return f"frame {item.frame_index} ({campaign.drive.frame_ids[item.frame_index]})"
    if step == RANDOM:
        return f"the search on seed frame {item}"
    block = item.block if isinstance(item, GridPart) else item
    if step == PROFILE:
        return f"block {block} of the profile drive"
    frames = campaign.block(block)
    ids = campaign.drive.frame_ids
    return f"frames {frames[0]} to {frames[-1]} ({ids[frames[0]]} to {ids[frames[-1]]})"
