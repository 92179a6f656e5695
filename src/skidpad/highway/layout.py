"""The memory layout of a duel: the columns of a state, the numbers of a scenario, and the closed choices of the game.

A state is float64 of shape (vehicles, FIELDS), one row a vehicle: the ego, then one to three front vehicles; many are
(N, vehicles, FIELDS). Positions are metres along (x) and across (y) the road, lane 0 is the leftmost at y = 0, headings are radians,
speeds metres a second.

The actions of all front vehicles are one number, their joint action: the sum of action x 5 ** place, place 0 for the first.
"""

from enum import Enum, IntEnum
from typing import NamedTuple

from numba import njit

from skidpad.core.images import FloatArray, IntArray

EGO, FRONT = 0, 1
VEHICLES = 2
"""Of a duel with one front vehicle."""
MAX_FRONTS = 3
"""Joint actions of more would not fit into a byte."""

X, Y, HEADING, SPEED = 0, 1, 2, 3
LANE = 4
"""The lane whose centre is nearest."""
TARGET_LANE = 5
TARGET_SPEED = 6
CRASHED = 7
STRUCK = 8
"""Whether a push (PUSH_X, PUSH_Y) waits for the next simulation step, which then sets CRASHED."""
PUSH_X, PUSH_Y = 9, 10
IS_IDM = 11
"""1 where IDM and MOBIL drive the vehicle, 0 where meta-actions do."""
IDM_EXPONENT = 12
LANE_TIMER = 13
"""Seconds since MOBIL last considered a lane change."""
STEERING, ACCELERATION = 14, 15
"""The last command, rad and m/s²."""
STEPS = 16
"""Policy steps driven so far; the same in every row."""
FIELDS = 17

RUNNING, CRASH, OVERTAKEN, TIMEOUT, ERROR = 0, 1, 2, 3, 4
"""The codes that `engine.step` returns; ERROR is set by the code that asks a policy for an action."""

ACTIONS = 5

VEHICLE_LENGTH_M, VEHICLE_WIDTH_M = 5.0, 2.0
LANE_WIDTH_M = 4.0
ROAD_LENGTH_M = 10_000.0
SPEED_LIMIT_MPS = 30.0


class Action(IntEnum):
    """The meta-actions of both vehicles, numbered as highway-env does."""

    LEFT = 0
    IDLE = 1
    RIGHT = 2
    FASTER = 3
    SLOWER = 4


class Side(IntEnum):
    """A vehicle: its row of the state, and the observer in it; FRONT stands for all front vehicles where one policy drives them."""

    EGO = EGO
    FRONT = FRONT

    @property
    def other(self) -> "Side":
        """The opponent."""
        return Side(1 - self)


class Outcome(Enum):
    """How an episode ended."""

    CRASH = "crash"
    OVERTAKEN = "overtaken"
    TIMEOUT = "timeout"
    ERROR = "error"
    """A policy failed: wrong shape, not a number, an exception, or not one of the five actions."""

    @classmethod
    def of_code(cls, code: int) -> "Outcome | None":
        """Returns the outcome of an engine code; None while the episode runs."""
        return _OUTCOMES[code]

    @property
    def code(self) -> int:
        """The engine's code for this outcome."""
        return _OUTCOMES.index(self)


_OUTCOMES = (None, Outcome.CRASH, Outcome.OVERTAKEN, Outcome.TIMEOUT, Outcome.ERROR)


class Params(NamedTuple):
    """A scenario as compiled functions read it; made by `Scenario.compiled()`, never by hand."""

    lanes: int
    vehicles: int
    """The ego and the front vehicles."""
    frames: int
    """Simulation steps in a policy step."""
    dt_s: float
    episode_steps: int
    overtake_end_m: float
    """-inf where overtaking does not end an episode."""
    front_is_idm: bool
    spacing_in_metres: bool
    spacing_low: float
    spacing_high: float
    ego_start_ratio: float
    """NaN where the ego is placed by the ratio drawn for the spacing."""
    ego_speed_low: float
    ego_speed_high: float
    front_speed_low: float
    front_speed_high: float
    target_speeds: FloatArray
    feature_codes: IntArray
    feature_lows: FloatArray
    """NaN where the feature stays in its unit."""
    feature_highs: FloatArray
    observed_vehicles: int
    is_absolute: bool
    is_clipped: bool
    sees_behind: bool
    perception_m: float


@njit(nogil=True, cache=True)
def opponent_of(side: int) -> int:
    """Returns whom a vehicle drives against: the ego, or the first front vehicle where it is the ego itself."""
    return FRONT if side == EGO else EGO


@njit(nogil=True, cache=True)
def everyone(params: Params, action: int) -> int:
    """Returns the joint action in which every front vehicle takes the same."""
    joint = 0
    for _ in range(FRONT, params.vehicles):
        joint = joint * ACTIONS + action
    return joint


@njit(nogil=True, cache=True)
def action_of(joint: int, vehicle: int) -> int:
    """Returns one front vehicle's part of a joint action."""
    part: int = joint // ACTIONS ** (vehicle - FRONT) % ACTIONS
    return part
