"""The quick looks keep what the whole referee keeps, and refuse what it refuses for the road or the edges."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from skidpad.core.images import NumpyFrames
from skidpad.drives.opening import open_drive
from skidpad.referee.edges import EDGES_PX, grey_levels
from skidpad.referee.network import QuickReferee, _resizing
from skidpad.referee.verdict import judge

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import referee as bench


@pytest.fixture(scope="module")
def road() -> NumpyFrames:
    return open_drive("rendered?frames=6&seed=3&width=212&height=160").read(range(6)).frames


@pytest.fixture(scope="module")
def quick(road: NumpyFrames) -> QuickReferee:
    return QuickReferee(road, "cpu")


@pytest.mark.parametrize("name", ["exposure -1 EV", "gamma 0.6", "veil 0.3", "noise 6", "blur 1 px"])
def test_another_light_is_kept_as_by_the_whole_referee(road: NumpyFrames, quick: QuickReferee, name: str) -> None:
    changed = np.stack([bench.KEEPING[name](frame, np.random.default_rng(0)) for frame in road])
    assert quick.kept(slice(0, 6), torch.from_numpy(changed)).tolist() == judge(road, changed).kept.tolist() == [True] * 6


def test_another_scene_and_a_road_that_is_gone_are_refused(road: NumpyFrames, quick: QuickReferee) -> None:
    others = np.ascontiguousarray(road[:, :, ::-1])
    grass = road.copy()
    grass[:, 70:] = (40, 120, 40)
    for changed in (others[::-1].copy(), grass):
        found = quick.kept(slice(0, 6), torch.from_numpy(changed)).numpy()
        np.testing.assert_array_equal(found, judge(road, changed).kept)
        assert not found.any()


def test_places_are_those_of_the_originals(road: NumpyFrames, quick: QuickReferee) -> None:
    assert quick.kept(slice(2, 5), torch.from_numpy(road[2:5])).all()


@pytest.mark.parametrize("size", [(160, 212), (240, 320), (160, 320)])
def test_light_is_resized_as_opencv_does(size: tuple[int, int]) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, *size, 3), np.uint8)
    rows, columns = _resizing(*size)
    assert rows.shape == (EDGES_PX, size[0])
    np.testing.assert_allclose(rows @ frames.mean(axis=3) @ columns.T, grey_levels(frames), atol=1.0)  # which rounds each colour
