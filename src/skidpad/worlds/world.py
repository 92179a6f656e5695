"""The protocol of worlds: the built-in one and adapters of other simulators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from skidpad.core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.core.images import BoolArray, FloatArray, Frames
    from skidpad.worlds.scenario.scenario import Scenario

STEP_S = 0.05
"""One frame, one answer, one step: 20 Hz, as Udacity CH2 was recorded."""


@dataclass(frozen=True, slots=True)
class EgoState:
    """Where N egos are: x, y and heading of the rear axle, (N, 3); their speed in m/s and steering wheel in radians, (N,)."""

    poses: FloatArray
    speed_m_s: FloatArray
    steering_rad: FloatArray


class World(Protocol):
    """Runs several scenarios side by side in lock-step; what one ego does changes nothing for another.

    A world that can run only one at a time says so by `width` 1.
    """

    @property
    def width(self) -> int:
        """How many scenarios it can run side by side."""

    @property
    def frame_shape(self) -> tuple[int, int]:
        """Height and width of the frames in pixels, known before any scenario begins."""

    def reset(self, scenarios: Sequence[Scenario]) -> EgoState:
        """Begins the scenarios, at most `width`, and returns their first moment; one that it cannot show raises BadScenarioError."""

    def frames(self, wanted: BoolArray | None = None) -> Frames:
        """Returns what the egos' cameras see now, uint8 RGB (N, height, width, 3).

        wanted: (N,), whose frames will be looked at; the others' may be anything, so that they need not be rendered.
        """

    def step(self, steering_rad: FloatArray) -> EgoState:
        """Sends each ego the steering that it wants, (N,) radians of the steering wheel, left positive, and lets STEP_S pass.

        Returns the state after it. Steering that is not finite is refused with BadParametersError.
        """

    def lateral_m(self) -> FloatArray:
        """Returns how far each ego is from the middle of the lane it has to keep, positive to the left, (N,).

        The lane is the scenario's, fixed from the beginning: a car that changes lanes has departed.
        """

    def truth_rad(self) -> FloatArray:
        """Returns what a careful driver would steer at each ego's pose, (N,)."""

    def collided(self) -> BoolArray:
        """Tells which egos have touched another vehicle, a person or a thing so far, (N,)."""


WORLDS: Registry[Callable[[int, int], World]] = Registry(
    "world", "worlds", ("skidpad.worlds.builtin", "skidpad.worlds.serve.simulators", "skidpad.worlds.metadrive.world")
)
"""The worlds by name: functions of (width, threads) that make a world for up to `width` scenarios, rendered by `threads` threads."""
