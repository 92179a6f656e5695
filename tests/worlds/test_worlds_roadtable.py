"""The renderer's look-up of road coordinates against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds_truths import polyline_projection, straight

from skidpad.core.seeding import child_rng
from skidpad.worlds.cards import place_on
from skidpad.worlds.road import Piece, Road, RoadStyle, random_road
from skidpad.worlds.roadtable import RoadTable
from skidpad.worlds.terrain import SPAN_ERROR_M, span_at


@given(st.integers(0, 10**6), st.floats(30.0, 300.0))
@settings(max_examples=12, deadline=None)
def test_the_lateral_position_is_within_a_millimetre_of_brute_force(seed: int, radius_m: float) -> None:
    rng = np.random.default_rng(seed)
    road = random_road(child_rng(seed, "road"), 150.0, RoadStyle(min_radius_m=radius_m, max_radius_m=2.0 * radius_m))
    points = road.at(rng.uniform(2.0, road.length_m - 2.0, 40)).beside(rng.uniform(-16.0, 16.0, 40))
    along, beside = polyline_projection(road, points)
    found = RoadTable.build(road).look_up(points)
    # Between knots the renderer interpolates, which adds no more than SPAN_ERROR_M.
    assert np.abs(found[:, 0] - beside).max() < 0.001 - SPAN_ERROR_M
    assert np.abs(found[:, 1] - along).max() < 0.05


@given(st.floats(0.005, 0.5), st.floats(20.0, 400.0))
@settings(max_examples=60, deadline=None)
def test_a_straight_line_between_knots_is_within_the_rest_of_the_millimetre(across_px: float, radius_m: float) -> None:
    span = span_at(across_px, radius_m)
    assert span in {1, 2, 4, 8, 16}
    width = span * across_px
    assert span == 1 or width * width / (8.0 * radius_m) <= SPAN_ERROR_M * (1.0 + 1e-9)
    # No finer than needed: twice the span would be too far off.
    assert span == 16 or (2.0 * width) ** 2 / (8.0 * radius_m) > SPAN_ERROR_M


def test_the_road_goes_on_straight_beyond_its_ends() -> None:
    road = Road((Piece(30.0), Piece(60.0, 1 / 40.0, 1 / 40.0)))
    points = road.at(np.array([-150.0, -3.0, 90.5, 130.0])).beside(np.array([4.0, -7.0, 3.0, -5.0]))
    truth = road.project(points)
    found = RoadTable.build(road).look_up(points)
    np.testing.assert_allclose(found[:, 0], truth.lateral_m, atol=2e-3)
    np.testing.assert_allclose(found[:, 1], truth.s_m, atol=2e-2)


def test_far_away_points_are_far_from_the_road() -> None:
    found = RoadTable.build(straight()).look_up(np.array([[50.0, 5000.0], [50.0, -900.0]]))
    np.testing.assert_allclose(found[:, 0], [5000.0, -900.0])


@given(st.floats(-5.0, 200.0), st.floats(-9.0, 9.0), st.floats(30.0, 500.0))
@settings(max_examples=40, deadline=None)
def test_movers_are_drawn_where_they_are(s_m: float, lateral_m: float, radius_m: float) -> None:
    road = Road((Piece(40.0), Piece(25.0, 0.0, 1.0 / radius_m), Piece(100.0, 1.0 / radius_m, 1.0 / radius_m)))
    table = RoadTable.build(road)
    x, y, cos, sin = place_on(table.nodes, s_m, lateral_m)
    here = road.at(np.array([s_m]))
    np.testing.assert_allclose([x, y], here.beside(lateral_m)[0], atol=2e-3)
    np.testing.assert_allclose([cos, sin], [np.cos(here.heading_rad[0]), np.sin(here.heading_rad[0])], atol=1e-3)
    assert cos * cos + sin * sin == pytest.approx(1.0, abs=1e-6)
