"""Whether the two vehicles touch now or will within a simulation step, by separating axes, step for step as highway-env."""

import numpy as np
from numba import njit

from skidpad.core.images import FloatArray
from skidpad.duels.layout import (
    CRASHED,
    EGO,
    FRONT,
    HEADING,
    PUSH_X,
    PUSH_Y,
    SPEED,
    STRUCK,
    VEHICLE_LENGTH_M,
    VEHICLE_WIDTH_M,
    Params,
    X,
    Y,
)

_DIAGONAL_M = np.sqrt(VEHICLE_LENGTH_M**2 + VEHICLE_WIDTH_M**2)
_CORNERS = ((-0.5, -0.5), (-0.5, 0.5), (0.5, 0.5), (0.5, -0.5))


@njit(nogil=True, cache=True, error_model="numpy")
def _outline(state: FloatArray, vehicle: int) -> FloatArray:
    """Returns the corners, of shape (4, 2)."""
    corners = np.empty((4, 2))
    cosine, sine = np.cos(state[vehicle, HEADING]), np.sin(state[vehicle, HEADING])
    for corner in range(4):
        along_m, across_m = _CORNERS[corner][0] * VEHICLE_LENGTH_M, _CORNERS[corner][1] * VEHICLE_WIDTH_M
        corners[corner, 0] = cosine * along_m - sine * across_m + state[vehicle, X]
        corners[corner, 1] = sine * along_m + cosine * across_m + state[vehicle, Y]
    return corners


@njit(nogil=True, cache=True, error_model="numpy")
def _shadow(corners: FloatArray, normal_x: float, normal_y: float) -> tuple[float, float]:
    """Returns the interval that a polygon covers along an axis."""
    low, high = np.inf, -np.inf
    for corner in range(4):
        along = corners[corner, 0] * normal_x + corners[corner, 1] * normal_y
        low, high = min(low, along), max(high, along)
    return low, high


@njit(nogil=True, cache=True, error_model="numpy")
def _gap(low_a: float, high_a: float, low_b: float, high_b: float) -> float:
    """Returns the distance between two intervals, negative where they overlap."""
    return low_b - high_a if low_a < low_b else low_a - high_b


@njit(nogil=True, cache=True, error_model="numpy")
def collide(params: Params, state: FloatArray) -> None:
    """Marks both vehicles as crashed where they touch, and pushes them apart at the next step where they are about to.

    The first look, by distance, uses the ego's speed alone, as the vehicle that is asked first does in highway-env.
    """
    away_x, away_y = state[FRONT, X] - state[EGO, X], state[FRONT, Y] - state[EGO, Y]
    if np.sqrt(away_x * away_x + away_y * away_y) > _DIAGONAL_M + state[EGO, SPEED] * params.dt_s:
        return
    ego, front = _outline(state, EGO), _outline(state, FRONT)
    # in highway-env's order of multiplying: near a tie of two axes the last bit decides
    dt_s, ego_mps, front_mps = params.dt_s, state[EGO, SPEED], state[FRONT, SPEED]
    relative_x = ego_mps * np.cos(state[EGO, HEADING]) * dt_s - front_mps * np.cos(state[FRONT, HEADING]) * dt_s
    relative_y = ego_mps * np.sin(state[EGO, HEADING]) * dt_s - front_mps * np.sin(state[FRONT, HEADING]) * dt_s
    centre_x = (ego[0, 0] + ego[1, 0] + ego[2, 0] + ego[3, 0]) / 4 - (front[0, 0] + front[1, 0] + front[2, 0] + front[3, 0]) / 4
    centre_y = (ego[0, 1] + ego[1, 1] + ego[2, 1] + ego[3, 1]) / 4 - (front[0, 1] + front[1, 1] + front[2, 1] + front[3, 1]) / 4
    touches, will_touch = True, True
    depth_m, push_x, push_y = np.inf, 0.0, 0.0
    for polygon in range(2):
        corners = ego if polygon == EGO else front
        for edge in range(4):
            following = (edge + 1) % 4
            normal_x = corners[edge, 1] - corners[following, 1]
            normal_y = corners[following, 0] - corners[edge, 0]
            length = np.sqrt(normal_x * normal_x + normal_y * normal_y)
            normal_x, normal_y = normal_x / length, normal_y / length
            low_ego, high_ego = _shadow(ego, normal_x, normal_y)
            low_front, high_front = _shadow(front, normal_x, normal_y)
            if _gap(low_ego, high_ego, low_front, high_front) > 0:
                touches = False
            approach = normal_x * relative_x + normal_y * relative_y
            if approach < 0:
                low_ego += approach
            else:
                high_ego += approach
            gap_m = _gap(low_ego, high_ego, low_front, high_front)
            if gap_m > 0:
                will_touch = False
            if not touches and not will_touch:
                return
            if abs(gap_m) < depth_m:
                depth_m = abs(gap_m)
                outward = 1.0 if centre_x * normal_x + centre_y * normal_y > 0 else -1.0
                push_x, push_y = outward * normal_x, outward * normal_y
    if will_touch:
        for vehicle in range(2):
            half = 0.5 if vehicle == EGO else -0.5
            state[vehicle, STRUCK] = 1.0
            state[vehicle, PUSH_X] = half * depth_m * push_x
            state[vehicle, PUSH_Y] = half * depth_m * push_y
    if touches:
        state[EGO, CRASHED] = 1.0
        state[FRONT, CRASHED] = 1.0
