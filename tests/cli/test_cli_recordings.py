"""What the command line tells of recordings: how their angles are counted, where they pause, and the options that all of them take."""

import json
import os
from pathlib import Path

import pytest

from skidpad.core.images import write_image
from skidpad.drives import open_drive


@pytest.fixture
def track(tmp_path: Path) -> Path:
    frames = open_drive("rendered?frames=4&width=32&height=24").read(range(4)).frames
    clocks = ("2016_12_01_13_30_48_000", "2016_12_01_13_30_48_050", "2016_12_01_13_33_24_050", "2016_12_01_13_33_24_100")
    for clock, frame in zip(clocks, frames, strict=True):
        write_image(tmp_path / "IMG" / f"center_{clock}.png", frame)
    (tmp_path / "driving_log.csv").write_text("\n".join(f"center_{clock}.png,,,0.5" for clock in clocks))
    return tmp_path


def test_inspect_says_how_labels_are_counted_and_where_the_recording_pauses(skidpad, track: Path) -> None:
    told = skidpad("inspect", track)
    assert told.code == 0
    assert "scaled25 of the road wheels (times 14.8), positive to the right" in told.out
    assert "-185.0 to -185.0 deg" in told.out
    assert "a gap of 156.0 s after frame center_2016_12_01_13_30_48_050" in told.out
    assert "no problems found" not in told.out
    payload = json.loads(skidpad("inspect", f"{track}?sign=1&axle=steering-wheel", "--json").out)
    assert payload["labels_as"] == {"unit": "scaled25", "sign": 1, "axle": "steering-wheel", "ratio": 14.8}
    assert payload["labels"]["max_deg"] == pytest.approx(12.5)
    assert payload["gaps"] == 1


def test_the_list_of_readers_has_the_options_that_all_take(skidpad) -> None:
    rows = json.loads(skidpad("list", "readers", "--json").out)
    assert all(f"{name}=" in rows["(every reader)"] for name in ("from", "to", "start", "stop", "step"))
    assert all(f"{name}=" in rows["(every reader but rendered)"] for name in ("sign", "axle", "ratio", "drop_beyond", "rotate", "flip"))


def test_a_pipe_as_a_drive_is_one_sentence(skidpad, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "drive.mp4")
    told = skidpad("inspect", tmp_path / "drive.mp4")
    assert told.code == 2
    assert "drive.mp4" in told.err
