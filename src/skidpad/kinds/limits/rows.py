"""The rows of a table of limits: each a way in which a condition gets harder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.stimuli import Condition, Params, Recipe, Severity, Step, Stimulus, Whole
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
