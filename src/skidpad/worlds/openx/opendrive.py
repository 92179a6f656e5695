"""Writes a scenario's road as ASAM OpenDRIVE."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil, radians, sqrt
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from skidpad.core.errors import optional
from skidpad.worlds.render.chunks import START_M, road_of, section_of
from skidpad.worlds.scenario.road import CrossSection, Piece, Road, SideLane
from skidpad.worlds.scenario.scenario import CAR_LENGTH_M, RoadKind, Scenario
from skidpad.worlds.scenario.tracks import Track

ROAD_ID = 1
RAMP_GAP_M = 30.0
"""An exported ramp ends where its gap to the road is so wide: one road cannot describe what turns away further."""
NO_DATE = "2000-01-01T00:00:00"
"""Files carry no date of their own, so that the same scenario gives the same bytes."""

_LINE_M = 0.12
_DASH_M, _SPACE_M = 3.0, 6.0
_SIDE_SPACE_M = 3.0

GAP, SIDE, MARGIN, SHOULDER = "gap", "side", "margin", "shoulder"


@cache
def generation(part: str) -> Any:  # the package has no types
    """Imports `xodr` or `xosc` of scenariogeneration."""
    return optional(f"scenariogeneration.{part}", "scenariogeneration", "scenario", "exporting to OpenDRIVE and OpenSCENARIO")


def lane_id(lanes: int, lane: int) -> int:
    """Returns OpenDRIVE's number of one of our lanes: 1 and up with the ego from the right, 0 and down towards it."""
    return lane - lanes - 1 if lane >= 1 else 1 - lane


@dataclass(frozen=True, slots=True)
class Span:
    """The part of the built-in world's road that is exported, from `start_m`, 0 or less, to `end_m` along it.

    OpenDRIVE counts from the exported road's own beginning: what is at `s` in the built-in world is at `s - start_m` in the file.
    """

    start_m: float
    end_m: float


def span_of(scenario: Scenario, road: Road) -> Span:
    """Returns the part of the road that everybody needs from the first moment to the last."""
    duration_s, section = scenario.duration_s, section_of(scenario)
    tracks = [Track(each, section) for each in scenario.vehicles]
    cars_m = [START_M + track.at(time_s).s_m for track in tracks for time_s in (0.0, duration_s)]
    places_m = [
        *cars_m,
        *(START_M + each.ahead_m + each.speed_m_s * time_s for each in scenario.pedestrians for time_s in (0.0, duration_s)),
    ]
    # Another simulator may keep the speed along the lane instead of the middle of the road. The two ways differ by the angle that the
    # road has turned times the lane's distance from the middle, and a road turns by at most twice `turn_deg`.
    turned_rad = 2.0 * radians(scenario.road.turn_deg) if scenario.road.kind is RoadKind.CURVED else 0.0
    room_m = CAR_LENGTH_M + turned_rad * section.outer_m
    # Whole periods of the dashed line, so that dashes are where the built-in world has them.
    period_m = _DASH_M + _SPACE_M
    before_m = period_m * ceil(max(0.0, room_m - min(places_m, default=room_m)) / period_m)
    return Span(-before_m, max(road.length_m, room_m + max(places_m, default=0.0)))


def opendrive_text(scenario: Scenario, name: str = "scenario") -> str:
    """Returns the road of a scenario as the text of an `.xodr` file."""
    xodr = generation("xodr")
    road, section = road_of(scenario), section_of(scenario)
    span = span_of(scenario, road)
    document = xodr.OpenDrive(name, revMajor="1", revMinor="7")
    made = xodr.Road(ROAD_ID, _plan_view(road, span), _lanes(section, span), name=name)
    made.add_type(xodr.RoadType.motorway if section.lanes > 1 else xodr.RoadType.rural, s=0)
    document.add_road(made)
    element = document.get_element()
    header = element.find("header")
    if header is not None:
        header.set("date", NO_DATE)
        line = road.at(np.concatenate(([span.start_m], road.node_s_m, [span.end_m])))
        reach = line.beside(np.array([[-section.outer_m], [0.0], [section.outer_m]])).reshape(-1, 2)
        (west, south), (east, north) = reach.min(axis=0).tolist(), reach.max(axis=0).tolist()
        for side, value in (("north", north), ("south", south), ("east", east), ("west", west)):
            header.set(side, repr(value))
    return xml_text(element)


def xml_text(element: ET.Element) -> str:
    """Writes a document with indents, so that people can read it and compare two of them."""
    ET.indent(element)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(element, encoding="unicode") + "\n"


def _plan_view(road: Road, span: Span) -> Any:
    xodr = generation("xodr")
    view = xodr.PlanView()
    before = [Piece(-span.start_m)] if span.start_m < 0.0 else []
    after = [Piece(span.end_m - road.length_m)] if span.end_m > road.length_m else []
    pieces = [*before, *road.pieces, *after]
    starts_m = np.concatenate(([0.0], np.cumsum([piece.length_m for piece in pieces])))[:-1]
    here = road.at(starts_m + span.start_m)
    places = zip(here.x_m.tolist(), here.y_m.tolist(), here.heading_rad.tolist(), starts_m.tolist(), strict=True)
    for piece, (x_m, y_m, heading_rad, s_m) in zip(pieces, places, strict=True):
        view.add_fixed_geometry(_geometry(piece), x_m, y_m, heading_rad, s_m)
    return view


def _geometry(piece: Piece) -> Any:
    xodr = generation("xodr")
    if piece.start_per_m != piece.end_per_m:
        return xodr.Spiral(piece.start_per_m, piece.end_per_m, length=piece.length_m)
    return xodr.Arc(piece.start_per_m, length=piece.length_m) if piece.start_per_m else xodr.Line(piece.length_m)


@dataclass(frozen=True, slots=True)
class _Strip:
    """One lane of a lane section at the right. key: names the lane, so that sections can be linked. width: a + b ds + c ds²."""

    key: str
    kind: str
    width: tuple[float, float, float]
    mark: str = "none"


def _lanes(section: CrossSection, span: Span) -> Any:
    """Right of the main lanes come a ramp's gap, the side lane, the paved margin and the gravel; at the left the last two."""
    xodr = generation("xodr")
    lanes = xodr.Lanes()
    starts = [span.start_m, *(s for s in _breaks(section.side_lane) if span.start_m < s < span.end_m)]
    ends = [*starts[1:], span.end_m]
    rights = [_right(section, start, end) for start, end in zip(starts, ends, strict=True)]
    for number, (start, right) in enumerate(zip(starts, rights, strict=True)):
        centre = xodr.Lane(xodr.LaneType.none)
        centre.add_roadmark(_mark("middle" if section.lanes == 1 else "double"))
        made = xodr.LaneSection(start - span.start_m, centre)
        around = (rights[number - 1] if number else [], rights[number + 1] if number + 1 < len(rights) else [])
        for strip in right:
            made.add_right_lane(_lane(strip, -1, right, around))
        left = _left(section)
        for strip in left:
            made.add_left_lane(_lane(strip, 1, left, (left if number else [], left if number + 1 < len(rights) else [])))
        lanes.add_lanesection(made)
    return lanes


def _lane(strip: _Strip, sign: int, right: list[_Strip], around: tuple[list[_Strip], list[_Strip]]) -> Any:
    """Makes a lane of a section with links to the same one of the sections before and after."""
    xodr = generation("xodr")
    a, b, c = strip.width
    lane = xodr.Lane(getattr(xodr.LaneType, strip.kind), a, b, c)
    lane.add_roadmark(_mark(strip.mark))
    own = {other.key for other in right}
    for link, others in zip(("predecessor", "successor"), around, strict=True):
        keys = [other.key for other in others]
        # Where a ramp ends, far from the road, its margin and its gravel end with it.
        ramp_ends = (GAP in own and SIDE not in keys) or (GAP in keys and SIDE not in own)
        if strip.key in keys and not (ramp_ends and strip.key in {MARGIN, SHOULDER}):
            lane.add_link(link, sign * (keys.index(strip.key) + 1))
    return lane


def _left(section: CrossSection) -> list[_Strip]:
    width = (section.lane_width_m, 0.0, 0.0)
    main = [_Strip(f"lane {k}", "driving", width, "edge" if k == section.lanes else "dashes") for k in range(1, section.lanes + 1)]
    return [*main, *_beside(section)]


def _beside(section: CrossSection) -> list[_Strip]:
    return [_Strip(MARGIN, "border", (section.margin_m, 0.0, 0.0)), _Strip(SHOULDER, "shoulder", (section.shoulder_m, 0.0, 0.0))]


def _right(section: CrossSection, start_m: float, end_m: float) -> list[_Strip]:
    *main, margin, shoulder = _left(section)
    ramp = [] if section.side_lane is None else _side(section.side_lane, section.lane_width_m, start_m, end_m)
    if ramp and ramp[0].key == SIDE:
        main[-1] = _Strip(main[-1].key, "driving", main[-1].width, "side")
    return [*main, *ramp, margin, shoulder]


def _breaks(side: SideLane | None) -> list[float]:
    """Returns where the side lane changes: the end of its ramp, where it meets the road, where its taper begins and ends."""
    if side is None:
        return []
    along = [-sqrt(RAMP_GAP_M / side.leaving_per_m), 0.0, side.parallel_m, side.parallel_m + side.taper_m]
    return sorted(side.start_m - a if side.exits else side.start_m + a for a in along)


def _side(side: SideLane, lane_width_m: float, start_m: float, end_m: float) -> list[_Strip]:
    """Returns the gap and the side lane between two breaks; nothing where there is no side lane."""
    turn = -1.0 if side.exits else 1.0
    here, middle = turn * (start_m - side.start_m), turn * (0.5 * (start_m + end_m) - side.start_m)
    kind = "exit" if side.exits else "entry"
    if middle < 0.0:
        if side.leaving_per_m * middle * middle > RAMP_GAP_M:
            return []
        per_m = side.leaving_per_m
        gap = (per_m * here * here, 2.0 * per_m * here * turn, per_m)
        ramp = "offRamp" if side.exits else "onRamp"
        return [_Strip(GAP, "none", gap, "edge"), _Strip(SIDE, ramp, (lane_width_m, 0.0, 0.0), "edge")]
    if middle < side.parallel_m:
        return [_Strip(SIDE, kind, (lane_width_m, 0.0, 0.0), "edge")]
    if middle < side.parallel_m + side.taper_m:
        slope = lane_width_m / side.taper_m
        return [_Strip(SIDE, kind, (slope * (side.parallel_m + side.taper_m - here), -turn * slope, 0.0), "edge")]
    return []


def _mark(kind: str) -> Any:
    xodr = generation("xodr")
    types, colours = xodr.RoadMarkType, xodr.RoadMarkColor
    if kind == "none":
        return xodr.RoadMark(types.none)
    if kind == "edge":
        return xodr.RoadMark(types.solid, width=_LINE_M, color=colours.white)
    if kind == "double":
        return xodr.RoadMark(types.solid_solid, width=_LINE_M, color=colours.yellow)
    space_m = _SIDE_SPACE_M if kind == "side" else _SPACE_M
    colour = colours.yellow if kind == "middle" else colours.white
    return xodr.RoadMark(types.broken, width=_LINE_M, length=_DASH_M, space=space_m, color=colour)
