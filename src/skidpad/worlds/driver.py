"""The truth: what a careful driver would steer at a pose, and the scale in which steering is written."""

from dataclasses import dataclass

import numpy as np

from skidpad.core.angles import STEERING_RATIO
from skidpad.core.images import FloatArray
from skidpad.worlds.road import CrossSection, Road

WHEELBASE_M = 2.85
"""Of the car that recorded Udacity CH2 (a Lincoln MKZ)."""

LOOK_AHEAD_M = 15.0
"""How far ahead the driver aims: about a second at the drive's speed."""


@dataclass(frozen=True, slots=True)
class Driver:
    """Pure pursuit of the middle of the ego's lane with a kinematic bicycle.

    Steering is the angle of the steering wheel in radians, positive to the left, as in Udacity CH2: the frames of
    its largest positive labels show left bends, those of its most negative ones right bends.
    """

    look_ahead_m: float = LOOK_AHEAD_M
    wheelbase_m: float = WHEELBASE_M
    steering_ratio: float = STEERING_RATIO

    def steering_rad(self, road: Road, section: CrossSection, poses: FloatArray) -> FloatArray:
        """Returns the steering at each pose, (N,), exact on a bend of constant radius.

        poses: (N, 3), x, y and heading of the rear axle; it may be off the lane and askew.
        """
        here = road.project(poses[:, :2])
        lane_m = section.lane_centre_m
        # Distance is kept along the lane, not the centreline, so that the aim is as far inside a bend as outside.
        stretch = 1.0 - road.at(here.s_m).curvature_per_m * lane_m
        aim = road.at(here.s_m + self.look_ahead_m / np.maximum(stretch, 0.5)).beside(lane_m)
        return self.towards_rad(poses, aim)

    def towards_rad(self, poses: FloatArray, aim: FloatArray) -> FloatArray:
        """Returns the steering, (N,), that leads from each pose, (N, 3), along an arc through its aim, (N, 2)."""
        dx, dy = aim[:, 0] - poses[:, 0], aim[:, 1] - poses[:, 1]
        left_m = dy * np.cos(poses[:, 2]) - dx * np.sin(poses[:, 2])
        curvature = 2.0 * left_m / (dx * dx + dy * dy)
        return np.asarray(self.steering_ratio * np.arctan(self.wheelbase_m * curvature))

    def curvature_per_m(self, steering_rad: FloatArray) -> FloatArray:
        """Returns the curvature that the rear axle follows at a steering angle."""
        return np.asarray(np.tan(steering_rad / self.steering_ratio) / self.wheelbase_m)
