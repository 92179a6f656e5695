"""What changes the frames a subject sees: parameter spaces, recipes, and the Stimulus protocol."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import log
from typing import Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import Camera, Capture, FloatArray, Frames

Value = float | int | str
F = TypeVar("F", bound=Frames)


class Params(Mapping[str, Value]):
    """Immutable, hashable parameters of one stimulus, as `Params(dx_px=10, dy_px=10)`."""

    __slots__ = ("_items",)

    def __init__(self, /, **values: Value) -> None:
        self._items = dict(sorted(values.items()))

    def __getitem__(self, name: str) -> Value:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Params) and self._items == other._items

    def __repr__(self) -> str:
        return f"Params({', '.join(f'{name}={value!r}' for name, value in self._items.items())})"

    def __str__(self) -> str:
        return " ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in self._items.items())

    def real(self, name: str) -> float:
        """Returns a numeric parameter as a float."""
        return float(self._items[name])

    def whole(self, name: str) -> int:
        """Returns a numeric parameter as an int."""
        return int(self._items[name])


@dataclass(frozen=True, slots=True)
class Real:
    """A real parameter within [low, high]; at `identity` it changes nothing (None: no such value)."""

    name: str
    low: float
    high: float
    identity: float | None

    def sample(self, rng: np.random.Generator) -> Value:
        """Draws uniformly from the bounds."""
        return float(rng.uniform(self.low, self.high))

    def accepts(self, value: Value) -> bool:
        """Tells whether the value lies within the bounds."""
        return not isinstance(value, str) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.name} in [{self.low:g}, {self.high:g}]"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole parameter within [low, high]."""

    name: str
    low: int
    high: int
    identity: int | None

    def sample(self, rng: np.random.Generator) -> Value:
        """Draws uniformly from the bounds, both included."""
        return int(rng.integers(self.low, self.high, endpoint=True))

    def accepts(self, value: Value) -> bool:
        """Tells whether the value is whole and within the bounds."""
        return not isinstance(value, str) and float(value).is_integer() and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.name} in {{{self.low}..{self.high}}}"


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that is one of a few words."""

    name: str
    options: tuple[str, ...]
    identity: str | None = None

    def sample(self, rng: np.random.Generator) -> Value:
        """Draws one of the options."""
        return self.options[int(rng.integers(len(self.options)))]

    def accepts(self, value: Value) -> bool:
        """Tells whether the value is one of the options."""
        return value in self.options

    def __str__(self) -> str:
        return f"{self.name} in {{{', '.join(self.options)}}}"


Parameter = Real | Whole | Choice


@dataclass(frozen=True, slots=True)
class Space:
    """The parameters of a stimulus with their bounds, and the grid that a paper tests."""

    parameters: tuple[Parameter, ...]
    grid: tuple[Params, ...]

    @property
    def identity(self) -> Params | None:
        """The parameters that change nothing, or None where one parameter has no such value."""
        values = {parameter.name: parameter.identity for parameter in self.parameters}
        return Params(**{name: value for name, value in values.items() if value is not None}) if None not in values.values() else None

    def sample(self, rng: np.random.Generator) -> Params:
        """Draws every parameter from its bounds."""
        return Params(**{parameter.name: parameter.sample(rng) for parameter in self.parameters})

    def pick(self, rng: np.random.Generator) -> Params:
        """Draws one row of the grid."""
        return self.grid[int(rng.integers(len(self.grid)))]

    def filled(self, stimulus: str, params: Params) -> Params:
        """Adds the parameters that were left out: what every row of the grid has, else what changes nothing.

        At least one number that the grid varies must be given, since a stimulus that changes nothing tests nothing.
        """
        self._refuse_unknown(stimulus, params)
        tested = {parameter.name: {row[parameter.name] for row in self.grid} for parameter in self.parameters}
        strengths = [each for each in self.parameters if not isinstance(each, Choice) and len(tested[each.name]) > 1]
        if strengths and not any(each.name in params for each in strengths):
            raise BadParametersError(f"{stimulus!r} needs {' or '.join(map(str, strengths))}; got {params}")
        usual = {each.name: next(iter(tested[each.name])) if len(tested[each.name]) == 1 else each.identity for each in self.parameters}
        return Params(**({name: value for name, value in usual.items() if value is not None} | dict(params)))

    def check(self, stimulus: str, params: Params) -> None:
        """Refuses unknown, missing and out-of-bounds parameters."""
        self._refuse_unknown(stimulus, params)
        for parameter in self.parameters:
            name = parameter.name
            if name not in params:
                raise BadParametersError(f"{stimulus!r} needs the parameter {name!r} ({parameter}); got {params}")
            if not parameter.accepts(params[name]):
                raise BadParametersError(f"{stimulus!r} takes {parameter}; got {name}={params[name]!r}")

    def _refuse_unknown(self, stimulus: str, params: Params) -> None:
        known = [parameter.name for parameter in self.parameters]
        for name in params:
            if name not in known:
                raise UnknownNameError.among(f"parameter of {stimulus!r}", name, known)


class Stimulus(Protocol):
    """Changes frames; drawing (`space`) and applying are apart, and applying is pure.

    `apply` depends on nothing but its arguments, leaves its input untouched, keeps shape and dtype, and accepts
    NumPy frames (CPU) and torch frames (any device), answering with the same kind.
    """

    @property
    def space(self) -> Space:
        """The parameters with bounds and grid."""

    def apply(self, frames: F, params: Params) -> F:
        """Returns the changed frames."""


NO_PARAMS = Params()


@dataclass(frozen=True, slots=True)
class Severity:
    """One way in which a condition gets harder: the parameter that grows harder, from where it is harmless to the worst that roads see.

    name: of the row in a table of limits ("fog", "underexposure"). unit: as an engineer writes it ("m", "mm/h", "EV", "deg").
    others: what the condition's other parameters are meanwhile. attribute: its name in ISO 34503 ("visibility", "rainfall", ...), or the
    part of the camera system that it belongs to. source: where the scale and its worst end come from.
    """

    name: str
    parameter: str
    unit: str
    harmless: float
    worst: float
    is_logarithmic: bool = False
    others: Params = NO_PARAMS
    attribute: str = ""
    source: str = ""

    def at(self, share: float) -> float:
        """Returns the value at a share of the way from harmless (0) to worst (1)."""
        if self.is_logarithmic:
            return float(self.harmless * (self.worst / self.harmless) ** share)
        return self.harmless + share * (self.worst - self.harmless)

    def share(self, value: float) -> float:
        """Returns how far along the way a value lies; the inverse of `at`."""
        if self.is_logarithmic:
            return log(value / self.harmless) / log(self.worst / self.harmless)
        return (value - self.harmless) / (self.worst - self.harmless)

    def params(self, share: float) -> Params:
        """Returns all parameters of the condition at a share of the way."""
        return Params(**(dict(self.others) | {self.parameter: self.at(share)}))


@runtime_checkable
class Condition(Stimulus, Protocol):
    """A stimulus in physical units, which a camera on a road can meet; `apply` is `apply_at` with a guessed capture."""

    @property
    def severities(self) -> tuple[Severity, ...]:
        """The ways in which it gets harder, one row of limits each."""
        ...

    def apply_at(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the changed frames; a frame's result depends on its own pixels, time and camera, not on its neighbours."""
        ...


@runtime_checkable
class CameraMove(Condition, Protocol):
    """A condition that moves the camera, and with it the right answer."""

    def reference(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the unmoved pictures, cut as the moved ones are: the subject's answer to them is held against the moved one."""
        ...

    def pixel_map(self, params: Params, camera: Camera) -> FloatArray:
        """Returns the (3, 3) homography from a pixel of `reference` to its place in the moved picture; exact on the road's plane."""
        ...

    def moved_rad(self, steering_rad: FloatArray, params: Params) -> FloatArray:
        """Returns the right steering from the moved place where `steering_rad` was right, (N,), radians of the steering wheel."""
        ...


def shows_past(stimulus: Stimulus) -> bool:
    """Tells whether a condition shows earlier frames in the place of the present ones (a late or stuck camera)."""
    return bool(getattr(stimulus, "past_s", 0.0))


@dataclass(frozen=True, slots=True)
class Step:
    """One stimulus by name with its parameters."""

    stimulus: str
    params: Params

    def __str__(self) -> str:
        return f"{self.stimulus}({self.params})"


_FORMER: Mapping[tuple[str, str], str] = {("fog", "density"): "deeptest-fog", ("rain", "intensity"): "deeptest-rain"}
"""Former names with a parameter that only the former stimulus had."""


def current_name(stimulus: str, params: Iterable[str]) -> str:
    """Returns today's name of a stimulus: DeepTest's fog and rain were once called as the weathers in physical units are now."""
    return next((_FORMER[stimulus, name] for name in params if (stimulus, name) in _FORMER), stimulus)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps that turn an original frame into a mutant, each applied to the running image."""

    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, stimulus: str, params: Params) -> Self:
        """Makes a recipe of one step."""
        return cls((Step(stimulus, params),))

    @property
    def name(self) -> str:
        """The names of the steps, as `rotation+blur`; `original` where there are none."""
        return "+".join(step.stimulus for step in self.steps) or "original"

    def to_json(self) -> str:
        """Writes the recipe as canonical JSON, the form that is stored and hashed."""
        return json.dumps([[step.stimulus, dict(step.params)] for step in self.steps], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote, also by a former version."""
        return cls(tuple(Step(current_name(stimulus, params), Params(**params)) for stimulus, params in json.loads(text)))

    def apply(self, frames: F, stimuli: Mapping[str, Stimulus], capture: Capture | None = None) -> F:
        """Applies each step to the result of the one before it. capture: how the frames were taken; guessed where nobody says.

        A step that shows earlier frames comes first, wherever it stands: they are as recorded, and the other steps act on them. Of several
        cameras, each is changed by itself.
        """
        if capture is not None and capture.views > 1:
            return capture.each_view(frames, lambda part, taken: self.apply(part, stimuli, taken))
        steps = sorted(self._with(stimuli), key=lambda found: not shows_past(found[1]))
        if sum(shows_past(stimulus) for _, stimulus in steps) > 1:
            raise BadParametersError(f"one step of a recipe can show earlier frames, since it replaces all others' frames; got {self}")
        for step, stimulus in steps:
            stimulus.space.check(step.stimulus, step.params)
            if isinstance(stimulus, Condition):
                frames = stimulus.apply_at(frames, step.params, capture or Capture.guess(frames))
            else:
                frames = stimulus.apply(frames, step.params)
        return frames

    def reference(self, frames: F, stimuli: Mapping[str, Stimulus], capture: Capture | None = None) -> F:
        """Returns what the mutants are compared with: the frames as they are, or cut as a moved camera's pictures are."""
        if capture is not None and capture.views > 1:
            return capture.each_view(frames, lambda part, taken: self.reference(part, stimuli, taken))
        for step, stimulus in self._with(stimuli):
            if isinstance(stimulus, CameraMove):
                frames = stimulus.reference(frames, step.params, capture or Capture.guess(frames))
        return frames

    def shows_past(self, stimuli: Mapping[str, Stimulus]) -> bool:
        """Tells whether a step shows earlier frames: pictures that the camera did take, of another moment."""
        return any(shows_past(stimulus) for _, stimulus in self._with(stimuli))

    def moves_camera(self, stimuli: Mapping[str, Stimulus]) -> bool:
        """Tells whether a step moves the camera, so that the right answer moves too and `reference` differs from the frames."""
        return any(isinstance(stimulus, CameraMove) for _, stimulus in self._with(stimuli))

    def moved_rad(self, steering_rad: FloatArray, stimuli: Mapping[str, Stimulus]) -> FloatArray:
        """Returns the right steering for the mutants where `steering_rad` was right for the frames, (N,), radians of the steering wheel."""
        for step, stimulus in self._with(stimuli):
            if isinstance(stimulus, CameraMove):
                steering_rad = stimulus.moved_rad(steering_rad, step.params)
        return steering_rad

    def unmoved_rad(self, steering_rad: FloatArray, stimuli: Mapping[str, Stimulus]) -> FloatArray:
        """Returns what `moved_rad` turns into `steering_rad`, (N,): what was right before the camera moved."""
        found = steering_rad
        for _ in range(12):  # a move adds nearly the same to every angle, so that each step leaves a small part of the error
            found = found + (steering_rad - self.moved_rad(found, stimuli))
        return found

    def pixel_map(self, stimuli: Mapping[str, Stimulus], camera: Camera) -> FloatArray:
        """Returns the (3, 3) homography from a pixel of `reference` to its place in the mutant."""
        moved: FloatArray = np.eye(3)
        for step, stimulus in self._with(stimuli):
            if isinstance(stimulus, CameraMove):
                moved = stimulus.pixel_map(step.params, camera) @ moved
        return moved

    def _with(self, stimuli: Mapping[str, Stimulus]) -> Iterator[tuple[Step, Stimulus]]:
        for step in self.steps:
            try:
                found = stimuli[step.stimulus]
            except KeyError:
                raise UnknownNameError.among("stimulus", step.stimulus, stimuli) from None
            yield step, found

    def __str__(self) -> str:
        return " + ".join(map(str, self.steps)) or "original"


def grid_recipes(stimuli: Mapping[str, Stimulus]) -> tuple[Recipe, ...]:
    """Returns one recipe of one step for each row of each stimulus's grid, stimulus by stimulus."""
    return tuple(Recipe.of(name, params) for name, stimulus in stimuli.items() for params in stimulus.space.grid)
