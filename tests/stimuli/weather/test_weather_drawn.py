"""Conditions that are drawn on top of a weather's pictures: what is drawn, when, on which frames, and what may not be."""

import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from weather_toys import pictures, toy_card, toy_weights

from skidpad.core.errors import BadParametersError, SkidpadError, UnknownNameError
from skidpad.core.images import Camera, Capture, FloatArray, NumpyFrames
from skidpad.core.stimuli import Condition, Params
from skidpad.core.trust import trusting
from skidpad.stimuli.registry import TRANSFORMS, names_in, stimuli
from skidpad.stimuli.weather.contents import Contents
from skidpad.stimuli.weather.decoding import FoldedDecoder
from skidpad.stimuli.weather.drawn import DrawnConditions, times_of
from skidpad.stimuli.weather.fetching import fetch_weather
from skidpad.stimuli.weather.files import BadWeatherError, Styles, WeatherCard, load_weather, save_weather
from skidpad.stimuli.weather.pretrained import pretrained_names, pretrained_weather
from skidpad.stimuli.weather.settings import Method
from skidpad.stimuli.weather.stimulus import LearnedWeather, WeatherLooks, style_params
from skidpad.stimuli.weather.translation import Weather, model_of

TEXT = "rain(mm_per_h=20)+lens-drops(share=0.2,seed=7)"
STYLE = torch.tensor([0.3, -0.5, 1.0])
SIZE = (48, 60)


def weather_of(text: str = TEXT, detail: float = 0.0, method: Method = Method.MUNIT) -> Weather:
    return Weather(replace(toy_card(method=method), drawn=text, detail=detail), toy_weights(method=method))


def times_by_hand(frames: NumpyFrames) -> FloatArray:
    return np.array([int(frame.astype(object).sum()) % 6000 / 100 for frame in frames])


def by_hand(made: NumpyFrames, frames: NumpyFrames) -> NumpyFrames:
    """Rain and then drops, by the conditions themselves."""
    capture = Capture(Camera.guess(made.shape[1], made.shape[2]), times_by_hand(frames))
    rain, drops = stimuli(["rain", "lens-drops"]).values()
    assert isinstance(rain, Condition)
    assert isinstance(drops, Condition)
    wet = rain.apply_at(made, Params(mm_per_h=20, seed=0), capture)
    return drops.apply_at(wet, Params(share=0.2, seed=7), capture)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("detail", [0.0, 1.0])
def test_pictures_are_translated_and_then_drawn_on(method: Method, detail: float) -> None:
    frames, style = pictures(6, *SIZE), STYLE if method is Method.MUNIT else None
    weather, plain = weather_of(detail=detail, method=method), weather_of("", detail, method)
    made = weather.translate(frames, style)
    np.testing.assert_array_equal(made, by_hand(plain.translate(frames, style), frames))
    assert np.abs(made.astype(int) - plain.translate(frames, style)).mean() > 5
    on_torch = weather.translate(torch.from_numpy(frames), style)
    assert isinstance(on_torch, torch.Tensor)
    np.testing.assert_array_equal(on_torch, made)


def test_every_way_to_decode_draws_alike(tmp_path: Path) -> None:
    weather, frames = weather_of(), pictures(5, *SIZE)
    made = weather.translate(frames, STYLE)
    np.testing.assert_array_equal(weather.decode(weather.prepare(frames), STYLE, SIZE), made)
    decoder = FoldedDecoder(weather.card, model_of(weather.card, toy_weights()))
    norms = decoder.norms(STYLE[None])
    for memory_bytes in (None, 0):
        contents = Contents(weather, decoder, 5, SIZE, tmp_path / "codes", memory_bytes=memory_bytes)
        contents.add(frames[:2])
        contents.add(frames[2:])
        np.testing.assert_array_equal(decoder.decode(contents.part(slice(0, 5)), norms, SIZE), made)
        twice = decoder.decode(contents.part(slice(1, 4)).repeated(2), norms, SIZE)
        np.testing.assert_array_equal(twice, np.concatenate([made[1:4], made[1:4]]))
        other = Contents.__new__(Contents)
        other.__setstate__(contents.__getstate__())
        other.attach(weather, decoder)
        np.testing.assert_array_equal(decoder.decode(other.part(slice(0, 5)), norms, SIZE), made)
        contents.close()
    assert not list(tmp_path.iterdir())
    at_working_size = weather.decode(weather.prepare(frames), STYLE).numpy()
    np.testing.assert_array_equal(at_working_size, by_hand(weather_of("").decode(weather_of("").prepare(frames), STYLE).numpy(), frames))


def test_codes_without_their_frames_are_refused() -> None:
    weather = weather_of()
    with pytest.raises(BadWeatherError, match="takes the times of its conditions from the frames; give them with their codes"):
        weather.decode(weather.encode(pictures(1)), STYLE)


@pytest.mark.parametrize("size_px", [32, 160])
def test_a_stimulus_makes_the_same_picture_in_any_company(size_px: int) -> None:
    """Groups are filled up with their last frame; at 160 px a frame is a group."""
    frames, params = pictures(6, *SIZE), style_params(STYLE.numpy().astype(np.float64))
    looks = WeatherLooks(Weather(replace(toy_card(size_px=size_px), drawn=TEXT), toy_weights()), (params,))
    made = looks.apply(frames, params)
    for place in range(6):
        np.testing.assert_array_equal(looks.apply(frames[place : place + 1], params)[0], made[place])
    np.testing.assert_array_equal(looks.apply(frames[::-1].copy(), params), made[::-1])
    np.testing.assert_array_equal(looks.apply(torch.from_numpy(frames), params), made)
    if size_px == 32:
        np.testing.assert_array_equal(looks.weather.translate(frames[:4], STYLE), made[:4])


def test_a_learned_weather_draws_and_its_styles_stay(tmp_path: Path) -> None:
    styles = Styles((0.1, 0.2, 0.3), (1.0, 0.5, 2.0))
    for text, name in (("", "plain"), (TEXT, "rain")):
        save_weather(tmp_path / name, replace(toy_card(), styles=styles, drawn=text), toy_weights())
    plain, rain = (LearnedWeather(tmp_path / name) for name in ("plain", "rain"))
    assert rain.space == plain.space
    frames = pictures(3, *SIZE)
    for number in (0, 5):
        made = rain.apply(frames, Params(style=number))
        np.testing.assert_array_equal(made, by_hand(plain.apply(frames, Params(style=number)), frames))
    pairs = [Weather.load(tmp_path / name).styles_of(frames) for name in ("plain", "rain")]
    assert torch.equal(*pairs)


def test_conditions_depend_on_a_picture_and_its_own_frame_alone() -> None:
    conditions, frames = DrawnConditions(TEXT), torch.from_numpy(pictures(5, seed=1))
    made = torch.from_numpy(pictures(5, *SIZE, seed=2))
    before = made.clone()
    together = conditions(made, frames)
    assert torch.equal(made, before)
    for place in range(5):
        assert torch.equal(conditions(made[place : place + 1], frames[place : place + 1])[0], together[place])
    # streaks lie elsewhere under another frame, and a whole minute brings them back
    other = frames.clone()
    other[:, 0, 0, 0] = (other[:, 0, 0, 0].int() ^ 128).to(torch.uint8)
    assert (conditions(made, other) != together).any((1, 2, 3)).all()
    drops = DrawnConditions("lens-drops(share=0.2)")
    assert torch.equal(drops(made, frames), drops(made, other)), "what lies on the glass stays"


def test_a_group_that_was_filled_up_is_the_same_as_one_by_one() -> None:
    made, frames = pictures(4, *SIZE), pictures(4, seed=1)
    places = [0, 1, 1, 1, 2, 1, 3, 3]
    frames[1] = frames[0]  # another picture at the same time
    found = DrawnConditions(TEXT)(torch.from_numpy(made[places]), torch.from_numpy(frames[places]))
    np.testing.assert_array_equal(found, by_hand(made, frames)[places])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_has_the_same_times_and_conditions() -> None:
    made, frames, conditions = torch.from_numpy(pictures(4, *SIZE)), torch.from_numpy(pictures(4, seed=1)), DrawnConditions(TEXT)
    np.testing.assert_array_equal(times_of(frames.cuda()), times_of(frames))
    found = conditions(made.cuda(), frames.cuda())
    assert found.is_cuda
    assert torch.equal(found.cpu(), conditions(made, frames))
    weather = Weather(replace(toy_card(), drawn=TEXT), toy_weights(), "cuda")
    plain = Weather(toy_card(), toy_weights(), "cuda")
    np.testing.assert_array_equal(weather.translate(frames.numpy(), STYLE), by_hand(plain.translate(frames.numpy(), STYLE), frames.numpy()))


def test_times_are_exact_whatever_the_size_of_the_frame() -> None:
    frames = np.full((2, 1100, 2000, 3), 255, np.uint8)
    frames[1, 5:, 3, 0] = 7
    np.testing.assert_array_equal(
        times_of(torch.from_numpy(frames)), [255 * 6_600_000 % 6000 / 100, (1_683_000_000 - 248 * 1095) % 6000 / 100]
    )
    few = pictures(5)
    np.testing.assert_array_equal(times_of(torch.from_numpy(few)), times_by_hand(few))
    np.testing.assert_array_equal(times_of(torch.from_numpy(few)[::2]), times_by_hand(few[::2]))


REFUSED = [
    ("os:system", BadParametersError, "code that is not skidpad's cannot be drawn"),
    ("fog(visibility_m=100)+os:system(command=1)", BadParametersError, "got 'os:system'"),
    ("skidpad.stimuli.conditions.glass:LensDrops(share=0.1)", BadParametersError, "code that is not skidpad's"),
    ("weather:rain", BadParametersError, "a learned weather cannot be drawn"),
    ("weather:rain(style=3)+fog(visibility_m=100)", BadParametersError, "got 'weather:rain'"),
    ("camera-yaw(yaw_deg=3)", BadParametersError, "'camera-yaw' moves the camera"),
    ("late-frames(latency_ms=100)", BadParametersError, "'late-frames' shows earlier frames"),
    ("frozen-frames(frozen_s=1)", BadParametersError, "'frozen-frames' shows earlier frames"),
    ("blur(kind=gaussian,size=3)", BadParametersError, "'blur' is no condition in physical units"),
    ("rain(intensity=0.5)", BadParametersError, "'deeptest-rain' is no condition in physical units"),
    ("rain", BadParametersError, r"give its parameters, as rain\(mm_per_h=8.84,seed=0\)"),
    ("rain(mm_per_h=5)+fog", BadParametersError, "every picture of a weather has the same fog"),
    ("rain(seed=3)", BadParametersError, "'rain' needs mm_per_h in"),
    ("rain(mm_per_h=0)", BadParametersError, "changes nothing"),
    ("rain(mm_per_h=500)", BadParametersError, r"takes mm_per_h in \[0, 100\]; got mm_per_h=500"),
    ("rain(mm_per_h=nan)", BadParametersError, "got mm_per_h=nan"),
    ("rain(self=3)", UnknownNameError, "no parameter of 'rain' named 'self'"),
    ("rian(mm_per_h=5)", UnknownNameError, "no condition named 'rian'; did you mean 'rain'?"),
    ("night", UnknownNameError, "no condition named 'night'; known: .*lens-drops"),
    ("original", BadParametersError, "'original' draws nothing"),
    (" ", BadParametersError, "a stimulus is a name"),
    ("rain(mm_per_h=5", BadParametersError, "a stimulus is a name"),
    ("rain(mm_per_h=5)\n+fog(visibility_m=100)", BadParametersError, "one line of at most 500 characters"),
    ("rain(mm_per_h=5)\x1b[2J", BadParametersError, "one line"),
    ("+" * 200_000, BadParametersError, "one line of at most 500 characters"),
]


@pytest.mark.parametrize(("text", "kind", "words"), REFUSED, ids=[text[:40] for text, *_ in REFUSED])
def test_what_cannot_be_drawn_is_refused_and_so_is_its_card(text: str, kind: type[SkidpadError], words: str, tmp_path: Path) -> None:
    with trusting(), pytest.raises(kind, match=words):
        DrawnConditions(text)
    save_weather(tmp_path / "toy", replace(toy_card(), drawn=text), toy_weights())
    with trusting(), pytest.raises(BadWeatherError, match=words) as refused:
        load_weather(tmp_path / "toy")
    assert f"the conditions that {tmp_path / 'toy.toml'} draws on its pictures are refused (" in str(refused.value)
    assert "\n" not in str(refused.value)
    content = (tmp_path / "toy.toml").read_bytes()
    with trusting(), pytest.raises(BadWeatherError, match=r"are refused .*ask who published it"):
        fetch_weather((tmp_path / "toy.toml").as_uri(), sha256(content).hexdigest(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_whatever_is_no_text_is_refused(tmp_path: Path) -> None:
    save_weather(tmp_path / "toy", replace(toy_card(), drawn=TEXT), toy_weights())
    card = tmp_path / "toy.toml"
    lines = [line for line in card.read_text().splitlines() if not line.startswith("card_sha256")]
    for value in ("5", "true", '["rain(mm_per_h=5)"]', "0", "[]"):
        card.write_text("\n".join(f"drawn = {value}" if line.startswith("drawn") else line for line in lines))
        with pytest.raises(BadWeatherError, match=r"is damaged .*drawn is a text; got"):
            load_weather(card)


def test_a_card_imports_nothing_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where code is trusted: a module on Python's path, and rows that installed packages add."""
    (tmp_path / "hostile_drawing.py").write_text("from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\nclass Rain: pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def entry_points(**_: object) -> None:
        raise AssertionError("no package is asked for rows")

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    monkeypatch.setattr(TRANSFORMS, "_loaded", False)
    monkeypatch.setitem(TRANSFORMS._rows, "drizzle", type("Drizzle", (type(stimuli(["rain"])["rain"]),), {}))  # somebody else's row
    for text in ("hostile_drawing:Rain", "hostile_drawing:Rain(mm_per_h=5)", "hostile_drawing", "drizzle(mm_per_h=5)"):
        with trusting(), pytest.raises(SkidpadError):
            DrawnConditions(text)
        with trusting(), pytest.raises(BadWeatherError):
            WeatherCard.from_toml(replace(toy_card(), drawn=text).to_toml(), "card")
    assert "hostile_drawing" not in sys.modules
    assert not (tmp_path / "hostile_drawing.ran").exists()


def test_names_are_read_without_making_anything() -> None:
    assert names_in(" rain( mm_per_h=5 ) + os:system+weather:x") == ("rain", "os:system", "weather:x")
    assert names_in("original") == ()


def test_conditions_are_written_as_the_registry_does() -> None:
    conditions = DrawnConditions(" rain( mm_per_h = 20 ) +lens-drops(share=0.2, seed=7)")
    assert str(conditions) == TEXT


@pytest.mark.parametrize(
    "text", ["frost(share=0.3)", "snow(mm_per_h=2)", "wet-road(wetness=0.7)", "sensor-noise(iso=6400)", "wiper(width=0.1)"]
)
def test_conditions_of_all_kinds_can_be_drawn(text: str) -> None:
    made, frames = torch.from_numpy(pictures(2, *SIZE)), torch.from_numpy(pictures(2))
    found = DrawnConditions(text)(made, frames)
    assert (found.shape, found.dtype) == (made.shape, torch.uint8)
    assert not torch.equal(found, made)


def test_cards_say_it_and_others_are_as_before() -> None:
    card = replace(toy_card(), weights_sha256="c" * 64, detail=1.0)
    drawn = replace(card, drawn=TEXT)
    assert WeatherCard.from_toml(drawn.to_toml(), "card") == drawn
    assert "drawn" not in card.to_toml()
    assert WeatherCard.from_toml(card.to_toml(), "card") == card
    for name in pretrained_names():
        text = pretrained_weather(name).read_text()
        assert WeatherCard.from_toml(text, name).to_toml() == text
    changed = drawn.to_toml().replace("share=0.2", "share=0.3")
    assert changed != drawn.to_toml()
    for other in (changed, card.to_toml().replace("detail = 1.0", f'detail = 1.0\ndrawn = "{TEXT}"')):
        with pytest.raises(BadWeatherError, match="was changed since it was written"):
            WeatherCard.from_toml(other, "card")
    assert (card.drawn_words, drawn.drawn_words) == ("", f", with {TEXT} drawn on top")


def test_what_is_drawn_makes_another_weather_to_a_manifest() -> None:
    card = replace(toy_card(), weights_sha256="c" * 64)
    assert card.sha256 == card.weights_sha256
    assert replace(card, detail=1.0).sha256 == sha256(f"{card.weights_sha256} detail 1.0".encode()).hexdigest(), "as it was"
    texts = ("", TEXT, "rain(mm_per_h=21)")
    assert len({replace(card, drawn=text, detail=detail).sha256 for text in texts for detail in (0.0, 0.5, 1.0)}) == 9


def test_a_weather_with_conditions_is_fetched(tmp_path: Path) -> None:
    save_weather(tmp_path / "toy", replace(toy_card(), drawn=TEXT), toy_weights())
    wanted = sha256((tmp_path / "toy.toml").read_bytes()).hexdigest()
    fetched = fetch_weather((tmp_path / "toy.toml").as_uri(), wanted, tmp_path / "out")
    assert fetched.card.drawn == TEXT
    assert load_weather(tmp_path / "out" / "toy")[0] == fetched.card


def test_nothing_is_drawn_on_a_picture_that_no_camera_takes() -> None:
    frames = pictures(2, 12, 20)
    np.testing.assert_array_equal(weather_of().translate(frames, STYLE), weather_of("").translate(frames, STYLE))
