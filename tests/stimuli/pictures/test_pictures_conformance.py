"""What every transform of DeepTest promises, on NumPy and on torch frames."""

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms_pictures import noise, parameters, smooth

from skidpad.stimuli.pictures import COMPOSITE, SIMPLE, TRANSFORMS, stimuli
from skidpad.stimuli.pictures.torch_kernels import AGREEMENT

NAMES = (*SIMPLE, *COMPOSITE)
GRID = [pytest.param(name, params, id=f"{name}-{params}") for name, stimulus in stimuli(NAMES).items() for params in stimulus.space.grid]
SIZES = [(1, 1), (1, 37), (37, 1), (2, 3), (7, 250), (120, 5), (33, 47)]
KINDS = ["numpy", "torch"]


def as_kind(frames, kind):
    return torch.from_numpy(frames.copy()) if kind == "torch" else frames.copy()


def as_array(frames):
    return frames if isinstance(frames, np.ndarray) else frames.numpy()


def test_every_transform_is_in_a_group_and_states_its_agreement():
    assert tuple(stimuli())[: len(NAMES)] == NAMES
    assert set(NAMES) <= set(AGREEMENT) <= set(TRANSFORMS.names())


@pytest.mark.parametrize("name", NAMES)
def test_grid_has_ten_different_rows_within_bounds(name):
    space = stimuli()[name].space
    assert len(set(space.grid)) == len(space.grid) == 10
    for params in space.grid:
        space.check(name, params)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_identity_parameters_change_nothing(name, kind):
    stimulus = stimuli()[name]
    identity = stimulus.space.identity
    assert identity is not None
    stimulus.space.check(name, identity)
    frames = noise(3, 31, 45)
    assert np.array_equal(as_array(stimulus.apply(as_kind(frames, kind), identity)), frames)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "params"), GRID)
def test_every_channel_moves(name, params, kind):
    frames = as_kind(smooth(2, 120, 160), kind)
    moved = as_array(stimuli()[name].apply(frames, params)) != as_array(frames)
    assert moved.any(axis=(1, 2)).all(), "a channel of a frame did not move"


@pytest.mark.parametrize(("name", "params"), GRID)
def test_torch_agrees_with_numpy_on_the_grid(name, params):
    frames = smooth(2, 90, 121)
    stimulus = stimuli()[name]
    assert AGREEMENT[name].holds(stimulus.apply(frames, params), stimulus.apply(torch.from_numpy(frames), params).numpy())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_parameters_on_any_size(name, data):
    stimulus = stimuli()[name]
    params = data.draw(parameters(stimulus.space))
    count, height, width = data.draw(st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(1, 40)))
    frames = smooth(count, height, width, seed=data.draw(st.integers(0, 9)))
    before = frames.copy()
    out = stimulus.apply(frames, params)
    tensor = torch.from_numpy(frames.copy())
    torch_out = stimulus.apply(tensor, params)
    assert np.array_equal(frames, before), "the input was changed"
    assert np.array_equal(tensor.numpy(), before), "the torch input was changed"
    assert out.shape == frames.shape
    assert out.dtype == np.uint8
    assert not np.shares_memory(out, frames)
    assert tuple(torch_out.shape) == frames.shape
    assert torch_out.dtype == torch.uint8
    assert np.array_equal(stimulus.apply(frames, params), out), "not pure"
    apart = np.abs(out.astype(int) - torch_out.numpy())
    assert (apart <= AGREEMENT[name].within).sum() >= AGREEMENT[name].share * apart.size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_its_frames_one_by_one(name, kind):
    stimulus = stimuli()[name]
    frames = noise(5, 40, 52)
    for params in stimulus.space.grid[::3]:
        whole = as_array(stimulus.apply(as_kind(frames, kind), params))
        for index in range(len(frames)):
            alone = stimulus.apply(as_kind(frames[index : index + 1], kind), params)
            assert np.array_equal(as_array(alone)[0], whole[index])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_odd_sizes(name, size, kind):
    stimulus = stimuli()[name]
    for params in stimulus.space.grid:
        out = as_array(stimulus.apply(as_kind(noise(2, *size), kind), params))
        assert out.shape == (2, *size, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_no_frames_in_no_frames_out(name, kind):
    for params in stimuli()[name].space.grid:
        assert tuple(stimuli()[name].apply(as_kind(noise(0, 24, 32), kind), params).shape) == (0, 24, 32, 3)


@pytest.mark.parametrize("name", NAMES)
def test_any_strides_come_in(name):
    stimulus = stimuli()[name]
    base = noise(6, 40, 60)
    views = [base[::2], base[:, ::-1], base[:, :, 5:50:2], base[..., ::-1], np.asfortranarray(base), base.transpose(0, 2, 1, 3)]
    for params in (stimulus.space.grid[0], stimulus.space.grid[-1]):
        for view in views:
            assert np.array_equal(stimulus.apply(view, params), stimulus.apply(np.ascontiguousarray(view), params))
        turned = torch.from_numpy(base).transpose(1, 2)
        assert torch.equal(stimulus.apply(turned, params), stimulus.apply(turned.contiguous(), params))
        locked = base.copy()
        locked.setflags(write=False)
        assert np.array_equal(stimulus.apply(locked, params), stimulus.apply(base, params))


@pytest.mark.parametrize("name", NAMES)
def test_threads_change_nothing_and_the_users_setting_stays(name):
    stimulus = stimuli()[name]
    frames = noise(7, 48, 64)
    before = cv2.getNumThreads()
    results = []
    try:
        for threads in (1, 2, 5):
            cv2.setNumThreads(threads)
            results.append(stimulus.apply(frames, stimulus.space.grid[4]))
            assert cv2.getNumThreads() == threads
    finally:
        cv2.setNumThreads(before)
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize(
    "frames",
    [
        np.zeros((4, 5, 3), np.uint8),
        np.zeros((1, 4, 5, 4), np.uint8),
        np.zeros((1, 0, 5, 3), np.uint8),
        np.zeros((1, 4, 5, 3), np.float32),
        torch.zeros((1, 3, 4, 5)),
    ],
    ids=["no batch", "four channels", "no rows", "floats", "torch floats, channels first"],
)
def test_other_arrays_are_refused_with_what_was_got(frames):
    with pytest.raises(ValueError, match=r"uint8 of shape \(N, height, width, 3\); got .*"):
        stimuli()["brightness"].apply(frames, stimuli()["brightness"].space.grid[0])


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_cuda_agrees_with_numpy(name):
    frames = smooth(2, 90, 121)
    stimulus = stimuli()[name]
    for params in stimulus.space.grid:
        out = stimulus.apply(torch.from_numpy(frames).cuda(), params)
        assert out.is_cuda
        assert AGREEMENT[name].holds(stimulus.apply(frames, params), out.cpu().numpy())
