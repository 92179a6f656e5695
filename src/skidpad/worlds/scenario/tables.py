"""Scenarios as plain tables and as flat values by name, and back; both follow the fields of the types by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from math import isfinite
from typing import TypeVar, get_args, get_origin, get_type_hints

from skidpad.core.errors import UnknownNameError
from skidpad.core.stimuli import Value
from skidpad.worlds.scenario.scenario import (
    BadScenarioError,
    Conditions,
    Ego,
    OtherVehicle,
    Pedestrian,
    RoadPlan,
    Scenario,
    Surroundings,
    Weather,
)

YES, NO = "yes", "no"
"""How a boolean is written among flat values, which are numbers and strings."""

T = TypeVar("T")


def table_of(scenario: Scenario) -> dict[str, object]:
    """Writes a scenario as nested tables of numbers, strings and booleans, every key spelled out."""
    table = {field.name: _plain(getattr(scenario, field.name)) for field in fields(scenario)}
    # Plain keys come first, as TOML wants them; empty lists of vehicles and pedestrians are left out.
    plain = {name: value for name, value in table.items() if not isinstance(value, dict | list)}
    return plain | {name: value for name, value in table.items() if isinstance(value, dict | list) and value}


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def scenario_of(table: object) -> Scenario:
    """Reads what `table_of` wrote; keys left out take their defaults, unknown ones and wrong kinds are refused by name."""
    made = _read(Scenario, table, "")
    conditions = table.get("conditions", {}) if isinstance(table, Mapping) else {}
    # The default is an intensity of weather; the sun has none.
    if "intensity" not in conditions and made.conditions.weather is Weather.SUNNY:
        return replace(made, conditions=replace(made.conditions, intensity=0.0))
    return made


_TYPES = (Scenario, RoadPlan, Conditions, Surroundings, Ego, OtherVehicle, Pedestrian)
_KINDS: dict[object, dict[str, object]] = {type_: get_type_hints(type_) for type_ in _TYPES}
_NEEDED: dict[object, tuple[str, ...]] = {
    type_: tuple(each.name for each in fields(type_) if each.default is MISSING and each.default_factory is MISSING) for type_ in _TYPES
}


def _read(type_: type[T], table: object, where: str) -> T:
    name = f"[{where}]" if where else "the scenario"
    if not isinstance(table, Mapping):
        raise BadScenarioError(f"{name} must be a table of keys; got {table!r}")
    kinds = _KINDS[type_]
    for key in table:
        if key not in kinds:
            raise BadScenarioError(str(UnknownNameError.among(f"key of {name}", str(key), kinds)))
    lacking = [key for key in _NEEDED[type_] if key not in table]
    if lacking:
        raise BadScenarioError(f"{name} lacks the key {lacking[0]!r}; write it out")
    path = f"{where}." if where else ""
    return type_(**{key: _value(kinds[key], value, path + key) for key, value in table.items()})


def _value(kind: object, value: object, where: str) -> object:
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise BadScenarioError(f"{where} must be tables [[{where}]], one for each; got {value!r}")
        return tuple(_read(get_args(kind)[0], item, f"{where}.{number}") for number, item in enumerate(value, 1))
    if isinstance(kind, type) and is_dataclass(kind):
        return _read(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        options = [str(option.value) for option in kind]
        if value not in options:
            raise BadScenarioError(str(UnknownNameError.among(f"value for {where}", str(value), options)))
        return kind(value)
    if kind is bool:
        if not isinstance(value, bool):
            raise BadScenarioError(f"{where} must be true or false; got {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise BadScenarioError(f"{where} must be a number; got {value!r}")
    if kind is int:
        if not float(value).is_integer():
            raise BadScenarioError(f"{where} must be a whole number; got {value!r}")
        return int(value)
    return float(value)


def values_of(scenario: Scenario) -> dict[str, Value]:
    """Writes a scenario as flat values, as `road.radius_m`, `vehicles.count`, `vehicles.1.lane`."""
    return dict(_flat(table_of(scenario) | {"vehicles": _plain(scenario.vehicles), "pedestrians": _plain(scenario.pedestrians)}, ""))


def _flat(table: Mapping[str, object], path: str) -> list[tuple[str, Value]]:
    values: list[tuple[str, Value]] = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            values += _flat(value, f"{path}{key}.")
        elif isinstance(value, list):
            values.append((f"{path}{key}.count", len(value)))
            for number, item in enumerate(value, 1):
                values += _flat(item, f"{path}{key}.{number}.")
        elif isinstance(value, bool):
            values.append((path + key, YES if value else NO))
        elif isinstance(value, int | float | str):
            values.append((path + key, value))
    return values


def scenario_from(values: Mapping[str, Value]) -> Scenario:
    """Reads what `values_of` wrote; values of entities beyond their count are ignored."""
    table: dict[str, object] = {}
    for name, value in values.items():
        plain: object = value == YES if value in {YES, NO} else value
        first, _, rest = name.partition(".")
        if not rest:
            table[first] = plain
            continue
        number, _, key = rest.partition(".")
        if not key and rest != "count":
            group = table.setdefault(first, {})
            if isinstance(group, dict):
                group[rest] = plain
        elif key and int(number) <= int(values[f"{first}.count"]):
            group = table.setdefault(first, [{} for _ in range(int(values[f"{first}.count"]))])
            if isinstance(group, list):
                group[int(number) - 1][key] = plain
    return scenario_of(table)
