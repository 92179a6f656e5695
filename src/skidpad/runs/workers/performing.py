"""One thread a worker: N workers use N cores, and no product is summed in an order that the number of threads decides."""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skidpad.core.errors import LostDriveError, SkidpadError, WorkersError

if TYPE_CHECKING:
    from skidpad.core.progress import Progress
    from skidpad.runs.workers.protocol import Performer, Reload, Work


VARIABLES: Mapping[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""What tells libraries before they are imported to use one thread."""


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_lanes() -> int:
    """Returns how many items this process computes at a time where nobody says: as many as torch has threads, else one a core."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else cores()


def pin_process() -> None:
    """Gives torch and OpenCV one thread for the rest of this process, where they are loaded; work without them stays light."""
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    if torch is not None:
        torch.set_num_threads(1)
    if cv2 is not None:
        cv2.setNumThreads(1)


@contextmanager
def pinned() -> Iterator[None]:
    """Gives torch and OpenCV one thread while the block runs; both settings belong to the process and are put back at the end."""
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    torch_threads = torch.get_num_threads() if torch is not None else 0
    opencv_threads = cv2.getNumThreads() if cv2 is not None else 0
    pin_process()
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(torch_threads)
        if cv2 is not None:
            cv2.setNumThreads(opencv_threads)


T = TypeVar("T")

WAITS_S = (0.5, 1.0, 2.0, 4.0)
"""How long to wait for a drive that is gone before each new try: a network folder that is mounted again takes seconds."""


def patiently(read: Callable[[], T]) -> T:
    """Returns what `read` does; where the drive is gone, waits some seconds for it to come back."""
    for wait_s in WAITS_S:
        try:
            return read()
        except LostDriveError:
            time.sleep(wait_s)
    return read()


class Bench:
    """A performer and the work of the step that it is at."""

    def __init__(self, performer: Performer) -> None:
        self.performer = performer
        self._number = -1
        self._work: Work | None = None

    def prepare(self, number: int, step: str, given: Any) -> None:
        """Turns to another step; what the step before it was given is let go."""
        if number != self._number:
            self._work = None
            self._work = self.performer.step(step, given)
            self._number = number

    def perform(self, item: Any, progress: Progress) -> Any:
        """Computes one item of the step."""
        work = self._work
        if work is None:
            raise RuntimeError("no step was prepared")
        return patiently(lambda: work(item, progress))


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
class Task:
    """One item of the step."""

    number: int
    item: Any
