"""Windows over frames, for every kind of history, against plain loops over single windows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_toys import Staged, clip_of, described, module_for, spec_of

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.inputs import Colour, History, HistoryKind, InputSpec, Layout, check_history, input_channels
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.preprocess import Preprocessor
from skidpad.subjects.windows import Assembler, flow_pictures, flows, sliding

SETTINGS = settings(max_examples=12, deadline=None)
CPU = torch.device("cpu")
BACK = [kind for kind in HistoryKind if kind is not HistoryKind.SINGLE]
cases = pytest.mark.parametrize(
    ("kind", "staged"), [*((kind, False) for kind in BACK), (HistoryKind.RECURRENT, True)], ids=[*(kind.value for kind in BACK), "staged"]
)
layouts = pytest.mark.parametrize("layout", list(Layout))


def painted(greys: list[np.ndarray]) -> np.ndarray:
    """The picture of the mean flow of a few grey frames, by OpenCV alone."""
    moved = np.mean([cv2.calcOpticalFlowFarneback(a, b, None, 0.5, 3, 15, 3, 5, 1.2, 0) for a, b in pairwise(greys)], 0, np.float32)
    distance, angle = cv2.cartToPolar(moved[..., 0], moved[..., 1])
    hsv = np.full((*distance.shape, 3), 255, np.uint8)
    hsv[..., 0] = angle * 90 / np.pi
    hsv[..., 2] = cv2.normalize(distance, None, 0, 255, cv2.NORM_MINMAX)
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)


def one_input(window: np.ndarray, spec: InputSpec) -> np.ndarray:
    """The input of one window of frames, written out; without the batch."""
    preprocess = Preprocessor(spec, CPU)
    low, high = np.array(spec.range.low), np.array(spec.range.high)

    def scaled(values: np.ndarray) -> np.ndarray:
        return values / 255.0 * (high - low) + low

    small = preprocess.shrink(window).numpy().astype(np.float64)
    if spec.history.kind is HistoryKind.STACK:
        picture = np.concatenate([scaled(frame) for frame in small], -1)
    elif spec.history.kind is HistoryKind.DIFFERENCES:
        steps = [(new - old + 255.0) / 2.0 for old, new in pairwise(small)]
        picture = np.concatenate([scaled(step) for step in reversed(steps)], -1)
    elif spec.history.kind is HistoryKind.OPTICAL_FLOW:
        grey = Preprocessor(InputSpec(spec.width_px, spec.height_px, Colour.GREY, crop=spec.crop), CPU).shrink(window).numpy()[..., 0]
        picture = scaled(painted(list(grey)).astype(np.float64))
    else:
        picture = scaled(small)
    return picture if spec.layout is Layout.NHWC else np.moveaxis(picture, -1, -3)


@layouts
@pytest.mark.parametrize("kind", BACK)
def test_inputs_are_those_of_the_plain_loop(kind: HistoryKind, layout: Layout) -> None:
    spec = spec_of(kind, 4, layout)
    clip = clip_of(9)
    assembler, windows = Assembler(spec, CPU), sliding(6, 3)
    got = assembler.inputs(assembler.codes(assembler.shrink(clip), windows), windows).numpy()
    expected = np.stack([one_input(clip[start : start + 4], spec) for start in range(6)])
    # The mean of flows may differ in its last bit, and then a picture by one level.
    np.testing.assert_allclose(got, expected, atol=0.02 if kind is HistoryKind.OPTICAL_FLOW else 1e-6)
    assert input_channels(spec) == (got.shape[-3] if layout is Layout.NCHW else got.shape[-1])


@pytest.mark.parametrize(("colour", "channels"), [(Colour.GREY, 2), (Colour.RGB, 6)])
def test_differences_have_one_picture_less_than_frames(colour: Colour, channels: int) -> None:
    spec = spec_of(HistoryKind.DIFFERENCES, 3, colour=colour)
    assert input_channels(spec) == channels
    assembler, still = Assembler(spec, CPU), np.full((3, 20, 28, 3), 77, np.uint8)
    inputs = assembler.inputs(assembler.shrink(still), sliding(1, 2))
    middle = torch.tensor([(low + high) / 2 for low, high in zip(spec.range.low, spec.range.high, strict=True)]).repeat(2)
    torch.testing.assert_close(inputs, middle[None, :, None, None].expand_as(inputs), atol=1e-6, rtol=0)


@cases
@SETTINGS
@given(frames=st.integers(2, 5), count=st.integers(0, 7), batch_size=st.integers(1, 8), seed=st.integers(0, 5))
def test_a_clip_is_answered_window_by_window(kind: HistoryKind, staged: bool, frames: int, count: int, batch_size: int, seed: int) -> None:
    spec = spec_of(kind, frames)
    module = module_for(spec, staged=staged)
    subject = NetworkSubject.of_module(module, described(spec), batch_size=batch_size)
    clip = clip_of(frames - 1 + count, seed)
    answers = subject.predict(clip)
    seen = subject.observe(clip)
    assert subject.lead == frames - 1
    assert answers.shape == (count, 1)
    np.testing.assert_array_equal(seen.answers, answers)
    assert seen.values.shape == (count, subject.layers[-1].stop)
    alone = [subject.predict(clip[start : start + frames])[0] for start in range(count)]
    np.testing.assert_allclose(answers, np.array(alone).reshape(-1, 1), atol=1e-6)
    if kind is not HistoryKind.OPTICAL_FLOW and count:
        inputs = np.stack([one_input(clip[start : start + frames], spec) for start in range(count)])
        with torch.no_grad():
            np.testing.assert_allclose(answers, module(torch.from_numpy(inputs).float()).numpy(), atol=1e-5)


@cases
def test_now_takes_the_place_of_the_answered_frame_alone(kind: HistoryKind, staged: bool) -> None:
    spec = spec_of(kind, 4)
    subject = NetworkSubject.of_module(module_for(spec, staged=staged), described(spec), batch_size=3)
    clip, now = clip_of(3 + 5), clip_of(5, seed=8)
    expected = [subject.predict(np.concatenate([clip[start : start + 3], now[start : start + 1]]))[0] for start in range(5)]
    np.testing.assert_allclose(subject.predict(clip, now), expected, atol=1e-6)
    np.testing.assert_array_equal(subject.observe(clip, now).answers, subject.predict(clip, now))
    np.testing.assert_allclose(subject.predict(clip, clip[3:]), subject.predict(clip), atol=1e-6)
    assert not np.allclose(subject.predict(clip, now), subject.predict(clip), atol=1e-4)
    with pytest.raises(ValueError, match="takes 5 frames `now`; got 4"):
        subject.predict(clip, now[:4])


def test_a_subject_without_memory_answers_for_now() -> None:
    spec = InputSpec(16, 12)
    subject = NetworkSubject.of_module(module_for(spec), described(spec))
    clip, now = clip_of(4), clip_of(4, seed=2)
    np.testing.assert_array_equal(subject.predict(clip, now), subject.predict(now))
    assert subject.lead == 0


def test_a_frame_of_a_clip_is_looked_at_once() -> None:
    spec = spec_of(HistoryKind.RECURRENT, 10)
    module = module_for(spec, staged=True)
    assert isinstance(module, Staged)
    subject = NetworkSubject.of_module(module, described(spec), batch_size=4)
    for ask in (subject.predict, subject.observe):
        module.looked_at = 0
        ask(clip_of(9 + 12))
        assert module.looked_at == 9 + 12
        module.looked_at = 0
        ask(clip_of(9 + 12), clip_of(12))
        assert module.looked_at == 9 + 12 + 12


def test_a_network_in_two_stages_answers_as_it_does_whole() -> None:
    spec = spec_of(HistoryKind.RECURRENT, 5)
    staged, whole = module_for(spec, staged=True), module_for(spec)
    whole.load_state_dict({name: tensor for name, tensor in staged.state_dict().items() if not name.startswith("out")})
    clip = clip_of(4 + 6)
    two = NetworkSubject.of_module(staged, described(spec), batch_size=4)
    one = NetworkSubject.of_module(whole, described(spec))
    np.testing.assert_allclose(two.predict(clip), one.predict(clip), atol=1e-6)
    # The convolution counts once on the answered frame, or on every frame of the window; the LSTM at every step of both.
    names = [f"lstm1.t{step:03d}" for step in range(5)]
    assert [layer.name for layer in two.layers] == ["conv1", *names, "dense1"]
    assert [layer.name for layer in one.layers] == [*(f"conv1.t{step:03d}" for step in range(5)), *names, "dense1"]
    seen, rolled = two.observe(clip).values, one.observe(clip).values
    np.testing.assert_allclose(seen[:, :3], rolled[:, 12:15], atol=1e-6)
    np.testing.assert_allclose(seen[:, 3:], rolled[:, 15:], atol=1e-6)


@cases
def test_threads_do_not_get_in_each_others_way(kind: HistoryKind, staged: bool) -> None:
    spec = spec_of(kind, 3)
    subject = NetworkSubject.of_module(module_for(spec, staged=staged), described(spec), batch_size=2)
    clips = [clip_of(2 + 5, seed) for seed in range(8)]
    expected = [(subject.predict(clip), subject.observe(clip).values) for clip in clips]
    with ThreadPoolExecutor(4) as pool:
        answers, seen = list(pool.map(subject.predict, clips)), list(pool.map(subject.observe, clips))
    for (answer, values), got, observed in zip(expected, answers, seen, strict=True):
        np.testing.assert_array_equal(got, answer)
        assert torch.equal(observed.values, values)


def test_flow_is_the_way_that_pixels_went() -> None:
    ground = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 256, (60, 100), dtype=np.uint8), (0, 0), 2)
    grey = np.stack([ground[:, 10 - 2 * step : 90 - 2 * step] for step in range(3)])[..., None]
    moved = flows(torch.from_numpy(grey), torch.tensor([[0, 1, 2]])).numpy()
    assert not moved[0].any()
    np.testing.assert_allclose(np.median(moved[1:], (1, 2)), [[2.0, 0.0]] * 2, atol=0.1)
    again = flows(torch.from_numpy(grey), torch.tensor([[0, 1], [1, 2], [0, 1]]), threads=3).numpy()
    np.testing.assert_array_equal(again, moved)


def test_flow_does_not_depend_on_the_threads_of_opencv() -> None:
    grey = torch.from_numpy(clip_of(3)[..., :1].copy())
    threads = cv2.getNumThreads()
    try:
        found = []
        for count in (1, 2):
            cv2.setNumThreads(count)
            found.append(flows(grey, torch.tensor([[0, 1, 2]])))
    finally:
        cv2.setNumThreads(threads)
    assert torch.equal(*found)


def test_the_hue_of_flow_is_its_direction_and_the_value_its_length() -> None:
    moved = torch.zeros((1, 2, 2, 2))
    moved[0, 0, 0] = torch.tensor([3.0, 0.0])
    moved[0, 0, 1] = torch.tensor([-3.0, 0.0])
    moved[0, 1, 0] = torch.tensor([1.5, 0.0])
    picture = flow_pictures(moved)[0]
    assert picture[0, 0].tolist() == [255, 0, 0]
    assert picture[0, 1].tolist() == [0, 255, 255]
    assert picture[1, 0].tolist() == [127, 0, 0]
    assert picture[1, 1].tolist() == [0, 0, 0]
    assert not flow_pictures(torch.full((1, 2, 2, 2), 4.0))[0].any()  # all alike: no longest way


@pytest.mark.parametrize("kind", [HistoryKind.DIFFERENCES, HistoryKind.OPTICAL_FLOW])
def test_one_frame_cannot_be_compared(kind: HistoryKind) -> None:
    with pytest.raises(BadSubjectError, match="write 2 or more"):
        check_history(InputSpec(16, 12, history=History(1, kind)))
