"""Flicker and contrast by distance on drives where the answer is known."""

import numpy as np
import pytest

from skidpad.core.images import Camera, NumpyFrames
from skidpad.stimuli.conditions.base import depth_m
from skidpad.stimuli.weather.clips import contrast_kept, flicker

HEIGHT_PX, WIDTH_PX = 96, 128


def panned(count: int = 4, seed: int = 0) -> NumpyFrames:
    """A camera that turns by three pixels a frame over a soft texture."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (HEIGHT_PX // 4, (WIDTH_PX + 3 * count) // 4 + 1, 3)).astype(np.float64)
    wide = np.kron(coarse, np.ones((4, 4, 1)))
    wide = sum(np.roll(wide, (down, right), (0, 1)) for down in range(4) for right in range(4)) / 16.0
    return np.stack([wide[:, 3 * place : 3 * place + WIDTH_PX] for place in range(count)]).round().astype(np.uint8)


def brighter(frames: NumpyFrames, levels: np.ndarray | float) -> NumpyFrames:
    return (0.5 * frames + 60.0 + np.asarray(levels).reshape(-1, 1, 1, 1)).round().astype(np.uint8)


def test_a_drive_as_it_was_flickers_as_it_does() -> None:
    found = flicker(panned(), panned())
    assert found is not None
    assert found[0] == found[1] < 2.0


def test_a_planted_flicker_is_measured_in_grey_levels() -> None:
    frames = panned()
    steady, flickering = (flicker(frames, brighter(frames, levels)) for levels in (0.0, np.array([0.0, 20.0, 0.0, 20.0])))
    assert steady is not None
    assert flickering is not None
    assert steady[1] == flickering[1]
    assert steady[0] < 1.5  # a weather that is the same in every frame adds nothing
    assert flickering[0] == pytest.approx(20.0, abs=2.0)


def test_grain_that_does_not_move_with_the_scene_flickers() -> None:
    frames = panned()
    grain = np.random.default_rng(1).normal(0.0, 15.0, frames.shape)
    found = flicker(frames, (frames * 0.5 + 60.0 + grain).clip(0, 255).astype(np.uint8))
    assert found is not None
    assert found[0] > found[1] + 5.0


def test_pictures_of_other_places_are_no_clip() -> None:
    rng = np.random.default_rng(2)
    frames = rng.integers(0, 256, (3, HEIGHT_PX, WIDTH_PX, 3), np.uint8)
    assert flicker(frames, frames) is None
    assert flicker(frames[:1], frames[:1]) is None


def test_fog_takes_the_far_contrast_and_a_veil_takes_both_alike() -> None:
    frames = panned(2)
    assert contrast_kept(frames, frames) == pytest.approx((1.0, 1.0))
    veiled = contrast_kept(frames, brighter(frames, 0.0))
    assert veiled == pytest.approx((0.5, 0.5), abs=0.03)
    seen = np.exp(-depth_m(Camera.guess(HEIGHT_PX, WIDTH_PX)) / 30.0)[None, :, :, None]
    near, far = contrast_kept(frames, (frames * seen + 200.0 * (1.0 - seen)).round().astype(np.uint8))
    assert near > 0.6
    assert far < 0.35


def test_grain_is_no_contrast_that_was_kept_and_a_negative_is_less_than_none() -> None:
    frames = panned(2)
    grain = np.random.default_rng(1).normal(0.0, 20.0, frames.shape)
    assert contrast_kept(frames, (128.0 + grain).clip(0, 255).astype(np.uint8)) == pytest.approx((0.0, 0.0), abs=0.05)
    assert contrast_kept(frames, 255 - frames) == pytest.approx((-1.0, -1.0), abs=0.01)
