"""The recorded CH2 drive, and the leaderboard of its challenge."""

from pathlib import Path

import numpy as np
import pytest

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
