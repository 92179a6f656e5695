"""The car: its bicycle model and powertrain, and what a careful driver would steer (pure pursuit)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.core.units import LOOK_AHEAD_M, STEERING_RATIO, WHEELBASE_M
from skidpad.worlds.scenario.road import CrossSection, Road
from skidpad.worlds.scenario.scenario import Weather
from skidpad.worlds.world import STEP_S, EgoState


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


GRAVITY_M_S2 = 9.81
FRICTION = {Weather.SUNNY: 0.8, Weather.FOG: 0.8, Weather.RAIN: 0.5, Weather.SNOW: 0.3}
"""Between tyres and road: sideways the tyres hold at most this times GRAVITY_M_S2.

The lower ends of published ranges, so that a car never holds where a real one would slide. Reference: Wong, Theory of Ground Vehicles,
table 1.3, peak values on asphalt: 0.8 to 0.9 dry, 0.5 to 0.7 wet; Fricke, Traffic Accident Reconstruction (1990): packed snow 0.3 to 0.6.
"""
_SLOWEST_M_S = 1e-3
"""Keeps the limit of a standing car finite; it does not slide anyway."""
_STRAIGHT_RAD = 1e-4
"""Below this turn of a step its series is more exact than the quotient, and both agree to rounding here."""


@dataclass(frozen=True, slots=True)
class Powertrain:
    """How a car that is asked for speed gains and loses it, as far as its tyres hold; a car without reverse.

    Released pedals slow it in proportion to its speed: by `coasting_m_s2` at the top speed.
    """

    max_speed_m_s: float = 50.0
    max_acceleration_m_s2: float = 3.0
    max_braking_m_s2: float = 8.0
    coasting_m_s2: float = 0.8

    def __post_init__(self) -> None:
        values = (self.max_speed_m_s, self.max_acceleration_m_s2, self.max_braking_m_s2, self.coasting_m_s2)
        if not (all(np.isfinite(values)) and min(values) > 0.0):
            raise BadParametersError(f"what a powertrain can do is finite and above 0; got {self}")

    def speed_after(self, speed_m_s: FloatArray, pedal: FloatArray, friction: FloatArray) -> FloatArray:
        """Returns the speeds, (N,), after STEP_S. pedal: (N,), from -1, all brake, to 1, all throttle."""
        asked = np.where(pedal > 0.0, pedal * self.max_acceleration_m_s2, pedal * self.max_braking_m_s2)
        held = np.clip(asked, -friction * GRAVITY_M_S2, friction * GRAVITY_M_S2)
        slowed = self.coasting_m_s2 * speed_m_s / self.max_speed_m_s
        return np.clip(speed_m_s + (held - slowed) * STEP_S, 0.0, self.max_speed_m_s)


@dataclass(frozen=True, slots=True)
class Bicycle:
    """A car as a bicycle: the rear axle follows the arc that the road wheels' angle gives, as far as the tyres hold.

    Beyond that the car understeers: it keeps to the tightest arc that friction allows, however far the wheel is turned.

    delay_s: how long a command is on its way, whole steps. max_rate_rad_s, max_steering_rad: of the steering wheel.
    """

    wheelbase_m: float = WHEELBASE_M
    steering_ratio: float = STEERING_RATIO
    max_steering_rad: float = 8.2
    """The wheel's stop, 470 degrees: a radius of 5 m."""
    max_rate_rad_s: float = 8.7
    """500 degrees a second, brisk for a servo and too slow to follow an answer that jumps."""
    delay_s: float = 0.1
    powertrain: Powertrain = Powertrain()

    def __post_init__(self) -> None:
        positive = (self.wheelbase_m, self.steering_ratio, self.max_steering_rad, self.max_rate_rad_s)
        if not (all(np.isfinite(positive)) and min(positive) > 0.0 and 0.0 <= self.delay_s <= 1.0):
            raise BadParametersError(f"a vehicle's sizes are above 0 and its delay is within 0 and 1 s; got {self}")

    @property
    def delay_steps(self) -> int:
        """How many steps a command is on its way."""
        return round(self.delay_s / STEP_S)

    def start(self, poses: FloatArray, speed_m_s: FloatArray, steering_rad: FloatArray, friction: FloatArray) -> VehicleMotion:
        """Returns the first moment: each car has been steering like this for a while.

        poses: (N, 3); the others: (N,). friction: between tyres and road, see FRICTION.
        """
        waiting = np.tile(steering_rad, (self.delay_steps, 1))
        return VehicleMotion(EgoState(poses, speed_m_s, steering_rad), waiting, _sharpest_per_m(speed_m_s, friction), friction)

    def advance(
        self, motion: VehicleMotion, command_rad: FloatArray, pedal: FloatArray | None = None, speed_m_s: FloatArray | None = None
    ) -> VehicleMotion:
        """Lets STEP_S pass. command_rad: (N,), what each driver now wants of the steering wheel.

        pedal: (N,), -1 (all brake) to 1 (all throttle). speed_m_s: (N,), how fast each car is afterwards, where somebody else has pressed
        its pedals. Without either each car keeps its speed. The wheel turns towards the command that has
        come through as far as its rate allows and then stays for the step, in which the integral is exact.
        """
        waiting = np.concatenate((motion.waiting_rad, command_rad[None]))
        wanted = np.clip(waiting[0], -self.max_steering_rad, self.max_steering_rad)
        most = self.max_rate_rad_s * STEP_S
        steering = motion.state.steering_rad + np.clip(wanted - motion.state.steering_rad, -most, most)
        steered = np.tan(steering / self.steering_ratio) / self.wheelbase_m
        curvature = np.clip(steered, -motion.sharpest_per_m, motion.sharpest_per_m)
        before = motion.state.speed_m_s
        if pedal is not None:
            speed_m_s = self.powertrain.speed_after(before, pedal, motion.friction)
        if speed_m_s is None:
            poses = follow_arc(motion.state.poses, curvature, before * STEP_S)
            return replace(motion, state=replace(motion.state, poses=poses, steering_rad=steering), waiting_rad=waiting[1:])
        poses = follow_arc(motion.state.poses, curvature, 0.5 * (before + speed_m_s) * STEP_S)
        return VehicleMotion(
            EgoState(poses, speed_m_s, steering), waiting[1:], _sharpest_per_m(speed_m_s, motion.friction), motion.friction
        )


def _sharpest_per_m(speed_m_s: FloatArray, friction: FloatArray) -> FloatArray:
    return np.asarray(friction * GRAVITY_M_S2 / np.maximum(speed_m_s, _SLOWEST_M_S) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class VehicleMotion:
    """Where N egos are, and what decides where they go next.

    waiting_rad: the commands on their way to the steering wheels, (delay_steps, N), the oldest first. sharpest_per_m: (N,), the greatest
    curvature that each car's tyres hold at its speed. friction: (N,), between tyres and road.
    """

    state: EgoState
    waiting_rad: FloatArray
    sharpest_per_m: FloatArray
    friction: FloatArray


def follow_arc(poses: FloatArray, curvature_per_m: FloatArray, length_m: FloatArray) -> FloatArray:
    """Returns the poses, (N, 3), after `length_m` along arcs of constant curvature, exact to rounding; positive bends left."""
    turn = curvature_per_m * length_m
    half = 0.5 * turn
    # The chord of an arc points along its middle heading and is sin(half) / half as long.
    straight = np.abs(turn) < _STRAIGHT_RAD
    shorter = np.where(straight, 1.0 - half * half / 6.0, np.sin(half) / np.where(straight, 1.0, half))
    x_m, y_m, heading = np.ascontiguousarray(poses.T)
    chord = length_m * shorter
    return np.stack((x_m + chord * np.cos(heading + half), y_m + chord * np.sin(heading + half), heading + turn), axis=1)
