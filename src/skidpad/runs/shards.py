"""A phase of a campaign is a map over shards; what is computed is kept at once."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from skidpad.core.errors import BadRunError, IncompleteRunError, InterruptedRunError, LostDriveError, LostWorkError, WorkersError
from skidpad.core.progress import Progress, silent
from skidpad.runs.folder import DISK_FULL, Run
from skidpad.runs.segments import ShardResult

Shards: TypeAlias = Callable[[Sequence[int]], Iterator[ShardResult]]
"""Computes the shards of a phase with these indices, anywhere and in any order, and yields each as it comes."""


def one_by_one(work: Callable[[int], ShardResult]) -> Shards:
    """Computes shards one after the other in this process, which work that builds on earlier shards needs."""
    return lambda indices: map(work, indices)


def run_shards(run: Run, phase: str, count: int, shards: Shards, progress: Progress = silent, *, parts: str = "") -> None:
    """Computes the shards of a phase that are missing and commits each; stopped at any moment, what is kept stays.

    `shards` must give the same result for the same index, whatever was computed before. parts: what its user calls them, where that
    is not shards of a phase.
    """
    called = parts or f"shards of phase {phase!r}"
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
            for result in shards(missing):
                if result.phase != phase or not 0 <= result.index < count:
                    raise ValueError(f"phase {phase!r} has shards 0 to {count - 1}; work answered {result.phase!r} {result.index}")
                run.commit(result)
                done.add(result.index)
                progress(len(done), count, phase)
    except KeyboardInterrupt as error:
        raise InterruptedRunError(f"stopped: {_kept(run, phase, count, called)}") from error
    except LostWorkError as error:
        raise IncompleteRunError(f"{error}; all other shards of the phase were computed; {_kept(run, phase, count, called)}") from error
    except (LostDriveError, WorkersError) as error:
        raise type(error)(f"{error}; {_kept(run, phase, count, called)}") from error


@contextmanager
def resumable(run: Run) -> Iterator[None]:
    """Says what is kept and how to go on where work ends early before, between or after the phases; a phase says it itself."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise InterruptedRunError(f"stopped: {_all_kept(run)}; {_go_on(run)}") from error
    except (LostDriveError, WorkersError) as error:
        if isinstance(error.__cause__, type(error)):
            raise  # its phase has said it
        raise type(error)(f"{error}; {_all_kept(run)}; {_go_on(run)}") from error
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise BadRunError(f"writing to {run.path}: the disk is full; {_all_kept(run)}; free some space, then {_go_on(run)}") from error


def _kept(run: Run, phase: str, count: int, called: str) -> str:
    run.refresh()  # an interrupt may have come after a rename and before its note, and files may have been removed underneath
    return f"{len(run.completed(phase))} of {count} {called} are kept; {_go_on(run)}"


def _all_kept(run: Run) -> str:
    run.refresh()
    return f"{len(run.segments())} shards are kept"


def _go_on(run: Run) -> str:
    return f"go on with: skidpad resume {shlex.quote(run.place)}"
