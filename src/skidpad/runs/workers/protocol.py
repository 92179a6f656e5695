"""The one interface over this process, local processes and a Ray cluster.

A campaign names a step of its work, gives along what earlier steps brought, and maps it over items. Whoever computes has the campaign
loaded once, and asks it for the work of that step. The driver alone writes to the run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from skidpad.core.progress import Progress

Work: TypeAlias = Callable[[Any, Progress], Any]
"""Computes one item; the same item gives the same result, whatever was computed before and wherever. It may say how far it is."""

Reload: TypeAlias = Callable[[], "Performer"]
"""Loads a performer anew; it must survive pickling, so it is a function of a module with plain arguments."""

Heard: TypeAlias = Callable[[int, float, str], None]
"""Hears how far an item is: its place among the items, the share that is done, a note."""


class Performer(Protocol):
    """What is loaded once a worker and computes the steps of a job: a campaign."""

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hash of each thing that the results hang on, by name."""
        ...

    def step(self, name: str, given: Any, /) -> Work:
        """Returns the work of one step; `given` is what earlier steps brought. Called once a worker."""
        ...

    def item_name(self, step: str, item: Any, /) -> str:
        """Names an item for people, as `frames 64 to 127`."""
        ...


class Crew(Protocol):
    """Workers that have begun."""

    @property
    def count(self) -> int:
        """How many items are computed at a time."""
        ...

    def spare_cores(self, items: int) -> int:
        """Returns how many cores each item may use where so many are computed; more than 1 where lanes would stand idle."""
        ...

    def map(self, step: str, given: Any, items: Sequence[Any], heard: Heard | None = None) -> Generator[tuple[int, Any], None, None]:
        """Yields the place of each item and its result, as they come; however the caller leaves, nothing more is begun.

        given: brought to each worker once, as long as one map after the other is of the same step and gives the same object.
        What kills every worker that takes it is left out, and told with LostWorkError when all others are done. An error in the work
        ends the map.
        """
        ...


class Workers(Protocol):
    """Who may compute, before anyone has begun."""

    def start(self, performer: Performer, reload: Reload, scratch: Path) -> AbstractContextManager[Crew]:
        """Begins: those within this process share `performer`, the others load their own; nobody is left at work afterwards.

        scratch: a folder of this machine for what is shared by way of files.
        """
        ...


def in_order(results: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    """Yields the results of a map in the order of its items, each as soon as those before it are there."""
    early: dict[int, Any] = {}
    place = 0
    for number, result in results:
        early[number] = result
        while place in early:
            yield early.pop(place)
            place += 1
