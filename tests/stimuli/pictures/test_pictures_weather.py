"""DeepTest's fog and rain: what makes them fog and rain, at every size."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms_pictures import noise, smooth

from skidpad.core.images import decode
from skidpad.core.stimuli import Params
from skidpad.stimuli.pictures.deeptest import DeepTestFog, DeepTestRain
from skidpad.stimuli.pictures.kernels import Veil, clouds, distance
from skidpad.stimuli.pictures.kernels import veil as lay
from skidpad.stimuli.pictures.torch_kernels import veil as lay_on_torch

SIZES = [(240, 320), (480, 640), (160, 320), (66, 200)]


def contrast(frames):
    return frames.astype(float).std(axis=(1, 2)).mean()


def fog(frames, density, seed=0):
    return DeepTestFog().apply(frames, Params(density=density, seed=seed))


def rain(frames, intensity, slant_deg=12.0, seed=0):
    return DeepTestRain().apply(frames, Params(intensity=intensity, slant_deg=slant_deg, seed=seed))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("weather", [DeepTestFog(), DeepTestRain()], ids=["fog", "rain"])
def test_the_grid_grows_from_light_to_heavy(weather, size):
    frames = smooth(1, *size)
    contrasts = [contrast(weather.apply(frames, params)) for params in weather.space.grid]
    assert contrast(frames) > contrasts[0]
    assert all(lighter > heavier for lighter, heavier in pairwise(contrasts))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_fog_is_bright_and_hides_the_far_more_than_the_near(size):
    black = np.zeros((1, *size, 3), np.uint8)
    level = fog(black, 0.7)[0].mean(axis=(1, 2))
    far, near = level[: size[0] // 4].mean(), level[-size[0] // 8 :].mean()
    assert far > 150
    assert near < 0.6 * far


def test_fog_softens_the_background_and_leaves_the_road_sharp():
    frames = noise(1, 240, 320)
    foggy = fog(frames, 0.3)[0].astype(float)
    keep = -np.diff([fog(np.full((1, 240, 320, 3), value, np.uint8), 0.3)[0].astype(float) for value in (255, 0)], axis=0)[0] / 255.0
    roughness = np.abs(np.diff(foggy, axis=1)).mean(axis=(1, 2)) / keep.mean(axis=(1, 2))
    assert roughness[:60].mean() < 0.85 * roughness[-60:].mean()


def test_fog_is_uneven_and_its_seed_moves_the_banks():
    black = np.zeros((1, 240, 320, 3), np.uint8)
    one, other = fog(black, 0.5, seed=1), fog(black, 0.5, seed=2)
    assert one[0, :60].std() > 5
    assert np.abs(one.astype(int) - other).mean() > 3


def test_rain_darkens_and_is_bluish():
    white = np.full((1, 240, 320, 3), 220, np.uint8)
    red, _, blue = rain(white, 0.8)[0].mean(axis=(0, 1))
    assert red < 190
    assert blue > red + 3


def test_heavier_rain_holds_all_streaks_of_lighter_rain():
    black = np.zeros((1, 240, 320, 3), np.uint8)
    light, heavy = rain(black, 0.2)[0, ..., 0].astype(int), rain(black, 0.9)[0, ..., 0].astype(int)
    streaks = light > np.median(light) + 25
    assert streaks.sum() > 50
    assert (heavy[streaks] >= light[streaks] - 12).mean() > 0.99


@pytest.mark.parametrize("slant_deg", [-25.0, 25.0])
def test_streaks_lean_by_the_slant(slant_deg):
    streaks = rain(np.zeros((1, 240, 320, 3), np.uint8), 0.3, slant_deg)[0, ..., 0].astype(float)
    streaks -= np.median(streaks, axis=1, keepdims=True)
    rise = 10
    step = round(rise * np.tan(np.deg2rad(slant_deg)))
    along = (streaks[rise:, 40:-40] * np.roll(streaks, -step, axis=1)[:-rise, 40:-40]).mean()
    across = (streaks[rise:, 40:-40] * np.roll(streaks, step, axis=1)[:-rise, 40:-40]).mean()
    assert along > 2.0 * across


def test_rain_of_another_seed_falls_elsewhere():
    black = np.zeros((1, 120, 160, 3), np.uint8)
    assert np.mean(rain(black, 0.6, seed=1) != rain(black, 0.6, seed=2)) > 0.05


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16), size=st.tuples(st.integers(1, 12), st.integers(1, 12)), rows=st.integers(0, 12))
def test_a_veil_is_its_formula_on_both_backends(seed, size, rows):
    rng = np.random.default_rng(seed)
    keep = rng.random(size, np.float32)
    add = (255.0 * (1.0 - keep))[..., None] * rng.random((*size, 3), np.float32)
    share = rng.random((min(rows, size[0]), size[1]), np.float32)
    veil = Veil.of(keep, add.astype(np.float32), share, 1)
    frames = noise(2, *size, seed=seed)
    expected = np.rint(frames.astype(float) * veil.keep / 255.0)
    expected[:, : len(share)] += np.rint(frames[:, : len(share)].astype(float) * veil.soft / 255.0)
    expected = np.minimum(expected + veil.add, 255)
    assert np.array_equal(lay(frames, veil), expected)
    assert np.array_equal(lay_on_torch(torch.from_numpy(frames), veil).numpy(), expected)
    exact = frames * keep[..., None] + add
    assert np.abs(lay(frames, veil) - np.minimum(exact, 255)).max() <= 2.6, "quantised too coarsely"


@pytest.mark.parametrize("size", [*SIZES, (1, 1), (1, 4000), (4000, 1)], ids=str)
def test_clouds_fill_their_range_and_distance_falls_downwards(size):
    field = clouds(*size, 3)
    assert field.shape == size
    assert 0.0 <= field.min() <= field.max() <= 1.0
    far = distance(*size)
    assert far.shape == size
    assert (np.diff(far, axis=0) <= 0).all()
    assert 0.0 < far.min() <= far.max() <= 1.0


def test_one_seed_shows_the_same_clouds_at_twice_the_size():
    import cv2

    small, large = clouds(120, 160, 5), clouds(240, 320, 5)
    assert np.abs(cv2.resize(large, (160, 120), interpolation=cv2.INTER_AREA) - small).mean() < 0.02


def test_cached_fields_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        clouds(10, 10, 0)[0, 0] = 1.0


@pytest.mark.real_data
@pytest.mark.parametrize("weather", [DeepTestFog(), DeepTestRain()], ids=["fog", "rain"])
def test_weather_on_real_frames_hides_but_does_not_erase(weather, shared_data):
    files = sorted((shared_data / "udacity-ch2-test" / "center").glob("*.jpg"))[::1500]
    frames = np.stack([frame for file in files if (frame := decode(file.read_bytes())) is not None])
    heavy = weather.apply(frames, weather.space.grid[-1])
    for original, changed in zip(frames, heavy, strict=True):
        grey, veiled = original.mean(axis=-1).ravel(), changed.mean(axis=-1).ravel()
        assert veiled.std() < grey.std()
    middle = weather.apply(frames, weather.space.grid[4])
    for original, changed in zip(frames[:, -80:], middle[:, -80:], strict=True):
        seen = np.corrcoef(original.mean(axis=-1).ravel(), changed.mean(axis=-1).ravel())[0, 1]
        assert seen > 0.5, "the road can no longer be made out"
