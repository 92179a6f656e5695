"""A domain: which variables a scenario has, within which ranges and on which scales, and the constraints between them.

Reference: offline and online testing (Haq et al. 2020), section II-D: an initial configuration is a vector of values assigned to the
variables of the domain model that satisfies its constraints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, log

import numpy as np

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import FloatArray
from skidpad.core.registry import Registry
from skidpad.core.seeding import child_rng, child_seed
from skidpad.core.stimuli import Choice, Parameter, Params, Real, Value, Whole
from skidpad.worlds.scenario.constraints import Constraint, Interval, Known, Only, Outside, Rule, all_constraints, violations
from skidpad.worlds.scenario.scenario import YES, BadScenarioError, RoadKind, Scenario, Weather, scenario_from, values_of

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


_CURVE_ONLY = frozenset({"road.radius_m", "road.side", "road.turn_deg"})
_DAY_ONLY = frozenset({"conditions.sun_azimuth_deg", "conditions.sun_elevation_deg"})
_OPEN_TO_ALL = frozenset({"seed", "duration_s"})
"""What no domain varies: a constraint bounds the duration, and any seed will do."""


@dataclass(frozen=True)
class Domain:
    """Variables in the order in which they are drawn, constraints, and the scenario that says what is not varied.

    A variable without effect has no value: the radius of a straight road, the sun at night, the intensity of sunshine, all values of a
    vehicle that does not exist. In a scenario such fields are the base's; in a vector they are any number.
    """

    name: str
    about: str
    variables: tuple[Variable, ...]
    base: Scenario = field(default_factory=Scenario)
    constraints: tuple[Constraint, ...] = field(default_factory=all_constraints)

    def __post_init__(self) -> None:
        names = self.names
        if len(set(names)) != len(names):
            raise BadParametersError(f"the domain {self.name!r} names a variable twice; got {', '.join(names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names, in order; a vector has as many numbers."""
        return tuple(variable.name for variable in self.variables)

    def with_parameters(self, *parameters: Parameter) -> Domain:
        """Returns the domain with other ranges for some of its variables."""
        new = {parameter.name: parameter for parameter in parameters}
        for name in new:
            self._variable(name)
        return replace(self, variables=tuple(replace(each, parameter=new.get(each.name, each.parameter)) for each in self.variables))

    def violations(self, scenario: Scenario) -> tuple[str, ...]:
        """Returns the names of the constraints that the scenario breaks."""
        return violations(scenario, self.constraints)

    def problems(self, scenario: Scenario) -> tuple[str, ...]:
        """Returns everything that keeps a scenario out of this domain, in words: ranges first, then constraints; no advisory ones."""
        found = []
        for name, value in self._relevant(values_of(scenario)).items():
            variable = self._by_name.get(name)
            if variable is None:
                fixed = self._base_values.get(name)
                if name not in _OPEN_TO_ALL and fixed is not None and value != fixed:
                    found.append(f"{name} is {_worded(value)}, and always {_worded(fixed)} there")
            elif not variable.parameter.accepts(value):
                found.append(f"{name} is {_worded(value)}, outside of its range: {variable.parameter}")
        return (*found, *self._broken(scenario, advisory=False))

    def warnings(self, scenario: Scenario) -> tuple[str, ...]:
        """Returns, in words, the advisory constraints that the scenario breaks: it can be driven, but none like it is drawn."""
        return self._broken(scenario, advisory=True)

    def _broken(self, scenario: Scenario, *, advisory: bool) -> tuple[str, ...]:
        rules = tuple(each for each in self.constraints if each.advisory is advisory)
        names = violations(scenario, rules)
        return tuple(f"it breaks {rule.name}: {rule.sentence} Way out: {rule.remedy}" for rule in rules if rule.name in names)

    def check(self, scenario: Scenario) -> None:
        """Refuses a scenario that is not of this domain, with all its problems."""
        problems = self.problems(scenario)
        if problems:
            raise BadScenarioError(f"not a scenario of the domain {self.name!r}: " + "; ".join(problems))

    def to_values(self, scenario: Scenario) -> Params:
        """Returns the values of the variables that have an effect in this scenario."""
        relevant = self._relevant(values_of(scenario))
        return Params(**{name: relevant[name] for name in self.names if name in relevant})

    def to_scenario(self, values: Mapping[str, Value], seed: int = 0) -> Scenario:
        """Makes the scenario of the values, one for each variable with an effect; what is not varied is the base's.

        Ranges are checked, constraints are not: see `violations`.
        """
        for name in values:
            self._variable(name)
        made = dict(self._base_values)
        for variable in self.variables:
            name = variable.name
            if not _has_effect(name, made):
                continue
            if name not in values:
                raise BadScenarioError(f"the domain {self.name!r} needs a value for {name!r} ({variable.parameter})")
            if not variable.parameter.accepts(values[name]):
                raise BadScenarioError(f"{name} is {_worded(values[name])}, outside of its range: {variable.parameter}")
            made[name] = values[name]
        return scenario_from(made | {"seed": seed})

    def decode(self, vector: FloatArray, seed: int = 0) -> Scenario:
        """Makes the scenario at a point of the unit cube, (len(names),).

        Each number is a fraction of what the earlier ones leave of its variable, so that nearly every point obeys the constraints; the
        few that cannot do not, and `violations` names them. Numbers outside [0, 1] count as the nearest bound.
        """
        point = np.asarray(vector, dtype=np.float64)
        if point.shape != (len(self.variables),) or not np.all(np.isfinite(point)):
            raise BadParametersError(f"a vector of the domain {self.name!r} is {len(self.variables)} finite numbers; got {vector}")
        made = dict(self._base_values)
        for variable, rules, fraction in zip(self.variables, self._rules, np.clip(point, 0.0, 1.0).tolist(), strict=True):
            if _has_effect(variable.name, made):
                made[variable.name] = read_fraction(variable, fraction, rules, _known(variable, made))
        return scenario_from(made | {"seed": seed})

    def encode(self, scenario: Scenario) -> FloatArray:
        """Returns the point of the unit cube, (len(names),), that decodes to the scenario; 0.5 where a variable has no effect."""
        self.check(scenario)
        values = dict(self._base_values) | self._relevant(values_of(scenario))
        point = np.full(len(self.variables), 0.5)
        for k, (variable, rules) in enumerate(zip(self.variables, self._rules, strict=True)):
            if not _has_effect(variable.name, values):
                continue
            fraction = fraction_of(variable, values[variable.name], rules, _known(variable, values))
            if fraction is None:
                raise BadScenarioError(f"{variable.name} = {_worded(values[variable.name])} does not fit the values before it")
            point[k] = fraction
        return point

    @cached_property
    def _by_name(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in self.variables}

    @cached_property
    def _base_values(self) -> dict[str, Value]:
        return values_of(self.base)

    @cached_property
    def _rules(self) -> tuple[tuple[Rule, ...], ...]:
        return tuple(
            tuple(each.narrows[variable.pattern] for each in self.constraints if variable.pattern in each.narrows)
            for variable in self.variables
        )

    def _variable(self, name: str) -> Variable:
        if name not in self._by_name:
            raise UnknownNameError.among(f"variable of the domain {self.name!r}", name, self._by_name)
        return self._by_name[name]

    def _relevant(self, values: Mapping[str, Value]) -> dict[str, Value]:
        return {name: value for name, value in values.items() if _has_effect(name, values)}


def _known(variable: Variable, values: Mapping[str, Value]) -> Known:
    return Known(values, variable.entity[1] if variable.entity else 0)


def _has_effect(name: str, values: Mapping[str, Value]) -> bool:
    """Tells whether a variable changes anything, given the values before it."""
    if name in _CURVE_ONLY:
        return values["road.kind"] == RoadKind.CURVED.value
    if name in _DAY_ONLY:
        return values["conditions.night"] != YES
    if name == "conditions.intensity":
        return values["conditions.weather"] != Weather.SUNNY.value
    group, _, rest = name.partition(".")
    number, _, key = rest.partition(".")
    return not (key and number.isdigit()) or int(number) <= int(values[f"{group}.count"])


def _worded(value: Value | None) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


DOMAINS: Registry[Domain] = Registry("domain", "domains", ("skidpad.worlds.scenario.domains",))


MAX_TRIES = 2_000
DECIMALS = 3
"""Sampled numbers are rounded to so many decimals, so that people can read scenarios and change them by hand."""
_BLAMED = 3


@dataclass(frozen=True, slots=True)
class Rejections:
    """How many draws were rejected, and how many of them broke each constraint, most first."""

    tries: int
    broken: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{name} broke {count:,}" for name, count in self.broken) or "none"


class UnsatisfiableError(BadScenarioError):
    """No scenario of a domain could be found that obeys its constraints."""

    def __init__(self, message: str, rejections: Rejections) -> None:
        super().__init__(message)
        self.rejections = rejections


@dataclass(frozen=True, slots=True)
class ScenarioSample:
    """Scenarios drawn from a domain, and how many draws were rejected."""

    scenarios: tuple[Scenario, ...]
    rejections: Rejections


def sample(domain: Domain, seed: int, count: int, first: int = 0, max_tries: int = MAX_TRIES) -> ScenarioSample:
    """Draws scenarios `first` to `first + count - 1`; number k does not depend on how many are drawn, nor on the others.

    max_tries: for each scenario, before the sampler gives up with an UnsatisfiableError.
    """
    if count < 0 or first < 0 or max_tries < 1:
        raise BadParametersError(
            f"count and first must be 0 or more and max_tries 1 or more; got count={count}, first={first}, max_tries={max_tries}"
        )
    scenarios, broken, tries = [], Counter[str](), 0
    for number in range(first, first + count):
        rng = child_rng(seed, "scenario", domain.name, number)
        scenario, rejections = draw(domain, rng, child_seed(seed, "scenario's own", domain.name, number), max_tries)
        scenarios.append(scenario)
        tries += rejections.tries
        broken.update(dict(rejections.broken))
    return ScenarioSample(tuple(scenarios), Rejections(tries, tuple(broken.most_common())))


def draw(domain: Domain, rng: np.random.Generator, seed: int, max_tries: int = MAX_TRIES) -> tuple[Scenario, Rejections]:
    """Draws one scenario that obeys the domain's constraints; `seed` becomes the scenario's own."""
    broken = Counter[str]()
    for tries in range(max_tries):
        scenario = domain.decode(rng.random(len(domain.variables)), seed)
        names = domain.violations(scenario)
        if not names:
            return _readable(domain, scenario), Rejections(tries, tuple(broken.most_common()))
        broken.update(names)
    rejections = Rejections(max_tries, tuple(broken.most_common()))
    raise UnsatisfiableError(_blame(domain, rejections), rejections)


def _readable(domain: Domain, scenario: Scenario) -> Scenario:
    """Rounds the numbers of a scenario, unless that takes it over a bound."""
    values = {name: round(value, DECIMALS) if isinstance(value, float) else value for name, value in domain.to_values(scenario).items()}
    try:
        rounded = domain.to_scenario(values, scenario.seed)
    except BadScenarioError:
        return scenario
    return scenario if domain.violations(rounded) else rounded


def _blame(domain: Domain, rejections: Rejections) -> str:
    rules = {rule.name: rule for rule in domain.constraints}
    blamed = [
        f"{name} broke {count:,} of them ({rules[name].sentence.rstrip('.')}): {rules[name].remedy}"
        for name, count in rejections.broken[:_BLAMED]
    ]
    return f"no scenario of the domain {domain.name!r} in {rejections.tries:,} tries; " + "; ".join(blamed)
