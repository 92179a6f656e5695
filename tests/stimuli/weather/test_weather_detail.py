"""Light and colour from the translation, detail from the recorded frame."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from weather_toys import TINY, pictures, toy_card, toy_weights

from skidpad.core.images import FloatArray
from skidpad.stimuli.weather.contents import Contents
from skidpad.stimuli.weather.decoding import FoldedDecoder
from skidpad.stimuli.weather.detail import Detail
from skidpad.stimuli.weather.files import BadWeatherError
from skidpad.stimuli.weather.samples import Sampler
from skidpad.stimuli.weather.scenes import Scenes
from skidpad.stimuli.weather.settings import Method, WeatherSettings, preset
from skidpad.stimuli.weather.translation import Weather, model_of

CELLS, RADIUS, FLOOR = 48, 3, 4e-3
STYLE = torch.tensor([0.3, -0.5, 1.0])
CARD = replace(toy_card(), detail=1.0)


def signed(count: int = 1, side: int = CELLS, seed: int = 0) -> torch.Tensor:
    """Blocks of colour with some grain: what a picture is to a filter."""
    rng = np.random.default_rng(seed)
    blocks = rng.uniform(-1, 1, (count, 3, 6, 6)).repeat(side // 6, 2).repeat(side // 6, 3)
    return torch.from_numpy((blocks + rng.normal(0, 0.05, blocks.shape)).clip(-1, 1).astype(np.float32))


def windows(values: FloatArray, row: int, column: int) -> FloatArray:
    return values[max(0, row - RADIUS) : row + RADIUS + 1, max(0, column - RADIUS) : column + RADIUS + 1]


def by_loops(made: FloatArray, recorded: FloatArray) -> FloatArray:
    """The guided filter of one colour, window by window, as the paper writes it."""
    side = made.shape[0]
    slopes, levels = np.zeros_like(made), np.zeros_like(made)
    for row in range(side):
        for column in range(side):
            frame, wanted = windows(recorded, row, column), windows(made, row, column)
            covariance = (frame * wanted).mean() - frame.mean() * wanted.mean()
            slopes[row, column] = max(0.0, covariance / (frame.var() + FLOOR))
            levels[row, column] = wanted.mean() - slopes[row, column] * frame.mean()
    drawn = [
        windows(slopes, row, column).mean() * recorded[row, column] + windows(levels, row, column).mean()
        for row in range(side)
        for column in range(side)
    ]
    return np.clip(np.reshape(drawn, made.shape), -1, 1)


def test_it_is_the_guided_filter_where_a_cell_is_a_pixel() -> None:
    made, recorded = signed(seed=1), signed(seed=2)
    found = Detail(1.0, CELLS)(made, recorded)[0].numpy()
    for colour in range(3):
        expected = by_loops(made[0, colour].numpy().astype(np.float64), recorded[0, colour].numpy().astype(np.float64))
        np.testing.assert_allclose(found[colour], expected, atol=1e-4)


def test_a_translation_that_changed_nothing_leaves_the_frame() -> None:
    recorded = signed(side=96)
    found = Detail(1.0, 96)(recorded, recorded)
    # the floor of the variance takes a little contrast
    assert float((found - recorded).abs().mean()) < 0.02


def test_a_change_of_light_and_contrast_is_the_translations() -> None:
    recorded = signed(side=96)
    darker = 0.3 * recorded - 0.6
    assert float((Detail(1.0, 96)(darker, recorded) - darker).abs().mean()) < 0.01


def test_a_marking_that_the_translation_smears_is_sharp_again() -> None:
    recorded = torch.full((1, 3, 96, 96), -0.4)
    recorded[:, :, :, 46:49] = 0.9
    night = torch.nn.functional.avg_pool2d(0.3 * recorded - 0.6, (1, 13), 1, (0, 6), count_include_pad=False)
    found = Detail(1.0, 96)(night, recorded)

    def stands_out(picture: torch.Tensor) -> float:
        return float(picture[0, 0, 50:60, 47].mean() - picture[0, 0, 50:60, 42].mean())

    assert stands_out(night) < 0.01
    assert stands_out(found) > 0.05
    assert float(found[0, 0, 50:60, 10].mean()) == pytest.approx(-0.72, abs=0.02)


def test_the_detail_of_a_negative_is_not_inverted() -> None:
    recorded = signed(side=96)
    edges = recorded.diff(dim=3)
    found = Detail(1.0, 96)(-recorded, recorded).diff(dim=3)
    # cell by cell the light goes the translation's way, however it was painted; no edge turns its sign
    assert float((found * edges).sum() / edges.square().sum()) > -0.05


def test_frames_of_another_size_keep_their_own_resolution() -> None:
    recorded = signed(side=192)
    small = torch.nn.functional.interpolate(recorded, (96, 96), mode="bilinear", antialias=True)
    found = Detail(1.0, 96)(0.5 * small, recorded)
    assert found.shape == recorded.shape
    assert float((found - 0.5 * recorded).abs().mean()) < 0.02


def test_a_share_of_half_lies_between() -> None:
    made, recorded = signed(side=96, seed=1), signed(side=96, seed=2)
    whole = Detail(1.0, 96)(made, recorded)
    torch.testing.assert_close(Detail(0.5, 96)(made, recorded), (made + whole) / 2)


def test_pictures_alone_are_those_of_a_batch() -> None:
    made, recorded = signed(3, seed=1), signed(3, seed=2)
    together = Detail(1.0, CELLS)(made, recorded)
    alone = torch.cat([Detail(1.0, CELLS)(made[place : place + 1], recorded[place : place + 1]) for place in range(3)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", list(Method))
def test_every_way_to_decode_takes_detail_from_the_frames(method: Method) -> None:
    card, weights = replace(CARD, method=method), toy_weights(method=method)
    weather, plain = Weather(card, weights), Weather(replace(card, detail=0.0), weights)
    frames, style = pictures(3, 48, 60), STYLE if method is Method.MUNIT else None
    made = weather.translate(frames, style)
    assert np.abs(made.astype(int) - plain.translate(frames, style)).mean() > 5
    np.testing.assert_array_equal(weather.decode(weather.prepare(frames), style, (48, 60)), made)
    alone = np.concatenate([weather.translate(frames[place : place + 1], style) for place in range(3)])
    assert np.abs(made.astype(int) - alone).max() <= 1


def test_samples_of_a_training_show_what_will_be_shown_later() -> None:
    settings = WeatherSettings(sizes=TINY, size_px=32, crop_px=32)
    scenes = Scenes("day", tuple(torch.from_numpy(picture) for picture in pictures(2, 32, 40)), 0, "a" * 64)
    plain, detailed = (Sampler(scenes, replace(settings, detail=share)).sample(1, toy_weights()) for share in (0.0, 1.0))
    weather = Weather(CARD, toy_weights())
    style = Sampler(scenes, settings)._styles[0]
    for place, scene in enumerate(scenes.pictures):
        expected = weather.translate(scene[None], style)[0].numpy().astype(float)
        apart = [np.abs(sample.pictures(0)[place] - expected).mean() for sample in (plain, detailed)]
        assert apart[1] < 8 < apart[0], "beyond what JPEG loses"


@pytest.mark.parametrize("is_mapped", [False, True])
def test_kept_codes_give_the_same_pictures(tmp_path: Path, is_mapped: bool) -> None:
    weather, frames = Weather(CARD, toy_weights()), pictures(5, 48, 60)
    decoder = FoldedDecoder(CARD, model_of(CARD, toy_weights()))
    contents = Contents(weather, decoder, 5, (48, 60), tmp_path / "codes", memory_bytes=0 if is_mapped else None)
    contents.add(frames[:2])
    contents.add(frames[2:])
    norms = decoder.norms(STYLE[None])
    made = decoder.decode(contents.part(slice(1, 4)), norms, (48, 60))
    np.testing.assert_array_equal(made, weather.translate(frames[1:4], STYLE))
    twice = decoder.decode(contents.part(slice(1, 4)).repeated(2), norms, (48, 60))
    np.testing.assert_array_equal(twice, torch.cat([made, made]))
    state = contents.__getstate__()
    other = Contents.__new__(Contents)
    other.__setstate__(state)
    other.attach(weather, decoder)
    np.testing.assert_array_equal(decoder.decode(other.part(slice(1, 4)), norms, (48, 60)), made)
    contents.close()
    assert not list(tmp_path.iterdir())


def test_codes_without_their_frames_are_refused() -> None:
    weather = Weather(CARD, toy_weights())
    with pytest.raises(BadWeatherError, match="takes detail from the frames"):
        weather.decode(weather.encode(pictures(1)), STYLE)


def test_cards_say_it_and_old_ones_mean_none() -> None:
    card = replace(CARD, weights_sha256="c" * 64)
    assert type(card).from_toml(card.to_toml(), "card").detail == 1.0
    lines = replace(card, detail=0.0).to_toml().splitlines()
    old = "\n".join(line for line in lines if not line.startswith(("detail", "card_sha256")))
    assert type(card).from_toml(old, "card").detail == 0.0
    with pytest.raises(BadWeatherError, match="detail is 0 to 1"):
        type(card).from_toml(replace(card, detail=2.0).to_toml(), "card")


def test_the_papers_preset_leaves_it_out() -> None:
    assert [preset(name, Method.MUNIT).detail for name in ("road", "small", "paper")] == [1.0, 1.0, 0.0]


def test_another_share_is_another_weather_to_a_manifest() -> None:
    card = replace(CARD, weights_sha256="c" * 64)
    assert replace(card, detail=0.0).sha256 == card.weights_sha256
    assert len({replace(card, detail=share).sha256 for share in (0.0, 0.5, 1.0)}) == 3
