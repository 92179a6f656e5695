"""Bags and MCAP files: every format gives the same drive, and every topic, field, encoding and clock its own."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from drive_files import ANGLES, picture
from hypothesis import given
from hypothesis import strategies as st
from mcap.writer import Writer as McapWriter
from recording_files import (
    COMPRESSED_KIND,
    FRAME_NS,
    IMAGE_KIND,
    START_NS,
    STEERING_KIND,
    compressed_image,
    messages,
    raw_image,
    steering,
    typestore,
    write_mcap,
    write_ros1,
    write_ros2,
)

from skidpad.core.errors import BadDriveError, LostDriveError, MissingExtraError
from skidpad.drives import Drive, ProblemKind, open_drive, recording
from skidpad.drives.indexing import nearest

FORMATS: dict[str, Callable[[Path], Path]] = {
    "ros1": lambda folder: write_ros1(folder / "a.bag"),
    "ros1 bz2": lambda folder: write_ros1(folder / "a.bag", compression="BZ2"),
    "ros1 lz4": lambda folder: write_ros1(folder / "a.bag", compression="LZ4"),
    "ros1 one chunk": lambda folder: write_ros1(folder / "a.bag", chunk_bytes=1 << 20),
    "ros2 db3": lambda folder: write_ros2(folder / "a"),
    "ros2 db3 file": lambda folder: next(write_ros2(folder / "a").glob("*.db3")),
    "ros2 mcap": lambda folder: write_ros2(folder / "a", storage="MCAP"),
    "mcap zstd": lambda folder: write_mcap(folder / "a.mcap"),
    "mcap lz4": lambda folder: write_mcap(folder / "a.mcap", compression="LZ4"),
    "mcap plain": lambda folder: write_mcap(folder / "a.mcap", compression="NONE"),
    "mcap unchunked": lambda folder: write_mcap(folder / "a.mcap", chunked=False),
    "mcap of ros1": lambda folder: write_mcap(folder / "a.mcap", ros2=False),
    "compressed ros1": lambda folder: write_ros1(folder / "a.bag", messages(typestore(ros2=False), compressed=True)),
    "compressed mcap": lambda folder: write_mcap(folder / "a.mcap", messages(typestore(ros2=True), compressed=True)),
}


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_gives_the_same_drive(format_: str, tmp_path: Path) -> None:
    drive = open_drive(str(FORMATS[format_](tmp_path)))
    assert drive.name == "a"
    assert drive.problems == ()
    assert drive.frame_ids == tuple(str(START_NS + place * FRAME_NS) for place in range(7))
    np.testing.assert_allclose(drive.steering_rad, np.float32(ANGLES), rtol=0, atol=0)
    assert drive.time_s is not None
    np.testing.assert_allclose(drive.time_s, np.arange(7) * 0.05, atol=1e-12)
    for place in (6, 0, 3, 1, 2, 5, 4):
        np.testing.assert_array_equal(drive.frame(place), picture(place))
    again = pickle.loads(pickle.dumps(drive))
    assert again.sha256 == drive.sha256
    np.testing.assert_array_equal(again.frame(5), picture(5))
    threaded = np.concatenate([batch.frames for batch in drive.batches(2, threads=3)])
    np.testing.assert_array_equal(threaded, np.stack([picture(place) for place in range(7)]))


def test_a_bag_that_was_never_closed_is_read(tmp_path: Path) -> None:
    """rosbag record leaves `*.bag.active` with an index position of 0 when it is killed."""
    path = write_ros1(tmp_path / "a.bag")
    data = bytearray(path.read_bytes())
    start = data.index(b"index_pos=") + len(b"index_pos=")
    data[start : start + 8] = bytes(8)
    active = tmp_path / "a.bag.active"
    active.write_bytes(data)
    assert open_drive(str(active)).sha256 == open_drive(str(path)).sha256


def test_a_split_bag_is_one_drive(tmp_path: Path) -> None:
    store = typestore(ros2=True)
    rows = messages(store)
    first = write_ros2(tmp_path / "part", rows[:12])
    second = write_ros2(tmp_path / "other", sorted(rows[12:], key=lambda row: row[0]))  # its topics have other numbers
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "metadata.yaml").write_text("rosbag2_bagfile_information: {}\n")
    (first / "part.db3").rename(whole / "whole_9.db3")
    (second / "other.db3").rename(whole / "whole_10.db3")
    drive = open_drive(str(whole))
    assert (len(drive), drive.problems) == (7, ())
    assert drive.steering_rad.tolist() == list(ANGLES)
    np.testing.assert_array_equal(drive.frame(6), picture(6))


def one_frame(tmp_path: Path, *images: object, kind: str = IMAGE_KIND) -> Drive:
    rows = [("/camera", kind, START_NS + place, image) for place, image in enumerate(images)]
    return open_drive(str(write_ros1(tmp_path / "a.bag", rows)))


ENCODINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rgb8": lambda rgb: rgb,
    "bgr8": lambda rgb: rgb[..., ::-1],
    "8UC3": lambda rgb: rgb[..., ::-1],
    "rgba8": lambda rgb: np.dstack([rgb, np.full(rgb.shape[:2], 7, np.uint8)]),
    "bgra8": lambda rgb: np.dstack([rgb[..., ::-1], np.full(rgb.shape[:2], 7, np.uint8)]),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("pad", [0, 5])
def test_raw_encodings(encoding: str, pad: int, tmp_path: Path) -> None:
    store = typestore(ros2=False)
    rgb = picture(3, 11, 7)
    drive = one_frame(tmp_path, raw_image(store, START_NS, ENCODINGS[encoding](rgb), encoding, pad))
    np.testing.assert_array_equal(drive.frame(0), rgb)


@pytest.mark.parametrize("encoding", ["mono8", "8UC1"])
def test_grey_pictures_have_three_equal_channels(encoding: str, tmp_path: Path) -> None:
    grey = picture(3, 11, 7)[..., 0]
    drive = one_frame(tmp_path, raw_image(typestore(ros2=False), START_NS, grey, encoding, 3))
    np.testing.assert_array_equal(drive.frame(0), np.dstack([grey] * 3))


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_bayer_patterns(pattern: str, tmp_path: Path) -> None:
    """A picture of one colour comes back as that colour, whichever pixel of the pattern sees which channel."""
    colour = {"r": 200, "g": 90, "b": 30}
    tile = np.array([[colour[pattern[0]], colour[pattern[1]]], [colour[pattern[2]], colour[pattern[3]]]], np.uint8)
    drive = one_frame(tmp_path, raw_image(typestore(ros2=False), START_NS, np.tile(tile, (6, 8)), f"bayer_{pattern}8"))
    np.testing.assert_array_equal(drive.frame(0), np.broadcast_to(np.array([200, 90, 30], np.uint8), (12, 16, 3)))


@pytest.mark.parametrize(("encoding", "order"), [("yuv422", (1, 0)), ("yuv422_yuy2", (0, 1))])
def test_yuv(encoding: str, order: tuple[int, int], tmp_path: Path) -> None:
    yuv = np.full((6, 8, 2), 128, np.uint8)
    yuv[..., order.index(0)] = np.arange(16, 64).reshape(6, 8) * 3  # luminance; both colour channels are neutral
    drive = one_frame(tmp_path, raw_image(typestore(ros2=False), START_NS, yuv, encoding))
    frame = drive.frame(0)
    luminance = yuv[..., order.index(0)].astype(float)
    np.testing.assert_allclose(frame, np.dstack([(luminance - 16) * 255 / 219] * 3), atol=1.5)


def test_compressed_pictures_of_any_kind(tmp_path: Path) -> None:
    store = typestore(ros2=False)
    images = [compressed_image(store, START_NS + place, picture(place), suffix) for place, suffix in enumerate((".png", ".jpg"))]
    drive = one_frame(tmp_path, *images, kind=COMPRESSED_KIND)
    np.testing.assert_array_equal(drive.frame(0), picture(0))
    reference = cv2.imdecode(np.asarray(images[1].data), cv2.IMREAD_COLOR)[..., ::-1]
    np.testing.assert_array_equal(drive.frame(1), reference)


def test_broken_pictures_are_listed(tmp_path: Path) -> None:
    store = typestore(ros2=False)
    good = raw_image(store, START_NS, picture(0))
    short = raw_image(store, START_NS + 1, picture(1))
    short.height = 400
    narrow = raw_image(store, START_NS + 2, picture(1))
    narrow.step = 5
    odd = raw_image(store, START_NS + 3, picture(1), "32FC1")
    drive = one_frame(tmp_path, good, short, narrow, odd)
    (batch,) = drive.batches(8)
    assert batch.frame_ids == (str(START_NS),)
    assert [problem.kind for problem in batch.problems] == [ProblemKind.CORRUPT] * 3
    assert "'32FC1' are not read; known: rgb8" in batch.problems[2].detail
    with pytest.raises(BadDriveError, match="32FC1"):
        one_frame(tmp_path, odd).frame(0)


def test_a_recording_that_changes_after_it_was_opened_is_noticed(tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "a.bag")
    drive = open_drive(str(path))
    assert drive.frame_shape == (12, 16, 3)
    data = path.read_bytes()
    path.write_bytes(data.replace(picture(3).tobytes(), picture(4).tobytes()))
    (batch,) = drive.batches(8)
    assert [(problem.kind, problem.frame_id) for problem in batch.problems] == [(ProblemKind.CORRUPT, drive.frame_ids[3])]
    assert "changed after it was opened" in batch.problems[0].detail
    path.unlink()
    with pytest.raises(LostDriveError, match=r"a\.bag is gone; put it back"):
        drive.read(range(7))


def cameras(tmp_path: Path, *extra: tuple[str, str, object]) -> Path:
    store = typestore(ros2=False)
    rows = messages(store)
    sides = [(side, START_NS + place, picture(50 + place)) for side in "lr" for place in range(2)]
    rows += [(f"/{side}", IMAGE_KIND, stamp, raw_image(store, stamp, frame)) for side, stamp, frame in sides]
    rows += [(topic, kind, START_NS, message) for topic, kind, message in extra]
    return write_ros1(tmp_path / "three.bag", rows)


def test_topics_are_chosen_by_name(tmp_path: Path) -> None:
    path = cameras(tmp_path)
    drive = open_drive(f"{path}?image=/l&steering=none")
    assert (len(drive), drive.has_labels, drive.problems) == (2, False, ())
    np.testing.assert_array_equal(drive.frame(1), picture(51))
    assert len(open_drive(f"{path}?image=camera")) == 7
    drive = open_drive(f"{path}?image=/camera&field=steering_wheel_cmd&unit=deg")
    np.testing.assert_allclose(drive.steering_rad, -np.radians(ANGLES))
    assert open_drive(drive.origin).sha256 == drive.sha256


WRONG = {
    "?x=1": "no option of reader 'rosbag' named 'x'",
    "": r"several topics hold pictures: /camera \(sensor_msgs/msg/Image\), /l .*; say which, as \?image=",
    "?image=/camra": r"no topic named '/camra'; did you mean '/camera'\?$",
    "?image=/nope": "no topic named '/nope'; known: /camera, /chatter, [^(]*$",
    "?image=/chatter": "holds no pictures; topics with pictures: /camera",
    "?image=/camera&steering=/chatter": "which field of /chatter .*it holds no number",
    "?image=/camera&field=angel": "no topic has the field 'angel'; topics: /camera",
    "?image=/camera&steering=/steering_report&field=steering_wheel": "no field named 'steering_wheel'; did you mean 'steering_wheel_",
    "?image=/camera&unit=gon": "option 'unit' .* is one of rad, deg, scaled25; got 'gon'",
    "?image=/camera&clock=wall": "option 'clock' .* is one of header, log; got 'wall'",
    "?image=/camera&tolerance=-1": "option 'tolerance' is in seconds, 0 or more",
    "?image=/camera&tolerance=nan": "option 'tolerance' is in seconds, 0 or more",
}


@pytest.mark.parametrize("tail", WRONG)
def test_wrong_topics_are_answered_with_those_there_are(tail: str, tmp_path: Path) -> None:
    from skidpad.core.errors import SkidpadError

    with pytest.raises(SkidpadError, match=WRONG[tail]):
        open_drive(f"{cameras(tmp_path)}{tail}")


def test_two_topics_that_may_be_the_steering(tmp_path: Path) -> None:
    store = typestore(ros2=False)
    number = store.types["std_msgs/msg/Float64"]
    path = cameras(
        tmp_path, ("/steering_angle_deg", "std_msgs/msg/Float64", number(data=90.0)), ("/speed", "std_msgs/msg/Float64", number(data=5.0))
    )
    with pytest.raises(
        BadDriveError, match=r"several topics may be the steering: /steering_angle_deg .*, /steering_report .*steering=none"
    ):
        open_drive(f"{path}?image=/camera")
    drive = open_drive(f"{path}?image=/camera&steering=/steering_angle_deg&unit=deg&tolerance=10")
    np.testing.assert_allclose(drive.steering_rad, np.pi / 2)
    assert open_drive(f"{path}?image=/camera&steering=/speed&tolerance=10").steering_rad[0] == 5.0


def test_no_topic_that_steers_is_a_drive_without_labels(tmp_path: Path) -> None:
    rows = [row for row in messages(typestore(ros2=False)) if row[0] != "/steering_report"]
    drive = open_drive(str(write_ros1(tmp_path / "a.bag", rows)))
    assert (len(drive), drive.has_labels, drive.problems) == (7, False, ())
    chatter = [row for row in rows if row[0] == "/chatter"]
    with pytest.raises(BadDriveError, match=r"no topic of the recording holds sensor_msgs/msg/Image .*topics: /chatter"):
        open_drive(str(write_ros1(tmp_path / "b.bag", chatter)))


def test_other_encodings_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with path.open("wb") as file:
        writer = McapWriter(file)
        writer.start()
        schema = writer.register_schema("foxglove.CompressedImage", "protobuf", b"\x00")
        channel = writer.register_channel("/cam", "protobuf", schema)
        writer.add_message(channel, 1, b"x", 1)
        writer.finish()
    with pytest.raises(BadDriveError, match=r"no topic of the recording holds .*topics: /cam \(foxglove.CompressedImage\)"):
        open_drive(str(path))
    with pytest.raises(BadDriveError, match="written as 'protobuf'; ROS 1 and CDR"):
        open_drive(f"{path}?image=/cam")


def test_the_clock_is_the_headers_or_the_logs(tmp_path: Path) -> None:
    store = typestore(ros2=False)
    rows = [
        ("/camera", IMAGE_KIND, START_NS, raw_image(store, START_NS + 40_000_000, picture(0))),
        ("/steering_report", STEERING_KIND, START_NS, steering(store, START_NS, 1.0)),
        ("/steering_report", STEERING_KIND, START_NS + 50_000_000, steering(store, START_NS + 39_000_000, 2.0)),
    ]
    path = write_ros1(tmp_path / "a.bag", rows)
    assert open_drive(str(path)).frame_ids == (str(START_NS + 40_000_000),)
    assert open_drive(str(path)).steering_rad.tolist() == [2.0]
    assert open_drive(f"{path}?clock=log").frame_ids == (str(START_NS),)
    assert open_drive(f"{path}?clock=log").steering_rad.tolist() == [1.0]
    unset = [(topic, kind, log, raw_image(store, 0, picture(0)) if topic == "/camera" else message) for topic, kind, log, message in rows]
    assert open_drive(str(write_ros1(tmp_path / "b.bag", unset))).frame_ids == (str(START_NS),)


def test_labels_beyond_the_tolerance_and_without_a_number_are_counted(tmp_path: Path) -> None:
    store = typestore(ros2=False)
    rows = messages(store, frames=3)
    rows = [row for row in rows if row[0] != "/steering_report"]
    rows.append(("/steering_report", STEERING_KIND, START_NS + 1, steering(store, START_NS + 30_000_000, 0.5)))
    rows.append(("/steering_report", STEERING_KIND, START_NS + 2, steering(store, START_NS + 2 * FRAME_NS, float("nan"))))
    drive = open_drive(f"{write_ros1(tmp_path / 'a.bag', rows)}?tolerance=0.025")
    np.testing.assert_array_equal(drive.steering_rad, [np.nan, 0.5, np.nan])
    assert [(problem.kind, problem.frame_id) for problem in drive.problems] == [
        (ProblemKind.UNMATCHED, drive.frame_ids[0]),
        (ProblemKind.NAN_LABEL, drive.frame_ids[2]),
    ]


def test_pictures_of_one_stamp_and_out_of_order(tmp_path: Path) -> None:
    store = typestore(ros2=False)
    drive = one_frame(tmp_path, *(raw_image(store, START_NS + stamp, picture(place)) for place, stamp in enumerate((30, 10, 10, 20))))
    assert drive.frame_ids == tuple(str(START_NS + stamp) for stamp in (10, 20, 30))
    for place, seed in enumerate((1, 3, 0)):
        np.testing.assert_array_equal(drive.frame(place), picture(seed))
    assert [problem.kind for problem in drive.problems] == [ProblemKind.DUPLICATE_ID]


@given(st.lists(st.integers(0, 100), min_size=1), st.lists(st.integers(0, 100)).map(sorted), st.integers(0, 30))
def test_nearest_is_the_plain_search(stamps: list[int], others: list[int], tolerance: int) -> None:
    found = nearest(np.array(stamps, np.int64), np.array(others, np.int64), tolerance)
    for stamp, place in zip(stamps, found.tolist(), strict=True):
        near = min((abs(other - stamp) for other in others), default=None)
        if near is None or near > tolerance:
            assert place == -1
        else:
            assert others[place] == min(other for other in others if abs(other - stamp) == near)


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [
        ("rosbags.typesys", lambda folder: write_ros1(folder / "a.bag"), "ros"),
        ("mcap.exceptions", lambda folder: write_mcap(folder / "a.mcap"), "mcap"),
        ("lz4.frame", lambda folder: write_ros1(folder / "a.bag", compression="LZ4"), "ros"),
    ],
)
def test_a_missing_extra_is_named(
    module: str, make: Callable[[Path], Path], extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    recording._typestore.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'skidpad\[{extra}\]'"):
        open_drive(str(path))
