import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.subjects import preprocess
from skidpad.subjects.inputs import (
    Colour,
    Crop,
    Equalise,
    EqualisedChannels,
    Equaliser,
    History,
    HistoryKind,
    InputSpec,
    Layout,
    Range,
    Size,
    Undistort,
)
from skidpad.subjects.preprocess import TOLERANCE_LEVELS, Preprocessor
from skidpad.subjects.windows import Assembler

CPU = torch.device("cpu")


def triangle_weights(size_in: int, size_out: int) -> np.ndarray:
    """The plain definition: a triangle around the centre of each output pixel, as wide as the shrinking."""
    scale = size_in / size_out
    width = max(scale, 1.0)
    centres = (np.arange(size_out) + 0.5) * scale
    distance = np.abs((np.arange(size_in)[None] + 0.5 - centres[:, None]) / width)
    weights = np.maximum(0.0, 1.0 - distance)
    return weights / weights.sum(1, keepdims=True)


def reference(frames: np.ndarray, spec: InputSpec) -> np.ndarray:
    """Crop, resize and colour as written down, in float64; bytes of (N, height, width, channels)."""
    height, width = frames.shape[1:3]
    rows = slice(round(spec.crop.top * height), height - round(spec.crop.bottom * height))
    columns = slice(round(spec.crop.left * width), width - round(spec.crop.right * width))
    part = frames[:, rows, columns].astype(np.float64)
    down, across = triangle_weights(part.shape[1], spec.height_px), triangle_weights(part.shape[2], spec.width_px)
    return np.rint(np.einsum("hy,nyxc,wx->nhwc", down, part, across, optimize=True)).clip(0, 255).astype(np.uint8)


def smooth(count: int, height: int, width: int, seed: int = 3) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    return np.stack([cv2.GaussianBlur(frame, (5, 5), 2.0) for frame in noise])


def levels_apart(first: np.ndarray, second: np.ndarray) -> int:
    return int(np.abs(first.astype(int) - second.astype(int)).max())


@settings(max_examples=15, deadline=None)
@given(
    st.tuples(st.integers(8, 90), st.integers(8, 90)),
    st.tuples(st.integers(3, 60), st.integers(3, 60)),
    st.tuples(*[st.floats(0.0, 0.4)] * 4),
)
def test_resizing_is_the_triangle_filter(size: tuple[int, int], small: tuple[int, int], crop: tuple[float, float, float, float]) -> None:
    spec = InputSpec(small[1], small[0], crop=Crop(*crop))
    frames = np.random.default_rng(1).integers(0, 256, (2, *size, 3), dtype=np.uint8)
    assert levels_apart(Preprocessor(spec, CPU).shrink(frames).numpy(), reference(frames, spec)) <= TOLERANCE_LEVELS


@pytest.mark.parametrize("size", [(66, 200), (300, 30), (240, 320)])
def test_the_float_path_of_other_devices_agrees_with_the_byte_path(size: tuple[int, int]) -> None:
    frames = smooth(3, 120, 160)
    pixels = torch.from_numpy(frames)
    planes = torch.nn.functional.interpolate(pixels.permute(0, 3, 1, 2).float(), size, mode="bilinear", antialias=True)
    floats = planes.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)
    assert levels_apart(preprocess._resize(pixels, size).numpy(), floats.numpy()) <= TOLERANCE_LEVELS


@pytest.mark.parametrize("colour", [Colour.BGR, Colour.GREY, Colour.YUV])
def test_the_two_colour_paths_agree_on_every_kind_of_pixel(colour: Colour) -> None:
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 300, 400, 3), dtype=np.uint8))
    bytes_path, float_path = preprocess.recolour(pixels, colour), preprocess._recolour_in_floats(pixels, colour)
    assert bytes_path.shape == float_path.shape == (1, 300, 400, colour.channels)
    assert levels_apart(bytes_path.numpy(), float_path.numpy()) <= TOLERANCE_LEVELS


def test_the_two_paths_of_hsv_agree_around_the_circle() -> None:
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 300, 400, 3), dtype=np.uint8))
    pixels[0, 0] = 80  # grey has hue 0
    first = preprocess.recolour(pixels, Colour.HSV).numpy().astype(int)
    second = preprocess._recolour_in_floats(pixels, Colour.HSV).numpy().astype(int)
    hue = np.abs(first[..., 0] - second[..., 0])
    assert np.minimum(hue, 180 - hue).max() <= TOLERANCE_LEVELS
    assert np.abs(first[..., 1:] - second[..., 1:]).max() <= TOLERANCE_LEVELS


def test_colours_are_what_their_names_say() -> None:
    red = np.zeros((1, 4, 4, 3), np.uint8)
    red[..., 0] = 255
    pixel = {colour: Preprocessor(InputSpec(4, 4, colour), CPU).shrink(red)[0, 0, 0].tolist() for colour in Colour}
    assert pixel[Colour.RGB] == [255, 0, 0]
    assert pixel[Colour.BGR] == [0, 0, 255]
    assert pixel[Colour.GREY] == [76]
    assert pixel[Colour.YUV][0] == 76
    assert pixel[Colour.HSV] == [0, 255, 255]


def test_the_range_maps_0_and_255_to_its_ends_in_every_channel() -> None:
    spec = InputSpec(2, 1, Colour.BGR, Range((-1.0, -2.0, 0.0), (1.0, 2.0, 10.0)))
    black_and_white = np.array([[[[0, 0, 0], [255, 255, 255]]]], np.uint8)
    out = Preprocessor(spec, CPU)(black_and_white)
    assert out.shape == (1, 3, 1, 2)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out[0, :, 0], torch.tensor([[-1.0, 1.0], [-2.0, 2.0], [0.0, 10.0]]))


def test_layouts_hold_the_same_numbers(frames: np.ndarray) -> None:
    planes = Preprocessor(InputSpec(20, 10), CPU)(frames)
    pixels = Preprocessor(InputSpec(20, 10, layout=Layout.NHWC), CPU)(frames)
    assert planes.shape == (5, 3, 10, 20)
    assert pixels.shape == (5, 10, 20, 3)
    assert torch.equal(planes, pixels.permute(0, 3, 1, 2))


def test_any_kind_of_array_gives_the_same_and_stays_untouched(frames: np.ndarray) -> None:
    run = Preprocessor(InputSpec(20, 10, Colour.YUV, crop=Crop(top=0.3, left=0.1)), CPU)
    before = frames.copy()
    plain = run(frames)
    locked = frames.copy()
    locked.flags.writeable = False
    assert torch.equal(run(locked), plain)
    assert torch.equal(run(torch.from_numpy(frames)), plain)
    assert torch.equal(run(frames[:, :, ::-1][:, :, ::-1]), plain)
    assert torch.equal(run(frames[::-1]), plain.flip(0))
    assert torch.equal(torch.cat([run(frames[:2]), run(frames[2:])]), plain)
    assert np.array_equal(frames, before)


def test_the_same_size_is_copied_as_it_is(frames: np.ndarray) -> None:
    small = Preprocessor(InputSpec(60, 40), CPU).shrink(frames)
    assert np.array_equal(small.numpy(), frames)
    assert not np.shares_memory(small.numpy(), frames)


def test_no_frames_give_no_inputs(frames: np.ndarray) -> None:
    assert Preprocessor(InputSpec(20, 10, Colour.GREY), CPU)(frames[:0]).shape == (0, 1, 10, 20)


@pytest.mark.parametrize("bad", [np.zeros((2, 4, 4, 3), np.float32), np.zeros((4, 4, 3), np.uint8), np.zeros((2, 4, 4, 1), np.uint8)])
def test_what_is_not_frames_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="frames must be uint8 RGB"):
        Preprocessor(InputSpec(4, 4), CPU)(bad)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("colour", [Colour.RGB, Colour.BGR, Colour.GREY, Colour.YUV])
def test_the_gpu_agrees_with_the_cpu(colour: Colour) -> None:
    spec = InputSpec(200, 66, colour, crop=Crop(top=0.4))
    frames = smooth(4, 240, 320)
    there = Preprocessor(spec, torch.device("cuda")).shrink(frames).cpu()
    # A level lost in resizing may become another one in the colour.
    assert levels_apart(Preprocessor(spec, CPU).shrink(frames).numpy(), there.numpy()) <= 2 * TOLERANCE_LEVELS


@pytest.mark.real_data
def test_recorded_frames_are_resized_by_the_plain_definition() -> None:
    folder = Path(os.environ.get("SKIDPAD_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data")) / "udacity-ch2-test" / "center"
    files = sorted(folder.glob("*.jpg"))[::1500] if folder.is_dir() else []
    if not files:
        pytest.skip(f"no recorded frames in {folder}; set SKIDPAD_SHARED_DATA")
    frames = np.stack([cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB) for file in files])
    spec = InputSpec(200, 66, crop=Crop(top=0.4))
    assert levels_apart(Preprocessor(spec, CPU).shrink(frames).numpy(), reference(frames, spec)) <= TOLERANCE_LEVELS


def shrunk(frames: np.ndarray, **said: object) -> np.ndarray:
    spec = InputSpec(frames.shape[2], frames.shape[1], **said)  # type: ignore[arg-type]
    before = frames.copy()
    small = Preprocessor(spec, CPU).shrink(frames).numpy()
    np.testing.assert_array_equal(frames, before)
    return small


def test_swapped_colour_channels_are_opencvs() -> None:
    frames = smooth(2, 20, 30)
    yuv = np.stack([cv2.cvtColor(frame, cv2.COLOR_RGB2YUV) for frame in frames])
    np.testing.assert_array_equal(shrunk(frames, colour=Colour.YUV_SWAPPED), yuv[..., [0, 2, 1]])
    swapped = np.stack([cv2.cvtColor(frame, cv2.COLOR_BGR2YUV) for frame in frames])
    np.testing.assert_array_equal(shrunk(frames, colour=Colour.YUV_OF_BGR), swapped)
    for colour in (Colour.YUV_SWAPPED, Colour.YUV_OF_BGR):
        floats = preprocess._recolour_in_floats(torch.from_numpy(frames), colour).numpy()
        assert levels_apart(floats, shrunk(frames, colour=colour)) <= TOLERANCE_LEVELS


@pytest.mark.parametrize("kind", list(Equaliser))
@pytest.mark.parametrize("colour", [Colour.RGB, Colour.BGR, Colour.GREY, Colour.YUV, Colour.HSV])
@pytest.mark.parametrize("channels", list(EqualisedChannels))
def test_equalisation_is_opencvs_on_the_brightness_or_on_each_channel(kind: Equaliser, colour: Colour, channels: EqualisedChannels) -> None:
    frames = (smooth(2, 32, 48) // 3).astype(np.uint8)
    found = shrunk(frames, colour=colour, equalise=Equalise(kind, channels, 3.0, 4))
    plane = cv2.createCLAHE(3.0, (4, 4)).apply if kind is Equaliser.CLAHE else cv2.equalizeHist
    plain = shrunk(frames, colour=colour)
    for picture, before in zip(found, plain, strict=True):
        if channels is EqualisedChannels.EACH:
            expected = np.dstack([plane(np.ascontiguousarray(before[..., place])) for place in range(before.shape[-1])])
        elif colour in {Colour.RGB, Colour.BGR}:
            there, back = {
                Colour.RGB: (cv2.COLOR_RGB2YUV, cv2.COLOR_YUV2RGB),
                Colour.BGR: (cv2.COLOR_BGR2YUV, cv2.COLOR_YUV2BGR),
            }[colour]
            yuv = cv2.cvtColor(before, there)
            yuv[..., 0] = plane(np.ascontiguousarray(yuv[..., 0]))
            expected = cv2.cvtColor(yuv, back)
        else:
            expected = before.copy()
            place = 2 if colour is Colour.HSV else 0
            expected[..., place] = plane(np.ascontiguousarray(before[..., place]))
        np.testing.assert_array_equal(picture, expected)
    assert levels_apart(found, plain) > 10


def test_frames_are_straightened_as_by_opencv_before_all_else() -> None:
    frames = smooth(2, 48, 64)
    camera = Undistort(Size(128, 96), 100.0, 90.0, 63.0, 47.0, (-0.3, 0.1, 0.001, -0.002, 0.0))
    matrix = np.array([[50.0, 0.0, 31.5], [0.0, 45.0, 23.5], [0.0, 0.0, 1.0]])
    straight = np.stack([cv2.undistort(frame, matrix, np.array(camera.coefficients)) for frame in frames])
    assert levels_apart(straight, frames) > 10
    assert levels_apart(shrunk(frames, undistort=camera), straight) <= TOLERANCE_LEVELS
    spec = InputSpec(20, 10, crop=Crop(top=0.5), undistort=camera)
    plain = InputSpec(20, 10, crop=Crop(top=0.5))
    assert levels_apart(Preprocessor(spec, CPU).shrink(frames).numpy(), Preprocessor(plain, CPU).shrink(straight).numpy()) <= 1


def test_a_crop_may_come_after_a_first_resizing() -> None:
    frames = smooth(2, 96, 128)
    whole = Preprocessor(InputSpec(64, 48), CPU).shrink(frames).numpy()
    spec = InputSpec(64, 30, crop=Crop(top=18 / 48), resize_first=Size(64, 48))
    np.testing.assert_array_equal(Preprocessor(spec, CPU).shrink(frames).numpy(), whole[:, 18:])
    again = InputSpec(20, 10, crop=Crop(top=18 / 48), resize_first=Size(64, 48))
    expected = Preprocessor(InputSpec(20, 10), CPU).shrink(np.ascontiguousarray(whole[:, 18:])).numpy()
    np.testing.assert_array_equal(Preprocessor(again, CPU).shrink(frames).numpy(), expected)


@pytest.mark.parametrize("layout", list(Layout))
def test_every_picture_is_standardised_by_itself(layout: Layout) -> None:
    frames = np.concatenate([smooth(2, 12, 16), np.full((1, 12, 16, 3), 77, np.uint8)])
    seen = Preprocessor(InputSpec(16, 12, layout=layout, standardise=True), CPU)
    small = seen.shrink(frames)
    for values in (seen.normalise(small), seen.maps(small)):
        pictures = values.numpy() if layout is Layout.NHWC else values.numpy().transpose(0, 2, 3, 1)
        scaled = frames.astype(np.float64) / 255.0
        mean, deviation = (part(scaled, (1, 2, 3), keepdims=True) for part in (np.mean, np.std))
        # the formula of tf.image.per_image_standardization
        expected = (scaled - mean) / np.maximum(deviation, 1.0 / np.sqrt(12 * 16 * 3))
        np.testing.assert_allclose(pictures, expected, atol=1e-4)
    np.testing.assert_allclose(pictures[2], 0.0, atol=1e-4)


def test_the_frames_of_a_window_are_standardised_where_they_go_in() -> None:
    frames = smooth(3, 12, 16)
    for kind, pictures in ((HistoryKind.STACK, 1), (HistoryKind.RECURRENT, 2)):
        assembler = Assembler(InputSpec(16, 12, standardise=True, history=History(2, kind)), CPU)
        small, windows = assembler.windows(frames)
        inputs = assembler.inputs(small, windows).reshape(2, pictures, -1)
        np.testing.assert_allclose(inputs.mean(2), 0.0, atol=1e-5)
        np.testing.assert_allclose(inputs.std(2, correction=0), 1.0, atol=1e-4)
