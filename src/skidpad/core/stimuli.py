"""What changes the frames a subject sees: parameter spaces, recipes, and the Stimulus protocol."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import Frames

Value = float | int | str
F = TypeVar("F", bound=Frames)


class Params(Mapping[str, Value]):
    """Immutable, hashable parameters of one stimulus, as `Params(dx_px=10, dy_px=10)`."""

    __slots__ = ("_items",)

    def __init__(self, **values: Value) -> None:
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


@dataclass(frozen=True, slots=True)
class Step:
    """One stimulus by name with its parameters."""

    stimulus: str
    params: Params

    def __str__(self) -> str:
        return f"{self.stimulus}({self.params})"


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
        """Reads what `to_json` wrote."""
        return cls(tuple(Step(stimulus, Params(**params)) for stimulus, params in json.loads(text)))

    def apply(self, frames: F, stimuli: Mapping[str, Stimulus]) -> F:
        """Applies each step to the result of the one before it."""
        for step in self.steps:
            if step.stimulus not in stimuli:
                raise UnknownNameError.among("stimulus", step.stimulus, stimuli)
            stimulus = stimuli[step.stimulus]
            stimulus.space.check(step.stimulus, step.params)
            frames = stimulus.apply(frames, step.params)
        return frames

    def __str__(self) -> str:
        return " + ".join(map(str, self.steps)) or "original"


def grid_recipes(stimuli: Mapping[str, Stimulus]) -> tuple[Recipe, ...]:
    """Returns one recipe of one step for each row of each stimulus's grid, stimulus by stimulus."""
    return tuple(Recipe.of(name, params) for name, stimulus in stimuli.items() for params in stimulus.space.grid)
