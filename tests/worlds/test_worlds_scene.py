"""Scenes: lanes, who moves where, what stands, and roads that cannot be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds_scenes import crowded, plain

from skidpad.core.errors import BadParametersError, SkidpadError
from skidpad.core.seeding import child_rng
from skidpad.worlds.render.props import BROADLEAVES, BUSHES, CONIFERS, place_props
from skidpad.worlds.render.scene import Scene, build_scene
from skidpad.worlds.scenario.road import CrossSection, Piece, Road, SideLane
from skidpad.worlds.scenario.scenario import CAR_LENGTH_M, Boxes, Kind, OtherVehicle, Pedestrian, RoadKind, Scenario, Side, Surroundings


@given(st.integers(1, 4), st.floats(2.5, 4.5))
@settings(max_examples=30, deadline=None)
def test_lanes_lie_side_by_side_and_fill_the_road(lanes: int, width_m: float) -> None:
    section = CrossSection(width_m, lanes=lanes)
    centres = [section.lane_centre_of(lane) for lane in range(lanes, 1 - lanes - 1, -1)]
    np.testing.assert_allclose(sorted(np.diff(sorted(centres))), width_m)
    assert section.lane_centre_of(1) == pytest.approx(-section.edge_m + 0.5 * width_m)
    assert section.lane_centre_of(0) == pytest.approx(0.5 * width_m)
    assert max(centres) == pytest.approx(section.edge_m - 0.5 * width_m)
    with pytest.raises(BadParametersError, match="lanes"):
        section.lane_centre_of(lanes + 1)


@pytest.mark.parametrize("wrong", [{"lanes": 0}, {"lanes": 5}, {"ego_lane": 2}, {"ego_lane": 0}, {"lane_width_m": 1.0}])
def test_impossible_sections_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadParametersError, match="lanes"):
        CrossSection(**wrong)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("exits", [False, True])
def test_a_side_lane_runs_beside_the_road_then_tapers_and_leaves_on_the_other_end(exits: bool) -> None:
    lane = SideLane(200.0, exits=exits)
    along = np.array([-60.0, -20.0, 0.0, 50.0, 110.0, 135.0, 160.0, 300.0])
    s_m = 200.0 - along if exits else 200.0 + along
    begin, end = lane.edges_m(s_m, 3.5)
    np.testing.assert_allclose(begin, [9.0, 1.0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(end - begin, [3.5, 3.5, 3.5, 3.5, 3.5, 1.75, 0.0, 0.0])


def test_vehicles_and_pedestrians_are_where_the_scenario_says() -> None:
    scenario = plain(lanes=2)
    people = (Pedestrian(Side.LEFT, 8.0, 1.0), Pedestrian(Side.RIGHT, 9.0))
    scene = build_scene(
        Scenario(road=scenario.road, vehicles=(OtherVehicle(2, 30.0, 10.0), OtherVehicle(0, 100.0, 12.0)), pedestrians=people)
    )
    boxes = scene.objects_at(2.0)
    assert isinstance(boxes, Boxes)
    assert boxes.kinds.tolist() == [Kind.VEHICLE, Kind.VEHICLE, Kind.PEDESTRIAN, Kind.PEDESTRIAN]
    where = scene.road.project(boxes.poses[:, :2])
    start = scene.start_s_m
    np.testing.assert_allclose(where.s_m, [start + 50.0, start + 76.0, start + 10.0, start + 11.8], atol=1e-9)
    outside = scene.section.edge_m + scene.section.margin_m + 0.5 * scene.section.shoulder_m
    np.testing.assert_allclose(where.lateral_m, [-1.75, 1.75, outside, -outside], atol=1e-9)
    np.testing.assert_allclose(boxes.poses[:, 2], [0.0, np.pi, 0.0, 0.0], atol=1e-9)
    assert boxes.sizes_m[0, 0] == CAR_LENGTH_M


@pytest.mark.parametrize("kind", list(RoadKind))
def test_nothing_stands_on_the_road(kind: RoadKind) -> None:
    scene = build_scene(crowded(kind=kind, lanes=2, seed=4))
    boxes = scene.fixed
    assert {Kind.TREE, Kind.BUILDING, Kind.POST} == {Kind(value) for value in boxes.kinds.tolist()}
    where = scene.road.project(boxes.poses[:, :2])
    outer = np.where(where.lateral_m < 0.0, scene.section.outer_right_m(where.s_m), scene.section.outer_m)
    # The feet of gantries stand on the shoulder, everything else beyond it.
    slack = np.where(boxes.kinds == Kind.POST, -0.6, 0.0)
    assert np.all(np.abs(where.lateral_m) >= outer + slack)
    assert np.all(np.abs(where.lateral_m) > scene.section.edge_m)


def test_density_and_seed_decide_what_stands() -> None:
    road, section = Road((Piece(600.0),)), CrossSection()

    def placed(trees: float, buildings: float, seed: int = 0) -> tuple[int, int]:
        props = place_props(child_rng(seed, "p"), road, section, Surroundings(trees, buildings), 12.0)
        return len(props.trees), len(props.buildings)

    assert placed(0.0, 0.0) == (0, 0)
    assert placed(0.9, 0.0)[0] > 1.5 * placed(0.4, 0.0)[0] > 0
    assert placed(0.0, 0.9)[1] > 1.5 * placed(0.0, 0.4)[1] > 0
    one, same, other = (build_scene(crowded(seed=seed)).props.trees for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert one.shape != other.shape or not np.array_equal(one, other)
    assert set(one[:, 4]) <= set(range(BROADLEAVES + CONIFERS + BUSHES))


def test_a_road_that_crosses_itself_is_refused_in_clear_words() -> None:
    scene = build_scene(plain())
    ring = Road((Piece(230.0, 1 / 30.0, 1 / 30.0),))
    with pytest.raises(SkidpadError, match=r"the road crosses itself.*make it shorter, or its bends wider"):
        Scene(scene.scenario, ring, scene.section, scene.props, scene.movers, scene.sun)


@given(st.floats(25.0, 900.0), st.sampled_from(list(Side)), st.floats(5.0, 30.0))
@settings(max_examples=15, deadline=None)
def test_curved_roads_keep_their_radius_and_bend_to_their_side_first(radius_m: float, side: Side, speed_m_s: float) -> None:
    scenario = plain(kind=RoadKind.CURVED, radius_m=radius_m, side=side)
    scene = build_scene(Scenario(road=scenario.road, ego=type(scenario.ego)(speed_m_s=speed_m_s), surroundings=scenario.surroundings))
    bend = scene.road.nodes.curvature_per_m
    first = bend[np.argmax(np.abs(bend) > 1e-9)]
    assert (first > 0.0) == (side is Side.LEFT)
    assert scene.road.min_radius_m == pytest.approx(radius_m)
    assert scene.road.length_m >= scene.start_s_m + 20.0 * speed_m_s + 200.0
    here = scene.road.project(scene.start_pose[None, :2])
    assert here.lateral_m[0] == pytest.approx(scene.lane_centre_m, abs=1e-9)
