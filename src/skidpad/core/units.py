"""The units of what a subject answers: a small closed set, so that a report can say them."""

from enum import Enum

from skidpad.core.angles import AngleUnit


class PlainUnit(Enum):
    """The unit of an answer that is no angle; it is kept as it is."""

    PROBABILITY = "probability"
    FRACTION = "fraction"
    METRES_PER_SECOND = "m/s"
    METRES_PER_SECOND2 = "m/s2"


Unit = AngleUnit | PlainUnit

UNITS: dict[str, Unit] = {unit.value: unit for kind in (AngleUnit, PlainUnit) for unit in kind}
"""Every unit by the text that stands for it."""
