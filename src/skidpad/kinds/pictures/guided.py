"""The phases that search on seed frames: one shard a frame, with coverage carried from shard to shard where it guides.

Reference: DeepTest 3.3, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import as_numpy
from skidpad.core.stimuli import Recipe
from skidpad.coverage.tracker import CoverageTracker
from skidpad.kinds.pictures.judging import CaseTable, Originals, judged, may_stand
from skidpad.oracles.relations import Answers
from skidpad.runs.records import ORIGINALS, ShardResult
from skidpad.runs.workers.here import patiently
from skidpad.search.pairs import pairs_task, stack_order
from skidpad.search.protocol import SEARCHES, Fitness, asked_of, kept

if TYPE_CHECKING:
    from skidpad.drives.drive import FrameBatch
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.kinds.pictures.settings import DeepTestSettings
    from skidpad.oracles.relations import Relation
    from skidpad.referee.on_device import SeenOriginals
    from skidpad.runs.folder import Run
    from skidpad.subjects.base import Observation, Subject


WIDTH = 16
"""Tries that are evaluated at once; which are taken does not depend on it."""

Look = Callable[[Sequence[Recipe]], "Observation"]
"""Shows the subject one seed frame under some recipes."""


@dataclass(frozen=True, slots=True)
class SeedFrame:
    """The frame that a shard searches on; `batch` holds it and its past."""

    index: int
    frame_index: int
    batch: FrameBatch

    @classmethod
    def of(cls, campaign: DeepTest, index: int, originals: Originals) -> Self:
        """Reads the seed frame of a shard, in the order of Algorithm 1's stack."""
        seeds = campaign.seed_frames(originals)
        frame_index = int(seeds[np.fromiter(stack_order(len(seeds)), np.int64)][index])
        return cls(index, frame_index, campaign.read_again([frame_index]))


def seed_frame_shard(
    campaign: DeepTest,
    search: str,
    seed: SeedFrame,
    originals: Originals,
    relation: Relation,
    blank: CoverageTracker,
    look: Look,
    accepted: int = 0,
    covered: CoverageTracker | None = None,
) -> ShardResult:
    """Searches on one seed frame.

    Records are the tries that the search keeps. Those of `greedy` are the tests that Algorithm 1 returns: the mutants that raised
    coverage. `random` keeps every try, as many on a frame as `greedy` made there, where both are in one run.

    accepted: how many tests `greedy` kept on the frame. covered: what the guide starts from; it takes in what is kept.
    """
    settings = campaign.settings
    found = blank.fresh()
    columns = CaseTable(keep_activations=settings.keep_activations)
    task = pairs_task(
        seed.batch.frame_ids[0],
        campaign.stimuli,
        settings.seed,
        settings.max_failed_tries,
        unguided_tries=accepted + settings.max_failed_tries + 1,
    )
    asked = SEARCHES.get(search)(task)
    seen = campaign.seen(seed.batch.frames)
    while not asked.done:
        recipes = asked_of(asked, WIDTH, search)
        observation = look(recipes)
        raises = _same_scene(campaign, seed, recipes, _raises(campaign, covered, observation), seen)
        places = kept(len(recipes), asked.tell([Fitness(float(grown)) for grown in raises]))
        if not places:
            continue
        values = observation.values[places]
        if covered is not None:
            covered.update(values)
        activity = found.update(values, packed=settings.keep_activations)
        indices = np.repeat(seed.batch.indices, len(places))
        chosen = [recipes[place] for place in places]
        answers = originals.answers(indices, observation.answers[places, campaign.judged.column])
        times_s = campaign.times_s(seed.batch.indices)
        now_s = times_s[len(times_s) - len(seed.batch) :]
        for place, recipe in enumerate(chosen):
            one = Answers(*(values[place : place + 1] for values in (answers.original, answers.mutant, answers.label)))
            one = campaign.held_against(one, seed.batch.clip, recipe, times_s)
            mutant = campaign.mutate(seed.batch.frames, recipe, now_s)
            case = judged(relation, one, mutant, campaign.words(seed.batch.frames, recipe, now_s, seen))
            columns.add(case, [recipe], indices[place : place + 1], seed.batch.frame_ids, activity.of(place))
    return ShardResult(search, seed.index, columns.table(), {search: found.pack()}, seed.batch.problems)


def _raises(campaign: DeepTest, covered: CoverageTracker | None, observation: Observation) -> list[bool]:
    """Tells which tries raise the coverage that guides the search; none where there is no guide."""
    criteria = campaign.settings.criteria
    if covered is None or not campaign.has_coverage or not criteria:
        return [False] * len(observation.answers)
    gains = covered.state(criteria[0]).newly_each(covered.regions(criteria[0], observation.values))
    return [bool(gain) for gain in (gains > 0).tolist()]


def _same_scene(
    campaign: DeepTest, seed: SeedFrame, recipes: Sequence[Recipe], raises: Sequence[bool], seen: SeenOriginals | None
) -> list[bool]:
    """Tells which of the tries that raise coverage still show the scene; another scene covers much and is no test.

    The referee is asked up to the first try that it keeps: the guide takes no other.
    """
    told = [False] * len(raises)
    times_s = campaign.times_s(seed.batch.indices)
    now_s = times_s[len(times_s) - len(seed.batch) :]
    for place in np.flatnonzero(raises).tolist():
        words = campaign.words(seed.batch.frames, recipes[place], now_s, seen)
        mutant = None if words is None else as_numpy(campaign.mutate(seed.batch.frames, recipes[place], now_s))
        told[place] = words is None or mutant is None or may_stand(words(np.arange(len(mutant)), mutant, list(mutant)).reasons[-1])
        if told[place]:
            break
    return told


def check_guide(settings: DeepTestSettings, subject: Subject) -> None:
    """Refuses a guided search where there is no coverage to guide it."""
    if "greedy" not in settings.searches:
        return
    if not subject.layers:
        raise SkidpadError(
            f"the search greedy is guided by coverage, and {subject.description.name!r} is a black box whose neurons cannot be seen; "
            "use --search grid or --search random"
        )
    if not settings.criteria:
        raise SkidpadError("the search greedy is guided by coverage and needs a criterion; give one, as --criteria nc")


class GuidedPhase:
    """Computes the shards of a guided search one after the other, each from what the originals and earlier shards covered."""

    def __init__(
        self,
        campaign: DeepTest,
        run: Run,
        search: str,
        originals: Originals,
        blank: CoverageTracker,
        look: Callable[[int, Sequence[Recipe]], Observation],
    ) -> None:
        """Takes the parts; look: shows the subject a frame of the drive under some recipes."""
        self._campaign = campaign
        self._run = run
        self._search = search
        self._originals = originals
        self._relation = campaign.relation(originals)
        self._blank = blank
        self._look = look
        self._carried: tuple[int, CoverageTracker] | None = None

    def __call__(self, index: int) -> ShardResult:
        """Computes shard `index`; shards are computed in order."""
        seed = patiently(lambda: SeedFrame.of(self._campaign, index, self._originals))
        covered = self._covered_before(index)

        def look(recipes: Sequence[Recipe]) -> Observation:
            return self._look(seed.frame_index, recipes)

        shard = seed_frame_shard(self._campaign, self._search, seed, self._originals, self._relation, self._blank, look, covered=covered)
        self._carried = (index + 1, covered)
        return shard

    def _covered_before(self, index: int) -> CoverageTracker:
        if self._carried is not None and self._carried[0] == index:
            return self._carried[1]
        covered = self._blank.fresh()
        for phase, before in ((ORIGINALS, None), (self._search, index)):
            for tracker in merged_coverage(self._run, phase, self._blank, before).values():
                covered.merge(tracker)
        return covered


def merged_coverage(run: Run, phase: str, blank: CoverageTracker, before: int | None = None) -> dict[str, CoverageTracker]:
    """Returns the coverage of a phase by stimulus; `before` takes only the shards below that index."""

    def unpack(data: bytes) -> CoverageTracker:
        tracker = blank.fresh()
        tracker.unpack(data)
        return tracker

    def merge(first: CoverageTracker, second: CoverageTracker) -> CoverageTracker:
        first.merge(second)
        return first

    return dict(run.coverage(phase, unpack, merge, before))
