"""The compiled engine: a two-vehicle highway on plain arrays, step for step equal to highway-env.

Every function here can be called from other compiled code and releases the interpreter lock. A state is made with `new_state` or
`new_states`; `params` come from `Scenario.compiled()`. Everything random is a function of (seed, episode).

Reference: adversarial testing, section III; highway-env 1.12.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.images import FloatArray, IntArray
from skidpad.duels import idm
from skidpad.duels.collision import collide
from skidpad.duels.kinematics import control, decide, move, nearest_lane, speed_index
from skidpad.duels.layout import (
    ACTIONS,
    CRASH,
    CRASHED,
    EGO,
    ERROR,
    FIELDS,
    FRONT,
    IDM_EXPONENT,
    IS_IDM,
    LANE,
    LANE_TIMER,
    LANE_WIDTH_M,
    OVERTAKEN,
    RUNNING,
    SPEED,
    STEPS,
    TARGET_LANE,
    TARGET_SPEED,
    TIMEOUT,
    VEHICLE_LENGTH_M,
    VEHICLES,
    Params,
    X,
    Y,
)
from skidpad.duels.observation import observe
from skidpad.duels.randomness import START_STREAM, stream_key, uniform, whole

START_EGO_LANE, START_EGO_X, START_EGO_SPEED = 0, 1, 2
START_FRONT_LANE, START_FRONT_X, START_FRONT_SPEED = 3, 4, 5
START_EXPONENT = 6
START_FIELDS = 7
"""A start is float64 of shape (7,): all that differs between the first states of two episodes of a scenario."""


def new_state() -> FloatArray:
    """Returns room for one episode's state, of shape (2, FIELDS)."""
    return np.zeros((VEHICLES, FIELDS))


def new_states(episodes: int) -> FloatArray:
    """Returns room for many episodes' states, of shape (episodes, 2, FIELDS)."""
    return np.zeros((episodes, VEHICLES, FIELDS))


@njit(nogil=True, cache=True, error_model="numpy")
def draw_start(params: Params, seed: int, episode: int, start: FloatArray) -> None:
    """Draws how an episode starts into `start`, of shape (START_FIELDS,).

    The ego stands at 3.9 to 4.1 times its own spacing, as the first vehicle that highway-env puts on an empty road.
    """
    key = stream_key(seed, episode, START_STREAM)
    ego_mps = params.ego_speed_low + (params.ego_speed_high - params.ego_speed_low) * uniform(key, 0)
    front_mps = params.front_speed_low + (params.front_speed_high - params.front_speed_low) * uniform(key, 1)
    spacing = params.spacing_low + (params.spacing_high - params.spacing_low) * uniform(key, 2)
    crowding = np.exp(-5 / 40 * params.lanes)
    ego_ratio = params.ego_start_ratio
    if np.isnan(ego_ratio):
        ego_ratio = 1.0 if params.spacing_in_metres else spacing
    ego_spacing_m = ego_ratio * (12 + ego_mps) * crowding
    ego_m = 3 * ego_spacing_m + ego_spacing_m * (0.9 + 0.2 * uniform(key, 3))
    if params.spacing_in_metres:
        gap_m = VEHICLE_LENGTH_M + spacing
    else:
        gap_m = spacing * (12 + front_mps) * crowding * (0.9 + 0.2 * uniform(key, 4))
    start[START_EGO_LANE] = whole(key, 5, params.lanes)
    start[START_EGO_X] = ego_m
    start[START_EGO_SPEED] = ego_mps
    start[START_FRONT_LANE] = whole(key, 6, params.lanes)
    start[START_FRONT_X] = ego_m + gap_m
    start[START_FRONT_SPEED] = front_mps
    start[START_EXPONENT] = 3.5 + uniform(key, 7)


@njit(nogil=True, cache=True, error_model="numpy")
def place(params: Params, start: FloatArray, state: FloatArray) -> None:
    """Sets the first state of an episode from its start, which decides everything."""
    for vehicle in range(VEHICLES):
        for column in range(FIELDS):
            state[vehicle, column] = 0.0
        base = START_EGO_LANE if vehicle == EGO else START_FRONT_LANE
        state[vehicle, X] = start[base + 1]
        state[vehicle, Y] = start[base] * LANE_WIDTH_M
        state[vehicle, SPEED] = start[base + 2]
        state[vehicle, LANE] = nearest_lane(params, state, vehicle)
        state[vehicle, TARGET_LANE] = state[vehicle, LANE]
        state[vehicle, TARGET_SPEED] = params.target_speeds[speed_index(params, start[base + 2])]
    if params.front_is_idm:
        state[FRONT, IS_IDM] = 1.0
        state[FRONT, TARGET_SPEED] = start[START_FRONT_SPEED]
        state[FRONT, IDM_EXPONENT] = start[START_EXPONENT]
        state[FRONT, LANE_TIMER] = (state[FRONT, X] + state[FRONT, Y]) * np.pi % 1.0


@njit(nogil=True, cache=True, error_model="numpy")
def reset(params: Params, seed: int, episode: int, state: FloatArray) -> None:
    """Sets the first state of episode `episode` under `seed`."""
    start = np.empty(START_FIELDS)
    draw_start(params, seed, episode, start)
    place(params, start, state)


@njit(nogil=True, cache=True, error_model="numpy")
def outcome_of(params: Params, state: FloatArray) -> int:
    """Returns the outcome's code: a crash takes precedence over an overtaking, and that over a timeout; RUNNING until then."""
    if state[EGO, CRASHED] != 0.0 or state[FRONT, CRASHED] != 0.0:
        return CRASH
    if state[FRONT, X] - state[EGO, X] <= params.overtake_end_m:
        return OVERTAKEN
    return TIMEOUT if state[EGO, STEPS] >= params.episode_steps else RUNNING


@njit(nogil=True, cache=True, error_model="numpy")
def step(params: Params, state: FloatArray, ego_action: int, front_action: int) -> int:
    """Drives one policy step and returns the outcome's code; actions are 0 .. 4, and IDM in front ignores its own.

    All simulation steps are driven even where a crash happens in the first, and a state that ended can be driven on.
    """
    decide(params, state, EGO, ego_action)
    if state[FRONT, IS_IDM] == 0.0:
        decide(params, state, FRONT, front_action)
    for _ in range(params.frames):
        for vehicle in range(VEHICLES):
            if state[vehicle, IS_IDM] != 0.0:
                idm.drive(params, state, vehicle)
            else:
                control(state, vehicle)
        for vehicle in range(VEHICLES):
            move(params, state, vehicle)
        collide(params, state)
    state[EGO, STEPS] += 1.0
    state[FRONT, STEPS] += 1.0
    return outcome_of(params, state)


@njit(nogil=True, cache=True, error_model="numpy")
def reset_many(params: Params, seed: int, episodes: IntArray, states: FloatArray, outcomes: IntArray) -> None:
    """Sets the first states of the episodes numbered (N,) into `states` (N, 2, FIELDS) and `outcomes` (N,) to RUNNING."""
    for index in range(len(episodes)):
        reset(params, seed, episodes[index], states[index])
        outcomes[index] = RUNNING


@njit(nogil=True, cache=True, error_model="numpy")
def step_many(params: Params, states: FloatArray, ego_actions: IntArray, front_actions: IntArray, outcomes: IntArray) -> int:
    """Drives one policy step of every episode that runs and returns how many still run; ended ones stay unchanged.

    An action that is not one of the five ends its episode as ERROR without moving. An IDM front ignores its actions.
    """
    running = 0
    for index in range(len(states)):
        if outcomes[index] != RUNNING:
            continue
        ego, front = ego_actions[index], front_actions[index]
        is_front_bad = states[index, FRONT, IS_IDM] == 0.0 and not 0 <= front < ACTIONS
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
