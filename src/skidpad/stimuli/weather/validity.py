"""Which translations of a scene may count: those that kept its structure, and that show the weather they are meant to show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import BoolArray, Frames
from skidpad.core.structure import Structure, structure_of
from skidpad.stimuli.weather.classifier import ClassifierCard, WeatherClassifier
from skidpad.stimuli.weather.files import WeatherCard

LEAST_LIKENESS = 0.45
"""Calibrated on real pairs (docs/research/weather.md): scenes of another place, mirrored, flat or blurred out lie below, the same scene
in light or darkness, in DeepTest's fog and rain and in learned weathers above."""

LEAST_POLARITY = 0.0
"""More edges keep their sign than turn it. Translators like to paint negatives, with black lane markings, which no weather does."""

LEAST_DETAIL = 0.35
"""Between what kept the scene (0.36 and more) and smears in its large shapes (2 of 128 above); a picture reduced to
24 pixels and enlarged again has about 0.4, one reduced to 16 has 0.25 (docs/research/weather.md)."""


def target_class(classes: ClassifierCard, weather: WeatherCard, named: str = "") -> str:
    """Returns the class that a weather's scenes belong in: the one named, or that of its folder, or that of its name.

    The folder is the one that the weather was learned from, where a class is called so; by name as in `ClassifierCard.class_named`.
    """
    folder = Path(weather.target).name
    try:
        return classes.class_named(named or (folder if folder in classes.classes else weather.name))
    except UnknownNameError as error:
        if named:
            raise
        raise UnknownNameError(f"{error} (to say which class the weather {weather.name!r} is: FILE=CLASS)") from error


class SceneFilter(Protocol):
    """Tells which translations may count."""

    def accepts(self, sources: Frames, translated: Frames) -> BoolArray:
        """Returns one truth value for each pair, (N,); frames are uint8 (N, height, width, 3), the two of any sizes."""


@dataclass(frozen=True, slots=True)
class StructureKept:
    """Accepts what kept the scene, whatever weather it shows."""

    least_likeness: float = LEAST_LIKENESS
    least_polarity: float = LEAST_POLARITY
    least_detail: float = LEAST_DETAIL

    def __post_init__(self) -> None:
        for name in ("least_likeness", "least_polarity"):
            if not -1.0 <= getattr(self, name) <= 1.0:
                raise BadParametersError(f"{name} lies within -1 and 1; got {getattr(self, name)}")
        if not 0.0 <= self.least_detail <= 1.0:
            raise BadParametersError(f"least_detail lies within 0 and 1; got {self.least_detail}")

    def accepts(self, sources: Frames, translated: Frames) -> BoolArray:
        """Returns which translations kept the scene."""
        return self.judges(structure_of(sources, translated))

    def judges(self, found: Structure) -> BoolArray:
        """Returns which measured pairs are the same scene."""
        alike = (found.likeness >= self.least_likeness) & (found.polarity >= self.least_polarity)
        return np.asarray(alike & (found.detail >= self.least_detail))


class StructureAndClass:
    """Accepts what kept the scene and is classified as the target weather; target: a class, or a weather named after one."""

    def __init__(self, classifier: WeatherClassifier, target: str, structure: StructureKept | None = None) -> None:
        self.structure = structure or StructureKept()
        self.classifier = classifier
        self.target = classifier.card.class_named(target)
        self._place = classifier.card.place(self.target)

    def accepts(self, sources: Frames, translated: Frames) -> BoolArray:
        """Returns which translations kept the scene and show the target weather."""
        right = np.asarray(self.classifier.labels(translated) == self._place, np.bool_)
        return np.logical_and(self.structure.accepts(sources, translated), right)
