"""What every condition in physical units promises, whoever registered it."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import cv2
import numpy as np
import pytest
import torch

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera, Capture
from skidpad.core.stimuli import Condition, Params, Recipe, Severity
from skidpad.stimuli.conditions.atmosphere import Fog
from skidpad.stimuli.pictures import TRANSFORMS, stimuli
from skidpad.stimuli.pictures.torch_kernels import AGREEMENT, EXACT

CONDITIONS = {name: made for name in TRANSFORMS.names() if isinstance(made := stimuli((name,))[name], Condition)}
SEVERITIES = [pytest.param(name, severity, id=severity.name) for name, made in CONDITIONS.items() for severity in made.severities]
EACH = pytest.mark.parametrize("name", CONDITIONS)


def scene(count: int = 1, height: int = 120, width: int = 160, *, grey: bool = False) -> np.ndarray:
    """A bright sky over dark trees and a road with two lines that comes nearer, with some texture; each frame a little different."""
    rng = np.random.default_rng(4)
    frames = np.zeros((count, height, width, 3), np.float32)
    rows = np.arange(height)[:, None] / height
    columns = np.abs(np.arange(width)[None, :] / width - 0.5)
    road = (rows > 0.44) & (columns < 0.9 * (rows - 0.40))
    line = road & (np.abs(columns - 0.7 * (rows - 0.40)) < 0.012)
    trees = (rows > 0.25) & (rows < 0.44) & (columns > 0.08)
    frames[:] = (110, 140, 80)
    frames[:, (rows < 0.44).repeat(width, 1) & ~trees] = (170, 195, 225)
    frames[:, trees] = (45, 60, 40)
    frames[:, road] = (100, 98, 96)
    frames[:, line] = (225, 222, 215)
    frames += cv2.GaussianBlur(rng.normal(0, 14, (height, width)).astype(np.float32), (0, 0), 1.2)[None, ..., None]
    frames += 2.0 * np.arange(count)[:, None, None, None]
    if grey:
        frames[:] = frames.mean(axis=-1, keepdims=True)
    return np.clip(frames, 0, 255).astype(np.uint8)


def capture(count: int, height: int = 120, width: int = 160) -> Capture:
    return Capture(Camera.guess(height, width), 3.0 + 0.05 * np.arange(count))


def test_there_are_conditions_of_air_fall_light_and_shadow():
    assert {"fog", "haze", "smoke", "dust", "spray", "rain", "snow", "wet-road"} <= set(CONDITIONS)
    assert {"low-sun", "dusk", "headlights", "street-lamps", "cast-shadows", "overcast"} <= set(CONDITIONS)


@EACH
def test_the_grid_is_five_severities_each_within_bounds(name):
    space, severities = CONDITIONS[name].space, CONDITIONS[name].severities
    assert severities
    assert 5 <= len(space.grid) <= 5 * len(severities)
    for params in space.grid:
        space.check(name, params)


@pytest.mark.parametrize(("name", "severity"), SEVERITIES)
def test_a_severity_says_what_it_is(name, severity: Severity):
    assert severity.unit
    assert severity.source
    assert severity.attribute
    for share in (0.0, 1.0):
        CONDITIONS[name].space.check(name, severity.params(share))
        assert severity.share(severity.at(share)) == pytest.approx(share)


@EACH
def test_identity_changes_nothing(name):
    identity = CONDITIONS[name].space.identity
    if identity is None:
        pytest.skip("has no value that changes nothing")
    frames = scene(2)
    same = CONDITIONS[name].apply_at(frames, identity, capture(2))
    assert np.array_equal(same, frames)
    assert not np.shares_memory(same, frames)


@pytest.mark.parametrize(("name", "severity"), SEVERITIES)
def test_it_gets_harder(name, severity: Severity):
    """The further along, the less the picture is like the harmless one."""
    if getattr(CONDITIONS[name], "past_s", 0.0):
        pytest.skip("shows an earlier frame; see test_conditions_timing.py")
    frames = scene(1, 160, 320)
    pictures = [CONDITIONS[name].apply_at(frames, severity.params(share), capture(1, 160, 320)) for share in (0.0, 0.2, 0.5, 0.8, 1.0)]
    apart = [np.abs(picture.astype(float) - pictures[0]).mean() for picture in pictures]
    assert apart[-1] > apart[1]
    if severity.name != "low sun":  # a lower one is weaker, too, and leaves the top of the picture
        assert all(milder < harder for milder, harder in pairwise(apart))


@EACH
def test_it_is_pure_and_a_batch_is_its_frames(name):
    condition = CONDITIONS[name]
    if getattr(condition, "past_s", 0.0):
        pytest.skip("shows an earlier frame; see test_conditions_timing.py")
    frames, taken = scene(4), capture(4)
    before = frames.copy()
    for params in (condition.space.grid[1], condition.space.grid[-1]):
        out = condition.apply_at(frames, params, taken)
        assert np.array_equal(frames, before), "the input was changed"
        assert out.dtype == np.uint8
        assert out.shape == frames.shape
        assert np.array_equal(out, condition.apply_at(frames, params, taken)), "not pure"
        for number in (0, 3):
            alone = condition.apply_at(frames[number : number + 1], params, replace(taken, times_s=taken.times_s[number : number + 1]))
            assert np.array_equal(alone[0], out[number]), "hangs on its neighbours"
    assert condition.apply_at(frames[:0], condition.space.grid[0], capture(0)).shape == (0, 120, 160, 3)


@EACH
def test_torch_frames_agree(name):
    condition = CONDITIONS[name]
    frames, taken = scene(2), capture(2)
    for params in (condition.space.grid[0], condition.space.grid[-1]):
        out = condition.apply_at(torch.from_numpy(frames), params, taken)
        assert out.dtype == torch.uint8
        assert AGREEMENT.get(name, EXACT).holds(condition.apply_at(frames, params, taken), out.numpy())


@EACH
def test_grey_and_tiny_frames_come_through(name):
    condition = CONDITIONS[name]
    for params in (condition.space.grid[0], condition.space.grid[-1]):
        for height, width in ((16, 16), (16, 64), (40, 17)):
            assert condition.apply(scene(1, height, width), params).shape == (1, height, width, 3)
        grey = condition.apply(scene(1, grey=True), params)
        assert grey.std() > 0, "a picture is left"
    for level in (0, 255):
        assert condition.apply(np.full((1, 48, 64, 3), level, np.uint8), condition.space.grid[-1]).shape == (1, 48, 64, 3)


@EACH
def test_smaller_than_a_camera_is_refused(name):
    with pytest.raises(BadParametersError, match="16 to 8192 pixels wide and high; got 12x12"):
        CONDITIONS[name].apply(np.zeros((1, 12, 12, 3), np.uint8), CONDITIONS[name].space.grid[0])


@pytest.mark.parametrize(("name", "severity"), SEVERITIES)
def test_out_of_range_is_a_sentence(name, severity: Severity):
    params = Params(**(dict(severity.params(0.5)) | {severity.parameter: 1e9}))
    with pytest.raises(BadParametersError, match=rf"'{name}' takes {severity.parameter} in .*; got {severity.parameter}=1000000000.0"):
        Recipe.of(name, params).apply(scene(), CONDITIONS)


def test_an_unknown_parameter_is_a_sentence_with_the_known_ones():
    with pytest.raises(BadParametersError, match=r"Fog takes visibility_m, seed; got visibility$"):
        Fog(visibility=3)


def test_numpy_frames_do_not_import_torch():
    code = (
        "import sys, numpy as np\nfrom skidpad.stimuli.pictures import TRANSFORMS, stimuli\n"
        "for name in ('fog', 'rain', 'snow', 'low-sun', 'dusk', 'cast-shadows'):\n"
        "    one = stimuli((name,))[name]\n    one.apply(np.full((1, 32, 48, 3), 90, np.uint8), one.space.grid[2])\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
