"""A training from pictures to files: samples, a full GPU, stopping, and what is refused."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from weather_toys import toy_card, toy_weights

from skidpad.core.errors import BadDriveError, BadParametersError, InterruptedRunError, SkidpadError
from skidpad.core.images import encode
from skidpad.stimuli.weather.files import load_weather
from skidpad.stimuli.weather.learning import Lesson, check_out, checkpoint_file, learn, style_rows, with_axes_of
from skidpad.stimuli.weather.samples import STYLES, Sample, sample_steps
from skidpad.stimuli.weather.scenes import load_scenes
from skidpad.stimuli.weather.settings import Method, Sizes, WeatherSettings
from skidpad.stimuli.weather.training import Training
from skidpad.stimuli.weather.translation import Weather

TINY = WeatherSettings(
    sizes=Sizes(filters=4, blocks=1, style=3, hidden=8, scales=1), size_px=32, crop_px=32, steps=3, batch_size=2, learning_rate=1e-3
)


def pictures(folder: Path, brightness: int) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(brightness)
    for number in range(9):
        picture = np.clip(rng.normal(brightness, 30.0, (40, 48, 3)) + np.array([20.0, 0.0, -20.0]), 0, 255).astype(np.uint8)
        (folder / f"{number}.png").write_bytes(encode(cv2.GaussianBlur(picture, (9, 9), 0)))
    return folder


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> Lesson:
    root = tmp_path_factory.mktemp("lesson")
    folders = [pictures(root / name, brightness) for name, brightness in (("day", 170), ("night", 50))]
    source, target = (load_scenes(str(folder), 32, 4) for folder in folders)
    return Lesson(source, target, "day", "night", rendered=False)


def fresh(lesson: Lesson, settings: WeatherSettings = TINY) -> Training:
    return Training(lesson.source, lesson.target, settings)


def same(first: Training, second: Training) -> bool:
    theirs = second.kept_weights()
    return all(torch.equal(weight, theirs[name]) for name, weight in first.kept_weights().items())


def test_samples_are_made_early_and_then_evenly() -> None:
    assert sorted(sample_steps(640)) == [10, 40, 80, 160, 240, 320, 400, 480, 560, 640]
    assert max(sample_steps(1)) == min(sample_steps(1)) == 1


@pytest.mark.parametrize(("method", "rows"), [(Method.UNIT, 1), (Method.MUNIT, STYLES)])
def test_samples_show_the_same_scenes_under_the_same_styles(lesson: Lesson, method: Method, rows: int) -> None:
    training = fresh(lesson, replace(TINY, method=method, steps=3))
    training.run()
    assert [sample.step for sample in training.samples] == sorted(sample_steps(3))
    last = training.samples[-1]
    assert len(last.rows) == rows
    assert [picture.shape for picture in last.pictures(0)] == [(32, 40, 3)] * 5
    assert last == training.sampler.sample(3, training.kept_weights())
    assert Sample.from_tensors(*last.to_tensors()) == last
    if rows > 1:
        assert not np.array_equal(last.pictures(0)[0], last.pictures(1)[0])


def test_a_short_training_keeps_nothing_of_its_first_weights(lesson: Lesson) -> None:
    """With the papers' 0.999 a training of 3 steps would keep 99.7 % of weights that were drawn at random."""
    training = fresh(lesson)
    training.run()
    for name, parameter in training.model.named_parameters():
        assert torch.allclose(training.kept_weights()[name], parameter.detach()), name


def test_a_stop_is_written_down_and_changes_nothing(lesson: Lesson, tmp_path: Path) -> None:
    whole = fresh(lesson)
    whole.run()
    checkpoint = tmp_path / "c.pt"
    first = fresh(lesson)
    with pytest.raises(InterruptedRunError, match="stopped at step 1 of 3"):
        first.run(checkpoint=checkpoint, stop=lambda: first.step == 1)
    second = fresh(lesson)
    told: list[int] = []
    second.run(checkpoint=checkpoint, resumed=told.append)
    assert told == [1]
    assert same(whole, second)
    assert second.samples == whole.samples
    assert [row.step for row in second.curve] == [row.step for row in whole.curve]


def full_above(training: Training, most: int) -> None:
    """Makes a training run out of memory with more than `most` pictures, after the generators have moved."""
    step = training._train_step

    def limited() -> dict[str, torch.Tensor]:
        losses = step()
        if training.batch_size > most:
            raise torch.cuda.OutOfMemoryError("out of memory")
        return losses

    training._train_step = limited


def test_a_full_gpu_halves_the_batch_and_says_so(lesson: Lesson, tmp_path: Path) -> None:
    wanted = fresh(lesson, replace(TINY, batch_size=1))
    wanted.run()
    training = fresh(lesson, replace(TINY, batch_size=4))
    full_above(training, 1)
    notes: list[str] = []
    training.run(lambda done, total, note="": notes.append(note), tmp_path / "c.pt")
    assert training.batch_size == 1
    assert [note for note in notes if "memory" in note] == [
        "the GPU ran out of memory: 2 pictures a step from now on",
        "the GPU ran out of memory: 1 pictures a step from now on",
    ]
    # nothing of the steps that broke off is left
    assert same(wanted, training)
    again = fresh(lesson, replace(TINY, batch_size=4))
    again.restore(tmp_path / "c.pt")
    assert (again.batch_size, again.step) == (1, 3)


def test_a_gpu_that_fills_up_later_goes_on_from_the_checkpoint(lesson: Lesson, tmp_path: Path) -> None:
    checkpoint = tmp_path / "c.pt"
    first = fresh(lesson)
    with pytest.raises(InterruptedRunError):
        first.run(checkpoint=checkpoint, stop=lambda: first.step == 2)
    second = fresh(lesson)
    full_above(second, 1)
    second.run(checkpoint=checkpoint)
    assert (second.batch_size, second.step) == (1, 3)
    assert second.curve[:2] == first.curve


def test_what_is_drawn_on_top_changes_the_card_and_nothing_that_is_learned(lesson: Lesson, tmp_path: Path) -> None:
    plain, _ = learn(lesson, TINY, tmp_path / "plain")
    with pytest.raises(BadParametersError, match="'late-frames' shows earlier frames"):
        learn(lesson, TINY, tmp_path / "rain", drawn="late-frames(latency_ms=100)", watch=lambda _: pytest.fail("it was trained"))
    assert not list(tmp_path.glob("rain*"))
    rain, _ = learn(lesson, TINY, tmp_path / "rain", drawn=" rain( mm_per_h=5 )")
    assert rain == replace(plain, name="rain", drawn="rain(mm_per_h=5)")
    assert load_weather(tmp_path / "rain")[0] == rain


def test_one_picture_too_many_ends_in_clear_words(lesson: Lesson) -> None:
    training = fresh(lesson)
    full_above(training, 0)
    with pytest.raises(SkidpadError, match=r"one picture does not fit into the memory of cpu; use a smaller --crop"):
        training.run()


@pytest.mark.parametrize("method", Method)
def test_a_lesson_ends_in_a_weather_with_its_card(lesson: Lesson, tmp_path: Path, method: Method) -> None:
    seen: list[int] = []
    settings = replace(TINY, method=method, steps=2)
    card, training = learn(lesson, settings, tmp_path / "night.toml", watch=lambda training: seen.append(training.step))
    assert seen == sorted(sample_steps(2))
    found, weights = load_weather(tmp_path / "night")
    assert found == card
    assert (card.name, card.batch_size, card.rendered) == ("night", 2, False)
    assert (card.source_sha256, card.target_sha256) == (lesson.source.sha256, lesson.target.sha256)
    assert (card.styles is None) == (method is Method.UNIT)
    kept = training.kept_weights()
    assert all(torch.equal(tensor, kept[name].half()) for name, tensor in weights.items())
    assert not checkpoint_file(tmp_path / "night").exists()
    with pytest.raises(SkidpadError, match="writes over no weather"):
        check_out(tmp_path / "night")


def test_pictures_that_were_enlarged_are_warned_of(lesson: Lesson) -> None:
    assert lesson.warnings(32) == ()
    small = replace(lesson, target=replace(lesson.target, enlarged=3, smallest_px=5))
    (warning,) = small.warnings(32)
    assert warning.startswith("3 of 9 pictures of night are smaller than 32 px (the smallest has 5) and were enlarged")


def test_the_same_pictures_twice_are_refused(lesson: Lesson, tmp_path: Path) -> None:
    with pytest.raises(BadDriveError, match="hold the same pictures"):
        learn(replace(lesson, target=lesson.source), TINY, tmp_path / "night")


def test_a_space_of_one_number_has_an_axis_too() -> None:
    sizes = replace(TINY.sizes, style=1)
    changed = with_axes_of(toy_weights(sizes), torch.tensor([[1.0], [5.0], [9.0]]))
    assert changed["target.decoder.norms.0.weight"].shape == toy_weights(sizes)["target.decoder.norms.0.weight"].shape


def test_styles_of_real_pictures_become_the_axes_of_the_space(lesson: Lesson, tmp_path: Path) -> None:
    card, weights = toy_card(), toy_weights()
    last = max(name for name in weights if name.startswith("target.style.") and weights[name].ndim == 2)
    weights[last] *= 4000.0  # styles far beyond N(0, 1)
    before, after = Weather(card, weights), Weather(card, with_axes_of(weights, style_rows(Weather(card, weights), lesson.target)))
    old, new = style_rows(before, lesson.target), style_rows(after, lesson.target)
    assert old.std(0).max() > 5.0
    torch.testing.assert_close(new.mean(0), torch.zeros(3), atol=1e-3, rtol=0.0)
    torch.testing.assert_close(new.std(0)[0], torch.tensor(1.0), atol=1e-3, rtol=0.0)
    assert new.std(0).max() < 1.001
    together = torch.cov(new.T)
    torch.testing.assert_close(together, together.diag().diag(), atol=1e-3, rtol=0.0)
    frames = lesson.source.pictures[0][None].numpy()
    for style, renamed in zip(old[:3], new[:3], strict=True):
        drawn = before.translate(frames, style).astype(int)
        np.testing.assert_allclose(after.translate(frames, renamed).astype(int), drawn, atol=1)
        assert np.abs(after.translate(frames, style).astype(int) - drawn).max() > 1
    _, raw = learn(lesson, replace(TINY, real_styles=0.5), tmp_path / "night")
    kept = load_weather(tmp_path / "night")[1]
    changed = {name for name, tensor in kept.items() if not torch.equal(tensor, raw.kept_weights()[name].half())}
    assert changed == {
        f"target.{part}.{kind}"
        for part in ("decoder.norms.0", last.split(".", 1)[1].removesuffix(".weight"))
        for kind in ("weight", "bias")
    }


def test_styles_can_be_those_of_other_pictures(lesson: Lesson, tmp_path: Path) -> None:
    darker = load_scenes(str(pictures(tmp_path / "darker", 20)), 32, 4)
    settings = replace(TINY, real_styles=0.5)
    plain, _ = learn(lesson, settings, tmp_path / "plain")
    card, _ = learn(replace(lesson, styles=darker, styles_text="darker"), settings, tmp_path / "dark")
    assert (plain.target, card.target) == ("night", "night; styles of darker")
    weather = Weather(card, load_weather(tmp_path / "dark")[1])
    assert style_rows(weather, darker).mean(0).abs().max() < 0.05
    assert card.styles is not None
    np.testing.assert_allclose(card.styles.deviation, style_rows(weather, darker).std(0), atol=0.05)
    assert card.weights_sha256 != plain.weights_sha256
