"""The one output of a subject that a campaign judges, and how its numbers are shown."""

from __future__ import annotations

from dataclasses import dataclass
from math import degrees
from typing import TYPE_CHECKING

from skidpad.core.units import PlainUnit
from skidpad.subjects.description import STEERING

if TYPE_CHECKING:
    from skidpad.subjects.description import Description, Output

_EDGES_DEG = tuple(float(edge) for edge in (0, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 40, 60, 90, 180))
_EDGES_SHARE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_EDGES_PLAIN = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, slots=True)
class JudgedOutput:
    """One output and its column among the subject's answers; angles are radians in a run, degrees where they are shown."""

    column: int
    output: Output

    @classmethod
    def of(cls, description: Description, name: str) -> JudgedOutput:
        """Looks the output up by name."""
        column = description.column(name)
        return cls(column, description.outputs[column])

    @property
    def name(self) -> str:
        """The name that the description gives it."""
        return self.output.name

    @property
    def is_steering(self) -> bool:
        """Whether drives have labels of it."""
        return self.output.name == STEERING

    @property
    def stored_unit(self) -> str:
        """The unit of the numbers in the records: rad for angles; empty where the description has none."""
        if self.output.is_angle:
            return "rad"
        return self.output.unit.value if self.output.unit is not None else ""

    @property
    def shown_unit(self) -> str:
        """The unit of the numbers that are printed: deg for angles; empty where the description has none."""
        return "deg" if self.output.is_angle else self.stored_unit

    def shown(self, value: float) -> float:
        """Returns a stored number as it is printed."""
        return degrees(value) if self.output.is_angle else value

    @property
    def edges(self) -> tuple[float, ...]:
        """Edges of the histogram of |mutant - original|, as shown: fine where relations are drawn, coarse where answers are absurd."""
        if self.output.is_angle:
            return _EDGES_DEG
        return _EDGES_SHARE if self.output.unit in {PlainUnit.PROBABILITY, PlainUnit.FRACTION} else _EDGES_PLAIN
