"""What sits in front of the camera: a transform by name, with parameters drawn for each scenario or given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skidpad.campaigns.online_settings import ORIGINAL
from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, Frames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params, Recipe, Step, Stimulus, Value
from skidpad.transforms import stimuli as transforms


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of `stimuli`: names joined by +, each with parameters in brackets where they are not to be drawn.

    `original`, `fog`, `fog+blur`, `brightness(shift=40)`; `fog(density=0.9)` has the usual seed.
    """

    text: str
    steps: tuple[tuple[str, Params | None], ...]

    def recipe(self, stimuli: Mapping[str, Stimulus], seed: int, scenario: int) -> Recipe:
        """Draws the parameters that were left open from the grids, for one scenario."""
        rng = child_rng(seed, "camera", self.text, scenario)
        return Recipe(tuple(Step(name, stimuli[name].space.pick(rng) if params is None else params) for name, params in self.steps))


def conditions_of(texts: Sequence[str]) -> tuple[tuple[Condition, ...], Mapping[str, Stimulus]]:
    """Reads the entries of `stimuli`, and makes the transforms that they name; without entries, one camera with nothing in front."""
    conditions = tuple(_read(text) for text in texts or (ORIGINAL,))
    if len({condition.text for condition in conditions}) != len(conditions):
        raise BadParametersError(f"each stimulus is named once; got {', '.join(texts)}")
    made = transforms(dict.fromkeys(name for condition in conditions for name, _ in condition.steps))
    return tuple(_completed(condition, made) for condition in conditions), made


def _completed(condition: Condition, stimuli: Mapping[str, Stimulus]) -> Condition:
    steps: list[tuple[str, Params | None]] = []
    for name, given in condition.steps:
        space = stimuli[name].space
        params = given
        if given is not None:
            params = space.filled(name, given)
            space.check(name, params)
        steps.append((name, params))
    return Condition(condition.text, tuple(steps))


def seen(frames: Frames, recipes: Sequence[Recipe], stimuli: Mapping[str, Stimulus], running: BoolArray | None = None) -> Frames:
    """Returns what each car's subject sees, (N, height, width, 3), where the frames are; a car's picture does not hang on its neighbours.

    running: (N,), who still looks; the others' pictures stay as they are.
    """
    looking = [k for k, recipe in enumerate(recipes) if recipe.steps and (running is None or running[k])]
    if not looking:
        return frames
    shown = frames.copy() if isinstance(frames, np.ndarray) else frames.clone()
    for k in looking:
        shown[k] = recipes[k].apply(frames[k : k + 1], stimuli)[0]
    return shown


def _read(text: str) -> Condition:
    words = text.replace(" ", "")
    if words == ORIGINAL:
        return Condition(words, ())
    return Condition(words, tuple(_read_step(part, text) for part in words.split("+")))


def _read_step(part: str, text: str) -> tuple[str, Params | None]:
    name, bracket, rest = part.partition("(")
    if not bracket:
        return name, None
    pairs = [pair.partition("=") for pair in rest.removesuffix(")").split(",")]
    if not name or not rest.endswith(")") or any(not key or not value for key, _, value in pairs):
        raise BadParametersError(f"a stimulus is a name, or a name with parameters as blur(kind=gaussian,size_px=5); got {text!r}")
    return name, Params(**{key: _value(value) for key, _, value in pairs})


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
