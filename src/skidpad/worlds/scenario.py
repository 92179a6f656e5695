"""A scenario: one value for every variable of the domain model, as plain types that can be written down.

Reference: offline and online testing (Haq et al. 2020), section II-D and figure 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import degrees

from skidpad.core.errors import SkidpadError


class BadScenarioError(SkidpadError):
    """A scenario that cannot be read, breaks a constraint, or that a world cannot show."""


class RoadKind(Enum):
    """The shape of the road ahead."""

    STRAIGHT = "straight"
    CURVED = "curved"
    ENTRY = "entry-lane"
    EXIT = "exit-lane"


class Weather(Enum):
    """The weather."""

    SUNNY = "sunny"
    FOG = "fog"
    RAIN = "rain"
    SNOW = "snow"


class Side(Enum):
    """A side, seen in the direction of travel."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class RoadPlan:
    """The road. radius_m, side and turn_deg matter on a curved one only; lanes: in the ego's direction, the rightmost is 1.

    One lane each way, or several lanes of the ego's direction with the oncoming ones beyond the middle line. An entry or exit
    lane joins or leaves at the right.
    """

    kind: RoadKind = RoadKind.STRAIGHT
    radius_m: float = 200.0
    side: Side = Side.LEFT
    lanes: int = 1
    lane_width_m: float = 3.5
    turn_deg: float = degrees(1.2)
    """How far the road turns to each side of its first direction, as it bends to and fro."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Light and weather. intensity: 0..1, from hardly noticeable to the worst that people drive in; sunny ignores it."""

    weather: Weather = Weather.SUNNY
    intensity: float = 0.5
    night: bool = False
    sun_azimuth_deg: float = 118.0
    sun_elevation_deg: float = 38.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Nature and infrastructure. trees and buildings: 0..1, from none to as dense as they get; gantries: signs over the road."""

    trees: float = 0.5
    buildings: float = 0.0
    hills: bool = True
    gantries: int = 0


@dataclass(frozen=True, slots=True)
class Ego:
    """The car under test: constant speed, the lane it has to keep, its lights."""

    speed_m_s: float = 14.0
    lane: int = 1
    headlights: bool = False
    fog_lights: bool = False


@dataclass(frozen=True, slots=True)
class OtherVehicle:
    """Another car: where it starts with respect to the ego, in which lane (0: the oncoming one next to the middle), how fast."""

    lane: int
    ahead_m: float
    speed_m_s: float
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Pedestrian:
    """A pedestrian who walks along the road, beside it."""

    side: Side
    ahead_m: float
    speed_m_s: float = 1.4


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a world needs to begin; seed: what the variables leave open (where trees stand, textures)."""

    road: RoadPlan = field(default_factory=RoadPlan)
    conditions: Conditions = field(default_factory=lambda: Conditions(intensity=0.0))
    surroundings: Surroundings = field(default_factory=Surroundings)
    ego: Ego = field(default_factory=Ego)
    vehicles: tuple[OtherVehicle, ...] = ()
    pedestrians: tuple[Pedestrian, ...] = ()
    duration_s: float = 20.0
    seed: int = 0
