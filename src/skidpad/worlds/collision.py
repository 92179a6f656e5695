"""Collisions of the egos with upright boxes, seen from above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.worlds.render.scene import Scene
from skidpad.worlds.scenario.scenario import CAR_LENGTH_M, CAR_WIDTH_M, Boxes
from skidpad.worlds.world import STEP_S

REAR_OVERHANG_M = 0.95
"""How far the ego's body reaches behind its rear axle, where its pose is."""
_AT_ONCE = 64
"""How many steps of traffic are computed together."""


@dataclass(frozen=True, slots=True)
class Body:
    """The ego's outline, seen from above."""

    length_m: float = CAR_LENGTH_M
    width_m: float = CAR_WIDTH_M
    rear_overhang_m: float = REAR_OVERHANG_M

    @property
    def reach_m(self) -> float:
        """From the rear axle to the furthest corner, rounded up."""
        furthest = max(self.length_m - self.rear_overhang_m, self.rear_overhang_m)
        return ceil(2.0 * (furthest + 0.5 * self.width_m)) / 2.0


CAR = Body()


def touches(pose: FloatArray, boxes: Boxes, body: Body = CAR) -> BoolArray:
    """Tells which boxes, (K,), the ego at a pose, (3,) x, y and heading of the rear axle, touches.

    Two rectangles are apart exactly where one of their four sides separates them.
    """
    if not len(boxes):
        return np.zeros(0, np.bool_)
    forward = 0.5 * body.length_m - body.rear_overhang_m
    middle = pose[:2] + forward * np.array([np.cos(pose[2]), np.sin(pose[2])])
    half = np.array([0.5 * body.length_m, 0.5 * body.width_m])
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


class Obstacles:
    """The boxes that N egos can collide with, each in its own scene: fixed and moving ones."""

    def __init__(self, scenes: Sequence[Scene], body: Body = CAR) -> None:
        self._scenes = tuple(scenes)
        self._body = body
        standing = [scene.fixed for scene in scenes]
        moving = [scene.objects_at(0.0) for scene in scenes]
        boxes = Boxes.joined([*standing, *moving])
        self._sizes_m, self._kinds = boxes.sizes_m, boxes.kinds
        self._poses = boxes.poses.copy()
        self._moving = self._poses[sum(map(len, standing)) :]
        self._ego = np.concatenate([np.full(len(part), k % len(scenes)) for k, part in enumerate([*standing, *moving])])
        self._reach2_m2 = (body.reach_m + 0.5 * np.hypot(self._sizes_m[:, 0], self._sizes_m[:, 1])) ** 2
        self._tracks, self._first = np.empty((0, *self._moving.shape)), 0

    def touched(self, poses: FloatArray, step: int) -> BoolArray:
        """Tells which egos, (N,), touch something. poses: (N, 3), of their rear axles; step: how many STEP_S have passed."""
        self._moving[:] = self._track(step)
        # Few boxes are near enough to need the exact test.
        dx, dy = self._poses[:, 0] - poses[:, 0].take(self._ego), self._poses[:, 1] - poses[:, 1].take(self._ego)
        close = np.flatnonzero(dx * dx + dy * dy <= self._reach2_m2)
        found = np.zeros(len(poses), np.bool_)
        for ego in set(self._ego[close].tolist()):
            own = close[self._ego[close] == ego]
            found[ego] = touches(poses[ego], Boxes(self._poses[own], self._sizes_m[own], self._kinds[own]), self._body).any()
        return found

    def touched_at(self, poses: FloatArray, steps: IntArray) -> BoolArray:
        """Tells which egos, (N,), touch something in the one scene that all of them are in, each at a time of its own, (N,) in steps."""
        last = int(steps.max(initial=0))
        if self._first or last >= len(self._tracks):
            time_s = np.asarray(np.arange(2 * last + _AT_ONCE) * STEP_S, np.float64)
            self._tracks, self._first = np.concatenate([scene.movers_at(time_s) for scene in self._scenes], axis=1), 0
        standing = self._poses[: len(self._poses) - len(self._moving)]
        boxes = np.concatenate([np.broadcast_to(standing, (len(poses), *standing.shape)), self._tracks[steps]], axis=1)
        away = boxes[:, :, :2] - poses[:, None, :2]
        close = (away * away).sum(axis=2) <= self._reach2_m2
        found = np.zeros(len(poses), np.bool_)
        for ego in np.flatnonzero(close.any(axis=1)).tolist():
            own = close[ego]
            found[ego] = touches(poses[ego], Boxes(boxes[ego, own], self._sizes_m[own], self._kinds[own]), self._body).any()
        return found

    def _track(self, step: int) -> FloatArray:
        """Returns the poses of all moving boxes after a step; computing many steps together costs little more than one."""
        if not self._first <= step < self._first + len(self._tracks):
            time_s = np.asarray(np.arange(step, step + _AT_ONCE) * STEP_S, np.float64)
            self._tracks, self._first = np.concatenate([scene.movers_at(time_s) for scene in self._scenes], axis=1), step
        track: FloatArray = self._tracks[step - self._first]
        return track
