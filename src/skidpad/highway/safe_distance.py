"""Who broke the safe distance first (RSS).

Reference: Shalev-Shwartz, Shammah and Shashua, On a formal model of safe and scalable self-driving cars, 2017, definitions 1, 6 to 8;
constants as in the open library ad-rss-lib.
"""

from dataclasses import dataclass
from enum import Enum
from math import inf, isnan
from typing import Annotated

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.core.settings import Positive, Within, check
from skidpad.highway.episodes import Trace
from skidpad.highway.layout import EGO, FRONT, HEADING, SPEED, VEHICLE_LENGTH_M, VEHICLE_WIDTH_M, X, Y

_X, _Y, _VX, _VY = 0, 1, 2, 3
_EQUAL_M = 1e-9
_AtLeastZero = Annotated[float, Within(least=0)]


class FirstBreak(Enum):
    """Who broke the safe distance first."""

    NOBODY = "nobody"
    """It was kept to the end."""
    START = "start"
    """It was broken before anyone acted."""
    EGO = "ego"
    FRONT = "front"


@dataclass(frozen=True, slots=True)
class SafeDistance:
    """The constants of the safe distance, metres, seconds, m/s and m/s².

    Two vehicles are in danger where they are too near both along and across the road.
    Deviates: no vehicle of these scenarios chooses a speed below 20 m/s, so braking ends there and not at a standstill: the published
    formula in a frame that moves at `slowest_mps`. With 0 it is the published formula itself.
    """

    response_s: _AtLeastZero = 1.0
    """As long as a driver that acts once a second may need."""
    accelerates_mps2: _AtLeastZero = 3.5
    """What the one behind may still accelerate by while it has not yet responded."""
    brakes_at_least_mps2: Positive = 4.0
    """What the one behind brakes by at least."""
    brakes_at_most_mps2: Positive = 8.0
    """What the one ahead brakes by at most."""
    swerves_mps2: _AtLeastZero = 0.2
    """Sideways acceleration during the response."""
    straightens_mps2: Positive = 0.8
    """Sideways deceleration afterwards."""
    side_margin_m: _AtLeastZero = 0.0
    slowest_mps: _AtLeastZero = 20.0

    def __post_init__(self) -> None:
        check(self, BadParametersError)

    def along_m(self, rear_mps: FloatArray, ahead_mps: FloatArray) -> FloatArray:
        """Returns the free road that the one behind needs, of the shape of the speeds."""
        rear = np.maximum(rear_mps - self.slowest_mps, 0.0)
        ahead = np.maximum(ahead_mps - self.slowest_mps, 0.0)
        then = rear + self.response_s * self.accelerates_mps2
        needed = rear * self.response_s + self.accelerates_mps2 * self.response_s**2 / 2
        needed = needed + then**2 / (2 * self.brakes_at_least_mps2) - ahead**2 / (2 * self.brakes_at_most_mps2)
        return np.asarray(np.maximum(needed, 0.0), np.float64)

    def across_m(self, left_mps: FloatArray, right_mps: FloatArray) -> FloatArray:
        """Returns the room that two side by side need; sideways speeds, positive to the right."""
        left_then = left_mps + self.response_s * self.swerves_mps2
        right_then = right_mps - self.response_s * self.swerves_mps2
        left_m = (left_mps + left_then) / 2 * self.response_s + left_then * np.abs(left_then) / (2 * self.straightens_mps2)
        right_m = (right_mps + right_then) / 2 * self.response_s + right_then * np.abs(right_then) / (2 * self.straightens_mps2)
        return np.asarray(self.side_margin_m + np.maximum(left_m - right_m, 0.0), np.float64)

    def margin_m(self, ego: FloatArray, front: FloatArray) -> FloatArray:
        """Returns how far two vehicles are from danger, (...,), negative where they are in it; each is (..., 4): x, y, vx, vy.

        The greater of the two margins counts, because either distance alone keeps them apart.
        """
        is_ego_rear = ego[..., _X] <= front[..., _X]
        rear_mps = np.where(is_ego_rear, ego[..., _VX], front[..., _VX])
        ahead_mps = np.where(is_ego_rear, front[..., _VX], ego[..., _VX])
        gap_m = np.abs(front[..., _X] - ego[..., _X]) - VEHICLE_LENGTH_M
        is_ego_left = ego[..., _Y] <= front[..., _Y]
        left_mps = np.where(is_ego_left, ego[..., _VY], front[..., _VY])
        right_mps = np.where(is_ego_left, front[..., _VY], ego[..., _VY])
        side_m = np.abs(front[..., _Y] - ego[..., _Y]) - VEHICLE_WIDTH_M
        return np.asarray(np.maximum(gap_m - self.along_m(rear_mps, ahead_mps), side_m - self.across_m(left_mps, right_mps)), np.float64)


@dataclass(frozen=True, slots=True)
class Break:
    """The first moment of danger, NaN if there was none, and who caused it."""

    who: FirstBreak
    at_s: float


def first_break(trace: Trace, rules: SafeDistance | None = None) -> Break:
    """Finds the first simulation step in danger and who caused it, the ego or a front vehicle.

    It is the one without whose manoeuvre in that very step, had it kept its speed and its place across the road, the margin would
    have been the larger; where neither manoeuvred, the one behind, whose duty the distance is.
    """
    motion = _motion(trace.states)
    found = [_first_break(trace, motion[:, [EGO, front]], rules or SafeDistance()) for front in range(FRONT, motion.shape[1])]
    return min(found, key=lambda one: inf if isnan(one.at_s) else one.at_s)


def _first_break(trace: Trace, motion: FloatArray, safe: SafeDistance) -> Break:
    """Does so for the ego and one front vehicle, (frames, 2, 4)."""
    last = trace.impact_frame
    margins = safe.margin_m(motion[:, EGO], motion[:, FRONT])
    broken = np.flatnonzero(margins[: None if last is None else last + 1] < 0.0)
    if len(broken) == 0:
        return Break(FirstBreak.NOBODY, float("nan"))
    frame = int(broken[0])
    at_s = frame / trace.simulation_hz
    if frame == 0:
        return Break(FirstBreak.START, at_s)
    before, now = motion[frame - 1], motion[frame]
    kept = before.copy()
    kept[:, _X] += before[:, _VX] / trace.simulation_hz
    kept[:, _VY] = 0.0
    without_ego = float(safe.margin_m(kept[EGO], now[FRONT]))
    without_front = float(safe.margin_m(now[EGO], kept[FRONT]))
    if abs(without_ego - without_front) > _EQUAL_M:
        return Break(FirstBreak.EGO if without_ego > without_front else FirstBreak.FRONT, at_s)
    return Break(FirstBreak.EGO if now[EGO, _X] <= now[FRONT, _X] else FirstBreak.FRONT, at_s)


def _motion(states: FloatArray) -> FloatArray:
    """Returns x, y, vx, vy of all vehicles, (frames, vehicles, 4)."""
    speed, heading = states[..., SPEED], states[..., HEADING]
    return np.stack([states[..., X], states[..., Y], speed * np.cos(heading), speed * np.sin(heading)], axis=-1)
