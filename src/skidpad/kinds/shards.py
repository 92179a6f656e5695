"""A phase of a campaign is a map over shards: who computes them, one progress for all phases, and what is computed is kept at once."""

from __future__ import annotations

import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from skidpad.core.errors import (
    BadRunError,
    IncompleteRunError,
    InterruptedRunError,
    LostDriveError,
    LostWorkError,
    MissingExtraError,
    SkidpadError,
    WorkersError,
)
from skidpad.core.progress import Progress, silent
from skidpad.kinds.kind import load_campaign
from skidpad.runs.folder import DISK_FULL, Run
from skidpad.runs.records import ShardResult
from skidpad.runs.workers.dispatching import unheard
from skidpad.runs.workers.here import Here
from skidpad.runs.workers.protocol import Crew, Performer, Workers

if TYPE_CHECKING:
    from skidpad.runs.workers.protocol import Heard

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


_RAY = "ray"


def workers_of(text: str, device: str = "cpu", died: Callable[[str], None] = unheard) -> Workers | None:
    """Reads who computes; None, for what suits the campaign, where nobody says.

    `1` is one thread of this process, a larger number so many local processes; `ray` a cluster begun on this machine, `ray://host:port`
    one that is reached from outside, `ray:ADDRESS` one that this machine is part of (`ray:auto` finds it). device: on `cuda`, each
    worker of a cluster takes a GPU. died: is told in a sentence of each worker that dies.
    """
    from skidpad.runs.workers.processes import Processes  # noqa: PLC0415  whoever asks for nothing loads nothing
    from skidpad.runs.workers.ray_cluster import RayCluster, place_of  # noqa: PLC0415  see above

    if not text:
        return None
    if text == _RAY or text.startswith(f"{_RAY}:"):
        address = text if text.startswith(f"{_RAY}://") else text[len(_RAY) :].removeprefix(":")
        if text not in {_RAY, f"{_RAY}:auto"} and place_of(address) is None:
            # Ray itself would look for it for half a minute, or begin a cluster of its own.
            raise SkidpadError(f"a Ray cluster is ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT; got {text!r}")
        if find_spec(_RAY) is None:
            raise MissingExtraError.of(_RAY, _RAY, "a Ray cluster")
        return RayCluster(address, gpu=device != "cpu", died=died)
    if not text.isdecimal() or int(text) < 1:
        raise SkidpadError(f"workers are a number of at least 1, or ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT; got {text!r}")
    return Here(1) if int(text) == 1 else Processes(int(text), died)


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
    whole: Callable[[int, Sequence[Any]], ShardResult],
    meter: Meter | None = None,
    weight: Callable[[Any], float] = lambda _: 1.0,
) -> Shards:
    """Computes shards in parts, so that even a few of them keep all workers busy.

    cut: names the items of a shard. whole: makes the shard of their results, in their order. weight: of an item in the meter.
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
