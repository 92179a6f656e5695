"""Realism while a weather is learned: figures that can be read beside their controls, and a training that they leave alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from weather_toys import TINY

from skidpad.core.images import NumpyFrames
from skidpad.stimuli.weather.classifier import WeatherClassifier
from skidpad.stimuli.weather.gauge import MOST, RealismGauge, RoadRow, pictures_to_measure
from skidpad.stimuli.weather.pretrained import CLASSIFIER, classifier_path
from skidpad.stimuli.weather.realism import as_stored
from skidpad.stimuli.weather.scenes import Scenes
from skidpad.stimuli.weather.settings import Method, WeatherSettings, preset
from skidpad.stimuli.weather.training import Guide, Training


def scenes(name: str, brightness: int, count: int = 40) -> Scenes:
    rng = np.random.default_rng(brightness)
    grey = rng.normal(brightness, 12.0, (count, 1, 1, 3)) + rng.normal(0.0, 10.0, (count, 32, 40, 3))
    pictures = np.clip(grey, 0, 255).astype(np.uint8)
    return Scenes(name, tuple(map(torch.from_numpy, pictures)), 0, name * 8)


DAY, NIGHT = scenes("day", 170), scenes("night", 50)


def settings(method: Method = Method.MUNIT, **changes: object) -> WeatherSettings:
    small = preset("small", method, steps=4, batch_size=1, size_px=32, crop_px=32)
    return replace(small, sizes=TINY, weights=replace(small.weights, road=0.0), alike=0.0, **changes)  # type: ignore[arg-type] # by name


def frames(some: Scenes) -> list[NumpyFrames]:
    return [picture.numpy() for picture in some.pictures]


class Imposed(RealismGauge):
    """Measures given pictures instead of translated ones."""

    given: list[NumpyFrames]

    def _translated(self, weights: object) -> list[NumpyFrames]:
        return self.given


def test_the_figures_lie_between_their_controls() -> None:
    gauge = Imposed(DAY, NIGHT, replace(settings(), steps=4000))
    assert gauge.controls.pictures == 20
    assert gauge.controls.untranslated.told == 1.0
    assert gauge.controls.untranslated.nearer == 0.0
    assert 0.2 <= gauge.controls.real.told <= 0.75
    assert gauge.controls.real.nearer is not None
    assert gauge.controls.real.nearer > 0.9
    gauge.given = frames(scenes("another night", 51, 20))
    perfect = gauge.measure(7, {})
    assert (perfect.step, perfect.in_class) == (7, None)
    assert perfect.told <= 0.75
    assert perfect.nearer is not None
    assert perfect.nearer > 0.9
    gauge.given = frames(scenes("half way", 110, 20))
    half = gauge.measure(8, {})
    assert half.nearer is not None
    assert 0.0 < half.nearer < perfect.nearer
    gauge.given = [picture.numpy() for picture in gauge._scenes]
    assert gauge.measure(9, {}) == replace(gauge.controls.untranslated, step=9)


@pytest.mark.parametrize("method", [Method.MUNIT, Method.UNIT])
@pytest.mark.parametrize("real_styles", [0.0, 0.5])
def test_a_training_learns_the_same_while_it_is_measured(method: Method, real_styles: float, tmp_path: Path) -> None:
    chosen = settings(method, real_styles=real_styles, detail=0.5)
    plain, watched = Training(DAY, NIGHT, chosen), Training(DAY, NIGHT, chosen)
    gauge = RealismGauge(DAY, NIGHT, chosen)
    plain.run()

    def watch(training: Training) -> None:
        training.realism.append(gauge.measure(training.step, training.kept_weights()))
        training.roads.append(RoadRow(training.step, (0.9, 1.0 / (1 + training.step))))

    watched.run(checkpoint=tmp_path / "checkpoint.pt", watch=watch)
    for name, weight in plain.kept_weights().items():
        assert torch.equal(weight, watched.kept_weights()[name])
    assert [point.step for point in watched.realism] == [1, 2, 3, 4]
    assert all(0.0 <= point.told <= 1.0 for point in watched.realism)
    assert gauge.measure(4, watched.kept_weights()) == watched.realism[-1]
    resumed = Training(DAY, NIGHT, chosen)
    resumed.restore(tmp_path / "checkpoint.pt")
    assert resumed.realism == watched.realism
    assert resumed.roads == watched.roads
    assert [(row.step, row.lost) for row in resumed.roads] == [(step, 1) for step in (1, 2, 3, 4)]


def test_the_class_is_that_of_the_guide() -> None:
    guide = Guide(WeatherClassifier.load(classifier_path(CLASSIFIER)), "rain")
    gauge = Imposed(DAY, NIGHT, settings(), guide)
    given = frames(DAY)[:5] + frames(NIGHT)[:3]
    called = guide.classifier.labels(as_stored(given))
    for label in guide.classifier.classes:
        named = Imposed(DAY, NIGHT, settings(), Guide(guide.classifier, label))
        named.given = given
        assert named.measure(1, {}).in_class == (called == guide.classifier.card.place(label)).mean()
        assert named.controls.label == label
    plain = guide.classifier.labels(as_stored([picture.numpy() for picture in gauge._scenes]))
    assert gauge.controls.untranslated.in_class == (plain == guide.classifier.card.place("rain")).mean()


def test_as_many_pictures_as_a_training_can_afford() -> None:
    many = replace(DAY, pictures=DAY.pictures * 10)
    assert pictures_to_measure(many, many, settings()) == 8
    assert pictures_to_measure(many, many, replace(settings(), steps=4000)) == MOST
    assert pictures_to_measure(many, replace(NIGHT, pictures=NIGHT.pictures[:15]), settings()) == 7
    with pytest.raises(ValueError, match="too few pictures"):
        RealismGauge(DAY, replace(NIGHT, pictures=NIGHT.pictures[:15]), settings())
