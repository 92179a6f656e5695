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

CELLS, ROWS, COLUMNS, SMOOTH, LIGHTS, FLOOR, OTHER = 48, 4, 10, 2, 4, 4e-3, 0.02
LUMA = np.array([0.299, 0.587, 0.114])
STYLE = torch.tensor([0.3, -0.5, 1.0])
CARD = replace(toy_card(), detail=1.0)


def signed(count: int = 1, side: int = CELLS, seed: int = 0) -> torch.Tensor:
    """Blocks of colour with some grain: what a picture is to a filter."""
    rng = np.random.default_rng(seed)
    blocks = rng.uniform(-1, 1, (count, 3, 6, 6)).repeat(side // 6, 2).repeat(side // 6, 3)
    return torch.from_numpy((blocks + rng.normal(0, 0.05, blocks.shape)).clip(-1, 1).astype(np.float32))


def windows(values: FloatArray, row: int, column: int, rows: int, columns: int) -> FloatArray:
    return values[max(0, row - rows) : row + rows + 1, max(0, column - columns) : column + columns + 1]


def shares_of(picture: FloatArray) -> FloatArray:
    """How much each line counts for each pixel of a picture (3, rows, columns): (rows, columns, LIGHTS)."""
    place = ((np.tensordot(LUMA, picture, 1) + 1.0) / 2.0).clip(0.0, 1.0) ** 0.6 * (LIGHTS - 1)
    return np.stack([np.maximum(0.0, 1.0 - np.abs(place - light)) for light in range(LIGHTS)], axis=2)


def by_loops(made: FloatArray, recorded: FloatArray) -> FloatArray:
    """A weighted straight line through each window, for each light and colour.

    Lines are averaged with their neighbours', and the two next to a pixel's light mixed.
    """
    side = made.shape[1]
    shares = shares_of(recorded)
    lines = np.zeros((2, LIGHTS, 3, side, side))
    for row, column in np.ndindex(side, side):
        near = windows(shares, row, column, ROWS, COLUMNS) + OTHER
        frame, wanted = (np.stack([windows(colour, row, column, ROWS, COLUMNS) for colour in each]) for each in (recorded, made))
        weights = near / near.sum((0, 1))
        centres, levels = (np.einsum("crk,rkl->lc", each, weights) for each in (frame, wanted))
        for light, colour in np.ndindex(LIGHTS, 3):
            apart = frame[colour] - centres[light, colour]
            covariance = (weights[..., light] * apart * (wanted[colour] - levels[light, colour])).sum()
            slope = max(0.0, covariance / ((weights[..., light] * apart**2).sum() + FLOOR))
            lines[:, light, colour, row, column] = slope, levels[light, colour] - slope * centres[light, colour]
    drawn = np.zeros_like(made)
    for row, column, light, colour in np.ndindex(side, side, LIGHTS, 3):
        slope, level = (windows(each[light, colour], row, column, SMOOTH, SMOOTH).mean() for each in lines)
        drawn[colour, row, column] += shares[row, column, light] * (slope * recorded[colour, row, column] + level)
    return drawn.clip(-1, 1)


def test_it_is_a_line_for_each_window_and_light_where_a_cell_is_a_pixel() -> None:
    made, recorded = signed(seed=1), signed(seed=2)
    found = Detail(1.0, CELLS)(made, recorded)[0].numpy()
    expected = by_loops(made[0].numpy().astype(np.float64), recorded[0].numpy().astype(np.float64))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_dark_woods_take_nothing_of_the_sky_behind_them() -> None:
    recorded = torch.full((1, 3, 96, 96), 0.9)
    recorded[:, :, 30:] = -0.8
    fog = torch.full((1, 3, 96, 96), 0.6)
    fog[:, :, 30:] = -0.5
    smeared = torch.nn.functional.avg_pool2d(fog, (21, 1), 1, (10, 0), count_include_pad=False)
    haze = (smeared - fog)[0, 0, 30:40, 48].mean()
    left = (Detail(1.0, 96)(smeared, recorded) - fog)[0, 0, 30:40, 48].mean()
    assert float(haze) > 0.24, "over the woods, as a translator paints it"
    assert float(left) < 0.75 * float(haze)


def test_a_stain_that_the_translator_painted_on_an_even_road_is_spread() -> None:
    recorded = torch.full((1, 3, 96, 96), -0.2)
    stained = torch.full((1, 3, 96, 96), -0.7)
    stained[:, :, 60:68, 44:52] = 0.3
    found = Detail(1.0, 96)(stained, recorded)
    assert float((found - found.mean()).abs().max()) < 0.15


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
    recorded = 0.15 * signed(side=96) - 0.5  # all of it dark
    edges = recorded.diff(dim=3)
    found = Detail(1.0, 96)(-recorded, recorded).diff(dim=3)
    # the light goes the translation's way, however it was painted; no edge turns its sign
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
