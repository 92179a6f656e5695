"""What light and weather do to a picture, as numbers that both renderers read.

Visibility is the distance at which what is seen has lost 98 % of its contrast (Koschmieder): at distance d a share of
`1 - exp(-3.912 d / visibility)` is the air's own colour. It falls from the clear value to the worst one geometrically with the
intensity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.worlds.scenario.scenario import Conditions, Ego, Weather

KOSCHMIEDER = 3.912
"""-ln 0.02."""

_VISIBILITY_M = {Weather.SUNNY: (3000.0, 3000.0), Weather.FOG: (260.0, 28.0), Weather.RAIN: (2500.0, 260.0), Weather.SNOW: (1200.0, 130.0)}
"""At intensity 0 and at intensity 1."""


class Look(NamedTuple):
    """Numbers of one scene; colours are display values, light is a factor of them by channel."""

    ambient_red: float
    ambient_green: float
    ambient_blue: float
    sun_red: float
    sun_green: float
    sun_blue: float
    lamp_red: float
    lamp_green: float
    lamp_blue: float
    air_red: float
    air_green: float
    air_blue: float
    extinction_per_m: float
    """Of the air: `1 - exp(-extinction d)` of what is seen at d metres is the air's colour."""
    wet: float
    snow: float
    rain: float
    flakes: float
    night: float
    headlights: float
    fog_lights: float
    glow: float
    """How much the lights of other cars glow in the air."""
    overcast: float


def visibility_m(conditions: Conditions) -> float:
    """Returns how far one sees."""
    clear, worst = _VISIBILITY_M[conditions.weather]
    return float(clear * (worst / clear) ** conditions.intensity)


def twilight(sun_elevation_deg: float) -> float:
    """Returns how much of the daylight a low sun leaves: all of it from 12 degrees on, half of it on the horizon."""
    return 1.0 - 0.5 * min(max(1.0 - sun_elevation_deg / 12.0, 0.0), 1.0)


def look_of(conditions: Conditions, ego: Ego) -> Look:
    """Turns conditions and the ego's lights into numbers."""
    weather, intensity = conditions.weather, min(max(conditions.intensity, 0.0), 1.0)
    overcast = 0.0 if weather is Weather.SUNNY else 1.0
    ambient, sun, air = _daylight(conditions, overcast)
    if weather is Weather.SNOW:
        air = np.array([206.0, 211.0, 217.0])
    elif weather is Weather.FOG:
        air = np.array([202.0, 206.0, 209.0])
    elif weather is Weather.RAIN:
        air = np.array([172.0, 180.0, 188.0]) - 22.0 * intensity
        ambient = ambient * (1.0 - 0.16 * intensity)
    ambient, sun, air = (part * twilight(conditions.sun_elevation_deg) for part in (ambient, sun, air))
    if conditions.night:
        ambient, sun = np.array([0.040, 0.047, 0.070]), np.zeros(3)
        air = np.array([15.0, 18.0, 26.0]) + (0.0 if weather is Weather.SUNNY else 1.0) * np.array([9.0, 9.0, 9.0])
    lamp = (1.18, 1.10, 0.95) if conditions.night else (0.10, 0.10, 0.09)
    return Look(
        ambient_red=float(ambient[0]),
        ambient_green=float(ambient[1]),
        ambient_blue=float(ambient[2]),
        sun_red=float(sun[0]),
        sun_green=float(sun[1]),
        sun_blue=float(sun[2]),
        lamp_red=lamp[0],
        lamp_green=lamp[1],
        lamp_blue=lamp[2],
        air_red=float(air[0]),
        air_green=float(air[1]),
        air_blue=float(air[2]),
        extinction_per_m=KOSCHMIEDER / visibility_m(conditions),
        wet=0.45 + 0.55 * intensity if weather is Weather.RAIN else 0.0,
        snow=0.25 + 0.75 * intensity if weather is Weather.SNOW else 0.0,
        rain=intensity if weather is Weather.RAIN else 0.0,
        flakes=0.2 + 0.8 * intensity if weather is Weather.SNOW else 0.0,
        night=float(conditions.night),
        headlights=float(ego.headlights),
        fog_lights=float(ego.fog_lights),
        glow=1.0 if conditions.night else (0.45 if overcast else 0.0),
        overcast=overcast,
    )


def _daylight(conditions: Conditions, overcast: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns ambient light, direct light and the colour of the air by day."""
    if overcast:
        return np.array([0.80, 0.82, 0.85]), np.zeros(3), np.array([206.0, 218.0, 226.0])
    # A low sun is warmer and weaker.
    low = min(max(1.0 - conditions.sun_elevation_deg / 22.0, 0.0), 1.0)
    sun = np.array([0.56, 0.52, 0.42]) * (1.0 - low * np.array([0.15, 0.38, 0.66]))
    ambient = np.array([0.44, 0.48, 0.58]) * (1.0 - low * np.array([0.10, 0.14, 0.10]))
    air = np.array([206.0, 218.0, 226.0]) * (1.0 - low * np.array([-0.02, 0.11, 0.22]))
    return ambient, sun, air
