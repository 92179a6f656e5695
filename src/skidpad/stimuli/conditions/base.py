"""What conditions share: parameters that an instance may hold, a space made of its fields, painting frame by frame, and how far it is.

How far away what a pixel shows is, nobody says: it is the road's plane between two rows of trees and houses, measured against the
exact depth of the built-in world by tests/stimuli/conditions/test_conditions_world.py.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera, Capture, FloatArray, NumpyFrames
from skidpad.core.stimuli import Choice, F, Parameter, Params, Real, Severity, Space, Value, Whole
from skidpad.stimuli.pictures.kernels import kernels_of, over_numbered
from skidpad.stimuli.registry import TRANSFORMS

Field = NDArray[np.float32]
"""One value a pixel, (height, width), or three."""

Paint = Callable[[NumpyFrames, float], "Field | NumpyFrames"]
"""Returns a frame, (height, width, 3), under a condition at a time in seconds; at least 0, rounded and cut at 255 afterwards."""

GRID_SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Where the rows of a grid lie on the way from harmless to the worst that roads see."""


def real(low: float, high: float, identity: float | None = None) -> Any:
    """Declares a real parameter with its bounds, and the value at which the condition changes nothing."""
    return field(default=None, metadata={"parameter": lambda name: Real(name, low, high, identity)})


def whole(low: int, high: int, identity: int | None = None) -> Any:
    """Declares a whole parameter of a condition."""
    return field(default=None, metadata={"parameter": lambda name: Whole(name, low, high, identity)})


def choice(*options: str, identity: str | None = None) -> Any:
    """Declares a parameter that is one of a few words."""
    return field(default=None, metadata={"parameter": lambda name: Choice(name, options, identity)})


@dataclass(frozen=True, slots=True)
class PhysicalCondition:
    """A condition whose parameters are its fields. `Fog()` is the condition with its whole grid, `Fog(visibility_m=100)` one row of it.

    Fields default to None, "not held"; declare them with `real`, `whole` and `choice`, and decorate the class with `condition`. The
    registered name is the class's in lower case, with hyphens.
    """

    severities: ClassVar[tuple[Severity, ...]]

    def __new__(cls, *_given: object, **named: object) -> Self:
        """Refuses unknown parameters: Python's own sentence is a TypeError, and does not say which there are."""
        known = [each.name for each in fields(cls)]
        for name in named:
            if name not in known:
                raise BadParametersError(f"{cls.__name__} takes {', '.join(known)}; got {name}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        # A wrong number is refused where it is typed, not when the first frame comes.
        for row in self.space.grid if self.given else ():
            self.space.check(self.name, row)

    @property
    def name(self) -> str:
        """The name under which it is registered, as `low-sun`."""
        return _name(type(self))

    @property
    def given(self) -> Params:
        """The parameters that the instance holds."""
        held: dict[str, Value | None] = {each.name: getattr(self, each.name) for each in fields(self)}
        return Params(**{name: value for name, value in held.items() if value is not None})

    @property
    def space(self) -> Space:
        """The parameters with bounds; the grid is the row that the instance holds, else five severities for each way to get harder."""
        whole_space = _space(cast("Any", type(self)))
        return Space(whole_space.parameters, (whole_space.filled(self.name, self.given),)) if self.given else whole_space

    def __str__(self) -> str:
        held = ",".join(f"{name}={value}" for name, value in self.given.items())
        return f"{self.name}({held})" if held else self.name

    def __add__(self, other: object) -> str:
        """Writes two stimuli one after the other, as `fog(visibility_m=100)+rain(mm_per_h=5)`."""
        return f"{self}+{other}"

    def __radd__(self, other: object) -> str:
        return f"{other}+{self}"

    def apply(self, frames: F, params: Params) -> F:
        """Returns the changed frames, as the usual camera takes them one after the other."""
        kernels_of(frames)
        return self.apply_at(frames, params, Capture.guess(frames))

    def apply_at(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the changed frames; torch frames are painted on the CPU and come back on their device."""
        kernels_of(frames)
        if not isinstance(frames, np.ndarray):
            painted = self.apply_at(frames.detach().cpu().numpy(), params, capture)
            return cast("F", frames.new_tensor(painted))
        if len(capture.times_s) != len(frames):
            raise BadParametersError(f"a capture has one time a frame; got {len(capture.times_s)} for {len(frames)} frames")
        if params == _space(cast("Any", type(self))).identity or not len(frames):
            return frames.copy(order="C")
        height, width = frames.shape[1:3]
        camera = capture.camera
        if (camera.height_px, camera.width_px) != (height, width):
            camera = replace(camera, height_px=height, width_px=width)
        paint, times_s = self._painter(params, camera), capture.times_s

        def work(number: int, frame: NumpyFrames, out: NumpyFrames) -> None:
            painted = paint(frame, float(times_s[number]))
            if painted.dtype == np.uint8:
                out[:] = painted
            else:
                cv2.convertScaleAbs(painted, dst=out)

        return cast("F", over_numbered(frames, work))

    @abstractmethod
    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what paints one frame; it owns what it returns, and leaves what it is given untouched."""


C = TypeVar("C", bound=PhysicalCondition)


@dataclass_transform(frozen_default=True)
def condition(*severities: Severity) -> Callable[[type[C]], type[C]]:
    """Registers a condition under its class's name, with the ways in which it gets harder; its fields become its parameters.

    What a severity does not say of the other parameters is the value at which they change nothing.
    """

    def add(kind: type[C]) -> type[C]:
        made = dataclass(frozen=True, slots=True)(kind)
        usual = {each.name: each.identity for each in _parameters(made) if each.identity is not None}
        made.severities = tuple(
            replace(each, others=Params(**{name: value for name, value in (usual | dict(each.others)).items() if name != each.parameter}))
            for each in severities
        )
        return TRANSFORMS.register(_name(made))(made)  # type: ignore[return-value]  # the row itself

    return add


def _name(kind: type[PhysicalCondition]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def _parameters(kind: type[PhysicalCondition]) -> tuple[Parameter, ...]:
    return tuple(each.metadata["parameter"](each.name) for each in fields(kind))


@lru_cache(maxsize=64)
def _space(kind: type[PhysicalCondition]) -> Space:
    rows = [severity.params(share) for severity in kind.severities for share in GRID_SHARES]
    return Space(_parameters(kind), tuple(dict.fromkeys(Params(**{name: _short(value) for name, value in row.items()}) for row in rows)))


def _short(value: Value) -> Value:
    """Rounds to three digits, which a person can type."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


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
    return frozen(1.0 / per_m)


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
    return frozen(ahead), frozen(distance * left), frozen(spread)


def horizon_row(camera: Camera) -> int:
    """Returns the first row below the horizon, at least 1 and at most the last."""
    return int(np.clip(round(camera.horizon_px), 1, camera.height_px - 1))


def frozen(array: Field | FloatArray) -> Field:
    """Returns an array that nobody can write to, for caches."""
    made = np.ascontiguousarray(array, np.float32)
    made.setflags(write=False)
    return made
