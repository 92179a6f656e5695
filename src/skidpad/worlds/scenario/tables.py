"""Scenarios as plain tables and as flat values by name, and back; both follow the fields of the types by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skidpad.core.settings import plain, read
from skidpad.core.stimuli import Value
from skidpad.worlds.scenario.scenario import BadScenarioError, Figure, Pace, Scenario, Weather

YES, NO = "yes", "no"
"""How a boolean is written among flat values, which are numbers and strings."""


def table_of(scenario: Scenario) -> dict[str, object]:
    """Writes a scenario as nested tables of numbers, strings and booleans, every key spelled out."""
    table: dict[str, object] = _without_idle(plain(scenario))
    # Plain keys come first, as TOML wants them; empty lists of vehicles and pedestrians are left out.
    keys = {name: value for name, value in table.items() if not isinstance(value, dict | list)}
    return keys | {name: value for name, value in table.items() if isinstance(value, dict | list) and value}


_IDLE: dict[str, object] = {"pieces": [], "pace": Pace.CONSTANT.value, "offset_m": 0.0, "moves": [], "figure": Figure.CAR.value}
"""Keys that are left out where they say nothing, so that a scenario without moves reads, and hashes, as it did before there were any."""


def _without_idle(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_idle(item) for key, item in value.items() if key not in _IDLE or item != _IDLE[key]}
    return [_without_idle(item) for item in value] if isinstance(value, list) else value


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
    table = table_of(scenario)
    return dict(_flat(table | {group: table.get(group, []) for group in ("vehicles", "pedestrians")}, ""))


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
    table: dict[str, Any] = {}
    for name, value in values.items():
        *path, key = name.split(".")
        if key == "count" or not _exists(path, values):
            continue
        inner: Any = table
        for place, part in enumerate(path):
            if part.isdigit():
                inner = inner[int(part) - 1]
            else:
                count = values.get(".".join([*path[: place + 1], "count"]))
                inner = inner.setdefault(part, {} if count is None else [{} for _ in range(int(count))])
        inner[key] = value == YES if value in {YES, NO} else value
    return scenario_of(table)


def _exists(path: list[str], values: Mapping[str, Value]) -> bool:
    """Tells whether what a path leads through is among as many as there are."""
    return all(int(part) <= int(values[".".join([*path[:place], "count"])]) for place, part in enumerate(path) if part.isdigit())
