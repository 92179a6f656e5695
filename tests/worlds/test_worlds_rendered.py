"""The drive of our own: options, slices, laziness, labels, and writing it to a folder."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from skidpad.worlds.recorded.journey import _KEPT_STRETCHES, STRETCH_FRAMES, RenderedSource, plan_stretch, rendered_drive
from skidpad.worlds.recorded.rendered import RATE_HZ, Settings

from skidpad.core.errors import BadDriveError, UnknownNameError
from skidpad.drives import Drive, open_drive
from skidpad.worlds.openx.opendrive import write_drive

SMALL = "rendered?frames=24&seed=5&width=80&height=40"


@pytest.fixture(scope="module")
def small() -> Drive:
    return open_drive(SMALL)


def frames_of(drive: Drive) -> np.ndarray:
    return np.concatenate([batch.frames for batch in drive.batches(7)])


def test_defaults_are_half_a_minute() -> None:
    drive = open_drive("rendered")
    assert len(drive) == 600
    assert drive.time_s is not None
    np.testing.assert_allclose(np.diff(drive.time_s), 1.0 / RATE_HZ)
    assert drive.frame_shape == (160, 320, 3)
    assert drive.problems == ()


def test_the_same_options_give_the_same_bytes(small: Drive) -> None:
    again = open_drive(SMALL)
    assert again.sha256 == small.sha256
    np.testing.assert_array_equal(frames_of(again), frames_of(small))


def test_slices_batches_and_order_do_not_matter(small: Drive) -> None:
    frames = frames_of(small)
    np.testing.assert_array_equal(small.read([20, 3, 11]).frames, frames[[20, 3, 11]])
    part = small[8:20:3]
    np.testing.assert_array_equal(frames_of(part), frames[8:20:3])
    np.testing.assert_array_equal(part.steering_rad, small.steering_rad[8:20:3])
    first, second = small.split(0.5)
    np.testing.assert_array_equal(np.concatenate((frames_of(first), frames_of(second))), frames)
    np.testing.assert_array_equal(frames_of(open_drive(part.origin)), frames[8:20:3])


def test_threads_that_read_at_once_get_the_same_frames() -> None:
    source = RenderedSource(Settings(frames=24, seed=5, width_px=80, height_px=40))
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(source.read, range(12)))
    fresh = RenderedSource(source.settings)
    for index, frame in enumerate(together):
        np.testing.assert_array_equal(frame, fresh.read(index))


def test_a_longer_drive_begins_like_a_shorter_one_and_keeps_few_stretches(small: Drive) -> None:
    count = (_KEPT_STRETCHES + 2) * STRETCH_FRAMES
    longer = rendered_drive(Settings(frames=count, seed=5, width_px=80, height_px=40))
    np.testing.assert_array_equal(longer.steering_rad[:24], small.steering_rad)
    assert longer[:24].sha256 == small.sha256
    assert isinstance(longer.source, RenderedSource)
    frames = longer.read(np.arange(0, count, STRETCH_FRAMES)).frames
    assert len({frame.tobytes() for frame in frames}) == _KEPT_STRETCHES + 2
    assert len(longer.source._baked) == _KEPT_STRETCHES
    np.testing.assert_array_equal(frames[0], small.read([0]).frames[0])


@pytest.mark.parametrize("change", ["seed=6", "width=96", "height=48", "weave=0.5"])
def test_every_option_changes_the_drive(small: Drive, change: str) -> None:
    name = change.split("=", maxsplit=1)[0]
    kept = "&".join(part for part in SMALL.partition("?")[2].split("&") if not part.startswith(f"{name}="))
    other = open_drive(f"rendered?{kept}&{change}")
    assert other.sha256 != small.sha256
    frame, original = other.read([12]).frames, small.read([12]).frames
    assert frame.shape != original.shape or np.any(frame != original)


@pytest.mark.parametrize(
    "options", ["frames=0", "frames=-3", "frames=2.5", "width=3", "height=99999", "weave=-1", "weave=7", "weave=nan", "seed=x"]
)
def test_bad_options_are_refused_with_their_name(options: str) -> None:
    with pytest.raises(BadDriveError, match=options.split("=", maxsplit=1)[0]):
        open_drive(f"rendered?{options}")


def test_unknown_options_and_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'weave'"):
        open_drive("rendered?weav=1")
    with pytest.raises(BadDriveError, match="takes no path"):
        open_drive(f"rendered:{tmp_path}")


def test_without_weaving_the_car_keeps_to_the_middle_of_its_lane() -> None:
    stretch = plan_stretch(2, 0.0, 0)
    found = stretch.scene.road.project(stretch.poses[:, :2])
    np.testing.assert_allclose(found.lateral_m, stretch.scene.section.lane_centre_m, atol=1e-9)
    np.testing.assert_allclose(stretch.poses[:, 2], stretch.scene.road.at(found.s_m).heading_rad, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_weaving_stays_in_the_lane_and_is_smooth(seed: int) -> None:
    stretch = plan_stretch(seed, 1.0, 0)
    found = stretch.scene.road.project(stretch.poses[:, :2])
    stray_m = found.lateral_m - stretch.scene.section.lane_centre_m
    askew_rad = stretch.poses[:, 2] - stretch.scene.road.at(found.s_m).heading_rad
    assert 0.25 < np.abs(stray_m).max() <= 0.8 + 1e-9
    assert stray_m.min() < -0.1
    assert stray_m.max() > 0.1
    assert 0.01 < np.abs(askew_rad).max() < 0.15
    steps = np.diff(found.s_m)
    assert steps.min() > 0.3
    assert steps.max() <= 15.0 / RATE_HZ + 1e-9
    assert np.abs(np.diff(stray_m)).max() < 0.06


def test_labels_spread_like_those_of_a_recorded_drive() -> None:
    labels = np.concatenate([plan_stretch(seed, 1.0, 0).steering_rad for seed in range(8)])
    # Udacity CH2's test drive: standard deviation 0.21 rad, from -0.88 to 0.95 rad.
    assert 0.15 < labels.std() < 0.45
    assert abs(labels.mean()) < 0.15
    assert labels.min() < -0.5
    assert labels.max() > 0.5
    assert np.abs(labels).max() < 2.0


def test_a_written_drive_opens_again(small: Drive, tmp_path: Path) -> None:
    folder = tmp_path / "written"
    told: list[tuple[int, int]] = []
    assert write_drive(small[:9], folder, lambda done, total, note="": told.append((done, total))) == 9
    again = open_drive(str(folder))
    assert again.frame_ids == small.frame_ids[:9]
    np.testing.assert_array_equal(again.steering_rad, small.steering_rad[:9])
    np.testing.assert_array_equal(frames_of(again), frames_of(small)[:9])
    assert again.problems == ()
    assert told[-1] == (9, 9)
    with pytest.raises(BadDriveError, match="empty or a new folder"):
        write_drive(small, folder)
