"""Boxes from above: parity with a plain test of points, and the ego's own shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.worlds.objects import CAR_LENGTH_M, CAR_WIDTH_M, Boxes
from skidpad.worlds.touching import REAR_OVERHANG_M, near, touches

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


@given(coordinates, coordinates, headings)
def test_looking_only_at_what_is_near_misses_nothing(x: float, y: float, heading: float) -> None:
    pose = np.array([x, y, heading])
    boxes = Boxes.joined([box(k * 1.7 - 8.0, 0.3 * k, 0.4 * k, 0.5 + k, 1.0) for k in range(10)])
    assert touches(pose, boxes).sum() == touches(pose, near(boxes, pose[:2], 4.5)).sum()


def test_nothing_touches_nothing() -> None:
    assert touches(np.zeros(3), Boxes.none()).shape == (0,)
    assert len(near(Boxes.none(), np.zeros(2), 3.0)) == 0
    assert pytest.approx(4.5) == CAR_LENGTH_M
