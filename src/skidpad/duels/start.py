"""How an episode starts: everything that differs between episodes of one scenario, as a record that can be kept and replayed."""

from dataclasses import astuple, dataclass
from typing import Self

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.duels import engine
from skidpad.duels.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Start:
    """The first state of both vehicles; both head along the road in the middle of their lanes."""

    ego_lane: int
    ego_x_m: float
    ego_speed_mps: float
    front_lane: int
    front_x_m: float
    front_speed_mps: float
    idm_exponent: float
    """How sharply an IDM in front approaches its desired speed; unused by a policy."""

    @classmethod
    def drawn(cls, scenario: Scenario, seed: int, episode: int) -> Self:
        """Draws the start of one episode, the same that `engine.reset` sets."""
        values = np.empty(engine.START_FIELDS)
        engine.draw_start(scenario.compiled(), seed, episode, values)
        return cls.from_array(values)

    @classmethod
    def from_array(cls, values: FloatArray) -> Self:
        """Reads an array of shape (START_FIELDS,)."""
        ego_lane, ego_x, ego_speed, front_lane, front_x, front_speed, exponent = values.tolist()
        return cls(int(ego_lane), ego_x, ego_speed, int(front_lane), front_x, front_speed, exponent)

    def to_array(self) -> FloatArray:
        """Returns the array of shape (START_FIELDS,) that `engine.place` takes."""
        return np.array(astuple(self), np.float64)
