"""Constraints on the road, the light, the weather and the ego."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt

from skidpad.worlds.render.chunks import SIDE_LANE_FROM_M, START_M, crosses_itself
from skidpad.worlds.render.weather import visibility_m
from skidpad.worlds.scenario.constraints import Known, Only, Outside, constraint
from skidpad.worlds.scenario.road import CrossSection, SideLane
from skidpad.worlds.scenario.scenario import NO, YES, Conditions, RoadKind, Scenario, Weather

LATERAL_M_S2 = {Weather.SUNNY: 3.0, Weather.FOG: 3.0, Weather.RAIN: 2.5, Weather.SNOW: 2.0}
"""The lateral acceleration of a calm driver in a bend, on a dry, a wet and a snowy road."""
POOR_SIGHT_M, POOR_SIGHT_M_S = 50.0, 50.0 / 3.6
"""Below this visibility the speed limit is 50 km/h (German road traffic regulations, section 3.1)."""
WINTER_SUN_DEG = 30.0
"""As high as the sun stands at noon in the snowy months at 50 degrees north, up to early March."""
MAX_SNOW_INTENSITY = 0.5
"""The snow intensity beyond which snow lies on the markings of the lane.

Measured in rendered frames, 5 to 20 m ahead, as the difference between a marking and the asphalt on both sides of it, in the channel where
it is greatest: at 0.5 each border of the ego's lane stands out by 20 of 255 or more, at 0.6 by 8, at 0.7 by 2. 5 % (13 of 255) is the
contrast at which the meteorological optical range ends (WMO guide no. 8). Fog and rain at intensity 1, by day and by night, leave 15 or
more, so that they need no bound.
"""
SHORTEST_S, LONGEST_S = 1.0, 120.0
FASTEST_M_S = 25.0
"""The highest speed in any domain; scenarios that need more are not drawn."""
SIDE_LANE_END_M = SIDE_LANE_FROM_M + SideLane(0.0).parallel_m + SideLane(0.0).taper_m

_WITH_SIDE_LANE = frozenset({RoadKind.ENTRY, RoadKind.EXIT})
_ROUNDING = 1e-9


def lane_offset_m(lanes: int, lane: int, lane_width_m: float) -> float:
    """Returns how far the middle of a lane of the ego's direction is from the centreline."""
    return (lanes - lane + 0.5) * lane_width_m


def bend_speed_m_s(weather: Weather, radius_m: float, offset_m: float) -> float:
    """Returns the greatest speed at which a lane `offset_m` inside a bend may be driven."""
    return sqrt(LATERAL_M_S2[weather] * max(radius_m - offset_m, 0.0))


def side_lane_speed_m_s(duration_s: float) -> float:
    """Returns the least speed at which the ego passes a whole entry or exit lane."""
    return (SIDE_LANE_END_M - START_M) / duration_s if duration_s > 0.0 else inf


def outer_m(lanes: int, lane_width_m: float) -> float:
    """Returns how far from the centreline the grass begins."""
    section = CrossSection()
    return lanes * lane_width_m + section.margin_m + section.shoulder_m


def _is_curved(known: Known) -> bool:
    return known.word("road.kind") == RoadKind.CURVED.value


def _has_side_lane(known: Known) -> bool:
    return RoadKind(known.word("road.kind")) in _WITH_SIDE_LANE


def _needs_lights(weather: Weather, *, night: bool) -> bool:
    return night or weather is not Weather.SUNNY


def _one_of(low: int, high: int) -> Only:
    return Only(frozenset(range(low, high + 1)))


def _only_if(allowed: Callable[[Known], bool], word: str) -> Callable[[Known], Only]:
    """Narrows a choice of yes and no to `word` unless `allowed`."""
    return lambda known: Only(frozenset({YES, NO}) if allowed(known) else frozenset({word}))


def _at_most_in_snow(limit: float) -> Callable[[Known], Outside]:
    return lambda known: Outside(((limit, inf),) if known.word("conditions.weather") == Weather.SNOW.value else ())


@constraint(
    "duration",
    f"A scenario lasts from {SHORTEST_S:g} to {LONGEST_S:g} s.",
    "change duration_s",
)
def _duration(scenario: Scenario) -> bool:
    return SHORTEST_S <= scenario.duration_s <= LONGEST_S


@constraint(
    "ego-lane-exists",
    "The ego keeps a lane of its own direction that the road has; 1 is the rightmost.",
    "raise road.lanes or lower ego.lane",
    {"ego.lane": lambda known: _one_of(1, known.whole("road.lanes"))},
)
def _ego_lane_exists(scenario: Scenario) -> bool:
    return 1 <= scenario.ego.lane <= scenario.road.lanes


@constraint(
    "bend-wider-than-road",
    "A bend's radius is at least twice the distance from the middle of the road to its edge, shoulder included.",
    "widen road.radius_m or lower road.lanes",
    {
        "road.radius_m": lambda known: Outside(
            ((-inf, 2.0 * outer_m(known.whole("road.lanes"), known.real("road.lane_width_m"))),) if _is_curved(known) else ()
        )
    },
)
def _bend_wider_than_road(scenario: Scenario) -> bool:
    plan = scenario.road
    return plan.kind is not RoadKind.CURVED or plan.radius_m >= 2.0 * outer_m(plan.lanes, plan.lane_width_m) - _ROUNDING


@constraint(
    "road-keeps-off-itself",
    "The road does not cross itself: no two parts of it come nearer to each other than it is wide.",
    "lower road.turn_deg below 90, or widen road.radius_m",
)
def _road_keeps_off_itself(scenario: Scenario) -> bool:
    return not crosses_itself(scenario)


def _bend_gap(known: Known) -> Outside:
    if not _is_curved(known):
        return Outside(())
    offset_m = lane_offset_m(known.whole("road.lanes"), known.whole("ego.lane"), known.real("road.lane_width_m"))
    return Outside(((bend_speed_m_s(Weather(known.word("conditions.weather")), known.real("road.radius_m"), offset_m), inf),))


@constraint(
    "speed-for-curvature",
    "In the bends of its lane the ego feels at most 3 m/s² sideways, 2.5 in rain and 2 in snow.",
    "widen road.radius_m or lower ego.speed_m_s",
    {"ego.speed_m_s": _bend_gap},
)
def _speed_for_curvature(scenario: Scenario) -> bool:
    plan, ego = scenario.road, scenario.ego
    if plan.kind is not RoadKind.CURVED:
        return True
    limit = bend_speed_m_s(scenario.conditions.weather, plan.radius_m, lane_offset_m(plan.lanes, ego.lane, plan.lane_width_m))
    return ego.speed_m_s <= limit + _ROUNDING


def _sight_gap(known: Known) -> Outside:
    conditions = Conditions(Weather(known.word("conditions.weather")), known.real("conditions.intensity"))
    return Outside(((POOR_SIGHT_M_S, inf),) if visibility_m(conditions) < POOR_SIGHT_M else ())


@constraint(
    "speed-for-sight",
    f"Where visibility is below {POOR_SIGHT_M:g} m, the ego drives at most 50 km/h ({POOR_SIGHT_M_S:.1f} m/s).",
    "lower ego.speed_m_s or conditions.intensity",
    {"ego.speed_m_s": _sight_gap},
)
def _speed_for_sight(scenario: Scenario) -> bool:
    return visibility_m(scenario.conditions) >= POOR_SIGHT_M or scenario.ego.speed_m_s <= POOR_SIGHT_M_S + _ROUNDING


@constraint(
    "fog-lights-in-fog",
    "Fog lights are on in fog only.",
    "let conditions.weather be fog, or switch ego.fog_lights off",
    {"ego.fog_lights": _only_if(lambda known: known.word("conditions.weather") == Weather.FOG.value, NO)},
)
def _fog_lights_in_fog(scenario: Scenario) -> bool:
    return scenario.conditions.weather is Weather.FOG or not scenario.ego.fog_lights


@constraint(
    "lights-on",
    "Headlights are on at night, in fog, in rain and in snow.",
    "switch ego.headlights on",
    {
        "ego.headlights": _only_if(
            lambda known: not _needs_lights(Weather(known.word("conditions.weather")), night=known.word("conditions.night") == YES), YES
        )
    },
)
def _lights_on(scenario: Scenario) -> bool:
    return scenario.ego.headlights or not _needs_lights(scenario.conditions.weather, night=scenario.conditions.night)


@constraint(
    "no-intensity-in-sun",
    "Sunny weather has no intensity: it is 0.",
    "set conditions.intensity to 0 or leave it out, or name another conditions.weather",
)
def _no_intensity_in_sun(scenario: Scenario) -> bool:
    return scenario.conditions.weather is not Weather.SUNNY or scenario.conditions.intensity == 0.0


@constraint(
    "winter-sun",
    f"Where snow falls by day, the sun stands at most {WINTER_SUN_DEG:g} degrees high.",
    "lower conditions.sun_elevation_deg",
    {"conditions.sun_elevation_deg": _at_most_in_snow(WINTER_SUN_DEG)},
)
def _winter_sun(scenario: Scenario) -> bool:
    now = scenario.conditions
    return now.weather is not Weather.SNOW or now.night or now.sun_elevation_deg <= WINTER_SUN_DEG


@constraint(
    "lane-in-sight",
    f"Snow is at most {MAX_SNOW_INTENSITY:g} intense: more of it covers the markings of the lane.",
    "lower conditions.intensity",
    {"conditions.intensity": _at_most_in_snow(MAX_SNOW_INTENSITY)},
    advisory=True,
)
def _lane_in_sight(scenario: Scenario) -> bool:
    return scenario.conditions.weather is not Weather.SNOW or scenario.conditions.intensity <= MAX_SNOW_INTENSITY + _ROUNDING


@constraint(
    "right-lane-at-side-lane",
    "On a road with an entry or exit lane the ego keeps the rightmost lane, the one beside it.",
    "set ego.lane to 1",
    {"ego.lane": lambda known: _one_of(1, 1 if _has_side_lane(known) else known.whole("road.lanes"))},
)
def _right_lane_at_side_lane(scenario: Scenario) -> bool:
    return scenario.road.kind not in _WITH_SIDE_LANE or scenario.ego.lane == 1


def _kinds_passed(duration_s: float) -> list[str]:
    """Returns the kinds of road that a scenario of this duration is long enough for."""
    possible = side_lane_speed_m_s(duration_s) <= FASTEST_M_S
    return [kind.value for kind in RoadKind if possible or kind not in _WITH_SIDE_LANE]


@constraint(
    "side-lane-is-passed",
    f"The ego passes a whole entry or exit lane, {SIDE_LANE_END_M - START_M:g} m, before the scenario ends.",
    "raise ego.speed_m_s or duration_s",
    {
        "road.kind": lambda known: Only(frozenset(_kinds_passed(known.real("duration_s")))),
        "ego.speed_m_s": lambda known: Outside(((-inf, side_lane_speed_m_s(known.real("duration_s"))),) if _has_side_lane(known) else ()),
    },
)
def _side_lane_is_passed(scenario: Scenario) -> bool:
    return scenario.road.kind not in _WITH_SIDE_LANE or scenario.ego.speed_m_s >= side_lane_speed_m_s(scenario.duration_s) - _ROUNDING
