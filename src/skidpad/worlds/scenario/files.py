"""Scenario files: readable TOML or JSON, one scenario or a list of them, checked against a domain when they are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skidpad.core.errors import UnknownNameError
from skidpad.core.files import write_atomically
from skidpad.core.settings import read_toml, write_toml
from skidpad.worlds.scenario.domain import DOMAINS, Domain
from skidpad.worlds.scenario.domains import STANDARDS
from skidpad.worlds.scenario.scenario import BadScenarioError, Pace, Scenario, scenario_of, table_of

SUFFIXES = (".toml", ".json")
OPENSCENARIO = ".xosc"
DEFAULT_DOMAIN = "extended"

_LIST, _NAME = "scenarios", "name"


@dataclass(frozen=True, slots=True)
class NamedScenario:
    """A scenario and what reports call it."""

    name: str
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class SkippedScenario:
    """A scenario that could not be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScenarioSet:
    """What was found at a path: the scenarios that can be used, those that cannot, and warnings about some of the former."""

    scenarios: tuple[NamedScenario, ...]
    skipped: tuple[SkippedScenario, ...]
    warnings: tuple[str, ...] = ()


def format_scenario(scenario: Scenario, suffix: str = ".toml") -> str:
    """Writes one scenario as text, every key spelled out."""
    return _format(table_of(scenario), suffix)


def format_scenarios(scenarios: Sequence[NamedScenario], suffix: str = ".toml") -> str:
    """Writes several scenarios as one text."""
    return _format({_LIST: [{_NAME: each.name} | table_of(each.scenario) for each in scenarios]}, suffix)


def write_scenario(path: Path, scenario: Scenario) -> None:
    """Writes one scenario to a `.toml` or `.json`, whole or not at all."""
    write_atomically(path, format_scenario(scenario, path.suffix).encode())


def write_scenarios(path: Path, scenarios: Sequence[NamedScenario]) -> None:
    """Writes several scenarios to one `.toml` or `.json`, whole or not at all."""
    write_atomically(path, format_scenarios(scenarios, path.suffix).encode())


def parse_scenario(text: str, suffix: str = ".toml", where: str = "the scenario") -> Scenario:
    """Reads one scenario; `where` names it in errors."""
    return _checked(_parse(text, suffix, where), where)


def read_scenario(path: Path) -> Scenario:
    """Reads a file of one scenario."""
    return parse_scenario(_text(path), path.suffix, str(path))


def read_scenarios(path: Path) -> ScenarioSet:
    """Reads every scenario of a file, or of all files of a folder in the order of their names.

    A broken scenario is skipped, and why is kept beside the others. A path that is not there, and a file asked for by its name that
    cannot be read at all, are errors.
    """
    if not path.is_dir():
        return _from_file(path)
    files = sorted(each for each in path.iterdir() if each.suffix in {*SUFFIXES, OPENSCENARIO} and each.is_file())
    if not files:
        raise BadScenarioError(f"the folder {str(path)!r} holds no scenario; put .toml, .json or .xosc files there")
    scenarios: list[NamedScenario] = []
    skipped: list[SkippedScenario] = []
    warnings: list[str] = []
    for file in files:
        try:
            found = _from_file(file)
        except BadScenarioError as error:
            skipped.append(SkippedScenario(file.stem, str(error)))
            continue
        scenarios += found.scenarios
        skipped += found.skipped
        warnings += found.warnings
    return ScenarioSet(tuple(scenarios), tuple(skipped), tuple(warnings))


def _from_file(path: Path) -> ScenarioSet:
    return _from_openscenario(path) if path.suffix == OPENSCENARIO else _from_text(_text(path), path)


def _from_openscenario(path: Path) -> ScenarioSet:
    from skidpad.worlds.openx.reading import read_openscenario  # noqa: PLC0415 - it reads scenarios with this module's types

    if not path.is_file():
        raise BadScenarioError(f"cannot read the scenario {str(path)!r}: there is no such file")
    scenarios: list[NamedScenario] = []
    skipped: list[SkippedScenario] = []
    warnings: list[str] = []
    for each in read_openscenario(path):
        if isinstance(each, SkippedScenario):
            skipped.append(SkippedScenario(each.name, f"{path}: {each.reason}"))
            continue
        try:
            _domain(each.scenario).check(each.scenario)
        except BadScenarioError as error:
            skipped.append(SkippedScenario(each.name, f"{path}: {error}"))
            continue
        scenarios.append(NamedScenario(each.name, each.scenario))
        warnings += [f"{path}: {each.name}: {note}" for note in each.notes]
    return ScenarioSet(tuple(scenarios), tuple(skipped), tuple(warnings))


def _from_text(text: str, path: Path) -> ScenarioSet:
    table = _parse(text, path.suffix, str(path))
    rows, names = _rows(table, path) if _LIST in table else ([table], [path.stem])
    scenarios: list[NamedScenario] = []
    skipped: list[SkippedScenario] = []
    warnings: list[str] = []
    for name, row in zip(names, rows, strict=True):
        where = str(path) if _LIST not in table else f"{path}: {name}"
        try:
            scenario = _checked(row, where)
        except BadScenarioError as error:
            skipped.append(SkippedScenario(name, str(error)))
            continue
        scenarios.append(NamedScenario(name, scenario))
        warnings += [f"{where}: {warning}" for warning in _domain(scenario).warnings(scenario)]
    return ScenarioSet(tuple(scenarios), tuple(skipped), tuple(warnings))


def _rows(table: dict[str, object], path: Path) -> tuple[list[object], list[str]]:
    for key in table:
        if key != _LIST:
            raise BadScenarioError(f"{path}: " + str(UnknownNameError.among("key beside [[scenarios]]", key, [_LIST])))
    found = table[_LIST]
    if not isinstance(found, list):
        raise BadScenarioError(f"{path}: scenarios must be tables [[scenarios]], one for each; got {found!r}")
    rows: list[object] = []
    names: list[str] = []
    for number, row in enumerate(found, 1):
        name = row.get(_NAME) if isinstance(row, dict) else None
        names.append(name if isinstance(name, str) and name and name not in names else f"{path.stem}-{number}")
        rows.append({key: value for key, value in row.items() if key != _NAME} if isinstance(row, dict) else row)
    return rows, names


def _domain(scenario: Scenario) -> Domain:
    return STANDARDS if scenario.ego.pace is Pace.CAREFUL else DOMAINS.get(DEFAULT_DOMAIN)


def _checked(table: object, where: str) -> Scenario:
    try:
        scenario = scenario_of(table)
        _domain(scenario).check(scenario)
    except BadScenarioError as error:
        raise BadScenarioError(f"{where}: {error}") from error
    return scenario


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenarioError(f"cannot read the scenario {str(path)!r}: {error}") from error


def _format(table: dict[str, object], suffix: str) -> str:
    _check_suffix(suffix)
    return write_toml(table) if suffix == ".toml" else json.dumps(table, indent=2, allow_nan=False) + "\n"


def _parse(text: str, suffix: str, where: str) -> dict[str, object]:
    _check_suffix(suffix)
    try:
        table = read_toml(text) if suffix == ".toml" else json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadScenarioError(f"{where} is not {suffix[1:].upper()}: {error}") from error
    if not isinstance(table, dict):
        raise BadScenarioError(f"{where} must be a table of keys; got {table!r}")
    return table


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"the key {key!r} is given twice; keep one of them")
        table[key] = value
    return table


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number; write a finite one")


def _check_suffix(suffix: str) -> None:
    if suffix not in SUFFIXES:
        raise BadScenarioError(
            f"a scenario file ends in .toml or .json, one that is read also in .xosc; got {suffix or 'a name without an ending'!r}"
        )
