"""Which way and at which axle labels are counted: inside they are radians of the steering wheel, positive to the left."""

from __future__ import annotations

from math import radians
from pathlib import Path

import numpy as np
import pytest
from drive_files import ANGLES, write_folder, write_old_tub, write_tub
from recording_files import START_NS, raw_image, write_ros1
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from skidpad.core.errors import SkidpadError
from skidpad.core.images import write_image
from skidpad.core.units import AngleUnit, Axle
from skidpad.drives import Drive, ProblemKind, inspect_drive, open_drive
from skidpad.drives.drive import LabelConvention
from skidpad.page.pictures import outline

SIMULATOR = LabelConvention(AngleUnit.SCALED_25, -1, Axle.ROAD_WHEEL, 14.8)
FOLDER = "csv=angles.csv&id=frame&steering=angle&unit=deg"


def test_a_simulators_log_of_a_known_road_has_its_steering_and_arrows_point_along_the_bend(tmp_path: Path) -> None:
    known = open_drive("rendered?frames=12&seed=3&width=32&height=24")
    lines = ["center,left,right,steering"]
    for place, label_rad in enumerate(known.steering_rad.tolist()):
        write_image(tmp_path / "IMG" / f"c{place:02d}.png", known.read([place]).frames[0])
        # what the simulator would write: shares of 25 degrees of the road wheels, positive to the right
        lines.append(f"IMG/c{place:02d}.png,,,{-np.degrees(label_rad) / 14.8 / 25}")
    lines[1] = "IMG/c00.png,,,0.5"
    (tmp_path / "driving_log.csv").write_text("\n".join(lines))
    drive = open_drive(str(tmp_path))
    np.testing.assert_allclose(drive.steering_rad[1:], known.steering_rad[1:])
    assert np.degrees(drive.steering_rad[0]) == pytest.approx(-185)
    tip_x = outline(float(np.degrees(drive.steering_rad[0])), 32, 24)[3, 0]
    assert tip_x > 16  # the driver turned right, and so leans the human's arrow
    assert drive.labels_as == drive[2:5].labels_as == inspect_drive(drive).labels_as == SIMULATOR
    assert str(drive.labels_as) == "scaled25 of the road wheels (times 14.8), positive to the right"


@pytest.mark.parametrize(
    ("tail", "factor"),
    [
        ("", 1.0),
        ("&sign=-1", -1.0),
        ("&sign=1", 1.0),
        ("&axle=road-wheel", 14.8),
        ("&axle=road-wheel&ratio=16&sign=-1", -16.0),
        ("&axle=steering-wheel", 1.0),
    ],
)
def test_sign_axle_and_ratio(tail: str, factor: float, folder: Path) -> None:
    drive = open_drive(f"{folder}?{FOLDER}{tail}")
    np.testing.assert_allclose(drive.steering_rad, np.radians(ANGLES) * factor)
    assert drive.labels_as.factor == factor
    assert not np.signbit(drive.steering_rad[1])  # straight ahead
    again = open_drive(drive.origin)
    assert (again.sha256, again.origin) == (drive.sha256, drive.origin)


def test_the_same_options_turn_every_kind_of_recording(tmp_path: Path) -> None:
    from test_drives_readers import EXAMPLES

    for name, make in EXAMPLES.items():
        if name == "rendered":
            continue
        (tmp_path / name).mkdir()
        text = make(tmp_path / name)
        plain = open_drive(f"{name}:{text}")
        mark = "&" if "?" in text else "?"
        drive = open_drive(f"{name}:{text}{mark}sign={-plain.labels_as.sign}&axle=road-wheel&ratio=10&rotate=180")
        before = 14.8 if plain.labels_as.axle is Axle.ROAD_WHEEL else 1.0
        np.testing.assert_allclose(drive.steering_rad, -plain.steering_rad / before * 10)
        np.testing.assert_array_equal(drive.read([3]).frames[0], plain.read([3]).frames[0][::-1, ::-1])


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (f"?{FOLDER}&sign=2", r"'sign' is 1 \(positive is left\) or -1 \(positive is right\); got '2'"),
        (f"?{FOLDER}&axle=rear", "'axle' of reader 'folder' is one of steering-wheel, road-wheel; got 'rear'"),
        (f"?{FOLDER}&ratio=16", "add axle=road-wheel"),
        (f"?{FOLDER}&axle=road-wheel&ratio=0", "'ratio' is a number above 0; got '0'"),
        (f"?{FOLDER}&drop_beyond=nan", "'drop_beyond' is a number above 0"),
        (f"?{FOLDER}&rotate=45", "one of 0, 90, 180, 270; got '45'"),
        (f"?{FOLDER}&flip=sideways", "one of none, horizontal, vertical"),
        ("?sign=-1", "'sign' describes labels, but no frame of drive 'frames' has one"),
    ],
)
def test_wrong_options_are_sentences(tail: str, words: str, folder: Path) -> None:
    with pytest.raises(SkidpadError, match=words):
        open_drive(f"{folder}{tail}")


def test_a_drive_that_is_made_has_nothing_to_turn() -> None:
    with pytest.raises(SkidpadError, match="'rendered' takes no option 'sign': its angles are those of the steering wheel"):
        open_drive("rendered?frames=3&sign=-1")


def test_labels_beyond_a_limit_are_dropped_and_counted(folder: Path) -> None:
    drive = open_drive(f"{folder}?{FOLDER}&drop_beyond=0.25&axle=road-wheel")
    kept = [angle if abs(angle) <= 0.25 else np.nan for angle in ANGLES]
    np.testing.assert_allclose(drive.steering_rad, np.radians(kept) * 14.8)
    assert [problem.frame_id for problem in drive.problems if problem.kind is ProblemKind.DROPPED_LABEL] == [
        "frame9",
        "frame10",
        "frame100",
    ]
    assert "drop_beyond=0.25 deg" in drive.problems[0].detail


@pytest.mark.parametrize(
    ("tail", "turn"),
    [
        ("rotate=90", lambda frame: np.rot90(frame, -1)),
        ("rotate=270", lambda frame: np.rot90(frame, 1)),
        ("flip=horizontal", lambda frame: frame[:, ::-1]),
        ("flip=vertical", lambda frame: frame[::-1]),
        ("rotate=180&flip=vertical", lambda frame: frame[:, ::-1]),
    ],
)
def test_pictures_are_turned_and_are_other_pictures_then(tail: str, turn, folder: Path) -> None:
    plain, turned = open_drive(str(folder)), open_drive(f"{folder}?{tail}")
    np.testing.assert_array_equal(turned.read([2]).frames[0], turn(plain.read([2]).frames[0]))
    assert turned.sha256 != plain.sha256
    assert open_drive(turned[1:4].origin).sha256 == turned[1:4].sha256


def _tyre_bag(path: Path, kind: str, definition: str, field: str) -> Drive:
    store = get_typestore(Stores.ROS1_NOETIC)
    store.register(get_types_from_msg(definition, kind))
    rows = [("/camera", "sensor_msgs/msg/Image", START_NS, raw_image(store, START_NS, np.zeros((4, 6, 3), np.uint8)))]
    rows.append(("/steering", kind, START_NS, store.types[kind](**{field: 0.1})))
    return open_drive(str(write_ros1(path, rows, store=store)))


@pytest.mark.parametrize(
    ("kind", "field", "factor"),
    [
        ("autoware_vehicle_msgs/msg/SteeringReport", "steering_tire_angle", 14.8),
        ("ackermann_msgs/msg/AckermannDrive", "steering_angle", 14.8),
        ("my_msgs/msg/Wheel", "steering_wheel_angle", 1.0),
    ],
)
def test_messages_that_are_of_the_road_wheels_are_known(kind: str, field: str, factor: float, tmp_path: Path) -> None:
    drive = _tyre_bag(tmp_path / "a.bag", kind, f"float64 {field}\n", field)
    np.testing.assert_allclose(drive.steering_rad, [0.1 * factor])


def test_a_donkey_tub_of_the_second_version(tmp_path: Path) -> None:
    drive = open_drive(str(write_tub(tmp_path / "tub", deleted=(11, 15))))
    assert drive.origin.startswith("donkey:")
    kept = [0, 2, 3, 4, 6]
    assert drive.frame_ids == tuple(f"{10 + place}_cam_image_array_" for place in kept)
    np.testing.assert_allclose(drive.steering_rad, [-14.8 * radians(25 * ANGLES[place]) for place in kept])
    assert drive.time_s is not None
    np.testing.assert_allclose(drive.time_s, [0.05 * place for place in kept])
    assert [(problem.kind, problem.frame_id) for problem in drive.problems] == [
        (ProblemKind.IGNORED_FILE, "11_cam_image_array_"),
        (ProblemKind.IGNORED_FILE, "15_cam_image_array_"),
    ]
    assert len(drive.read(range(5))) == 5


def test_a_donkey_tub_of_the_first_version_and_its_broken_records(tmp_path: Path) -> None:
    tub = write_old_tub(tmp_path / "tub")
    (tub / "record_3.json").write_text('{"cam/image_array": ')
    (tub / "record_4.json").write_text('{"cam/image_array": "4_cam-image_array_.jpg", "user/angle": null}')
    drive = open_drive(str(tub))
    assert drive.frame_ids == tuple(f"{place}_cam-image_array_" for place in (1, 2, 4, 5, 6, 7, 8, 9, 10, 11))
    np.testing.assert_allclose(drive.steering_rad[[0, 9]], [-14.8 * radians(25 * angle) for angle in (0.05, 0.55)])
    assert [(problem.kind, problem.frame_id) for problem in drive.problems] == [
        (ProblemKind.BAD_ROW, "record_3.json"),
        (ProblemKind.NAN_LABEL, "4_cam-image_array_"),
        (ProblemKind.UNLISTED, "3_cam-image_array_"),
    ]
    with pytest.raises(SkidpadError, match=r"is no Donkey tub; it needs record_\*\.json beside pictures, or manifest\.json"):
        open_drive(f"donkey:{write_folder(tmp_path / 'frames')}")


def test_label_files_that_no_reader_knows_are_said(folder: Path) -> None:
    for place in range(40):
        (folder / f"label_{place}.json").write_text("{}")
    (folder / "steering.txt").write_text("0.1")
    aside = {problem.frame_id: problem.detail for problem in open_drive(str(folder)).problems}
    assert set(aside) == {"angles.csv", "*.json", "*.txt"}
    assert aside["*.json"].startswith("40 files such as label_0.json are not read: labels come from a csv")
    assert aside["*.txt"].startswith("steering.txt is not read")
