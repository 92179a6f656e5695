"""The recorded CH2 drive, and the leaderboard of its challenge."""

from pathlib import Path

import numpy as np
import pytest
from recording_files import COMPRESSED_KIND, STEERING_KIND, header, steering, typestore, write_ros1

from skidpad.drives import inspect_drive, load_predictions, open_drive

pytestmark = pytest.mark.real_data


def test_ch2_opens_with_its_true_labels(ch2: Path) -> None:
    drive = open_drive(str(ch2))
    assert (len(drive), drive.problems) == (5614, ())
    assert drive.rate_hz == pytest.approx(20, abs=0.05)
    # Predicting zero scores this on the true labels; the filler that goes by another name scores far more.
    assert np.sqrt(np.mean(drive.steering_rad**2)) == pytest.approx(0.2077, abs=5e-5)


@pytest.mark.parametrize(
    ("team", "public", "private"),
    [("komanda", 0.0482910511682, 0.0512445872957), ("rambo", 0.0578777529417, 0.0559772239809)],
)
def test_published_predictions_score_as_on_the_leaderboard(team: str, public: float, private: float, ch2: Path) -> None:
    drive = open_drive(str(ch2))
    answers_rad = load_predictions(ch2 / f"predictions-{team}.csv", drive)
    assert drive.public is not None
    for half, expected in ((drive.public, public), (~drive.public, private)):
        rmse = np.sqrt(np.mean((answers_rad[half] - drive.steering_rad[half]) ** 2))
        assert rmse == pytest.approx(expected, rel=0, abs=1e-9)


def test_a_stretch_of_ch2_reads_whole(ch2: Path) -> None:
    report = inspect_drive(open_drive(f"{ch2}?start=2000&stop=2020"), batch_size=8, threads=2)
    assert (report.count, report.readable, report.width_px, report.height_px) == (20, 20, 320, 240)
    assert report.problems == ()


def test_a_bag_of_the_recorded_drive_is_the_recorded_drive(ch2: Path, tmp_path: Path) -> None:
    """The recorded JPEGs in a ROS 1 bag, with the labels as steering reports 10 ms later: the same frames, labels and times."""
    part = open_drive(str(ch2))[:20]
    store = typestore(ros2=False)
    rows = []
    for place, frame_id in enumerate(part.frame_ids):
        stamp = int(frame_id)
        data = np.frombuffer((ch2 / "center" / f"{frame_id}.jpg").read_bytes(), np.uint8)
        image = store.types[COMPRESSED_KIND](header=header(store, stamp), format="jpeg", data=data)
        rows.append(("/center_camera/image_color/compressed", COMPRESSED_KIND, stamp, image))
        rows.append(
            ("/vehicle/steering_report", STEERING_KIND, stamp, steering(store, stamp + 10_000_000, float(part.steering_rad[place])))
        )
    bag = open_drive(str(write_ros1(tmp_path / "HMB.bag", rows, compression="LZ4")))
    assert (bag.frame_ids, bag.problems) == (part.frame_ids, ())
    np.testing.assert_array_equal(bag.steering_rad, part.steering_rad.astype(np.float32))
    assert bag.rate_hz == part.rate_hz
    np.testing.assert_array_equal(bag.read(range(20)).frames, part.read(range(20)).frames)
