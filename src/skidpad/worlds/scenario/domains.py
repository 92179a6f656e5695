"""The two domains of the paper: what the recorded drive shows, and everything that the built-in world can show.

Reference: offline and online testing (Haq et al. 2020), sections II-D, III-C (RQ0: restricted) and III-D (RQ1: extended).
Deviates: figure 4 marks what belongs to which; its picture is not in the text, so what is restricted was read off the frames of
Udacity CH2's test drive: one lane each way, bends down to 44 m, trees, hills, a few houses, oncoming traffic and cars ahead; sun.
"""

from __future__ import annotations

from dataclasses import replace

from skidpad.core.stimuli import Choice, Parameter, Real, Whole
from skidpad.worlds.scenario.domain import DOMAINS, Domain, Variable
from skidpad.worlds.scenario.scenario import NO, YES, RoadKind, Side, Weather

_RADIUS = Variable(Real("road.radius_m", 40.0, 800.0, None), logarithmic=True)
DUSK_DEG = (2.0, 7.0)
"""How high the sun stands at dusk, in drives and sets of pictures; the domains themselves have a higher one."""

_SUN = (Real("conditions.sun_azimuth_deg", 0.0, 360.0, None), Real("conditions.sun_elevation_deg", 12.0, 65.0, None))


def _flag(name: str) -> Choice:
    return Choice(name, (NO, YES))


def _sides(name: str) -> Choice:
    return Choice(name, tuple(side.value for side in Side))


def _plain(*parameters: Parameter) -> tuple[Variable, ...]:
    return tuple(Variable(parameter) for parameter in parameters)


def _each(group: str, most: int, *parameters: Parameter) -> tuple[Variable, ...]:
    """A count from 0 to `most`, and the parameters once for every one that there can be."""
    numbered = [replace(each, name=f"{group}.{number}.{each.name}") for number in range(1, most + 1) for each in parameters]
    return _plain(Whole(f"{group}.count", 0, most, 0), *numbered)


RESTRICTED = Domain(
    "restricted",
    "what Udacity CH2's test drive shows: a country road with one lane each way, in sunshine",
    (
        *_plain(Choice("road.kind", (RoadKind.STRAIGHT.value, RoadKind.CURVED.value)), Real("road.lane_width_m", 3.3, 3.7, None)),
        _RADIUS,
        *_plain(
            _sides("road.side"),
            Real("road.turn_deg", 15.0, 75.0, None),
            *_SUN,
            Real("surroundings.trees", 0.2, 1.0, None),
            Real("surroundings.buildings", 0.0, 0.3, None),
            _flag("surroundings.hills"),
            Real("ego.speed_m_s", 8.0, 20.0, None),
        ),
        *_each(
            "vehicles",
            4,
            Whole("lane", 0, 1, None),
            Real("speed_m_s", 6.0, 22.0, None),
            Real("ahead_m", 15.0, 200.0, None),
            Whole("colour", 0, 7, None),
        ),
    ),
)

EXTENDED = Domain(
    "extended",
    "everything: all roads, weathers, night, lights, traffic and pedestrians",
    (
        *_plain(
            Choice("road.kind", tuple(kind.value for kind in RoadKind)),
            Whole("road.lanes", 1, 3, None),
            Real("road.lane_width_m", 3.0, 3.75, None),
        ),
        _RADIUS,
        *_plain(
            _sides("road.side"),
            Real("road.turn_deg", 15.0, 75.0, None),
            Choice("conditions.weather", tuple(weather.value for weather in Weather)),
            _flag("conditions.night"),
            Real("conditions.intensity", 0.0, 1.0, None),
            *_SUN,
            Real("surroundings.trees", 0.0, 1.0, None),
            Real("surroundings.buildings", 0.0, 1.0, None),
            _flag("surroundings.hills"),
            Whole("surroundings.gantries", 0, 3, None),
            Whole("ego.lane", 1, 3, None),
            Real("ego.speed_m_s", 7.0, 25.0, None),
            _flag("ego.headlights"),
            _flag("ego.fog_lights"),
        ),
        *_each(
            "vehicles",
            6,
            Whole("lane", -2, 3, None),
            Real("speed_m_s", 0.0, 30.0, None),
            Real("ahead_m", -60.0, 200.0, None),
            Whole("colour", 0, 7, None),
        ),
        *_each("pedestrians", 4, _sides("side"), Real("speed_m_s", -1.8, 1.8, None), Real("ahead_m", 5.0, 200.0, None)),
    ),
)

_NOBODY_BRAKES = frozenset({"clear-of-the-ego", "vehicles-keep-apart"})

STANDARDS = replace(
    EXTENDED,
    name="standards",
    about="what tests of the standards stage: others may come in the way, and a careful driver holds the ego's pedals",
    constraints=tuple(each for each in EXTENDED.constraints if each.name not in _NOBODY_BRAKES),
).with_parameters(
    Whole("road.lanes", 1, 4, None),
    Real("road.lane_width_m", 2.0, 6.0, None),
    Real("road.radius_m", 40.0, 100_000.0, None),
    Real("road.turn_deg", 1.0, 360.0, None),
    Real("conditions.sun_azimuth_deg", 0.0, 360.0, None),
    Real("conditions.sun_elevation_deg", 0.0, 90.0, None),
    Whole("ego.lane", 1, 4, None),
    Real("ego.speed_m_s", 1.0, 60.0, None),
    *(Whole(f"vehicles.{number}.lane", -3, 4, None) for number in range(1, 7)),
    *(Real(f"vehicles.{number}.speed_m_s", 0.0, 70.0, None) for number in range(1, 7)),
    *(Real(f"vehicles.{number}.ahead_m", -500.0, 2000.0, None) for number in range(1, 7)),
)
"""Of scenario files whose ego has a careful pace. Nothing is drawn from it."""

DOMAINS.register("restricted")(RESTRICTED)
DOMAINS.register("extended")(EXTENDED)
