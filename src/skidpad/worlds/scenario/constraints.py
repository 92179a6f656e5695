"""Constraints: what every scenario must obey, each with a name, a sentence, and what to change where it is in the way.

The paper writes them in OCL and publishes them apart from its text; these are ours, physical limits and rules of traffic as there.

A constraint is a predicate over a whole scenario. Where it is simple, it also tells which values of one variable are still possible
when others are known, so that sampling and search need not throw away what they draw.

Reference: offline and online testing (Haq et al. 2020), section II-D.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from skidpad.core.registry import Registry
from skidpad.core.stimuli import Value
from skidpad.worlds.scenario.scenario import BadScenarioError, Scenario

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Only:
    """A whole variable or a choice has only these values left."""

    values: frozenset[Value]


@dataclass(frozen=True, slots=True)
class Outside:
    """A real variable must not lie inside any of these open intervals."""

    gaps: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a variable is about to be drawn: flat values by name, and whose variable it is.

    number: of the vehicle or pedestrian, counted from 1; 0 for a variable of the road, the weather or the ego.
    """

    values: Mapping[str, Value]
    number: int = 0

    def real(self, name: str) -> float:
        """Returns a known number."""
        return float(self.values[name])

    def whole(self, name: str) -> int:
        """Returns a known whole number."""
        return int(self.values[name])

    def word(self, name: str) -> str:
        """Returns a known string."""
        return str(self.values[name])


Rule = Callable[[Known], Only | Outside]


@dataclass(frozen=True, eq=False, slots=True)
class Constraint:
    """A named predicate over a scenario.

    sentence: what must hold. remedy: what to change in a domain or a file where it does not. narrows: rules by variable, where a `*`
    stands for the number of a vehicle or pedestrian; a rule looks only at variables that are drawn earlier, and takes away no value
    that a scenario could have without breaking this constraint. advisory: drawn scenarios obey it; a scenario file may break it and is
    then warned about.
    """

    name: str
    sentence: str
    remedy: str
    holds: Callable[[Scenario], bool]
    narrows: Mapping[str, Rule] = field(default_factory=dict)
    advisory: bool = False


CONSTRAINTS: Registry[Constraint] = Registry(
    "constraint", "constraints", ("skidpad.worlds.scenario.road_constraints", "skidpad.worlds.scenario.traffic_constraints")
)


def constraint(
    name: str, sentence: str, remedy: str, narrows: Mapping[str, Rule] | None = None, *, advisory: bool = False
) -> Callable[[Callable[[Scenario], bool]], Constraint]:
    """Decorates a predicate as the constraint `name` and registers it."""

    def make(holds: Callable[[Scenario], bool]) -> Constraint:
        return CONSTRAINTS.register(name)(Constraint(name, sentence, remedy, holds, narrows or {}, advisory))

    return make


@cache
def all_constraints() -> tuple[Constraint, ...]:
    """Returns every registered constraint."""
    return tuple(CONSTRAINTS.get(name) for name in CONSTRAINTS.names())


def violations(scenario: Scenario, constraints: tuple[Constraint, ...] | None = None) -> tuple[str, ...]:
    """Returns the names of the constraints that the scenario breaks, in their order. constraints: all registered ones by default."""
    return tuple(rule.name for rule in (all_constraints() if constraints is None else constraints) if not _holds(rule, scenario))


def _holds(rule: Constraint, scenario: Scenario) -> bool:
    try:
        return rule.holds(scenario)
    except BadScenarioError:
        # So wrong that nothing can be computed: a lane that the road does not have, a road without length.
        return False
