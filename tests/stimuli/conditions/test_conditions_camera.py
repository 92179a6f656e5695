"""What every condition of the camera promises: sensor, lens, glass, mounting, timing."""

from itertools import pairwise

import cv2
import numpy as np
import pytest
import torch

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera, Capture
from skidpad.core.stimuli import CameraMove, Condition, Params, Recipe, shows_past
from skidpad.stimuli.pictures import TRANSFORMS, stimuli
from skidpad.stimuli.pictures.torch_kernels import AGREEMENT, EXACT
from skidpad.testing import check_stimulus

MODULES = ("tone", "sensor", "lens", "glass", "mounting", "timing")
ROWS = {name: row for name, row in stimuli().items() if type(row).__module__.rpartition(".")[2] in MODULES}
SEVERITIES = [pytest.param(name, each, id=each.name) for name, row in ROWS.items() for each in row.severities]
MOVES = [name for name, row in ROWS.items() if isinstance(row, CameraMove)]
CHANGING = ("sensor-noise", "banding", "wiper")
"""Those that differ from moment to moment."""


def capture(frames, *times_s):
    return Capture(Camera.guess(*frames.shape[1:3]), np.array(times_s or np.arange(len(frames)) / 20.0))


def road():
    """A road under a sky, with texture and colours: 64 x 128."""
    rows, columns = np.mgrid[:64, :128]
    grain = np.random.default_rng(3).normal(0.0, 12.0, (64, 128))
    sky = np.stack([120 + rows, 150 + rows, 190 + rows], axis=-1) + 20 * np.sin(columns / 9.0)[..., None]
    verge = np.stack([70 + grain, 110 + grain, 50 + grain], axis=-1)
    asphalt = np.repeat((95 + grain)[..., None], 3, axis=-1)
    on_road = np.abs(columns - 64) < (rows - 26) * 1.6
    line = np.abs(columns - 64 - (rows - 26) * 0.9) < (rows - 26) * 0.08 + 0.5
    picture = np.where((rows < 27)[..., None], sky, np.where(line[..., None], 225, np.where(on_road[..., None], asphalt, verge)))
    return np.clip(picture, 0, 255).astype(np.uint8)[None]


def test_there_are_many_rows_of_limits_each_with_a_source_and_a_unit_of_its_own_name():
    found = [each for row in ROWS.values() for each in row.severities]
    assert len(ROWS) >= 28
    assert len({each.name for each in found}) == len(found) >= 45
    assert all(each.source and each.attribute for each in found)


@pytest.mark.parametrize("name", ROWS)
def test_it_is_a_stimulus_and_a_condition(name):
    assert isinstance(ROWS[name], Condition)
    check_stimulus(ROWS[name])


@pytest.mark.parametrize("name", ROWS)
def test_its_name_is_the_class_and_an_instance_holds_a_row(name):
    row, params = ROWS[name], ROWS[name].space.grid[0]
    assert row.name == name
    held = type(row)(**dict(params))
    assert held.space.grid == (params,)
    assert TRANSFORMS.get(name) is type(held)


@pytest.mark.parametrize(("name", "severity"), [each for each in SEVERITIES if not shows_past(ROWS[each.values[0]])])
def test_harmless_changes_nothing_and_worse_changes_more(name, severity):
    frames, row = road(), ROWS[name]
    shots = []
    for share in (0.0, 0.25, 0.5, 1.0):
        params = row.space.filled(name, severity.params(share))
        row.space.check(name, params)
        reference = row.reference(frames, params, capture(frames, 0.4)) if name in MOVES else frames
        shots.append(float(np.abs(row.apply_at(frames, params, capture(frames, 0.4)).astype(float) - reference).mean()))
    assert shots[0] == 0.0
    assert all(more > less * 0.98 for less, more in pairwise(shots))
    assert shots[-1] > 0.5


@pytest.mark.parametrize("name", ROWS)
def test_torch_agrees_with_numpy(name):
    frames, row = np.stack([cv2.resize(road()[0], (121, 90)), cv2.resize(road()[0, :, ::-1], (121, 90))]), ROWS[name]
    for params in row.space.grid[2::5]:
        found = row.apply_at(torch.from_numpy(frames), params, capture(frames))
        assert AGREEMENT.get(name, EXACT).holds(row.apply_at(frames, params, capture(frames)), found.numpy())


@pytest.mark.parametrize("name", [name for name in ROWS if not shows_past(ROWS[name])])
def test_the_glass_stays_and_the_rest_moves_with_time(name):
    frames, row = np.repeat(road(), 2, axis=0), ROWS[name]
    one, other = row.apply_at(frames, row.space.grid[-1], capture(frames, 0.30, 0.55))
    assert np.array_equal(one, other) == (name not in CHANGING)


@pytest.mark.parametrize(("name", "severity"), SEVERITIES)
def test_beyond_its_range_it_is_refused_with_a_sentence(name, severity):
    params = ROWS[name].space.filled(name, severity.params(1.0))
    beyond = Params(**(dict(params) | {severity.parameter: 2.0 * severity.worst - severity.harmless}))
    with pytest.raises(BadParametersError, match=f"'{name}' takes {severity.parameter} in"):
        Recipe.of(name, beyond).apply(road(), ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_grey_and_tiny_frames(name):
    grey, row = np.full((2, 16, 16, 3), 128, np.uint8), ROWS[name]
    for params in row.space.grid:
        assert row.apply(grey, params).shape == grey.shape


def test_exposure_doubles_the_light():
    grey = np.full((1, 16, 16, 3), 100, np.uint8)
    light = ((grey[0, 0, 0, 0] / 255 + 0.055) / 1.055) ** 2.4
    expected = 255 * (1.055 * (2 * light) ** (1 / 2.4) - 0.055)
    assert abs(float(ROWS["exposure"].apply(grey, Params(ev=1.0)).mean()) - expected) <= 0.5


def test_noise_grows_with_the_root_of_the_sensitivity():
    grey = np.full((1, 200, 200, 3), 118, np.uint8)
    spread = [float(ROWS["sensor-noise"].apply(grey, Params(iso=iso)).astype(float).std()) for iso in (400.0, 1600.0, 6400.0)]
    light, base = ((118 / 255 + 0.055) / 1.055) ** 2.4, 12_000.0
    beyond = [light * (times - 1) / base + (3.0 / base) ** 2 * (times**2 - 1) for times in (4, 16, 64)]  # ISO 100 is in the frames already
    assert spread[1] / spread[0] == pytest.approx((beyond[1] / beyond[0]) ** 0.5, rel=0.06)
    assert spread[2] / spread[1] == pytest.approx((beyond[2] / beyond[1]) ** 0.5, rel=0.06)


def test_daylight_of_6500_kelvin_is_grey_and_lamps_are_warm():
    grey = np.full((1, 16, 16, 3), 128, np.uint8)
    red, green, blue = ROWS["colour-temperature"].apply(grey, Params(kelvin=3000.0))[0, 0, 0].astype(int)
    assert red > green > blue
    red, green, blue = ROWS["colour-temperature"].apply(grey, Params(kelvin=11000.0))[0, 0, 0].astype(int)
    assert red < green < blue


def test_a_wide_disc_has_the_energy_and_the_spread_of_a_disc():
    point = np.zeros((1, 161, 161, 3), np.uint8)
    point[0, 80, 80] = 255
    camera = Camera.guess(161, 161)
    seen = ROWS["defocus"].apply_at(point, Params(blur_deg=3.0), Capture(camera, np.zeros(1)))[0, :, :, 0]
    diameter = camera.focal_px * np.radians(3.0)
    assert np.count_nonzero(seen) == pytest.approx(np.pi * diameter**2 / 4, rel=0.35)


def test_motion_smears_the_near_road_along_and_leaves_the_horizon():
    frames = road()
    camera = Camera.guess(64, 128)
    params = Params(shutter_ms=60.0, speed_kmh=80.0, yaw_deg_s=0.0)
    moved = np.abs(ROWS["motion-blur"].apply_at(frames, params, Capture(camera, np.zeros(1))).astype(int) - frames)[0].mean(axis=(1, 2))
    horizon = round(camera.horizon_px)
    assert moved[-12:].mean() > 3.0 * moved[horizon - 2 : horizon + 1].mean()
