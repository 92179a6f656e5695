"""The weather classifier: learned, judged on pictures that it never saw, written and read back."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import NumpyFrames, encode
from skidpad.stimuli.weather.classifier import (
    FEATURES,
    SHARE,
    SIZE_PX,
    STRETCHES,
    ClassifierCard,
    ClassifierNetwork,
    ClassifierSettings,
    ClassSet,
    WeatherClassifier,
    augmented,
    held_out,
    learn_classifier,
    save_classifier,
)
from skidpad.stimuli.weather.files import BadWeatherError
from skidpad.stimuli.weather.scenes import load_scenes
from skidpad.stimuli.weather.settings import LossWeights, Sizes, WeatherSettings
from skidpad.stimuli.weather.training import Guide, Training

QUICK = ClassifierSettings(epochs=2, samples=160, batch_size=16, learning_rate=5e-3)


def road(rng: np.random.Generator, *, dark: bool) -> NumpyFrames:
    picture = np.full((48, 64, 3), (160, 175, 190), np.float64)
    picture[20:] = (95, 95, 100)
    cv2.line(picture, (int(rng.integers(10, 54)), 47), (32, 20), (230, 220, 120), 2)
    picture += rng.normal(0.0, 12.0, picture.shape)
    return (picture * (0.15 if dark else 1.0)).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("sets")
    rng = np.random.default_rng(0)
    for name, dark in (("day", False), ("night", True)):
        (root / name).mkdir()
        for number in range(40):
            (root / name / f"{number:03d}.png").write_bytes(encode(road(rng, dark=dark)))
    return root / "day", root / "night"


@pytest.fixture(scope="module")
def learned(folders: tuple[Path, Path]) -> tuple[ClassifierCard, dict[str, torch.Tensor]]:
    return learn_classifier([ClassSet(folder.name, str(folder)) for folder in folders], QUICK)


def test_day_is_told_from_night_on_held_out_pictures(learned: tuple[ClassifierCard, dict[str, torch.Tensor]]) -> None:
    card, weights = learned
    assert card.classes == ("day", "night")
    assert [sum(row) for row in card.confusion] == [int(held_out(40).sum())] * 2
    assert card.accuracy >= 0.9
    assert card.recall("day") == card.confusion[0][0] / sum(card.confusion[0])
    assert [(each.label, each.training + each.held_out) for each in card.sets] == [("day", 40), ("night", 40)]
    assert sum(each.held_out_right for each in card.sets) == np.trace(np.array(card.confusion))
    judge = WeatherClassifier(card, weights)
    rng = np.random.default_rng(9)
    fresh = np.stack([road(rng, dark=bool(number % 2)) for number in range(20)])
    assert (judge.labels(fresh) == np.arange(20) % 2).mean() >= 0.9


def test_the_same_seed_learns_the_same_weights(learned: tuple[ClassifierCard, dict[str, torch.Tensor]], folders: tuple[Path, Path]) -> None:
    card, weights = learn_classifier([ClassSet(folder.name, str(folder)) for folder in folders], QUICK)
    assert card == learned[0]
    assert all(torch.equal(weights[name], learned[1][name]) for name in weights)


def test_a_planted_label_swap_in_held_out_pictures_is_seen(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Held-out pictures are not learned from: nights put there under the name of day are called night."""
    mixed = tmp_path / "day"
    mixed.mkdir()
    days, nights = (sorted(folder.iterdir()) for folder in folders)
    for place, hidden in enumerate(held_out(40)):
        (mixed / f"{place:03d}.png").write_bytes((nights if hidden else days)[place].read_bytes())
    card, _ = learn_classifier([ClassSet("day", str(mixed)), ClassSet("night", str(folders[1]))], QUICK)
    assert card.recall("day") <= 0.1
    assert card.recall("night") >= 0.9


def test_answers_are_alike_for_every_kind_batch_and_size(learned: tuple[ClassifierCard, dict[str, torch.Tensor]]) -> None:
    judge = WeatherClassifier(*learned)
    frames = np.stack([road(np.random.default_rng(number), dark=bool(number % 2)) for number in range(6)])
    whole = judge.probabilities(frames)
    assert whole.shape == (6, 2)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(judge.probabilities(torch.from_numpy(frames)), whole)
    np.testing.assert_allclose(np.concatenate([judge.probabilities(frame[None]) for frame in frames]), whole, atol=1e-5)
    assert judge.features(frames).shape == (6, FEATURES)
    assert judge.probabilities(frames[:0]).shape == (0, 2)
    large = np.stack([cv2.resize(frame, (200, 100)) for frame in frames])
    assert np.array_equal(judge.labels(large), judge.labels(frames))


def test_a_classifier_is_read_back_and_damage_is_seen(learned: tuple[ClassifierCard, dict[str, torch.Tensor]], tmp_path: Path) -> None:
    card = save_classifier(tmp_path / "judge", *learned)
    read = WeatherClassifier.load(tmp_path / "judge.toml")
    assert read.card == card
    frames = np.stack([road(np.random.default_rng(number), dark=bool(number % 2)) for number in range(4)])
    np.testing.assert_allclose(read.probabilities(frames), WeatherClassifier(*learned).probabilities(frames), atol=0.02)
    weights = tmp_path / "judge.safetensors"
    assert weights.stat().st_size < 500_000
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    with pytest.raises(BadWeatherError, match=r"is not what judge\.toml was written for"):
        WeatherClassifier.load(tmp_path / "judge")
    weights.write_bytes(whole)
    text = (tmp_path / "judge.toml").read_text()
    (tmp_path / "judge.toml").write_text(text.replace("classifier-1", "classifier-7"))
    with pytest.raises(BadWeatherError, match="no weather classifier of this version"):
        WeatherClassifier.load(tmp_path / "judge")
    (tmp_path / "judge.toml").write_text(text.replace("epochs = 2", "epoch = 2"))
    with pytest.raises(BadWeatherError, match="damaged"):
        WeatherClassifier.load(tmp_path / "judge")
    with pytest.raises(BadWeatherError, match="there is no weather classifier"):
        WeatherClassifier.load(tmp_path / "other")
    with pytest.raises(BadWeatherError, match="not those of 3 classes"):
        WeatherClassifier(replace(card, classes=("day", "night", "fog")), learned[1])


def test_bad_wishes_end_in_clear_words(folders: tuple[Path, Path], learned: tuple[ClassifierCard, dict[str, torch.Tensor]]) -> None:
    with pytest.raises(BadParametersError, match="at least two weathers; got day"):
        learn_classifier([ClassSet("day", str(folders[0]))], QUICK)
    with pytest.raises(BadParametersError, match="epochs must be at least 1"):
        ClassifierSettings(epochs=0)
    with pytest.raises(BadParametersError, match="learning_rate"):
        ClassifierSettings(learning_rate=0.0)
    with pytest.raises(UnknownNameError, match="did you mean 'night'"):
        learned[0].place("nite")


@pytest.mark.parametrize(
    ("weather", "label"), [("night", "night"), ("demo-night", "night"), ("snow_day-unit", "snow_day"), ("fog-2", "fog")]
)
def test_a_weather_finds_its_class(weather: str, label: str) -> None:
    card = ClassifierCard(("night", "snow_day", "fog", "snow"), (), (), "", rendered=False, epochs=1, seed=0)
    assert card.class_named(weather) == label
    for unclear in ("snow-night", "hail"):
        with pytest.raises(UnknownNameError):
            card.class_named(unclear)


@given(count=st.integers(5, 3000))
def test_a_fifth_is_held_out_in_whole_pieces(count: int) -> None:
    marks = held_out(count)
    assert abs(marks.mean() - SHARE) <= 0.1
    assert marks[-1]
    assert np.count_nonzero(np.diff(marks.astype(int)) == 1) <= STRETCHES


@given(count=st.integers(200, 1000), step=st.integers(1, 5))
def test_thinner_sets_hold_out_the_same_pictures(count: int, step: int) -> None:
    assert np.array_equal(held_out(count * step)[::step], held_out(count))


@given(seed=st.integers(0, 50), height=st.integers(20, 140), width=st.integers(20, 140))
def test_crops_of_any_picture_are_squares_and_leave_it_alone(seed: int, height: int, width: int) -> None:
    picture = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    before = picture.copy()
    crop = augmented(picture, np.random.default_rng(seed))
    assert crop.shape == (SIZE_PX, SIZE_PX, 3)
    assert crop.dtype == np.uint8
    assert np.array_equal(picture, before)
    assert np.array_equal(crop, augmented(picture, np.random.default_rng(seed)))


def test_the_network_is_small() -> None:
    weights = ClassifierNetwork(5).state_dict()
    assert sum(tensor.numel() for tensor in weights.values()) < 180_000


@pytest.mark.real_data
@pytest.mark.slow
def test_real_weathers_are_told_apart(shared_data: Path) -> None:
    sets = [ClassSet(name, str(shared_data / "weather" / name)) for name in ("clear", "snow_day", "night", "wet", "fog")]
    card, _ = learn_classifier(sets, ClassifierSettings(epochs=6, limit=300))
    assert card.accuracy > 0.85
    assert min(map(card.recall, card.classes)) > 0.7


def test_surprise_is_the_cross_entropy_of_a_class_and_teaches_pictures(learned: tuple[ClassifierCard, dict[str, torch.Tensor]]) -> None:
    classifier = WeatherClassifier(*learned)
    frames = np.stack([road(np.random.default_rng(1), dark=False)])
    signed = (torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 127.5 - 1.0).requires_grad_()
    surprise = classifier.surprise(signed, "night")
    before = surprise.item()
    assert before == pytest.approx(-np.log(classifier.probabilities(frames)[0, classifier.card.place("night")]), rel=1e-4)
    assert before > classifier.surprise(signed, "day").item()
    torch.autograd.backward(surprise)
    assert signed.grad is not None
    taught = (signed - 0.1 * signed.grad / signed.grad.abs().amax()).detach()
    assert classifier.surprise(taught, "night").item() < before
    with pytest.raises(UnknownNameError):
        classifier.surprise(signed, "hail")


def test_a_training_by_a_classifier_needs_one_and_notes_it(
    learned: tuple[ClassifierCard, dict[str, torch.Tensor]], folders: tuple[Path, Path]
) -> None:
    sizes = Sizes(filters=4, blocks=1, hidden=8, scales=1, halvings=1, style=2)
    settings = WeatherSettings(sizes=sizes, weights=LossWeights(named=1.0), size_px=48, crop_px=32, steps=2, batch_size=1)
    source, target = (load_scenes(str(folder), 48, 2) for folder in folders)
    with pytest.raises(BadParametersError, match="needs a classifier"):
        Training(source, target, settings)
    training = Training(source, target, settings, guide=Guide(WeatherClassifier(*learned), "night"))
    training.run()
    assert training.curve[-1].losses["named"] > 0.0
    with pytest.raises(UnknownNameError):
        Guide(WeatherClassifier(*learned), "hail")
