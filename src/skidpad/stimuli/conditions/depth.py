"""How far away what a pixel shows is, without being told: the road's plane between two rows of trees and houses.

Measured against the exact depth of the built-in world by tests/stimuli/conditions/test_conditions_depth.py.
"""

from functools import lru_cache

import numpy as np

from skidpad.core.camera import Camera
from skidpad.stimuli.conditions.base import Field

FAR_M = 1500.0
"""Of the sky."""
_FURTHEST_M = 160.0
"""Of what stands at the horizon: bends and crests hide the rest, and what is further away covers a few rows."""
_WALL_M = 12.0
"""How far to each side of the car things begin to stand: a lane, a verge, and half of the crown of a tree."""
_TREES_M = 90.0
"""How far away what stands straight ahead is."""
_TALL_M = 15.0
"""What is not sky is lower than this above the camera, so the higher it is seen, the nearer it is."""


@lru_cache(maxsize=8)
def depth_m(camera: Camera) -> Field:
    """Returns how many metres ahead each pixel's object is, (height, width), if it is not sky: ground, or what stands on it."""
    forward, down, left = camera.rays()
    nearness = np.abs(left)[None, :] / _WALL_M
    ground = np.maximum(down, 0.0)[:, None] / camera.height_m
    # Sums of nearness round off the edges of this world, whose place nobody knows.
    standing = np.hypot(nearness, 1.0 / _TREES_M) + np.maximum(-down, 0.0)[:, None] / _TALL_M
    per_m = np.where(down[:, None] > 0.0, np.maximum(ground, nearness), standing)
    per_m = np.hypot(per_m / forward[:, None], 1.0 / _FURTHEST_M)
    return _frozen((1.0 / per_m).astype(np.float32))


@lru_cache(maxsize=8)
def ground_m(camera: Camera) -> tuple[Field, Field, Field]:
    """Returns the ground behind each pixel: metres ahead and to the left, and the share of it that is ground, all (height, width).

    The share is 0 above the horizon and 1 from a few pixels below it on; metres end at FAR_M.
    """
    forward, down, left = camera.rays()
    distance = camera.height_m / np.maximum(down, camera.height_m / FAR_M)[:, None]
    ahead = np.broadcast_to(distance * forward[:, None], (camera.height_px, camera.width_px))
    share = np.clip(down / (2.5 / camera.focal_px), 0.0, 1.0)[:, None]
    spread = np.broadcast_to(share, ahead.shape)
    return _frozen(ahead.astype(np.float32)), _frozen((distance * left).astype(np.float32)), _frozen(spread.astype(np.float32))


def horizon_row(camera: Camera) -> int:
    """Returns the first row below the horizon, at least 1 and at most the last."""
    return int(np.clip(round(camera.horizon_px), 1, camera.height_px - 1))


def _frozen(array: Field) -> Field:
    made = np.ascontiguousarray(array)
    made.setflags(write=False)
    return made
