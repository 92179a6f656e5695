"""The road of a scenario in pieces: its centreline, its cross-section, and how each piece is shaded."""

from __future__ import annotations

from math import isfinite, radians

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.worlds.render.compiling import CHUNK, Scratch, inlined, uncounted
from skidpad.worlds.render.surface import (
    EDGE,
    LANE,
    LANES,
    OUTER,
    PAVED,
    RAMP_LEAVING,
    RAMP_PARALLEL,
    RAMP_START,
    RAMP_TAPER,
    RAMP_TURN,
    Ramp,
    darkened,
    f,
    grass,
    laid,
    laid_beside,
    lighted,
    road,
    short,
    snowed,
    wetted,
)
from skidpad.worlds.render.weather import Look
from skidpad.worlds.scenario.road import CrossSection, Piece, Road, SideLane
from skidpad.worlds.scenario.scenario import BadScenarioError, RoadKind, Scenario, Side

START_M = 12.0
"""Where along the road the ego begins."""
AHEAD_M = 260.0
"""How far the road goes on after the last frame: further than the camera tells road from grass."""
MIN_RADIUS_M = 20.0
MAX_LENGTH_M = 20_000.0
SIDE_LANE_FROM_M = 70.0
"""Where an entry lane begins to run beside the road, and where an exit lane begins to open."""

_RUN_IN_M = 45.0
_BLEND_M = 25.0


def length_of(scenario: Scenario) -> float:
    """Returns how long the road must be for the ego never to see its end."""
    length_m = START_M + scenario.ego.speed_m_s * scenario.duration_s + AHEAD_M
    if not (isfinite(length_m) and START_M < length_m <= MAX_LENGTH_M):
        raise BadScenarioError(
            f"a scenario's road is at most {MAX_LENGTH_M / 1000.0:g} km long; {scenario.ego.speed_m_s:g} m/s for "
            f"{scenario.duration_s:g} s needs {length_m:g} m: lower ego.speed_m_s or duration_s"
        )
    return length_m


def road_of(scenario: Scenario) -> Road:
    """Lays the centreline; a curved road bends to its side first and then to and fro, at its radius throughout."""
    plan, length_m = scenario.road, length_of(scenario)
    if plan.pieces:
        return Road(plan.pieces)
    if plan.kind is not RoadKind.CURVED:
        return Road((Piece(length_m),))
    if not (plan.radius_m >= MIN_RADIUS_M and isfinite(plan.radius_m)):
        raise BadScenarioError(f"a bend's radius is at least {MIN_RADIUS_M:g} m; got road.radius_m = {plan.radius_m:g}")
    if not 1.0 <= plan.turn_deg <= 360.0:
        raise BadScenarioError(f"a road turns by 1 to 360 degrees; got road.turn_deg = {plan.turn_deg:g}")
    pieces = [Piece(_RUN_IN_M)]
    sign = 1.0 if plan.side is Side.LEFT else -1.0
    turn_rad = radians(plan.turn_deg)
    angle_rad, total_m = turn_rad, _RUN_IN_M
    while total_m < length_m:
        # Each run-in and run-out turns half as far as the arc would, so that the whole bend turns by its angle.
        blend_m = min(_BLEND_M, 0.5 * angle_rad * plan.radius_m)
        bend = sign / plan.radius_m
        arc_m = angle_rad * plan.radius_m - blend_m
        pieces += [Piece(blend_m, 0.0, bend), Piece(arc_m, bend, bend), Piece(blend_m, bend, 0.0)]
        total_m += arc_m + 2.0 * blend_m
        sign, angle_rad = -sign, 2.0 * turn_rad
    return Road(tuple(pieces))


def section_of(scenario: Scenario) -> CrossSection:
    """Returns the lanes of the road, with the entry or exit lane where there is one."""
    plan = scenario.road
    side_lane = None
    if plan.kind is RoadKind.ENTRY:
        side_lane = SideLane(SIDE_LANE_FROM_M)
    elif plan.kind is RoadKind.EXIT:
        lane = SideLane(0.0, exits=True)
        side_lane = SideLane(SIDE_LANE_FROM_M + lane.parallel_m + lane.taper_m, exits=True)
    try:
        return CrossSection(plan.lane_width_m, lanes=plan.lanes, ego_lane=scenario.ego.lane, side_lane=side_lane)
    except BadParametersError as error:
        raise BadScenarioError(str(error)) from error


def crosses_itself(scenario: Scenario) -> bool:
    """Tells whether two parts of the road come nearer to each other than the road is wide."""
    plan = scenario.road
    # A road that never turns back moves on along its first direction all the time.
    if not plan.pieces and (plan.kind is not RoadKind.CURVED or plan.turn_deg < 90.0):
        return False
    return road_of(scenario).crosses_itself(2.0 * section_of(scenario).outer_m)


LINES = 16
(LATERAL, ALONG, SHADE, WIDTH, LENGTH, LAMP, PATCH, GRAIN, RED, GREEN, BLUE, MIRROR, PAVING, GRAVEL, SOLID, WHEELS) = (
    n * CHUNK for n in range(LINES)
)
"""Lateral position, distance along the road, shade, the pixel's extent across and along the road, lamp light; coarse and fine noise;
the colour; how much it mirrors; shares of asphalt, of gravel or asphalt, and of lines; wheel tracks."""


@uncounted
def shade_grass(scratch: Scratch, snow: float) -> None:
    """Paints grass."""
    white = min(f(snow) * f(1.9), f(1.0))
    for k in range(CHUNK):
        scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k] = grass(scratch[PATCH + k], scratch[GRAIN + k], white)


@uncounted
def lay(scratch: Scratch, section: FloatArray) -> None:
    """Finds how much of each pixel is paved, gravel, or a line."""
    edge, paved, outer = f(section[EDGE]), f(section[PAVED]), f(section[OUTER])
    for k in range(CHUNK):
        scratch[PAVING + k], scratch[GRAVEL + k], scratch[SOLID + k] = laid(
            scratch[LATERAL + k], scratch[WIDTH + k], scratch[GRAIN + k], scratch[PATCH + k], edge, paved, outer
        )
    if section[RAMP_TURN] == 0.0:
        return
    ramp = ramp_of(section)
    for k in range(CHUNK):
        paving, gravel, left, lines = laid_beside(
            scratch[LATERAL + k], scratch[ALONG + k], scratch[WIDTH + k], scratch[LENGTH + k], scratch[GRAIN + k], scratch[PATCH + k], ramp
        )
        scratch[PAVING + k] = max(scratch[PAVING + k], paving)
        scratch[GRAVEL + k] = max(scratch[GRAVEL + k], gravel)
        scratch[SOLID + k] = min(scratch[SOLID + k] * left + lines, f(1.0))


@inlined
def ramp_of(section: FloatArray) -> Ramp:
    """Returns what a section says of its side lane."""
    return (
        f(section[EDGE]), f(section[PAVED] - section[EDGE]), f(section[OUTER] - section[EDGE]), f(section[LANE]), f(section[RAMP_TURN]),
        f(section[RAMP_START]), f(section[RAMP_PARALLEL]), f(section[RAMP_TAPER]), f(section[RAMP_LEAVING]),
    )  # fmt: skip


@uncounted
def shade_road(scratch: Scratch, section: FloatArray, night: float) -> None:
    """Paints gravel, asphalt and markings."""
    lane, lanes, shine = f(section[LANE]), f(section[LANES]), f(0.8) * f(night)
    for k in range(CHUNK):
        scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k], scratch[WHEELS + k] = road(
            (scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k]),
            scratch[PAVING + k],
            scratch[GRAVEL + k],
            scratch[SOLID + k],
            scratch[LATERAL + k],
            scratch[ALONG + k],
            scratch[WIDTH + k],
            scratch[LENGTH + k],
            scratch[PATCH + k],
            scratch[GRAIN + k],
            scratch[LAMP + k],
            lane,
            lanes,
            shine,
        )


@uncounted
def shade_wet(scratch: Scratch, look: Look, grazing: float) -> None:
    """Wets the road."""
    wet, mirrors = f(look.wet), f(0.04 + 0.9 * grazing)
    air = f(look.air_red), f(look.air_green), f(look.air_blue)
    for k in range(CHUNK):
        dry = scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k]
        colour, mirror = wetted(dry, scratch[PAVING + k], scratch[PATCH + k], scratch[WHEELS + k], wet, mirrors, air)
        scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k] = colour
        scratch[MIRROR + k] = mirror


@uncounted
def shade_snow(scratch: Scratch, snow: float) -> None:
    """Lays snow on the road."""
    much = f(snow)
    for k in range(CHUNK):
        scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k] = snowed(
            (scratch[RED + k], scratch[GREEN + k], scratch[BLUE + k]),
            scratch[PAVING + k],
            scratch[GRAVEL + k],
            scratch[PATCH + k],
            scratch[GRAIN + k],
            scratch[WHEELS + k],
            much,
        )


@uncounted
def shade_mover(scratch: Scratch, shadow: FloatArray, ahead: float, side: float, across_px: float) -> None:
    """Darkens a soft rectangle. shadow: ahead and left of the eye, direction, half length, half width."""
    reach = shadow[4] + shadow[5] + 1.0
    if abs(ahead - shadow[0]) > reach or shadow[1] > side + reach or shadow[1] < side - CHUNK * across_px - reach:
        return
    soft = f(0.45) if shadow[4] > 1.0 else f(0.15)
    dx, cos, sin, half_a, half_b = f(ahead - shadow[0]), f(shadow[2]), f(shadow[3]), f(shadow[4]), f(shadow[5])
    first, step = f(side - shadow[1]), f(across_px)
    for k in range(CHUNK):
        left = darkened(dx, first - f(short(k)) * step, cos, sin, half_a, half_b, soft)
        for c in range(3):
            scratch[RED + c * CHUNK + k] *= left
        scratch[MIRROR + k] *= left


@uncounted
def light(scratch: Scratch, look: Look, haze: float) -> None:
    """Lights the chunk and lets the air fade it."""
    ambient = (f(look.ambient_red), f(look.ambient_green), f(look.ambient_blue))
    sun = (f(look.sun_red), f(look.sun_green), f(look.sun_blue))
    lamps = (f(look.lamp_red), f(look.lamp_green), f(look.lamp_blue))
    air = (f(look.air_red), f(look.air_green), f(look.air_blue))
    for c in range(3):
        line = RED + c * CHUNK
        here, direct, lamp, fog = ambient[c], sun[c], lamps[c], air[c]
        for k in range(CHUNK):
            scratch[line + k] = lighted(scratch[line + k], here, direct, lamp, fog, scratch[SHADE + k], scratch[LAMP + k], haze)
