"""The runs below one folder, under names that no address can lead out of; those that were opened, and the pictures they rendered."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from time import monotonic

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.kinds.exhibits import Motion, PictureSide
from skidpad.page.wording import NOTHING, count, drive_words, plain
from skidpad.runs.manifest import is_run
from skidpad.ui.rows import FAILURES, Database
from skidpad.ui.run_view import FoundRun, RunView
from skidpad.ui.views import RunLine, date_words, rate_words, tagged_words

MAX_DEPTH = 4
MAX_FOLDERS = 20_000
MAX_RUNS = 5_000
_SKIPPED = frozenset({"segments", "state", "__pycache__"})


class RunsFolder:
    """The runs under one folder, or that folder itself where it is a run; links are not followed.

    An address holds a key that this object has given out, never a path, so that none can leave the folder.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise SkidpadError(f"no folder {str(root)!r}; `skidpad ui` takes a run, or a folder of runs")
        self.root = root.resolve()
        self._found: dict[str, FoundRun] = {}
        self._lock = Lock()

    def scan(self) -> tuple[FoundRun, ...]:
        """Looks at the folder again and returns its runs, by name."""
        found = sorted(self._walk(), key=lambda run: run.name)
        with self._lock:
            self._found = {run.key: run for run in found}
        return tuple(found)

    def find(self, key: str) -> FoundRun:
        """Returns the run of a key; one that appeared since the last scan is found too."""
        with self._lock:
            found = self._found.get(key)
        if found is None or not is_run(found.path):
            found = next((run for run in self.scan() if run.key == key), None)
        if found is None:
            raise UnknownNameError("no such run here (any more); the list of runs shows those that there are")
        return found

    def _walk(self) -> Iterator[FoundRun]:
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

    def _named(self, folder: Path) -> FoundRun:
        place = folder.relative_to(self.root)
        key = blake2b(os.fsencode(place), digest_size=6).hexdigest()
        return FoundRun(key, str(place) if place.parts else self.root.name, folder)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode)]
    except OSError:
        return []  # one that may not be read holds nothing to show
    return [folder / name for name in sorted(names, reverse=True) if name not in _SKIPPED and not name.startswith(".")]


MAX_BYTES = 96 << 20


class PictureCache:
    """Keeps the bytes that were asked for last; any thread may ask."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable, render: Callable[[], bytes]) -> bytes:
        """Returns what is kept under a key, or renders it; two that ask at once may both render, and get the same."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        data = render()
        with self._lock:
            self._bytes += len(data) - len(self._kept.pop(key, b""))
            self._kept[key] = data
            while self._bytes > self._max_bytes and self._kept:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return data

    def __len__(self) -> int:
        return len(self._kept)


MAX_OPEN = 24
FIRST_SCREEN_S = 0.35
"""How long the list of runs may count before it shows what it has; the rest is asked for by the page."""


class Library:
    """Opens the runs of a folder, and keeps what was opened and rendered last."""

    def __init__(self, folder: RunsFolder) -> None:
        self.folder = folder
        self.pictures = PictureCache()
        self._database = Database(folder.root)
        self._views: OrderedDict[str, RunView] = OrderedDict()
        self._lock = Lock()

    def view(self, key: str) -> RunView:
        """Returns the run of a key, opened."""
        found = self.folder.find(key)
        with self._lock:
            view = self._views.get(key)
            if view is not None:
                self._views.move_to_end(key)
                return view
        opened = RunView(found, self._database)
        with self._lock:
            view = self._views.setdefault(key, opened)
            dropped = [self._views.popitem(last=False)[1] for _ in range(len(self._views) - MAX_OPEN)]
        for old in dropped:
            old.close()
        return view

    def lines(self) -> list[RunLine]:
        """Returns every run, newest first; counts as many as the time for a first screen allows."""
        until = monotonic() + FIRST_SCREEN_S
        rows = [self.line(found, counted=monotonic() < until) for found in self.folder.scan()]
        return sorted(rows, key=lambda row: (row.created, row.name), reverse=True)

    def line(self, found: FoundRun, *, counted: bool = True) -> RunLine:
        """Returns one run of the list; what is wrong with the run is said in it. counted: whether its cases are counted now."""
        name = plain(found.name, 120)
        try:
            view = self.view(found.key)
            exhibit, created, rates = view.exhibit, plain(view.run.manifest.created, 32), view.rates() if counted else None
            line = RunLine(
                key=found.key,
                name=name,
                created=created,
                kind=exhibit.command or view.kind,
                subject=_last_part(view.setting("subject") or view.setting("ego")) or NOTHING,
                drive=drive_words(view.setting("drive") or view.setting("world") or view.setting("scenario")) or NOTHING,
                date=date_words(created),
                state=view.state.value,
                rule=(view.rule() if counted else exhibit.rule).words,
                apart=bool(exhibit.apart),
                altered=bool(view.run.integrity.altered),
            )
        except SkidpadError as error:
            return RunLine(found.key, name, problem=plain(str(error), 400))
        except FAILURES as error:
            return RunLine(found.key, name, problem=plain(f"its records cannot be read: {error}", 400))
        if rates is None:
            return line
        return replace(
            line,
            cases=f"{count(rates.cases)} {exhibit.cases}",
            findings=count(rates.findings),
            rate=None if line.apart else rate_words(rates.rate, rates.findings, rates.cases, f"rate-{found.key}"),
            tagged=tagged_words(rates, apart=line.apart),
        )

    def picture(self, view: RunView, case_id: str, side: PictureSide) -> bytes:
        """Returns one picture of a case, rendered once."""
        return self.pictures.get((view.found.path, case_id, side), lambda: view.picture(case_id, side))

    def film(self, view: RunView, case_id: str, motion: Motion) -> bytes:
        """Returns the film of a case, drawn once."""
        return self.pictures.get((view.found.path, case_id, motion), lambda: view.film(case_id, motion))

    def close(self) -> None:
        """Lets go of every table and of the temporary folder."""
        self._database.close()


def _last_part(text: str) -> str:
    return text.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".toml")
