"""The same condition laid over a picture and rendered by the built-in world; and how well depth is guessed."""

import numpy as np
import pytest
from conditions_world import CAMERA, CLEAR_PER_M, caster, rendered, road_mask, true_depth_m

from skidpad.core.images import Camera, Capture
from skidpad.core.stimuli import Params
from skidpad.stimuli.conditions.atmosphere import Fog
from skidpad.stimuli.conditions.base import depth_m
from skidpad.stimuli.conditions.light import Dusk
from skidpad.stimuli.conditions.optics import KOSCHMIEDER
from skidpad.worlds.render import weather
from skidpad.worlds.scenario.scenario import Conditions, Weather

ONE = Capture(CAMERA, np.zeros(1))
ROAD = road_mask()


def test_depth_is_near_the_worlds():
    road, rest = [], []
    for seed in range(3):
        truth = true_depth_m(caster(Conditions(), seed))
        apart = np.abs(depth_m(CAMERA) - truth) / np.maximum(truth, 1.0)
        seen = np.isfinite(truth)
        road.append(np.median(apart[ROAD & seen]))
        rest.append(np.median(apart[~ROAD & seen]))
    assert max(road) < 0.02, "the road's plane"
    assert max(rest) < 0.15, "verges, trees and houses"
    guessed = np.abs(depth_m(Camera.guess(160, 320)) - truth) / np.maximum(truth, 1.0)
    assert np.median(guessed[ROAD & seen]) < 0.10, "without knowing the camera"


def test_both_use_one_law():
    assert KOSCHMIEDER == weather.KOSCHMIEDER


@pytest.mark.parametrize("intensity", [0.0, 0.5, 1.0])
def test_fog_over_a_clear_picture_is_the_worlds_fog(intensity):
    """260, 85 and 28 m; the clear picture has the light of a foggy day, which is not what fog's law is about."""
    conditions = Conditions(Weather.FOG, intensity)
    source = caster(conditions, 1)
    foggy, clear = rendered(source).astype(int), rendered(source, extinction_per_m=CLEAR_PER_M)
    laid = Fog().apply_at(clear, Params(visibility_m=weather.visibility_m(conditions), seed=0), ONE).astype(int)
    change = np.abs(foggy - clear)[0][ROAD].mean()
    assert change > 8.0, "fog changes the road"
    assert np.abs(laid - foggy)[0][ROAD].mean() < 2.0, "grey levels on the road"
    assert np.abs(laid - foggy).mean() < 7.0, "grey levels on everything"
    other = Fog().apply_at(clear, Params(visibility_m=2.0 * weather.visibility_m(conditions), seed=0), ONE).astype(int)
    assert np.abs(other - foggy)[0][ROAD].mean() > 2.0, "twice the visibility is another fog"


def test_night_over_a_day_is_as_dark_as_the_worlds_night():
    """The world's night has no illuminance: compared are what the headlights light and what they do not, on average."""
    day = rendered(caster(Conditions(), 1))
    night = rendered(caster(Conditions(night=True), 1), headlights=1.0).astype(int)
    laid = Dusk().apply_at(day, Params(illuminance_lx=0.2), ONE).astype(int)
    assert abs(laid[0][ROAD].mean() - night[0][ROAD].mean()) < 25.0
    assert abs(laid[0, :50].mean() - night[0, :50].mean()) < 15.0
    assert laid[0][ROAD].mean() > 2.0 * laid[0, :50].mean(), "headlights light the road, not the sky"
