"""Corners that are cut off, against plain sums over whole pictures, on pictures with and without borders, in threads; compiled or not."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest

from skidpad.core.images import NumpyFrames
from skidpad.drives import open_drive
from skidpad.referee.borders import has_border_quickly
from skidpad.referee.verdict import BORDER_CHANGED, BORDER_EVEN, BORDER_SPREAD, DARK, LEAST_BORDER, has_border

Asked = Callable[[NumpyFrames, NumpyFrames], bool]
EITHER = pytest.mark.parametrize("has_border", [has_border, has_border_quickly])


def plain(before: NumpyFrames, after: NumpyFrames) -> bool:
    """The same by OpenCV's flood fill and sums over whole pictures."""
    height, width = after.shape[:2]
    least = int(LEAST_BORDER * height * width)
    was, now = (each.astype(int).sum(axis=2) for each in (before, after))
    for spread in (0, BORDER_SPREAD):
        known = np.zeros((height, width), bool)
        for corner in ((0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)):
            if known[corner[1], corner[0]]:
                continue
            mask = np.zeros((height + 2, width + 2), np.uint8)
            flags = 4 | cv2.FLOODFILL_MASK_ONLY | cv2.FLOODFILL_FIXED_RANGE | (1 << 8)
            cv2.floodFill(after.copy(), mask, corner, 0, (spread,) * 3, (spread,) * 3, flags)
            inside = mask[1:-1, 1:-1] > 0
            known |= inside
            if not least <= inside.sum() < height * width:
                continue
            changed = inside & (np.abs(was - now) > 3 * BORDER_CHANGED)
            if np.bincount(now[inside]).max() < BORDER_EVEN * inside.sum() or changed.sum() < least:
                continue
            unexplained = np.zeros_like(inside)
            for row, column in zip(*np.nonzero(changed), strict=True):
                alike = now[~inside & (was // 24 == was[row, column] // 24)]
                unexplained[row, column] = len(alike) > 20 and abs(alike.mean() - now[row, column]) / 3 >= 16
            if unexplained.sum() < least or (now[inside].mean() / 3 > DARK and not unexplained[height // 2 :].any()):
                continue
            ring = (cv2.dilate(inside.astype(np.uint8), np.ones((5, 5))) > 0) & ~inside
            near = ring & (cv2.dilate(unexplained.astype(np.uint8), np.ones((7, 7))) > 0)
            if near.any() and np.median(np.abs(now[near] - now[inside].mean())) / 3 > 12:
                return True
    return False


def changed_ones(frame: NumpyFrames, rng: np.random.Generator) -> Iterator[NumpyFrames]:
    """Cut sides and corners, turned and darkened pictures, burnt skies."""
    height, width = frame.shape[:2]
    for level in (0, 30, 128):
        side = frame.copy()
        side[:, : rng.integers(3, width // 2)] = level
        yield side
        low = frame.copy()
        low[rng.integers(height // 2, height - 3) :] = level
        yield low
        # as JPEG leaves one: up to 2 levels to both sides, and one light for nearly all of it
        uneven = frame.copy()
        part = uneven[:, : rng.integers(8, width // 2)]
        noise = np.where(rng.random((*part.shape[:2], 1)) < 0.93, 0, rng.integers(-2, 3, part.shape))
        part[:] = np.clip(max(level, 2) + noise, 0, 255)
        yield uneven
    corner = frame.copy()
    corner[: height // 3, : width // 3] = rng.integers(0, 3, (height // 3, width // 3, 3))
    yield corner
    turned = cv2.getRotationMatrix2D((width / 2, height / 2), float(rng.uniform(3, 20)), 1.0)
    yield np.asarray(cv2.warpAffine(frame, turned, (width, height)), np.uint8)
    yield (frame * 0.1).astype(np.uint8)
    burnt = np.clip(frame.astype(int) + 120, 0, 255).astype(np.uint8)
    burnt[: height // 4] = 255
    yield burnt
    yield np.zeros_like(frame)
    yield frame.copy()


@EITHER
@pytest.mark.parametrize("size", [(48, 64), (40, 90)])
def test_borders_are_found_where_plain_sums_find_them(size: tuple[int, int], has_border: Asked) -> None:
    height, width = size
    frames = open_drive(f"rendered?frames=4&width={width}&height={height}&seed=3").read(range(4)).frames
    rng = np.random.default_rng(1)
    pairs = [(frame, changed) for frame in frames for changed in changed_ones(frame, rng)]
    expected = [plain(*pair) for pair in pairs]
    assert 8 < sum(expected) < len(expected) - 8
    assert [has_border(*pair) for pair in pairs] == expected
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda pair: has_border(*pair), pairs)) == expected


@EITHER
def test_an_original_of_another_size_is_brought_to_the_changed_one(has_border: Asked) -> None:
    (frame,) = open_drive("rendered?frames=1&width=128&height=96").read(range(1)).frames
    small = np.asarray(cv2.resize(frame, (64, 48), interpolation=cv2.INTER_AREA), np.uint8)
    assert not has_border(frame, small)
    small[:, :20] = 0
    assert has_border(frame, small)


@EITHER
def test_views_of_larger_arrays_are_looked_at_as_they_are(has_border: Asked) -> None:
    (frame,) = open_drive("rendered?frames=1&width=64&height=48").read(range(1)).frames
    cut = frame.copy()
    cut[:, :20] = 0
    wide = np.concatenate([frame, cut], axis=1)
    assert has_border(wide[:, :64], wide[:, 64:])
    assert not has_border(wide[:, :64], wide[:, :64])


@EITHER
def test_what_nobody_may_write_into_is_looked_at(has_border: Asked) -> None:
    (frame,) = open_drive("rendered?frames=1&width=64&height=48").read(range(1)).frames
    cut = frame.copy()
    cut[:, :20] = 0
    frame.flags.writeable = cut.flags.writeable = False
    assert has_border(frame, cut)


@pytest.mark.real_data
def test_compiled_or_not_real_frames_get_the_same_word(shared_data: Path) -> None:
    frames, rng = open_drive(f"udacity:{shared_data}/udacity-ch2-test").read([0, 1500, 4000]).frames, np.random.default_rng(2)
    pairs = [(frame, changed) for frame in frames for changed in changed_ones(frame, rng)]
    said = [has_border(*pair) for pair in pairs]
    assert 5 < sum(said) < len(said) - 5
    assert [has_border_quickly(*pair) for pair in pairs] == said
