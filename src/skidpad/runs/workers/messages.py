"""What all workers of one machine are given: large arrays lie in one file that each maps into its memory, so that they are there once."""

from __future__ import annotations

import mmap
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skidpad.core.errors import WorkersError

if TYPE_CHECKING:
    from skidpad.runs.workers.protocol import Reload


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
