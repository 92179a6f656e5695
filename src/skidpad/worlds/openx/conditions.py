"""OpenSCENARIO's parameter variations, and the triggers of storyboards: on time, places and speeds, and on what has happened before."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import floor, gcd, hypot, inf, prod
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from skidpad.worlds.openx.documents import Parameters, beside, children
from skidpad.worlds.openx.openscenario import AXLE_TO_MIDDLE_M
from skidpad.worlds.scenario.scenario import BadScenarioError
from skidpad.worlds.scenario.tracks import TrackMoment

if TYPE_CHECKING:
    from skidpad.worlds.openx.storyboard import Rehearsal

RULES: Mapping[str, Callable[[float, float], bool]] = {
    "greaterThan": operator.gt,
    "lessThan": operator.lt,
    "equalTo": operator.eq,
    "greaterOrEqual": operator.ge,
    "lessOrEqual": operator.le,
    "notEqualTo": operator.ne,
}
_STANDING_M_S = 0.01
_LONGEST_DELAY_S = 3600.0


Test = Callable[["Rehearsal"], bool]


class CannotTellError(BadScenarioError):
    """A condition that cannot be evaluated here."""


@dataclass(slots=True)
class _Condition:
    """One condition with its edge and delay. It is asked once a step, and remembers when it held."""

    test: Test
    edge: str
    delay_s: float
    _before: bool | None = None
    _held: list[bool] = field(default_factory=list)

    def holds(self, scene: Rehearsal, step_s: float) -> bool:
        now = self.test(scene)
        is_edge = {
            "rising": self._before is False and now,
            "falling": self._before is True and not now,
            "risingOrFalling": self._before is not None and self._before != now,
        }
        self._held.append(is_edge.get(self.edge, now))
        self._before = now
        ago = round(self.delay_s / step_s)
        return len(self._held) > ago and self._held[-1 - ago]


@dataclass(slots=True)
class Trigger:
    """Groups of conditions: all of one group must hold."""

    groups: list[list[_Condition]]

    def holds(self, scene: Rehearsal, step_s: float) -> bool:
        """Tells whether it is time; asked once a step from when it may fire."""
        # Every condition is asked, so that each remembers when it held.
        held = [[each.holds(scene, step_s) for each in group] for group in self.groups]
        return any(all(group) for group in held)

    @classmethod
    def of(cls, element: Element | None, parameters: Parameters, *, skips: bool = False) -> Trigger | None:
        """Reads a trigger; None where there is none. skips: leave out groups with conditions that cannot be evaluated."""
        if element is None:
            return None
        groups = []
        for group in element.iterfind("ConditionGroup"):
            try:
                groups.append([_condition(each, parameters) for each in group.iterfind("Condition")])
            except CannotTellError:
                if not skips:
                    raise
        return cls(groups)


def _condition(element: Element, parameters: Parameters) -> _Condition:
    edge, delay_s = parameters.text(element, "conditionEdge", "none"), parameters.number(element, "delay", 0.0)
    if not 0.0 <= delay_s <= _LONGEST_DELAY_S:
        raise CannotTellError(f"a condition of it has a delay of {delay_s:g} s")
    by_value, by_entity = element.find("ByValueCondition"), element.find("ByEntityCondition")
    if by_value is not None and len(by_value):
        return _Condition(_by_value(by_value[0], parameters), edge, delay_s)
    told = None if by_entity is None else by_entity.find("EntityCondition")
    if by_entity is None or told is None or not len(told):
        raise CannotTellError("a condition of it asks nothing")
    who = by_entity.find("TriggeringEntities")
    names = [parameters.text(each, "entityRef") for each in children(who) if each.tag == "EntityRef"]
    one = _by_entity(told[0], parameters)
    joined = all if who is not None and who.get("triggeringEntitiesRule") == "all" else any
    return _Condition(lambda scene: joined(one(scene, name) for name in names), edge, delay_s)


def _rule(element: Element, parameters: Parameters) -> Callable[[float, float], bool]:
    name = parameters.text(element, "rule", "greaterThan")
    if name not in RULES:
        raise CannotTellError(f"a condition of it compares by {name!r}, which is none of {', '.join(RULES)}")
    return RULES[name]


def _by_value(element: Element, parameters: Parameters) -> Test:
    if element.tag == "SimulationTimeCondition":
        compare, value = _rule(element, parameters), parameters.number(element, "value")
        return lambda scene: compare(round(scene.time_s, 9), round(value, 9))
    if element.tag == "StoryboardElementStateCondition":
        name, state = parameters.text(element, "storyboardElementRef").rpartition("::")[2], parameters.text(element, "state")
        return lambda scene: scene.state(name, state)
    if element.tag == "ParameterCondition":
        told, wanted = parameters.values.get(element.get("parameterRef", ""), ""), parameters.text(element, "value")
        compare = _rule(element, parameters)
        try:
            holds = compare(float(told), float(wanted))
        except ValueError:
            holds = (told == wanted) is (compare is not operator.ne)
        return lambda scene: holds  # noqa: ARG005
    raise CannotTellError(f"a trigger of it waits for a {element.tag}")


def _by_entity(element: Element, parameters: Parameters) -> Callable[[Rehearsal, str], bool]:
    tag = element.tag
    if tag == "StandStillCondition":
        duration_s = parameters.number(element, "duration")
        return lambda scene, name: scene.stood_s(name) >= duration_s
    if element.get("value") is None:
        raise CannotTellError(f"a trigger of it waits for a {tag}")
    value = parameters.number(element, "value")
    if tag == "TraveledDistanceCondition":
        return lambda scene, name: scene.travelled_m(name) >= value
    compare = _rule(element, parameters)
    if tag == "SpeedCondition":
        return lambda scene, name: compare(_there(scene, name).speed_m_s, value)
    if tag == "AccelerationCondition":
        return lambda scene, name: compare(_there(scene, name).acceleration_m_s2, value)
    measures: Mapping[str, Callable[[TrackMoment, TrackMoment, Element], float]] = {
        "RelativeDistanceCondition": _distance_m,
        "RelativeSpeedCondition": lambda one, other, _: one.speed_m_s - other.speed_m_s,
        "TimeHeadwayCondition": lambda one, other, told: _distance_m(one, other, told) / max(one.speed_m_s, 1e-6),
        "TimeToCollisionCondition": _ttc_s,
    }
    target = element.find(".//EntityRef")
    other = element.get("entityRef") or (None if target is None else target.get("entityRef"))
    if tag not in measures or other is None:
        raise CannotTellError(f"a trigger of it waits for a {tag}")
    measure = measures[tag]
    return lambda scene, name: compare(measure(_there(scene, name), _there(scene, other), element), value)


def _there(scene: Rehearsal, name: str) -> TrackMoment:
    if name not in scene.moments:
        raise BadScenarioError(f"a trigger of it refers to {name!r}, which has no position")
    return scene.moments[name]


def _distance_m(one: TrackMoment, other: TrackMoment, told: Element) -> float:
    """Returns a distance as a condition wants it: along the road unless it says otherwise; free of the cars where it says so."""
    kind = told.get("relativeDistanceType", "longitudinal")
    is_free = told.get("freespace") == "true"
    along_m = abs(other.s_m - one.s_m if is_free else (other.s_m - other.way * AXLE_TO_MIDDLE_M) - (one.s_m - one.way * AXLE_TO_MIDDLE_M))
    across_m = abs(other.lateral_m - one.lateral_m)
    if is_free:
        length_m, width_m = (0.5 * (mine + theirs) for mine, theirs in zip(one.size_m, other.size_m, strict=True))
        along_m, across_m = max(along_m - length_m, 0.0), max(across_m - width_m, 0.0)
    if kind == "lateral":
        return across_m
    return along_m if kind == "longitudinal" else hypot(along_m, across_m)


def _ttc_s(one: TrackMoment, other: TrackMoment, told: Element) -> float:
    sign = 1.0 if other.s_m >= one.s_m else -1.0
    closing_m_s = sign * (one.way * one.speed_m_s - other.way * other.speed_m_s)
    return _distance_m(one, other, told) / closing_m_s if closing_m_s > 1e-6 else inf


def standing(moment: TrackMoment) -> bool:
    """Tells whether somebody stands."""
    return moment.speed_m_s < _STANDING_M_S


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
