"""Every reader keeps the contract; each finds what its kind of drive holds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from math import radians
from pathlib import Path

import numpy as np
import pytest
from drive_files import ANGLES, CLOCKS, STAMPS, picture, write_folder, write_simulator, write_tub, write_udacity
from hypothesis import given
from hypothesis import strategies as st
from recording_files import write_mcap, write_ros1
from video_files import smooth_picture, write_lerobot, write_video

from skidpad.core.errors import BadDriveError, SkidpadError
from skidpad.drives import READERS, Drive, ProblemKind, drive_warnings, open_drive
from skidpad.drives.frames import frame_id_of, natural_key, times_of
from skidpad.drives.readers import ADJUSTING, SLICING

HEADER = "center,left,right,steering,throttle,brake,speed"


def _video(folder: Path) -> str:
    (folder / "labels.csv").write_text("frame,angle\n" + "".join(f"{place},{angle}\n" for place, angle in enumerate(ANGLES)))
    return f"{write_video(folder / 'drive.mp4')}?csv=labels.csv&steering=angle&unit=deg&frame=frame"


EXAMPLES: dict[str, Callable[[Path], str]] = {
    "udacity": lambda folder: str(write_udacity(folder / "ch2")),
    "simulator": lambda folder: f"{write_simulator(folder / 'track')}?camera=right",
    "donkey": lambda folder: str(write_tub(folder / "tub")),
    "folder": lambda folder: f"{write_folder(folder / 'frames')}?csv=angles.csv&id=frame&steering=angle&unit=deg",
    "rosbag": lambda folder: f"{write_ros1(folder / 'drive.bag')}?image=/camera&steering=/steering_report&field=steering_wheel_angle",
    "mcap": lambda folder: f"{write_mcap(folder / 'drive.mcap')}?unit=deg",
    "video": _video,
    "lerobot": lambda folder: f"{write_lerobot(folder / 'set', ANGLES, 'v3.0')}?episode=1&unit=deg",
    "rendered": lambda _: "?frames=7&seed=3",
}


def example(reader: str, tmp_path: Path) -> str:
    assert reader in EXAMPLES, f"reader {reader!r} has no row in the conformance test"
    text = EXAMPLES[reader](tmp_path)
    return f"{reader}{'' if text.startswith('?') else ':'}{text}"


@pytest.mark.parametrize("reader", READERS.names())
def test_conformance(reader: str, tmp_path: Path) -> None:
    text = example(reader, tmp_path)
    drive = open_drive(text)
    assert len(drive) == 7
    assert len(set(drive.frame_ids)) == 7
    assert drive.has_labels
    assert drive.steering_rad.dtype == np.float64
    assert drive.problems == ()
    batch = drive.read(range(7))
    assert batch.problems == ()
    assert batch.frames.shape == (7, *drive.frame_shape)
    assert batch.frames.dtype == np.uint8
    again = open_drive(drive.origin)
    assert (again.origin, again.sha256, again.frame_ids) == (drive.origin, drive.sha256, drive.frame_ids)
    np.testing.assert_array_equal(again.read([2, 5]).frames, batch.frames[[2, 5]])
    np.testing.assert_array_equal(np.concatenate([each.frames for each in drive.batches(3)]), batch.frames)
    assert not {option.name for option in READERS.get(reader)().options} & {*SLICING, *ADJUSTING}


@pytest.mark.parametrize("reader", READERS.names())
def test_slices_open_again_from_their_origin(reader: str, tmp_path: Path) -> None:
    drive = open_drive(example(reader, tmp_path))
    for part in (drive[2:5], drive[1::2], drive[1:6][::2], drive.split(0.6)[1], drive.head(1), drive.select([0, 3, 6])):
        again = open_drive(part.origin)
        assert (again.frame_ids, again.origin, again.sha256) == (part.frame_ids, part.origin, part.sha256)
    assert drive.select([0, 1, 3]).origin == ""


@pytest.mark.parametrize("reader", ["udacity", "simulator", "donkey", "folder", "rosbag", "mcap", "video"])
def test_drives_are_recognised_by_one_reader_each(reader: str, tmp_path: Path) -> None:
    path = example(reader, tmp_path).partition(":")[2].partition("?")[0]
    names = [name for name in READERS.names() if READERS.get(name)().needs_path and READERS.get(name)().recognises(Path(path))]
    assert names == [reader]
    assert open_drive(path).origin == f"{reader}:{path}"


def test_udacity(udacity: Path) -> None:
    drive = open_drive(str(udacity))
    assert (drive.name, drive.frame_ids) == ("ch2", STAMPS)
    assert drive.steering_rad.tolist() == list(ANGLES)
    assert drive.rate_hz == pytest.approx(20)
    assert drive.time_s is not None
    np.testing.assert_allclose(drive.time_s, np.arange(7) * 0.05, atol=1e-12)
    assert drive.public is not None
    assert drive.public.tolist() == [False, True] * 3 + [False]
    assert drive[1:3].public is not None
    np.testing.assert_array_equal(drive.frame(4), picture(4))


def test_udacity_without_a_csv_has_no_labels(udacity: Path) -> None:
    (udacity / "CH2_final_evaluation.csv").unlink()
    (udacity / "predictions-team.csv").write_text(f"frame_id,steering_angle\n{STAMPS[0]},0.5\n")
    drive = open_drive(str(udacity))
    assert (len(drive), drive.has_labels, drive.public) == (7, False, None)


def test_udacity_takes_the_only_csv_with_the_columns(udacity: Path) -> None:
    (udacity / "CH2_final_evaluation.csv").rename(udacity / "mine.csv")
    (udacity / "notes.csv").write_text("speed,mood\n1,good\n")
    drive = open_drive(str(udacity))
    assert drive.has_labels
    assert [(problem.kind, problem.frame_id) for problem in drive.problems] == [(ProblemKind.IGNORED_FILE, "notes.csv")]
    assert "speed, mood" in drive.problems[0].detail


def test_udacity_leaves_the_filler_aside(udacity: Path) -> None:
    filler = "frame_id,steering_angle\n" + "".join(f"{stamp},9.0\n" for stamp in STAMPS)
    (udacity / "final_example.csv").write_text(filler)
    drive = open_drive(str(udacity))
    assert drive.steering_rad.tolist() == list(ANGLES)
    assert [problem.frame_id for problem in drive.problems] == ["final_example.csv"]
    (udacity / "CH2_final_evaluation.csv").unlink()
    assert not open_drive(str(udacity)).has_labels


@pytest.mark.parametrize("header", ["", HEADER, HEADER.title()])
@pytest.mark.parametrize("prefix", ["IMG/", "/home/me/rec/IMG/", "C:\\Users\\me\\IMG\\", ""])
def test_simulator(header: str, prefix: str, tmp_path: Path) -> None:
    drive = open_drive(str(write_simulator(tmp_path / "track", header, prefix)))
    assert drive.frame_ids == tuple(f"center_{clock}" for clock in CLOCKS)
    # 1 is 25 degrees of the road wheels to the right, and 14.8 times as much of the steering wheel
    np.testing.assert_allclose(drive.steering_rad, [-14.8 * radians(25 * angle) for angle in ANGLES])
    assert drive.time_s is not None
    np.testing.assert_allclose(drive.time_s, np.arange(7) * 0.07, atol=1e-12)
    assert drive.problems == ()


@pytest.mark.parametrize("camera", ["center", "left", "right"])
def test_simulator_cameras(camera: str, simulator: Path) -> None:
    drive = open_drive(f"{simulator}?camera={camera}&unit=rad&sign=1&axle=steering-wheel")
    assert all(frame_id.startswith(camera) for frame_id in drive.frame_ids)
    assert drive.steering_rad.tolist() == list(ANGLES)


def test_simulator_by_header_in_any_order_and_without_clocks(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    write_simulator(folder)
    for number, file in enumerate(sorted((folder / "IMG").glob("center*"))):
        file.rename(folder / "IMG" / f"c{9 - number}.png")
    rows = "".join(f"{place / 10},IMG/c{9 - place}.png\n" for place in range(7))
    (folder / "driving_log.csv").write_text("steering,center\n" + rows)
    drive = open_drive(str(folder))
    assert drive.frame_ids == tuple(f"c{9 - place}" for place in range(7))
    assert drive.time_s is None
    assert {problem.kind for problem in drive.problems} == {ProblemKind.UNLISTED}
    assert len(drive.problems) == 14


def test_simulator_keeps_pictures_of_other_cameras_out_of_the_problems(simulator: Path) -> None:
    (simulator / "IMG" / "stray.png").write_bytes(b"?")
    assert [problem.frame_id for problem in open_drive(str(simulator)).problems] == ["stray"]


@pytest.mark.parametrize(("unit", "rad"), [("rad", 1.0), ("deg", radians(1)), ("scaled25", radians(25))])
def test_folder_units(unit: str, rad: float, folder: Path) -> None:
    drive = open_drive(f"folder:{folder}?csv=angles.csv&id=frame&steering=angle&unit={unit}")
    assert drive.frame_ids == ("frame1", "frame2", "frame3", "frame9", "frame10", "frame11", "frame100")
    np.testing.assert_allclose(drive.steering_rad, np.array(ANGLES) * rad)
    assert drive.time_s is None


def test_folder_without_a_csv_says_what_it_did_not_use(folder: Path) -> None:
    drive = open_drive(f"{folder}?rate=10")
    assert (drive.has_labels, drive.rate_hz) == (False, pytest.approx(10))
    assert [(problem.kind, problem.frame_id) for problem in drive.problems] == [(ProblemKind.IGNORED_FILE, "angles.csv")]


def test_folder_with_times_is_in_their_order(folder: Path) -> None:
    rows = "".join(f"frame{number},0.1,{100 - number}\n" for number in (1, 2, 3, 9, 10, 11, 100))
    (folder / "timed.csv").write_text("frame_id,steering_angle,seconds\n" + rows)
    drive = open_drive(f"{folder}?csv=timed.csv&unit=rad&time=seconds")
    assert drive.frame_ids == ("frame100", "frame11", "frame10", "frame9", "frame3", "frame2", "frame1")
    assert drive.time_s is not None
    assert drive.time_s.tolist() == [0, 89, 90, 91, 97, 98, 99]


def test_folder_times_in_another_unit(folder: Path) -> None:
    rows = "".join(f"frame{number},0.1,{50 * number}\n" for number in (1, 2, 3, 9, 10, 11))
    (folder / "timed.csv").write_text("frame_id,steering_angle,t\n" + rows)
    text = f"{folder}?csv=timed.csv&unit=rad&time=t"
    (warning,) = drive_warnings(open_drive(text))
    assert warning.startswith("frames lie 50 s apart, as of no camera in a car")
    assert "time_unit=ms" in warning
    drive = open_drive(f"{text}&time_unit=ms")
    assert drive_warnings(drive) == ()
    seconds = open_drive(f"{folder}?csv=timed.csv&unit=rad&time=t&time_unit=us")[:3]
    assert drive_warnings(seconds)[0].startswith("frames lie 5e-05 s apart")
    slow = open_drive(f"{folder}?csv=timed.csv&unit=rad&time=t&time_unit=ms&step=3")
    assert (slow.rate_hz, drive_warnings(slow)) == (pytest.approx(2.5), ())
    assert drive.time_s is not None
    np.testing.assert_allclose(drive.time_s, [0, 0.05, 0.1, 0.4, 0.45, 0.5])


@pytest.mark.parametrize("reader", ["udacity", "folder"])
def test_the_order_of_rows_does_not_matter(reader: str, tmp_path: Path) -> None:
    def opened() -> Drive:
        return open_drive(text)

    text = example(reader, tmp_path)
    path = next(Path(text.partition(":")[2].partition("?")[0]).glob("*.csv"))
    expected = opened()
    header, *rows = path.read_text().splitlines()
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        path.write_text("\n".join([header, *rows]))
        assert opened().sha256 == expected.sha256


def test_a_folder_may_move(udacity: Path) -> None:
    before = open_drive(str(udacity)).sha256
    moved = udacity.rename(udacity.parent / "elsewhere")
    assert open_drive(str(moved)).sha256 == before
    (moved / "center" / f"{STAMPS[3]}.png").write_bytes(b"shorter")
    assert open_drive(str(moved)).sha256 != before


@given(st.lists(st.integers(0, 10**6), unique=True, min_size=1))
def test_natural_order_is_the_order_of_the_numbers(numbers: list[int]) -> None:
    names = [f"frame{number}.jpg" for number in numbers]
    assert sorted(names, key=natural_key) == [f"frame{number}.jpg" for number in sorted(numbers)]


@given(st.lists(st.text(), max_size=8), st.randoms(use_true_random=False))
def test_any_names_have_one_natural_order(names: list[str], chance: random.Random) -> None:
    shuffled = chance.sample(names, len(names))
    assert sorted(shuffled, key=natural_key) == sorted(names, key=natural_key)


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=9))
def test_stamps_become_seconds_exactly(ticks: list[int]) -> None:
    times = times_of([str(1_479_425_441_182_877_835 + tick) for tick in ticks])
    assert times is not None
    assert times.tolist() == [(tick - min(ticks)) / 1e9 for tick in ticks]


@pytest.mark.parametrize(
    "ids",
    [
        ["a"],
        ["1479425441182877835", "x"],
        ["0000000000000000001"],
        ["1479425441182877835", "147942544118"],
        ["c_2016_13_41_99_30_48_287"],
        [],
    ],
)
def test_other_names_have_no_time(ids: list[str]) -> None:
    assert times_of(ids) is None


def test_frame_ids_come_from_any_path() -> None:
    texts = ["a/b/x.jpg", "C:\\a\\x.PNG", " x ", "x.jpeg", "x"]
    assert [frame_id_of(text) for text in texts] == ["x"] * 5
    assert frame_id_of("1.5") == "1.5"


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
@pytest.mark.parametrize("episode", [0, 1])
def test_an_episode_of_lerobot(version: str, episode: int, tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "set", ANGLES, version)
    drive = open_drive(f"{folder}?episode={episode}&unit=scaled25&axle=road-wheel&sign=-1")
    np.testing.assert_allclose(drive.steering_rad, -np.radians(25.0) * 14.8 * np.array(ANGLES), rtol=1e-6)
    assert (drive.name, len(drive), drive.problems) == (f"set-{episode}", 7, ())
    assert drive.rate_hz == pytest.approx(20)
    first = 7 * episode if version == "v3.0" else 0  # version 3 has both episodes in one video
    for place in (3, 0, 6):
        assert np.abs(np.asarray(drive.frame(place), int) - smooth_picture(first + place).astype(int)).mean() < 6


def test_an_episode_of_lerobot_with_two_cameras(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "set", ANGLES)
    videos, info = folder / "videos" / "chunk-000", folder / "meta" / "info.json"
    front, left = "observation.images.front", "observation.images.left"
    (videos / left).mkdir()
    written = json.loads(info.read_text())
    written["features"][left] = written["features"][front]
    info.write_text(json.dumps(written))
    write_video(videos / left / "episode_000000.mp4", 8, rate_hz=20)
    text = f"{folder}?unit=deg&camera={left},{front}"
    drive = open_drive(text)
    assert (drive.cameras, len(drive), drive.frame_shape) == ((left, front), 7, (48, 128, 3))
    frame = np.asarray(drive.frame(4))
    assert np.array_equal(frame[:, 64:], open_drive(f"{folder}?unit=deg&camera={front}").frame(4))
    assert np.abs(frame[:, :64].astype(int) - smooth_picture(4).astype(int)).mean() < 6
    write_video(videos / left / "episode_000000.mp4", 5, rate_hz=20)
    with pytest.raises(BadDriveError, match="has other frames in episode 0 than the first camera"):
        open_drive(f"{folder}?unit=deg&camera={front},{left}")


def test_a_lerobot_data_set_that_leaves_a_choice_names_it(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "set", ANGLES)
    info = folder / "meta" / "info.json"
    for options, match in (
        ("", "say the unit"),
        ("?unit=deg&episode=2", r"episode 2 of .* has no file data.chunk-000.episode_000002\.parquet"),
        ("?unit=deg&steering=action.stering", "did you mean 'action.steering'"),
        ("?unit=deg&camera=observation.images.fron", "did you mean 'observation.images.front'"),
    ):
        with pytest.raises(SkidpadError, match=match):
            open_drive(f"{folder}{options}")
    np.testing.assert_allclose(open_drive(f"{folder}?unit=rad&steering=action.0").steering_rad, 0.5)
    whole = info.read_text()
    for said, wrong, match in (("steering", "wheel", "no numbers .* speak of steering"), ("v2.1", "v1.6", "versions 2 and 3 are read")):
        info.write_text(whole.replace(said, wrong))
        with pytest.raises(BadDriveError, match=match):
            open_drive(f"{folder}?unit=deg")
