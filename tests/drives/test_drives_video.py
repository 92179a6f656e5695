"""Videos: every frame as the decoder gives it, whatever the order of asking, and decoded once when the order is time."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import av
import numpy as np
import pytest
from drive_files import ANGLES, write_pictures
from hypothesis import given, settings
from hypothesis import strategies as st
from video_files import smooth_picture, write_video

from skidpad.core.errors import BadDriveError, LostDriveError, MissingExtraError
from skidpad.core.images import NumpyFrames
from skidpad.drives import Problem, ProblemKind, open_drive
from skidpad.drives import video as video_frames
from skidpad.drives.video import VideoFrames

CODECS = [
    ("a.mp4", "libx264"),
    ("a.mkv", "mpeg4"),
    ("a.avi", "mpeg4"),
    ("b.avi", "mjpeg"),
    ("a.webm", "libvpx"),
    ("a.ts", "libx264"),
    ("a.mpg", "mpeg2video"),
]


def reference(path: Path) -> NumpyFrames:
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_frames_are_the_decoders_in_any_order(name: str, codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(tmp_path / name, 40, codec=codec, gop=7)
    expected = reference(path)
    assert len(expected) == 40
    np.testing.assert_allclose(expected[5].mean((0, 1)), smooth_picture(5).mean((0, 1)), atol=12)
    drive = open_drive(str(path))
    assert (len(drive), drive.problems, drive.rate_hz) == (40, (), pytest.approx(20))
    np.testing.assert_array_equal(np.concatenate([batch.frames for batch in drive.batches(16, threads=3)]), expected)
    monkeypatch.setattr(video_frames, "FRAMES_KEPT", 3)
    monkeypatch.setattr(video_frames, "FRAMES_AHEAD", 2)
    drive = open_drive(str(path))
    for index in np.random.default_rng(0).permutation(40).tolist()[:25]:
        np.testing.assert_array_equal(drive.frame(index), expected[index])


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("long") / "a.mp4", 200, gop=24)


def source_of(path: Path) -> VideoFrames:
    source = open_drive(str(path)).source
    assert isinstance(source, VideoFrames)
    return source


@pytest.mark.parametrize("threads", [1, 4, 8])
def test_read_in_order_every_frame_is_decoded_once(threads: int, long: Path) -> None:
    drive = open_drive(str(long))
    assert sum(len(batch) for batch in drive.batches(64, threads=threads)) == 200
    assert isinstance(drive.source, VideoFrames)
    if threads == 1:
        assert drive.source.decoded == 200
    assert drive.source.decoded < 2 * 200
    assert len(drive.source._kept) <= video_frames.FRAMES_KEPT


def test_a_jump_seeks_to_the_keyframe_before(long: Path) -> None:
    source = source_of(long)
    source.read(190)
    assert source.decoded <= 24 + 4  # a group of pictures, and what the decoder had begun
    source.read(191)
    assert source.decoded <= 24 + 5
    source.read(3)
    assert source.decoded <= 24 + 5 + 8


@settings(max_examples=15)
@given(st.lists(st.integers(0, 199), max_size=6))
def test_any_order_of_reading_gives_the_same(long: Path, order: list[int]) -> None:
    source, expected = source_of(long), source_of(long)
    kept = {index: expected.read(index) for index in sorted(set(order))}
    for index in order:
        np.testing.assert_array_equal(source.read(index), kept[index])


def test_a_source_goes_to_another_process(long: Path) -> None:
    drive = open_drive(str(long))
    frame = drive.frame(7)
    again = pickle.loads(pickle.dumps(drive))
    assert again.sha256 == drive.sha256
    np.testing.assert_array_equal(again.frame(7), frame)


def labelled(folder: Path, rows: str) -> Path:
    path = write_video(folder / "drive.mp4")
    (folder / "labels.csv").write_text(rows)
    return path


def test_rows_label_frames_by_time(tmp_path: Path) -> None:
    rows = "".join(f"{100 + 0.05 * place + 0.01},{angle}\n{100 + 0.05 * place + 0.03},9\n" for place, angle in enumerate(ANGLES))
    path = labelled(tmp_path, "t,angle\n" + rows + "soon,1\n")
    drive = open_drive(f"{path}?csv=labels.csv&steering=angle&unit=deg&time=t&offset=100")
    np.testing.assert_allclose(drive.steering_rad, np.radians(ANGLES))
    assert [(problem.kind, problem.frame_id) for problem in drive.problems] == [(ProblemKind.BAD_ROW, "line 16 of labels.csv")]
    late = open_drive(f"{path}?csv=labels.csv&steering=angle&unit=deg&time=t&offset=100.2&tolerance=0.01")
    assert [problem.kind for problem in late.problems].count(ProblemKind.UNMATCHED) == 4
    assert np.isnan(late.steering_rad).sum() == 4


def test_rows_label_frames_by_number(tmp_path: Path) -> None:
    path = labelled(tmp_path, "n,angle\n2,0.5\n0,0.25\n1.5,9\n5,left\n99,1\n")
    drive = open_drive(f"{path}?csv=labels.csv&steering=angle&unit=rad&frame=n")
    np.testing.assert_array_equal(drive.steering_rad, [0.25, np.nan, 0.5, np.nan, np.nan, np.nan, np.nan])
    counted = [(problem.kind, problem.frame_id) for problem in drive.problems]
    assert counted[0] == (ProblemKind.BAD_ROW, "line 4 of labels.csv")
    assert (ProblemKind.NAN_LABEL, "000005") in counted
    assert [frame for kind, frame in counted if kind is ProblemKind.UNMATCHED] == ["000001", "000003", "000004", "000006"]


@pytest.mark.parametrize(("unit", "per_s"), [("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
@pytest.mark.parametrize("start_s", [0, 1_479_425_441])
def test_a_clock_in_another_unit_is_noticed_and_never_labels_a_frame(unit: str, per_s: float, start_s: int, tmp_path: Path) -> None:
    rows = "".join(f"{round((start_s + 0.05 * place) * per_s)},{angle}\n" for place, angle in enumerate(ANGLES))
    text = f"{labelled(tmp_path, 't,angle' + chr(10) + rows)}?csv=labels.csv&steering=angle&unit=deg&time=t"
    offset = f"&offset={start_s}" if start_s else ""
    with pytest.raises(BadDriveError, match=rf"fits it in another unit than s: write time_unit={unit}{offset}$"):
        open_drive(text)
    drive = open_drive(f"{text}&time_unit={unit}{offset}")
    np.testing.assert_allclose(drive.steering_rad, np.radians(ANGLES))
    assert drive.problems == ()
    with pytest.raises(BadDriveError, match="in another unit than"):
        open_drive(f"{text}&time_unit={'s' if start_s else 'ns' if unit != 'ns' else 'us'}{offset}")


def test_rows_that_lie_elsewhere_in_time_name_the_offset(tmp_path: Path) -> None:
    path = labelled(tmp_path, "t,angle\n" + "".join(f"{100 + 0.05 * place},1\n" for place in range(7)) + "1e300,1\n")
    text = f"{path}?csv=labels.csv&steering=angle&unit=deg&time=t"
    with pytest.raises(BadDriveError, match=r"runs from 100 to 100\.3, the video from 0 to 0\.300 s, so no row .* as offset=100$"):
        open_drive(text)
    assert [problem.frame_id for problem in open_drive(f"{text}&offset=100").problems] == ["line 9 of labels.csv"]


def test_sparse_labels_are_no_other_unit(tmp_path: Path) -> None:
    path = write_video(tmp_path / "drive.mp4", 40)
    (tmp_path / "labels.csv").write_text("t,angle\n0,1\n1,2\n2,3\n")
    drive = open_drive(f"{path}?csv=labels.csv&steering=angle&unit=deg&time=t&tolerance=0.6")
    np.testing.assert_allclose(drive.steering_rad, np.radians([1] * 11 + [2] * 20 + [3] * 9))


def test_a_counter_from_one_must_be_said(tmp_path: Path) -> None:
    path = labelled(tmp_path, "n,angle\n" + "".join(f"{place + 1},{angle}\n" for place, angle in enumerate(ANGLES)) + "1e300,1\n")
    text = f"{path}?csv=labels.csv&steering=angle&unit=deg&frame=n"
    with pytest.raises(BadDriveError, match="column 'n' begin at 1: write frame_base=1 if 1 is the first frame, or frame_base=0"):
        open_drive(text)
    np.testing.assert_allclose(open_drive(f"{text}&frame_base=1").steering_rad, np.radians(ANGLES))
    np.testing.assert_allclose(open_drive(f"{text}&frame_base=0").steering_rad, np.radians([np.nan, *ANGLES[:-1]]))
    with pytest.raises(BadDriveError, match="'frame_base' is 0 or 1"):
        open_drive(f"{text}&frame_base=2")


def test_a_folder_with_one_video_is_a_drive(tmp_path: Path) -> None:
    labelled(tmp_path, "n,angle\n")
    drive = open_drive(str(tmp_path))
    assert (len(drive), drive.has_labels, drive.name) == (7, False, "drive")
    assert [(problem.kind, problem.frame_id) for problem in drive.problems] == [(ProblemKind.IGNORED_FILE, "labels.csv")]
    assert "?csv=labels.csv" in drive.problems[0].detail
    write_video(tmp_path / "second.mp4", 2)
    with pytest.raises(BadDriveError, match=r"several videos: drive.mp4, second.mp4; name one"):
        open_drive(str(tmp_path))
    write_pictures(tmp_path, ("frame1",))
    assert len(open_drive(str(tmp_path))) == 1  # pictures make it a folder of pictures


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        ("?unit=deg", "describes a csv, but none is named"),
        ("?csv=labels.csv&steering=angle", "say the unit of the column 'angle'"),
        ("?csv=labels.csv&steering=angle&unit=deg", r"time=COLUMN \(seconds\) or frame=COLUMN .*columns: n, angle"),
        ("?csv=labels.csv&steering=angle&unit=deg&time=n&frame=n", "one of them"),
        ("?csv=labels.csv&steering=angel&unit=deg&time=n", "no column named 'angel'; did you mean 'angle'"),
        ("?csv=labels.csv&steering=angle&unit=deg&time=n&tolerance=nan", "'tolerance' is in seconds, 0 or more; got 'nan'"),
        ("?csv=other.csv&unit=deg&time=n", "no file .*csv files there: labels.csv"),
    ],
)
def test_wrong_options(tail: str, words: str, tmp_path: Path) -> None:
    path = labelled(tmp_path, "n,angle\n0,0\n")
    with pytest.raises(BadDriveError, match=words):
        open_drive(f"{path}{tail}")


def test_a_video_that_changes_or_vanishes_is_noticed(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 30, gop=4)
    drive = open_drive(str(path))
    write_video(path, 31, gop=4)
    assert {problem.kind for problem in map(drive.source.read, range(30)) if isinstance(problem, Problem)} == {ProblemKind.CORRUPT}
    path.unlink()
    with pytest.raises(LostDriveError, match=r"a\.mp4 is gone; put it back"):
        drive.source.read(3)


def test_broken_packets_spoil_the_frames_that_build_on_them_and_no_others(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.avi", 24, codec="mpeg4", gop=8)
    expected = reference(path)
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    start, size = packets[10]
    data[start : start + size] = bytes(size)
    path.write_bytes(data)
    drive = open_drive(str(path))
    for order in (range(24), range(23, -1, -1)):
        broken = [index for index in order if isinstance(drive.source.read(index), Problem)]
        assert set(broken) <= set(range(10, 16))
        assert 10 in broken
        for index in (*range(10), *range(16, 24)):
            np.testing.assert_array_equal(drive.source.read(index), expected[index])


def test_a_network_called_ts_is_no_video(tmp_path: Path) -> None:
    (tmp_path / "net.ts").write_bytes(b"PK\x03\x04 torchscript")
    with pytest.raises(BadDriveError, match="is a file, and a drive is a folder or a recording"):
        open_drive(str(tmp_path / "net.ts"))


def test_sound_alone_is_no_drive(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(BadDriveError, match="has sound or data, but no pictures"):
        open_drive(str(tmp_path / "a.mkv"))


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(tmp_path / "a.mp4")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'skidpad\[video\]'"):
        open_drive(str(path))
