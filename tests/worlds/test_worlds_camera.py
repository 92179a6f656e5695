"""The camera: its geometry, and that what is rendered through it keeps to it."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worlds_scenes import caster, crowded, plain, pose_at

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera


@given(st.floats(3.0, 80.0), st.floats(-0.6, 0.6), st.floats(-3.0, 3.0))
@settings(max_examples=50, deadline=None)
def test_rays_and_projection_are_inverse(ahead_m: float, side_share: float, heading: float) -> None:
    camera = Camera()
    pose = np.array([12.0, -7.0, heading])
    forward = camera.forward_m + ahead_m
    left = side_share * ahead_m
    point = [
        12.0 + forward * np.cos(heading) - left * np.sin(heading),
        -7.0 + forward * np.sin(heading) + left * np.cos(heading),
        0.0,
    ]
    column, row = camera.project(pose, np.array([point]))[0]
    by_row, down, by_column = camera.rays()
    rows, columns = np.arange(camera.height_px) + 0.5, np.arange(camera.width_px) + 0.5
    assume(0.5 < row < camera.height_px - 0.5 and 0.5 < column < camera.width_px - 0.5)
    reach = camera.height_m / np.interp(row, rows, down)
    assert reach * np.interp(row, rows, by_row) == pytest.approx(ahead_m, rel=1e-6)
    assert reach * np.interp(column, columns, by_column) == pytest.approx(left, rel=1e-6, abs=1e-6)


def test_the_horizon_is_where_far_points_are_seen() -> None:
    camera = Camera()
    row = camera.project(np.zeros(3), np.array([[1e7, 0.0, 0.0]]))[0, 1]
    assert row == pytest.approx(camera.horizon_px, abs=1e-3)
    assert camera.horizon_px == pytest.approx(0.4 * camera.height_px, abs=1.0)
    assert np.all(np.isnan(camera.project(np.zeros(3), np.array([[-5.0, 0.0, 0.0]]))))


def test_straying_left_moves_the_road_right() -> None:
    made = caster(plain(), Camera())
    poses = np.concatenate([pose_at(made.scene, 30.0, stray_m) for stray_m in (-0.8, 0.0, 0.8)])
    row = made.render(poses, np.zeros(3))[:, 120].astype(int).min(axis=2)
    right_line = [160 + int(np.argmax(line[160:])) for line in row]
    assert right_line[0] < right_line[1] < right_line[2]


def test_far_markings_do_not_flicker() -> None:
    made = caster(plain(), Camera())
    poses = np.concatenate([pose_at(made.scene, s_m) for s_m in 40.0 + np.arange(24) * 0.05])
    far = made.render(poses, np.zeros(24))[:, 68:76, 120:200].astype(float)
    assert far.std(axis=(1, 2, 3)).min() > 2.0
    steps = np.abs(np.diff(far.mean(axis=(1, 2, 3))))
    assert steps.max() < 0.5


def test_small_and_large_pictures_show_the_same() -> None:
    small, large = caster(crowded(), Camera()), caster(crowded(), Camera(640, 320))
    pose = pose_at(small.scene, 60.0)
    fine = large.render(pose, np.zeros(1))[0].astype(float)
    shrunk = fine.reshape(160, 2, 320, 2, 3).mean(axis=(1, 3))
    assert np.abs(shrunk - small.render(pose, np.zeros(1))[0]).mean() < 5.0


@pytest.mark.parametrize("wrong", [{"width_px": 4}, {"height_px": 100000}, {"fov_deg": 180.0}, {"pitch_deg": -3.0}, {"height_m": 0.0}])
def test_impossible_cameras_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadParametersError, match="camera"):
        Camera(**wrong)  # type: ignore[arg-type]  # wrong on purpose
