"""What a scenario is: road, light, weather, ego, other vehicles and pedestrians, and the room that they take.

As plain tables and as flat values by name it follows the fields of the types by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from math import degrees
from typing import Annotated, Any

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import FloatArray, IntArray
from skidpad.core.settings import Within, plain, read
from skidpad.core.stimuli import Value
from skidpad.worlds.scenario.road import Piece

CAR_LENGTH_M, CAR_WIDTH_M, CAR_HEIGHT_M = 4.5, 1.8, 1.46
PERSON_WIDTH_M, PERSON_HEIGHT_M = 0.5, 1.76


class Kind(IntEnum):
    """What a box stands for."""

    VEHICLE = 0
    PEDESTRIAN = 1
    BUILDING = 2
    TREE = 3
    POST = 4


@dataclass(frozen=True, eq=False, slots=True)
class Boxes:
    """Upright boxes on the ground. poses: (K, 3), x, y of the middle and heading; sizes_m: (K, 3), length, width, height; kinds: (K,)."""

    poses: FloatArray
    sizes_m: FloatArray
    kinds: IntArray

    def __len__(self) -> int:
        return len(self.poses)

    @classmethod
    def none(cls) -> Boxes:
        """Returns no box."""
        return cls(np.empty((0, 3)), np.empty((0, 3)), np.empty(0, np.int64))

    @classmethod
    def joined(cls, parts: list[Boxes]) -> Boxes:
        """Returns all boxes of the parts, in order."""
        if not parts:
            return cls.none()
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("poses", "sizes_m", "kinds")))


@dataclass(frozen=True, eq=False, slots=True)
class Movers:
    """Vehicles and pedestrians that follow the road, at constant speed but for those with moves (`scenario.tracks`).

    s_m: (K,), where they are along the centreline at time 0. lateral_m: (K,), beside it. speed_m_s: (K,), along the centreline, negative
    for oncoming traffic; at first, where there are moves. kinds: (K,). looks: (K,), which colour.
    """

    s_m: FloatArray
    lateral_m: FloatArray
    speed_m_s: FloatArray
    kinds: IntArray
    looks: IntArray

    def __len__(self) -> int:
        return len(self.s_m)

    @property
    def sizes_m(self) -> FloatArray:
        """Length, width and height of each, (K, 3)."""
        person = (self.kinds == Kind.PEDESTRIAN)[:, None]
        return np.where(person, [PERSON_WIDTH_M, PERSON_WIDTH_M, PERSON_HEIGHT_M], [CAR_LENGTH_M, CAR_WIDTH_M, CAR_HEIGHT_M])


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
    pieces: tuple[Piece, ...] = ()
    """The centreline piece by piece, from the ego's place less `START_M`, where the words above do not describe it; a curved road's
    radius_m is then its tightest."""


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


class Pace(Enum):
    """Who holds the ego's pedals while the subject steers."""

    CONSTANT = "constant"
    """Nobody: it keeps its speed."""
    CAREFUL = "careful"
    """The careful and competent driver of `worlds.careful`, who keeps the speed until there is a reason to brake."""


@dataclass(frozen=True, slots=True)
class Ego:
    """The car under test: its speed, the lane it has to keep, its lights, and who holds its pedals."""

    speed_m_s: float = 14.0
    lane: int = 1
    headlights: bool = False
    fog_lights: bool = False
    pace: Pace = Pace.CONSTANT


class Shape(Enum):
    """How a value goes over to another one, as OpenSCENARIO calls it."""

    LINEAR = "linear"
    SINUSOIDAL = "sinusoidal"
    CUBIC = "cubic"


@dataclass(frozen=True, slots=True)
class Move:
    """What another car does at a time: it goes over to a speed, or to a place in a lane, or to both. lasts_s: 0 for at once.

    It begins with what there is at `start_s`, also where an earlier move is not yet over. offset_m: from the lane's middle, positive to
    the left of the road's direction.
    """

    start_s: Annotated[float, Within(least=0)]
    lasts_s: Annotated[float, Within(least=0)] = 0.0
    speed_m_s: Annotated[float, Within(least=0)] | None = None
    lane: int | None = None
    offset_m: float = 0.0
    shape: Shape = Shape.LINEAR


class Figure(Enum):
    """What moves, or stands, on the road."""

    CAR = "car"
    PERSON = "person"

    @property
    def size_m(self) -> tuple[float, float]:
        """Its length and width."""
        return (CAR_LENGTH_M, CAR_WIDTH_M) if self is Figure.CAR else (PERSON_WIDTH_M, PERSON_WIDTH_M)


@dataclass(frozen=True, slots=True)
class OtherVehicle:
    """Another car, or a person on the road: where it starts with respect to the ego, in which lane, how fast.

    lane: 1 is the rightmost of the ego's direction, 0 the oncoming one next to the middle.

    offset_m: from the lane's middle, positive to the left of the road's direction. moves: in the order of their times; without any it
    keeps its speed and its place in its lane.
    """

    lane: int
    ahead_m: float
    speed_m_s: float
    colour: int = 0
    offset_m: float = 0.0
    moves: tuple[Move, ...] = ()
    figure: Figure = Figure.CAR


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


YES, NO = "yes", "no"
"""How a boolean is written among flat values, which are numbers and strings."""


def table_of(scenario: Scenario) -> dict[str, object]:
    """Writes a scenario as nested tables of numbers, strings and booleans, every key spelled out."""
    table: dict[str, object] = _without_idle(plain(scenario))
    # Plain keys come first, as TOML wants them; empty lists of vehicles and pedestrians are left out.
    keys = {name: value for name, value in table.items() if not isinstance(value, dict | list)}
    return keys | {name: value for name, value in table.items() if isinstance(value, dict | list) and value}


_IDLE: dict[str, object] = {"pieces": [], "pace": Pace.CONSTANT.value, "offset_m": 0.0, "moves": [], "figure": Figure.CAR.value}
"""Keys that are left out where they say nothing, so that a scenario without moves reads, and hashes, as it did before there were any."""


def _without_idle(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_idle(item) for key, item in value.items() if key not in _IDLE or item != _IDLE[key]}
    return [_without_idle(item) for item in value] if isinstance(value, list) else value


def scenario_of(table: object) -> Scenario:
    """Reads what `table_of` wrote; keys left out take their defaults, unknown ones and wrong kinds are refused by name."""
    made = read(Scenario, table, "the scenario", BadScenarioError)
    conditions = table.get("conditions", {}) if isinstance(table, Mapping) else {}
    # The default is an intensity of weather; the sun has none.
    if "intensity" not in conditions and made.conditions.weather is Weather.SUNNY:
        return replace(made, conditions=replace(made.conditions, intensity=0.0))
    return made


def values_of(scenario: Scenario) -> dict[str, Value]:
    """Writes a scenario as flat values, as `road.radius_m`, `vehicles.count`, `vehicles.1.lane`."""
    table = table_of(scenario)
    return dict(_flat(table | {group: table.get(group, []) for group in ("vehicles", "pedestrians")}, ""))


def _flat(table: Mapping[str, object], path: str) -> list[tuple[str, Value]]:
    values: list[tuple[str, Value]] = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            values += _flat(value, f"{path}{key}.")
        elif isinstance(value, list):
            values.append((f"{path}{key}.count", len(value)))
            for number, item in enumerate(value, 1):
                values += _flat(item, f"{path}{key}.{number}.")
        elif isinstance(value, bool):
            values.append((path + key, YES if value else NO))
        elif isinstance(value, int | float | str):
            values.append((path + key, value))
    return values


def scenario_from(values: Mapping[str, Value]) -> Scenario:
    """Reads what `values_of` wrote; values of entities beyond their count are ignored."""
    table: dict[str, Any] = {}
    for name, value in values.items():
        *path, key = name.split(".")
        if key == "count" or not _exists(path, values):
            continue
        inner: Any = table
        for place, part in enumerate(path):
            if part.isdigit():
                inner = inner[int(part) - 1]
            else:
                count = values.get(".".join([*path[: place + 1], "count"]))
                inner = inner.setdefault(part, {} if count is None else [{} for _ in range(int(count))])
        inner[key] = value == YES if value in {YES, NO} else value
    return scenario_of(table)


def _exists(path: list[str], values: Mapping[str, Value]) -> bool:
    """Tells whether what a path leads through is among as many as there are."""
    return all(int(part) <= int(values[".".join([*path[:place], "count"])]) for place, part in enumerate(path) if part.isdigit())
