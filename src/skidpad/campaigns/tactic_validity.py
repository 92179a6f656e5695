"""Which filter of scenes a search uses, by the word or the file that names it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.weather.classifier import WeatherClassifier
from skidpad.weather.validity import StructureAndClass, StructureKept

if TYPE_CHECKING:
    from skidpad.weather.validity import SceneFilter

OFF, STRUCTURE = "off", "structure"


def filter_of(text: str, weather: str, device: str = "cpu") -> SceneFilter | None:
    """Returns the filter that a setting names: none for `off` or nothing, `structure`, or the file of a classifier of weathers.

    weather: the name of the weather, which must be a class of the classifier.
    """
    if text in {"", OFF}:
        return None
    if text == STRUCTURE:
        return StructureKept()
    return StructureAndClass(WeatherClassifier.load(Path(text), device), weather)
