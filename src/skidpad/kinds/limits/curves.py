"""The rows of a table of limits, each a way in which a condition gets harder; and the dose-response curve over one of them.

The curve says where a network holds, where it fails, and where to look next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite, isnan

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.stimuli import Condition, Params, Recipe, Severity, Step, Stimulus, Whole
from skidpad.statistics.intervals import Interval
from skidpad.stimuli.registry import TRANSFORMS, stimuli


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One severity of a condition, cut into `steps` steps from harmless to worst; is_whole: whether it counts, as bits do."""

    stimulus: str
    severity: Severity
    steps: int
    is_whole: bool = False

    @property
    def name(self) -> str:
        """The name of the row."""
        return self.severity.name

    def value(self, position: int) -> float:
        """Returns the severity at a position, in its unit."""
        value = self.severity.at(position / self.steps)
        return float(round(value)) if self.is_whole else value

    def words(self, position: int) -> str:
        """Words the severity at a position with its unit."""
        return with_unit(self.value(position), self.severity.unit)

    def step(self, position: int, space: Stimulus) -> Step:
        """Returns the condition at a position; parameters that the severity leaves open have their usual value."""
        params = Params(**(dict(self.severity.others) | {self.severity.parameter: self.value(position)}))
        return Step(self.stimulus, space.space.filled(self.stimulus, params))

    def recipe(self, position: int, made: Mapping[str, Stimulus]) -> Recipe:
        """Returns what turns frames into those at a position."""
        return Recipe((self.step(position, made[self.stimulus]),))

    def position(self, value: float, where: str) -> float:
        """Returns how many steps from harmless a value lies; refuses one outside the range."""
        ends = sorted((self.severity.harmless, self.severity.worst))
        if not isfinite(value) or not ends[0] <= value <= ends[1]:
            raise BadParametersError(
                f"{where}: {self.severity.parameter} of {self.name} is tested from {self.severity.harmless:g} to "
                f"{self.severity.worst:g} {self.severity.unit}; got {value:g}"
            )
        return self.severity.share(value) * self.steps


def with_unit(value: float, unit: str) -> str:
    """Words a severity: three digits are more than any limit is known to."""
    return f"{float(f'{value:.3g}'):g} {unit}".strip()


def rows_of(names: Sequence[str], steps: int, pairs: Sequence[str] = ()) -> tuple[tuple[LimitRow, ...], Mapping[str, Stimulus]]:
    """Returns the rows that names and pairs (fog,dusk) mean, all where there are no names, and the conditions behind them.

    A name is that of a condition, which may have several severities, or of one of these, or a class of one's own as module:Name.
    """
    made = stimuli()
    own = {name: each for name, each in stimuli(name for name in names if ":" in name).items() if name not in made}
    rows = all_rows({**made, **own}, steps)
    if not rows:
        raise UnknownNameError("no stimulus is a condition in physical units, so that nothing has a limit; see `skidpad list transforms`")
    chosen = rows if not names else tuple(row for name in names for row in _named(name, rows))
    for name in (one.strip().partition(".")[0] for pair in pairs for one in pair.split(",")):
        if all(name not in {row.name, row.stimulus} for row in chosen):
            chosen += _named(name, rows)
    doubled = sorted({row.name for row in chosen if sum(each.name == row.name for each in chosen) > 1})
    if doubled:
        raise BadParametersError(f"each condition is named once; got {', '.join(doubled)} twice")
    return chosen, {row.stimulus: {**made, **own}[row.stimulus] for row in chosen}


def all_rows(made: Mapping[str, Stimulus], steps: int) -> tuple[LimitRow, ...]:
    """Returns every row of every condition."""
    return tuple(
        LimitRow(name, each, steps, any(isinstance(one, Whole) and one.name == each.parameter for one in found.space.parameters))
        for name, found in made.items()
        if isinstance(found, Condition)
        for each in found.severities
    )


def row_named(name: str, rows: Iterable[LimitRow], value: float | None = None) -> LimitRow:
    """Returns the row `fog`, or `fog.visibility_m`: of a condition or a severity, with the parameter where it has several.

    value: one of the parameter, whose sign tells a camera that looks down from one that looks up.
    """
    known = tuple(rows)
    first, dot, parameter = name.partition(".")
    if first not in {each for row in known for each in (row.name, row.stimulus)}:
        raise UnknownNameError.among("condition", first, {row.name for row in known})
    found = [row for row in known if row.name == first] or [row for row in known if row.stimulus == first]
    if dot:
        parameters = {row.severity.parameter for row in found}
        found = [row for row in found if row.severity.parameter == parameter]
        if not found:
            raise UnknownNameError.among(f"parameter of {first!r}", parameter, parameters)
    if value is not None and len(found) > 1:
        found = [row for row in found if value * row.severity.worst >= 0.0] or found
    if len(found) > 1:
        spelled = " and ".join(repr(row.name) for row in found)
        raise BadParametersError(f"{name!r} means {spelled}; write one of these names in its place")
    return found[0]


def _named(name: str, rows: Sequence[LimitRow]) -> tuple[LimitRow, ...]:
    if "(" in name or "+" in name or ("." in name and ":" not in name):
        raise BadParametersError(f"`limits` finds the severity by itself; name the condition alone, as fog; got {name!r}")
    found = tuple(row for row in rows if row.name == name) or tuple(row for row in rows if row.stimulus == name)
    if found:
        return found
    if ":" in name or name in TRANSFORMS.names():
        raise BadParametersError(
            f"{name!r} is no condition in physical units, so that it has no severity to find a limit of; "
            f"conditions: {', '.join(dict.fromkeys(row.stimulus for row in rows))}"
        )
    raise UnknownNameError.among("condition", name, {row.stimulus for row in rows}, [row.name for row in rows])


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
