"""One progress for a campaign of many phases, whose shards tell how far they are from wherever they are computed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from skidpad.kinds.kind import load_campaign
from skidpad.runs.shards import resumable
from skidpad.runs.workers.here import Here
from skidpad.runs.workers.protocol import Crew, Performer, Workers

if TYPE_CHECKING:
    from skidpad.core.progress import Progress
    from skidpad.runs.folder import Run
    from skidpad.runs.segments import ShardResult
    from skidpad.runs.shards import Shards
    from skidpad.runs.workers.protocol import Heard


class Meter:
    """Adds up what the items of all phases tell of their progress, from any thread."""

    def __init__(self, progress: Progress, total: float) -> None:
        self._progress = progress
        self._total = total
        self._done = 0.0
        self._note = ""
        self._lock = Lock()

    def begin(self, note: str, kept: float) -> None:
        """Begins a phase, of which `kept` is done already."""
        self._note = note
        self._add(kept)

    def heard(self, weights: Sequence[float]) -> Heard:
        """Returns what hears of the items of one map, given how much each weighs."""
        seen = [0.0] * len(weights)

        def report(place: int, share: float, note: str = "") -> None:
            now = weights[place] * share
            self._add(now - seen[place], note)
            seen[place] = now

        return report

    def part(self, weight: float) -> Progress:
        """Returns a progress of its own that weighs so much in all; it may end early."""
        heard = self.heard([weight])

        def report(done: int, total: int, note: str = "") -> None:
            heard(0, min(done / max(total, 1), 1.0), note)

        return report

    def _add(self, amount: float, note: str = "") -> None:
        with self._lock:
            self._done += amount
            total = round(self._total)
            self._progress(min(round(self._done), total), total, f"{self._note}: {note}" if note else self._note)


_CUTS_KEPT = 4
"""Items are asked for one after the other, so that a cut is made anew only for one that is tried again."""


class Whole(Protocol):
    """Puts the parts of one shard together, in their order."""

    def __call__(self, index: int, parts: Sequence[Any], /) -> ShardResult:
        """Returns the shard."""
        ...


@contextmanager
def crew_for(campaign: Performer, run: Run, workers: Workers | None, device: str = "cpu") -> Iterator[Crew]:
    """Begins a crew for a run; without workers it is this process, with a thread a core, or one that feeds a GPU.

    Workers elsewhere load the campaign from the settings that the run keeps, as a resumed run does. Where the work ends early, it is
    said how to go on.
    """
    chosen = workers or Here(0 if device == "cpu" else 1)
    reload = partial(load_campaign, dict(run.config), run.place)
    with resumable(run), chosen.start(campaign, reload, run.path / "state") as crew:
        yield crew


def mapped(crew: Crew, step: str, given: Any, meter: Meter | None = None, weight: float = 1.0) -> Shards:
    """Computes each shard as one item of a step; weight: of each in the meter."""

    def shards(indices: Sequence[int]) -> Iterator[ShardResult]:
        heard = meter.heard([weight] * len(indices)) if meter is not None else None
        for place, result in crew.map(step, given, indices, heard):
            if heard is not None:
                heard(place, 1.0, "")
            yield result

    return shards


class _Parts(Sequence[Any]):
    """The items of some shards, cut when they are asked for: a million frames under many mutants have hundreds of thousands of items.

    counts: how many items each shard has.
    """

    def __init__(self, indices: Sequence[int], cut: Callable[[int], Sequence[Any]]) -> None:
        self.counts = [len(cut(index)) for index in indices]
        self._ends = list(accumulate(self.counts))
        self._indices = indices
        self._cut = lru_cache(_CUTS_KEPT)(cut)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, place: Any) -> Any:
        shard = self.shard(place)
        # counted from the shard's end, and so below 0
        return self._cut(self._indices[shard])[place - self._ends[shard]]

    def shard(self, place: int) -> int:
        """Returns which of the shards an item belongs to."""
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} items; got place {place}")
        return bisect_right(self._ends, place)


def mapped_parts(
    crew: Crew,
    step: str,
    given: Any,
    cut: Callable[[int], Sequence[Any]],
    whole: Whole,
    meter: Meter | None = None,
    weight: Callable[[Any], float] = lambda _: 1.0,
) -> Shards:
    """Computes shards in parts, so that even a few of them keep all workers busy.

    cut: names the items of a shard. whole: makes the shard of their results. weight: of an item in the meter.
    """

    def shards(indices: Sequence[int]) -> Iterator[ShardResult]:
        items = _Parts(indices, cut)
        heard = meter.heard([weight(item) for item in items]) if meter is not None else None
        found: dict[int, dict[int, Any]] = {}
        for place, result in crew.map(step, given, items, heard):
            if heard is not None:
                heard(place, 1.0, "")
            shard = items.shard(place)
            found.setdefault(shard, {})[place] = result
            if len(found[shard]) == items.counts[shard]:
                yield whole(indices[shard], [result for _, result in sorted(found.pop(shard).items())])

    return shards
