"""The careful and competent driver of UN Regulation No. 157, who brakes for others and does nothing else.

The regulation's guidance on traffic disturbances critical for ALKS (first Annex 4, appendix 3; now Annex 3) tells which cut-ins, cut-outs
and decelerations such a driver avoids: these are preventable, and a system has to avoid them as well. Its figures are `CarefulDriver`'s
defaults. They were checked against two public implementations of it, the European Commission's JRC-FSM and esmini's.

The driver sits at the pedals of a car that keeps the middle of its lane. What the guidance does not describe is ours and said so below:
how a driver slows down for what has been in plain sight for a while, and drives on afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from skidpad.worlds.collision import CAR, Body
from skidpad.worlds.render.chunks import section_of
from skidpad.worlds.scenario.road import CrossSection
from skidpad.worlds.scenario.scenario import Figure, Scenario
from skidpad.worlds.scenario.tracks import Track, TrackMoment
from skidpad.worlds.vehicle import FRICTION, GRAVITY_M_S2
from skidpad.worlds.world import STEP_S


@dataclass(frozen=True, slots=True)
class CarefulDriver:
    """What the driver perceives, how long that takes, and how the car then brakes."""

    wander_m: float = 0.375
    """A car that is further from the middle of its lane, towards the driver's, is changing lanes; one that leaves the driver's lane so far
    shows what is before it."""
    perceives_s: float = 0.4
    """To perceive and evaluate a risk."""
    delay_s: float = 0.75
    """From then until the car begins to brake."""
    braking_m_s2: float = 0.774 * GRAVITY_M_S2
    jerk_s: float = 0.6
    """Until the brakes hold as much, which is a jerk of 12.65 m/s3."""
    critical_ttc_s: float = 2.0
    critical_headway_s: float = 2.0
    hard_m_s2: float = 5.0
    """Who is this near ahead and slows down like this is a risk."""

    comfortable_m_s2: float = 2.0
    """Ours: the driver slows down for what is in plain sight once that takes more than this, and no harder than it takes."""
    plain_s: float = 3.0
    """Ours: what has been in the lane for so long, or from the beginning, is in plain sight."""
    stand_off_m: float = 2.0
    """Ours: as far from what is in plain sight the driver means to stop."""
    behind_s: float = 1.0
    """Ours: as far behind who drives on the driver means to stay, besides."""
    person_m: float = 6.0
    """Ours, since the guidance speaks of cars: a person who walks towards the lane's middle from so near is a risk from the first step, and
    braked for at once if that takes more than the above."""
    regain_m_s2: float = 1.0
    """Ours: to be as fast as before once there is room for it."""


_ROUNDING_S = 1e-9
_SLOWING_M_S2 = 0.5
_FASTER_M_S = 0.5
"""The driver gains speed again behind who is so much faster."""


@dataclass(slots=True)
class _Noticed:
    """What the driver knows of another car: for how long it has been in the way, and slowing down; whether it was hidden before."""

    in_way_s: float = 0.0
    slowing_s: float = 0.0
    was_hidden: bool = False


@dataclass(frozen=True, slots=True)
class _Threat:
    """Another car in the way: the gap from bumper to bumper, how fast both are along the road, and how much the other slows down."""

    gap_m: float
    speed_m_s: float
    other_m_s: float
    slowing_m_s2: float
    is_person: bool
    noticed: _Noticed

    @property
    def closing_m_s(self) -> float:
        return self.speed_m_s - self.other_m_s

    @property
    def ttc_s(self) -> float:
        return self.gap_m / self.closing_m_s if self.closing_m_s > 0.0 else inf

    @property
    def headway_s(self) -> float:
        return self.gap_m / max(self.speed_m_s, 1e-3)

    def needed_m_s2(self, driver: CarefulDriver) -> float:
        """The deceleration that it takes to stay clear of it; where it is known to slow down, until both stand."""
        # Behind who drives on, the driver means to keep a distance that grows with the speed.
        kept_m = driver.stand_off_m + driver.behind_s * max(self.other_m_s, 0.0)
        room_m = max(self.gap_m - kept_m, 0.25 * self.gap_m if self.other_m_s > 0.0 else 0.1)
        needed = max(self.closing_m_s, 0.0) ** 2 / (2.0 * room_m)
        if self.slowing_m_s2 > _SLOWING_M_S2 and self.other_m_s >= 0.0 and self.noticed.slowing_s >= driver.perceives_s - _ROUNDING_S:
            room_m = max(self.gap_m - driver.stand_off_m, 0.1)
            needed = max(needed, self.speed_m_s**2 / (2.0 * (room_m + self.other_m_s**2 / (2.0 * self.slowing_m_s2))))
        return needed


class Pedals:
    """The driver's feet in one car: asked once a step how fast it is afterwards. They remember what was perceived when.

    speed_m_s: that the driver keeps. others: how many other cars there are. friction: between tyres and road, see `vehicle.FRICTION`.
    """

    def __init__(
        self, speed_m_s: float, section: CrossSection, others: int, friction: float, driver: CarefulDriver | None = None, body: Body = CAR
    ) -> None:
        self._driver = driver or CarefulDriver()
        self._set_m_s, self._section, self._body = speed_m_s, section, body
        self._noticed = [_Noticed() for _ in range(others)]
        self._most_m_s2 = min(self._driver.braking_m_s2, friction * GRAVITY_M_S2)
        self._waited_s = self.braking_m_s2 = 0.0
        self._is_emergency, self._is_first = False, True

    def speed_after(self, s_m: float, speed_m_s: float, others: Sequence[TrackMoment], step_s: float) -> float:
        """Returns the speed after a step. s_m: of the rear axle, from where it began. others: where the other cars are now."""
        driver, wanted_m_s2 = self._driver, 0.0
        is_closing, has_room = False, True
        for threat in self._threats(s_m, speed_m_s, others, step_s):
            needed, noticed = threat.needed_m_s2(driver), threat.noticed
            is_plain = noticed.in_way_s >= driver.plain_s
            brakes_hard = (
                threat.slowing_m_s2 >= driver.hard_m_s2
                and noticed.slowing_s >= driver.perceives_s - _ROUNDING_S
                and threat.headway_s <= driver.critical_headway_s
            )
            if brakes_hard or (
                noticed.in_way_s >= driver.perceives_s - _ROUNDING_S and self._is_critical(threat, needed, is_plain=is_plain)
            ):
                self._is_emergency = True
            if is_plain and (needed > driver.comfortable_m_s2 or self.braking_m_s2 > 0.0):
                enough_m_s2 = max(needed, 0.5 * driver.comfortable_m_s2) if threat.closing_m_s > 0.0 else needed
                wanted_m_s2 = max(wanted_m_s2, min(enough_m_s2, self._most_m_s2))
            is_closing = is_closing or threat.closing_m_s > 0.0 or brakes_hard
            has_room = has_room and threat.headway_s > driver.critical_headway_s and threat.closing_m_s < -_FASTER_M_S
        self._is_first = False
        self._is_emergency = self._is_emergency and is_closing and speed_m_s > 0.0
        return self._pressed(speed_m_s, self._most_m_s2 if self._is_emergency else wanted_m_s2, step_s, has_room=has_room)

    def _is_critical(self, threat: _Threat, needed_m_s2: float, *, is_plain: bool) -> bool:
        driver = self._driver
        if is_plain:
            # Who slows down in time for what is in plain sight comes near to it, slowly.
            return threat.ttc_s < driver.critical_ttc_s and needed_m_s2 > 2.0 * driver.comfortable_m_s2
        is_sudden = threat.noticed.was_hidden or threat.is_person
        return threat.ttc_s < driver.critical_ttc_s or (is_sudden and needed_m_s2 > driver.comfortable_m_s2)

    def _pressed(self, speed_m_s: float, wanted_m_s2: float, step_s: float, *, has_room: bool) -> float:
        before = self.braking_m_s2
        if not wanted_m_s2:
            self._waited_s = self.braking_m_s2 = 0.0
            slower = speed_m_s < self._set_m_s and has_room
            return min(self._set_m_s, speed_m_s + self._driver.regain_m_s2 * step_s) if slower else speed_m_s
        if self._waited_s < self._driver.delay_s - _ROUNDING_S:
            self._waited_s += step_s
            return speed_m_s
        more = self._driver.braking_m_s2 / self._driver.jerk_s * step_s
        self.braking_m_s2 = min(wanted_m_s2, before + more)
        return max(0.0, speed_m_s - 0.5 * (before + self.braking_m_s2) * step_s)

    def _threats(self, s_m: float, speed_m_s: float, others: Sequence[TrackMoment], step_s: float) -> Iterator[_Threat]:
        """Goes through the cars ahead that are in the way and not hidden, the nearest first, and counts how long they have been."""
        front_m, middle_m = s_m + self._body.length_m - self._body.rear_overhang_m, self._section.lane_centre_m
        is_hidden = False
        for number in sorted(range(len(others)), key=lambda each: others[each].s_m):
            other, noticed = others[number], self._noticed[number]
            gap_m, off_m = other.s_m - 0.5 * other.size_m[0] - front_m, other.lateral_m - middle_m
            if gap_m <= 0.0 or not self._in_way(off_m, other) or is_hidden:
                noticed.was_hidden = noticed.was_hidden or is_hidden
                noticed.in_way_s = noticed.slowing_s = 0.0
                continue
            if self._is_first:
                noticed.in_way_s = inf
            yield _Threat(gap_m, speed_m_s, other.way * other.speed_m_s, -other.acceleration_m_s2, _is_person(other), noticed)
            noticed.in_way_s += step_s
            noticed.slowing_s = noticed.slowing_s + step_s if -other.acceleration_m_s2 > _SLOWING_M_S2 else 0.0
            is_hidden = abs(off_m) <= self._driver.wander_m and not _is_person(other)

    def _in_way(self, off_m: float, other: TrackMoment) -> bool:
        """Tells whether a car so far left of the lane's middle is before the driver's own, or is on its way there."""
        if abs(off_m) < 0.5 * (self._body.width_m + other.size_m[1]):
            return True
        reach_m = self._driver.person_m if _is_person(other) else self._section.lane_width_m - self._driver.wander_m
        return abs(off_m) < reach_m and off_m * other.aside_m_s < 0.0


def _is_person(other: TrackMoment) -> bool:
    return other.size_m == Figure.PERSON.size_m


@dataclass(frozen=True, slots=True)
class CarefulOutcome:
    """What became of the driver in a scenario. collided_at_s: None for never. nearest_m: the smallest gap to who was in the lane.

    hardest_m_s2: how hard the car braked at most.
    """

    collided_at_s: float | None
    nearest_m: float
    hardest_m_s2: float

    @property
    def avoided(self) -> bool:
        """Whether nobody was touched."""
        return self.collided_at_s is None

    def __str__(self) -> str:
        if self.collided_at_s is not None:
            return f"collides at {self.collided_at_s:.1f} s"
        braked = f", brakes with {self.hardest_m_s2:.1f} m/s² at most" if self.hardest_m_s2 else ""
        return f"touches nobody{braked}" + (f", {self.nearest_m:.1f} m are left" if self.nearest_m < inf else "")


def drive_carefully(scenario: Scenario, driver: CarefulDriver | None = None, step_s: float = STEP_S / 5.0) -> CarefulOutcome:
    """Sends the driver through a scenario, in the middle of the ego's lane: would it have been avoided?"""
    section = section_of(scenario)
    tracks = [Track(vehicle, section) for vehicle in scenario.vehicles]
    return rehearse(scenario, section, lambda time_s, s_m, speed_m_s: [track.at(time_s) for track in tracks], driver, step_s)  # noqa: ARG005


def rehearse(
    scenario: Scenario,
    section: CrossSection,
    others_at: Callable[[float, float, float], Sequence[TrackMoment] | None],
    driver: CarefulDriver | None = None,
    step_s: float = STEP_S / 5.0,
) -> CarefulOutcome:
    """Drives on until the scenario's time is over or there are no others any more, through whom it touches.

    others_at: where the others are at a time, when the ego's rear axle is at a place and as fast as told; None ends the scenario.
    """
    friction = FRICTION[scenario.conditions.weather]
    speed_m_s, s_m = scenario.ego.speed_m_s, 0.0
    pedals: Pedals | None = None
    nearest_m, hardest_m_s2 = inf, 0.0
    collided_at_s: float | None = None
    for step in range(round(scenario.duration_s / step_s)):
        others = others_at(step * step_s, s_m, speed_m_s)
        if others is None:
            break
        pedals = pedals or Pedals(speed_m_s, section, len(others), friction, driver)
        gap_m = min((gap for other in others if (gap := _gap_m(s_m, other, section)) is not None), default=inf)
        if gap_m <= 0.0 and collided_at_s is None:
            collided_at_s = step * step_s
        after_m_s = pedals.speed_after(s_m, speed_m_s, others, step_s)
        nearest_m, hardest_m_s2 = min(nearest_m, gap_m), max(hardest_m_s2, pedals.braking_m_s2)
        s_m, speed_m_s = s_m + 0.5 * (speed_m_s + after_m_s) * step_s, after_m_s
    return CarefulOutcome(collided_at_s, nearest_m, hardest_m_s2)


def _gap_m(s_m: float, other: TrackMoment, section: CrossSection) -> float | None:
    """Returns the way from the ego's bumper to another car's, 0 where they touch; None where it is not in the way, or behind."""
    if abs(other.lateral_m - section.lane_centre_m) >= 0.5 * (CAR.width_m + other.size_m[1]):
        return None
    ahead_m = other.s_m - (s_m + 0.5 * CAR.length_m - CAR.rear_overhang_m)
    reach_m = 0.5 * (other.size_m[0] + CAR.length_m)
    return max(ahead_m - reach_m, 0.0) if ahead_m > -reach_m else None
