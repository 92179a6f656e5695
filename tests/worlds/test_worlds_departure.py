"""Lanes side by side: the exact projection, to 1e-9, whoever else is there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from skidpad.worlds.departure import Lanes
from skidpad.worlds.scenario.road import CrossSection, Piece, Road, RoadStyle, random_road
from skidpad.worlds.vehicle import Driver

SECTION = CrossSection()
seeds = st.integers(0, 10_000)


def a_road(seed: int, length_m: float = 200.0) -> Road:
    return random_road(np.random.default_rng(seed), length_m, RoadStyle(min_radius_m=30.0))


def beside(road: Road, s_m: float, lateral_m: float) -> np.ndarray:
    return road.at(np.array([s_m])).beside(SECTION.lane_centre_m + lateral_m)


@given(seeds, st.floats(0.0, 1.0), st.floats(-6.0, 6.0))
@settings(max_examples=60)
def test_the_distance_from_the_lane_is_exact(seed: int, share: float, lateral_m: float) -> None:
    road = a_road(seed)
    s_m = share * road.length_m
    found = Lanes.of([road], [SECTION]).project(beside(road, s_m, lateral_m))
    assert found.lateral_m[0] == pytest.approx(lateral_m, abs=1e-9)
    assert found.s_m[0] == pytest.approx(s_m, abs=1e-7)


@given(seeds, st.floats(-3.0, 3.0), st.floats(5.0, 190.0))
@settings(max_examples=25)
def test_the_distance_is_the_least_one_found_by_a_plain_search(seed: int, lateral_m: float, s_m: float) -> None:
    road = a_road(seed)
    point = beside(road, s_m, lateral_m)

    def square(s: float) -> float:
        here = road.at(np.array([s]))
        return float((here.x_m[0] - point[0, 0]) ** 2 + (here.y_m[0] - point[0, 1]) ** 2)

    coarse = np.arange(0.0, road.length_m, 0.5)
    near = coarse[int(np.argmin([square(s) for s in coarse]))]
    best = minimize_scalar(square, bounds=(near - 1.0, near + 1.0), method="bounded", options={"xatol": 1e-10})
    found = Lanes.of([road], [SECTION]).project(point)
    assert abs(found.lateral_m[0] + SECTION.lane_centre_m) == pytest.approx(np.sqrt(best.fun), abs=1e-7)


@given(seeds, st.integers(1, 9))
@settings(max_examples=25)
def test_answers_are_those_of_each_road_alone_to_the_last_bit(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    roads = [a_road(seed + k, 120.0 + 10.0 * k) for k in range(count)]
    poses = np.concatenate(
        [np.append(beside(road, rng.uniform(-5.0, 140.0), rng.uniform(-3.0, 3.0))[0], rng.uniform(-0.3, 0.3))[None] for road in roads]
    )
    lanes = Lanes.of(roads, [SECTION] * count)
    together, truth = lanes.project(poses[:, :2]), lanes.truth_rad(Driver(), poses)
    for k, road in enumerate(roads):
        alone = Lanes.of([road], [SECTION])
        assert alone.project(poses[k : k + 1, :2]).lateral_m[0] == together.lateral_m[k]
        assert alone.truth_rad(Driver(), poses[k : k + 1])[0] == truth[k]
        assert road.project(poses[k : k + 1, :2]).lateral_m[0] - SECTION.lane_centre_m == pytest.approx(together.lateral_m[k], abs=1e-9)
        assert Driver().steering_rad(road, SECTION, poses[k : k + 1])[0] == pytest.approx(truth[k], abs=1e-9)


def test_cars_may_share_a_road() -> None:
    roads = [a_road(seed) for seed in range(3)]
    which = np.array([2, 0, 2, 2, 1, 0])
    rng = np.random.default_rng(1)
    points = np.concatenate([beside(roads[road], rng.uniform(0.0, 190.0), rng.uniform(-3.0, 3.0)) for road in which])
    poses = np.column_stack((points, rng.uniform(-1.0, 1.0, len(points))))
    shared = Lanes.of(roads, [SECTION] * 3).on(which)
    own = Lanes.of([roads[road] for road in which], [SECTION] * len(which))
    assert np.allclose(shared.project(points).lateral_m, own.project(points).lateral_m, rtol=0.0, atol=1e-12)
    assert np.allclose(shared.truth_rad(Driver(), poses), own.truth_rad(Driver(), poses), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("s_m", [-30.0, -0.5, 100.3, 180.0])
def test_beyond_its_ends_a_road_goes_straight_on(s_m: float) -> None:
    road = Road((Piece(60.0, 0.0, 0.01), Piece(40.0, 0.01, 0.01)))
    found = Lanes.of([road], [SECTION]).project(beside(road, s_m, 0.8))
    assert found.lateral_m[0] == pytest.approx(0.8, abs=1e-9)
    assert found.s_m[0] == pytest.approx(s_m, abs=1e-6)


def test_curvature_may_jump_between_pieces() -> None:
    road = Road((Piece(30.5), Piece(50.25, 0.02, 0.02), Piece(40.0, -0.015, 0.0)))
    for s_m in np.linspace(1.0, 119.0, 40):
        found = Lanes.of([road], [SECTION]).project(beside(road, float(s_m), -0.6))
        assert found.lateral_m[0] == pytest.approx(-0.6, abs=1e-9)
