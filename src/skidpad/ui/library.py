"""Rendered pictures, kept while there is room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from skidpad.core.errors import SkidpadError
from skidpad.kinds.exhibits import Motion, Rule, Side
from skidpad.page.wording import drive_words, plain
from skidpad.runs.tags import TaggedRates
from skidpad.ui.rows import FAILURES, Database
from skidpad.ui.volumes import State, Volume

if TYPE_CHECKING:
    from skidpad.ui.shelf import Found, Shelf


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


@dataclass(frozen=True, slots=True)
class Summary:
    """One run in the list. kind: the command that made it. problem: why it cannot be read, "" where it can.

    rates: None where they are still to be counted. apart: whether several were tested, whose cases make no rate together.
    altered: whether its settings were changed after it was made.
    """

    found: Found
    kind: str = ""
    subject: str = ""
    drive: str = ""
    created: str = ""
    cases: str = ""
    apart: bool = False
    rule: Rule = field(default_factory=Rule)
    state: State | None = None
    rates: TaggedRates | None = None
    problem: str = ""
    altered: bool = False


class Library:
    """The shelf, opened: gives out volumes, and remembers what they render."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.pictures = PictureCache()
        self._database = Database(shelf.root)
        self._volumes: OrderedDict[str, Volume] = OrderedDict()
        self._lock = Lock()

    def volume(self, key: str) -> Volume:
        """Returns the run of a key, opened."""
        found = self.shelf.find(key)
        with self._lock:
            volume = self._volumes.get(key)
            if volume is not None:
                self._volumes.move_to_end(key)
                return volume
        opened = Volume(found, self._database)
        with self._lock:
            volume = self._volumes.setdefault(key, opened)
            dropped = [self._volumes.popitem(last=False)[1] for _ in range(len(self._volumes) - MAX_OPEN)]
        for old in dropped:
            old.close()
        return volume

    def summaries(self) -> list[Summary]:
        """Returns every run, newest first; counts as many as the time for a first screen allows."""
        until = monotonic() + FIRST_SCREEN_S
        rows = [self.summary(found, counted=monotonic() < until) for found in self.shelf.scan()]
        return sorted(rows, key=lambda row: (row.created, row.found.name), reverse=True)

    def summary(self, found: Found, *, counted: bool = True) -> Summary:
        """Returns one run's line; what is wrong with the run is said in it."""
        try:
            volume = self.volume(found.key)
            rates = volume.rates() if counted else None
            return Summary(
                found=found,
                kind=volume.exhibit.command or volume.kind,
                subject=_last_part(volume.setting("subject") or volume.setting("ego")),
                drive=drive_words(volume.setting("drive") or volume.setting("world") or volume.setting("scenario")),
                created=plain(volume.run.manifest.created, 32),
                cases=volume.exhibit.cases,
                apart=bool(volume.exhibit.apart),
                rule=volume.rule() if counted else volume.exhibit.rule,
                state=volume.state,
                rates=rates,
                altered=bool(volume.run.integrity.altered),
            )
        except SkidpadError as error:
            return Summary(found, problem=plain(str(error), 400))
        except FAILURES as error:
            return Summary(found, problem=plain(f"its records cannot be read: {error}", 400))

    def picture(self, volume: Volume, case_id: str, side: Side) -> bytes:
        """Returns one picture of a case, rendered once."""
        return self.pictures.get((volume.found.path, case_id, side), lambda: volume.picture(case_id, side))

    def film(self, volume: Volume, case_id: str, motion: Motion) -> bytes:
        """Returns the film of a case, drawn once."""
        return self.pictures.get((volume.found.path, case_id, motion), lambda: volume.film(case_id, motion))

    def close(self) -> None:
        """Lets go of every table and of the temporary folder."""
        self._database.close()


def _last_part(text: str) -> str:
    return text.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".toml")
