"""What a drive warns of before anything is computed: labels beyond any wheel, a csv that nobody named."""

from pathlib import Path

import numpy as np

from skidpad.core.images import write_image
from skidpad.drives import drive_from_arrays, drive_warnings, inspect_drive, open_drive

FRAMES = np.zeros((3, 8, 12, 3), np.uint8)


def test_labels_beyond_any_wheel_are_warned_of_as_by_inspect() -> None:
    drive = drive_from_arrays(FRAMES, np.array([0.1, 9.0, np.nan]))
    (warning,) = drive_warnings(drive)
    assert warning.startswith("1 of 2 labels lie beyond 470 degrees (516 at most)")
    assert drive_warnings(drive) == inspect_drive(drive).warnings
    assert drive_warnings(drive_from_arrays(FRAMES, np.array([0.1, 8.0, np.nan]))) == ()


def test_a_csv_left_aside_is_named_with_the_options_to_write(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_image(tmp_path / f"{name}.png", FRAMES[0])
    assert drive_warnings(open_drive(str(tmp_path))) == ()
    (tmp_path / "angles.csv").write_text("frame,angle\na.png,4.4\nb.png,5\n", encoding="utf-8")
    (warning,) = drive_warnings(open_drive(str(tmp_path)))
    assert "angles.csv was left aside" in warning
    assert "?csv=angles.csv&id=COLUMN&steering=COLUMN&unit=deg" in warning
    assert drive_warnings(open_drive(f"{tmp_path}?csv=angles.csv&id=frame&steering=angle&unit=deg")) == ()


def test_every_hundredth_frame_is_no_slow_camera() -> None:
    drive = drive_from_arrays(np.zeros((301, 8, 12, 3), np.uint8), np.zeros(301), time_s=np.arange(301) / 10)
    assert drive[::100].rate_hz == 0.1
    assert drive_warnings(drive[::100]) == inspect_drive(drive[::100]).warnings == ()
