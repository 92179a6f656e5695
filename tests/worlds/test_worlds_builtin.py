"""The built-in world: collisions, labels, who is asked for, and sim(s) as a drive."""

from dataclasses import replace

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera
from skidpad.worlds.builtin import BuiltInWorld, sim, steps_of
from skidpad.worlds.collision import touches
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.scenario.scenario import BadScenarioError, Ego, OtherVehicle, RoadKind, RoadPlan, Scenario, Side, Surroundings
from skidpad.worlds.vehicle import Bicycle, Driver

SMALL = Camera(64, 32)
BARE = Surroundings(trees=0.0, hills=False)
STRAIGHT = Scenario(surroundings=BARE, ego=Ego(speed_m_s=15.0), duration_s=4.0)
BEND = Scenario(RoadPlan(RoadKind.CURVED, 60.0, Side.RIGHT), surroundings=BARE, ego=Ego(speed_m_s=12.0), duration_s=6.0, seed=3)


def rolled(scenario: Scenario, steps: int, steering_rad: float = 0.0) -> BuiltInWorld:
    world = BuiltInWorld(1, camera=SMALL)
    world.reset([scenario])
    for _ in range(steps):
        world.step(np.array([steering_rad]))
    return world


def test_who_runs_into_a_standing_car_has_collided_and_who_passes_has_not() -> None:
    ahead = replace(STRAIGHT, vehicles=(OtherVehicle(lane=1, ahead_m=30.0, speed_m_s=0.0),))
    # 30 m less half the other car and what the ego's body reaches beyond its rear axle
    gap_m = 30.0 - 2.25 - (4.5 - 0.95)
    just_before = int(gap_m / (15.0 * 0.05))
    assert not rolled(ahead, just_before).collided()[0]
    assert rolled(ahead, just_before + 1).collided()[0]
    assert rolled(ahead, just_before + 60).collided()[0]  # once touched, always told
    oncoming = replace(STRAIGHT, vehicles=(OtherVehicle(lane=0, ahead_m=60.0, speed_m_s=15.0),))
    assert not rolled(oncoming, 70).collided()[0]


def test_who_leaves_the_road_hits_what_stands_there_as_a_plain_search_says() -> None:
    wood = replace(STRAIGHT, surroundings=Surroundings(trees=1.0), duration_s=8.0)
    found = []
    for seed in range(6):
        scenario = replace(wood, seed=seed)
        fixed = build_scene(scenario).fixed
        world = BuiltInWorld(1, camera=SMALL)
        poses = [world.reset([scenario]).poses[0]]
        poses += [world.step(np.array([-0.5 if step < 20 else 0.0])).poses[0] for step in range(120)]
        plain = any(touches(pose, fixed).any() for pose in poses)
        assert world.collided()[0] == plain
        found.append(plain)
    assert any(found)


def test_the_truth_is_the_drivers_and_the_distance_is_the_roads() -> None:
    world = BuiltInWorld(2, camera=SMALL)
    world.reset([STRAIGHT, BEND])
    state = None
    for _ in range(60):
        state = world.step(np.array([0.1, -0.4]))
    assert state is not None
    for k, scenario in enumerate((STRAIGHT, BEND)):
        scene, pose = build_scene(scenario), state.poses[k : k + 1]
        assert world.truth_rad()[k] == pytest.approx(Driver().steering_rad(scene.road, scene.section, pose)[0], abs=1e-9)
        exact = scene.road.project(pose[:, :2]).lateral_m[0] - scene.lane_centre_m
        assert world.lateral_m()[k] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("scenario", [STRAIGHT, BEND], ids=["straight", "bend"])
def test_sim_is_a_labelled_drive_of_the_scenario(scenario: Scenario) -> None:
    drive = sim(scenario, SMALL)
    assert len(drive) == steps_of(scenario) == round(20 * scenario.duration_s)
    assert drive.rate_hz == pytest.approx(20.0)
    assert drive.frame_shape == (32, 64, 3)
    again = sim(scenario, SMALL)
    assert drive.sha256 == again.sha256
    assert np.array_equal(drive.frame(40), again.frame(40))
    assert sim(replace(scenario, seed=9), SMALL).sha256 != drive.sha256
    turn = drive.steering_rad
    assert np.abs(turn).max() < 1e-9 if scenario is STRAIGHT else turn.min() < -0.3


def test_sim_keeps_the_lane_that_it_labels() -> None:
    world = BuiltInWorld(1, camera=SMALL)
    world.reset([BEND])
    strayed = 0.0
    for _ in range(119):
        world.step(world.truth_rad())
        strayed = max(strayed, abs(float(world.lateral_m()[0])))
    assert strayed < 0.35


def test_only_wanted_frames_are_rendered_and_they_are_the_same() -> None:
    world = BuiltInWorld(3, camera=SMALL)
    world.reset([STRAIGHT, BEND, STRAIGHT])
    everybody = world.frames()
    some = world.frames(np.array([False, True, False]))
    assert np.array_equal(some[1], everybody[1])
    assert not some[[0, 2]].any()


def test_a_slower_wheel_strays_further() -> None:
    def strayed(bicycle: Bicycle) -> float:
        world = BuiltInWorld(1, camera=SMALL, bicycle=bicycle)
        world.reset([BEND])
        found = []
        for _ in range(119):
            world.step(world.truth_rad())
            found.append(abs(float(world.lateral_m()[0])))
        return max(found)

    assert strayed(Bicycle()) < 0.5 * strayed(Bicycle(delay_s=0.9)) < strayed(Bicycle(delay_s=0.9, max_rate_rad_s=0.4))


def test_what_it_cannot_begin_is_refused_in_words() -> None:
    world = BuiltInWorld(1, camera=SMALL)
    with pytest.raises(BadScenarioError, match="radius"):
        world.reset([replace(BEND, road=replace(BEND.road, radius_m=5.0))])
    with pytest.raises(BadScenarioError, match="lane"):
        world.reset([replace(STRAIGHT, ego=Ego(lane=2))])
    with pytest.raises(BadParametersError, match="1 to 1 scenarios"):
        world.reset([STRAIGHT, STRAIGHT])
    with pytest.raises(BadParametersError, match="width=0"):
        BuiltInWorld(0)
    world.reset([STRAIGHT])
    with pytest.raises(BadParametersError, match="finite steering"):
        world.step(np.array([np.nan]))
