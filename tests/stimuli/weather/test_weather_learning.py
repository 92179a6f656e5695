"""Scenes, training, files and translation of a weather."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from skidpad.core.errors import BadDriveError, BadParametersError, UnknownNameError
from skidpad.core.images import encode
from skidpad.core.stimuli import Params
from skidpad.stimuli.weather.files import BadWeatherError, Styles, WeatherCard, load_weather, save_weather
from skidpad.stimuli.weather.scenes import as_frames, as_signed, load_scenes, working_size
from skidpad.stimuli.weather.settings import LossWeights, Method, Sizes, WeatherSettings, preset
from skidpad.stimuli.weather.training import Training
from skidpad.stimuli.weather.translation import Weather, WeatherStimulus

TINY = WeatherSettings(
    sizes=Sizes(filters=4, blocks=1, style=3, hidden=8, scales=1), size_px=32, crop_px=32, steps=4, batch_size=2, learning_rate=1e-3
)


def write_pictures(folder: Path, brightness: int, count: int = 10) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(brightness)
    for number in range(count):
        picture = np.clip(rng.normal(brightness, 30.0, (48, 64, 3)) + np.array([20.0, 0.0, -20.0]), 0, 255).astype(np.uint8)
        (folder / f"{number:03d}.png").write_bytes(encode(cv2.GaussianBlur(picture, (9, 9), 0)))
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return write_pictures(tmp_path / "day", 170), write_pictures(tmp_path / "night", 50)


def training(folders: tuple[Path, Path], settings: WeatherSettings = TINY) -> Training:
    source, target = (load_scenes(str(folder), settings.size_px, settings.sizes.stride) for folder in folders)
    return Training(source, target, settings)


def test_scenes_keep_their_aspect_and_come_in_squares(folders: tuple[Path, Path]) -> None:
    scenes = load_scenes(str(folders[0]), 32, 4)
    assert {tuple(picture.shape) for picture in scenes.pictures} == {(32, 44, 3)}
    cut = scenes.cut(np.random.default_rng(0), 5, 24)
    assert tuple(cut.shape) == (5, 3, 24, 24)
    assert -1.0 <= float(cut.min()) < float(cut.max()) <= 1.0
    assert torch.equal(cut, scenes.cut(np.random.default_rng(0), 5, 24))
    assert len(load_scenes(str(folders[0]), 32, 4, limit=8)) == 8
    assert (scenes.enlarged, scenes.smallest_px) == (0, 48)
    assert load_scenes(str(folders[0]), 64, 4).enlarged == 10


@pytest.mark.parametrize(("height", "width", "expected"), [(240, 320, (256, 340)), (256, 256, (256, 256)), (320, 240, (340, 256))])
def test_the_shorter_side_has_the_working_size(height: int, width: int, expected: tuple[int, int]) -> None:
    assert working_size(height, width, 256, 4) == expected


def test_bytes_survive_the_way_to_signed_numbers_and_back() -> None:
    frames = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16, 1).expand(1, 16, 16, 3)
    assert torch.equal(as_frames(as_signed(frames)), frames)


def test_bad_pictures_end_in_clear_words(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "a.png").write_bytes(encode(np.zeros((48, 64, 3), np.uint8)))
    (tmp_path / "few" / "b.png").write_bytes(b"no picture")
    with pytest.raises(BadDriveError, match=r"has 1 readable pictures \(1 broken\)"):
        load_scenes(str(tmp_path / "few"), 32, 4)
    grey = tmp_path / "grey"
    grey.mkdir()
    for number in range(9):
        (grey / f"{number}.png").write_bytes(encode(np.full((48, 64, 3), number * 20, np.uint8)))
    with pytest.raises(BadDriveError, match="are grey"):
        load_scenes(str(grey), 32, 4)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadDriveError):
        load_scenes(str(tmp_path / "empty"), 32, 4)
    for limit in (-1, 0, 7):
        with pytest.raises(BadParametersError, match=f"at least 8 pictures of each set, better a thousand; got --limit {limit}$"):
            load_scenes(str(grey), 32, 4, limit)


@pytest.mark.parametrize("method", Method)
def test_a_stopped_training_ends_as_one_never_stopped(method: Method, folders: tuple[Path, Path], tmp_path: Path) -> None:
    settings = replace(TINY, method=method)
    whole = training(folders, settings)
    whole.run()
    checkpoint = tmp_path / "checkpoint.pt"
    first = training(folders, settings)
    for _ in range(2):
        first._fill_buffers()
        first._advance()
        first.step += 1
    first.save(checkpoint)
    second = training(folders, settings)
    second.run(checkpoint=checkpoint)
    assert second.step == settings.steps
    for name, weight in whole.kept_weights().items():
        assert torch.equal(weight, second.kept_weights()[name]), name
    other = training(folders, replace(settings, seed=1))
    with pytest.raises(BadParametersError, match=r"another training \(seed was 0 and is 1\); remove it"):
        other.restore(checkpoint)
    longer = training(folders, replace(settings, steps=9, weights=LossWeights(contrast=2.0)))
    with pytest.raises(BadParametersError, match=r"\(steps was 4 and is 9; contrast of weights was 0.0 and is 2.0\)"):
        longer.restore(checkpoint)
    fewer = Training(load_scenes(str(folders[0]), 32, 4, 8), load_scenes(str(folders[1]), 32, 4), settings)
    with pytest.raises(BadParametersError, match=r"\(source pictures was 10 \(\w{8}\) and is 8 \(\w{8}\)\)"):
        fewer.restore(checkpoint)
    told = torch.load(checkpoint, weights_only=True)
    del told["given"]  # as an earlier version wrote it
    torch.save(told, checkpoint)
    training(folders, settings).restore(checkpoint)
    with pytest.raises(BadParametersError, match=r"another training \(pictures or settings differ\)"):
        other.restore(checkpoint)
    checkpoint.write_bytes(b"no checkpoint")
    with pytest.raises(BadParametersError, match="no whole checkpoint"):
        other.restore(checkpoint)


def test_a_training_learns_the_brightness_of_the_night(folders: tuple[Path, Path]) -> None:
    settings = replace(TINY, method=Method.UNIT, steps=60, learning_rate=2e-3, ema=0.9, weights=LossWeights(cycle=1.0))
    learned = training(folders, settings)
    learned.run()
    assert learned.curve[-1].losses["image"] < 0.9 * learned.curve[0].losses["image"]
    weather = Weather(card(settings), learned.kept_weights())
    day = as_frames(load_scenes(str(folders[0]), 32, 4).cut(np.random.default_rng(0), 6, 32)).numpy()
    assert weather.translate(day).mean() < day.mean() - 40


@pytest.mark.parametrize("method", Method)
def test_the_losses_in_bfloat16_are_those_in_float32(method: Method, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that multiplies bfloat16 faster uses it; any processor can compute it."""
    settings = replace(TINY, method=method, steps=1, weights=LossWeights(contrast=1.0))
    found = []
    for is_half in (False, True):
        monkeypatch.setattr("skidpad.stimuli.weather.training.has_fast_bfloat16", lambda is_half=is_half: is_half)
        learned = training(folders, settings)
        learned.run()
        found.append(learned.curve[-1].losses)
    assert found[1] != found[0]
    assert found[1] == pytest.approx(found[0], rel=0.03, abs=0.01)


def card(settings: WeatherSettings, name: str = "night") -> WeatherCard:
    return WeatherCard(
        name=name,
        method=settings.method,
        sizes=settings.sizes,
        size_px=settings.size_px,
        source="day",
        source_sha256="a",
        target="night",
        target_sha256="b",
        rendered=False,
        steps=settings.steps,
        batch_size=settings.batch_size,
        crop_px=settings.crop_px,
        seed=settings.seed,
    )


@pytest.fixture
def saved(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    learned = training(folders)
    save_weather(tmp_path / "night", replace(card(TINY), styles=Styles((0.0,) * 3, (1.0,) * 3)), learned.kept_weights())
    return tmp_path / "night.toml"


def test_a_weather_is_read_back_and_translates_alike(saved: Path, folders: tuple[Path, Path]) -> None:
    found, weights = load_weather(saved)
    assert found.styles == Styles((0.0,) * 3, (1.0,) * 3)
    assert all(tensor.dtype == torch.float16 for tensor in weights.values())
    weather = Weather.load(saved)
    frames = np.random.default_rng(0).integers(0, 256, (5, 48, 64, 3), dtype=np.uint8)
    styles = torch.from_numpy(np.random.default_rng(0).standard_normal((2, weather.style_size)).astype(np.float32))
    first = weather.translate(frames, styles[0])
    assert first.shape == frames.shape
    assert first.dtype == np.uint8
    assert not np.array_equal(first, weather.translate(frames, styles[1]))
    assert np.array_equal(weather.translate(torch.from_numpy(frames), styles[0]).numpy(), first)
    weather.batch_size = 2
    np.testing.assert_allclose(weather.translate(frames, styles[0]).astype(int), first.astype(int), atol=1)
    decoded = weather.decode(weather.encode(frames), styles[0])
    assert tuple(decoded.shape) == (5, *working_size(48, 64, 32, 4), 3)
    assert tuple(weather.styles_of(frames).shape) == (5, 3)


def test_a_weather_stands_where_a_transform_can(saved: Path) -> None:
    weather = Weather.load(saved)
    stimulus = WeatherStimulus(weather)
    frames = np.random.default_rng(0).integers(0, 256, (2, 48, 64, 3), dtype=np.uint8)
    params = stimulus.space.sample(np.random.default_rng(1))
    stimulus.space.check("night", params)
    style = torch.tensor([params.real(f"style_{number}") for number in range(3)])
    assert np.array_equal(stimulus.apply(frames, params), weather.translate(frames, style))
    with pytest.raises(BadParametersError):
        stimulus.space.check("night", Params(style_0=99.0, style_1=0.0, style_2=0.0))


def test_damaged_and_foreign_files_are_refused(saved: Path) -> None:
    weights = saved.with_suffix(".safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    with pytest.raises(BadWeatherError, match=r"is not what night\.toml was written for"):
        Weather.load(saved)
    weights.write_bytes(whole)
    saved.write_text(saved.read_text().replace("skidpad-weather-1", "skidpad-weather-9"))
    with pytest.raises(BadWeatherError, match="no weather of this version"):
        Weather.load(saved)
    saved.write_text("method = 3")
    with pytest.raises(BadWeatherError):
        Weather.load(saved)
    with pytest.raises(BadWeatherError, match="there is no weather"):
        Weather.load(saved.with_name("rain"))


def test_a_style_of_another_size_is_refused(saved: Path) -> None:
    with pytest.raises(BadWeatherError, match="takes a style of 3 numbers; got"):
        Weather.load(saved).translate(np.zeros((1, 48, 64, 3), np.uint8), torch.zeros(8))


@pytest.mark.parametrize(
    "change",
    [{"crop_px": 8}, {"crop_px": 34}, {"steps": 0}, {"seed": -1}, {"learning_rate": 0.0}, {"ema": 1.0}, {"size_px": 30, "crop_px": 28}],
)
def test_impossible_settings_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(BadParametersError):
        replace(TINY, **change)


def test_presets_are_found_by_name() -> None:
    assert preset("paper", Method.UNIT).sizes.filters == 64
    assert preset("small", Method.MUNIT, steps=7, seed=None).steps == 7
    with pytest.raises(UnknownNameError, match="small"):
        preset("smal", Method.MUNIT)
