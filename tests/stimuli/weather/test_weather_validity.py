"""The validity filter: scenes that were kept pass, destroyed ones do not."""

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import NumpyFrames
from skidpad.drives import open_drive
from skidpad.stimuli.weather.classifier import ClassifierCard, ClassifierNetwork, WeatherClassifier
from skidpad.stimuli.weather.validity import SIZE_PX, StructureAndClass, StructureKept, structure_of


@pytest.fixture(scope="module")
def scenes() -> NumpyFrames:
    """Twelve different scenes of two roads, 160 x 80."""
    drive = open_drive("rendered?frames=1200&seed=3&width=160&height=80")
    return next(iter(drive.select(list(range(20, 1200, 100))).batches(12))).frames


def likeness_of_reference(first: NumpyFrames, second: NumpyFrames) -> tuple[float, float]:
    """The measure of one pair of SIZE_PX pictures, pixel by pixel as its docstring says."""
    alike, polar = [], []
    for scale in (2, 4):
        fields = []
        for frame in (first, second):
            side = SIZE_PX // scale
            grey = frame.astype(np.float64).mean(axis=2).reshape(side, scale, side, scale).mean(axis=(1, 3))
            across, down = grey[1:-1, 2:] - grey[1:-1, :-2], grey[2:, 1:-1] - grey[:-2, 1:-1]
            strength = np.hypot(across, down)
            around = cv2.blur(np.pad(strength, 4, mode="reflect"), (9, 9))[4:-4, 4:-4]
            weight = 1.0 / (strength + around + 2.0)
            edge = (across + 1j * down) * weight
            double = (across + 1j * down) ** 2 * weight * strength / (strength**2 + 1e-2)
            boxes = [
                sum(field[i : i + field.shape[0] - 2, j : j + field.shape[1] - 2] for i in range(3) for j in range(3))
                for field in (double, edge)
            ]
            fields.append(boxes)
        for place, into in ((0, alike), (1, polar)):
            a, b = fields[0][place], fields[1][place]
            into.append(float((a * b.conj()).real.sum() / np.sqrt((np.abs(a) ** 2).sum() * (np.abs(b) ** 2).sum())))
    return float(np.mean(alike)), float(np.mean(polar))


def sharpness_of_reference(frame: NumpyFrames) -> float:
    """Curvature over slope of one SIZE_PX picture."""
    fine, coarse = (frame.astype(np.float64).mean(axis=2).reshape(96 // k, k, 96 // k, k).mean(axis=(1, 3)) for k in (2, 4))
    curvature = np.abs(cv2.Laplacian(fine, cv2.CV_64F)[1:-1, 1:-1]).mean()
    slope = np.hypot(coarse[1:-1, 2:] - coarse[1:-1, :-2], coarse[2:, 1:-1] - coarse[:-2, 1:-1]).mean()
    return float(curvature / (slope + 1.0))


def test_the_measure_is_the_plain_formula(scenes: NumpyFrames) -> None:
    squares = np.stack([cv2.resize(scene, (SIZE_PX, SIZE_PX), interpolation=cv2.INTER_AREA) for scene in scenes[:3]])
    found = structure_of(squares, squares[[1, 2, 0]])
    for place in range(3):
        likeness, polarity = likeness_of_reference(squares[place], squares[(place + 1) % 3])
        np.testing.assert_allclose(found.likeness[place], likeness, atol=1e-4)
        np.testing.assert_allclose(found.polarity[place], polarity, atol=1e-4)
        detail = sharpness_of_reference(squares[(place + 1) % 3]) / sharpness_of_reference(squares[place])
        np.testing.assert_allclose(found.detail[place], detail, rtol=1e-4)


def night(scenes: NumpyFrames) -> NumpyFrames:
    return (scenes * 0.15).astype(np.uint8)


def haze(scenes: NumpyFrames) -> NumpyFrames:
    return (scenes * 0.4 + 120).astype(np.uint8)


def blue(scenes: NumpyFrames) -> NumpyFrames:
    return (scenes * np.array([0.6, 0.8, 1.0])).astype(np.uint8)


def slightly_moved(scenes: NumpyFrames) -> NumpyFrames:
    return np.roll(scenes, 2, axis=2)


def slightly_blurred(scenes: NumpyFrames) -> NumpyFrames:
    return np.stack([cv2.GaussianBlur(scene, (0, 0), 1.5) for scene in scenes])


@pytest.mark.parametrize("change", [np.copy, night, haze, blue, slightly_moved, slightly_blurred])
def test_kept_scenes_pass(scenes: NumpyFrames, change: object) -> None:
    assert StructureKept().accepts(scenes, change(scenes)).all()  # type: ignore[operator]


def negative(scenes: NumpyFrames) -> NumpyFrames:
    return 255 - scenes


def upside_down(scenes: NumpyFrames) -> NumpyFrames:
    return scenes[:, ::-1].copy()


def flat(scenes: NumpyFrames) -> NumpyFrames:
    return np.full_like(scenes, 140)


def noise(scenes: NumpyFrames) -> NumpyFrames:
    return np.random.default_rng(0).integers(0, 256, scenes.shape, dtype=np.uint8)


def pieces(scenes: NumpyFrames) -> NumpyFrames:
    """Sixteen pieces in another order."""
    parts = scenes.reshape(len(scenes), 4, 20, 4, 40, 3)[:, [2, 0, 3, 1]][:, :, :, [1, 3, 0, 2]]
    return parts.reshape(scenes.shape).copy()


def blurred_out(scenes: NumpyFrames) -> NumpyFrames:
    return np.stack([cv2.GaussianBlur(scene, (0, 0), 24) for scene in scenes])


def smeared(scenes: NumpyFrames) -> NumpyFrames:
    """The large shapes alone, in pale colours, as a weather that learned for too short a time paints them."""
    blurred = np.stack([cv2.GaussianBlur(scene, (0, 0), 3.5) for scene in scenes])
    return (blurred * np.array([0.7, 0.6, 0.8]) + 50).astype(np.uint8)


@pytest.mark.parametrize("change", [negative, upside_down, flat, noise, pieces, smeared])
def test_destroyed_scenes_fail(scenes: NumpyFrames, change: object) -> None:
    assert not StructureKept().accepts(scenes, change(scenes)).any()  # type: ignore[operator]


@pytest.mark.parametrize("change", [blurred_out, lambda scenes: scenes[:, :, ::-1].copy(), lambda scenes: np.roll(scenes, 5, axis=0)])
def test_scenes_that_chance_makes_alike_mostly_fail(scenes: NumpyFrames, change: object) -> None:
    """Roads are alike: a straight one is nearly its own mirror image."""
    assert StructureKept().accepts(scenes, change(scenes)).mean() <= 0.25  # type: ignore[operator]


@settings(max_examples=25)
@given(gain=st.floats(0.3, 1.0), shift=st.floats(0.0, 60.0))
def test_light_alone_never_rejects(scenes: NumpyFrames, gain: float, shift: float) -> None:
    changed = (scenes[:4] * gain + shift).clip(0, 255).astype(np.uint8)
    assert StructureKept().accepts(scenes[:4], changed).all()


def test_batches_kinds_and_sizes_do_not_matter(scenes: NumpyFrames) -> None:
    other = np.roll(scenes, 1, axis=0)
    whole = structure_of(scenes, other)
    single = [structure_of(scenes[k : k + 1], other[k : k + 1]).likeness[0] for k in range(3)]
    np.testing.assert_allclose(whole.likeness[:3], single, atol=1e-6)
    tensors = structure_of(torch.from_numpy(scenes), torch.from_numpy(other))
    np.testing.assert_array_equal(whole.polarity, tensors.polarity)
    small = np.stack([cv2.resize(scene, (96, 48), interpolation=cv2.INTER_AREA) for scene in scenes])
    assert StructureKept().accepts(scenes, small).all()
    assert structure_of(scenes[:0], scenes[:0]).likeness.shape == (0,)
    with pytest.raises(BadParametersError, match="needs its source"):
        structure_of(scenes, scenes[:3])


def brightness_judge() -> WeatherClassifier:
    """A classifier with set weights: night where the picture is dark."""
    network = ClassifierNetwork(2)
    weights = {name: torch.zeros_like(tensor) for name, tensor in network.state_dict().items()}
    for place in (0, 3, 6, 9):
        weights[f"body.{place + 1}.weight"] += 1.0
        weights[f"body.{place + 1}.running_var"] += 1.0
        kernel = weights[f"body.{place}.weight"]
        kernel[0, slice(None) if place == 0 else 0, kernel.shape[2] // 2, kernel.shape[3] // 2] = 1.0
    weights["body.1.bias"] += 3.0
    weights["head.weight"][0, 0] = 1.0
    weights["head.bias"] = torch.tensor([0.0, 2.0])
    return WeatherClassifier(ClassifierCard(("day", "night"), (), ((0, 0), (0, 0)), "", rendered=True, epochs=0, seed=0), weights)


def test_scene_and_weather_must_both_be_right(scenes: NumpyFrames) -> None:
    judge = brightness_judge()
    assert judge.classes[judge.labels(night(scenes))[0]] == "night"
    wanted = StructureAndClass(judge, "night")
    assert wanted.accepts(scenes, night(scenes)).all()
    bright = np.full_like(scenes, 250) - (255 - scenes) // 8
    assert not wanted.accepts(scenes, bright).any()
    assert not wanted.accepts(scenes, night(np.roll(scenes, 6, axis=0)[:, ::-1].copy())).any()
    assert wanted.accepts(torch.from_numpy(scenes), torch.from_numpy(night(scenes))).all()
    with pytest.raises(UnknownNameError, match="did you mean 'night'"):
        StructureAndClass(judge, "nigth")


def test_a_smear_fails_for_its_lack_of_detail_alone(scenes: NumpyFrames) -> None:
    found = structure_of(scenes, smeared(scenes))
    assert (found.likeness >= StructureKept().least_likeness).mean() > 0.5
    assert (found.polarity >= StructureKept().least_polarity).all()
    assert (found.detail < 0.3).all()
    assert structure_of(scenes, haze(scenes)).detail.min() > 0.9  # contrast is no detail


def test_detail_falls_with_every_blur(scenes: NumpyFrames) -> None:
    made = [
        structure_of(scenes, np.stack([cv2.GaussianBlur(scene, (0, 0), sigma) for scene in scenes])).detail for sigma in (0.5, 1, 2, 4, 8)
    ]
    assert (np.diff(made, axis=0) < 0.0).all()
    np.testing.assert_allclose(structure_of(scenes, scenes).detail, 1.0)
    np.testing.assert_array_equal(structure_of(scenes, flat(scenes)).detail, 0.0)


@pytest.mark.parametrize("change", [{"least_likeness": 1.1}, {"least_polarity": -2.0}, {"least_detail": -0.1}])
def test_impossible_thresholds_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(BadParametersError, match="lies within"):
        StructureKept(**change)
