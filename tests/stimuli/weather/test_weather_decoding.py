"""The folded decoder against the plain one, and each rewriting against its definition."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from weather_toys import TINY, pictures, toy_card, toy_weights

from skidpad.stimuli.weather.decoding import FoldedDecoder, blocked_7x7, folded_5x5
from skidpad.stimuli.weather.files import BadWeatherError
from skidpad.stimuli.weather.settings import Method, Sizes
from skidpad.stimuli.weather.translation import Weather


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


@pytest.mark.parametrize(
    "sizes", [TINY, Sizes(filters=4, halvings=1, blocks=1, style=2, hidden=8, scales=1), Sizes(filters=3, halvings=3, blocks=3, style=8)]
)
@pytest.mark.parametrize("shape", [(32, 40), (40, 32), (48, 48)])
def test_the_folded_decoder_paints_what_the_plain_one_paints(sizes: Sizes, shape: tuple[int, int]) -> None:
    card, weights = toy_card(sizes), toy_weights(sizes)
    weather, decoder = Weather(card, weights), FoldedDecoder(card, weights)
    content = weather.encode(pictures(3, *shape))
    prepared = decoder.prepare(content)
    for seed in range(3):
        style = torch.randn(sizes.style, generator=torch.Generator().manual_seed(seed))
        plain, folded = weather.decode(content, style), decoder.decode(prepared, decoder.norms(style[None]))
        assert plain.shape == folded.shape
        assert plain.float().std() > 5.0  # there is something to see
        assert int((plain.int() - folded.int()).abs().max()) <= 1  # a rounding at the edge between two levels
        assert float((plain != folded).float().mean()) < 1e-2


def test_one_style_for_each_scene_is_each_scene_under_its_style() -> None:
    card, weights = toy_card(), toy_weights()
    decoder = FoldedDecoder(card, weights)
    prepared = decoder.prepare(Weather(card, weights).encode(pictures(4)))
    styles = torch.randn((4, 3), generator=torch.Generator().manual_seed(1))
    together = decoder.decode(prepared, decoder.norms(styles))
    alone = torch.cat([decoder.decode(prepared[place : place + 1], decoder.norms(styles[place : place + 1])) for place in range(4)])
    assert int((together.int() - alone.int()).abs().max()) <= 1
    assert not torch.equal(together[0], decoder.decode(prepared[:1], decoder.norms(styles[1:2]))[0])


def test_frames_come_at_the_size_of_the_drive_as_translated_ones_do() -> None:
    card, weights = toy_card(), toy_weights()
    weather, decoder = Weather(card, weights), FoldedDecoder(card, weights)
    frames = pictures(3, 48, 64)
    style = torch.randn(3, generator=torch.Generator().manual_seed(1))
    made = decoder.decode(decoder.prepare(weather.encode(frames)), decoder.norms(style[None]), (48, 64)).numpy()
    assert made.shape == frames.shape
    assert int(np.abs(made.astype(int) - weather.translate(frames, style)).max()) <= 1


def test_batches_do_not_show() -> None:
    card, weights = toy_card(), toy_weights()
    decoder = FoldedDecoder(card, weights)
    prepared = decoder.prepare(Weather(card, weights).encode(pictures(5)))
    norms = decoder.norms(torch.randn((1, 3), generator=torch.Generator().manual_seed(1)))
    whole = decoder.decode(prepared, norms)
    decoder.batch_size = 2
    assert int((decoder.decode(prepared, norms).int() - whole.int()).abs().max()) <= 1


def test_a_batch_is_filled_up_for_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from skidpad.stimuli.weather import decoding

    card, weights = toy_card(), toy_weights()
    plain, filled = FoldedDecoder(card, weights), FoldedDecoder(card, weights, compiled=True)
    seen: list[int] = []

    def watched(function):  # type: ignore[no-untyped-def]
        def run(values, *rest):  # type: ignore[no-untyped-def]
            seen.append(len(values))
            return function(values, *rest)

        return run

    monkeypatch.setattr(decoding, "_compiled", watched)
    filled.batch_size = 2
    prepared = plain.prepare(Weather(card, weights).encode(pictures(3)))
    norms = plain.norms(torch.randn((3, 3), generator=torch.Generator().manual_seed(1)))
    made = filled.decode(prepared, norms)
    assert set(seen) == {2}
    assert int((made.int() - plain.decode(prepared, norms).int()).abs().max()) <= 1


def test_wrong_weathers_and_styles_are_refused() -> None:
    card, weights = toy_card(), toy_weights()
    with pytest.raises(BadWeatherError, match="knows no styles"):
        FoldedDecoder(replace(card, method=Method.UNIT), weights)
    with pytest.raises(BadWeatherError, match=r"takes styles of 3 numbers; got shape \(1, 4\)"):
        FoldedDecoder(card, weights).norms(torch.zeros(1, 4))


def test_a_full_gpu_halves_the_batch_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    card, weights = toy_card(), toy_weights()
    told: list[int] = []
    decoder = FoldedDecoder(card, weights, on_halved=told.append)
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
