"""The rewards of both drivers: quality of driving (Eq. 2), closing in (Eq. 3), a bonus at the crash (Eq. 4), and named sums of them.

Reference: adversarial testing, sections III and IV-A.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np
from numba import njit

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.core.registry import Registry
from skidpad.highway.layout import CRASHED, HEADING, SPEED, TARGET_LANE, X, Y, opponent_of

SUM_QUALITY, SUM_APPROACH, EVER_BACKED_OFF = 0, 1, 2
MEMORY_FIELDS = 3
"""What Eq. 4 remembers of the steps so far: the two sums, and whether R_diff was ever zero or below."""


class RewardParams(NamedTuple):
    """A reward as compiled functions read it; made by `Reward.compiled()`, never by hand."""

    quality_weight: float
    quality_offset: float
    speed_weight: float
    right_lane_weight: float
    collision_weight: float
    slow_mps: float
    fast_mps: float
    approach_weight: float
    margin: float
    lateral_divisor: float
    still_mps: float
    x_scale_m: float
    bonus_share: float
    is_sum_kept: bool
    crash_bonus: float


@dataclass(frozen=True, slots=True)
class QualityOfDriving:
    """R_QoD: rewards speed and the right lane, penalises a collision; scaled linearly to [0, 1].

    The right lane counts from the moment a vehicle turns to it, as in highway-env. Reference: Eq. 2.
    """

    speed_weight: float = 0.4
    right_lane_weight: float = 0.1
    collision_weight: float = -1.0
    """w_col, the ego's risk aversion: 0 ignores collisions, -1 is the paper's."""
    slow_mps: float = 20.0
    fast_mps: float = 30.0

    def __post_init__(self) -> None:
        if self.collision_weight > 0.0 or self.speed_weight < 0.0 or self.right_lane_weight < 0.0:
            raise BadParametersError(
                f"quality of driving needs a collision weight of at most 0 and other weights of at least 0; got {self}"
            )
        if self.speed_weight + self.right_lane_weight <= self.collision_weight or not self.slow_mps < self.fast_mps:
            raise BadParametersError(f"quality of driving needs weights that are not all 0, and slow_mps < fast_mps; got {self}")


@dataclass(frozen=True, slots=True)
class Approach:
    """R_diff: negative while the front vehicle gets away or moves sideways, 1 / (1 + d) while the two come closer.

    The defaults are Eq. 3 as printed, in metres and m/s. Reference: Eq. 3, constants from section V-A.
    """

    margin: float = 0.01
    """a"""
    lateral_divisor: float = 3.0
    """b"""
    still_mps: float = 0.0
    """The second case applies where |D_vy| is above this; 0 is the printed test, D_vy != 0."""
    x_scale_m: float = 1.0
    """The unit of D_x in d, in metres."""

    def __post_init__(self) -> None:
        if self.margin < 0.0 or self.lateral_divisor <= 0.0 or self.still_mps < 0.0 or self.x_scale_m <= 0.0:
            raise BadParametersError(f"R_diff needs margin and still_mps of at least 0, divisor and x_scale_m above 0; got {self}")


@dataclass(frozen=True, slots=True)
class EpisodeBonus:
    """R_ep: a share of what the episode has earned, paid at the crash. Reference: Eq. 4, c from section V-A."""

    share: float = 0.1
    """c"""
    is_cleared: bool = True
    """Whether the sum starts at 0 in each episode. The published snapshot never clears it, so it grows to hundreds."""

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise BadParametersError(f"the share c of R_ep must be within (0, 1]; got {self.share}")


@dataclass(frozen=True, slots=True)
class Reward:
    """weight x (R_QoD - offset) + R_diff at each step; the step that ends in a crash adds R_ep and a fixed bonus."""

    name: str
    quality: QualityOfDriving = field(default_factory=QualityOfDriving)
    quality_weight: float = 1.0
    quality_offset: float = 0.0
    approach: Approach | None = None
    bonus: EpisodeBonus | None = None
    crash_bonus: float = 0.0

    def compiled(self) -> RewardParams:
        """Returns the numbers that the compiled function works on."""
        parts = asdict(self.quality) | asdict(self.approach or Approach())
        return RewardParams(
            quality_weight=float(self.quality_weight),
            quality_offset=float(self.quality_offset),
            approach_weight=0.0 if self.approach is None else 1.0,
            bonus_share=0.0 if self.bonus is None else float(self.bonus.share),
            is_sum_kept=self.bonus is not None and not self.bonus.is_cleared,
            crash_bonus=float(self.crash_bonus),
            **{name: float(value) for name, value in parts.items()},
        )


_HEEDLESS = QualityOfDriving(collision_weight=0.0)


def driving_reward(collision_weight: float = -1.0) -> Reward:
    """Returns the ego's reward, R_QoD alone; the weight is its risk aversion (section V-C, Discussion)."""
    return Reward("quality-of-driving", QualityOfDriving(collision_weight=collision_weight))


def careful_reward(crash_cost: float) -> Reward:
    """Returns an ego's reward that is `sound` turned round: a running cost of at most 0.1 a step, and a fixed cost of the crash.

    Under R_QoD a crash costs about as much as a dozen slow steps, so that overtaking pays even where every third try ends in a crash.
    """
    return Reward("careful", _HEEDLESS, quality_weight=0.1, quality_offset=1.0, crash_bonus=-crash_cost)


REWARDS: Registry[Callable[[], Reward]] = Registry("adversarial reward", "duel-rewards", ("skidpad.highway.rewards",))
"""The front vehicle's rewards by name; none penalises a collision (w_col = 0)."""


@REWARDS.register("paper")
def paper_reward() -> Reward:
    """Eq. 2 to 4 exactly as printed. R_ep pays less than a crash costs, so the adversary learns to keep clear."""
    return Reward("paper", _HEEDLESS, approach=Approach(), bonus=EpisodeBonus())


@REWARDS.register("released")
def released_reward() -> Reward:
    """The reward of the published snapshot: R_ep sums over all episodes of a training, and D_x is in units of 1,200 m.

    Deviates: |D_vy| up to 0.05 m/s counts as no lane change, because after one the sideways speed decays but
    almost never reaches exactly 0.
    """
    # The snapshot takes the distance from observations, which hold x / 1200 m.
    return Reward("released", _HEEDLESS, approach=Approach(still_mps=0.05, x_scale_m=1200.0), bonus=EpisodeBonus(is_cleared=False))


@REWARDS.register("sound")
def sound_reward() -> Reward:
    """A reward under which crashing always pays: a running cost of at most 0.1 a step, and 5 for the crash."""
    return Reward("sound", _HEEDLESS, quality_weight=0.1, quality_offset=1.0, crash_bonus=5.0)


def fresh_memory() -> FloatArray:
    """Returns the memory of a training, or of an episode, that has not begun."""
    return np.zeros(MEMORY_FIELDS)


@njit(nogil=True, cache=True, error_model="numpy")
def begin_episode(params: RewardParams, memory: FloatArray) -> None:
    """Clears what Eq. 4 remembers, unless the reward keeps it."""
    if not params.is_sum_kept:
        memory[:] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def quality_of(params: RewardParams, lanes: int, state: FloatArray, side: int) -> float:
    """Returns R_QoD of one vehicle in the state after a step, (2, FIELDS)."""
    forward_mps = state[side, SPEED] * np.cos(state[side, HEADING])
    speed = min(max((forward_mps - params.slow_mps) / (params.fast_mps - params.slow_mps), 0.0), 1.0)
    right = state[side, TARGET_LANE] / max(lanes - 1, 1)
    raw = params.speed_weight * speed + params.right_lane_weight * right + params.collision_weight * state[side, CRASHED]
    quality: float = (raw - params.collision_weight) / (params.speed_weight + params.right_lane_weight - params.collision_weight)
    return quality


@njit(nogil=True, cache=True, error_model="numpy")
def approach_of(params: RewardParams, state: FloatArray, side: int) -> float:
    """Returns R_diff of `side` against the other in the state after a step, (2, FIELDS)."""
    other = opponent_of(side)
    away_mps: float = state[side, SPEED] * np.cos(state[side, HEADING]) - state[other, SPEED] * np.cos(state[other, HEADING])
    if away_mps >= 0.0:
        return -away_mps - params.margin
    sideways_mps: float = abs(state[side, SPEED] * np.sin(state[side, HEADING]) - state[other, SPEED] * np.sin(state[other, HEADING]))
    if sideways_mps > params.still_mps:
        return -sideways_mps / params.lateral_divisor
    dx = (state[side, X] - state[other, X]) / params.x_scale_m
    dy = state[side, Y] - state[other, Y]
    distance: float = np.sqrt(dx * dx + dy * dy)
    return 1.0 / (1.0 + distance)


@njit(nogil=True, cache=True, error_model="numpy")
def pay(params: RewardParams, lanes: int, state: FloatArray, side: int, is_crash: bool, memory: FloatArray) -> float:  # noqa: FBT001
    """Returns the reward of `side` for the step that led to `state`, and remembers what Eq. 4 needs."""
    quality = quality_of(params, lanes, state, side)
    reward = params.quality_weight * (quality - params.quality_offset)
    approach = 0.0
    if params.approach_weight > 0.0:
        approach = approach_of(params, state, side)
        reward += params.approach_weight * approach
    memory[SUM_QUALITY] += quality
    memory[SUM_APPROACH] += approach
    if approach <= 0.0:
        memory[EVER_BACKED_OFF] = 1.0
    if is_crash:
        earned = memory[SUM_QUALITY] + (0.0 if memory[EVER_BACKED_OFF] > 0.0 else memory[SUM_APPROACH])
        reward += params.bonus_share * earned + params.crash_bonus
    return reward
