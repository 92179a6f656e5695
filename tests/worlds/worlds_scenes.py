"""Small scenarios and cameras that several tests share."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from skidpad.core.images import Camera, FloatArray
from skidpad.worlds.render.raycast import RayCaster
from skidpad.worlds.render.scene import Scene, build_scene
from skidpad.worlds.scenario.scenario import (
    Conditions,
    Ego,
    OtherVehicle,
    Pedestrian,
    RoadKind,
    RoadPlan,
    Scenario,
    Side,
    Surroundings,
    Weather,
)

CAMERA = Camera(160, 80)
BARE = Surroundings(trees=0.0, buildings=0.0, hills=False)
CLEAR, NIGHT = Conditions(), Conditions(night=True)
FOG, RAIN, SNOW = (Conditions(weather, 0.6) for weather in (Weather.FOG, Weather.RAIN, Weather.SNOW))
LIT = Ego(headlights=True)


def plain(conditions: Conditions = CLEAR, ego: Ego | None = None, **road: object) -> Scenario:
    """A road with nothing beside it."""
    return Scenario(road=RoadPlan(**road), conditions=conditions, surroundings=BARE, ego=ego or Ego(), duration_s=5.0)  # type: ignore[arg-type]  # by name


def crowded(conditions: Conditions = CLEAR, kind: RoadKind = RoadKind.CURVED, lanes: int = 1, seed: int = 0) -> Scenario:
    """A road with everything."""
    return Scenario(
        road=RoadPlan(kind=kind, radius_m=90.0, lanes=lanes),
        conditions=conditions,
        surroundings=Surroundings(trees=0.5, buildings=0.4, gantries=1),
        ego=Ego(headlights=conditions.night),
        vehicles=(OtherVehicle(1, 15.0, 10.0, 3), OtherVehicle(0, 60.0, 12.0, 1)),
        pedestrians=(Pedestrian(Side.RIGHT, 12.0), Pedestrian(Side.LEFT, 20.0)),
        duration_s=5.0,
        seed=seed,
    )


@lru_cache(maxsize=32)
def caster(scenario: Scenario, camera: Camera = CAMERA) -> RayCaster:
    return RayCaster(build_scene(scenario), camera)


def pose_at(scene: Scene, s_m: float, stray_m: float = 0.0) -> FloatArray:
    """One pose in the ego's lane, (1, 3)."""
    here = scene.road.at(np.array([s_m]))
    return np.column_stack((here.beside(scene.lane_centre_m + stray_m), here.heading_rad))


def frame_of(scenario: Scenario, s_m: float = 12.0, time_s: float = 0.0, camera: Camera = CAMERA) -> np.ndarray:
    """What is seen from the ego's lane, as integers."""
    made = caster(scenario, camera)
    return made.render(pose_at(made.scene, s_m), np.array([time_s]))[0].astype(int)


def without(scenario: Scenario) -> Scenario:
    """The same scenario with nobody on the road."""
    return replace(scenario, vehicles=(), pedestrians=())
