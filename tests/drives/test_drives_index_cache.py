"""The index of a long recording is made once; a file that changed, or a copy that broke, is gone through again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from recording_files import messages, typestore, write_mcap, write_ros1
from video_files import write_video

from skidpad.drives import indexing, open_drive, recorded
from skidpad.drives import video as video_frames
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.drives.indexing import RecordingIndex, cached

PASSES = {"a.bag": (recorded, "_scanned"), "a.mcap": (recorded, "_scanned"), "a.mkv": (video_frames, "_packets")}
WRITERS = {"a.bag": write_ros1, "a.mcap": write_mcap, "a.mkv": write_video}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(indexing, "WORTH_BYTES", 0)
    return tmp_path / "cache" / "indexes"


@pytest.mark.parametrize("name", WRITERS)
def test_a_recording_is_gone_through_once(name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = WRITERS[name](tmp_path / name)
    first = open_drive(str(path))
    frames = first.read(range(7)).frames
    module, function = PASSES[name]
    real, passes = getattr(module, function), []

    def counted(*arguments: object) -> object:
        passes.append(1)
        return real(*arguments)

    monkeypatch.setattr(module, function, counted)
    again = open_drive(str(path))
    assert passes == []
    assert (again.sha256, again.problems, again.frame_ids) == (first.sha256, first.problems, first.frame_ids)
    np.testing.assert_array_equal(again.time_s, first.time_s)
    np.testing.assert_array_equal(again.read(range(7)).frames, frames)

    os.utime(path, ns=(0, 0))
    assert open_drive(str(path)).sha256 == first.sha256
    assert len(passes) == 1  # another date, so perhaps another file
    for kept in cache.iterdir():
        kept.write_bytes(kept.read_bytes()[:-100])
    assert open_drive(str(path)).sha256 == first.sha256
    assert len(passes) == 2


def test_options_that_choose_other_messages_have_an_index_of_their_own(cache: Path, tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "a.bag")
    assert open_drive(str(path)).has_labels
    assert not open_drive(f"{path}?steering=none").has_labels
    turned = open_drive(f"{path}?field=steering_wheel_cmd")
    np.testing.assert_array_equal(turned.steering_rad, -open_drive(str(path)).steering_rad)
    assert open_drive(f"{path}?clock=log").frame_ids != turned.frame_ids
    assert open_drive(f"{path}?unit=deg&tolerance=0").problems  # these two need no pass of their own
    assert len(list(cache.iterdir())) == 4


def test_problems_are_kept(cache: Path, tmp_path: Path) -> None:
    data = write_mcap(tmp_path / "a.mcap", messages(typestore(ros2=True), frames=7)).read_bytes()
    (tmp_path / "a.mcap").write_bytes(data[: len(data) // 2])
    first, again = open_drive(str(tmp_path / "a.mcap")), open_drive(str(tmp_path / "a.mcap"))
    assert first.problems
    assert again.problems == first.problems


def test_a_cache_that_cannot_be_written_to_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(indexing, "WORTH_BYTES", 0)
    assert len(open_drive(str(write_ros1(tmp_path / "a.bag")))) == 7


def test_short_recordings_leave_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "cache"))
    open_drive(str(write_ros1(tmp_path / "a.bag")))
    assert not (tmp_path / "cache").exists()


def test_what_goes_in_comes_out(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    made = RecordingIndex({"a": np.arange(6).reshape(3, 2), "b": np.array([0.5, np.nan])}, (Problem(ProblemKind.BREAK, "é", "at 7"),))
    cached([tmp_path / "x"], "it", lambda: made)
    kept = cached([tmp_path / "x"], "it", lambda: pytest.fail("it is in the cache"))
    assert kept.problems == made.problems
    for name, values in made.arrays.items():
        np.testing.assert_array_equal(kept.arrays[name], values)
