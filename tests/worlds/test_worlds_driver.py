"""The truth: sign, scale and purpose of the steering labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds_truths import bend, straight

from skidpad.core.units import STEERING_RATIO, WHEELBASE_M
from skidpad.worlds.scenario.road import CrossSection, Piece, Road, random_road
from skidpad.worlds.vehicle import Driver

SECTION = CrossSection()


def pose_on(road: Road, s_m: float, stray_m: float = 0.0, askew_rad: float = 0.0) -> np.ndarray:
    here = road.at(np.array([s_m]))
    return np.column_stack((here.beside(SECTION.lane_centre_m + stray_m), here.heading_rad + askew_rad))


def steer(road: Road, pose: np.ndarray) -> float:
    return float(Driver().steering_rad(road, SECTION, pose)[0])


def test_nothing_is_steered_in_the_middle_of_a_straight_lane() -> None:
    assert steer(straight(), pose_on(straight(), 50.0)) == pytest.approx(0.0, abs=1e-12)


@given(st.floats(35.0, 400.0), st.booleans(), st.floats(5.0, 60.0))
@settings(max_examples=40, deadline=None)
def test_a_bend_is_steered_by_its_radius_and_left_is_positive(radius_m: float, left: bool, s_m: float) -> None:
    road = bend(radius_m if left else -radius_m)
    # The lane is the right one: outside a left bend, inside a right one.
    lane_radius_m = radius_m - SECTION.lane_centre_m if left else radius_m + SECTION.lane_centre_m
    expected = STEERING_RATIO * np.arctan(WHEELBASE_M / lane_radius_m)
    assert steer(road, pose_on(road, s_m)) == pytest.approx(expected if left else -expected, rel=1e-6)


@given(st.floats(0.05, 1.5), st.floats(0.01, 0.2))
@settings(max_examples=40, deadline=None)
def test_what_strays_is_steered_back(stray_m: float, askew_rad: float) -> None:
    road = straight()
    assert steer(road, pose_on(road, 50.0, stray_m)) < 0.0 < steer(road, pose_on(road, 50.0, -stray_m))
    assert steer(road, pose_on(road, 50.0, 0.0, askew_rad)) < 0.0 < steer(road, pose_on(road, 50.0, 0.0, -askew_rad))
    assert steer(road, pose_on(road, 50.0, stray_m)) == pytest.approx(-steer(road, pose_on(road, 50.0, -stray_m)))


def test_a_bend_of_thirty_miles_an_hour_reads_as_in_the_recorded_drive() -> None:
    road = bend(44.0 + SECTION.lane_centre_m)
    assert steer(road, pose_on(road, 40.0)) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("stray_m", [-0.8, 0.8])
def test_who_drives_by_the_labels_comes_back_to_the_lane(stray_m: float) -> None:
    road = random_road(np.random.default_rng(5), 300.0)
    driver, step_m = Driver(), 0.75
    pose = pose_on(road, 10.0, stray_m, 0.05)
    strayed = []
    for _ in range(240):
        steering_rad = driver.steering_rad(road, SECTION, pose)
        heading = pose[0, 2] + step_m * float(driver.curvature_per_m(steering_rad)[0])
        pose = np.array([[pose[0, 0] + step_m * np.cos(heading), pose[0, 1] + step_m * np.sin(heading), heading]])
        strayed.append(float(road.project(pose[:, :2]).lateral_m[0]) - SECTION.lane_centre_m)
    assert abs(strayed[0]) > 0.7
    assert np.abs(strayed[80:]).max() < 0.35


def test_a_run_in_is_steered_before_the_bend() -> None:
    road = Road((Piece(100.0), Piece(60.0, 0.02, 0.02)))
    assert steer(road, pose_on(road, 80.0)) == pytest.approx(0.0, abs=1e-12)
    assert steer(road, pose_on(road, 92.0)) > 0.02
