"""Boxes from above: parity with a plain test of points, and the ego's own shape."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.worlds.collision import REAR_OVERHANG_M, Obstacles, touches
from skidpad.worlds.render.scene import Scene, build_scene
from skidpad.worlds.scenario.scenario import CAR_LENGTH_M, CAR_WIDTH_M, Boxes, OtherVehicle, Pedestrian, Scenario, Side, Surroundings
from skidpad.worlds.world import STEP_S

coordinates = st.floats(-5.0, 5.0)
headings = st.floats(-3.2, 3.2)


def box(x: float, y: float, heading: float, length: float = 4.0, width: float = 1.5) -> Boxes:
    return Boxes(np.array([[x, y, heading]]), np.array([[length, width, 1.5]]), np.zeros(1, np.int64))


def grid(x: float, y: float, heading: float, length: float, width: float, count: int = 60) -> np.ndarray:
    """Points that fill a rectangle around its middle."""
    along, across = np.meshgrid(np.linspace(-0.5, 0.5, count) * length, np.linspace(-0.5, 0.5, count) * width)
    cos, sin = np.cos(heading), np.sin(heading)
    return np.column_stack((x + along.ravel() * cos - across.ravel() * sin, y + along.ravel() * sin + across.ravel() * cos))


def inside(points: np.ndarray, x: float, y: float, heading: float, length: float, width: float, margin: float) -> bool:
    dx, dy = points[:, 0] - x, points[:, 1] - y
    along = dx * np.cos(heading) + dy * np.sin(heading)
    across = dy * np.cos(heading) - dx * np.sin(heading)
    return bool(np.any((np.abs(along) <= 0.5 * length + margin) & (np.abs(across) <= 0.5 * width + margin)))


@given(coordinates, coordinates, headings, headings)
@settings(max_examples=150)
def test_boxes_touch_where_points_of_one_lie_in_the_other(x: float, y: float, mine: float, theirs: float) -> None:
    forward = 0.5 * CAR_LENGTH_M - REAR_OVERHANG_M
    middle = (forward * np.cos(mine), forward * np.sin(mine))
    got = bool(touches(np.array([0.0, 0.0, mine]), box(x, y, theirs))[0])
    my_points = grid(*middle, mine, CAR_LENGTH_M, CAR_WIDTH_M)
    their_points = grid(x, y, theirs, 4.0, 1.5)
    surely = inside(my_points, x, y, theirs, 4.0, 1.5, -0.05) or inside(their_points, *middle, mine, CAR_LENGTH_M, CAR_WIDTH_M, -0.05)
    perhaps = inside(my_points, x, y, theirs, 4.0, 1.5, 0.05) or inside(their_points, *middle, mine, CAR_LENGTH_M, CAR_WIDTH_M, 0.05)
    assert surely <= got <= perhaps


def test_the_car_reaches_further_ahead_of_its_rear_axle_than_behind() -> None:
    pose = np.zeros(3)
    ahead = CAR_LENGTH_M - REAR_OVERHANG_M
    assert touches(pose, box(ahead + 1.99, 0.0, 0.0))[0]
    assert not touches(pose, box(ahead + 2.01, 0.0, 0.0))[0]
    assert touches(pose, box(-REAR_OVERHANG_M - 1.99, 0.0, 0.0))[0]
    assert not touches(pose, box(-REAR_OVERHANG_M - 2.01, 0.0, 0.0))[0]


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    """A wood with cars and people, an empty road, a road with one car."""
    crowd = (OtherVehicle(1, 30.0, 9.0), OtherVehicle(0, 60.0, 12.0), OtherVehicle(1, 12.0, 3.0))
    walking = (Pedestrian(Side.RIGHT, 15.0), Pedestrian(Side.LEFT, 25.0, 1.0))
    wood = Scenario(surroundings=Surroundings(trees=1.0, buildings=0.5), vehicles=crowd, pedestrians=walking, seed=4)
    bare = Scenario(surroundings=Surroundings(trees=0.0, hills=False))
    return [build_scene(scenario) for scenario in (wood, bare, replace(bare, vehicles=crowd[:1]))]


@given(st.lists(st.tuples(st.floats(0.0, 80.0), st.floats(-14.0, 14.0), headings), min_size=3, max_size=3), st.integers(0, 200))
@settings(max_examples=80)
def test_obstacles_are_what_a_look_at_every_box_of_the_own_scene_finds(
    scenes: list[Scene], places: list[tuple[float, float, float]], step: int
) -> None:
    obstacles, poses = Obstacles(scenes), np.array(places)
    for at in (step, step + 1, step + 90, step):
        parts = [(scene.fixed, scene.objects_at(at * STEP_S)) for scene in scenes]
        plain = [any(touches(pose, boxes).any() for boxes in part) for pose, part in zip(poses, parts, strict=True)]
        assert obstacles.touched(poses, at).tolist() == plain


def test_the_places_of_the_property_above_do_touch_things(scenes: list[Scene]) -> None:
    obstacles = Obstacles(scenes)
    hits = np.array([obstacles.touched(np.full((3, 3), (x, -1.7, 0.0)), 20) for x in range(80)])
    assert hits[:, 0].any()
    assert not hits[:, 1].any()
    assert hits[:, 2].any()
    assert not hits.all(axis=0)[[0, 2]].any()


def test_egos_in_one_scene_at_times_of_their_own_touch_what_each_would_alone(scenes: list[Scene]) -> None:
    rng = np.random.default_rng(0)
    touched = 0
    for scene in scenes:
        steps = rng.integers(0, 150, 80)
        boxes = [scene.objects_at(float(step) * STEP_S) for step in steps]
        near = [places.poses[rng.integers(len(places)), :2] if len(places) else np.zeros(2) for places in boxes]
        poses = np.column_stack((np.array(near) + rng.normal(0.0, 3.0, (80, 2)), rng.uniform(-3.0, 3.0, 80)))
        together = Obstacles([scene])
        for part in (slice(0, 30), slice(30, 80)):
            found = together.touched_at(poses[part], steps[part])
            alone = [Obstacles([scene]).touched(pose[None], int(step))[0] for pose, step in zip(poses[part], steps[part], strict=True)]
            assert found.tolist() == alone
            touched += int(found.sum())
    assert touched > 10


def test_nothing_touches_nothing(scenes: list[Scene]) -> None:
    assert touches(np.zeros(3), Boxes.none()).shape == (0,)
    assert not Obstacles(scenes[1:2]).touched(np.zeros((1, 3)), 0)[0]
    assert pytest.approx(4.5) == CAR_LENGTH_M
