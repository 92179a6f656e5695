"""The folder of runs: which there are, under names that no address can lead out of."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.runs.guarding import is_run

MAX_DEPTH = 4
MAX_FOLDERS = 20_000
MAX_RUNS = 5_000
_SKIPPED = frozenset({"segments", "state", "__pycache__"})


@dataclass(frozen=True, slots=True)
class Found:
    """A run folder on the shelf. key: what addresses call it, a hash of its place; name: the place itself, to be shown."""

    key: str
    name: str
    path: Path


class Shelf:
    """The runs under one folder, or that folder itself where it is a run; links are not followed.

    An address holds a key that this object has given out, never a path, so that none can leave the folder.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise SkidpadError(f"no folder {str(root)!r}; `skidpad ui` takes a run, or a folder of runs")
        self.root = root.resolve()
        self._found: dict[str, Found] = {}
        self._lock = Lock()

    def scan(self) -> tuple[Found, ...]:
        """Looks at the folder again and returns its runs, by name."""
        found = sorted(self._walk(), key=lambda run: run.name)
        with self._lock:
            self._found = {run.key: run for run in found}
        return tuple(found)

    def find(self, key: str) -> Found:
        """Returns the run of a key; one that appeared since the last scan is found too."""
        with self._lock:
            found = self._found.get(key)
        if found is None or not is_run(found.path):
            found = next((run for run in self.scan() if run.key == key), None)
        if found is None:
            raise UnknownNameError("no such run here (any more); the list of runs shows those that there are")
        return found

    def _walk(self) -> Iterator[Found]:
        waiting = [(self.root, 0)]
        seen = runs = 0
        while waiting and seen < MAX_FOLDERS and runs < MAX_RUNS:
            folder, depth = waiting.pop()
            seen += 1
            if is_run(folder):
                runs += 1
                yield self._named(folder)
            elif depth < MAX_DEPTH:
                waiting += [(path, depth + 1) for path in _folders(folder)]

    def _named(self, folder: Path) -> Found:
        place = folder.relative_to(self.root)
        key = blake2b(os.fsencode(place), digest_size=6).hexdigest()
        return Found(key, str(place) if place.parts else self.root.name, folder)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode)]
    except OSError:
        return []  # one that may not be read holds nothing to show
    return [folder / name for name in sorted(names, reverse=True) if name not in _SKIPPED and not name.startswith(".")]
