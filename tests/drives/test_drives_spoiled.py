"""Spoiled recordings: cut anywhere or with any bytes changed, what can be read is read, and the rest is said in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from drive_files import picture
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_files import FRAME_NS, START_NS, messages, typestore, write_mcap, write_ros1, write_ros2
from video_files import write_video

from skidpad.core.errors import BadDriveError
from skidpad.core.images import NumpyFrames
from skidpad.drives import Drive, Problem, ProblemKind, open_drive

IDS = {str(START_NS + place * FRAME_NS): place for place in range(7)}


def _compressed(*, ros2: bool) -> list[tuple[str, str, int, object]]:
    return messages(typestore(ros2=ros2), compressed=True)


KINDS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "ros1": (".bag", lambda folder: write_ros1(folder / "a.bag", chunk_bytes=1000)),
    "ros1 lz4": (".bag", lambda folder: write_ros1(folder / "a.bag", chunk_bytes=1000, compression="LZ4")),
    "ros1 bz2": (".bag", lambda folder: write_ros1(folder / "a.bag", _compressed(ros2=False), chunk_bytes=1000, compression="BZ2")),
    "db3": (".db3", lambda folder: next(write_ros2(folder / "a").glob("*.db3"))),
    "mcap": (".mcap", lambda folder: write_mcap(folder / "a.mcap", chunk_bytes=1000)),
    "mcap plain": (".mcap", lambda folder: write_mcap(folder / "a.mcap", chunk_bytes=1000, compression="NONE")),
    "mcap unchunked": (".mcap", lambda folder: write_mcap(folder / "a.mcap", chunked=False)),
}
CHECKED = ("ros1 bz2", "mcap", "mcap plain")
"""Formats whose chunks carry a checksum: no changed picture goes unnoticed."""


class Files(dict[str, bytes]):
    """The bytes of each kind of recording."""

    def __repr__(self) -> str:
        return "Files"  # Hypothesis prints every argument


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files({name: make(tmp_path_factory.mktemp("whole")).read_bytes() for name, (_, make) in KINDS.items()})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spoiled")


def opened(folder: Path, kind: str, data: bytes) -> Drive | None:
    """Opens spoiled bytes and reads every frame; nothing but BadDriveError may come out of it."""
    path = folder / f"spoiled{KINDS[kind][0]}"
    path.write_bytes(data)
    try:
        drive = open_drive(str(path))
    except BadDriveError:
        return None
    for index in range(len(drive)):
        assert isinstance(drive.source.read(index), Problem | np.ndarray)
    return drive


def readable(drive: Drive) -> dict[int, NumpyFrames]:
    """Returns the frames that can be read by their place in the whole drive."""
    found = {}
    for index, frame_id in enumerate(drive.frame_ids):
        frame = drive.source.read(index)
        if not isinstance(frame, Problem):
            assert frame_id in IDS
            found[IDS[frame_id]] = frame
    return found


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "db3"])
def test_everything_before_a_cut_is_kept(kind: str, whole: Files, place: Path) -> None:
    data = whole[kind]
    best = 0
    for cut in range(0, len(data), max(len(data) // 40, 1)):
        drive = opened(place, kind, data[:cut])
        if drive is None:
            assert best == 0  # a longer piece never gives less
            continue
        found = readable(drive)
        assert list(found) == list(range(len(found)))
        for index, frame in found.items():
            np.testing.assert_array_equal(frame, picture(index))
        assert len(found) >= best
        best = len(found)
        if len(found) < 7:
            assert drive.problems
            assert ProblemKind.BREAK in {problem.kind for problem in drive.problems} or cut >= len(data[: data.rfind(b"MCAP")])
    assert best == 7


@pytest.mark.parametrize("kind", ["ros1", "mcap plain"])
def test_a_cut_within_a_plain_chunk_keeps_every_message_before_it(kind: str, place: Path) -> None:
    path = place / f"one chunk{KINDS[kind][0]}"
    data = (
        write_ros1(path, chunk_bytes=10**6) if path.suffix == ".bag" else write_mcap(path, compression="NONE", chunk_bytes=10**6)
    ).read_bytes()
    ends = [data.index(picture(frame).tobytes()) + picture(frame).nbytes for frame in range(7)]
    for count, end in enumerate(ends, start=1):
        for cut, expected in ((end - 1, count - 1), (end, count)):
            drive = opened(place, kind, data[:cut])
            if drive is None:
                assert expected == 0
                continue
            found = readable(drive)
            assert list(found) == list(range(expected))
            for index, frame in found.items():
                np.testing.assert_array_equal(frame, picture(index))
            assert [problem.kind for problem in drive.problems].count(ProblemKind.BREAK) == 1
            assert next(problem.frame_id for problem in drive.problems if problem.kind is ProblemKind.BREAK) == f"after frame {expected}"


def test_a_cut_database_keeps_what_lies_before(whole: Files, place: Path) -> None:
    data = whole["db3"]
    lengths = {}
    for cut in range(0, len(data) + 1, 4096):
        drive = opened(place, "db3", data[:cut])
        if drive is not None:
            found = readable(drive)
            lengths[cut] = len(found)
            for index, frame in found.items():
                np.testing.assert_array_equal(frame, picture(index))
            if cut < len(data) and len(found) < 7:
                assert ProblemKind.BREAK in {problem.kind for problem in drive.problems}
    assert lengths[len(data)] == 7


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4))
def test_changed_bytes_never_end_in_anything_but_words(kind: str, changes: list[tuple[float, int]], whole: Files, place: Path) -> None:
    data = bytearray(whole[kind])
    for share, flip in changes:
        data[int(share * len(data))] ^= flip
    drive = opened(place, kind, bytes(data))
    if drive is None or kind not in CHECKED:
        return
    for index, frame_id in enumerate(drive.frame_ids):
        frame = drive.source.read(index)
        if not isinstance(frame, Problem) and frame_id in IDS:
            np.testing.assert_array_equal(frame, picture(IDS[frame_id]))


@pytest.mark.parametrize("kind", ["ros1 bz2", "mcap"])
def test_a_chunk_that_is_broken_does_not_end_the_recording(kind: str, whole: Files, place: Path) -> None:
    data = bytearray(whole[kind])
    middle = len(data) // 3
    data[middle : middle + 4] = bytes(value ^ 0xFF for value in data[middle : middle + 4])
    drive = opened(place, kind, bytes(data))
    assert drive is not None
    assert [problem.kind for problem in drive.problems].count(ProblemKind.BREAK) == 1
    found = readable(drive)
    assert len(found) < 7
    assert max(found) == 6


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.bag", b"", "is not a ROS 1 bag of version 2.0"),
        ("a.bag", b"#ROSBAG V1.2\nold", "is not a ROS 1 bag of version 2.0"),
        ("a.bag", b"#ROSBAG V2.0\n", "holds no topics; of one that was cut off, a compressed chunk is lost unless it is whole"),
        ("a.mcap", b"", "is not an MCAP file"),
        ("a.mcap", b"\x89MCAP0\r\n", "holds no topics"),
        ("a.db3", b"", "is not a ROS 2 bag: it has no table of topics"),
        ("a.db3", b"SQLite format 3\0" + b"x" * 500, "cannot be read as a ROS 2 bag"),
        ("a.mp4", b"", "cannot be read as a video: .*an MP4 that was never finished has lost its index"),
        ("a.mkv", b"\x1aE\xdf\xa3" + b"x" * 500, "cannot be read as a video"),
    ],
)
def test_files_with_nothing_in_them(name: str, data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadDriveError, match=words):
        open_drive(str(tmp_path / name))


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(ts=write_video(tmp_path_factory.mktemp("video") / "a.ts", 24).read_bytes())


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.75, 0.9, 1.0])
def test_a_cut_video_keeps_what_lies_before(share: float, video: Files, tmp_path: Path) -> None:
    data = video["ts"]
    path = tmp_path / "a.ts"
    path.write_bytes(data)
    frames = open_drive(str(path)).read(range(24)).frames
    path.write_bytes(data[: int(share * len(data))])
    try:
        drive = open_drive(str(path))
    except BadDriveError:
        assert share < 0.2
        return
    found = [drive.source.read(index) for index in range(len(drive))]
    good = [place for place, frame in enumerate(found) if not isinstance(frame, Problem)]
    assert len(good) >= int(share * 24) - 5
    for place in good[:-2]:  # the last packet of a stream without lengths may be half there and still decode
        np.testing.assert_array_equal(found[place], frames[place])


def test_a_cut_mp4_says_how_much_is_lost(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 24, options={"movflags": "faststart"})
    whole = open_drive(str(path)).read(range(24)).frames
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])
    drive = open_drive(str(path))
    assert 5 < len(drive) < 24
    assert [problem.kind for problem in drive.problems] == [ProblemKind.BREAK]
    np.testing.assert_array_equal(drive.frame(3), whole[3])


@settings(max_examples=25)
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=3))
def test_changed_bytes_of_a_video_never_end_in_anything_but_words(changes: list[tuple[float, int]], video: Files, place: Path) -> None:
    data = bytearray(video["ts"])
    for share, flip in changes:
        data[int(share * len(data))] ^= flip
    path = place / "spoiled.ts"
    path.write_bytes(data)
    try:
        drive = open_drive(str(path))
    except BadDriveError:
        return
    for index in range(len(drive)):
        assert isinstance(drive.source.read(index), Problem | np.ndarray)
