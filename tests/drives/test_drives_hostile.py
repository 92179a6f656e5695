"""Hostile drives: pipes, devices, pictures of gigabytes and pointers in the place of files cost neither time nor memory."""

from __future__ import annotations

import os
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from drive_files import picture, write_folder, write_simulator, write_udacity
from video_files import write_video

from skidpad.core import images
from skidpad.core.errors import BadDriveError
from skidpad.core.images import MAX_PICTURE_PIXELS, decode, encode, stated_size
from skidpad.drives import ProblemKind, frames, open_drive, tables

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1\nsize 12345\n"


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path has at most 107 letters
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _pointer(path: Path) -> None:
    path.write_bytes(POINTER)


NO_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (_pipe, "it is a named pipe, not a file"),
    "socket": (_socket, "it is a socket, not a file"),
    "endless device": (_endless, "it is a device, not a file"),
    "git-lfs pointer": (_pointer, "it is a git-lfs pointer, not the file itself; run `git lfs pull`"),
}


@pytest.mark.parametrize("name", NO_FILES)
def test_a_frame_that_is_no_file_is_counted(name: str, folder: Path) -> None:
    make, words = NO_FILES[name]
    (folder / "frame3.png").unlink()
    make(folder / "frame3.png")
    batch = open_drive(str(folder)).read(range(7))
    assert [(problem.kind, problem.frame_id) for problem in batch.problems] == [(ProblemKind.CORRUPT, "frame3")]
    assert words in batch.problems[0].detail


@pytest.mark.parametrize("name", NO_FILES)
@pytest.mark.parametrize("kind", ["folder", "udacity", "simulator", "video", "video csv", "bag", "mcap", "ros2"])
def test_a_csv_or_a_recording_that_is_no_file_is_one_sentence(kind: str, name: str, tmp_path: Path) -> None:
    make, words = NO_FILES[name]
    place, text = {
        "folder": (tmp_path / "frames" / "angles.csv", f"{tmp_path}/frames?csv=angles.csv&id=frame&steering=angle&unit=deg"),
        "udacity": (tmp_path / "ch2" / "CH2_final_evaluation.csv", f"{tmp_path}/ch2"),
        "simulator": (tmp_path / "track" / "driving_log.csv", f"simulator:{tmp_path}/track"),
        "video": (tmp_path / "a.mp4", f"video:{tmp_path}/a.mp4"),
        "video csv": (tmp_path / "a.csv", f"{tmp_path}/b.mp4?csv=a.csv&unit=deg&time=t"),
        "bag": (tmp_path / "a.bag", f"rosbag:{tmp_path}/a.bag"),
        "mcap": (tmp_path / "a.mcap", f"mcap:{tmp_path}/a.mcap"),
        "ros2": (tmp_path / "bag" / "a_0.db3", f"{tmp_path}/bag"),
    }[kind]
    write_folder(tmp_path / "frames")
    write_udacity(tmp_path / "ch2")
    write_simulator(tmp_path / "track")
    write_video(tmp_path / "b.mp4", 2)
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "metadata.yaml").write_text("")
    place.unlink(missing_ok=True)
    make(place)
    with pytest.raises(BadDriveError, match=words):
        open_drive(text)


def test_a_line_without_an_end_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MAX_LINE", 1000)
    (folder / "angles.csv").write_text("frame,angle\n" + "a," * 600)
    with pytest.raises(BadDriveError, match="is not a csv: a line has 1,000 characters or more"):
        open_drive(f"{folder}?csv=angles.csv&id=frame&steering=angle&unit=deg")


def test_a_file_too_large_for_a_picture_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "frame2.png").open("r+b") as file:
        file.truncate(1 << 40)  # sparse: it takes no room
    batch = open_drive(str(folder)).read(range(7))
    assert [problem.detail for problem in batch.problems] == [f"frame2.png: {frames.TOO_MANY_BYTES}"]


def png_of(width_px: int, height_px: int) -> bytes:
    """A whole PNG of a few bytes whose header claims a size."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


SUFFIXES = (".jpg", ".png", ".bmp", ".webp", ".tiff", ".ppm")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_size_is_read_from_the_header(suffix: str) -> None:
    for height_px, width_px in ((12, 16), (301, 77), (1, 513)):
        data = cv2.imencode(suffix, picture(3, height_px, width_px))[1].tobytes()
        assert stated_size(data) == (width_px, height_px)
        assert decode(data) is not None
        for cut in range(min(len(data), 60)):
            stated_size(data[:cut])  # a header that is cut off is no error


def test_sizes_of_rarer_headers() -> None:
    frame = picture(1, 30, 40)
    lossless = cv2.imencode(".webp", frame, [cv2.IMWRITE_WEBP_QUALITY, 101])[1].tobytes()
    assert stated_size(lossless) == (40, 30)
    extended = b"RIFF\0\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0" + (39).to_bytes(3, "little") + (29).to_bytes(3, "little")
    assert stated_size(extended) == (40, 30)
    assert stated_size(b"BM" + bytes(12) + struct.pack("<IHH", 12, 40, 30)) == (40, 30)
    assert stated_size(b"BM" + bytes(12) + struct.pack("<Iii", 40, 40, -30)) == (40, 30)
    assert stated_size(b"MM\0*" + struct.pack(">IHHHIHHHHII", 8, 2, 256, 3, 1, 40, 0, 257, 4, 1, 30)) == (40, 30)
    assert stated_size(b"P6 # made\n# by hand\n40\n30 255\n") == (40, 30)
    progressive = cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    assert stated_size(progressive) == (40, 30)
    with_thumbnail = progressive[:2] + b"\xff\xe1" + struct.pack(">H", 2 + len(progressive)) + progressive + progressive[2:]
    assert stated_size(with_thumbnail) == (40, 30)
    assert [stated_size(data) for data in (b"", b"GIF89a", b"garbage", b"\xff\xd8", b"\xff\xd8\xff\xff\xff")] == [None] * 5


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_picture_beyond_the_limit_is_never_handed_to_the_decoder(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(*_: object) -> None:
        raise AssertionError("it was decoded")

    data = cv2.imencode(suffix, picture(3, 40, 30))[1].tobytes()
    monkeypatch.setattr(images, "MAX_PICTURE_PIXELS", 40 * 30 - 1)
    monkeypatch.setattr(cv2, "imdecode", decoded)
    assert decode(data) is None


def test_a_huge_picture_is_counted_in_words(folder: Path) -> None:
    assert MAX_PICTURE_PIXELS < 30_000**2
    (folder / "frame9.png").write_bytes(png_of(30_000, 30_000))
    huge = bytearray(encode(picture(1), ".jpg"))
    place = huge.index(b"\xff\xc0") + 5
    huge[place : place + 4] = struct.pack(">HH", 65_000, 65_000)
    (folder / "frame10.png").write_bytes(huge)
    batch = open_drive(str(folder)).read(range(7))
    assert [problem.detail for problem in batch.problems] == [
        "frame9.png: 30000x30000 px, more than the 100 megapixels that are decoded",
        "frame10.png: 65000x65000 px, more than the 100 megapixels that are decoded",
    ]


def test_names_with_escape_sequences_stay_as_they_are(tmp_path: Path) -> None:
    name = "a\x1b[2J\x07b"
    (tmp_path / f"{name}.png").write_bytes(encode(picture(1)))
    (tmp_path / "c.png").write_bytes(encode(picture(2)))
    drive = open_drive(str(tmp_path))
    assert set(drive.frame_ids) == {name, "c"}
    assert np.array_equal(drive.frame(list(drive.frame_ids).index(name)), picture(1))
