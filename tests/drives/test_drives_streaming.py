"""Long recordings: memory does not grow with their length, and nothing but what a reader needs is imported."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from recording_files import messages, typestore, write_mcap, write_ros1
from video_files import write_video

from skidpad.drives import open_drive
from skidpad.drives.drive import Drive

SHORT, LONG = 100, 2000
FRAME_BYTES = 12 * 16 * 3


def _write(frames: int, kind: str, folder: Path) -> Path:
    if kind == "video":
        return write_video(folder / "a.mp4", frames, codec="mpeg4", gop=12)
    rows = [row for row in messages(typestore(ros2=kind == "mcap"), frames=frames) if row[0] != "/chatter"]
    return write_mcap(folder / "a.mcap", rows) if kind == "mcap" else write_ros1(folder / "a.bag", rows, compression="LZ4")


def peak_bytes(path: Path, count: int) -> int:
    """Opens and reads a whole drive; returns the most memory that was held beyond the index."""

    def go_through() -> tuple[Drive, int]:
        drive = open_drive(str(path))
        seen = sum(len(batch) for batch in drive.batches(16, threads=1))
        return drive, seen

    if count == SHORT:
        go_through()  # what is made once, code of message types say, is not the drive's
    tracemalloc.start()
    drive, seen = go_through()
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen == len(drive) == count
    return peak - now


@pytest.mark.parametrize("kind", ["ros1", "video"])
def test_memory_does_not_grow_with_the_recording(kind: str, tmp_path: Path) -> None:
    peaks = {}
    for frames in (SHORT, LONG):
        folder = tmp_path / str(frames)
        folder.mkdir()
        peaks[frames] = peak_bytes(_write(frames, kind, folder), frames)
    # An index costs some 200 bytes a frame while it is made; the frames of the longer recording have 1,900 x 576 bytes more.
    assert peaks[LONG] - peaks[SHORT] < 0.5 * (LONG - SHORT) * FRAME_BYTES


def test_frames_at_the_end_of_a_long_recording_are_found_at_once(tmp_path: Path) -> None:
    path = _write(SHORT, "mcap", tmp_path)
    drive = open_drive(str(path))
    whole = np.concatenate([batch.frames for batch in drive.batches(64)])
    for index in (SHORT - 1, 0, SHORT // 2):
        np.testing.assert_array_equal(open_drive(str(path)).frame(index), whole[index])


WITHOUT = """
import sys, pkgutil, importlib
for name in ("rosbags", "mcap", "av", "fsspec", "s3fs", "mlflow", "lz4", "zstandard"):
    sys.modules[name] = None
import skidpad.drives, skidpad.runs, skidpad.campaigns, skidpad.cli
for package in (skidpad.drives, skidpad.runs):
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
import skidpad.campaigns.tracking, skidpad.cli.tracking
from skidpad.drives import READERS, open_drive
assert {"rosbag", "mcap", "video"} <= set(READERS.names())
print(len(open_drive(sys.argv[1])))
"""


def test_everything_is_imported_and_folders_are_read_without_the_extras(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(folder)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("7\n", "")
