"""A duel's scenario: the road, how the two vehicles start, what drives the one in front, when an episode ends, what is seen."""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Self

import numpy as np

from skidpad.core import toml
from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.highway.layout import Params
from skidpad.highway.observation import ObservationSpec

Range = tuple[float, float]


class SpacingMode(Enum):
    """What the numbers of `Scenario.spacing` mean."""

    RATIO = "ratio"
    """highway-env's spacing ratio: centre gap = ratio x (12 + v) x exp(-lanes / 8) x U(0.9, 1.1) metres, v the front vehicle's speed."""
    METRES = "metres"
    """Free road between the two bumpers."""


class FrontDriver(Enum):
    """What drives the front vehicle."""

    POLICY = "policy"
    """Meta-actions, given at each policy step."""
    IDM = "idm"
    """The Intelligent Driver Model along the lane and MOBIL across it."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A frozen two-vehicle highway; ranges are (low, high), drawn uniformly at the start of each episode.

    Reference: adversarial testing, section III. See `presets` for the paper's case study and the published snapshot's.
    """

    name: str
    lanes: int = 2
    spacing_mode: SpacingMode = SpacingMode.RATIO
    spacing: Range = (0.5, 2.0)
    ego_start_ratio: float | None = None
    """The ratio by which the ego is placed along the road; None takes the one drawn for the spacing. The observation shows absolute x."""
    ego_speed_mps: Range = (25.0, 25.0)
    front_speed_mps: Range = (25.0, 25.0)
    target_speeds_mps: tuple[float, ...] = (20.0, 25.0, 30.0)
    """What FASTER and SLOWER choose among; evenly spaced, rising."""
    overtake_end_m: float | None = None
    """The episode ends as overtaken once x of the front less x of the ego is at most this; None: never."""
    policy_hz: int = 1
    simulation_hz: int = 5
    episode_steps: int = 30
    """Policy steps until timeout."""
    front: FrontDriver = FrontDriver.POLICY
    observation: ObservationSpec = field(default_factory=ObservationSpec)

    def __post_init__(self) -> None:
        for name, least in (("lanes", 1), ("policy_hz", 1), ("simulation_hz", 1), ("episode_steps", 1)):
            if getattr(self, name) < least:
                raise BadParametersError(
                    f"scenario {self.name!r}: {name} must be a whole number of at least {least}; got {getattr(self, name)}"
                )
        if self.simulation_hz < self.policy_hz:
            raise BadParametersError(
                f"scenario {self.name!r}: simulation_hz must be at least policy_hz; got {self.simulation_hz} and {self.policy_hz}"
            )
        for name in ("spacing", "ego_speed_mps", "front_speed_mps"):
            low, high = getattr(self, name)
            if not (math.isfinite(low) and math.isfinite(high) and 0.0 < low <= high):
                raise BadParametersError(
                    f"scenario {self.name!r}: {name} must be a range (low, high) with 0 < low <= high; got ({low}, {high})"
                )
        if self.ego_start_ratio is not None and not (math.isfinite(self.ego_start_ratio) and self.ego_start_ratio > 0):
            raise BadParametersError(f"scenario {self.name!r}: ego_start_ratio must be above 0 or left out; got {self.ego_start_ratio}")
        if self.overtake_end_m is not None and not math.isfinite(self.overtake_end_m):
            raise BadParametersError(
                f"scenario {self.name!r}: overtake_end_m must be a finite distance or left out; got {self.overtake_end_m}"
            )
        steps = np.diff(np.asarray(self.target_speeds_mps, np.float64))
        if steps.size == 0 or not (steps > 0).all() or not np.allclose(steps, steps[0]):
            raise BadParametersError(
                f"scenario {self.name!r}: target_speeds_mps holds two or more evenly spaced, rising speeds; got {self.target_speeds_mps}"
            )

    @property
    def frames(self) -> int:
        """Simulation steps in a policy step, as highway-env counts them."""
        return self.simulation_hz // self.policy_hz

    def compiled(self) -> Params:
        """Returns the numbers that the compiled engine works on."""
        spec = self.observation
        return Params(
            lanes=self.lanes,
            frames=self.frames,
            dt_s=1 / self.simulation_hz,
            episode_steps=self.episode_steps,
            overtake_end_m=-math.inf if self.overtake_end_m is None else float(self.overtake_end_m),
            front_is_idm=self.front is FrontDriver.IDM,
            spacing_in_metres=self.spacing_mode is SpacingMode.METRES,
            spacing_low=float(self.spacing[0]),
            spacing_high=float(self.spacing[1]),
            ego_start_ratio=math.nan if self.ego_start_ratio is None else float(self.ego_start_ratio),
            ego_speed_low=float(self.ego_speed_mps[0]),
            ego_speed_high=float(self.ego_speed_mps[1]),
            front_speed_low=float(self.front_speed_mps[0]),
            front_speed_high=float(self.front_speed_mps[1]),
            target_speeds=np.array(self.target_speeds_mps, np.float64),
            feature_codes=np.array([feature.quantity.code for feature in spec.features], np.int64),
            feature_lows=np.array([math.nan if feature.low is None else feature.low for feature in spec.features], np.float64),
            feature_highs=np.array([math.nan if feature.high is None else feature.high for feature in spec.features], np.float64),
            observed_vehicles=spec.vehicles,
            is_absolute=spec.is_absolute,
            is_clipped=spec.is_clipped,
            sees_behind=spec.sees_behind,
            perception_m=float(spec.perception_m),
        )

    def to_table(self) -> dict[str, object]:
        """Returns the plain table that TOML and JSON hold; what is off is left out."""
        table: dict[str, object] = {}
        for name, value in asdict(self).items():
            if value is not None and name != "observation":
                table[name] = value.value if isinstance(value, Enum) else list(value) if isinstance(value, tuple) else value
        return table | {"observation": self.observation.to_table()}

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> Self:
        """Reads what `to_table` wrote; unknown keys are refused, missing ones keep their default."""
        known = {item.name: item for item in fields(cls)}
        values: dict[str, object] = {}
        for name, value in table.items():
            if name not in known:
                raise UnknownNameError.among("key of the scenario", name, known)
            values[name] = _READERS.get(name, _whole)(name, value)
        if "name" not in values:
            raise BadParametersError('a scenario needs a name; add: name = "..."')
        return cls(**values)  # type: ignore[arg-type]  # each key was read by its own reader above

    def to_toml(self) -> str:
        """Writes the scenario as TOML."""
        return toml.dumps(self.to_table())

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Reads TOML."""
        try:
            return cls.from_table(toml.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise BadParametersError(f"the scenario is not valid TOML: {error}") from error

    def to_json(self) -> str:
        """Writes the scenario as canonical JSON."""
        return json.dumps(self.to_table(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads JSON."""
        try:
            table = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadParametersError(f"the scenario is not valid JSON: {error}") from error
        if not isinstance(table, dict):
            raise BadParametersError(f"a scenario must be a JSON object; got {table!r}")
        return cls.from_table(table)


def _whole(name: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadParametersError(f"scenario.{name} must be a whole number; got {value!r}")
    return value


def _real(name: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadParametersError(f"scenario.{name} must be a number; got {value!r}")
    return float(value)


def _reals(name: str, value: object) -> object:
    if not isinstance(value, list):
        raise BadParametersError(f"scenario.{name} must be a list of numbers; got {value!r}")
    return tuple(_real(name, item) for item in value)


def _range(name: str, value: object) -> object:
    if not isinstance(value, list) or len(value) != 2:
        raise BadParametersError(f"scenario.{name} must be a range [low, high]; got {value!r}")
    return _reals(name, value)


def _text(name: str, value: object) -> object:
    if not isinstance(value, str):
        raise BadParametersError(f"scenario.{name} must be a text; got {value!r}")
    return value


def _mode(_: str, value: object) -> object:
    names = {mode.value: mode for mode in SpacingMode}
    if value not in names:
        raise UnknownNameError.among("spacing mode", str(value), names)
    return names[str(value)]


def _front(_: str, value: object) -> object:
    names = {driver.value: driver for driver in FrontDriver}
    if value not in names:
        raise UnknownNameError.among("front driver", str(value), names)
    return names[str(value)]


def _observation(name: str, value: object) -> object:
    if not isinstance(value, Mapping):
        raise BadParametersError(f"scenario.{name} must be a table; got {value!r}")
    return ObservationSpec.from_table(value)


_READERS = {
    "name": _text,
    "spacing_mode": _mode,
    "spacing": _range,
    "ego_start_ratio": _real,
    "ego_speed_mps": _range,
    "front_speed_mps": _range,
    "target_speeds_mps": _reals,
    "overtake_end_m": _real,
    "front": _front,
    "observation": _observation,
}
