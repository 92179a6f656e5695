"""The compiled engine of duels: starts, steps and collisions of many episodes at once, step for step as highway-env."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.layout import (
    ACTIONS,
    CRASH,
    CRASHED,
    EGO,
    ERROR,
    FIELDS,
    FRONT,
    HEADING,
    IDM_EXPONENT,
    IS_IDM,
    LANE,
    LANE_TIMER,
    LANE_WIDTH_M,
    OVERTAKEN,
    PUSH_X,
    PUSH_Y,
    RUNNING,
    SPEED,
    STEPS,
    STRUCK,
    TARGET_LANE,
    TARGET_SPEED,
    TIMEOUT,
    VEHICLE_LENGTH_M,
    VEHICLE_WIDTH_M,
    VEHICLES,
    Params,
    X,
    Y,
    action_of,
)
from skidpad.highway.observation import observe
from skidpad.highway.randomness import START_STREAM, stream_key, uniform
from skidpad.highway.vehicles import control, decide, drive_by_idm, move, nearest_lane, speed_index

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
    """Marks vehicles as crashed where two touch, and pushes two apart at the next step where they are about to; pair by pair."""
    for first in range(params.vehicles - 1):
        for second in range(first + 1, params.vehicles):
            _collide_pair(params, state, first, second)


@njit(nogil=True, cache=True, error_model="numpy")
def _collide_pair(params: Params, state: FloatArray, first: int, second: int) -> None:
    """Does so for two vehicles.

    The first look, by distance, uses the first one's speed alone, as the vehicle that is asked first does in highway-env.
    """
    away_x, away_y = state[second, X] - state[first, X], state[second, Y] - state[first, Y]
    if np.sqrt(away_x * away_x + away_y * away_y) > _DIAGONAL_M + state[first, SPEED] * params.dt_s:
        return
    ego, front = _outline(state, first), _outline(state, second)
    # in highway-env's order of multiplying: near a tie of two axes the last bit decides
    dt_s, ego_mps, front_mps = params.dt_s, state[first, SPEED], state[second, SPEED]
    relative_x = ego_mps * np.cos(state[first, HEADING]) * dt_s - front_mps * np.cos(state[second, HEADING]) * dt_s
    relative_y = ego_mps * np.sin(state[first, HEADING]) * dt_s - front_mps * np.sin(state[second, HEADING]) * dt_s
    centre_x = (ego[0, 0] + ego[1, 0] + ego[2, 0] + ego[3, 0]) / 4 - (front[0, 0] + front[1, 0] + front[2, 0] + front[3, 0]) / 4
    centre_y = (ego[0, 1] + ego[1, 1] + ego[2, 1] + ego[3, 1]) / 4 - (front[0, 1] + front[1, 1] + front[2, 1] + front[3, 1]) / 4
    touches, will_touch = True, True
    depth_m, push_x, push_y = np.inf, 0.0, 0.0
    for polygon in range(2):
        corners = ego if polygon == 0 else front
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
        for vehicle in (first, second):
            half = 0.5 if vehicle == first else -0.5
            state[vehicle, STRUCK] = 1.0
            state[vehicle, PUSH_X] = half * depth_m * push_x
            state[vehicle, PUSH_Y] = half * depth_m * push_y
    if touches:
        state[first, CRASHED] = 1.0
        state[second, CRASHED] = 1.0


START_EGO_LANE, START_EGO_X, START_EGO_SPEED = 0, 1, 2
START_FRONT_LANE, START_FRONT_X, START_FRONT_SPEED = 3, 4, 5
START_EXPONENT = 6
START_FIELDS = 7
START_EACH_FURTHER = 4
"""A start is float64 of shape (7,): all that differs between the first states of two episodes of a scenario; each front vehicle
after the first adds four: lane, x, speed, exponent."""
START_DRAWS = 8
"""How many random numbers a start is made of; each further front vehicle takes START_EACH_FURTHER more."""


def new_state(vehicles: int = VEHICLES) -> FloatArray:
    """Returns room for one episode's state, of shape (vehicles, FIELDS)."""
    return np.zeros((vehicles, FIELDS))


def new_states(episodes: int, vehicles: int = VEHICLES) -> FloatArray:
    """Returns room for many episodes' states, of shape (episodes, vehicles, FIELDS)."""
    return np.zeros((episodes, vehicles, FIELDS))


@njit(nogil=True, cache=True)
def start_fields(params: Params) -> int:
    """Returns how many numbers a start has."""
    return START_FIELDS + START_EACH_FURTHER * (params.vehicles - VEHICLES)


@njit(nogil=True, cache=True, error_model="numpy")
def draw_start(params: Params, seed: int, episode: int, start: FloatArray) -> None:
    """Draws how an episode starts into `start`, of shape (start_fields,)."""
    key = stream_key(seed, episode, START_STREAM)
    drawn = np.empty(start_draws(params))
    for place in range(len(drawn)):
        drawn[place] = uniform(key, place)
    start_from(params, drawn, start)


@njit(nogil=True, cache=True)
def start_draws(params: Params) -> int:
    """Returns how many random numbers a start is made of."""
    return START_DRAWS + START_EACH_FURTHER * (params.vehicles - VEHICLES)


@njit(nogil=True, cache=True, error_model="numpy")
def start_from(params: Params, drawn: FloatArray, start: FloatArray) -> None:
    """Makes a start, (start_fields,), of numbers within [0, 1), (start_draws,); even numbers give the scenario's distribution.

    The ego stands at 3.9 to 4.1 times its own spacing, as the first vehicle that highway-env puts on an empty road, and each front
    vehicle by the episode's spacing ahead of the one before it.
    """
    ego_mps = params.ego_speed_low + (params.ego_speed_high - params.ego_speed_low) * drawn[0]
    front_mps = params.front_speed_low + (params.front_speed_high - params.front_speed_low) * drawn[1]
    spacing = params.spacing_low + (params.spacing_high - params.spacing_low) * drawn[2]
    crowding = np.exp(-5 / 40 * params.lanes)
    ego_ratio = params.ego_start_ratio
    if np.isnan(ego_ratio):
        ego_ratio = 1.0 if params.spacing_in_metres else spacing
    ego_spacing_m = ego_ratio * (12 + ego_mps) * crowding
    ego_m = 3 * ego_spacing_m + ego_spacing_m * (0.9 + 0.2 * drawn[3])
    gap_m = _gap_ahead_m(params, spacing, front_mps, drawn[4])
    start[START_EGO_LANE] = int(drawn[5] * params.lanes)
    start[START_EGO_X] = ego_m
    start[START_EGO_SPEED] = ego_mps
    start[START_FRONT_LANE] = int(drawn[6] * params.lanes)
    start[START_FRONT_X] = ego_m + gap_m
    start[START_FRONT_SPEED] = front_mps
    start[START_EXPONENT] = 3.5 + drawn[7]
    ahead_m = ego_m + gap_m
    for further in range(params.vehicles - VEHICLES):
        base, counter = START_FIELDS + START_EACH_FURTHER * further, START_DRAWS + START_EACH_FURTHER * further
        mps = params.front_speed_low + (params.front_speed_high - params.front_speed_low) * drawn[counter]
        ahead_m += _gap_ahead_m(params, spacing, mps, drawn[counter + 1])
        start[base] = int(drawn[counter + 2] * params.lanes)
        start[base + 1] = ahead_m
        start[base + 2] = mps
        start[base + 3] = 3.5 + drawn[counter + 3]


@njit(nogil=True, cache=True, error_model="numpy")
def _gap_ahead_m(params: Params, spacing: float, speed_mps: float, chance: float) -> float:
    """Returns how far ahead of the vehicle before it one of this speed is placed, centre to centre."""
    if params.spacing_in_metres:
        return VEHICLE_LENGTH_M + spacing
    return float(spacing * (12 + speed_mps) * np.exp(-5 / 40 * params.lanes) * (0.9 + 0.2 * chance))


@njit(nogil=True, cache=True, error_model="numpy")
def place(params: Params, start: FloatArray, state: FloatArray) -> None:
    """Sets the first state of an episode from its start, which decides everything."""
    for vehicle in range(params.vehicles):
        for column in range(FIELDS):
            state[vehicle, column] = 0.0
        base = START_EGO_LANE if vehicle == EGO else START_FRONT_LANE
        if vehicle > FRONT:
            base = START_FIELDS + START_EACH_FURTHER * (vehicle - VEHICLES)
        state[vehicle, X] = start[base + 1]
        state[vehicle, Y] = start[base] * LANE_WIDTH_M
        state[vehicle, SPEED] = start[base + 2]
        state[vehicle, LANE] = nearest_lane(params, state, vehicle)
        state[vehicle, TARGET_LANE] = state[vehicle, LANE]
        state[vehicle, TARGET_SPEED] = params.target_speeds[speed_index(params, start[base + 2])]
        if params.front_is_idm and vehicle != EGO:
            state[vehicle, IS_IDM] = 1.0
            state[vehicle, TARGET_SPEED] = start[base + 2]
            state[vehicle, IDM_EXPONENT] = start[base + 3]
            state[vehicle, LANE_TIMER] = (state[vehicle, X] + state[vehicle, Y]) * np.pi % 1.0


@njit(nogil=True, cache=True, error_model="numpy")
def place_many(params: Params, starts: FloatArray, states: FloatArray) -> None:
    """Sets the first states of episodes, (N, vehicles, FIELDS), from their starts, (N, start_fields)."""
    for index in range(len(starts)):
        place(params, starts[index], states[index])


@njit(nogil=True, cache=True, error_model="numpy")
def reset(params: Params, seed: int, episode: int, state: FloatArray) -> None:
    """Sets the first state of episode `episode` under `seed`."""
    start = np.empty(start_fields(params))
    draw_start(params, seed, episode, start)
    place(params, start, state)


@njit(nogil=True, cache=True, error_model="numpy")
def outcome_of(params: Params, state: FloatArray) -> int:
    """Returns the outcome's code: a crash takes precedence over an overtaking, and that over a timeout; RUNNING until then.

    A crash is the ego's; front vehicles that crash with each other roll out, and the ego has to avoid them. Overtaken is who has
    overtaken all.
    """
    if state[EGO, CRASHED] != 0.0:
        return CRASH
    ahead_m = -np.inf
    for vehicle in range(FRONT, params.vehicles):
        ahead_m = max(ahead_m, state[vehicle, X] - state[EGO, X])
    if ahead_m <= params.overtake_end_m:
        return OVERTAKEN
    return TIMEOUT if state[EGO, STEPS] >= params.episode_steps else RUNNING


@njit(nogil=True, cache=True, error_model="numpy")
def step(params: Params, state: FloatArray, ego_action: int, front_action: int) -> int:
    """Drives one policy step and returns the outcome's code; `front_action` is joint, and IDM in front ignores it.

    All simulation steps are driven even where a crash happens in the first, and a state that ended can be driven on.
    """
    decide(params, state, EGO, ego_action)
    for vehicle in range(FRONT, params.vehicles):
        if state[vehicle, IS_IDM] == 0.0:
            decide(params, state, vehicle, action_of(front_action, vehicle))
    for _ in range(params.frames):
        for vehicle in range(params.vehicles):
            if state[vehicle, IS_IDM] != 0.0:
                drive_by_idm(params, state, vehicle)
            else:
                control(state, vehicle)
        for vehicle in range(params.vehicles):
            move(params, state, vehicle)
        collide(params, state)
    for vehicle in range(params.vehicles):
        state[vehicle, STEPS] += 1.0
    return outcome_of(params, state)


@njit(nogil=True, cache=True, error_model="numpy")
def reset_many(params: Params, seed: int, episodes: IntArray, states: FloatArray, outcomes: IntArray) -> None:
    """Sets the first states of the episodes numbered (N,) into `states` (N, vehicles, FIELDS) and `outcomes` (N,) to RUNNING."""
    for index in range(len(episodes)):
        reset(params, seed, episodes[index], states[index])
        outcomes[index] = RUNNING


@njit(nogil=True, cache=True, error_model="numpy")
def step_many(params: Params, states: FloatArray, ego_actions: IntArray, front_actions: IntArray, outcomes: IntArray) -> int:
    """Drives one policy step of every episode that runs and returns how many still run; ended ones stay unchanged.

    An action that is not one of the five, or a joint action of such, ends its episode as ERROR without moving. An IDM front ignores its
    actions.
    """
    running, joint = 0, ACTIONS ** (params.vehicles - FRONT)
    for index in range(len(states)):
        if outcomes[index] != RUNNING:
            continue
        ego, front = ego_actions[index], front_actions[index]
        is_front_bad = states[index, FRONT, IS_IDM] == 0.0 and not 0 <= front < joint
        if is_front_bad or not 0 <= ego < ACTIONS:
            outcomes[index] = ERROR
            continue
        outcomes[index] = step(params, states[index], ego, front)
        if outcomes[index] == RUNNING:
            running += 1
    return running


@njit(nogil=True, cache=True, error_model="numpy")
def observe_many(params: Params, states: FloatArray, side: int, out: NDArray[np.float32]) -> None:
    """Writes what `side` sees in each state into `out`, of shape (N, vehicles x features)."""
    for index in range(len(states)):
        observe(params, states[index], side, out[index])
