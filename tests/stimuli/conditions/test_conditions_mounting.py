"""A moved camera against the built-in world rendered from the moved place: the right answer, and the picture."""

from dataclasses import replace
from math import radians

import cv2
import numpy as np
import pytest

from skidpad.core.images import Camera, Capture
from skidpad.core.stimuli import Params
from skidpad.stimuli.conditions.mounting import CameraHeight, CameraLateral, CameraPitch, CameraRoll, CameraYaw, Shift, road_homography
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.render.raycast import RayCaster
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.scenario.scenario import Ego, RoadKind, RoadPlan, Scenario, Side, Surroundings
from skidpad.worlds.vehicle import Driver
from skidpad.worlds.world import STEP_S

BARE = Surroundings(trees=0.0, hills=False)
ROADS = {
    "straight": Scenario(surroundings=BARE, ego=Ego(speed_m_s=15.0), duration_s=4.0),
    "right bend of 60 m": Scenario(
        RoadPlan(RoadKind.CURVED, 60.0, Side.RIGHT), surroundings=BARE, ego=Ego(speed_m_s=12.0), duration_s=12.0
    ),
    "left bend of 100 m": Scenario(
        RoadPlan(RoadKind.CURVED, 100.0, Side.LEFT), surroundings=BARE, ego=Ego(speed_m_s=12.0), duration_s=12.0
    ),
}
MOVES = [
    pytest.param(CameraYaw(), Params(yaw_deg=5.0), id="yaw left"),
    pytest.param(CameraYaw(), Params(yaw_deg=-3.0), id="yaw right"),
    pytest.param(CameraLateral(), Params(lateral_m=0.6), id="left"),
    pytest.param(CameraLateral(), Params(lateral_m=-0.4), id="right"),
    pytest.param(CameraHeight(), Params(height_m=0.3), id="higher"),
    pytest.param(CameraHeight(), Params(height_m=-0.3), id="lower"),
    pytest.param(CameraPitch(), Params(pitch_deg=3.0), id="down"),
    pytest.param(CameraPitch(), Params(pitch_deg=-2.0), id="up"),
]
CAMERA = Camera()


def moved(poses, shift):
    """Where the rear axle is after the camera was turned about itself and shifted."""
    heading = poses[:, 2]
    turned = heading + radians(shift.yaw_deg)
    x = poses[:, 0] + CAMERA.forward_m * (np.cos(heading) - np.cos(turned)) - shift.lateral_m * np.sin(heading)
    y = poses[:, 1] + CAMERA.forward_m * (np.sin(heading) - np.sin(turned)) + shift.lateral_m * np.cos(heading)
    return np.stack([x, y, turned], axis=1)


def driven(scenario):
    """Poses and truths of a drive by the world's own driver."""
    world = BuiltInWorld(1)
    state = world.reset([scenario])
    poses, labels = [], []
    for _ in range(round(scenario.duration_s / STEP_S)):
        poses.append(state.poses[0])
        labels.append(world.truth_rad()[0])
        state = world.step(world.truth_rad())
    return np.array(poses), np.array(labels)


@pytest.mark.parametrize("road", ROADS)
def test_the_moved_truth_is_what_the_worlds_driver_steers_from_there(road):
    scene = build_scene(ROADS[road])
    poses, labels = driven(ROADS[road])
    for move, params in ((CameraYaw(), Params(yaw_deg=yaw)) for yaw in (-5.0, -2.0, 3.0, 5.0)):
        expected = Driver().steering_rad(scene.road, scene.section, moved(poses, move.shift(params)))
        assert np.degrees(np.abs(expected - labels)).mean() > 9.0
        assert np.degrees(np.abs(move.moved_rad(labels, params) - expected)).max() < 0.35
    for move, params in ((CameraLateral(), Params(lateral_m=lateral)) for lateral in (-0.6, 0.3, 0.6)):
        expected = Driver().steering_rad(scene.road, scene.section, moved(poses, move.shift(params)))
        assert np.degrees(np.abs(expected - labels)).mean() > 5.0
        assert np.degrees(np.abs(move.moved_rad(labels, params) - expected)).max() < 0.35


@pytest.mark.parametrize(("move", "params"), [(CameraPitch(), Params(pitch_deg=3.0)), (CameraRoll(), Params(roll_deg=5.0))])
def test_pitch_and_roll_keep_the_truth(move, params):
    labels = np.array([-0.4, 0.0, 0.9])
    assert np.array_equal(move.moved_rad(labels, params), labels)
    assert np.array_equal(CameraHeight().moved_rad(labels, Params(height_m=0.3)), labels)


@pytest.fixture(scope="module")
def bend():
    scenario = ROADS["right bend of 60 m"]
    scene = build_scene(scenario)
    pose = driven(replace(scenario, duration_s=6.0))[0][-1:]
    return scene, pose, RayCaster(scene, CAMERA).render(pose, np.zeros(1))


@pytest.mark.parametrize(("move", "params"), MOVES)
def test_the_picture_is_what_the_world_shows_from_there(bend, move, params):
    scene, pose, frames = bend
    shift, capture = move.shift(params), Capture(CAMERA, np.zeros(1))
    there = replace(CAMERA, pitch_deg=CAMERA.pitch_deg + shift.pitch_deg, height_m=CAMERA.height_m + shift.height_m)
    whole = RayCaster(scene, there).render(moved(pose, shift), np.zeros(1))
    # The reference of a picture that the world shows from there is that picture, cut alike.
    expected = move.reference(whole, params, capture)[0].astype(int)
    shown, unmoved = move.apply_at(frames, params, capture)[0], move.reference(frames, params, capture)[0]
    road = slice(round(0.5 * CAMERA.height_px), None)
    near, far = (float(np.abs(picture[road] - expected[road]).mean()) for picture in (shown, unmoved))
    assert near < 4.0
    assert far > 9.0


@pytest.mark.parametrize(("move", "params"), [*MOVES, pytest.param(CameraRoll(), Params(roll_deg=-5.0), id="roll")])
def test_nothing_is_empty_and_the_pixel_map_leads_from_reference_to_moved(move, params):
    white = np.full((1, 160, 320, 3), 255, np.uint8)
    capture = Capture(CAMERA, np.zeros(1))
    assert move.apply_at(white, params, capture).min() == 255
    dots = np.zeros((1, 160, 320, 3), np.uint8)
    for x, y in ((110, 100), (180, 120), (215, 95)):
        cv2.circle(dots[0], (x, y), 4, (255, 255, 255), -1)
    before, after = (middles(pictures[0]) for pictures in (move.reference(dots, params, capture), move.apply_at(dots, params, capture)))
    lead = np.column_stack([before, np.ones(3)]) @ move.pixel_map(params, CAMERA).T
    there = lead[:, :2] / lead[:, 2:]
    assert max(np.hypot(*(after - place).T).min() for place in there) < 1.0
    assert np.abs(there - before).max() > 4.0


def middles(picture):
    count, _, _, found = cv2.connectedComponentsWithStats((picture[..., 0] > 127).astype(np.uint8))
    assert count == 4
    return found[1:]


def test_a_homography_of_the_road_is_the_cameras_own_projection():
    ahead = np.array([[8.0, -2.0, 0.0], [12.0, 1.0, 0.0], [30.0, 4.0, 0.0]])
    shift = Shift(yaw_deg=3.0, pitch_deg=1.0, height_m=0.2, lateral_m=-0.4)
    pose = np.zeros((1, 3))
    there = replace(CAMERA, pitch_deg=CAMERA.pitch_deg + 1.0, height_m=CAMERA.height_m + 0.2)
    seen, expected = CAMERA.project(pose[0], ahead) - 0.5, there.project(moved(pose, shift)[0], ahead) - 0.5
    lead = np.column_stack([seen, np.ones(3)]) @ road_homography(CAMERA, shift).T
    np.testing.assert_allclose(lead[:, :2] / lead[:, 2:], expected, atol=1e-6)


def test_a_camera_rolled_clockwise_sees_the_world_turn_the_other_way():
    """The middle stays; what was right of it goes up."""
    lead = road_homography(CAMERA, Shift(roll_deg=5.0)) @ np.array([259.5, 79.5, 1.0])
    assert lead[1] / lead[2] < 79.5 - 100.0 * np.sin(radians(5.0)) + 0.1
