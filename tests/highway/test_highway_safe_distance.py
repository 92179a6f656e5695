"""Safe distances: the formula against the worst case driven out, and who broke one first on planted traces."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.highway import engine
from skidpad.highway.episodes import trace
from skidpad.highway.layout import Action
from skidpad.highway.safe_distance import FirstBreak, SafeDistance, first_break
from skidpad.highway.scenes import RELEASED

SPEEDS = st.floats(0.0, 40.0)
CLOSE, FAR = 120.0, 400.0


def end_gap_m(rules: SafeDistance, gap_m: float, rear_mps: float, ahead_mps: float) -> float:
    """The plain reference: the gap after both have come down to the slowest speed, driven out in small steps."""
    dt_s, time_s = 1e-3, 0.0
    floor = rules.slowest_mps
    while rear_mps > floor or ahead_mps > floor or time_s < rules.response_s:
        rear_mps = (
            rear_mps + rules.accelerates_mps2 * dt_s
            if time_s < rules.response_s
            else max(rear_mps - rules.brakes_at_least_mps2 * dt_s, floor)
        )
        ahead_mps = max(ahead_mps - rules.brakes_at_most_mps2 * dt_s, floor)
        gap_m += (ahead_mps - rear_mps) * dt_s
        time_s += dt_s
    return gap_m


@given(rear=SPEEDS, ahead=SPEEDS, floor=st.sampled_from([0.0, 20.0]))
def test_along_is_the_road_that_the_worst_case_takes(rear, ahead, floor) -> None:
    rules = SafeDistance(slowest_mps=floor)
    rear, ahead = max(rear, floor), max(ahead, floor)
    needed_m = float(rules.along_m(np.array(rear), np.array(ahead)))
    left_m = end_gap_m(rules, needed_m, rear, ahead)
    assert left_m > -0.1
    assert needed_m == 0.0 or left_m < 0.1


def test_along_by_hand() -> None:
    # 25 m/s both, down to a standstill: 25 + 1.75 + 28.5² / 8 - 625 / 16
    assert float(SafeDistance(slowest_mps=0.0).along_m(np.array(25.0), np.array(25.0))) == pytest.approx(89.2188, abs=1e-3)
    # seen from a frame at 20 m/s: 5 + 1.75 + 8.5² / 8 - 25 / 16
    assert float(SafeDistance().along_m(np.array(25.0), np.array(25.0))) == pytest.approx(14.21875)


@given(left=st.floats(-5, 5), right=st.floats(-5, 5), faster=st.floats(0, 3))
def test_across_is_the_same_in_a_mirror_and_grows_with_the_approach(left, right, faster) -> None:
    rules = SafeDistance(side_margin_m=0.3)
    room = float(rules.across_m(np.array(left), np.array(right)))
    assert room >= 0.3
    assert float(rules.across_m(np.array(-right), np.array(-left))) == pytest.approx(room)
    assert float(rules.across_m(np.array(left + faster), np.array(right))) >= room - 1e-12


def test_two_on_their_own_lanes_are_safe_at_any_distance_along() -> None:
    ego, front = np.array([0.0, 0.0, 30.0, 0.0]), np.array([5.5, 4.0, 20.0, 0.0])
    assert SafeDistance().margin_m(ego, front) == pytest.approx(2.0 - 0.25)
    assert SafeDistance().margin_m(ego, np.array([5.5, 0.0, 20.0, 0.0])) < 0.0


def driven(start, ego, front, **changes):
    scenario = replace(RELEASED, overtake_end_m=None, **changes)
    return trace(scenario, np.array(start, np.float64), np.array(ego), np.array(front))


def start(ego_lane, front_lane, gap_m, ego_mps=25.0, front_mps=25.0):
    values = np.zeros(engine.START_FIELDS)
    values[:6] = ego_lane, 100.0, ego_mps, front_lane, 105.0 + gap_m, front_mps
    return values


IDLE, LEFT, RIGHT, FASTER, SLOWER = Action.IDLE, Action.LEFT, Action.RIGHT, Action.FASTER, Action.SLOWER


@pytest.mark.parametrize(
    ("seen", "who"),
    [
        (driven(start(0, 0, 100.0), [IDLE] * 3, [IDLE] * 3), FirstBreak.NOBODY),
        (driven(start(0, 0, 5.0), [IDLE] * 2, [IDLE] * 2), FirstBreak.START),
        (driven(start(0, 0, 15.0), [FASTER, IDLE], [IDLE, IDLE]), FirstBreak.EGO),
        (driven(start(0, 0, 15.0), [IDLE, IDLE], [SLOWER, IDLE]), FirstBreak.FRONT),
        (driven(start(0, 1, 8.0), [IDLE, IDLE], [LEFT, IDLE]), FirstBreak.FRONT),
        (driven(start(0, 1, 8.0), [RIGHT, IDLE], [IDLE, IDLE]), FirstBreak.EGO),
        (driven(start(0, 0, 60.0, 30.0, 20.0), [IDLE] * 5, [IDLE] * 5), FirstBreak.EGO),
    ],
    ids=["far apart", "too near at once", "ego speeds up", "front brakes", "front cuts in", "ego cuts behind", "ego does not brake"],
)
def test_who_broke_it_first(seen, who) -> None:
    found = first_break(seen)
    assert found.who is who
    assert np.isnan(found.at_s) == (who is FirstBreak.NOBODY)


def test_what_comes_after_the_impact_is_nobodys_fault() -> None:
    seen = driven(start(0, 0, 15.0), [FASTER] * 4, [SLOWER] * 4)
    assert seen.impact_frame is not None
    assert first_break(seen).at_s < seen.impact_s


def test_constants_are_checked() -> None:
    with pytest.raises(BadParametersError, match="brakes_at_least_mps2 must be above 0"):
        SafeDistance(brakes_at_least_mps2=0.0)
    with pytest.raises(BadParametersError, match="at least 0"):
        SafeDistance(response_s=-1.0)
