"""The camera and the renderer: geometry, determinism, and pictures that look like a road."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from skidpad.worlds.recorded.journey import Renderer
from skidpad.worlds.render.scenery import Woodland, plant_trees, random_scene
from worlds_truths import bend, straight

from skidpad.core.errors import BadParametersError
from skidpad.worlds.render.camera import Camera
from skidpad.worlds.scenario.road import CrossSection, Road

NO_TREES = np.empty((0, 8))
SECTION = CrossSection()


def bare(road: Road, camera: Camera | None = None) -> Renderer:
    return Renderer(Woodland(road, SECTION, NO_TREES), camera or Camera())


def lane_poses(road: Road, s_m: np.ndarray, stray_m: float = 0.0) -> np.ndarray:
    here = road.at(s_m)
    return np.column_stack((here.beside(SECTION.lane_centre_m + stray_m), here.heading_rad))


@pytest.fixture(scope="module")
def wooded() -> Renderer:
    return Renderer(random_scene(3, 250.0), Camera())


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


@pytest.mark.parametrize("road", [straight(), bend(60.0), bend(-60.0)], ids=["straight", "left", "right"])
@pytest.mark.parametrize("ahead_m", [6.0, 9.0, 14.0])
def test_the_edge_line_is_where_the_pinhole_says(road: Road, ahead_m: float) -> None:
    camera = Camera(640, 320)
    pose = lane_poses(road, np.array([30.0]))
    frame = bare(road, camera).render(pose)[0].astype(int)
    line = road.at(np.array([30.0 + ahead_m])).beside(-SECTION.lane_width_m + 0.075)
    column, row = camera.project(pose[0], np.column_stack((line, [0.0])))[0]
    brightness = frame[int(row), :, :].min(axis=1)
    near = slice(max(int(column) - 25, 0), int(column) + 26)
    weight = np.maximum(brightness[near] - 150, 0).astype(float)
    assert weight.sum() > 0
    middle = np.sum(weight * (np.arange(camera.width_px)[near] + 0.5)) / weight.sum()
    assert middle == pytest.approx(column, abs=1.5)


def test_dashes_are_yellow_and_have_gaps() -> None:
    road = straight()
    pose = lane_poses(road, np.array([30.0]))
    frame = bare(road, Camera(640, 320)).render(pose)[0].astype(int)
    # Dashes begin at multiples of nine metres and are three long.
    marks = np.array([[37.5, 0.0, 0.0], [41.0, 0.0, 0.0], [46.5, 0.0, 0.0]])
    columns, rows = Camera(640, 320).project(pose[0], marks).astype(int).T
    yellowness = frame[rows, columns, 0] - frame[rows, columns, 2]
    assert yellowness[0] > 80
    assert yellowness[2] > 80
    assert abs(yellowness[1]) < 20


def test_straying_left_moves_the_road_right() -> None:
    road = straight()
    renderer = bare(road)
    poses = np.concatenate([lane_poses(road, np.array([30.0]), stray_m) for stray_m in (-0.8, 0.0, 0.8)])
    row = renderer.render(poses)[:, 120].astype(int).min(axis=2)
    right_line = [160 + int(np.argmax(line[160:])) for line in row]
    assert right_line[0] < right_line[1] < right_line[2]


def test_frames_do_not_depend_on_threads_batch_or_order(wooded: Renderer) -> None:
    poses = lane_poses(wooded.scene.road, np.linspace(10.0, 150.0, 5))
    alone = np.concatenate([wooded.render(pose[None]) for pose in poses])
    np.testing.assert_array_equal(wooded.render(poses), alone)
    np.testing.assert_array_equal(wooded.render(poses, threads=3), alone)
    np.testing.assert_array_equal(wooded.render(poses[:1], threads=4), alone[:1])
    np.testing.assert_array_equal(wooded.render(poses[::-1]), alone[::-1])
    again = Renderer(random_scene(3, 250.0), Camera())
    np.testing.assert_array_equal(again.render(poses), alone)


def test_a_frame_has_sky_road_and_grass(wooded: Renderer) -> None:
    frame = wooded.render(lane_poses(wooded.scene.road, np.array([20.0])))[0].astype(int)
    assert frame.shape == (160, 320, 3)
    sky, road, grass = frame[:12].mean((0, 1)), frame[140:, 120:180].mean((0, 1)), bare_grass()
    assert sky[2] > sky[0] + 20
    assert np.ptp(road) < 12
    assert grass[1] > grass[0] > grass[2] + 20


def bare_grass() -> np.ndarray:
    here = np.array([[50.0, 300.0, 0.0]])
    return bare(straight()).render(here)[0][100:].astype(int).mean((0, 1))


def test_far_markings_do_not_flicker() -> None:
    road = straight()
    poses = lane_poses(road, 40.0 + np.arange(24) * 0.05)
    far = bare(road).render(poses)[:, 68:76, 120:200].astype(float)
    assert far.std(axis=(1, 2, 3)).min() > 2.0
    steps = np.abs(np.diff(far.mean(axis=(1, 2, 3))))
    assert steps.max() < 0.5


@pytest.mark.parametrize(("width", "height"), [(200, 66), (33, 47), (640, 480), (64, 64)])
def test_any_size_is_rendered(wooded: Renderer, width: int, height: int) -> None:
    frames = Renderer(wooded.scene, Camera(width, height)).render(lane_poses(wooded.scene.road, np.array([20.0])))
    assert frames.shape == (1, height, width, 3)
    assert frames.std() > 10.0


def test_small_and_large_pictures_show_the_same(wooded: Renderer) -> None:
    pose = lane_poses(wooded.scene.road, np.array([60.0]))
    small = wooded.render(pose)[0].astype(float)
    large = Renderer(wooded.scene, Camera(640, 320)).render(pose)[0].astype(float)
    shrunk = large.reshape(160, 2, 320, 2, 3).mean(axis=(1, 3))
    assert np.abs(shrunk - small).mean() < 5.0


def test_trees_hide_what_is_behind_and_darken_the_ground() -> None:
    road = straight()
    pose = lane_poses(road, np.array([30.0]))
    tree = np.array([[50.0, 9.0, 8.0, 2.0, 2.5, 0.0, 0.0, 5.0]])
    with_tree = Renderer(Woodland(road, SECTION, tree), Camera()).render(pose)[0].astype(int)
    without = bare(road).render(pose)[0].astype(int)
    column, row = Camera().project(pose[0], np.array([[50.0, 9.0, 5.0]]))[0].astype(int)
    assert with_tree[row, column, 2] < without[row, column, 2] - 60
    shadow = Woodland(road, SECTION, tree).shadows()[0]
    column, row = Camera().project(pose[0], np.array([[*shadow[:2], 0.0]]))[0].astype(int)
    assert with_tree[row, column].sum() < 0.8 * without[row, column].sum()
    assert (with_tree != without).any(axis=2).mean() < 0.3


def test_no_tree_stands_on_the_road() -> None:
    scene = random_scene(11, 2000.0)
    clear_m = np.abs(scene.road.project(scene.trees[:, :2]).lateral_m)
    assert len(scene.trees) > 500
    assert clear_m.min() > SECTION.outer_m
    np.testing.assert_array_equal(scene.trees, random_scene(11, 2000.0).trees)
    assert len(plant_trees(np.random.default_rng(0), scene.road, SECTION)) > 500


@pytest.mark.parametrize("poses", [np.zeros(3), np.zeros((2, 2)), np.array([[0.0, 0.0, np.nan]])])
def test_bad_poses_are_refused(wooded: Renderer, poses: np.ndarray) -> None:
    with pytest.raises(BadParametersError, match="poses"):
        wooded.render(poses)


@pytest.mark.parametrize("wrong", [{"width_px": 4}, {"height_px": 100000}, {"fov_deg": 180.0}, {"pitch_deg": -3.0}, {"height_m": 0.0}])
def test_impossible_cameras_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadParametersError, match="camera"):
        Camera(**wrong)  # type: ignore[arg-type]  # wrong on purpose
