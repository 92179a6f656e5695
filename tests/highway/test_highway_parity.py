"""The compiled engine against highway-env itself: the same starts, the same actions, the same states, flags and observations."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from skidpad.highway.backend import EngineBackend, highway_backend
from skidpad.highway.layout import (
    CRASHED,
    HEADING,
    IDM_EXPONENT,
    IS_IDM,
    LANE,
    LANE_TIMER,
    PUSH_X,
    PUSH_Y,
    SPEED,
    STEPS,
    STRUCK,
    TARGET_LANE,
    TARGET_SPEED,
    X,
    Y,
)
from skidpad.highway.observation import Feature, ObservationSpec, Quantity
from skidpad.highway.scenario import FrontDriver, Scenario
from skidpad.highway.scenes import PAPER, PRETRAINING, RELEASED

FLAGS = [LANE, TARGET_LANE, CRASHED, STRUCK, IS_IDM, STEPS]
NUMBERS = [X, Y, HEADING, SPEED, TARGET_SPEED, IDM_EXPONENT, LANE_TIMER]
PUSH = [PUSH_X, PUSH_Y]

EVERYTHING_SEEN = ObservationSpec(
    features=(
        Feature(Quantity.PRESENCE),
        Feature(Quantity.X, -100.0, 100.0),
        Feature(Quantity.Y),
        Feature(Quantity.VX, -20.0, 60.0),
        Feature(Quantity.VY),
        Feature(Quantity.COS_HEADING),
        Feature(Quantity.SIN_HEADING),
        Feature(Quantity.HEADING),
    ),
    vehicles=3,
    is_absolute=False,
    is_clipped=False,
    sees_behind=False,
)
"""Every feature, relative, with a row too many, unclipped and blind to the rear: what the presets do not use."""

TIGHT = replace(
    RELEASED, name="tight", simulation_hz=5, lanes=3, spacing=(0.2, 0.7), ego_speed_mps=(18.0, 33.0), front_speed_mps=(15.0, 28.0)
)
RULES = replace(PRETRAINING, name="rules", simulation_hz=15, lanes=3, spacing=(0.3, 0.9), ego_speed_mps=(21.0, 30.0), ego_start_ratio=None)
SCENARIOS = (
    RELEASED,
    replace(RELEASED, simulation_hz=5),
    PAPER,
    replace(PAPER, simulation_hz=15, front=FrontDriver.IDM, overtake_end_m=None),
    PRETRAINING,
    RULES,
    replace(TIGHT, observation=EVERYTHING_SEEN),
    replace(TIGHT, name="two in front").crowded(2),
    replace(TIGHT, name="three in front", simulation_hz=15).crowded(3),
    replace(TIGHT, name="three in front, two seen", fronts=3),
    replace(RULES, name="three by rules", spacing=(0.7, 1.4), front_speed_mps=(18.0, 27.0)).crowded(3),
)


@dataclass
class Gap:
    """The greatest differences found so far."""

    policy_steps: int = 0
    crashes: int = 0
    pile_ups: int = 0
    """Episodes in which front vehicles crashed among themselves and the ego did not."""
    lane_changes: int = 0
    position_m: float = 0.0
    anything: float = 0.0
    seen: float = 0.0


def drive_both(
    scenario: Scenario, episodes: int, steps: int, gap: Gap, *, is_stock_observed: bool, seed: int = 5, observe_every: int = 1
) -> None:
    """Drives both backends on, also after an episode ended, and stops at the first difference in a flag."""
    ours, theirs = EngineBackend(scenario), highway_backend(scenario, is_stock_observed=is_stock_observed)
    rng = np.random.default_rng(seed)
    for episode in range(episodes):
        ours.reset(seed, episode)
        theirs.reset(seed, episode)
        lane = ours.state[:, LANE]
        for step in range(steps):
            # an ego that goes straight on hits more often than one that acts by chance alone
            ego, *fronts = rng.integers(0, 5, 1 + scenario.fronts).tolist() if rng.random() < 0.7 else (3, *[4] * scenario.fronts)
            front = sum(action * 5**place for place, action in enumerate(fronts))
            outcomes = ours.step(ego, front), theirs.step(ego, front)
            mine, real = ours.state, theirs.state
            where = f"{scenario.name} at {scenario.simulation_hz} Hz, episode {episode}, step {step}"
            assert outcomes[0] is outcomes[1], where
            assert np.array_equal(mine[:, FLAGS], real[:, FLAGS]), where
            gap.position_m = max(gap.position_m, difference(mine[:, [X, Y]], real[:, [X, Y]]))
            gap.anything = max(gap.anything, difference(mine[:, NUMBERS], real[:, NUMBERS]))
            struck = mine[:, STRUCK] != 0.0
            if struck.any():
                gap.anything = max(gap.anything, difference(mine[struck][:, PUSH], real[struck][:, PUSH]))
            if step % observe_every == 0:
                # of several front vehicles each sees the ego first, which highway-env's own observation does not know
                for side in range(1 if is_stock_observed and scenario.fronts > 1 else len(mine)):
                    gap.seen = max(gap.seen, difference(ours.observe(side), theirs.observe(side)))
            gap.lane_changes += int((mine[:, LANE] != lane).any())
            lane = mine[:, LANE]
            gap.policy_steps += 1
        gap.crashes += int(mine[0, CRASHED])
        gap.pile_ups += int(mine[1:, CRASHED].any() and not mine[0, CRASHED])


def difference(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    return float(np.abs(first - second).max())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.name}-{scenario.front.value}-{scenario.simulation_hz}")
def test_engine_and_highway_env_agree_step_by_step(scenario: Scenario) -> None:
    gap = Gap()
    drive_both(scenario, episodes=5, steps=12, gap=gap, is_stock_observed=False)
    assert gap.position_m < 1e-9
    assert gap.anything < 1e-9
    assert gap.seen < 1e-6


def test_observation_is_highway_envs_own() -> None:
    gap = Gap()
    for scenario in (
        RELEASED,
        replace(TIGHT, observation=EVERYTHING_SEEN),
        replace(RELEASED, observation=replace(EVERYTHING_SEEN, vehicles=2)),
    ):
        drive_both(scenario, episodes=2, steps=5, gap=gap, is_stock_observed=True)
    assert gap.seen < 1e-6


def test_the_comparison_sees_crashes_and_lane_changes() -> None:
    gap = Gap()
    drive_both(TIGHT, episodes=6, steps=10, gap=gap, is_stock_observed=False, observe_every=100)
    assert gap.crashes >= 2
    assert gap.lane_changes >= 2
    drive_both(replace(TIGHT, name="three in front").crowded(3), episodes=6, steps=10, gap=gap, is_stock_observed=False, observe_every=100)
    assert gap.pile_ups >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_parity_over_twenty_thousand_policy_steps() -> None:
    gap = Gap()
    episodes = 20_000 // (len(SCENARIOS) * 20) + 1
    for scenario in SCENARIOS:
        drive_both(scenario, episodes=episodes, steps=20, gap=gap, is_stock_observed=True, seed=11, observe_every=10)
    assert gap.policy_steps >= 20_000
    assert gap.crashes > 200
    assert gap.position_m < 1e-9
    assert gap.anything < 1e-9
    assert gap.seen < 1e-6
    print(gap)  # noqa: T201 - read with -s: the figures that the documentation quotes
