"""Cars that change speed and lane: where they are, how they are drawn, and whom they touch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skidpad.core.images import Camera
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.render.raycast import RayCaster
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.scenario.files import read_scenario, write_scenario
from skidpad.worlds.scenario.road import CrossSection
from skidpad.worlds.scenario.scenario import (
    BadScenarioError,
    Ego,
    Figure,
    Move,
    OtherVehicle,
    Pace,
    RoadPlan,
    Scenario,
    Shape,
    Surroundings,
    scenario_from,
    table_of,
    values_of,
)
from skidpad.worlds.scenario.tracks import Track

SECTION = CrossSection(lanes=2)
MOVES = (
    Move(1.0, 2.0, speed_m_s=4.0, shape=Shape.CUBIC),
    Move(2.0, 3.0, lane=1, offset_m=0.4, shape=Shape.SINUSOIDAL),
    Move(2.5, 1.5, speed_m_s=14.0),
    Move(6.0, speed_m_s=0.0),
)


@pytest.mark.parametrize("lane", [2, 0])
def test_the_way_is_the_integral_of_the_speed(lane: int) -> None:
    track = Track(OtherVehicle(lane, 40.0, 10.0, moves=MOVES), SECTION)
    times = np.arange(0.0, 8.0, 0.001)
    found = [track.at(time_s) for time_s in times.tolist()]
    speed = np.array([each.speed_m_s for each in found])
    way = np.concatenate(([0.0], np.cumsum(0.5 * (speed[1:] + speed[:-1]) * 0.001)))
    assert np.allclose([each.s_m for each in found], 40.0 + track.way * way, atol=0.01)
    slopes = np.array([each.acceleration_m_s2 for each in found])
    inner = np.abs(np.diff(speed) / 0.001 - slopes[:-1]) < 0.05
    assert np.count_nonzero(~inner) <= 4  # where a move begins, and at the step
    lateral = np.array([each.lateral_m for each in found])
    assert np.allclose(np.gradient(lateral, 0.001), [each.aside_m_s for each in found], atol=0.02)


def test_a_move_begins_with_what_there_is() -> None:
    track = Track(OtherVehicle(2, 40.0, 10.0, moves=MOVES), SECTION)
    half = 10.0 + (4.0 - 10.0) * 0.75**2 * (3.0 - 2.0 * 0.75)
    assert track.at(2.5).speed_m_s == pytest.approx(half)
    assert track.at(3.25).speed_m_s == pytest.approx(0.5 * (half + 14.0))
    assert [track.at(time_s).speed_m_s for time_s in (5.0, 5.999, 6.0, 7.0)] == [14.0, 14.0, 0.0, 0.0]
    assert track.at(1.9).lateral_m == SECTION.lane_centre_of(2)
    assert track.at(3.5).lateral_m == pytest.approx(0.5 * (SECTION.lane_centre_of(2) + SECTION.lane_centre_of(1) + 0.4))
    assert track.at(5.0).lateral_m == pytest.approx(SECTION.lane_centre_of(1) + 0.4)


def test_a_car_is_drawn_where_its_moves_have_brought_it() -> None:
    bare = Surroundings(trees=0.0, hills=False)
    moving = Scenario(RoadPlan(lanes=2), surroundings=bare, ego=Ego(12.0), vehicles=(OtherVehicle(2, 30.0, 10.0, moves=MOVES),))
    here = Track(moving.vehicles[0], SECTION).at(4.0)
    lane_m = SECTION.lane_centre_of(2)
    still = replace(moving, vehicles=(OtherVehicle(2, here.s_m - 4.0 * 10.0, 10.0, offset_m=here.lateral_m - lane_m),))
    scenes = [build_scene(each) for each in (moving, still)]
    frames = [RayCaster(scene, Camera(160, 80)).render(scene.start_pose[None], np.array([4.0]))[0] for scene in scenes]
    assert (frames[0] == frames[1]).all()
    unmoved = RayCaster(scenes[1], Camera(160, 80)).render(scenes[1].start_pose[None], np.array([0.0]))[0]
    assert (frames[0] != unmoved).any()
    assert np.allclose(scenes[0].objects_at(4.0).poses, scenes[1].objects_at(4.0).poses)


def test_who_moves_in_the_way_is_touched() -> None:
    away = Scenario(
        RoadPlan(lanes=2),
        ego=Ego(12.0),
        vehicles=(OtherVehicle(2, 30.0, 6.0), OtherVehicle(1, 90.0, 0.0, figure=Figure.PERSON, offset_m=2.0)),
    )
    comes_in = replace(away, vehicles=(replace(away.vehicles[0], moves=(Move(0.5, 1.0, lane=1),)),))
    person = replace(away, vehicles=(replace(away.vehicles[1], offset_m=1.0),))
    world = BuiltInWorld(3)
    world.reset([away, comes_in, person])
    for _ in range(160):
        world.step(world.truth_rad())
    assert world.collided().tolist() == [False, True, True]


def test_who_moves_into_the_way_of_a_constant_ego_needs_a_careful_driver(tmp_path: Path) -> None:
    cuts_in = Scenario(RoadPlan(lanes=2), ego=Ego(12.0), vehicles=(OtherVehicle(2, 40.0, 8.0, moves=(Move(2.0, 2.0, lane=1),)),))
    away = replace(cuts_in, vehicles=(replace(cuts_in.vehicles[0], ahead_m=140.0),))
    careful = replace(cuts_in, ego=Ego(12.0, pace=Pace.CAREFUL))
    nowhere = replace(careful, vehicles=(OtherVehicle(2, 140.0, 8.0, moves=(Move(2.0, 2.0, lane=4),)),))
    for name, scenario, words in (("a", cuts_in, "let a careful driver brake"), ("b", nowhere, "vehicle-lanes-exist")):
        write_scenario(tmp_path / f"{name}.toml", scenario)
        with pytest.raises(BadScenarioError, match=words):
            read_scenario(tmp_path / f"{name}.toml")
    for name, scenario in (("c", away), ("d", careful)):
        write_scenario(tmp_path / f"{name}.toml", scenario)
        assert read_scenario(tmp_path / f"{name}.toml") == scenario


def test_a_scenario_without_moves_is_written_as_before_there_were_any() -> None:
    plain = Scenario(vehicles=(OtherVehicle(1, 50.0, 14.0),))
    table = table_of(plain)
    assert "pace" not in str(table)
    assert table["vehicles"] == [{"lane": 1, "ahead_m": 50.0, "speed_m_s": 14.0, "colour": 0}]
    moving = replace(plain, ego=Ego(pace=Pace.CAREFUL), vehicles=(OtherVehicle(1, 50.0, 14.0, moves=MOVES), *plain.vehicles))
    assert scenario_from(values_of(moving)) == moving
    assert scenario_from({**values_of(moving), "vehicles.count": 1}).vehicles == moving.vehicles[:1]
