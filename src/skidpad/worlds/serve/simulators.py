"""The cars and cameras of the simulators that the built-in world can play, each a world of its own name, and how a client steers them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, radians
from typing import Protocol

from skidpad.core.errors import SkidpadError, WorkersError
from skidpad.core.images import Camera, FloatArray, NumpyFrames
from skidpad.core.units import STEERING_RATIO
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.collision import Body
from skidpad.worlds.vehicle import Bicycle, Powertrain
from skidpad.worlds.world import WORLDS

MPH_M_S = 0.44704
_AT_ONCE_RAD_S = 1e4
"""The simulators' wheels stand where a command wants them at the next step."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """What a client of a simulator counts on: the car, the camera, where the simulator is reached, and what its client is called."""

    name: str
    client: str
    port: int
    max_steering_deg: float
    """Of the road wheels; a client answers fractions of it, positive to the right."""
    bicycle: Bicycle
    body: Body
    camera: Camera

    def world(self, width: int = 1, threads: int = 1) -> BuiltInWorld:
        """Makes the built-in world with this simulator's car and camera."""
        return BuiltInWorld(width, threads, self.camera, self.bicycle, body=self.body)

    def steering_rad(self, fraction: float) -> float:
        """Turns a client's answer, -1 (left) to 1 (right), into radians of the steering wheel, positive to the left."""
        return -fraction * self.bicycle.max_steering_rad

    def road_wheel_deg(self, steering_rad: float) -> float:
        """Turns radians of the steering wheel into degrees of the road wheels as the simulators tell them, positive to the right."""
        return -steering_rad / self.bicycle.max_steering_rad * self.max_steering_deg


def _simulator(
    name: str, client: str, port: int, max_steering_deg: float, wheelbase_m: float, powertrain: Powertrain, body: Body, camera: Camera
) -> Simulator:
    stop_rad = radians(max_steering_deg) * STEERING_RATIO
    bicycle = Bicycle(
        wheelbase_m, max_steering_rad=stop_rad, max_rate_rad_s=max(_AT_ONCE_RAD_S, stop_rad), delay_s=0.0, powertrain=powertrain
    )
    return Simulator(name, client, port, max_steering_deg, bicycle, body, camera)


UDACITY = _simulator(
    "udacity",
    "drive.py",
    4567,
    25.0,
    # Lf of Udacity's MPC project, measured by driving circles in the simulator.
    2.67,
    Powertrain(max_speed_m_s=30.0 * MPH_M_S, max_acceleration_m_s2=3.0, max_braking_m_s2=8.0, coasting_m_s2=1.0),
    Body(),
    Camera(320, 160),
)

DONKEY = _simulator(
    "donkey",
    "the Donkey client",
    9091,
    16.0,
    # A 1:16 Donkey car is 0.17 m between its axles, 0.28 m long and 0.19 m wide; the simulator shows it eight times as large.
    1.4,
    Powertrain(max_speed_m_s=20.0, max_acceleration_m_s2=4.0, max_braking_m_s2=8.0, coasting_m_s2=2.0),
    Body(length_m=2.25, width_m=1.5, rear_overhang_m=0.4),
    Camera(160, 120, fov_deg=80.0, pitch_deg=10.0, height_m=1.2, forward_m=0.9),
)

SIMULATORS = {simulator.name: simulator for simulator in (UDACITY, DONKEY)}


@WORLDS.register(UDACITY.name)
def udacity(width: int, threads: int) -> BuiltInWorld:
    """The built-in world with the car and the camera of the Udacity simulator."""
    return UDACITY.world(width, threads)


@WORLDS.register(DONKEY.name)
def donkey(width: int, threads: int) -> BuiltInWorld:
    """The built-in world with the car and the camera of the Donkey simulator."""
    return DONKEY.world(width, threads)


class FaultError(SkidpadError):
    """A client that cannot be understood, or stalls: this drive ends, the next one begins."""


class DisconnectedError(FaultError):
    """A client that hung up."""


FLOOD_S = 2.0
"""How long a client may go on sending what nobody asked for before it is taken for one that never stops."""


class GoneError(WorkersError):
    """No client came in time; what was driven so far is kept, and the run can be resumed."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """What a client is told at one step. frame: (height, width, 3). pose: (3,), of the rear axle; lateral_m: positive to the left."""

    step: int
    time_s: float
    frame: NumpyFrames
    pose: FloatArray
    speed_m_s: float
    acceleration_m_s2: float
    yaw_rate_rad_s: float
    steering_rad: float
    pedal: float
    lateral_m: float
    collided: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client wants. steering_rad: of the steering wheel, positive to the left. pedal: -1 (all brake) to 1 (all throttle).

    clamped: whether it wanted more than there is. unasked: answers that came before the question and were thrown away.
    """

    steering_rad: float
    pedal: float
    clamped: bool = False
    unasked: int = 0


class Pilot(Protocol):
    """Drives one served car, scenario after scenario."""

    def begin(self) -> None:
        """Makes sure that somebody is there before a scenario; raises GoneError where nobody comes."""

    def ask(self, moment: Moment) -> Answer:
        """Shows a moment and returns the answer to it; raises FaultError, or DisconnectedError where the client is gone."""

    def end(self, moment: Moment) -> None:
        """Lets the client know that the scenario is over, where its protocol can."""

    def close(self) -> None:
        """Hangs up."""


def number(value: object, what: str, frame: int) -> float:
    """Reads a number of a client's answer, which simulators' clients write as text; refuses anything but a finite one."""
    try:
        read = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise FaultError(f"the client answered {what} = {str(value)[:40]!r} at frame {frame}, which is no number") from None
    if not isfinite(read):
        raise FaultError(f"the client answered {what} = {read} at frame {frame}, which steers nowhere")
    return read


def clamped(value: float) -> float:
    """Returns the nearest value within -1 and 1, as the simulators do."""
    return min(1.0, max(-1.0, value))
