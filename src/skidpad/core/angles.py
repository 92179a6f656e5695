"""Angles are radians inside, degrees at the surface."""

from enum import Enum
from math import pi


class AngleUnit(Enum):
    """The unit in which a drive's labels or a subject's answers are written."""

    RAD = "rad"
    DEG = "deg"
    SCALED_25 = "scaled25"
    """Degrees divided by 25, so that +-25 degrees is +-1 (DeepTest, section 4)."""

    @property
    def rad(self) -> float:
        """How many radians one of this unit is."""
        return _RADIANS[self]


_RADIANS = {AngleUnit.RAD: 1.0, AngleUnit.DEG: pi / 180.0, AngleUnit.SCALED_25: 25.0 * pi / 180.0}
