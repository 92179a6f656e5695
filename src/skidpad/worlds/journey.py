"""A drive along sampled roads of the built-in world: where the car is at each frame, what it should steer, what it sees.

Every frame depends on the settings and its number alone, so that the bytes do not depend on threads, order or batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skidpad.core.images import Camera, FloatArray, NumpyFrames
from skidpad.core.seeding import child_rng, child_seed
from skidpad.drives.drive import Drive
from skidpad.drives.frames import Names
from skidpad.drives.recording import Recent
from skidpad.worlds.builtin import PICTURE_VERSION
from skidpad.worlds.render.chunks import START_M, length_of, road_of, section_of
from skidpad.worlds.render.raycast import RayCaster
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.rendered import Daytime, RenderedSettings
from skidpad.worlds.scenario.domain import DOMAINS, draw
from skidpad.worlds.scenario.domains import DUSK_DEG
from skidpad.worlds.scenario.road import Road, random_road
from skidpad.worlds.scenario.road_constraints import LATERAL_M_S2, MAX_SNOW_INTENSITY, WINTER_SUN_DEG
from skidpad.worlds.scenario.scenario import Conditions, RoadKind, Scenario, Weather
from skidpad.worlds.vehicle import Driver
from skidpad.worlds.world import STEP_S

STRETCH_FRAMES = 400
"""After so many frames the drive goes on along another road: as long as a scenario lasts, and memory does not grow with the drive."""

_KEPT_STRETCHES = 8
_BRAKING_M_S2 = 1.5
_WINDING = frozenset({RoadKind.STRAIGHT, RoadKind.CURVED})
_INTENSITY = (0.2, 1.0)
"""Of a weather that the settings name; snow stays below what covers the lane."""

_STRAY_WAVES_M = (45.0, 160.0)
_ASKEW_RAD_PER_M = 0.06
_ASKEW_WAVES_M = (25.0, 80.0)


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """One road of a drive. poses: (STRETCH_FRAMES, 3), x, y and heading of the rear axle; steering_rad: the truth there."""

    scenario: Scenario
    road: Road
    poses: FloatArray
    steering_rad: FloatArray


def plan_stretch(settings: RenderedSettings, number: int) -> Stretch:
    """Draws the scenario of stretch `number` and drives through it, straying from the lane as the settings say.

    A straight or curved road winds: bends of any radius and both signs between straights, more in one stretch than a scenario's
    single radius. Roads with an entry or exit lane stay as they are.
    """
    root = child_seed(settings.seed, "stretch", number)
    scenario = _scenario(settings, root)
    section = section_of(scenario)
    winding = scenario.road.kind in _WINDING
    road = random_road(child_rng(root, "road"), length_of(scenario)) if winding else road_of(scenario)
    s_m = _distances(road, scenario)
    here = road.at(s_m)
    stray_m, slope = _waves(child_rng(root, "stray"), s_m, _STRAY_WAVES_M, settings.wander_m)
    askew_rad, _ = _waves(child_rng(root, "askew"), s_m, _ASKEW_WAVES_M, settings.wander_m * _ASKEW_RAD_PER_M)
    places = here.beside(section.lane_centre_m + stray_m)
    poses = np.column_stack((places, here.heading_rad + np.arctan(slope) + askew_rad))
    return Stretch(scenario, road, poses, Driver().steering_rad(road, section, poses))


def _scenario(settings: RenderedSettings, root: int) -> Scenario:
    domain = DOMAINS.get(settings.domain)
    base = replace(domain.base, duration_s=STRETCH_FRAMES * STEP_S)
    drawn, _ = draw(replace(domain, base=base), child_rng(root, "scenario"), root)
    conditions = _conditions(settings, drawn.conditions, child_rng(root, "conditions"))
    foggy, sunny = conditions.weather is Weather.FOG, conditions.weather is Weather.SUNNY
    lit = drawn.ego.headlights or conditions.night or conditions.sun_elevation_deg <= DUSK_DEG[1] or not sunny
    ego = replace(drawn.ego, headlights=lit, fog_lights=drawn.ego.fog_lights and foggy)
    # The car slows down in bends, where one behind it in its lane would drive through it.
    vehicles = tuple(other for other in drawn.vehicles if other.lane != ego.lane or other.ahead_m > 0.0)
    return replace(drawn, conditions=conditions, ego=ego, vehicles=vehicles)


def _conditions(settings: RenderedSettings, drawn: Conditions, rng: np.random.Generator) -> Conditions:
    """Takes one of the settings' weathers and times where they name any, within what domains allow."""
    intensity, dusk_deg = float(rng.uniform(*_INTENSITY)), float(rng.uniform(*DUSK_DEG))
    which_weather, which_time = rng.random(2)
    made = drawn
    if settings.weathers:
        weather = settings.weathers[int(which_weather * len(settings.weathers))]
        made = replace(made, weather=weather, intensity=0.0 if weather is Weather.SUNNY else intensity)
    if made.weather is Weather.SNOW:
        sun_deg = min(made.sun_elevation_deg, WINTER_SUN_DEG)
        made = replace(made, intensity=min(made.intensity, MAX_SNOW_INTENSITY), sun_elevation_deg=sun_deg)
    if settings.times:
        time = settings.times[int(which_time * len(settings.times))]
        made = replace(made, night=time is Daytime.NIGHT)
        made = replace(made, sun_elevation_deg=dusk_deg) if time is Daytime.DUSK else made
    return made


def _distances(road: Road, scenario: Scenario) -> FloatArray:
    """Returns how far along the road the car is at each frame: slower in bends, braking before them."""
    s_m = road.node_s_m
    bend = np.abs(road.nodes.curvature_per_m)
    square = np.minimum(scenario.ego.speed_m_s**2, LATERAL_M_S2[scenario.conditions.weather] / np.maximum(bend, 1e-6))
    # The square of the speed changes at most by 2 a per metre, forwards and backwards.
    slope = 2.0 * _BRAKING_M_S2 * s_m
    square = np.minimum.accumulate(square - slope) + slope
    square = (np.minimum.accumulate((square + slope)[::-1])[::-1]) - slope
    speed = np.sqrt(square)
    time_s = np.concatenate(([0.0], np.cumsum(np.diff(s_m) * 2.0 / (speed[1:] + speed[:-1]))))
    start_s = np.interp(START_M, s_m, time_s)
    return np.asarray(np.interp(start_s + np.arange(STRETCH_FRAMES) * STEP_S, time_s, s_m))


def _waves(rng: np.random.Generator, s_m: FloatArray, lengths_m: tuple[float, float], limit: float) -> tuple[FloatArray, FloatArray]:
    """Returns a smooth seeded function of the distance within [-limit, limit], and its slope."""
    number = 5
    turns = 2.0 * np.pi / np.exp(rng.uniform(np.log(lengths_m[0]), np.log(lengths_m[1]), number))
    # Longer waves are higher, so that the slope stays that of a car.
    heights = limit * (1.0 / turns) / np.sum(1.0 / turns)
    phases = np.multiply.outer(s_m, turns) + rng.uniform(0.0, 2.0 * np.pi, number)
    return np.asarray(np.sin(phases) @ heights), np.asarray(np.cos(phases) @ (heights * turns))


class RenderedSource:
    """Renders the frames of a drive when they are read; a few stretches are kept baked. Safe in threads."""

    def __init__(self, settings: RenderedSettings) -> None:
        self.settings = settings
        self._camera = Camera(settings.width_px, settings.height_px)
        self._stretches: Recent[int, tuple[RayCaster, FloatArray]] = Recent(_KEPT_STRETCHES)

    def read(self, index: int) -> NumpyFrames:
        """Renders one frame in the calling thread; the kernels hold no lock, so that threads share the work."""
        number, place = divmod(index, STRETCH_FRAMES)
        caster, poses = self._stretches.get(number, self._baked)
        frame: NumpyFrames = caster.render(poses[place : place + 1], np.array([place * STEP_S]))[0]
        return frame

    def fingerprint(self, index: int) -> str:
        """Returns everything that the frame depends on."""
        s = self.settings
        conditions = ",".join(each.value for each in (*s.weathers, *s.times))
        return f"rendered {PICTURE_VERSION} seed={s.seed} {s.domain} {conditions} {s.wander_m!r} {s.width_px}x{s.height_px} {index}"

    def _baked(self, number: int) -> tuple[RayCaster, FloatArray]:
        stretch = plan_stretch(self.settings, number)
        return RayCaster(build_scene(stretch.scenario, stretch.road), self._camera), stretch.poses


def rendered_drive(settings: RenderedSettings) -> Drive:
    """Makes the drive of the settings; frame i does not depend on how many frames there are."""
    count = -(-settings.frames // STRETCH_FRAMES)
    steering_rad = np.concatenate([plan_stretch(settings, number).steering_rad for number in range(count)])
    return Drive(
        name=f"rendered-{settings.seed}",
        frame_ids=Names.of(f"{index:06d}" for index in range(settings.frames)),
        steering_rad=steering_rad[: settings.frames],
        time_s=np.asarray(np.arange(settings.frames) * STEP_S, np.float64),
        source=RenderedSource(settings),
    )
