"""What the shards of a duel run keep beside their records: policies and counts, which later shards build on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from skidpad.runs.folder import Run

State = TypeVar("State")


class Kept(Protocol):
    """A run, or what a worker far from its folder is given of it."""

    def completed(self, phase: str) -> set[int]:
        """Returns the shards of a phase that are kept."""
        ...

    def coverage(self, phase: str, unpack: Callable[[bytes], State], merge: Callable[[State, State], State]) -> Mapping[str, State]:
        """Merges the states of a phase by name, in the order of shards."""
        ...


@dataclass(frozen=True, slots=True)
class KeptShards:
    """The states of all shards of a run at one moment, by phase and index; small enough to be sent."""

    shards: Mapping[str, Mapping[int, Mapping[str, bytes]]]

    @classmethod
    def of(cls, run: Run) -> Self:
        """Reads them from a run."""
        found: dict[str, dict[int, Mapping[str, bytes]]] = {}
        for segment in run.segments():
            found.setdefault(segment.phase, {})[segment.index] = segment.coverage()
        return cls(found)

    def completed(self, phase: str) -> set[int]:
        """Returns the shards of a phase that are kept."""
        return set(self.shards.get(phase, {}))

    def coverage(self, phase: str, unpack: Callable[[bytes], State], merge: Callable[[State, State], State]) -> Mapping[str, State]:
        """Merges the states of a phase by name, in the order of shards."""
        merged: dict[str, State] = {}
        for _, states in sorted(self.shards.get(phase, {}).items()):
            for name, data in states.items():
                state = unpack(data)
                merged[name] = merge(merged[name], state) if name in merged else state
        return merged
