"""The phases that search on seed images: one shard an image, with coverage carried from shard to shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from skidpad.campaigns.cases import CaseColumns, judged
from skidpad.campaigns.originals import ORIGINALS, Originals
from skidpad.core.images import NumpyFrames, as_numpy
from skidpad.core.stimuli import Recipe
from skidpad.coverage.tracker import CoverageTracker
from skidpad.runs.segments import ShardResult
from skidpad.search.greedy import stack_order
from skidpad.search.protocol import SEARCHES, SearchTask
from skidpad.subjects.base import Observation

if TYPE_CHECKING:
    from skidpad.campaigns.deeptest import DeepTest
    from skidpad.campaigns.lanes import Lanes
    from skidpad.core.images import IntArray
    from skidpad.oracles.relation import Relation
    from skidpad.runs.folder import Run

WIDTH = 16
"""Tries that are evaluated at once; which are taken does not depend on it."""

TRIES_A_BATCH = 8
"""Enough for the network to be fast, few enough that two lanes have work."""


class SearchPhase:
    """Computes the shard of one seed image; the guided search starts from what the originals and earlier shards covered.

    Records of `greedy` are the tests that Algorithm 1 returns: the mutants that raised coverage. `random` keeps every try,
    as many on an image as `greedy` made there, where both are in one run.

    Reference: DeepTest 3.3, Algorithm 1.
    """

    def __init__(
        self,
        campaign: DeepTest,
        run: Run,
        search: str,
        seeds: IntArray,
        originals: Originals,
        relation: Relation,
        tracker: CoverageTracker,
        lanes: Lanes,
    ) -> None:
        self._campaign = campaign
        self._lanes = lanes
        self._run = run
        self._search = search
        self._order = seeds[np.fromiter(stack_order(len(seeds)), np.int64)]
        self._originals = originals
        self._relation = relation
        self._tracker = tracker
        self._carried: tuple[int, CoverageTracker] | None = None
        self._accepted: Counter[int] = Counter()
        if search == "random":
            for table in run.iter_records("greedy", ("frame_index",)):
                self._accepted.update(table["frame_index"].to_pylist())

    def __call__(self, index: int) -> ShardResult:
        """Computes shard `index`; shards are computed in order."""
        settings = self._campaign.settings
        batch = self._campaign.drive.read(self._order[index : index + 1], lead=self._campaign.subject.lead)
        covered = self._covered_before(index)
        found = self._tracker.fresh()
        columns = CaseColumns(keep_activations=settings.keep_activations)
        search = SEARCHES.get(self._search)(self._task(batch.frame_ids[0], int(batch.indices[0]))) if len(batch) else None
        while search is not None and not search.done:
            recipes = search.ask(WIDTH)
            mutants, observation = self._observed(batch.clip, recipes)
            accepted = search.tell(self._raises(covered, observation))
            kept = self._kept(len(recipes), accepted)
            if not kept:
                continue
            values = observation.values[kept]
            covered.update(values)
            activity = found.update(values, packed=settings.keep_activations)
            indices = np.repeat(batch.indices, len(kept))
            answers = self._originals.answers(indices, observation.answers[kept, self._campaign.judged.column])
            cases = judged(self._relation, answers, mutants[kept])
            columns.add(cases, [recipes[place] for place in kept], indices, batch.frame_ids * len(kept), activity)
        self._carried = (index + 1, covered)
        return ShardResult(self._search, index, columns.table(), {self._search: found.pack()}, batch.problems)

    def _kept(self, tries: int, accepted: int | None) -> list[int]:
        if self._search == "random":
            return list(range(tries))
        return [] if accepted is None else [accepted]

    def _raises(self, covered: CoverageTracker, observation: Observation) -> list[bool]:
        """Tells which tries raise the coverage that guides the search; none where there is no coverage."""
        criteria = self._campaign.settings.criteria
        if not self._campaign.has_coverage or not criteria:
            return [False] * len(observation.answers)
        gains = covered.state(criteria[0]).newly_each(covered.regions(criteria[0], observation.values))
        return [bool(gain) for gain in (gains > 0).tolist()]

    def _observed(self, clip: NumpyFrames, recipes: Sequence[Recipe]) -> tuple[NumpyFrames, Observation]:
        """Renders one frame and those before it, (lead + 1, height, width, 3), under each recipe and asks the subject."""

        def look(part: slice) -> tuple[NumpyFrames, Observation]:
            if self._campaign.subject.lead:
                mutants, observation = self._campaign.look(clip, recipes[part][0])
                return as_numpy(mutants), observation
            together = np.concatenate([as_numpy(self._campaign.mutate(clip, recipe)) for recipe in recipes[part]])
            return together, self._campaign.look(together, Recipe())[1]

        # a window has its own past, so a subject with memory sees one mutant at a time
        tries = 1 if self._campaign.subject.lead else TRIES_A_BATCH
        parts = [slice(start, start + tries) for start in range(0, len(recipes), tries)]
        looked = list(self._lanes.map(look, parts))
        answers = np.concatenate([observation.answers for _, observation in looked])
        values = torch.cat([observation.values for _, observation in looked])
        return np.concatenate([mutants for mutants, _ in looked]), Observation(answers, values)

    def _task(self, frame_id: str, frame_index: int) -> SearchTask:
        settings = self._campaign.settings
        tries = self._accepted[frame_index] + settings.max_failed_tries + 1
        return SearchTask(frame_id, self._campaign.stimuli, settings.seed, settings.max_failed_tries, unguided_tries=tries)

    def _covered_before(self, index: int) -> CoverageTracker:
        if self._carried is not None and self._carried[0] == index:
            return self._carried[1]
        covered = self._tracker.fresh()
        for phase, before in ((ORIGINALS, None), (self._search, index)):
            for tracker in merged_coverage(self._run, phase, self._tracker, before).values():
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
