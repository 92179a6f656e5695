"""How one vehicle moves, driven by meta-actions or by IDM along the lane and MOBIL across lanes; step for step as highway-env.

Reference: highway-env 1.12, `MDPVehicle`, `ControlledVehicle`, `Vehicle`, `IDMVehicle`; constants are theirs. IDM is the Intelligent
Driver Model (adversarial testing, section IV).
"""

import numpy as np
from numba import njit

from skidpad.core.images import FloatArray
from skidpad.highway.layout import (
    ACCELERATION,
    CRASHED,
    HEADING,
    IDM_EXPONENT,
    IS_IDM,
    LANE,
    LANE_TIMER,
    LANE_WIDTH_M,
    PUSH_X,
    PUSH_Y,
    ROAD_LENGTH_M,
    SPEED,
    SPEED_LIMIT_MPS,
    STEERING,
    STRUCK,
    TARGET_LANE,
    TARGET_SPEED,
    VEHICLE_LENGTH_M,
    Params,
    X,
    Y,
)

_LEFT, _RIGHT, _FASTER, _SLOWER = 0, 2, 3, 4
_ACCELERATION_GAIN = 1 / 0.6
_HEADING_GAIN = 1 / 0.2
_LATERAL_GAIN = 1 / 0.6
_MAX_STEERING_RAD = np.pi / 3
_MAX_HEADING_COMMAND_RAD = np.pi / 4
_MAX_SPEED_MPS = 40.0
_HALF_LENGTH_M = VEHICLE_LENGTH_M / 2


@njit(nogil=True, cache=True, error_model="numpy")
def clip(value: float, low: float, high: float) -> float:
    """Holds a value within [low, high]."""
    return min(max(value, low), high)


@njit(nogil=True, cache=True, error_model="numpy")
def not_zero(value: float) -> float:
    """Keeps a divisor at least 0.01 away from zero, on its own side."""
    if abs(value) > 0.01:
        return value
    return 0.01 if value >= 0 else -0.01


@njit(nogil=True, cache=True, error_model="numpy")
def wrapped(angle_rad: float) -> float:
    """Returns the same angle within [-pi, pi)."""
    return (angle_rad + np.pi) % (2 * np.pi) - np.pi


@njit(nogil=True, cache=True, error_model="numpy")
def is_reachable(state: FloatArray, vehicle: int, lane: int) -> bool:
    """Tells whether a lane is within two widths of the vehicle, and the vehicle within the road's length."""
    along_m = state[vehicle, X]
    is_near = abs(state[vehicle, Y] - lane * LANE_WIDTH_M) <= 2 * LANE_WIDTH_M
    return bool(is_near and 0 <= along_m < ROAD_LENGTH_M + VEHICLE_LENGTH_M)


@njit(nogil=True, cache=True, error_model="numpy")
def nearest_lane(params: Params, state: FloatArray, vehicle: int) -> int:
    """Returns the lane whose centre is nearest; a tie goes to the lower one.

    The angle is the same for every lane; it is added because rounding can make a tie of two unequal distances.
    """
    along_m = state[vehicle, X]
    beyond_m = max(along_m - ROAD_LENGTH_M, 0.0)
    before_m = max(-along_m, 0.0)
    angle_rad = abs(wrapped(state[vehicle, HEADING]))
    best, nearest = 0, np.inf
    for lane in range(params.lanes):
        distance = abs(state[vehicle, Y] - lane * LANE_WIDTH_M) + beyond_m + before_m + angle_rad
        if distance < nearest:
            best, nearest = lane, distance
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def speed_index(params: Params, speed_mps: float) -> int:
    """Returns the index of the nearest target speed; halves go to the even one."""
    speeds = params.target_speeds
    top = len(speeds) - 1
    share = (speed_mps - speeds[0]) / (speeds[top] - speeds[0])
    return int(clip(np.rint(share * top), 0, top))


@njit(nogil=True, cache=True, error_model="numpy")
def decide(params: Params, state: FloatArray, vehicle: int, action: int) -> None:
    """Turns a meta-action into a target lane or a target speed; FASTER and SLOWER count from the present speed."""
    if action in (_FASTER, _SLOWER):
        wanted = speed_index(params, state[vehicle, SPEED]) + (1 if action == _FASTER else -1)
        state[vehicle, TARGET_SPEED] = params.target_speeds[int(clip(wanted, 0, len(params.target_speeds) - 1))]
    elif action in (_LEFT, _RIGHT):
        lane = int(clip(int(state[vehicle, TARGET_LANE]) + (1 if action == _RIGHT else -1), 0, params.lanes - 1))
        if is_reachable(state, vehicle, lane):
            state[vehicle, TARGET_LANE] = lane


@njit(nogil=True, cache=True, error_model="numpy")
def steering_command(state: FloatArray, vehicle: int) -> float:
    """Returns the steering angle towards the centre of the target lane: place to heading, heading to its rate, rate to angle."""
    across_m = state[vehicle, Y] - state[vehicle, TARGET_LANE] * LANE_WIDTH_M
    heading_rad = state[vehicle, HEADING]
    if across_m == 0.0 and heading_rad == 0.0:
        return 0.0
    speed_mps = not_zero(state[vehicle, SPEED])
    command_rad = np.arcsin(clip(-_LATERAL_GAIN * across_m / speed_mps, -1.0, 1.0))
    command_rad = clip(command_rad, -_MAX_HEADING_COMMAND_RAD, _MAX_HEADING_COMMAND_RAD)
    rate = _HEADING_GAIN * wrapped(command_rad - heading_rad)
    slip_rad = np.arcsin(clip(_HALF_LENGTH_M / speed_mps * rate, -1.0, 1.0))
    return clip(np.arctan(2 * np.tan(slip_rad)), -_MAX_STEERING_RAD, _MAX_STEERING_RAD)


@njit(nogil=True, cache=True, error_model="numpy")
def control(state: FloatArray, vehicle: int) -> None:
    """Commands a vehicle that is driven by meta-actions towards its targets."""
    state[vehicle, STEERING] = steering_command(state, vehicle)
    state[vehicle, ACCELERATION] = _ACCELERATION_GAIN * (state[vehicle, TARGET_SPEED] - state[vehicle, SPEED])


@njit(nogil=True, cache=True, error_model="numpy")
def move(params: Params, state: FloatArray, vehicle: int) -> None:
    """Moves a vehicle by one simulation step of the bicycle model; a crashed one rolls out straight.

    A push from a collision is carried out here, and only now is the vehicle crashed.
    """
    dt_s = params.dt_s
    speed_mps = state[vehicle, SPEED]
    if state[vehicle, IS_IDM] != 0.0:
        state[vehicle, LANE_TIMER] += dt_s
    if state[vehicle, CRASHED] != 0.0:
        state[vehicle, STEERING] = 0.0
        state[vehicle, ACCELERATION] = -speed_mps
    if speed_mps > _MAX_SPEED_MPS:
        state[vehicle, ACCELERATION] = min(state[vehicle, ACCELERATION], _MAX_SPEED_MPS - speed_mps)
    elif speed_mps < -_MAX_SPEED_MPS:
        state[vehicle, ACCELERATION] = max(state[vehicle, ACCELERATION], -_MAX_SPEED_MPS - speed_mps)
    heading_rad, steering_rad = state[vehicle, HEADING], state[vehicle, STEERING]
    if steering_rad == 0.0 and heading_rad == 0.0:  # no trigonometry on a straight way; the numbers are the same
        state[vehicle, X] += speed_mps * dt_s
        turn = 0.0
    else:
        slip_rad = np.arctan(0.5 * np.tan(steering_rad))
        state[vehicle, X] += speed_mps * np.cos(heading_rad + slip_rad) * dt_s
        state[vehicle, Y] += speed_mps * np.sin(heading_rad + slip_rad) * dt_s
        turn = speed_mps * np.sin(slip_rad) / _HALF_LENGTH_M * dt_s
    if state[vehicle, STRUCK] != 0.0:
        state[vehicle, X] += state[vehicle, PUSH_X]
        state[vehicle, Y] += state[vehicle, PUSH_Y]
        state[vehicle, CRASHED] = 1.0
        state[vehicle, STRUCK] = 0.0
    state[vehicle, HEADING] = heading_rad + turn
    state[vehicle, SPEED] = speed_mps + state[vehicle, ACCELERATION] * dt_s
    state[vehicle, LANE] = nearest_lane(params, state, vehicle)


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
def drive_by_idm(params: Params, state: FloatArray, vehicle: int) -> None:
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
