"""Whoever drives a served car from outside: what he is shown, what he answers, and how he fails."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from skidpad.core.errors import SkidpadError, WorkersError
from skidpad.core.images import FloatArray, NumpyFrames


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
        ...

    def ask(self, moment: Moment) -> Answer:
        """Shows a moment and returns the answer to it; raises FaultError, or DisconnectedError where the client is gone."""
        ...

    def end(self, moment: Moment) -> None:
        """Lets the client know that the scenario is over, where its protocol can."""
        ...

    def close(self) -> None:
        """Hangs up."""
        ...


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
