"""The lane can be seen in every scenario that a domain draws: measured in rendered frames, beside the markings."""

from dataclasses import replace

import numpy as np
import pytest

from skidpad.core.images import Camera
from skidpad.core.stimuli import Choice
from skidpad.worlds.render.raycast import RayCaster
from skidpad.worlds.render.scene import Scene, build_scene
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.road import CrossSection
from skidpad.worlds.scenario.road_constraints import MAX_SNOW_INTENSITY
from skidpad.worlds.scenario.scenario import Conditions, Ego, RoadPlan, Scenario, Surroundings, Weather

CAMERA = Camera()
LEAST = 0.05 * 255.0
"""The contrast at which the meteorological optical range ends."""
BESIDE_M = 0.28
TIMES_S = np.array([0.0, 0.37, 0.81, 1.3, 1.9])


def borders(section: CrossSection) -> list[tuple[float, bool]]:
    """The middle of the marking at the left and at the right of the ego's lane, and whether it is dashed."""
    lanes, lane, half = section.lanes, section.ego_lane, 0.5 * section.lane_width_m
    inner = (0.0, True) if lanes == 1 else (0.155, False)
    left = inner if lane == lanes else (section.lane_centre_m + half, True)
    right = (-section.edge_m + 0.075, False) if lane == 1 else (section.lane_centre_m - half, True)
    return [left, right]


def colours(scene: Scene, picture: np.ndarray, s_m: np.ndarray, lateral_m: float) -> np.ndarray:
    """What the picture shows of the road there, (N, 3); NaN outside of it."""
    points = np.column_stack((scene.road.at(s_m).beside(lateral_m), np.zeros(len(s_m))))
    column, row = np.floor(CAMERA.project(scene.start_pose, points)).T
    inside = (column >= 0) & (column < CAMERA.width_px) & (row >= 0) & (row < CAMERA.height_px)
    found = np.full((len(s_m), 3), np.nan)
    found[inside] = picture[row[inside].astype(int), column[inside].astype(int)]
    return found


def contrasts(scenario: Scenario) -> list[float]:
    """How far the marking at each side of the ego's lane stands out of the asphalt on both its sides, 5 to 20 m ahead.

    The median over some moments takes flakes and streaks away; traffic would hide the road and is left out.
    """
    scene = build_scene(replace(scenario, vehicles=(), pedestrians=(), surroundings=Surroundings(trees=0.0, hills=False)))
    poses = np.tile(scene.start_pose, (len(TIMES_S), 1))
    picture = np.median(RayCaster(scene, CAMERA).render(poses, TIMES_S), axis=0)
    found = []
    for lateral_m, dashed in borders(scene.section):
        s_m = scene.start_s_m + np.arange(5.0, 20.0, 0.1)
        if dashed:
            s_m = s_m[(s_m % 9.0 > 0.4) & (s_m % 9.0 < 2.6)]
        around = 0.5 * (colours(scene, picture, s_m, lateral_m - BESIDE_M) + colours(scene, picture, s_m, lateral_m + BESIDE_M))
        found.append(float(np.nanmean(colours(scene, picture, s_m, lateral_m) - around, axis=0).max()))
    return found


def worst(weather: Weather, intensity: float, *, night: bool, lanes: int, lane: int) -> Scenario:
    lit = Ego(12.0, lane, headlights=True, fog_lights=weather is Weather.FOG)
    return Scenario(RoadPlan(lanes=lanes), Conditions(weather, intensity, night, sun_elevation_deg=20.0), ego=lit)


@pytest.mark.parametrize("night", [False, True])
@pytest.mark.parametrize(("weather", "most"), [(Weather.FOG, 1.0), (Weather.RAIN, 1.0), (Weather.SNOW, MAX_SNOW_INTENSITY)])
def test_both_borders_of_the_lane_stand_out_in_the_worst_weather_of_a_domain(weather: Weather, most: float, night: bool) -> None:
    for lanes, lane in ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3)):
        scenario = worst(weather, most, night=night, lanes=lanes, lane=lane)
        assert DOMAINS.get("extended").violations(scenario) == ()
        assert min(contrasts(scenario)) > LEAST


@pytest.mark.parametrize("night", [False, True])
def test_deeper_snow_hides_the_lane(night: bool) -> None:
    """Why the domains have a bound; without it the last test would hold of anything."""
    assert max(contrasts(worst(Weather.SNOW, 1.0, night=night, lanes=1, lane=1))) < 0.5 * LEAST
    assert min(contrasts(worst(Weather.SNOW, 0.7, night=night, lanes=1, lane=1))) < LEAST


def test_the_lane_can_be_seen_in_every_drawn_scenario() -> None:
    domain = DOMAINS.get("extended").with_parameters(Choice("conditions.weather", ("fog", "rain", "snow")))
    drawn = sample(domain, 5, 24).scenarios
    assert max(each.conditions.intensity for each in drawn if each.conditions.weather is Weather.SNOW) > 0.4
    assert min(min(contrasts(each)) for each in drawn) > LEAST
