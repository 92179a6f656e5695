"""Sampling: scenarios that obey every constraint of a domain, or which constraint is to blame where there are none.

Reference: offline and online testing (Haq et al. 2020), section III: scenarios are generated at random from the domain model.
Deviates: the paper does not say how. Variables are drawn one after another, each evenly from what the constraints leave of it after the
earlier ones; what still breaks a constraint is thrown away. So speeds are even within what a bend allows, and not over all of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.seeding import child_rng, child_seed
from skidpad.worlds.scenario.domain import Domain
from skidpad.worlds.scenario.scenario import BadScenarioError, Scenario

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
class Sample:
    """Scenarios drawn from a domain, and how many draws were rejected."""

    scenarios: tuple[Scenario, ...]
    rejections: Rejections


def sample(domain: Domain, seed: int, count: int, first: int = 0, max_tries: int = MAX_TRIES) -> Sample:
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
    return Sample(tuple(scenarios), Rejections(tries, tuple(broken.most_common())))


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
