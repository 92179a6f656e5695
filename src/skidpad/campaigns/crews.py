"""Campaigns and those who compute for them: beginning a crew for a run, and shards from a map.

The cuts must not hang on who computes where the results would: a network's last bits hang on the size of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from skidpad.campaigns.campaign import load_campaign
from skidpad.workers.here import Here
from skidpad.workers.protocol import Crew, Performer, Workers

if TYPE_CHECKING:
    from skidpad.campaigns.metering import Meter
    from skidpad.runs.folder import Run
    from skidpad.runs.segments import ShardResult
    from skidpad.runs.shards import Shards


class Whole(Protocol):
    """Puts the parts of one shard together, in their order."""

    def __call__(self, index: int, parts: Sequence[Any], /) -> ShardResult:
        """Returns the shard."""
        ...


def crew_for(campaign: Performer, run: Run, workers: Workers | None, device: str = "cpu") -> AbstractContextManager[Crew]:
    """Begins a crew for a run; without workers it is this process, with a thread a core, or one that feeds a GPU.

    Workers elsewhere load the campaign from the settings that the run keeps, as a resumed run does.
    """
    chosen = workers or Here(0 if device == "cpu" else 1)
    return chosen.start(campaign, partial(load_campaign, dict(run.config), run.place), run.path / "state")


def mapped(crew: Crew, step: str, given: Any, meter: Meter | None = None, weight: float = 1.0) -> Shards:
    """Computes each shard as one item of a step; weight: of each in the meter."""

    def shards(indices: Sequence[int]) -> Iterator[ShardResult]:
        heard = meter.heard([weight] * len(indices)) if meter is not None else None
        for place, result in crew.map(step, given, indices, heard):
            if heard is not None:
                heard(place, 1.0, "")
            yield result

    return shards


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
        cuts = {index: cut(index) for index in indices}
        owners = [(index, part) for index, parts in cuts.items() for part in range(len(parts))]
        items = [item for parts in cuts.values() for item in parts]
        heard = meter.heard([weight(item) for item in items]) if meter is not None else None
        found: dict[int, dict[int, Any]] = {}
        for place, result in crew.map(step, given, items, heard):
            if heard is not None:
                heard(place, 1.0, "")
            index, part = owners[place]
            found.setdefault(index, {})[part] = result
            if len(found[index]) == len(cuts[index]):
                yield whole(index, [result for _, result in sorted(found.pop(index).items())])

    return shards
