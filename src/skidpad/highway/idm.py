"""The rule-based front vehicle: the Intelligent Driver Model along the lane, MOBIL across lanes, step for step as highway-env.

Reference: adversarial testing, section IV; highway-env 1.12, `IDMVehicle`, whose constants these are.
"""

import numpy as np
from numba import njit

from skidpad.core.images import FloatArray
from skidpad.highway.layout import (
    ACCELERATION,
    CRASHED,
    HEADING,
    IDM_EXPONENT,
    LANE,
    LANE_TIMER,
    LANE_WIDTH_M,
    ROAD_LENGTH_M,
    SPEED,
    SPEED_LIMIT_MPS,
    STEERING,
    TARGET_LANE,
    TARGET_SPEED,
    VEHICLE_LENGTH_M,
    Params,
    X,
    Y,
)
from skidpad.highway.vehicles import clip, is_reachable, not_zero, steering_command

_MAX_ACCELERATION = 6.0
_COMFORT_ACCELERATION = 3.0
_COMFORT_DECELERATION = -5.0
_WANTED_DISTANCE_M = 5.0 + VEHICLE_LENGTH_M
_WANTED_TIME_S = 1.5
_BRAKING_ROOT = 2 * np.sqrt(-_COMFORT_ACCELERATION * _COMFORT_DECELERATION)
_MIN_GAIN = 0.2
_MAX_BRAKING_IMPOSED = 2.0
_LANE_CHANGE_DELAY_S = 1.0
_NEAR_LANE_M = LANE_WIDTH_M / 2 + 1.0

_NOBODY = -1


@njit(nogil=True, cache=True, error_model="numpy")
def _neighbours(state: FloatArray, vehicle: int, lane: int) -> tuple[int, int]:
    """Returns who precedes and who follows the vehicle on a lane; another is on every lane within 3 m of its centre."""
    ahead, behind = _NOBODY, _NOBODY
    for other in range(len(state)):
        along_m = state[other, X]
        is_on = abs(state[other, Y] - lane * LANE_WIDTH_M) <= _NEAR_LANE_M
        if other == vehicle or not is_on or not -VEHICLE_LENGTH_M <= along_m < ROAD_LENGTH_M + VEHICLE_LENGTH_M:
            continue
        if state[vehicle, X] <= along_m:
            if ahead == _NOBODY or along_m <= state[ahead, X]:
                ahead = other
        elif behind == _NOBODY or along_m > state[behind, X]:
            behind = other
    return ahead, behind


@njit(nogil=True, cache=True, error_model="numpy")
def _desired_gap(state: FloatArray, vehicle: int, ahead: int) -> float:
    speed_mps = state[vehicle, SPEED]
    cosine, sine = np.cos(state[vehicle, HEADING]), np.sin(state[vehicle, HEADING])
    apart_x = speed_mps * cosine - state[ahead, SPEED] * np.cos(state[ahead, HEADING])
    apart_y = speed_mps * sine - state[ahead, SPEED] * np.sin(state[ahead, HEADING])
    closing_mps = apart_x * cosine + apart_y * sine
    return float(_WANTED_DISTANCE_M + speed_mps * _WANTED_TIME_S + speed_mps * closing_mps / _BRAKING_ROOT)


@njit(nogil=True, cache=True, error_model="numpy")
def _acceleration(state: FloatArray, vehicle: int, ahead: int, exponent: float) -> float:
    """Returns the model's acceleration for a vehicle behind `ahead`; 0 where there is no vehicle."""
    if vehicle == _NOBODY:
        return 0.0
    wanted_mps = clip(state[vehicle, TARGET_SPEED], 0.0, SPEED_LIMIT_MPS)
    share = max(state[vehicle, SPEED], 0.0) / abs(not_zero(wanted_mps))
    acceleration = _COMFORT_ACCELERATION * (1 - share**exponent)
    if ahead != _NOBODY:
        gap_m = state[ahead, X] - state[vehicle, X]
        pressure = _desired_gap(state, vehicle, ahead) / not_zero(gap_m)
        acceleration -= _COMFORT_ACCELERATION * (pressure * pressure)
    return float(acceleration)


@njit(nogil=True, cache=True, error_model="numpy")
def _is_worth_changing(state: FloatArray, vehicle: int, lane: int) -> bool:
    """MOBIL without politeness: the new follower is not made to brake hard, and the gain is large enough."""
    exponent = state[vehicle, IDM_EXPONENT]
    new_ahead, new_behind = _neighbours(state, vehicle, lane)
    if _acceleration(state, new_behind, vehicle, exponent) < -_MAX_BRAKING_IMPOSED:
        return False
    old_ahead, _ = _neighbours(state, vehicle, int(state[vehicle, LANE]))
    gain = _acceleration(state, vehicle, new_ahead, exponent) - _acceleration(state, vehicle, old_ahead, exponent)
    return not gain < _MIN_GAIN


@njit(nogil=True, cache=True, error_model="numpy")
def _choose_lane(params: Params, state: FloatArray, vehicle: int) -> None:
    """Aborts a lane change if another vehicle is changing into the same lane just ahead; otherwise considers one once a second."""
    lane, target = int(state[vehicle, LANE]), int(state[vehicle, TARGET_LANE])
    if lane != target:
        for other in range(len(state)):
            if other != vehicle and int(state[other, LANE]) != target and int(state[other, TARGET_LANE]) == target:
                gap_m = state[other, X] - state[vehicle, X]
                if 0 < gap_m < _desired_gap(state, vehicle, other):
                    state[vehicle, TARGET_LANE] = lane
                    break
        return
    if not state[vehicle, LANE_TIMER] > _LANE_CHANGE_DELAY_S:
        return
    state[vehicle, LANE_TIMER] = 0.0
    if abs(state[vehicle, SPEED]) < 1:
        return
    for candidate in (lane - 1, lane + 1):
        is_open = 0 <= candidate < params.lanes and is_reachable(state, vehicle, candidate)
        if is_open and _is_worth_changing(state, vehicle, candidate):
            state[vehicle, TARGET_LANE] = candidate


@njit(nogil=True, cache=True, error_model="numpy")
def drive(params: Params, state: FloatArray, vehicle: int) -> None:
    """Commands a vehicle that IDM and MOBIL drive; while it changes lane, the stricter of both lanes counts."""
    if state[vehicle, CRASHED] != 0.0:
        return
    _choose_lane(params, state, vehicle)
    state[vehicle, STEERING] = steering_command(state, vehicle)
    exponent = state[vehicle, IDM_EXPONENT]
    ahead, _ = _neighbours(state, vehicle, int(state[vehicle, LANE]))
    acceleration = _acceleration(state, vehicle, ahead, exponent)
    if state[vehicle, LANE] != state[vehicle, TARGET_LANE]:
        ahead, _ = _neighbours(state, vehicle, int(state[vehicle, TARGET_LANE]))
        acceleration = min(acceleration, _acceleration(state, vehicle, ahead, exponent))
    state[vehicle, ACCELERATION] = clip(acceleration, -_MAX_ACCELERATION, _MAX_ACCELERATION)
