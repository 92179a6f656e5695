"""The rewritten networks against the plain ones, and each rewriting against its definition."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from weather_toys import TINY, pictures, plainly, toy_card, toy_weights

from skidpad.stimuli.weather.decoding import FoldedDecoder, blocked_7x7, folded_5x5
from skidpad.stimuli.weather.files import BadWeatherError
from skidpad.stimuli.weather.scenes import as_frames
from skidpad.stimuli.weather.settings import Method, Sizes
from skidpad.stimuli.weather.translation import Weather, model_of


@given(height=st.integers(1, 7), width=st.integers(1, 7), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_a_folded_kernel_is_the_convolution_of_the_doubled_map(height: int, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn((2, 3, height, width), generator=generator, dtype=torch.float64)
    weight = torch.randn((5, 3, 5, 5), generator=generator, dtype=torch.float64)
    expected = functional.conv2d(functional.interpolate(maps, scale_factor=2.0, mode="nearest"), weight, padding=2)
    blocks = functional.conv2d(maps, folded_5x5(weight), padding=1).reshape(2, 2, 2, 5, height, width)
    torch.testing.assert_close(blocks.permute(0, 3, 4, 1, 5, 2).reshape(2, 5, 2 * height, 2 * width), expected)


@given(height=st.integers(2, 6), width=st.integers(2, 6), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_a_blocked_kernel_is_the_7x7_convolution(height: int, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn((2, 4, 2 * height, 2 * width), generator=generator, dtype=torch.float64)
    weight = torch.randn((3, 4, 7, 7), generator=generator, dtype=torch.float64)
    framed = functional.pad(maps, (3,) * 4, mode="reflect")
    blocks = framed.reshape(2, 4, height + 3, 2, width + 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(2, 16, height + 3, width + 3)
    made = functional.conv2d(blocks, blocked_7x7(weight)).reshape(2, 2, 2, 3, height, width).permute(0, 3, 4, 1, 5, 2)
    torch.testing.assert_close(made.reshape(2, 3, 2 * height, 2 * width), functional.conv2d(framed, weight))


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize(
    "sizes", [TINY, Sizes(filters=4, halvings=1, blocks=1, style=2, hidden=8, scales=1), Sizes(filters=3, halvings=3, blocks=3, style=8)]
)
@pytest.mark.parametrize("shape", [(32, 40), (40, 32), (48, 48)])
def test_a_weather_paints_what_the_networks_that_were_learned_paint(method: Method, sizes: Sizes, shape: tuple[int, int]) -> None:
    card, weights = toy_card(sizes, method=method), toy_weights(sizes, method=method)
    weather, frames = Weather(card, weights), pictures(3, *shape)
    signed = weather._signed(frames)
    for seed in range(3):
        style = torch.randn(sizes.style, generator=torch.Generator().manual_seed(seed)) if method is Method.MUNIT else None
        expected = as_frames(plainly(card, weights, signed, style))
        made = weather.decode(weather.encode(frames), style)
        assert made.shape == expected.shape
        assert expected.float().std() > 5.0  # there is something to see
        assert int((made.int() - expected.int()).abs().max()) <= 1  # a rounding at the edge between two levels
        assert float((made != expected).float().mean()) < 1e-2


def test_one_style_for_each_scene_is_each_scene_under_its_style() -> None:
    card, weights = toy_card(), toy_weights()
    decoder = FoldedDecoder(card, model_of(card, weights))
    prepared = decoder.prepare(Weather(card, weights).encode(pictures(4)))
    styles = torch.randn((4, 3), generator=torch.Generator().manual_seed(1))
    together = decoder.decode(prepared, decoder.norms(styles))
    alone = torch.cat([decoder.decode(prepared[place : place + 1], decoder.norms(styles[place : place + 1])) for place in range(4)])
    assert int((together.int() - alone.int()).abs().max()) <= 1
    assert not torch.equal(together[0], decoder.decode(prepared[:1], decoder.norms(styles[1:2]))[0])


def test_frames_come_back_at_the_size_of_the_drive() -> None:
    card, weights = toy_card(), toy_weights()
    frames = pictures(3, 48, 64)
    weather, style = Weather(card, weights), torch.randn(3, generator=torch.Generator().manual_seed(1))
    made = weather.translate(frames, style)
    larger = functional.interpolate(plainly(card, weights, weather._signed(frames), style), (48, 64), mode="bilinear", antialias=True)
    assert made.shape == frames.shape
    assert int(np.abs(made.astype(int) - as_frames(larger).numpy()).max()) <= 1


def test_batches_do_not_show() -> None:
    card, weights = toy_card(), toy_weights()
    decoder = FoldedDecoder(card, model_of(card, weights))
    prepared = decoder.prepare(Weather(card, weights).encode(pictures(5)))
    norms = decoder.norms(torch.randn((1, 3), generator=torch.Generator().manual_seed(1)))
    whole = decoder.decode(prepared, norms)
    decoder.batch_size = 2
    assert int((decoder.decode(prepared, norms).int() - whole.int()).abs().max()) <= 1


@pytest.mark.parametrize("detail", [0.0, 1.0])
def test_a_batch_is_filled_up_for_compiled_code(monkeypatch: pytest.MonkeyPatch, detail: float) -> None:
    from skidpad.stimuli.weather import decoding

    card, weights = replace(toy_card(), detail=detail), toy_weights()
    plain, filled = FoldedDecoder(card, model_of(card, weights)), FoldedDecoder(card, model_of(card, weights), compiled=True)
    seen: list[int] = []

    def watched(function):  # type: ignore[no-untyped-def]
        def run(values, *rest):  # type: ignore[no-untyped-def]
            seen.append(len(values))
            return function(values, *rest)

        return run

    monkeypatch.setattr(decoding, "compiled", watched)
    filled.batch_size = 2
    prepared = Weather(card, weights).prepare(pictures(3))
    norms = plain.norms(torch.randn((3, 3), generator=torch.Generator().manual_seed(1)))
    made = filled.decode(prepared, norms, (24, 32))
    assert set(seen) == {2}
    assert int((made.int() - plain.decode(prepared, norms, (24, 32)).int()).abs().max()) <= 1


def test_wrong_styles_are_refused() -> None:
    card, weights = toy_card(), toy_weights()
    with pytest.raises(BadWeatherError, match=r"takes styles of 3 numbers; got shape \(1, 4\)"):
        FoldedDecoder(card, model_of(card, weights)).norms(torch.zeros(1, 4))


def test_a_full_gpu_halves_the_batch_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    card, weights = toy_card(), toy_weights()
    told: list[int] = []
    decoder = FoldedDecoder(card, model_of(card, weights), on_halved=told.append)
    prepared = decoder.prepare(Weather(card, weights).encode(pictures(6)))
    norms = decoder.norms(torch.zeros(1, 3))
    expected = decoder.decode(prepared, norms)
    plain = decoder._batch

    def small_memory(part, style, size):  # type: ignore[no-untyped-def]
        if len(part) > 2:
            raise torch.cuda.OutOfMemoryError
        return plain(part, style, size)

    monkeypatch.setattr(decoder, "_batch", small_memory)
    assert int((decoder.decode(prepared, norms).int() - expected.int()).abs().max()) <= 1
    assert told == [3, 2]
    monkeypatch.setattr(decoder, "_batch", lambda *_: (_ for _ in ()).throw(torch.cuda.OutOfMemoryError()))
    with pytest.raises(BadWeatherError, match="one frame does not fit"):
        decoder.decode(prepared, norms)
    assert np.all(np.array(told) >= 1)
