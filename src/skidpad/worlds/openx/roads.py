"""A road of an OpenDRIVE file, as far as the built-in world has such roads: lines, arcs and clothoids, lanes of one width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import cos, sin
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from skidpad.worlds.openx.documents import Parameters, read_document
from skidpad.worlds.render.chunks import MAX_LENGTH_M, START_M
from skidpad.worlds.scenario.road import Piece, Road
from skidpad.worlds.scenario.scenario import BadScenarioError, RoadKind, RoadPlan, Side

LANE_WIDTH_M = 3.5
"""Of a lane that is drawn where a proving ground has one too wide to be kept."""

_NARROWEST_M, _WIDEST_M = 2.0, 6.0
_SAME_WIDTH_M = 0.3
_STRAIGHT_PER_M = 1e-5
"""A radius of 100 km: straight for whoever looks at it."""
_LONGEST_M = 50_000.0
_NONE = Parameters({})


@dataclass(frozen=True, slots=True)
class LanePlace:
    """A place on a road: in a lane by our number (1 and up with the road's direction, from the right), off its middle to the left."""

    s_m: float
    lane: int
    offset_m: float


@dataclass(frozen=True, slots=True)
class FileLane:
    """A lane of a file: its number there, its kind, and where it lies, to the left of the reference line."""

    number: int
    kind: str
    middle_m: float
    width_m: float


@dataclass(frozen=True)
class FileRoad:
    """One road of a file. lanes: from right to left, as they are where the ego begins."""

    name: str
    road: Road
    x_m: float
    y_m: float
    heading_rad: float
    lanes: tuple[FileLane, ...]

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """Our numbers of the driving lanes by the file's."""
        right = [lane.number for lane in self.lanes if lane.number < 0 and lane.kind == "driving"]
        left = [lane.number for lane in self.lanes if lane.number > 0 and lane.kind == "driving"]
        return {number: place for place, number in enumerate(right, 1)} | {number: -place for place, number in enumerate(left)}

    def lane(self, number: int) -> int:
        """Returns our number of a lane of the file."""
        if number not in self.numbers:
            raise BadScenarioError(f"somebody is in lane {number} of road {self.name!r}, which nobody drives in")
        return self.numbers[number]

    def of(self, lane: int) -> FileLane:
        """Returns a lane by our number."""
        number = next((theirs for theirs, ours in self.numbers.items() if ours == lane), None)
        found = next((each for each in self.lanes if each.number == number), None)
        if found is None:
            raise BadScenarioError(f"road {self.name!r} has no driving lane there")
        return found

    def beside(self, s_m: float, left_m: float) -> LanePlace:
        """Returns the place so far along and beside the reference line, in the driving lane whose middle is nearest."""
        if not self.numbers:
            raise BadScenarioError(f"road {self.name!r} has no driving lane")
        lane = min((each for each in self.lanes if each.number in self.numbers), key=lambda each: abs(each.middle_m - left_m))
        return LanePlace(s_m, self.numbers[lane.number], left_m - lane.middle_m)

    def projected(self, x_m: float, y_m: float) -> tuple[float, float]:
        """Returns how far along and beside the reference line a point of the world is."""
        dx, dy = x_m - self.x_m, y_m - self.y_m
        turned = np.array(
            [
                [
                    dx * cos(self.heading_rad) + dy * sin(self.heading_rad),
                    dy * cos(self.heading_rad) - dx * sin(self.heading_rad),
                ]
            ]
        )
        here = self.road.project(turned)
        return float(here.s_m[0]), float(here.lateral_m[0])

    def plan(self, ego: LanePlace, length_m: float) -> tuple[RoadPlan, list[str]]:
        """Returns our road, on which the ego begins at START_M, for `length_m` from there, and what was drawn otherwise."""
        notes = []
        count = sum(1 for lane in self.numbers.values() if lane >= 1)
        width_m = self.of(ego.lane).width_m
        if not _NARROWEST_M <= width_m <= _WIDEST_M:
            notes.append(f"the lane of {width_m:g} m is drawn {LANE_WIDTH_M:g} m wide")
            width_m = LANE_WIDTH_M
        elif any(abs(self.of(lane).width_m - width_m) > _SAME_WIDTH_M for lane in self.numbers.values() if lane >= 1):
            notes.append("all lanes are drawn as wide as the ego's")
        if any(lane.kind in {"entry", "exit", "onRamp", "offRamp"} for lane in self.lanes):
            notes.append("its entry or exit lane is not drawn")
        pieces = _cut(self.road, ego.s_m - START_M, min(ego.s_m + length_m, ego.s_m + MAX_LENGTH_M - START_M))
        sharpest = max((each for piece in pieces for each in (piece.start_per_m, piece.end_per_m)), key=abs)
        if abs(sharpest) < _STRAIGHT_PER_M:
            return RoadPlan(lanes=count, lane_width_m=width_m), notes
        first = next(each for piece in pieces for each in (piece.start_per_m, piece.end_per_m) if each)
        side = Side.LEFT if first > 0.0 else Side.RIGHT
        return RoadPlan(RoadKind.CURVED, round(1.0 / abs(sharpest), 3), side, count, width_m, pieces=pieces), notes


def _cut(road: Road, start_m: float, end_m: float) -> tuple[Piece, ...]:
    """Returns the part of a road between two distances; before its beginning it goes on as it begins, behind its end straight."""
    found = [Piece(-start_m, road.pieces[0].start_per_m, road.pieces[0].start_per_m)] if start_m < 0.0 else []
    at = 0.0
    for piece in road.pieces:
        low, high = max(start_m - at, 0.0), min(end_m - at, piece.length_m)
        slope = (piece.end_per_m - piece.start_per_m) / piece.length_m
        if high - low > 1e-6:
            found.append(Piece(high - low, piece.start_per_m + slope * low, piece.start_per_m + slope * high))
        at += piece.length_m
    if end_m - max(at, start_m) > 1e-6:
        found.append(Piece(end_m - max(at, start_m)))
    return tuple(found)


def read_road(path: Path, wanted: str, s_m: float) -> FileRoad:
    """Reads one road of an `.xodr` file by its id, the only one where the id is "". s_m: where its lanes are looked at."""
    roads = read_document(path).findall("road")
    found = [each for each in roads if each.get("id", "") == wanted or (not wanted and len(roads) == 1)]
    if len(found) != 1:
        raise BadScenarioError(f"{path.name!r} has {len(roads)} roads, and {len(found)} of them have the id {wanted!r}")
    road, name = found[0], found[0].get("id", "")
    if road.get("rule", "RHT") == "LHT":
        raise BadScenarioError(f"on road {name!r} traffic keeps left; the built-in world's keeps right")
    geometries = road.findall("planView/geometry")
    if not geometries:
        raise BadScenarioError(f"road {name!r} has no geometry")
    pieces = tuple(_piece(each) for each in geometries)
    if not 0.0 < sum(piece.length_m for piece in pieces) <= _LONGEST_M:
        raise BadScenarioError(f"road {name!r} is longer than {_LONGEST_M / 1000.0:g} km")
    x_m, y_m, heading_rad = (_NONE.number(geometries[0], key) for key in ("x", "y", "hdg"))
    return FileRoad(name, Road(pieces), x_m, y_m, heading_rad, _lanes(road, s_m))


def _piece(geometry: Element) -> Piece:
    length_m = _NONE.number(geometry, "length")
    for shape in geometry:
        if shape.tag == "line":
            return Piece(length_m)
        if shape.tag == "arc":
            bend = _NONE.number(shape, "curvature")
            return Piece(length_m, bend, bend)
        if shape.tag == "spiral":
            return Piece(length_m, _NONE.number(shape, "curvStart"), _NONE.number(shape, "curvEnd"))
        if shape.tag in {"poly3", "paramPoly3"}:
            raise BadScenarioError(f"its road is drawn with {shape.tag}; the built-in world has lines, arcs and clothoids")
    raise BadScenarioError("a geometry of its road has no shape")


def _lanes(road: Element, s_m: float) -> tuple[FileLane, ...]:
    sections = [each for each in road.iterfind("lanes/laneSection") if _NONE.number(each, "s") <= max(s_m, 0.0)]
    if not sections:
        raise BadScenarioError(f"road {road.get('id', '')!r} has no lanes where the ego begins")
    section, shift_m = sections[-1], 0.0
    along_m = max(s_m, 0.0) - _NONE.number(section, "s")
    for offset in road.iterfind("lanes/laneOffset"):
        if _NONE.number(offset, "s") <= max(s_m, 0.0):
            shift_m = _polynomial(offset, max(s_m, 0.0) - _NONE.number(offset, "s"))
    found = []
    for side, sign in (("right", -1), ("left", 1)):
        inner_m = shift_m
        for lane in sorted(section.iterfind(f"{side}/lane"), key=lambda each: abs(int(_NONE.number(each, "id")))):
            width_m = _width(lane, along_m)
            found.append(FileLane(int(_NONE.number(lane, "id")), lane.get("type", ""), inner_m + sign * 0.5 * width_m, width_m))
            inner_m += sign * width_m
    return tuple(sorted(found, key=lambda each: each.number))


def _width(lane: Element, along_m: float) -> float:
    before = [each for each in lane.iterfind("width") if _NONE.number(each, "sOffset", 0.0) <= along_m + 1e-9]
    if not before:
        return 0.0
    return _polynomial(before[-1], along_m - _NONE.number(before[-1], "sOffset", 0.0))


def _polynomial(element: Element, along_m: float) -> float:
    a, b, c, d = (_NONE.number(element, key, 0.0) for key in "abcd")
    return a + along_m * (b + along_m * (c + along_m * d))
