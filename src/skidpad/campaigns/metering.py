"""One progress for a campaign of many phases, whose shards tell how far they are from wherever they are computed."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.core.progress import Progress
    from skidpad.workers.protocol import Heard


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

    def _add(self, amount: float, note: str = "") -> None:
        with self._lock:
            self._done += amount
            total = round(self._total)
            self._progress(min(round(self._done), total), total, f"{self._note}: {note}" if note else self._note)
