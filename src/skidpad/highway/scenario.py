"""A duel's scenario: the road, how the two vehicles start, what drives the one in front, when an episode ends, what is seen."""

import json
import math
import tomllib
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Annotated, Self

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.settings import Count, Positive, Within, check, plain, read, read_toml, write_toml
from skidpad.highway.layout import MAX_FRONTS, Params
from skidpad.highway.observation import ObservationSpec

Range = tuple[Positive, Positive]


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
    """A frozen highway of an ego and one to three front vehicles; ranges are (low, high), drawn uniformly at the start of each episode.

    Reference: adversarial testing, section III. See `presets` for the paper's case study and the published snapshot's.
    """

    name: str
    lanes: Count = 2
    spacing_mode: SpacingMode = SpacingMode.RATIO
    spacing: Range = (0.5, 2.0)
    ego_start_ratio: Positive | None = None
    """The ratio by which the ego is placed along the road; None takes the one drawn for the spacing. The observation shows absolute x."""
    ego_speed_mps: Range = (25.0, 25.0)
    front_speed_mps: Range = (25.0, 25.0)
    target_speeds_mps: tuple[float, ...] = (20.0, 25.0, 30.0)
    """What FASTER and SLOWER choose among; evenly spaced, rising."""
    overtake_end_m: float | None = None
    """The episode ends as overtaken once x of the front less x of the ego is at most this; None: never."""
    policy_hz: Count = 1
    simulation_hz: Count = 5
    episode_steps: Count = 30
    """Policy steps until timeout."""
    front: FrontDriver = FrontDriver.POLICY
    fronts: Annotated[int, Within(least=1, most=MAX_FRONTS)] = 1
    """How many front vehicles there are; one policy drives all."""
    observation: ObservationSpec = field(default_factory=ObservationSpec)

    def __post_init__(self) -> None:
        check(self, BadParametersError)
        if self.simulation_hz < self.policy_hz:
            raise BadParametersError(
                f"scenario {self.name!r}: simulation_hz must be at least policy_hz; got {self.simulation_hz} and {self.policy_hz}"
            )
        for name in ("spacing", "ego_speed_mps", "front_speed_mps"):
            low, high = getattr(self, name)
            if low > high:
                raise BadParametersError(
                    f"scenario {self.name!r}: {name} must be a range (low, high) with 0 < low <= high; got ({low}, {high})"
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
            vehicles=1 + self.fronts,
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

    def crowded(self, fronts: int) -> Self:
        """Returns the same with so many front vehicles, all of which a driver sees."""
        return replace(self, fronts=fronts, observation=replace(self.observation, vehicles=1 + fronts)) if fronts > 1 else self

    def to_table(self) -> dict[str, object]:
        """Returns the plain table that TOML and JSON hold; what is off is left out."""
        table: dict[str, object] = plain(self)
        if self.fronts == 1:
            table.pop("fronts")
        return table | {"observation": self.observation.to_table()}

    @classmethod
    def from_table(cls, table: object) -> Self:
        """Reads what `to_table` wrote; unknown keys are refused, missing ones keep their default."""
        return read(cls, table, "the scenario", BadParametersError)

    def to_toml(self) -> str:
        """Writes the scenario as TOML."""
        return write_toml(self.to_table())

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Reads TOML."""
        try:
            return cls.from_table(read_toml(text))
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
        return cls.from_table(table)
