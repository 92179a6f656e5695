"""Roads: exact geometry, the truth's projection, and random roads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds_truths import bend, piece_end, polyline_projection, straight

from skidpad.core.errors import BadParametersError
from skidpad.core.seeding import child_rng
from skidpad.worlds.scenario.road import CrossSection, Piece, Road, RoadStyle, random_road

curvatures = st.floats(-1.0 / 30.0, 1.0 / 30.0)


@given(st.floats(30.0, 500.0), st.booleans(), st.floats(0.05, 0.95), st.floats(-25.0, 25.0))
@settings(max_examples=60, deadline=None)
def test_projection_on_an_arc_is_exact(radius_m: float, left: bool, share: float, lateral_m: float) -> None:
    signed = radius_m if left else -radius_m
    road = bend(signed, 100.0)
    turn = share * 100.0 / signed
    # The circle's middle lies at (0, signed); a point is given by its angle around it and its distance from it.
    point = np.array([[(signed - lateral_m) * np.sin(turn), signed - (signed - lateral_m) * np.cos(turn)]])
    found = road.project(point)
    assert found.lateral_m[0] == pytest.approx(lateral_m, abs=1e-9)
    assert found.s_m[0] == pytest.approx(share * 100.0, abs=1e-9)


@given(st.floats(-50.0, 250.0), st.floats(-40.0, 40.0), st.floats(-3.1, 3.1))
@settings(max_examples=60, deadline=None)
def test_projection_on_a_line_is_exact_and_goes_on_beyond_the_ends(s_m: float, lateral_m: float, shift: float) -> None:
    found = straight(200.0).project(np.array([[s_m, lateral_m], [s_m + shift, lateral_m]]))
    np.testing.assert_allclose(found.s_m, [s_m, s_m + shift], atol=1e-9)
    np.testing.assert_allclose(found.lateral_m, lateral_m, atol=1e-9)


@given(st.floats(1.0, 80.0), curvatures, curvatures)
@settings(max_examples=40, deadline=None)
def test_points_of_a_blend_agree_with_quadrature(length_m: float, start: float, end: float) -> None:
    piece = Piece(length_m, start, end)
    here = Road((piece,)).at(length_m)
    np.testing.assert_allclose([here.x_m, here.y_m, here.heading_rad], piece_end(piece), atol=1e-10)


@given(st.floats(5.0, 60.0), curvatures, curvatures, st.floats(0.0, 1.0), st.floats(-20.0, 20.0))
@settings(max_examples=60, deadline=None)
def test_projection_finds_points_put_beside_a_blend(length_m: float, start: float, end: float, share: float, lateral_m: float) -> None:
    road = Road((Piece(30.0), Piece(length_m, start, end), Piece(20.0, end, end)))
    s_m = np.array([30.0 + share * length_m])
    found = road.project(road.at(s_m).beside(lateral_m))
    assert found.s_m[0] == pytest.approx(s_m[0], abs=1e-9)
    assert found.lateral_m[0] == pytest.approx(lateral_m, abs=1e-9)


@given(st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_projection_beside_random_roads_agrees_with_brute_force(seed: int) -> None:
    rng = child_rng(seed, "points")
    road = random_road(rng, 150.0, RoadStyle(min_radius_m=30.0, max_radius_m=60.0, straight_share=0.1))
    points = road.at(rng.uniform(1.0, road.length_m - 1.0, 120)).beside(rng.uniform(-8.0, 8.0, 120))
    np.testing.assert_allclose(road.project(points).lateral_m, polyline_projection(road, points)[1], atol=1e-5)


@given(st.integers(0, 10**6), st.floats(100.0, 3000.0))
@settings(max_examples=40, deadline=None)
def test_random_roads_never_meet_themselves(seed: int, length_m: float) -> None:
    style = RoadStyle(min_radius_m=30.0)
    road = random_road(child_rng(seed, "road"), length_m, style)
    assert road.length_m >= length_m
    assert road.min_radius_m >= 30.0
    assert np.all(np.diff(road.nodes.x_m) > 0.0)
    assert np.abs(road.nodes.heading_rad).max() <= style.max_heading_rad + 1e-9
    assert not road.crosses_itself(2.0 * CrossSection().outer_m)
    assert road == random_road(child_rng(seed, "road"), length_m, style)


def test_random_roads_bend_both_ways_and_differ_by_seed() -> None:
    roads = [random_road(child_rng(seed, "road"), 2000.0) for seed in range(4)]
    assert len(set(roads)) == 4
    for road in roads:
        assert road.nodes.curvature_per_m.min() < -1 / 300.0
        assert road.nodes.curvature_per_m.max() > 1 / 300.0


def test_a_road_that_meets_itself_is_told() -> None:
    assert bend(30.0, 2.2 * np.pi * 30.0).crosses_itself(10.0)
    assert not bend(30.0, 1.0 * np.pi * 30.0).crosses_itself(10.0)


@pytest.mark.parametrize("pieces", [(), (Piece(0.0),), (Piece(-3.0),), (Piece(10.0, np.nan),), (Piece(np.inf),)])
def test_impossible_roads_are_refused(pieces: tuple[Piece, ...]) -> None:
    with pytest.raises(BadParametersError, match="road needs"):
        Road(pieces)


def test_impossible_styles_are_refused() -> None:
    with pytest.raises(BadParametersError, match="radii"):
        random_road(child_rng(0), 100.0, RoadStyle(min_radius_m=5.0))
