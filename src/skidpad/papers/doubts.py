"""What a replication says of subjects whose answers on unchanged frames make no sense, and which of them it compares with no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from skidpad.oracles.doubts import Doubt, DoubtKind, senseless


class Cell(Protocol):
    """The figures of a subject."""

    @property
    def subject(self) -> str:
        """Its name."""
        ...

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What is odd about its answers on unchanged frames."""
        ...


C = TypeVar("C", bound=Cell)


def is_senseless(cell: Cell) -> bool:
    """Tells whether the figures of a cell cannot be compared with those of other subjects."""
    return bool(senseless(cell.doubts))


def comparable(cells: Sequence[C]) -> tuple[C, ...]:
    """Returns the cells whose figures can be compared."""
    return tuple(cell for cell in cells if not is_senseless(cell))


def shown_subject(cell: Cell) -> str:
    """Returns a subject's name for a table, marked where its figures cannot be compared."""
    return f"{cell.subject} (in doubt)" if is_senseless(cell) else cell.subject


def left_out(cells: Sequence[Cell]) -> str:
    """Names the subjects that are compared with no other, and why; empty where there is none."""
    found = {cell.subject: why for cell in cells if (why := senseless(cell.doubts))}
    return "; ".join(f"{subject} {why}" for subject, why in found.items())


def doubt_facts(cells: Sequence[Cell], comparisons: str) -> tuple[str, ...]:
    """Returns a warning for each subject and doubt; comparisons: what senseless subjects are left out of."""
    found = {(cell.subject, doubt.kind): doubt for cell in cells for doubt in cell.doubts}
    return tuple(
        f"warning: {_said_of(subject, doubt)}{f' {subject} is left out of {comparisons}.' if senseless((doubt,)) else ''}"
        for (subject, _), doubt in found.items()
    )


def doubts_from(values: Mapping[str, Any]) -> tuple[Doubt, ...]:
    """Reads the doubts of a cell from its JSON; an older one has none."""
    return tuple(Doubt(DoubtKind(each["kind"]), str(each["said"])) for each in values.get("doubts", ()))


def _said_of(subject: str, doubt: Doubt) -> str:
    for network in ("The network", "the network"):
        if network in doubt.said:
            return doubt.said.replace(network, subject, 1)
    return f"{subject}: {doubt.said}"
