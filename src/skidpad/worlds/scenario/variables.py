"""Variables of a domain: a parameter with its scale, and the way between its values and the unit interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from skidpad.core.stimuli import Choice, Parameter, Real, Value, Whole
from skidpad.worlds.scenario.constraints import Interval, Known, Only, Outside, Rule

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Variable:
    """One thing that a domain leaves open. logarithmic: a real variable is drawn evenly by its logarithm."""

    parameter: Parameter
    logarithmic: bool = False

    @property
    def name(self) -> str:
        """The parameter's name, as `road.radius_m` or `vehicles.2.lane`."""
        return self.parameter.name

    @property
    def entity(self) -> tuple[str, int] | None:
        """The vehicle or pedestrian that the variable belongs to, as ("vehicles", 2); None for any other variable."""
        group, _, rest = self.name.partition(".")
        number, _, key = rest.partition(".")
        return (group, int(number)) if key else None

    @property
    def pattern(self) -> str:
        """The name with a `*` for the number of a vehicle or pedestrian."""
        if self.entity is None:
            return self.name
        group, _, key = self.name.split(".", 2)
        return f"{group}.*.{key}"


def read_fraction(variable: Variable, fraction: float, rules: Sequence[Rule], known: Known) -> Value:
    """Returns the value at a fraction, 0..1, of what the rules leave of a variable; of all of it where they leave nothing."""
    parameter = variable.parameter
    if not isinstance(parameter, Real):
        options = _options(parameter, rules, known)
        return options[min(int(fraction * len(options)), len(options) - 1)]
    intervals = _intervals(parameter, rules, known)
    lengths = [_scaled(variable, high) - _scaled(variable, low) for low, high in intervals]
    left = fraction * sum(lengths)
    for (low, high), length in zip(intervals, lengths, strict=True):
        if left <= length:
            return min(max(_unscaled(variable, _scaled(variable, low) + left), low), high)
        left -= length
    return intervals[-1][1]


def fraction_of(variable: Variable, value: Value, rules: Sequence[Rule], known: Known) -> float | None:
    """Returns the fraction at which `read_fraction` gives the value; None where it is not among what the rules leave."""
    parameter = variable.parameter
    if not isinstance(parameter, Real):
        options = _options(parameter, rules, known)
        return (options.index(value) + 0.5) / len(options) if value in options else None
    number = float(value)
    intervals = _intervals(parameter, rules, known)
    lengths = [_scaled(variable, high) - _scaled(variable, low) for low, high in intervals]
    before = 0.0
    for (low, high), length in zip(intervals, lengths, strict=True):
        if low - _ROUNDING <= number <= high + _ROUNDING:
            inside = _scaled(variable, min(max(number, low), high)) - _scaled(variable, low)
            return min((before + inside) / sum(lengths), 1.0) if sum(lengths) > 0.0 else 0.5
        before += length
    return None


def _scaled(variable: Variable, value: float) -> float:
    return log(value) if variable.logarithmic else value


def _unscaled(variable: Variable, value: float) -> float:
    return exp(value) if variable.logarithmic else value


def _options(parameter: Whole | Choice, rules: Sequence[Rule], known: Known) -> list[Value]:
    every: list[Value] = list(parameter.options) if isinstance(parameter, Choice) else list(range(parameter.low, parameter.high + 1))
    if not rules:
        return every
    found = [rule(known) for rule in rules]
    left = [value for value in every if all(value in only.values for only in found if isinstance(only, Only))]
    return left or every


def _intervals(parameter: Real, rules: Sequence[Rule], known: Known) -> list[Interval]:
    """Returns what is left of [low, high], rising; the gaps are open, so that a single point may be left."""
    whole = (float(parameter.low), float(parameter.high))
    left = [whole]
    for rule in rules:
        found = rule(known)
        for gap in found.gaps if isinstance(found, Outside) else ():
            left = [part for interval in left for part in _without(interval, gap)]
    return left or [whole]


def _without(interval: Interval, gap: Interval) -> list[Interval]:
    low, high = interval
    if gap[1] <= low or gap[0] >= high:
        return [interval]
    return [part for part in ((low, min(high, gap[0])), (max(low, gap[1]), high)) if part[0] <= part[1]]
