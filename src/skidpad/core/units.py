"""Angles are radians of the steering wheel, positive to the left, inside; degrees at the surface."""

from enum import Enum
from math import pi


class AngleUnit(Enum):
    """The unit in which a drive's labels or a subject's answers are written. rad: how many radians one of it is."""

    RAD = "rad"
    DEG = "deg"
    SCALED_25 = "scaled25"
    """Degrees divided by 25, so that +-25 degrees is +-1 (DeepTest, section 4)."""

    def __init__(self, text: str) -> None:
        self.rad = {"rad": 1.0, "deg": pi / 180.0, "scaled25": 25.0 * pi / 180.0}[text]


def side_of(angle_deg: float) -> str:
    """Words the side that an angle steers to; one that rounds to 0.0 degrees has none."""
    return "straight" if abs(angle_deg) < 0.05 else "left" if angle_deg > 0 else "right"


STEERING_RATIO = 14.8
"""Degrees of the steering wheel for one degree of the road wheels, of the car that recorded Udacity CH2 and of the built-in world's.

Udacity's labels are angles of the steering wheel: a bend signed with 30 mph reads 0.95 rad, which is a radius of 44 m with this
ratio and would be one of 2 m without. With the same car in the built-in world, a tolerance of ten degrees is as strict on a rendered
drive as on a recorded one.
"""

WHEELBASE_M = 2.85
"""Of the car that recorded Udacity CH2 (a Lincoln MKZ)."""

LOOK_AHEAD_M = 15.0
"""How far ahead the driver aims whose steering is the truth: about a second at the drive's speed."""


class Axle(Enum):
    """What turns by an angle: the steering wheel, as in Udacity's recordings of a real car, or the road wheels, as in simulators."""

    STEERING_WHEEL = "steering-wheel"
    ROAD_WHEEL = "road-wheel"


class PlainUnit(Enum):
    """The unit of an answer that is no angle; it is kept as it is."""

    PROBABILITY = "probability"
    FRACTION = "fraction"
    METRES_PER_SECOND = "m/s"
    METRES_PER_SECOND2 = "m/s2"


Unit = AngleUnit | PlainUnit

UNITS: dict[str, Unit] = {unit.value: unit for kind in (AngleUnit, PlainUnit) for unit in kind}
"""Every unit by the text that stands for it."""
