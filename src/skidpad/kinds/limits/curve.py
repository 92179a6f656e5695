"""A dose-response curve over the severity of a condition: where a network holds, where it fails, and where to look next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isnan

from skidpad.statistics.intervals import Interval

LEAST_KEPT = 0.5
"""Share of pictures that the referee must keep: a severity at which most are another scene tells nothing of the network."""


class Standing(Enum):
    """What a severity says about the network."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "cannot be told"
    REFUSED = "refused by the referee"


@dataclass(frozen=True, slots=True)
class LimitPoint:
    """One severity that was tested. position: how many steps from harmless. failing: the share of counted frames that fail.

    kept_share: of the pictures that the referee looked at; NaN where it did not look.
    """

    position: int
    failing: Interval
    kept_share: float

    def standing(self, accepted: float) -> Standing:
        """Holds where no frame fails or even the upper bound is below the accepted share, fails where even the lower bound is above it."""
        if self.failing.n == 0 or (not isnan(self.kept_share) and self.kept_share < LEAST_KEPT):
            return Standing.REFUSED
        if self.failing.estimate == 0.0 or self.failing.high < accepted:
            return Standing.HOLDS
        return Standing.FAILS if self.failing.low > accepted else Standing.OPEN

    def is_sure(self, accepted: float) -> bool:
        """Whether there are enough frames for the upper bound to lie below the accepted share; where none fails, there may be too few."""
        return self.failing.high < accepted


@dataclass(frozen=True, slots=True)
class LimitCurve:
    """The tested severities of one row, mildest first, and what follows from them."""

    points: tuple[LimitPoint, ...]
    accepted: float
    steps: int

    @classmethod
    def of(cls, points: Iterable[LimitPoint], accepted: float, steps: int) -> LimitCurve:
        """Sorts the points."""
        return cls(tuple(sorted(points, key=lambda point: point.position)), accepted, steps)

    def at(self, position: int) -> LimitPoint | None:
        """Returns the point at a position, None where it was not tested."""
        return next((point for point in self.points if point.position == position), None)

    @property
    def holds_to(self) -> LimitPoint | None:
        """The largest tested severity that holds, as all milder tested ones do; None where the mildest does not."""
        last = None
        for point in self.points:
            if point.standing(self.accepted) is not Standing.HOLDS:
                break
            last = point
        return last

    @property
    def fails_from(self) -> LimitPoint | None:
        """The smallest tested severity that fails; None where none does."""
        return next((point for point in self.points if point.standing(self.accepted) is Standing.FAILS), None)

    @property
    def is_refused(self) -> bool:
        """Whether the network holds up to severities at which the referee keeps too few pictures."""
        beyond = [point for point in self.points if self.holds_to is None or point.position > self.holds_to.position]
        return bool(beyond) and beyond[0].standing(self.accepted) is Standing.REFUSED

    @property
    def falls_after(self) -> LimitPoint | None:
        """The severity beyond which clearly fewer frames fail again; None where there is none."""
        most = None
        for point in self.points:
            standing = point.standing(self.accepted)
            if standing is Standing.REFUSED:
                continue
            if most is not None and (standing is Standing.HOLDS or point.failing.high < most.failing.low):
                return most
            if standing is not Standing.HOLDS and (most is None or point.failing.estimate >= most.failing.estimate):
                most = point
        return None

    def wanted(self) -> tuple[int, ...]:
        """Returns which severities to test next; nothing when both limits are known to a step.

        The quarters of the way come first, then the middles of where it stops to hold and of where it begins to fail.
        """
        if not self.points:
            return tuple(self.steps * quarter // 4 for quarter in (1, 2, 3, 4))
        tested = [point.position for point in self.points]
        held = self.holds_to.position if self.holds_to is not None else 0
        edges = [(held, next((each for each in tested if each > held), held))]
        if self.fails_from is not None:
            failing = self.fails_from.position
            edges.append((max((each for each in tested if each < failing), default=0), failing))
        middles = {(low + high) // 2 for low, high in edges if high - low > 1}
        return tuple(sorted(middles - set(tested)))


def frontier(held: Mapping[tuple[int, int], bool], first: Sequence[int], second: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Returns for each position of the first severity how far the second may go: the largest up to which every cell at or below both holds.

    held: whether a pair of positions holds. first, second: the positions, mildest first. -1 where not even the mildest of the second holds.
    """
    found, reach = [], len(second)
    for place in first:
        reach = next((number for number, other in enumerate(second[:reach]) if not held[place, other]), reach)
        found.append((place, second[reach - 1] if reach else -1))
    return tuple(found)
