"""Each transform against the plain formula, or the plain OpenCV call, on one picture."""

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transforms_pictures import noise, smooth

from skidpad.core.stimuli import Params
from skidpad.stimuli.pictures import stimuli
from skidpad.stimuli.pictures.deeptest import Blur, Brightness, Contrast, Rotation, Scale, Shear, Translation
from skidpad.stimuli.pictures.kernels import Pivot
from skidpad.stimuli.pictures.torch_kernels import median_network

HEIGHT, WIDTH = 61, 83
FRAMES = noise(3, HEIGHT, WIDTH)
CENTRE = ((WIDTH - 1) / 2, (HEIGHT - 1) / 2)


def warped(matrix):
    return np.stack([cv2.warpAffine(frame, np.asarray(matrix, np.float64), (WIDTH, HEIGHT)) for frame in FRAMES])


def bilinear(frame, matrix):
    """Looks up each pixel of the result in float64, black outside."""
    linear = np.linalg.inv(np.asarray(matrix)[:, :2])
    out = np.zeros(frame.shape)
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            source_x, source_y = linear @ (np.array([x, y]) - np.asarray(matrix)[:, 2])
            left, above = int(np.floor(source_x)), int(np.floor(source_y))
            for column, share_x in ((left, left + 1 - source_x), (left + 1, source_x - left)):
                for row, share_y in ((above, above + 1 - source_y), (above + 1, source_y - above)):
                    if 0 <= column < frame.shape[1] and 0 <= row < frame.shape[0]:
                        out[y, x] += share_x * share_y * frame[row, column]
    return out


@pytest.mark.parametrize("index", range(10))
def test_translation_is_table_2s_matrix(index):
    params = Translation.space.grid[index]
    assert params == Params(dx_px=10.0 * (index + 1), dy_px=10.0 * (index + 1))
    assert np.array_equal(Translation().apply(FRAMES, params), warped([[1, 0, params["dx_px"]], [0, 1, params["dy_px"]]]))


@given(dx=st.integers(-100, 100), dy=st.integers(-100, 100))
def test_whole_translations_are_opencvs_to_the_pixel(dx, dy):
    assert np.array_equal(Translation().apply(FRAMES, Params(dx_px=dx, dy_px=dy)), warped([[1, 0, dx], [0, 1, dy]]))


@pytest.mark.parametrize("index", range(10))
def test_scale_is_table_2s_matrix_about_either_pivot(index):
    params = Scale.space.grid[index]
    s = 1.5 + 0.5 * index
    assert params == Params(sx=s, sy=s)
    assert np.array_equal(Scale(Pivot.ORIGIN).apply(FRAMES, params), warped([[s, 0, 0], [0, s, 0]]))
    assert np.array_equal(Scale().apply(FRAMES, params), warped([[s, 0, CENTRE[0] * (1 - s)], [0, s, CENTRE[1] * (1 - s)]]))


@pytest.mark.parametrize("index", range(10))
def test_shear_is_table_2s_matrix(index):
    params = Shear.space.grid[index]
    assert params.real("sx") == pytest.approx(-1.0 + 0.1 * index)
    assert params.real("sy") == 0.0
    assert np.array_equal(Shear().apply(FRAMES, params), warped([[1, params["sx"], 0], [0, 1, 0]]))
    both = Params(sx=0.3, sy=-0.2)
    assert np.array_equal(Shear().apply(FRAMES, both), warped([[1, 0.3, 0], [-0.2, 1, 0]]))


@pytest.mark.parametrize("index", range(10))
def test_rotation_is_table_2s_matrix_about_either_pivot(index):
    params = Rotation.space.grid[index]
    assert params == Params(angle_deg=3.0 * (index + 1))
    q = np.deg2rad(3.0 * (index + 1))
    printed = [[np.cos(q), -np.sin(q), 0], [np.sin(q), np.cos(q), 0]]
    assert np.array_equal(Rotation(Pivot.ORIGIN).apply(FRAMES, params), warped(printed))
    about_centre = warped(cv2.getRotationMatrix2D(CENTRE, -params.real("angle_deg"), 1.0))
    apart = np.abs(Rotation().apply(FRAMES, params).astype(int) - about_centre)
    assert apart.max() <= 1


def test_positive_rotation_is_clockwise_as_seen():
    frame = np.zeros((1, 41, 41, 3), np.uint8)
    frame[0, 20, 38] = 255
    row, column = np.unravel_index(Rotation().apply(frame, Params(angle_deg=30.0))[0, ..., 0].argmax(), (41, 41))
    assert row > 26
    assert column > 30


@pytest.mark.parametrize(
    ("stimulus", "params", "matrix"),
    [
        (Translation(), Params(dx_px=3.3, dy_px=-2.6), [[1, 0, 3.3], [0, 1, -2.6]]),
        (Scale(Pivot.ORIGIN), Params(sx=2.5, sy=0.7), [[2.5, 0, 0], [0, 0.7, 0]]),
        (Shear(), Params(sx=-0.4, sy=0.1), [[1, -0.4, 0], [0.1, 1, 0]]),
    ],
    ids=["translation", "scale", "shear"],
)
def test_interpolation_is_bilinear_with_black_outside(stimulus, params, matrix):
    frames = smooth(1, 24, 31)
    expected = bilinear(frames[0], matrix)
    assert np.abs(stimulus.apply(torch.from_numpy(frames), params).numpy()[0] - expected).max() <= 0.501
    assert np.abs(stimulus.apply(frames, params)[0] - expected).max() <= 2


@given(gain=st.floats(0.2, 3.0))
def test_contrast_is_alpha_times_the_pixel(gain):
    expected = np.clip(np.rint(FRAMES.astype(np.float32) * np.float32(gain)), 0, 255)
    assert np.array_equal(Contrast().apply(FRAMES, Params(gain=gain)), expected)


@given(shift=st.integers(-100, 100))
def test_brightness_is_the_pixel_plus_beta(shift):
    expected = np.clip(FRAMES.astype(int) + shift, 0, 255)
    assert np.array_equal(Brightness().apply(FRAMES, Params(shift=shift)), expected)
    assert np.array_equal(Brightness().apply(torch.from_numpy(FRAMES), Params(shift=shift)).numpy(), expected)


def test_the_linear_grids_are_table_4():
    assert [params.real("gain") for params in Contrast.space.grid] == pytest.approx(np.arange(1.2, 3.01, 0.2).tolist())
    assert [params["shift"] for params in Brightness.space.grid] == list(range(10, 101, 10))


def test_the_blur_grid_is_table_4_without_its_repeat():
    rows = [(params["kind"], params["size"]) for params in Blur.space.grid]
    averaging, gaussian = [("averaging", size) for size in (3, 4, 5, 6)], [("gaussian", size) for size in (3, 5, 7)]
    assert rows == [*averaging, *gaussian, ("median", 3), ("median", 5), ("bilateral", 9)]


@pytest.mark.parametrize("size", range(2, 10))
@pytest.mark.parametrize("kind", ["averaging", "gaussian", "median", "bilateral"])
def test_blur_is_the_plain_opencv_call(kind, size):
    odd = size + 1 - size % 2
    plain = {
        "averaging": lambda frame: cv2.blur(frame, (size, size)),
        "gaussian": lambda frame: cv2.GaussianBlur(frame, (odd, odd), 0),
        "median": lambda frame: cv2.medianBlur(frame, odd),
        "bilateral": lambda frame: cv2.bilateralFilter(frame, odd, 75, 75),
    }[kind]
    params = Params(kind=kind, size=size)
    expected = np.stack([plain(frame) for frame in FRAMES])
    assert np.array_equal(Blur().apply(FRAMES, params), expected)
    by_torch = Blur().apply(torch.from_numpy(FRAMES), params).numpy()
    assert np.abs(by_torch.astype(int) - expected).max() <= (0 if kind in {"median", "gaussian"} else 1)


@given(values=st.lists(st.integers(0, 255), min_size=49, max_size=49), count=st.sampled_from([1, 3, 9, 25, 49]))
def test_median_network_finds_the_median(values, count):
    places = values[:count]
    for first, second, first_needed, second_needed in median_network(count):
        low, high = sorted((places[first], places[second]))
        places[first] = low if first_needed else -1
        places[second] = high if second_needed else -1
    assert places[count // 2] == sorted(values[:count])[count // 2]


def test_a_large_median_is_done_in_parts(monkeypatch):
    from skidpad.stimuli.pictures import torch_kernels

    tensor = torch.from_numpy(FRAMES)
    whole = torch_kernels.median(tensor, 5)
    monkeypatch.setattr(torch_kernels, "_WORKING_BYTES", 1)
    assert torch.equal(torch_kernels.median(tensor, 5), whole)


def test_the_tests_notice_a_channel_left_behind():
    """The trap of OpenCV's scalars: a shift that moves one channel must not pass for brightness."""
    trapped = FRAMES.copy()
    trapped[..., 0] = cv2.add(np.ascontiguousarray(FRAMES[..., 0]), np.full(FRAMES.shape[:3], 50, np.uint8))
    assert not np.array_equal(stimuli()["brightness"].apply(FRAMES, Params(shift=50)), trapped)
