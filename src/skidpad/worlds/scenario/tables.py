"""Scenarios as plain tables and as flat values by name, and back; both follow the fields of the types by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from skidpad.core.settings import plain, read
from skidpad.core.stimuli import Value
from skidpad.worlds.scenario.scenario import BadScenarioError, Scenario, Weather

YES, NO = "yes", "no"
"""How a boolean is written among flat values, which are numbers and strings."""


def table_of(scenario: Scenario) -> dict[str, object]:
    """Writes a scenario as nested tables of numbers, strings and booleans, every key spelled out."""
    table: dict[str, object] = plain(scenario)
    # Plain keys come first, as TOML wants them; empty lists of vehicles and pedestrians are left out.
    keys = {name: value for name, value in table.items() if not isinstance(value, dict | list)}
    return keys | {name: value for name, value in table.items() if isinstance(value, dict | list) and value}


def scenario_of(table: object) -> Scenario:
    """Reads what `table_of` wrote; keys left out take their defaults, unknown ones and wrong kinds are refused by name."""
    made = read(Scenario, table, "the scenario", BadScenarioError)
    conditions = table.get("conditions", {}) if isinstance(table, Mapping) else {}
    # The default is an intensity of weather; the sun has none.
    if "intensity" not in conditions and made.conditions.weather is Weather.SUNNY:
        return replace(made, conditions=replace(made.conditions, intensity=0.0))
    return made


def values_of(scenario: Scenario) -> dict[str, Value]:
    """Writes a scenario as flat values, as `road.radius_m`, `vehicles.count`, `vehicles.1.lane`."""
    return dict(_flat(table_of(scenario) | {"vehicles": plain(scenario.vehicles), "pedestrians": plain(scenario.pedestrians)}, ""))


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
        told: object = value == YES if value in {YES, NO} else value
        first, _, rest = name.partition(".")
        if not rest:
            table[first] = told
            continue
        number, _, key = rest.partition(".")
        if not key and rest != "count":
            group = table.setdefault(first, {})
            if isinstance(group, dict):
                group[rest] = told
        elif key and int(number) <= int(values[f"{first}.count"]):
            group = table.setdefault(first, [{} for _ in range(int(values[f"{first}.count"]))])
            if isinstance(group, list):
                group[int(number) - 1][key] = told
    return scenario_of(table)
