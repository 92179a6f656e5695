"""Which filter of scenes a search uses, by the word or the file that names it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.weather.classifier import WeatherClassifier
from skidpad.weather.validity import StructureAndClass, StructureKept, target_class

if TYPE_CHECKING:
    from skidpad.weather.files import WeatherCard
    from skidpad.weather.validity import SceneFilter

OFF, STRUCTURE = "off", "structure"


def filter_of(text: str, weather: WeatherCard, device: str = "cpu") -> SceneFilter | None:
    """Returns the filter that a setting names: none for `off` or nothing, `structure`, or the file of a classifier of weathers.

    weather: whose class is asked for; FILE=CLASS names another.
    """
    if text in {"", OFF}:
        return None
    if text == STRUCTURE:
        return StructureKept()
    file, label = file_and_class(text)
    classifier = WeatherClassifier.load(Path(file), device)
    return StructureAndClass(classifier, target_class(classifier.card, weather, label))


def file_and_class(text: str) -> tuple[str, str]:
    """Takes FILE=CLASS apart; the class is empty where none is named. Folders may have an = in their names."""
    name, _, label = Path(text).name.partition("=")
    return str(Path(text).with_name(name)) if label else text, label
