"""A storyboard, rehearsed: who is where at first, and what everybody does when, with a careful driver in the ego.

Triggers may wait for the ego, so that what happens depends on how it drives. It is rehearsed once, along the road, with the driver of
`worlds.careful`, who will hold its pedals later; what the others did then, by time, is what they will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import cos, inf, isfinite, pi, sqrt
from xml.etree.ElementTree import Element

from skidpad.worlds.openx.conditions import Trigger, standing
from skidpad.worlds.openx.documents import Catalogs, Parameters, children
from skidpad.worlds.openx.openscenario import AXLE_TO_MIDDLE_M
from skidpad.worlds.openx.roads import FileRoad, LanePlace
from skidpad.worlds.scenario.road import CrossSection
from skidpad.worlds.scenario.scenario import CAR_LENGTH_M, BadScenarioError, Figure, Move, OtherVehicle, Shape
from skidpad.worlds.scenario.tracks import CURVES, Track, TrackMoment

_AT_FIRST_S = 0.1
"""What puts a car somewhere within this time belongs to the beginning."""
_SHAPES = {"linear": Shape.LINEAR, "sinusoidal": Shape.SINUSOIDAL, "cubic": Shape.CUBIC}
_INERT = frozenset({"ControllerAction", "ActivateControllerAction", "AppearanceAction", "VisibilityAction"})
"""What changes nothing about where anybody is: the subject steers the ego, whatever a file would let do it."""
_STRAIGHT_M = 1.0
"""Who crosses the road goes no further along it."""
_DIGITS = 9


@dataclass(slots=True)
class Actor:
    """Somebody of the storyboard. place: of the rear axle, in the file's s; way: 1 with the road, -1 against it."""

    name: str
    place: LanePlace
    way: int = 1
    speed_m_s: float = 0.0
    figure: Figure = Figure.CAR
    moves: list[Move] = field(default_factory=list)
    track: Track | None = None

    def vehicle(self, ego: LanePlace, section: CrossSection, colour: int) -> OtherVehicle:
        """Returns the car as our scenarios have it; one against the lane's direction is in an oncoming lane, beside its middle."""
        lane, offset_m = self.place.lane, self.place.offset_m
        if (lane >= 1) is not (self.way > 0):
            other = section.lanes if self.way > 0 else 0
            offset_m += section.lane_centre_of(lane) - section.lane_centre_of(other)
            lane = other
        middle_m = AXLE_TO_MIDDLE_M if self.figure is Figure.CAR else 0.0
        ahead_m = round(self.place.s_m + self.way * middle_m - ego.s_m, _DIGITS)
        speed_m_s, offset_m = round(self.speed_m_s, _DIGITS), round(offset_m, _DIGITS) + 0.0
        return OtherVehicle(lane, ahead_m, speed_m_s, colour, offset_m, tuple(self.moves), self.figure)


class _Node:
    """An element of the storyboard: story, act, group, maneuver, event or action. It begins when its parent has and its trigger fires."""

    def __init__(self, name: str, trigger: Trigger | None, start: Callable[[], float] | None = None) -> None:
        self.name, self.trigger, self.start = name, trigger, start
        self.children: list[_Node] = []
        self.began_s = self.ends_s = inf

    def end(self, time_s: float) -> None:
        """Ends what is over, from the inside."""
        for each in self.children:
            each.end(time_s)
        if self.start is None and self.children and self.ends_s == inf and all(each.ends_s <= time_s for each in self.children):
            self.ends_s = time_s

    def begin(self, rehearsal: Rehearsal) -> None:
        """Begins what can begin."""
        if self.began_s == inf:
            if self.trigger is not None and not self.trigger.holds(rehearsal, rehearsal.step_s):
                return
            self.began_s = rehearsal.time_s
            if self.start is not None:
                self.ends_s = rehearsal.time_s + self.start()
            elif not self.children:
                self.ends_s = rehearsal.time_s
        for each in self.children:
            each.begin(rehearsal)

    def named(self, name: str) -> _Node | None:
        """Finds an element by its name."""
        return self if self.name == name else next((found for each in self.children if (found := each.named(name)) is not None), None)


@dataclass(slots=True)
class Rehearsal:
    """The storyboard while it is rehearsed. actors: everybody but the ego, by name."""

    root: Element
    parameters: Parameters
    catalogs: Catalogs
    road: FileRoad
    section: CrossSection
    ego: str
    ego_place: LanePlace
    actors: Mapping[str, Actor]
    step_s: float
    time_s: float = 0.0
    moments: dict[str, TrackMoment] = field(default_factory=dict)
    ended_at_s: float | None = None
    notes: list[str] = field(default_factory=list)
    _board: _Node = field(default_factory=lambda: _Node("", None))
    _stop: Trigger | None = None
    _first: dict[str, float] = field(default_factory=dict)
    _standing_since: dict[str, float] = field(default_factory=dict)
    _changed_s: float = 0.0

    def __post_init__(self) -> None:
        for story in self.root.iterfind("Storyboard/Story"):
            self._board.children.append(self._node(story))
        self._stop = Trigger.of(self.root.find("Storyboard/StopTrigger"), self.parameters, skips=True)
        for actor in self.actors.values():
            actor.track = Track(actor.vehicle(self.ego_place, self.section, 0), self.section)

    def others_at(self, time_s: float, s_m: float, speed_m_s: float) -> Sequence[TrackMoment] | None:
        """Lets the storyboard go on, with the ego's rear axle at a place and a speed; None once it is over."""
        acceleration = 0.0
        if self.ego in self.moments:
            acceleration = (speed_m_s - self.moments[self.ego].speed_m_s) / self.step_s
        if acceleration:
            self._changed_s = time_s
        self.time_s = time_s
        self.moments[self.ego] = TrackMoment(s_m + AXLE_TO_MIDDLE_M, self.section.lane_centre_m, speed_m_s, acceleration)
        self._look()
        self._board.end(time_s)
        self._board.begin(self)
        self._look()
        if self._stop is not None and self._stop.holds(self, self.step_s):
            self.ended_at_s = time_s
            return None
        return [self.moments[name] for name in self.actors]

    @property
    def settled_at_s(self) -> float:
        """Since when nobody has changed anything and the ego has stood, or kept its speed."""
        moved_s = max((move.start_s + move.lasts_s for actor in self.actors.values() for move in actor.moves), default=0.0)
        return max(moved_s, self._changed_s, self._standing_since.get(self.ego, 0.0))

    def _look(self) -> None:
        for name, actor in self.actors.items():
            if actor.track is not None:
                self.moments[name] = actor.track.at(self.time_s)
        for name, moment in self.moments.items():
            self._first.setdefault(name, moment.s_m)
            if standing(moment):
                self._standing_since.setdefault(name, self.time_s)
            else:
                self._standing_since.pop(name, None)

    def travelled_m(self, name: str) -> float:
        """Returns how far somebody has come."""
        return abs(self.moments[name].s_m - self._first[name]) if name in self.moments else 0.0

    def stood_s(self, name: str) -> float:
        """Returns for how long somebody has been standing."""
        return self.time_s - self._standing_since.get(name, inf)

    def state(self, name: str, wanted: str) -> bool:
        """Tells whether an element of the storyboard is in a state, or has just come into it."""
        node = self._board.named(name)
        if node is None:
            return False
        began, ended = node.began_s <= self.time_s, node.ends_s <= self.time_s
        just = self.time_s - self.step_s + 1e-9
        return {
            "standbyState": not began,
            "runningState": began and not ended,
            "completeState": ended,
            "startTransition": began and node.began_s > just,
            "endTransition": ended and node.ends_s > just,
        }.get(wanted, False)

    def _node(self, element: Element, who: Sequence[str] = ()) -> _Node:
        """Reads a story, an act, a group, a maneuver or an event with everything inside."""
        node = _Node(element.get("name", ""), Trigger.of(element.find("StartTrigger"), self.parameters))
        if element.tag == "ManeuverGroup":
            named = element.find("Actors")
            who = [self.parameters.text(each, "entityRef") for each in children(named) if each.tag == "EntityRef"]
        for child in element:
            if child.tag == "Action":
                node.children += [self._action(child, name) for name in who] or [_Node(child.get("name", ""), None, lambda: 0.0)]
            elif child.tag == "CatalogReference":
                self._check_inert(self.catalogs.found(child, self.parameters))
            elif child.tag in {"Act", "ManeuverGroup", "Maneuver", "Event"}:
                node.children.append(self._node(child, who))
        return node

    def _check_inert(self, maneuver: Element) -> None:
        if any(True for _ in maneuver.iter("PrivateAction")):
            raise BadScenarioError(f"somebody drives the maneuver {maneuver.get('name')!r} of a catalog")

    def _action(self, element: Element, name: str) -> _Node:
        private = element.find("PrivateAction")
        inner = private[0] if private is not None and len(private) else None
        if inner is None or inner.tag in _INERT:
            return _Node(element.get("name", ""), None, lambda: 0.0)
        if name == self.ego:
            raise BadScenarioError(f"it drives the ego itself ({inner.tag}); here the subject does")
        if name not in self.actors:
            raise BadScenarioError(f"{name!r} is to act, but has no position on the road")
        told = inner[0] if inner.tag in {"LongitudinalAction", "LateralAction", "RoutingAction"} and len(inner) else inner
        starts: Mapping[str, Callable[[Element, Actor], float]] = {
            "SpeedAction": self._speed,
            "LaneChangeAction": self._lane_change,
            "LaneOffsetAction": self._lane_offset,
            "LongitudinalDistanceAction": self._distance,
        }
        if told.tag == "FollowTrajectoryAction" and self.actors[name].figure is Figure.PERSON:
            walk = self._walk(told, self.actors[name])
            return _Node(element.get("name", ""), None, lambda: self._cross(walk, self.actors[name]))
        if told.tag not in starts:
            raise BadScenarioError(
                f"{name!r} does a {told.tag}; cars of the built-in world change their speed, their lane and their place in it"
            )
        start, actor = starts[told.tag], self.actors[name]
        return _Node(element.get("name", ""), None, lambda: start(told, actor))

    def _speed(self, told: Element, actor: Actor) -> float:
        target_m_s = target_speed_m_s(told, self.parameters, {name: each.speed_m_s for name, each in self.moments.items()})
        before = self.moments[actor.name].speed_m_s
        shape, lasts_s = self._dynamics(told.find("SpeedActionDynamics"), abs(target_m_s - before), before)
        if isfinite(lasts_s):
            self._move(actor, Move(self._now, lasts_s, speed_m_s=round(max(target_m_s, 0.0), _DIGITS), shape=shape))
        return lasts_s

    def _lane_change(self, told: Element, actor: Actor) -> float:
        target = told.find("LaneChangeTarget")
        chosen = next(children(target), None)
        if chosen is None:
            raise BadScenarioError(f"a lane change of {actor.name!r} has no target")
        number = int(self.parameters.number(chosen, "value"))
        if chosen.tag == "RelativeTargetLane":
            number = shifted(self.road.of(self._lane_of(self.parameters.text(chosen, "entityRef"))).number, number)
        offset_m = self.parameters.number(told, "targetLaneOffset", 0.0)
        return self._aside(told.find("LaneChangeActionDynamics"), actor, self.road.lane(number), offset_m)

    def _lane_offset(self, told: Element, actor: Actor) -> float:
        chosen = next(children(told.find("LaneOffsetTarget")), None)
        if chosen is None or self.parameters.text(told, "continuous", "false") == "true":
            raise BadScenarioError(f"{actor.name!r} is to keep an offset by itself")
        offset_m, lane = self.parameters.number(chosen, "value"), self._lane_of(actor.name)
        if chosen.tag == "RelativeTargetLaneOffset":
            offset_m += self.moments[self.parameters.text(chosen, "entityRef")].lateral_m - self.section.lane_centre_of(lane)
        return self._aside(told.find("LaneOffsetActionDynamics"), actor, lane, offset_m)

    def _aside(self, dynamics: Element | None, actor: Actor, lane: int, offset_m: float) -> float:
        here = self.moments[actor.name]
        change_m = abs(self.section.lane_centre_of(lane) + offset_m - here.lateral_m)
        shape, lasts_s = self._dynamics(dynamics, change_m, here.speed_m_s)
        if isfinite(lasts_s):
            self._move(actor, Move(self._now, lasts_s, lane=lane, offset_m=round(offset_m, _DIGITS), shape=shape))
        return lasts_s

    def _walk(self, told: Element, person: Actor) -> list[tuple[float, LanePlace]]:
        """Reads a way straight across the road: places and when somebody is there, from when it begins."""
        walk = []
        for vertex in told.iterfind("TrajectoryRef/Trajectory/Shape/Polyline/Vertex"):
            place = vertex.find("Position/LanePosition")
            s_m, lane = self.parameters.number(place, "s"), self.road.lane(int(self.parameters.number(place, "laneId")))
            walk.append((self.parameters.number(vertex, "time"), LanePlace(s_m, lane, self.parameters.number(place, "offset", 0.0))))
        timing = told.find("TimeReference/Timing")
        is_relative = timing is not None and timing.get("domainAbsoluteRelative") == "relative"
        if len(walk) < 2 or not is_relative or any(abs(place.s_m - person.place.s_m) > _STRAIGHT_M for _, place in walk):
            raise BadScenarioError(f"{person.name!r} follows a trajectory that does not lead straight across the road, by lanes and times")
        return walk

    def _cross(self, walk: Sequence[tuple[float, LanePlace]], person: Actor) -> float:
        for (before_s, _), (after_s, place) in pairwise(walk):
            lasts_s = round(max(after_s - before_s, 0.0), _DIGITS)
            self._move(person, Move(round(self.time_s + before_s, _DIGITS), lasts_s, lane=place.lane, offset_m=place.offset_m))
        return walk[-1][0]

    def _distance(self, told: Element, actor: Actor) -> float:
        if self.parameters.text(told, "continuous", "false") == "true" or self.time_s > _AT_FIRST_S:
            raise BadScenarioError(f"{actor.name!r} is to hold a distance by itself")
        s_m = led_s_m(told, self.parameters, self.ego_place.s_m, self.moments[self.ego].speed_m_s)
        actor.place = LanePlace(s_m, actor.place.lane, actor.place.offset_m)
        actor.track = Track(actor.vehicle(self.ego_place, self.section, 0), self.section)
        self._first.pop(actor.name, None)
        return 0.0

    def _dynamics(self, element: Element | None, change: float, speed_m_s: float) -> tuple[Shape, float]:
        """Returns the shape of a transition and how long it takes; infinite where it never gets there."""
        word = self.parameters.text(element, "dynamicsShape", "step")
        if word == "step" or not change:
            return Shape.LINEAR, 0.0
        if word not in _SHAPES or element is None:
            raise BadScenarioError(f"a transition of it has the shape {word!r}")
        shape = _SHAPES[word]
        if element.get("dynamicsDimension") is None:
            most_m_s2 = self.parameters.number(element, "maxLateralAcc", 0.0)
            return shape, sqrt(change * CURVES[shape].bend / most_m_s2) if most_m_s2 > 0.0 else 0.0
        value, dimension = self.parameters.number(element, "value"), self.parameters.text(element, "dynamicsDimension")
        if dimension == "time":
            return shape, round(max(value, 0.0), _DIGITS)
        per_s = abs(value) if dimension == "rate" else speed_m_s / max(abs(value), 1e-9) * change / CURVES[shape].steepest
        return shape, round(change * CURVES[shape].steepest / per_s, _DIGITS) if per_s > 0.0 else inf

    def _move(self, actor: Actor, move: Move) -> None:
        actor.moves.append(move)
        if actor.track is not None:
            actor.track.add(move, self.section)

    @property
    def _now(self) -> float:
        return round(self.time_s, _DIGITS)

    def _lane_of(self, name: str) -> int:
        """Returns the lane in whose middle somebody is, more or less."""
        if name not in self.moments:
            raise BadScenarioError(f"a lane is given relative to {name!r}, which has no position")
        lateral_m = self.moments[name].lateral_m
        lanes = [lane for lane in self.road.numbers.values() if 1 - self.section.lanes <= lane <= self.section.lanes]
        return min(lanes, key=lambda lane: abs(self.section.lane_centre_of(lane) - lateral_m))


def target_speed_m_s(told: Element, parameters: Parameters, speeds: Mapping[str, float]) -> float:
    """Returns the speed that a `SpeedAction` leads to. speeds: of everybody now."""
    target = next(children(told.find("SpeedActionTarget")), None)
    if target is None:
        raise BadScenarioError("a speed action of it has no target")
    value = parameters.number(target, "value")
    if target.tag == "AbsoluteTargetSpeed":
        return value
    other = parameters.text(target, "entityRef")
    if other not in speeds or parameters.text(target, "continuous", "false") == "true":
        raise BadScenarioError(f"somebody is to keep the speed of {other!r}")
    return speeds[other] * value if parameters.text(target, "speedTargetValueType", "delta") == "factor" else speeds[other] + value


def led_s_m(told: Element, parameters: Parameters, ego_s_m: float, ego_m_s: float) -> float:
    """Returns where a `LongitudinalDistanceAction` puts a car's rear axle with respect to the ego's."""
    apart_m = parameters.number(told, "distance", -1.0)
    if apart_m < 0.0:
        apart_m = parameters.number(told, "timeGap") * ego_m_s
    if parameters.text(told, "freespace", "false") == "true":
        apart_m += CAR_LENGTH_M
    behind = parameters.text(told, "displacement", "leadingReferencedEntity") == "trailingReferencedEntity"
    return ego_s_m - apart_m if behind else ego_s_m + apart_m


def shifted(number: int, by: int) -> int:
    """Returns the number of the lane `by` lanes further left; there is no lane 0."""
    found = number + by
    return found + (1 if by > 0 else -1) if by and (number < 0 <= found or number > 0 >= found) else found


def way_of(turned_rad: float, name: str) -> int:
    """Returns 1 for who looks along the road, -1 for who looks against it; who stands across is refused."""
    along = cos(turned_rad)
    if abs(along) < cos(pi / 6.0):
        raise BadScenarioError(f"{name!r} stands or moves across the road; everybody in the built-in world follows it")
    return 1 if along > 0.0 else -1
