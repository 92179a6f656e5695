"""What is bundled: small files that load, and weathers that keep the scene and are what they are called."""

from pathlib import Path

import numpy as np
import pytest
import torch

from skidpad.core.errors import UnknownNameError
from skidpad.core.images import NumpyFrames
from skidpad.core.stimuli import Params
from skidpad.drives import open_drive
from skidpad.referee.network import drivable_iou, load_road_net
from skidpad.stimuli.weather.classifier import WeatherClassifier
from skidpad.stimuli.weather.pretrained import CLASSIFIER, classifier_path, pretrained_weather, weather_path
from skidpad.stimuli.weather.stimulus import LearnedWeather, named_weather
from skidpad.stimuli.weather.translation import Weather


@pytest.fixture(scope="module")
def frames() -> NumpyFrames:
    """Six frames of a rendered drive that nothing was learned from."""
    drive = open_drive("rendered?frames=600&seed=5")
    return next(iter(drive.select(list(range(50, 600, 100))).batches(6))).frames


@pytest.fixture(scope="module")
def judge() -> WeatherClassifier:
    return WeatherClassifier.load(classifier_path(CLASSIFIER))


def test_the_classifier_is_small_and_knows_a_clear_day(judge: WeatherClassifier, frames: NumpyFrames) -> None:
    assert classifier_path(CLASSIFIER).with_suffix(".safetensors").stat().st_size < 500_000
    assert judge.card.rendered
    assert judge.card.accuracy > 0.95
    assert [judge.classes[label] for label in judge.labels(frames)] == ["clear"] * len(frames)


@pytest.mark.parametrize("name", ["dusk", "night", "rain"])
def test_a_weather_keeps_the_road_of_a_rendered_drive(name: str, frames: NumpyFrames) -> None:
    path = pretrained_weather(name)
    assert path.with_suffix(".safetensors").stat().st_size <= 2_500_000
    weather = Weather.load(path)
    assert weather.card.name == name
    assert weather.card.size_px == 160
    assert weather.card.styles is not None
    some = frames[:3]
    translated = weather.translate(some, torch.tensor(weather.card.styles.mean))
    assert np.abs(translated.astype(int) - some).mean() > 10
    assert drivable_iou(load_road_net(), some, translated).min() > 0.8


def test_other_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="no bundled weather named 'hail'"):
        pretrained_weather("hail")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nigth", "no weather named 'nigth'; did you mean 'night'? Bundled: dusk, night, rain; name one of your own by its file"),
        ("raim.toml", "no weather named 'raim'; did you mean 'rain'?"),
        ("hail", "no weather named 'hail'; bundled: dusk, night, rain; name one of your own by its file, as weathers/hail.toml"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest_and_all(text: str, said: str) -> None:
    for ask in (weather_path, named_weather):
        with pytest.raises(UnknownNameError) as refused:
            ask(text)
        assert str(refused.value).startswith(said)
    assert weather_path(f"weathers/{text}") == Path("weathers", text)


@pytest.mark.parametrize("text", ["", " ", ".", "/"])
def test_an_empty_name_is_answered_with_what_to_give(text: str) -> None:
    for ask in (weather_path, named_weather):
        with pytest.raises(UnknownNameError, match=r"bundled name \(dusk, night, rain\) or the path of a card; got ") as refused:
            ask(text)
        assert str(refused.value).endswith(repr(text))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("rain+rain(mm_per_h=10)", "'weather:rain+rain(mm_per_h=10)'"),
        ("weather:rain+fog(visibility_m=0.5)", "'weather:rain+fog(visibility_m=0.5)'"),
        ("weather:rain", "weather:rain"),
        ("weather:weathers/mine.toml", "weather:weathers/mine.toml"),
    ],
)
def test_a_stimulus_in_the_place_of_a_weather_is_answered_with_where_it_belongs(text: str, written: str) -> None:
    with pytest.raises(UnknownNameError, match="for `skidpad test --transforms` and `skidpad drive --stimulus`") as refused:
        weather_path(text)
    assert str(refused.value).endswith(f"as --transforms {written}")


def test_a_file_with_a_plus_in_its_name_is_a_weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rain+fog.toml").write_text("")
    assert weather_path("rain+fog") == Path("rain+fog")
    assert weather_path("gone/rain+fog") == Path("gone/rain+fog")


@pytest.mark.parametrize("text", ["demo-rain", "site-packages/pretrained/demo-rain.toml"])
def test_a_weather_of_former_versions_is_named_with_what_replaced_it(text: str) -> None:
    with pytest.raises(UnknownNameError, match="'demo-rain' is no longer bundled; use 'rain'"):
        weather_path(text)


def test_a_drive_is_under_one_style_whether_its_frames_come_together_or_one_by_one() -> None:
    weather = LearnedWeather(weather_path("rain"))
    frames = np.random.default_rng(0).integers(0, 256, (5, 48, 64, 3), np.uint8)
    clip = weather.apply(frames, Params(style=3))
    alone = np.concatenate([weather.apply(frames[place : place + 1], Params(style=3)) for place in range(len(frames))])
    np.testing.assert_array_equal(alone, clip)
    assert not np.array_equal(weather.apply(frames, Params(style=4)), clip)


def test_a_folder_of_pictures_does_not_hide_a_bundled_weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "night").mkdir()
    assert weather_path("night") == pretrained_weather("night")
    (tmp_path / "night.toml").write_text("")
    assert weather_path("night") == Path("night")
