"""Clips: every frame with the frames before it, however the drive is cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest
from drive_files import picture
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.images import NumpyFrames
from skidpad.drives import Drive, Problem, ProblemKind, drive_from_arrays

SETTINGS = settings(max_examples=60, deadline=None)
brokenness = st.lists(st.booleans(), min_size=1, max_size=24)


def drive_of(broken: list[bool]) -> Drive:
    frames: list[NumpyFrames | Problem] = [
        Problem(ProblemKind.CORRUPT, f"{place:06d}", "planted") if bad else picture(place, 3, 4) for place, bad in enumerate(broken)
    ]
    return drive_from_arrays(frames, np.arange(len(broken)) / 100)


def window(drive: Drive, position: int, lead: int) -> NumpyFrames:
    """A frame and its past, by the plain rule: the last readable frames, the first of all repeated where there are fewer."""
    readable = [frame for place in range(position + 1) if not isinstance(frame := drive.frame(place), Problem)]
    return np.array([readable[0]] * max(0, lead + 1 - len(readable)) + readable[-(lead + 1) :])


@SETTINGS
@given(brokenness, st.integers(0, 9), st.integers(1, 9), st.integers(1, 3))
def test_a_frames_window_is_the_same_in_every_block(broken: list[bool], lead: int, batch_size: int, threads: int) -> None:
    if all(broken):
        return
    drive = drive_of(broken)
    seen: list[int] = []
    for batch in drive.batches(batch_size, threads, lead=lead):
        assert len(batch.clip) == lead + len(batch)
        for slot, position in enumerate(batch.indices.tolist()):
            assert np.array_equal(batch.clip[slot : slot + lead + 1], window(drive, position, lead))
            assert np.array_equal(batch.frames[slot], drive.frame(position))
            seen.append(position)
    assert seen == [place for place, bad in enumerate(broken) if not bad]


@SETTINGS
@given(brokenness, st.integers(0, 30), st.data())
def test_reading_some_frames_gives_the_windows_of_the_whole_drive(broken: list[bool], lead: int, data: st.DataObject) -> None:
    if all(broken):
        return
    drive = drive_of(broken)
    start = data.draw(st.integers(0, len(broken) - 1))
    stop = data.draw(st.integers(start, len(broken)))
    batch = drive.read(range(start, stop), threads=2, lead=lead)
    assert len(batch.problems) == sum(broken[start:stop])
    assert len(batch.clip) == (lead + len(batch) if len(batch) else 0)
    for slot, position in enumerate(batch.indices.tolist()):
        assert np.array_equal(batch.clip[slot : slot + lead + 1], window(drive, position, lead))
    # Those that could be read are read again alike when they are asked for by their positions.
    again = drive.read(batch.indices, lead=lead)
    assert np.array_equal(again.clip, batch.clip)
    assert again.problems == ()


def test_frames_are_a_view_of_the_clip() -> None:
    batch = drive_of([False] * 6).read([3, 4], lead=2)
    assert np.shares_memory(batch.frames, batch.clip)
    assert batch.indices.tolist() == [3, 4]
    assert len(batch) == 2
    assert batch.steering_rad.tolist() == [0.03, 0.04]


def test_no_window_reaches_before_a_slice() -> None:
    whole = drive_of([False] * 8)
    clip = whole[4:].read([0, 1], lead=3).clip
    assert np.array_equal(clip, np.stack([picture(place, 3, 4) for place in (4, 4, 4, 4, 5)]))


@pytest.mark.parametrize("indices", [[2, 4], [4, 3], [3, 3]])
def test_frames_apart_or_out_of_order_have_no_clip(indices: list[int]) -> None:
    drive = drive_of([False] * 6)
    assert drive.read(indices).indices.tolist() == indices
    with pytest.raises(ValueError, match="read each run of consecutive frames by itself"):
        drive.read(indices, lead=1)


def test_an_empty_drive_has_no_clips() -> None:
    drive = drive_of([False] * 3)
    assert list(drive[1:1].batches(4, lead=5)) == []
    assert drive.read([], lead=5).clip.shape == (0, 3, 4, 3)
