"""Stimuli by name: where they are registered, and how they are written on the command line, in a campaign's TOML and in a test.

fog                                 a name; its parameters are drawn from its grid
fog(visibility_m=100)               with parameters; those left out have their usual value
rotation(angle_deg=5)+fog           one after the other
weather:rain(style=3)               a learned weather, by name or by the path of its card
my_module:MyStimulus                a class of your own
original                            nothing

A new stimulus is a file, a `register` line and a row in `AGREEMENT` (`pictures/torch_kernels.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import Camera, Capture, FloatArray
from skidpad.core.registry import Registry
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import CameraMove, Condition, F, Params, Recipe, Severity, Space, Step, Stimulus, Value, current_name

TRANSFORMS: Registry[Callable[[], Stimulus]] = Registry(
    "transform",
    "transforms",
    (
        "skidpad.stimuli.pictures.deeptest",
        *(
            f"skidpad.stimuli.conditions.{name}"
            for name in (
                "atmosphere",
                "precipitation",
                "light",
                "shadows",
                "tone",
                "sensor",
                "lens",
                "glass",
                "soiling",
                "mounting",
                "timing",
            )
        ),
    ),
    {"weather": "skidpad.stimuli.weather.stimulus:named_weather"},
)


SIMPLE = ("translation", "scale", "shear", "rotation", "contrast", "brightness", "blur")
"""The seven of RQ2 and RQ3, in the order of DeepTest's Table 4."""

COMPOSITE = ("deeptest-fog", "deeptest-rain")
"""The layered effects, which DeepTest's Eq. 3 does not filter (section 5, Tables 7 and 8)."""


class Made(dict[str, Stimulus]):
    """Stimuli by name; DeepTest's fog and rain can be looked up in any, since recipes of a run that called them otherwise ask for them."""

    def __missing__(self, name: str) -> Stimulus:
        if name not in COMPOSITE:
            raise KeyError(name)
        return _made(name)


class Preset(Enum):
    """Which stimuli are tried where none is named: conditions in physical units, or those of DeepTest's Table 4 to the letter."""

    CONDITIONS = "conditions"
    DEEPTEST = "deeptest"


def preset_stimuli(preset: Preset) -> Mapping[str, Stimulus]:
    """Makes the stimuli of a preset."""
    if preset is Preset.DEEPTEST:
        return stimuli((*SIMPLE, *COMPOSITE))
    made = stimuli()
    return {name: stimulus for name, stimulus in made.items() if isinstance(stimulus, Condition)}


def stimuli(names: Iterable[str] | None = None) -> Mapping[str, Stimulus]:
    """Makes the named stimuli, or all registered ones, with their default settings, as `Recipe.apply` takes them."""
    return Made({name: _made(name) for name in _names(names)})


def _made(name: str) -> Stimulus:
    try:
        row = TRANSFORMS.get(name)
    except UnknownNameError as error:
        from skidpad.stimuli.weather.pretrained import pretrained_names  # noqa: PLC0415  only to help

        if name in pretrained_names():
            raise UnknownNameError(f"no transform named {name!r}; did you mean 'weather:{name}'?") from error
        raise
    made = row() if callable(row) else row
    if not isinstance(getattr(made, "space", None), Space) or not callable(getattr(made, "apply", None)):
        raise BadParametersError(f"{name!r} is no stimulus: one has a `space` (a Space) and `apply(frames, params)`; got {made!r}")
    return made


def _names(names: Iterable[str] | None) -> tuple[str, ...]:
    """Puts the paper's order first: the registry's own hangs on which module was imported before which."""
    if names is not None:
        return tuple(names)
    paper = (*SIMPLE, *COMPOSITE)
    return (*paper, *(name for name in TRANSFORMS.names() if name not in paper))


ORIGINAL = Recipe().name
_OUTSIDE_BRACKETS = r"(?![^()]*\))"
_STEP = re.compile(r"\s*(?P<name>[^()+]*[^()+\s])\s*(?:\((?P<pairs>[^()]+)\))?\s*")


@dataclass(frozen=True, slots=True)
class WrittenStimulus:
    """One stimulus as it was written: steps, with None for parameters that are to be drawn."""

    text: str
    steps: tuple[tuple[str, Params | None], ...]

    def recipe(self, stimuli: Mapping[str, Stimulus], seed: int, scenario: int) -> Recipe:
        """Draws the parameters that were left open from the grids, for one scenario."""
        rng = child_rng(seed, "camera", self.text, scenario)
        return Recipe(tuple(Step(name, stimuli[name].space.pick(rng) if params is None else params) for name, params in self.steps))

    def grid(self, stimuli: Mapping[str, Stimulus]) -> tuple[Recipe, ...]:
        """Returns the grid: each row of what was left open, several steps row by row."""
        rows = min((len(stimuli[name].space.grid) for name, params in self.steps if params is None), default=1)
        return tuple(
            Recipe(tuple(Step(name, stimuli[name].space.grid[row] if params is None else params) for name, params in self.steps))
            for row in range(rows)
        )


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A stimulus of which some rows alone are tried."""

    stimulus: Any
    space: Space

    def apply(self, frames: F, params: Params) -> F:
        """Returns the changed frames."""
        changed: F = self.stimulus.apply(frames, params)
        return changed

    @property
    def sha256(self) -> str:
        """The hash of the model behind the stimulus, "" where there is none."""
        return str(getattr(self.stimulus, "sha256", ""))


@dataclass(frozen=True, slots=True)
class NarrowedCondition(Narrowed):
    """A condition of which some rows alone are tried."""

    @property
    def severities(self) -> tuple[Severity, ...]:
        """The ways in which the condition gets harder."""
        found: tuple[Severity, ...] = self.stimulus.severities
        return found

    @property
    def past_s(self) -> float:
        """How far back the condition's frames may come from."""
        return float(getattr(self.stimulus, "past_s", 0.0))

    def apply_at(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the changed frames."""
        changed: F = self.stimulus.apply_at(frames, params, capture)
        return changed


@dataclass(frozen=True, slots=True)
class NarrowedCameraMove(NarrowedCondition):
    """A move of the camera of which some rows alone are tried."""

    def reference(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the unmoved pictures, cut alike."""
        cut: F = self.stimulus.reference(frames, params, capture)
        return cut

    def pixel_map(self, params: Params, camera: Camera) -> FloatArray:
        """Returns the homography of the move."""
        return np.asarray(self.stimulus.pixel_map(params, camera), np.float64)

    def moved_rad(self, steering_rad: FloatArray, params: Params) -> FloatArray:
        """Returns the right steering from the moved place."""
        return np.asarray(self.stimulus.moved_rad(steering_rad, params), np.float64)


def narrowed(stimulus: Stimulus, space: Space) -> Stimulus:
    """Returns the stimulus with the rows of another grid."""
    if space == stimulus.space:
        return stimulus
    kind = NarrowedCameraMove if isinstance(stimulus, CameraMove) else NarrowedCondition if isinstance(stimulus, Condition) else Narrowed
    return kind(stimulus, space)


def conditions_of(texts: Sequence[str]) -> tuple[tuple[WrittenStimulus, ...], Mapping[str, Stimulus]]:
    """Reads stimuli, and makes what they name; without any, the one condition in which nothing is changed."""
    conditions = tuple(map(_read, texts or (ORIGINAL,)))
    if len({condition.text for condition in conditions}) != len(conditions):
        raise BadParametersError(f"each stimulus is named once; got {', '.join(texts)}")
    made = stimuli(dict.fromkeys(name for condition in conditions for name, _ in condition.steps))
    return tuple(read(condition.text, made) for condition in conditions), made


def stimuli_of(texts: Sequence[str]) -> Mapping[str, Stimulus]:
    """Makes the stimuli that texts name, each with the rows that it is to be tried with: its own grid, or what was given for it."""
    conditions, made = conditions_of(texts)
    if any(not condition.steps for condition in conditions):
        raise BadParametersError(f"{ORIGINAL!r} changes nothing, so that there is nothing to compare; name a stimulus, as fog")
    rows: dict[str, dict[Params, None]] = {name: {} for name in made}
    for condition in conditions:
        for name, params in condition.steps:
            rows[name] |= dict.fromkeys(made[name].space.grid if params is None else (params,))
    spaces = {name: Space(made[name].space.parameters, tuple(rows[name])) for name in made}
    return Made({name: narrowed(stimulus, spaces[name]) for name, stimulus in made.items()})


def read(text: str, stimuli: Mapping[str, Stimulus]) -> WrittenStimulus:
    """Reads one stimulus and checks its parameters; those that were left out beside others have their usual value."""
    condition = _read(text)
    steps: list[tuple[str, Params | None]] = []
    for name, given in condition.steps:
        space = stimuli[name].space
        params = given
        if given is not None:
            params = space.filled(name, given)
            space.check(name, params)
        steps.append((name, params))
    return WrittenStimulus(condition.text, tuple(steps))


def names_in(text: str) -> tuple[str, ...]:
    """Returns the names of a text's steps; nothing is made or imported."""
    return tuple(name for name, _ in _read(text).steps)


def split_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the stimuli of texts that may hold several, separated by commas outside brackets."""
    return tuple(part.strip() for text in texts for part in re.split("," + _OUTSIDE_BRACKETS, text) if part.strip())


def allow_typed(texts: Iterable[str]) -> None:
    """Takes the word of a person who typed these stimuli: code that they name may run."""
    TRANSFORMS.allow(name for text in texts for name in names_in(text))


def model_hashes(stimuli: Mapping[str, Stimulus]) -> Mapping[str, str]:
    """Returns the hashes of the models behind stimuli, for a manifest."""
    found = {f"stimulus {name}": str(getattr(stimulus, "sha256", "")) for name, stimulus in stimuli.items()}
    return {name: sha256 for name, sha256 in found.items() if sha256}


def _read(text: str) -> WrittenStimulus:
    if text.strip() == ORIGINAL:
        return WrittenStimulus(ORIGINAL, ())
    steps, words = [], []
    for part in re.split(r"\+" + _OUTSIDE_BRACKETS, text):
        match = _STEP.fullmatch(part)
        pairs = [tuple(map(str.strip, pair.partition("=")[::2])) for pair in (match["pairs"] or "").split(",")] if match else []
        if match is None or (match["pairs"] and not all(key and value for key, value in pairs)):
            raise BadParametersError(
                f"a stimulus is a name, or a name with parameters as blur(kind=gaussian,size=5), joined by +; got {text!r}"
            )
        given = match["pairs"] is not None
        name = current_name(match["name"], (key for key, _ in pairs))
        steps.append((name, Params(**{key: _value(value) for key, value in pairs}) if given else None))
        words.append(name + (f"({','.join(f'{key}={value}' for key, value in pairs)})" if given else ""))
    return WrittenStimulus("+".join(words), tuple(steps))


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
