"""Who touches what: upright boxes seen from above."""

from __future__ import annotations

import numpy as np

from skidpad.core.images import BoolArray, FloatArray
from skidpad.worlds.objects import CAR_LENGTH_M, CAR_WIDTH_M, Boxes

REAR_OVERHANG_M = 0.95
"""How far the ego's body reaches behind its rear axle, where its pose is."""


def touches(pose: FloatArray, boxes: Boxes) -> BoolArray:
    """Tells which boxes, (K,), the ego at a pose, (3,) x, y and heading of the rear axle, touches.

    Two rectangles are apart exactly where one of their four sides separates them.
    """
    if not len(boxes):
        return np.zeros(0, np.bool_)
    forward = 0.5 * CAR_LENGTH_M - REAR_OVERHANG_M
    middle = pose[:2] + forward * np.array([np.cos(pose[2]), np.sin(pose[2])])
    half = np.array([0.5 * CAR_LENGTH_M, 0.5 * CAR_WIDTH_M])
    others = 0.5 * boxes.sizes_m[:, :2]
    turn = boxes.poses[:, 2] - pose[2]
    cos, sin = np.abs(np.cos(turn)), np.abs(np.sin(turn))
    apart = boxes.poses[:, :2] - middle
    separated = np.zeros(len(boxes), np.bool_)
    for heading, mine, theirs in (
        (np.full(len(boxes), pose[2]), half, (others[:, 0] * cos + others[:, 1] * sin, others[:, 0] * sin + others[:, 1] * cos)),
        (boxes.poses[:, 2], others.T, (half[0] * cos + half[1] * sin, half[0] * sin + half[1] * cos)),
    ):
        along = np.abs(apart[:, 0] * np.cos(heading) + apart[:, 1] * np.sin(heading))
        across = np.abs(apart[:, 1] * np.cos(heading) - apart[:, 0] * np.sin(heading))
        separated |= (along > mine[0] + theirs[0]) | (across > mine[1] + theirs[1])
    return ~separated


def near(boxes: Boxes, point_m: FloatArray, reach_m: float) -> Boxes:
    """Returns the boxes that come within `reach_m` of a point, (2,), and perhaps a few more."""
    reach = reach_m + 0.5 * np.hypot(boxes.sizes_m[:, 0], boxes.sizes_m[:, 1])
    kept = np.sum((boxes.poses[:, :2] - point_m) ** 2, axis=1) <= reach * reach
    return Boxes(boxes.poses[kept], boxes.sizes_m[kept], boxes.kinds[kept])
