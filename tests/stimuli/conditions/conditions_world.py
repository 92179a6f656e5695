"""Pictures of the built-in world in which everything about them is known: depth, light, air."""

from functools import lru_cache

import numpy as np

from skidpad.core.images import Camera
from skidpad.worlds.render.raycast import RayCaster
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.render.weather import KOSCHMIEDER, Look
from skidpad.worlds.scenario.scenario import Conditions, Ego, RoadKind, RoadPlan, Scenario, Surroundings

CAMERA = Camera(320, 160)
CLEAR_PER_M = KOSCHMIEDER / 10_000.0


@lru_cache(maxsize=16)
def caster(conditions: Conditions, seed: int = 0, trees: float = 0.5, radius_m: float = 0.0) -> RayCaster:
    road = RoadPlan(kind=RoadKind.CURVED, radius_m=radius_m) if radius_m else RoadPlan()
    scenario = Scenario(
        road=road, conditions=conditions, surroundings=Surroundings(trees=trees, buildings=0.2), ego=Ego(), duration_s=5.0, seed=seed
    )
    return RayCaster(build_scene(scenario), CAMERA)


def rendered(source: RayCaster, s_m: float = 20.0, **look: float) -> np.ndarray:
    """Renders one frame, (1, height, width, 3), with some numbers of the look changed; the sky stays as it was baked."""
    now = RayCaster.__new__(RayCaster)
    now.scene, now.camera = source.scene, source.camera
    now.stage = source.stage._replace(look=source.stage.look._replace(**look))
    here = source.scene.road.at(np.array([s_m]))
    pose = np.column_stack((here.beside(source.scene.lane_centre_m), here.heading_rad))
    return now.render(pose, np.zeros(1))


_BLACK = dict.fromkeys((name for name in Look._fields if name.split("_")[0] in {"ambient", "sun", "lamp"}), 0.0) | {"glow": 0.0}


def true_depth_m(source: RayCaster, s_m: float = 20.0) -> np.ndarray:
    """Returns the metres ahead of what each pixel shows, (height, width), NaN for sky: black things in white air are as white as far."""
    dark = rendered(source, s_m, **_BLACK, extinction_per_m=0.0)[0].max(axis=-1)
    white = {"air_red": 255.0, "air_green": 255.0, "air_blue": 255.0}
    levels = [rendered(source, s_m, **_BLACK, **white, extinction_per_m=1.0 / scale)[0, ..., 1] / 255.0 for scale in (30.0, 200.0)]
    near, far = (-scale * np.log(np.maximum(1.0 - level, 1e-3)) for scale, level in zip((30.0, 200.0), levels, strict=True))
    return np.where(dark > 6, np.nan, np.where(near < 60.0, near, far))


def road_mask(camera: Camera = CAMERA, half_m: float = 3.0, far_m: float = 80.0) -> np.ndarray:
    """Returns which pixels show the asphalt of a straight road around the car, as far as `far_m`."""
    forward, down, left = camera.rays()
    distance = camera.height_m / np.maximum(down, 1e-9)[:, None]
    return (down > 0)[:, None] & (np.abs(distance * left) < half_m) & (distance * forward[:, None] < far_m)
