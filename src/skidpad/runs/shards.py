"""A phase of a campaign is a map over shards; what is computed is kept at once."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

from skidpad.core.errors import BadRunError, InterruptedRunError
from skidpad.core.progress import Progress, silent
from skidpad.runs.folder import Run
from skidpad.runs.segments import ShardResult

Work: TypeAlias = Callable[[int], ShardResult]


class ShardMap(Protocol):
    """Computes shards, anywhere and in any order, and yields each result as it comes."""

    def __call__(self, work: Work, indices: Sequence[int], /) -> Iterator[ShardResult]:
        """Yields one result for each index."""
        ...


def in_order(work: Work, indices: Sequence[int]) -> Iterator[ShardResult]:
    """Computes shards one after the other in this process, which work that builds on earlier shards needs."""
    return map(work, indices)


def run_shards(run: Run, phase: str, count: int, work: Work, progress: Progress = silent, shard_map: ShardMap = in_order) -> None:
    """Computes the shards of a phase that are missing and commits each; stopped at any moment, what is kept stays.

    `work` must give the same result for the same index, whatever was computed before in this process.
    """
    try:
        with run.lock():
            done = run.completed(phase)
            if done and max(done) >= count:
                raise BadRunError(
                    f"the run {run.path} holds shard {max(done)} of phase {phase!r}, but the phase has only {count}; "
                    "its settings or its drive changed: choose another --out"
                )
            missing = [index for index in range(count) if index not in done]
            progress(len(done), count, phase)
            for result in shard_map(work, missing):
                if result.phase != phase or not 0 <= result.index < count:
                    raise ValueError(f"phase {phase!r} has shards 0 to {count - 1}; work answered {result.phase!r} {result.index}")
                run.commit(result)
                done.add(result.index)
                progress(len(done), count, phase)
    except KeyboardInterrupt as error:
        run.refresh()  # the interrupt may have come after a rename and before its note
        kept = len(run.completed(phase))
        raise InterruptedRunError(
            f"stopped; {kept} of {count} shards of phase {phase!r} are kept; go on with: skidpad resume {shlex.quote(str(run.path))}"
        ) from error
