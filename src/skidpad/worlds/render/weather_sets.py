"""Sets of pictures in one weather, to learn it from where no recorded set exists: each picture of another road, seen by a driver.

Scenarios are drawn from a domain of country roads and towns with light and weather held fast, so that two sets differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import Camera, NumpyFrames, encode
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.core.settings import write_toml
from skidpad.core.stimuli import Choice, Real, Whole
from skidpad.worlds.render.raycast import RayCaster
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.scenario.domain import Domain, draw
from skidpad.worlds.scenario.domains import DUSK_DEG, EXTENDED
from skidpad.worlds.scenario.scenario import NO, YES, RoadKind, Weather

MARK = "rendered.toml"
"""The file beside the pictures that says how they were made."""

_STRAY_M = 0.5
_ASKEW_RAD = 0.03
"""How far the car is off the middle of its lane and off its direction, as a driver's is."""


@dataclass(frozen=True, slots=True)
class RenderedWeather:
    """A weather of the built-in world; intensity: the range from which every picture draws its own. dusk: whether the sun is low."""

    name: str
    about: str
    weather: Weather
    night: bool = False
    dusk: bool = False
    intensity: tuple[float, float] = (0.4, 1.0)

    def domain(self) -> Domain:
        """Returns roads, surroundings and traffic, in this weather alone."""
        # A network learns how the weather looks and does not drive in it, so that the lane may be out of sight.
        binding = tuple(rule for rule in EXTENDED.constraints if not rule.advisory)
        sun = (Real("conditions.sun_elevation_deg", *DUSK_DEG, None), Choice("ego.headlights", (YES,))) if self.dusk else ()
        return replace(EXTENDED, constraints=binding).with_parameters(
            *sun,
            Choice("conditions.weather", (self.weather.value,)),
            Choice("conditions.night", (YES if self.night else NO,)),
            Real("conditions.intensity", *self.intensity, None),
            Choice("road.kind", (RoadKind.STRAIGHT.value, RoadKind.CURVED.value)),
            Whole("road.lanes", 1, 2, None),
            Whole("ego.lane", 1, 2, None),
            Real("surroundings.trees", 0.2, 1.0, None),
            Real("surroundings.buildings", 0.0, 0.5, None),
            Whole("surroundings.gantries", 0, 1, None),
        )


_ROWS = (
    RenderedWeather("clear", "a sunny day", Weather.SUNNY),
    RenderedWeather("rain", "rain by day: streaks in the air, drops on the lens, a wet road", Weather.RAIN),
    RenderedWeather("snow", "snow by day: flakes in the air, snow on the ground", Weather.SNOW, intensity=(0.2, 0.7)),
    RenderedWeather("fog", "fog by day", Weather.FOG, intensity=(0.2, 0.8)),
    RenderedWeather("dusk", "a clear evening: the sun stands a few degrees high", Weather.SUNNY, dusk=True),
    RenderedWeather("night", "a clear night with headlights", Weather.SUNNY, night=True),
    RenderedWeather("rain-night", "rain by night", Weather.RAIN, night=True),
    RenderedWeather("snow-night", "snow by night", Weather.SNOW, night=True, intensity=(0.2, 0.7)),
)
RENDERED_WEATHERS = {row.name: row for row in _ROWS}


def rendered_weather(name: str) -> RenderedWeather:
    """Finds a weather of the built-in world by its name."""
    if name not in RENDERED_WEATHERS:
        raise UnknownNameError.among("rendered weather", name, RENDERED_WEATHERS)
    return RENDERED_WEATHERS[name]


def write_set(
    folder: Path,
    weather: RenderedWeather,
    count: int,
    camera: Camera,
    seed: int = 0,
    quality: int = 85,
    *,
    supersample: int = 1,
    command: str = "",
    progress: Progress = silent,
) -> int:
    """Writes the pictures as 00000.jpg and so on, and the mark that says how they were made; returns the pictures' bytes."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadParametersError(f"{str(folder)!r} is in use; name an empty or a new folder to render into")
    folder.mkdir(parents=True, exist_ok=True)
    mark = {
        "weather": weather.name,
        "about": weather.about,
        "count": count,
        "seed": seed,
        "width_px": camera.width_px,
        "height_px": camera.height_px,
        "fov_deg": camera.fov_deg,
        "supersample": supersample,
        "command": command,
    }
    (folder / MARK).write_text(write_toml(mark), encoding="utf-8")
    written = 0
    for number, picture in enumerate(render_set(weather, count, camera, seed, supersample)):
        data = encode(picture, ".jpg", quality)
        (folder / f"{number:05d}.jpg").write_bytes(data)
        written += len(data)
        progress(number + 1, count, weather.name)
    return written


def render_set(weather: RenderedWeather, count: int, camera: Camera, seed: int = 0, supersample: int = 1) -> Iterator[NumpyFrames]:
    """Yields `count` pictures, (height, width, 3) each; picture k depends on seed, weather, camera, supersample and k alone.

    supersample: pictures are rendered so many times as wide and high, and averaged: smoother edges for more time.
    """
    if count < 1 or not 1 <= supersample <= 4:
        raise BadParametersError(f"a set has at least one picture and a supersample of 1 to 4; got {count} and {supersample}")
    lens = replace(camera, width_px=camera.width_px * supersample, height_px=camera.height_px * supersample)
    domain = weather.domain()
    for number in range(count):
        rng = child_rng(seed, "weather set", weather.name, number)
        scenario, _ = draw(domain, rng, child_seed(seed, "weather set's own", weather.name, number))
        scene = build_scene(scenario)
        speed_m_s = scenario.ego.speed_m_s
        time_s = float(rng.uniform(0.0, scenario.duration_s))
        here = scene.road.at(np.array([scene.start_s_m + speed_m_s * time_s]))
        place = here.beside(scene.lane_centre_m + float(rng.uniform(-_STRAY_M, _STRAY_M)))[0]
        heading_rad = float(here.heading_rad[0]) + float(rng.uniform(-_ASKEW_RAD, _ASKEW_RAD))
        pose = np.array([[place[0], place[1], heading_rad]])
        picture: NumpyFrames = RayCaster(scene, lens).render(pose, np.array([time_s]))[0]
        if supersample > 1:
            picture = np.asarray(cv2.resize(picture, (camera.width_px, camera.height_px), interpolation=cv2.INTER_AREA), np.uint8)
        yield picture
