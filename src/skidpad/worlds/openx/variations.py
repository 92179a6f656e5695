"""Variations of a scenario: files of OpenSCENARIO that give a scenario's parameters other values, each with each."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, gcd, prod
from pathlib import Path
from xml.etree.ElementTree import Element

from skidpad.worlds.openx.conditions import RULES
from skidpad.worlds.openx.documents import Parameters, beside
from skidpad.worlds.scenario.scenario import BadScenarioError

MOST = 64
"""Of one file; of more combinations so many are read, evenly spread."""

_VALUES = 10_000
"""Of one parameter."""
_NONE = Parameters({})


def varied(root: Element, path: Path) -> tuple[Path, list[dict[str, str]], int]:
    """Returns the scenario that a variation is of, at most MOST sets of values, and how many there are."""
    distribution = root.find("ParameterValueDistribution")
    scenario = None if distribution is None else distribution.find("ScenarioFile")
    deterministic = None if distribution is None else distribution.find("Deterministic")
    if scenario is None or deterministic is None:
        raise BadScenarioError("it is a variation without a scenario, or by chance; only sets and ranges of values are read")
    choices = [_choices(each) for each in deterministic]
    total = prod(len(each) for each in choices)
    if not total:
        raise BadScenarioError("it is a variation without any values")
    sets = [_combination(choices, number) for number in _spread(total)]
    return beside(path, _NONE.text(scenario, "filepath")), sets, total


def _spread(total: int) -> list[int]:
    """Returns at most MOST numbers below a total, spread so that they are in step with no parameter: by the golden ratio."""
    if total <= MOST:
        return list(range(total))
    step = next(each for each in range(int(total * 0.618), total) if gcd(each, total) == 1)
    return sorted(number * step % total for number in range(MOST))


def _combination(choices: list[list[dict[str, str]]], number: int) -> dict[str, str]:
    """Returns the combination of a number; the last choice changes first."""
    told: dict[str, str] = {}
    for options in reversed(choices):
        number, place = divmod(number, len(options))
        told |= options[place]
    return told


def _choices(element: Element) -> list[dict[str, str]]:
    if element.tag == "DeterministicMultiParameterDistribution":
        sets = element.iterfind("ValueSetDistribution/ParameterValueSet")
        return [{one.get("parameterRef", ""): one.get("value", "") for one in each.iterfind("ParameterAssignment")} for each in sets]
    name = element.get("parameterName", "")
    values = [each.get("value", "") for each in element.iterfind("DistributionSet/Element")]
    for span in element.iterfind("DistributionRange"):
        step, limits = _NONE.number(span, "stepWidth"), span.find("Range")
        low, high = _NONE.number(limits, "lowerLimit"), _NONE.number(limits, "upperLimit")
        if step <= 0.0 or (high - low) / step > _VALUES:
            raise BadScenarioError(f"the range of {name!r} has no usable step; got {step:g}")
        values += [repr(low + number * step) for number in range(floor((high - low) / step + 1e-9) + 1)]
    if not values:
        raise BadScenarioError(f"a variation of it says neither a set nor a range of values for {name!r}")
    return [{name: value} for value in values]


def broken_constraints(root: Element, parameters: Parameters) -> Iterator[str]:
    """Names the parameters whose values break the constraints of their declarations: of one group, all must hold."""
    for declared in root.iterfind("ParameterDeclarations/ParameterDeclaration"):
        groups = declared.findall("ConstraintGroup")
        value = parameters.values.get(declared.get("name", ""), "")
        if groups and not any(all(_holds(value, each, parameters) for each in group.iterfind("ValueConstraint")) for group in groups):
            yield declared.get("name", "")


def _holds(value: str, constraint: Element, parameters: Parameters) -> bool:
    wanted, rule = parameters.text(constraint, "value"), constraint.get("rule", "")
    try:
        return RULES[rule](float(value), float(wanted)) if rule in RULES else True
    except ValueError:
        return (value == wanted) is (rule != "notEqualTo")
