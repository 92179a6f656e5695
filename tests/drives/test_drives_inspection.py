"""What `inspect_drive` and `load_predictions` tell, on drives whose answers are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from drive_files import ANGLES, STAMPS, picture

from skidpad.core.errors import BadDriveError
from skidpad.drives import Problem, ProblemKind, drive_from_arrays, inspect_drive, load_predictions, open_drive


def test_a_report_of_a_sound_drive(udacity: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = inspect_drive(open_drive(str(udacity)), lambda done, total, note="": seen.append((done, total)), batch_size=3)
    assert (report.name, report.count, report.readable, report.problems) == ("ch2", 7, 7, ())
    assert (report.width_px, report.height_px) == (16, 12)
    assert report.rate_hz == pytest.approx(20)
    assert report.duration_s == pytest.approx(0.3)
    assert report.longest_gap_s == pytest.approx(0.05)
    assert seen == [(3, 7), (6, 7), (7, 7)]
    degrees = np.degrees(ANGLES)
    assert report.labels is not None
    assert report.labels.count == 7
    assert (report.labels.min_deg, report.labels.max_deg) == (degrees.min(), degrees.max())
    assert report.labels.mean_deg == pytest.approx(degrees.mean())
    assert report.labels.std_deg == pytest.approx(degrees.std())
    assert report.labels.straight_share == pytest.approx(1 / 7)


def test_a_report_counts_problems_by_kind_and_shows_the_first_few(udacity: Path) -> None:
    rows = [f"{stamp},{'x' if place == 6 else 0.1}" for place, stamp in enumerate(STAMPS)]
    (udacity / "CH2_final_evaluation.csv").write_text("\n".join(["frame_id,steering_angle", *rows, f"{STAMPS[0]},1"]))
    drive = open_drive(str(udacity))
    for stamp in STAMPS[1:]:
        (udacity / "center" / f"{stamp}.png").unlink()
    report = inspect_drive(drive, batch_size=2)
    assert (report.count, report.readable) == (7, 1)
    assert [(group.kind, group.count, len(group.examples)) for group in report.problems] == [
        (ProblemKind.NAN_LABEL, 1, 1),
        (ProblemKind.DUPLICATE_ID, 1, 1),
        (ProblemKind.MISSING_FILE, 6, 5),
    ]
    assert [problem.frame_id for problem in report.problems[2].examples] == list(STAMPS[1:6])
    assert report.labels is not None
    assert report.labels.count == 6


def test_a_wholly_broken_drive_has_a_report() -> None:
    broken = [Problem(ProblemKind.CORRUPT, str(place), "planted") for place in range(9)]
    report = inspect_drive(drive_from_arrays(broken)[2:])
    assert (report.count, report.readable, report.width_px, report.labels, report.rate_hz) == (7, 0, None, None, None)
    (group,) = report.problems
    assert (group.count, group.examples[0].frame_id) == (7, "2")


def test_the_longest_gap_is_where_the_recording_paused() -> None:
    frames = [picture(place) for place in range(4)]
    report = inspect_drive(drive_from_arrays(frames, time_s=[0.0, 0.1, 156.1, 156.2]))
    assert report.longest_gap_s == pytest.approx(156.0)
    assert report.rate_hz == pytest.approx(10)
    (warning,) = report.warnings
    assert warning.startswith("the recording has a gap of 156.0 s after frame 000001")
    assert inspect_drive(drive_from_arrays(frames, time_s=[0.0, 0.1, 0.9, 1.0])).warnings == ()  # a few lost frames
    (warning,) = inspect_drive(drive_from_arrays([*frames, *frames], time_s=[0, 1, 2, 3, 4, 5, 20, 41])).warnings
    assert "2 gaps, the longest of 21.0 s after frame 000006" in warning


def write_answers(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["frame_id,steering_angle", *rows]) + "\n")
    return path


def test_predictions_follow_the_order_of_the_drive(udacity: Path, tmp_path: Path) -> None:
    drive = open_drive(str(udacity))
    path = write_answers(tmp_path / "answers.csv", *(f"{stamp},{place / 10}" for place, stamp in reversed(list(enumerate(STAMPS)))))
    assert load_predictions(path, drive).tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert load_predictions(path, drive[2:4]).tolist() == [0.2, 0.3]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([f"{stamp},0" for stamp in STAMPS[:1]], f"no answer for 6 of 7 frames of drive 'ch2': {', '.join(STAMPS[1:6])} and 1 more"),
        ([f"{stamp},0" for stamp in STAMPS[:6]], f"no answer for 1 of 7 .*: {STAMPS[6]}; slice"),
        ([*(f"{stamp},0" for stamp in STAMPS), f"{STAMPS[2]},0"], f"answers frame '{STAMPS[2]}' twice, again in line 9"),
        ([*(f"{stamp},0" for stamp in STAMPS[:6]), f"{STAMPS[6]},nan"], "line 8: 'nan' is no steering angle"),
    ],
)
def test_incomplete_predictions_are_refused(rows: list[str], says: str, udacity: Path, tmp_path: Path) -> None:
    with pytest.raises(BadDriveError, match=says):
        load_predictions(write_answers(tmp_path / "answers.csv", *rows), open_drive(str(udacity)))


def test_predictions_name_the_columns_they_lack(udacity: Path, tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text("id,angle\n1,2\n")
    with pytest.raises(BadDriveError, match=r"no column named 'frame_id'; known: angle, id$"):
        load_predictions(tmp_path / "answers.csv", open_drive(str(udacity)))
