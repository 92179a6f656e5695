"""Pictures of scenes: determinism, geometry, weather, light."""

from dataclasses import replace

import numpy as np
import pytest
from worlds_scenes import BARE, CAMERA, CLEAR, FOG, LIT, NIGHT, RAIN, SNOW, caster, crowded, frame_of, plain, pose_at, without

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera
from skidpad.worlds.render.raycast import RayCaster, render_side_by_side
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.render.weather import KOSCHMIEDER, look_of, visibility_m
from skidpad.worlds.scenario.scenario import Conditions, OtherVehicle, Pedestrian, RoadKind, Scenario, Side, Surroundings, Weather

WEATHERS = {"clear": CLEAR, "fog": FOG, "rain": RAIN, "snow": SNOW, "night": NIGHT, "rain at night": replace(RAIN, night=True)}


@pytest.mark.parametrize("conditions", WEATHERS.values(), ids=WEATHERS)
def test_frames_do_not_depend_on_threads_batch_or_order(conditions: Conditions) -> None:
    made = caster(crowded(conditions))
    poses = np.concatenate([pose_at(made.scene, s_m) for s_m in (12.0, 30.0, 47.0)])
    times = np.array([0.0, 1.25, 2.6])
    alone = np.concatenate([made.render(poses[k : k + 1], times[k : k + 1]) for k in range(3)])
    np.testing.assert_array_equal(made.render(poses, times), alone)
    np.testing.assert_array_equal(made.render(poses, times, threads=3), alone)
    np.testing.assert_array_equal(made.render(poses[:1], times[:1], threads=4), alone[:1])
    np.testing.assert_array_equal(made.render(poses[::-1], times[::-1]), alone[::-1])
    np.testing.assert_array_equal(RayCaster(build_scene(crowded(conditions)), CAMERA).render(poses, times), alone)
    assert len({frame.tobytes() for frame in alone}) == 3


def test_several_scenes_are_rendered_side_by_side() -> None:
    casters = [caster(crowded(conditions)) for conditions in (CLEAR, SNOW)]
    poses = np.concatenate([pose_at(made.scene, 20.0) for made in casters])
    together = render_side_by_side(casters, poses, np.zeros(2), threads=2)
    for k, made in enumerate(casters):
        np.testing.assert_array_equal(together[k], made.render(poses[k : k + 1], np.zeros(1))[0])


@pytest.mark.parametrize("kind", list(RoadKind))
@pytest.mark.parametrize("lanes", [1, 3])
def test_every_road_is_rendered(kind: RoadKind, lanes: int) -> None:
    frame = frame_of(plain(kind=kind, lanes=lanes), 70.0)
    assert frame.shape == (80, 160, 3)
    assert np.ptp(frame[70:, 70:90].mean((0, 1))) < 14


def marked_columns(scenario: Scenario, s_m: float, lateral_m: float, ahead_m: float, camera: Camera) -> tuple[float, np.ndarray]:
    """The column of a point of the road, and the brightness of the pixels around it."""
    made = caster(scenario, camera)
    pose = pose_at(made.scene, s_m)
    point = made.scene.road.at(np.array([s_m + ahead_m])).beside(lateral_m)
    column, row = camera.project(pose[0], np.column_stack((point, [0.0])))[0]
    return column, made.render(pose, np.zeros(1))[0].astype(int)[int(row)]


@pytest.mark.parametrize("road", [{}, {"kind": RoadKind.CURVED, "radius_m": 60.0}, {"lanes": 3}], ids=["straight", "bend", "three lanes"])
def test_edge_lines_are_where_the_pinhole_says(road: dict[str, object]) -> None:
    camera = Camera(640, 320)
    scenario = plain(**road)
    edge = build_scene(scenario).section.edge_m
    for ahead_m in (8.0, 13.0):
        column, row = marked_columns(scenario, 75.0, -edge + 0.075, ahead_m, camera)
        near = slice(max(int(column) - 20, 0), int(column) + 21)
        weight = np.maximum(row[near].min(axis=1) - 160, 0).astype(float)
        assert weight.sum() > 0
        assert np.sum(weight * (np.arange(640)[near] + 0.5)) / weight.sum() == pytest.approx(column, abs=1.6)


def test_lanes_are_divided_by_white_dashes_and_directions_by_solid_yellow() -> None:
    camera, scenario = Camera(640, 320), plain(lanes=2)
    # Dashes begin at multiples of nine metres and are three long.
    on, row_on = marked_columns(scenario, 12.0, -3.5, 25.5, camera)
    off, row_off = marked_columns(scenario, 12.0, -3.5, 21.5, camera)
    assert row_on[int(on)].min() > 160
    assert row_off[int(off)].max() < 150
    for ahead_m in (9.0, 12.0):
        column, row = marked_columns(scenario, 12.0, -0.155, ahead_m, camera)
        assert row[int(column), 0] - row[int(column), 2] > 70


def test_an_entry_lane_widens_the_road_where_it_runs_beside_it() -> None:
    camera = Camera(640, 320)
    beside = {}
    for s_m in (100.0, 245.0):
        column, row = marked_columns(plain(kind=RoadKind.ENTRY), s_m, -5.25, 10.0, camera)
        beside[s_m] = np.ptp(row[int(column)])
    # Asphalt is grey, grass is not.
    assert beside[100.0] < 14 < beside[245.0]


def test_cars_and_people_are_seen_where_they_are() -> None:
    camera = Camera(640, 320)
    scenario = replace(plain(), vehicles=(OtherVehicle(1, 20.0, 10.0, 3),), pedestrians=(Pedestrian(Side.RIGHT, 12.0),))
    for time_s, s_m in ((0.0, 12.0), (1.0, 22.0)):
        made = caster(scenario, camera)
        pose = pose_at(made.scene, s_m)
        frame = made.render(pose, np.array([time_s]))[0].astype(int)
        empty = caster(without(scenario), camera).render(pose, np.zeros(1))[0].astype(int)
        changed = np.abs(frame - empty).max(axis=2) > 12
        for box in made.scene.objects_at(time_s).poses[:1]:
            column, row = camera.project(pose[0], np.array([[box[0], box[1], 0.7]]))[0]
            assert changed[int(row), int(column)]
            assert frame[int(row), int(column), 0] > frame[int(row), int(column), 2] + 25
        assert changed.mean() < 0.1
    later = frame_of(scenario, 12.0, 0.5, camera)
    assert np.abs(later - frame_of(scenario, 12.0, 0.0, camera)).mean() > 0.05


def test_a_nearer_car_hides_a_farther_one() -> None:
    near, far = OtherVehicle(1, 14.0, 10.0, 3), OtherVehicle(1, 22.0, 10.0, 4)
    both = frame_of(replace(plain(), vehicles=(near, far)))
    swapped = frame_of(replace(plain(), vehicles=(far, near)))
    alone = frame_of(replace(plain(), vehicles=(near,)))
    np.testing.assert_array_equal(both, swapped)
    column, row = CAMERA.project(np.array([12.0, -1.75, 0.0]), np.array([[24.0, -1.75, 0.7]]))[0].astype(int)
    np.testing.assert_array_equal(both[row - 2 : row + 3, column - 3 : column + 4], alone[row - 2 : row + 3, column - 3 : column + 4])


def test_buildings_gantries_and_trees_change_the_picture_and_trees_throw_shadows() -> None:
    bare = frame_of(plain())
    for there in (Surroundings(0.0, 1.0), Surroundings(0.0, 0.0, gantries=1), Surroundings(1.0, 0.0)):
        assert np.abs(frame_of(replace(plain(), surroundings=replace(there, hills=False))) - bare).mean() > 0.25
    wooded = caster(replace(plain(), surroundings=Surroundings(1.0, 0.0)))
    shade = wooded.stage.ground.shade
    assert 0.02 < (shade > 128).mean() < 0.6
    assert not caster(replace(plain(FOG), surroundings=Surroundings(1.0, 0.0))).stage.ground.shade.any()


def contrast(conditions: Conditions, ahead_m: float) -> float:
    """How much an edge line stands out from the asphalt."""
    column, row = marked_columns(plain(conditions), 12.0, -3.425, ahead_m, Camera(640, 320))
    return float(row[int(column)].max() - row[int(column) - 25].max())


def test_fog_takes_contrast_as_its_formula_says() -> None:
    thick, thin = Conditions(Weather.FOG, 1.0), Conditions(Weather.FOG, 0.1)
    assert visibility_m(thick) < visibility_m(thin)
    assert visibility_m(Conditions(Weather.FOG, 0.5)) == pytest.approx(
        np.sqrt(visibility_m(Conditions(Weather.FOG, 0.0)) * visibility_m(thick))
    )
    # In the same light, what is left of a contrast is exp(-3.912 d / visibility).
    for ahead_m in (9.0, 14.0):
        left = contrast(thick, ahead_m) / contrast(thin, ahead_m)
        camera_m = ahead_m - Camera().forward_m
        expected = np.exp(-KOSCHMIEDER * camera_m * (1.0 / visibility_m(thick) - 1.0 / visibility_m(thin)))
        assert left == pytest.approx(expected, rel=0.2)


def test_fog_hides_what_is_beyond_its_visibility() -> None:
    thick = Conditions(Weather.FOG, 1.0)
    far = replace(plain(thick), vehicles=(OtherVehicle(1, 60.0, 10.0, 3),))
    np.testing.assert_allclose(frame_of(far), frame_of(without(far)), atol=4)
    clear = replace(far, conditions=CLEAR)
    assert np.abs(frame_of(clear) - frame_of(without(clear))).max() > 40


def test_night_is_dark_and_headlights_light_the_road_ahead() -> None:
    day, dark, lit = frame_of(plain()), frame_of(plain(NIGHT)), frame_of(plain(NIGHT, LIT))
    assert dark.mean() < 0.2 * day.mean()
    near, beside = np.s_[60:76, 70:95], np.s_[60:76, 0:12]
    assert lit[near].mean() > 6.0 * dark[near].mean()
    assert lit[near].mean() > 2.5 * lit[beside].mean()
    np.testing.assert_array_equal(lit[:20], dark[:20])


def test_tail_lights_and_windows_shine_at_night() -> None:
    night = replace(plain(NIGHT), vehicles=(OtherVehicle(1, 14.0, 10.0, 1),))
    red = (frame_of(night) - frame_of(without(night))).max(axis=(0, 1))
    assert red[0] > 100
    assert red[0] > 3 * red[2]
    town = frame_of(replace(plain(NIGHT), surroundings=Surroundings(0.0, 1.0)))
    assert town.max() > 180 > frame_of(plain(NIGHT)).max()


def test_snow_whitens_the_ground_and_rain_darkens_the_road() -> None:
    camera = Camera(640, 320)
    still = [frame_of(plain(conditions), 12.0, 0.0, camera) for conditions in (Conditions(Weather.FOG, 0.0), SNOW, RAIN)]
    grass, road = np.s_[190:215, 600:], np.s_[280:, 300:360]
    fog, snow, rain = still
    assert np.ptp(snow[grass].mean((0, 1))) < np.ptp(fog[grass].mean((0, 1)))
    assert snow[grass].mean() > fog[grass].mean() + 40
    assert rain[road].mean() < fog[road].mean() - 8
    light, heavy = (frame_of(plain(Conditions(Weather.SNOW, much)), 12.0, 0.0, camera)[road].mean() for much in (0.2, 1.0))
    assert heavy > light + 15


def test_a_wet_road_mirrors_the_car_ahead() -> None:
    rain = replace(plain(Conditions(Weather.RAIN, 1.0)), vehicles=(OtherVehicle(1, 14.0, 10.0, 0),))
    dry = replace(rain, conditions=Conditions(Weather.FOG, 0.0))
    column, row = CAMERA.project(np.array([12.0, -1.75, 0.0]), np.array([[26.0, -1.75, -0.75]]))[0].astype(int)
    below = np.s_[row - 1 : row + 2, column - 4 : column + 5]
    # What falls is the same with and without the car, so that only the mirror image differs.
    assert np.abs(frame_of(rain) - frame_of(without(rain)))[below].mean() > 3.0
    assert np.abs(frame_of(dry) - frame_of(without(dry)))[below].mean() < 1.0


def test_what_falls_moves_and_depends_on_time_and_seed_alone() -> None:
    for conditions in (RAIN, SNOW):
        made = caster(plain(conditions))
        pose = np.repeat(pose_at(made.scene, 12.0), 3, axis=0)
        first, second, again = made.render(pose, np.array([1.0, 1.05, 1.0])).astype(int)
        np.testing.assert_array_equal(first, again)
        assert 0.3 < np.abs(first - second).mean() < 40.0
        other = frame_of(replace(plain(conditions), seed=1), 12.0, 1.0)
        assert np.abs(first - other).mean() > 0.3
    hard, soft = (frame_of(plain(Conditions(Weather.SNOW, much)), 12.0, 1.0)[:20].std() for much in (1.0, 0.0))
    assert hard > soft


def test_the_sun_moves_shadows_and_light() -> None:
    low, high = Conditions(sun_elevation_deg=8.0, sun_azimuth_deg=20.0), Conditions(sun_elevation_deg=60.0, sun_azimuth_deg=20.0)
    evening, noon = look_of(low, LIT), look_of(high, LIT)
    assert evening.sun_blue / evening.sun_red < noon.sun_blue / noon.sun_red
    wooded = Surroundings(1.0, 0.0)
    shades = [caster(replace(plain(conditions), surroundings=wooded)).stage.ground.shade for conditions in (low, high)]
    assert (shades[0] > 128).sum() > 1.5 * (shades[1] > 128).sum()


@pytest.mark.parametrize(("width", "height"), [(200, 66), (33, 47), (64, 64)])
def test_any_size_is_rendered(width: int, height: int) -> None:
    frame = frame_of(crowded(RAIN), 20.0, 1.0, Camera(width, height))
    assert frame.shape == (height, width, 3)
    assert frame.std() > 10.0


def test_far_cards_come_gradually() -> None:
    scenario = replace(plain(), surroundings=Surroundings(0.6, 0.0, hills=False), seed=3)
    made = caster(scenario)
    poses = np.concatenate([pose_at(made.scene, s_m) for s_m in 12.0 + 0.25 * np.arange(12)])
    band = made.render(poses, np.zeros(12))[:, 28:36].astype(float)
    assert np.abs(np.diff(band.mean(axis=(1, 2, 3)))).max() < 2.0


@pytest.mark.parametrize(
    ("poses", "times"),
    [(np.zeros(3), np.zeros(1)), (np.zeros((2, 2)), np.zeros(2)), (np.zeros((1, 3)), np.zeros(2)), (np.full((1, 3), np.nan), np.zeros(1))],
)
def test_bad_poses_and_times_are_refused(poses: np.ndarray, times: np.ndarray) -> None:
    with pytest.raises(BadParametersError, match="poses"):
        caster(plain()).render(poses, times)


def test_cameras_of_two_sizes_are_refused() -> None:
    two = [caster(plain()), caster(plain(), Camera(64, 64))]
    with pytest.raises(BadParametersError, match="one size"):
        render_side_by_side(two, np.zeros((2, 3)), np.zeros(2))


def test_no_frame_is_no_picture() -> None:
    assert caster(Scenario(surroundings=BARE)).render(np.empty((0, 3)), np.empty(0)).shape[0] == 0
