"""What a driver sees: a row of features for itself and one for each other vehicle near enough, as highway-env's Kinematics."""

import json
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.core.settings import Count, Positive, check, plain, read
from skidpad.highway.layout import EGO, HEADING, SPEED, Params, X, Y

PRESENCE_CODE, X_CODE, Y_CODE, VX_CODE, VY_CODE, HEADING_CODE, COS_CODE, SIN_CODE = range(8)
_OWN_ROW = 0


class Quantity(Enum):
    """What a column of the observation holds, by highway-env's names."""

    PRESENCE = "presence"
    X = "x"
    Y = "y"
    VX = "vx"
    VY = "vy"
    HEADING = "heading"
    COS_HEADING = "cos_h"
    SIN_HEADING = "sin_h"

    @property
    def unit(self) -> str:
        """The unit of the unscaled value."""
        return _UNITS[self]

    @property
    def code(self) -> int:
        """The code of this quantity in compiled functions."""
        return list(Quantity).index(self)


_UNITS = {
    Quantity.PRESENCE: "1",
    Quantity.X: "m",
    Quantity.Y: "m",
    Quantity.VX: "m/s",
    Quantity.VY: "m/s",
    Quantity.HEADING: "rad",
    Quantity.COS_HEADING: "1",
    Quantity.SIN_HEADING: "1",
}
_REACHES = {
    Quantity.PRESENCE: 1.0,
    Quantity.X: 20_000.0,
    Quantity.Y: 1_000.0,
    Quantity.VX: 100.0,
    Quantity.VY: 100.0,
    Quantity.HEADING: 100.0,
    Quantity.COS_HEADING: 1.0,
    Quantity.SIN_HEADING: 1.0,
}


@dataclass(frozen=True, slots=True)
class Feature:
    """One column; with a range, low is shown as -1 and high as +1, without one the value keeps its unit."""

    DERIVED: ClassVar = ("unit",)

    quantity: Quantity
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None) or (self.low is not None and self.high is not None and not self.low < self.high):
            raise BadParametersError(
                f"the range of feature {self.quantity.value!r} needs low < high, or neither bound; got low={self.low}, high={self.high}"
            )

    @property
    def unit(self) -> str:
        """The unit of the shown value."""
        return self.quantity.unit if self.low is None else "1"

    def bounds(self, *, is_clipped: bool) -> tuple[float, float]:
        """Returns the least and the greatest value that is shown."""
        reach = _REACHES[self.quantity]
        if self.low is None or self.high is None:
            return -reach, reach
        if is_clipped:
            return -1.0, 1.0
        span = self.high - self.low
        return -1.0 + (-reach - self.low) * 2.0 / span, -1.0 + (reach - self.low) * 2.0 / span


_RELEASED_FEATURES = (Feature(Quantity.X, -1200.0, 1200.0), Feature(Quantity.Y), Feature(Quantity.VX), Feature(Quantity.VY))


@dataclass(frozen=True, slots=True)
class ObservationSpec:
    """The features of the observer's own row and of the rows of the others, nearest along the road first; missing rows are zero.

    A front vehicle sees the ego before all others, since it has to know whom it meets.

    Others count while nearer than `perception_m` and, unless `sees_behind`, not more than two vehicle lengths behind.
    Reference: adversarial testing, section III; only x is scaled there, by 1200 m.
    """

    features: tuple[Feature, ...] = _RELEASED_FEATURES
    vehicles: Count = 2
    is_absolute: bool = True
    """Whether the others' x, y, vx, vy are the road's, not relative to the observer."""
    is_clipped: bool = True
    """Whether scaled values are held within [-1, 1]."""
    sees_behind: bool = True
    """True in the published program, unlike in highway-env: an adversary has to see the ego behind it."""
    perception_m: Positive = 200.0

    def __post_init__(self) -> None:
        check(self, BadParametersError)
        if not self.features:
            raise BadParametersError("an observation needs at least one feature; got none")

    @property
    def size(self) -> int:
        """How many numbers one flat observation has: vehicles x features, row by row."""
        return self.vehicles * len(self.features)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Returns the least and the greatest value of each number, (size,) twice; generous for values without a natural bound."""
        rows = [feature.bounds(is_clipped=self.is_clipped) for feature in self.features] * self.vehicles
        lows, highs = np.array(rows, np.float64).T
        return np.minimum(lows, 0.0), np.maximum(highs, 0.0)  # an absent vehicle is all zeros

    @property
    def hash(self) -> str:
        """Returns a hash, 16 hexadecimal digits, that differs between specs that show anything differently."""
        return sha256(json.dumps(self.to_table(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]

    def to_table(self) -> dict[str, Any]:
        """Returns the plain table that TOML and JSON hold."""
        table: dict[str, Any] = plain(self)
        return table | {"perception_m": float(self.perception_m)}

    @classmethod
    def from_table(cls, table: object) -> Self:
        """Reads what `to_table` wrote; unknown keys are refused, missing ones keep their default."""
        return read(cls, table, "the observation", BadParametersError)


@njit(nogil=True, cache=True, error_model="numpy")
def _value(code: int, state: FloatArray, vehicle: int) -> float:
    heading_rad, value = state[vehicle, HEADING], 1.0
    if code == X_CODE:
        value = state[vehicle, X]
    elif code == Y_CODE:
        value = state[vehicle, Y]
    elif code == VX_CODE:
        value = state[vehicle, SPEED] * np.cos(heading_rad)
    elif code == VY_CODE:
        value = state[vehicle, SPEED] * np.sin(heading_rad)
    elif code == HEADING_CODE:
        value = heading_rad
    elif code == COS_CODE:
        value = np.cos(heading_rad)
    elif code == SIN_CODE:
        value = np.sin(heading_rad)
    return float(value)


_NOBODY = -1


@njit(nogil=True, cache=True, error_model="numpy")
def _next_seen(params: Params, state: FloatArray, side: int, last: int, last_nearness: float) -> tuple[int, float]:
    """Returns who comes after the vehicle shown last, and how near it is along the road, where the ego is the nearest to all others."""
    best, nearest = _NOBODY, np.inf
    for other in range(params.vehicles):
        ahead_m = state[other, X] - state[side, X]
        distance_m = np.sqrt(ahead_m * ahead_m + (state[other, Y] - state[side, Y]) ** 2)
        if other == side or not distance_m < params.perception_m or not (params.sees_behind or ahead_m > -10.0):
            continue
        nearness = -1.0 if other == EGO else abs(ahead_m)
        is_left = nearness > last_nearness or (nearness == last_nearness and other > last)
        if is_left and nearness < nearest:
            best, nearest = other, nearness
    return best, nearest


@njit(nogil=True, cache=True, error_model="numpy")
def observe(params: Params, state: FloatArray, side: int, out: NDArray[np.float32]) -> None:
    """Writes what `side` sees into `out`, of shape (vehicles x features,)."""
    features = len(params.feature_codes)
    shown, nearness = side, -np.inf
    for row in range(params.observed_vehicles):
        if row > _OWN_ROW and shown != _NOBODY:
            shown, nearness = _next_seen(params, state, side, shown, nearness)
        for column in range(features):
            index = row * features + column
            if shown == _NOBODY:
                out[index] = 0.0
                continue
            code = params.feature_codes[column]
            value = _value(code, state, shown)
            if row > _OWN_ROW and not params.is_absolute and X_CODE <= code <= VY_CODE:
                value -= _value(code, state, side)
            low, high = params.feature_lows[column], params.feature_highs[column]
            if not np.isnan(low):
                value = -1.0 + (value - low) * 2.0 / (high - low)
                if params.is_clipped:
                    value = min(max(value, -1.0), 1.0)
            out[index] = value
