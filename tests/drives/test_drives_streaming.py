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


def test_a_folder_is_indexed_without_an_object_a_frame(tmp_path: Path) -> None:
    """Every worker indexes the drive itself, so what a frame costs on the way counts as well: 824 bytes once, as rows and entries."""

    def write(frames: int) -> Path:
        folder = tmp_path / str(frames)
        (folder / "center").mkdir(parents=True)
        stamps = [1_479_425_441_182_877_835 + 50_000_000 * place for place in range(frames)]
        for stamp in stamps:
            (folder / "center" / f"{stamp}.jpg").touch()
        rows = "".join(f"{stamp},0.125,1\n" for stamp in stamps)
        (folder / "CH2_final_evaluation.csv").write_text(f"frame_id,steering_angle,public\n{rows}", encoding="utf-8")
        return folder

    def peak_bytes_of_index(folder: Path) -> int:
        tracemalloc.start()
        drive = open_drive(str(folder))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(drive) == int(folder.name)
        assert drive.steering_rad[-1] == 0.125
        return peak

    short, long = write(SHORT), write(LONG)
    open_drive(str(short))  # what is made once is not the drive's
    growth = peak_bytes_of_index(long) - peak_bytes_of_index(short)
    assert growth / (LONG - SHORT) < 500


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
import skidpad.drives, skidpad.runs, skidpad.kinds, skidpad.cli
for package in (skidpad.drives, skidpad.runs):
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
import skidpad.kinds.tracking, skidpad.cli.findings
from skidpad.drives import READERS, open_drive
assert {"rosbag", "mcap", "video"} <= set(READERS.names())
print(len(open_drive(sys.argv[1])))
"""


def test_everything_is_imported_and_folders_are_read_without_the_extras(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(folder)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("7\n", "")
