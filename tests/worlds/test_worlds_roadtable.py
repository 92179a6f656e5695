"""The renderer's look-up of road coordinates against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds_truths import polyline_projection, straight

from skidpad.core.seeding import child_rng
from skidpad.worlds.render.cards import place_on
from skidpad.worlds.render.chunks import ALONG, LATERAL, LINES
from skidpad.worlds.render.compiling import CHUNK
from skidpad.worlds.render.roadtable import SPAN_M, Ground, RoadTable, knot_at, place_chunk, span_at
from skidpad.worlds.scenario.road import Piece, Road, RoadStyle, random_road


def winding(seed: int, radius_m: float) -> Road:
    return random_road(child_rng(seed, "road"), 150.0, RoadStyle(min_radius_m=radius_m, max_radius_m=2.0 * radius_m))


@given(st.integers(0, 10**6), st.floats(30.0, 300.0))
@settings(max_examples=12, deadline=None)
def test_the_lateral_position_is_within_a_millimetre_of_brute_force(seed: int, radius_m: float) -> None:
    rng, road = np.random.default_rng(seed), winding(seed, radius_m)
    points = road.at(rng.uniform(2.0, road.length_m - 2.0, 40)).beside(rng.uniform(-16.0, 16.0, 40))
    along, beside = polyline_projection(road, points)
    found = RoadTable.build(road).look_up(points)
    assert np.abs(found[:, 0] - beside).max() < 0.0005
    assert np.abs(found[:, 1] - along).max() < 0.05


@given(st.integers(0, 10**6), st.floats(30.0, 300.0), st.floats(0.006, 0.5), st.floats(-0.7, 0.7))
@settings(max_examples=30, deadline=None)
def test_every_pixel_between_knots_is_within_a_millimetre_of_brute_force(seed: int, radius_m: float, across_px: float, turn: float) -> None:
    """A chunk of a row as the renderer fills it: a line of pixels across a view that looks along the road, more or less."""
    rng, road = np.random.default_rng(seed), winding(seed, radius_m)
    here = road.at(np.array([rng.uniform(20.0, road.length_m - 20.0)]))
    heading = float(here.heading_rad[0]) + turn
    cosine, sine = np.cos(heading), np.sin(heading)
    x, y = here.beside(rng.uniform(-6.0, 6.0))[0] - 32.0 * across_px * np.array([sine, -cosine])
    points = np.array([x, y]) + across_px * np.arange(CHUNK)[:, None] * np.array([sine, -cosine])
    along, beside = polyline_projection(road, points)
    shown = (np.abs(beside) < 16.0) & (along > 1.0) & (along < road.length_m - 1.0)
    scratch, steps = np.zeros(LINES * CHUNK, np.float32), (cosine, sine, across_px, 0.1)
    table = RoadTable.build(road)
    ground = Ground(table.nodes, table.cells, table.origin_m, np.zeros((2, 2), np.uint8), False, np.zeros(10), np.zeros(4, np.float32))
    last = place_chunk(scratch, ground, x, y, 0.0, 200.0, steps, span_at(across_px, SPAN_M, CHUNK), knot_at(ground, x, y, 0.0, steps))
    assert np.abs(scratch[LATERAL : LATERAL + CHUNK] - beside)[shown].max(initial=0.0) < 0.001
    assert np.abs(scratch[ALONG : ALONG + CHUNK] - along)[shown].max(initial=0.0) < 0.05
    end = np.array([[x, y]]) + across_px * CHUNK * np.array([sine, -cosine])
    assert last[0] == pytest.approx(table.look_up(end)[0, 0], abs=1e-9)


@given(st.floats(0.005, 5.0))
@settings(max_examples=60, deadline=None)
def test_knots_are_as_far_apart_as_they_may_be(across_px: float) -> None:
    span = span_at(across_px, SPAN_M, CHUNK)
    assert span in {1, 2, 4, 8, 16, 32, 64}
    assert span == 1 or span * across_px <= SPAN_M
    assert span == CHUNK or 2 * span * across_px > SPAN_M


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
