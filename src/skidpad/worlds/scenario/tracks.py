"""Where another car is at a time: its moves, one after another, as speeds along the road and places beside its centreline."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from skidpad.worlds.scenario.road import CrossSection
from skidpad.worlds.scenario.scenario import Figure, Move, OtherVehicle, Shape


@dataclass(frozen=True, slots=True)
class _Curve:
    """A transition from 0 to 1 over 0..1: its value, the area below it, and its slope."""

    value: Callable[[float], float]
    area: Callable[[float], float]
    slope: Callable[[float], float]
    steepest: float
    """The greatest slope; a transition by `rate` may nowhere be faster."""
    bend: float
    """The greatest second derivative."""


CURVES = {
    Shape.LINEAR: _Curve(lambda u: u, lambda u: 0.5 * u * u, lambda u: 1.0, 1.0, 0.0),  # noqa: ARG005
    Shape.CUBIC: _Curve(lambda u: u * u * (3.0 - 2.0 * u), lambda u: u * u * u * (1.0 - 0.5 * u), lambda u: 6.0 * u * (1.0 - u), 1.5, 6.0),
    Shape.SINUSOIDAL: _Curve(
        lambda u: 0.5 * (1.0 - cos(pi * u)),
        lambda u: 0.5 * u - sin(pi * u) / (2.0 * pi),
        lambda u: 0.5 * pi * sin(pi * u),
        0.5 * pi,
        0.5 * pi * pi,
    ),
}


@dataclass(frozen=True, slots=True)
class _Span:
    """A value from `start_s` on: it goes from `before` to `after` and stays there. area: of the value before `start_s`."""

    start_s: float
    lasts_s: float
    before: float
    after: float
    shape: Shape
    area: float = 0.0

    def value(self, time_s: float) -> float:
        if time_s >= self.start_s + self.lasts_s:
            return self.after
        return self.before + (self.after - self.before) * CURVES[self.shape].value((time_s - self.start_s) / self.lasts_s)

    def area_until(self, time_s: float) -> float:
        passed = time_s - self.start_s
        during = min(passed, self.lasts_s)
        changing = self.lasts_s * CURVES[self.shape].area(during / self.lasts_s) if self.lasts_s else 0.0
        return self.area + self.before * during + (self.after - self.before) * changing + self.after * (passed - during)

    def slope(self, time_s: float) -> float:
        if time_s >= self.start_s + self.lasts_s:
            return 0.0
        return (self.after - self.before) / self.lasts_s * CURVES[self.shape].slope((time_s - self.start_s) / self.lasts_s)


@dataclass(frozen=True, slots=True)
class TrackMoment:
    """Where a car is on the road and how it moves. way: 1 with the road, -1 against it; speeds and accelerations are along its way.

    s_m: of its middle, from where the ego begins. aside_m_s: sideways, to the left of the road's direction.
    """

    s_m: float
    lateral_m: float
    speed_m_s: float
    acceleration_m_s2: float = 0.0
    aside_m_s: float = 0.0
    way: int = 1
    size_m: tuple[float, float] = Figure.CAR.size_m
    """Length and width."""


class Track:
    """One other car's way. It can be asked about any time, in any order."""

    def __init__(self, vehicle: OtherVehicle, section: CrossSection) -> None:
        self._size_m = vehicle.figure.size_m
        self._ahead_m, self.way = vehicle.ahead_m, 1 if vehicle.lane >= 1 else -1
        self._speeds = [_Span(0.0, 0.0, vehicle.speed_m_s, vehicle.speed_m_s, Shape.LINEAR)]
        first_m = section.lane_centre_of(vehicle.lane) + vehicle.offset_m
        self._places = [_Span(0.0, 0.0, first_m, first_m, Shape.LINEAR)]
        for move in sorted(vehicle.moves, key=lambda each: each.start_s):
            self.add(move, section)

    def add(self, move: Move, section: CrossSection) -> None:
        """Adds a move that begins after all others of its kind."""
        if move.speed_m_s is not None:
            _add(self._speeds, move, move.speed_m_s)
        if move.lane is not None:
            _add(self._places, move, section.lane_centre_of(move.lane) + move.offset_m)

    def at(self, time_s: float) -> TrackMoment:
        """Returns where the car is."""
        speed, place = _now(self._speeds, time_s), _now(self._places, time_s)
        s_m = self._ahead_m + self.way * speed.area_until(time_s)
        return TrackMoment(s_m, place.value(time_s), speed.value(time_s), speed.slope(time_s), place.slope(time_s), self.way, self._size_m)


def _add(spans: list[_Span], move: Move, after: float) -> None:
    last = spans[-1]
    spans.append(_Span(move.start_s, move.lasts_s, last.value(move.start_s), after, move.shape, last.area_until(move.start_s)))


def _now(spans: Sequence[_Span], time_s: float) -> _Span:
    return spans[max(bisect_right(spans, time_s, key=lambda span: span.start_s) - 1, 0)]
