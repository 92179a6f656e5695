"""How one vehicle moves: meta-actions to targets, targets to commands, commands to motion, step for step as highway-env.

Reference: highway-env 1.12, `MDPVehicle`, `ControlledVehicle`, `Vehicle`; constants are theirs.
"""

import numpy as np
from numba import njit

from skidpad.core.images import FloatArray
from skidpad.highway.layout import (
    ACCELERATION,
    CRASHED,
    HEADING,
    IS_IDM,
    LANE,
    LANE_TIMER,
    LANE_WIDTH_M,
    PUSH_X,
    PUSH_Y,
    ROAD_LENGTH_M,
    SPEED,
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
