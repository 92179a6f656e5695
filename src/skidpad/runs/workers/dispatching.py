"""Items to workers that may die: who has what, what is tried again, and what is given up.

Local processes and Ray differ in how a worker is reached; what happens to the work is the same and stands here.
"""

from __future__ import annotations

import mmap
import pickle
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from skidpad.core.errors import LostWorkError, SkidpadError, WorkersError

if TYPE_CHECKING:
    from skidpad.runs.workers.protocol import Heard, Performer, Reload


TRIES = 3
"""How often an item is given to a worker before it is blamed for their deaths."""


def unheard(sentence: str) -> None:
    """Ignores worker-death notices."""


def told(error: BaseException) -> BaseException:
    """Returns an error that can travel: one of ours as it is, another with its traceback as a note."""
    if isinstance(error, SkidpadError):
        return error
    lines = "".join(traceback.format_exception(error))
    carried: BaseException = error if type(error).__module__ == "builtins" else RuntimeError(f"{type(error).__name__}: {error}")
    carried.__traceback__ = None
    carried.__cause__ = carried.__context__ = None
    carried.add_note(f"in a worker:\n{lines}")
    return carried


_IN_FILE_BYTES = 1 << 20
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Shared:
    """A pickled value: small parts within, the buffers of large arrays in a file."""

    data: bytes
    buffers: tuple[bytes, ...] = ()
    file: str = ""
    places: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, value: Any, file: Path) -> Shared:
        """Packs a value; writes the file only where its arrays are large."""
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        if sum(view.nbytes for view in views) < _IN_FILE_BYTES:
            return cls(data, tuple(bytes(view) for view in views))
        places = []
        try:
            with file.open("wb") as out:
                for view in views:
                    out.write(bytes(-out.tell() % _ALIGNMENT))
                    places.append((out.tell(), view.nbytes))
                    out.write(view)
        except OSError as error:
            file.unlink(missing_ok=True)
            raise WorkersError(
                f"cannot share {sum(view.nbytes for view in views) >> 20} MiB with the workers through {file}: {error.strerror}; "
                "free some space, or use --workers 1"
            ) from error
        return cls(data, (), str(file), tuple(places))

    def load(self) -> Any:
        """Unpacks the value; arrays from the file are read-only and stay in it."""
        if not self.file:
            return pickle.loads(self.data, buffers=self.buffers)  # noqa: S301  the driver's own words
        with Path(self.file).open("rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return pickle.loads(self.data, buffers=[view[start : start + size] for start, size in self.places])  # noqa: S301  see above


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message: where to find modules and files, what to load, and the hashes of the code that may run (`core.trust`)."""

    path: tuple[str, ...]
    folder: str
    reload: Reload
    trusted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Another step begins."""

    number: int
    step: str
    given: Shared


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """One item of the step."""

    number: int
    item: Any


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has loaded everything."""

    worker: int


@dataclass(frozen=True, slots=True)
class Done:
    """A worker has computed a task."""

    worker: int
    task: int
    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker met an error, with a task or, where that is None, while it loaded."""

    worker: int
    task: int | None
    error: BaseException


@dataclass(frozen=True, slots=True)
class Told:
    """A worker says how far a task is."""

    worker: int
    task: int
    share: float
    note: str


@dataclass(frozen=True, slots=True)
class Died:
    """A worker is gone, and so is what it had in hand."""

    worker: int
    reason: str


Event: TypeAlias = Ready | Done | Failed | Told | Died


class WorkerPool(Protocol):
    """Workers that can be reached; a worker computes its tasks one after the other, in the order in which it got them."""

    @property
    def size(self) -> int:
        """How many workers there may be."""
        ...

    def hire(self) -> int:
        """Begins one more worker and returns its number; it tells when it is ready."""
        ...

    def prepare(self, step: str, given: Any) -> None:
        """Makes ready what every worker needs for the next tasks."""
        ...

    def give(self, worker: int, task: int, item: Any) -> None:
        """Hands a task to a worker that is ready; one that has died meanwhile tells so with the next events."""
        ...

    def events(self) -> Sequence[Event]:
        """Waits for something to happen and returns it."""
        ...


@dataclass(slots=True)
class _Worker:
    ready: bool = False
    tasks: deque[int] = field(default_factory=deque)


@dataclass(slots=True)
class _Ledger:
    """What is to be done of one map; tasks are numbered on from `first`, so that what comes of an older map is known as such."""

    first: int
    count: int
    open: int
    begun: int = 0
    again: deque[int] = field(default_factory=deque)
    tries: Counter[int] = field(default_factory=Counter)
    lost: dict[int, str] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """How many items nobody has in hand."""
        return len(self.again) + self.count - self.begun

    def take(self) -> int:
        """Returns the next item to be handed out."""
        if self.again:
            return self.again.popleft()
        self.begun += 1
        return self.begun - 1

    def blame(self, place: int, reason: str) -> None:
        """Takes note of a death at an item: it is tried again, or given up."""
        self.tries[place] += 1
        if self.tries[place] < TRIES:
            self.again.appendleft(place)
        else:
            self.lost[place] = reason
            self.open -= 1


class PoolCrew:
    """A crew over a pool; died: is told in a sentence of each worker that dies."""

    def __init__(self, pool: WorkerPool, performer: Performer, died: Callable[[str], None] = unheard) -> None:
        self._pool = pool
        self._performer = performer
        self._workers: dict[int, _Worker] = {}
        self._tasks = 0
        self._deaths_while_starting = 0
        self._deaths = 0
        self._died = died

    @property
    def count(self) -> int:
        """How many items are computed at a time."""
        return self._pool.size

    def spare_cores(self, items: int) -> int:  # noqa: ARG002  a worker is one core, however few items there are
        """Returns 1: every worker has one core."""
        return 1

    def map(self, step: str, given: Any, items: Sequence[Any], heard: Heard | None = None) -> Generator[tuple[int, Any], None, None]:
        """Yields the place of each item and its result, as they come."""
        if not items:
            return
        ledger = _Ledger(self._tasks, len(items), len(items))
        self._tasks += len(items)
        self._pool.prepare(step, given)
        for worker in self._workers.values():
            worker.tasks.clear()  # of a map that was left; what comes of it is not asked for
        while ledger.open:
            self._hire(ledger.open)
            self._hand_out(ledger, items)
            for event in self._pool.events():
                if isinstance(event, Done):
                    if event.task >= ledger.first:
                        place = event.task - ledger.first
                        self._workers[event.worker].tasks.remove(place)
                        ledger.open -= 1
                        yield place, event.result
                else:
                    self._note(event, ledger, heard)
        if ledger.lost:
            raise LostWorkError({self._performer.item_name(step, items[place]): reason for place, reason in sorted(ledger.lost.items())})

    def _note(self, event: Ready | Failed | Told | Died, ledger: _Ledger, heard: Heard | None) -> None:
        match event:
            case Ready(number):
                self._workers[number].ready = True
                self._deaths_while_starting = 0
            case Told(_, task, share, note):
                if heard is not None and task >= ledger.first:
                    heard(task - ledger.first, share, note)
            case Failed(_, task, error):
                if task is None or task >= ledger.first:
                    raise error
            case Died(number, reason):
                self._bury(number, reason, ledger)

    def _hire(self, wanted: int) -> None:
        while len(self._workers) < min(wanted, self._pool.size):
            self._workers[self._pool.hire()] = _Worker()

    def _hand_out(self, ledger: _Ledger, items: Sequence[Any]) -> None:
        # A second task lies ready while the first is computed, as long as nobody else could begin with it. After a death each is given
        # alone: a worker that dies of its second may take the first one's result with it, and the wrong one would be blamed.
        for ahead in (1,) if ledger.tries else (1, 2):
            for number, worker in self._workers.items():
                if worker.ready and len(worker.tasks) < ahead and ledger.waiting > (0 if ahead == 1 else len(self._workers)):
                    place = ledger.take()
                    worker.tasks.append(place)
                    self._pool.give(number, ledger.first + place, items[place])

    def _bury(self, number: int, reason: str, ledger: _Ledger) -> None:
        """Takes a dead worker's tasks back, and blames the one that it was at."""
        worker = self._workers.pop(number)
        self._deaths += 1
        self._died(f"a worker died ({reason}) and others take over its work; {self._deaths} so far")
        if not worker.ready:
            self._deaths_while_starting += 1
            if self._deaths_while_starting >= TRIES:
                raise WorkersError(f"{TRIES} workers in a row died while they were starting ({reason}); try fewer, as --workers 1")
        blamed = worker.tasks.popleft() if worker.tasks else None
        ledger.again.extendleft(reversed(worker.tasks))
        if blamed is not None:
            ledger.blame(blamed, reason)
