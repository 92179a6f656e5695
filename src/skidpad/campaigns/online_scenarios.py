"""The scenarios of a campaign: drawn from a domain model, or read from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skidpad.core.errors import SkidpadError
from skidpad.worlds.domain import DOMAINS, Domain
from skidpad.worlds.sampling import sample
from skidpad.worlds.scenario import BadScenarioError, RoadKind, Scenario, Weather
from skidpad.worlds.scenario_files import NamedScenario, ScenarioSet, read_scenarios


def scenarios_of(domain: str, count: int, files: Sequence[str], seconds: float, seed: int) -> ScenarioSet:
    """Reads files and folders, or draws `count` scenarios of the domain where there are none; each lasts `seconds` (0: as it says).

    What cannot be read is skipped with the reason, as long as anything is left.
    """
    if files:
        return _read(files, seconds)
    drawn = sample(domain_lasting(domain, seconds), seed, count)
    return ScenarioSet(tuple(NamedScenario(f"{domain}-{number:03d}", each) for number, each in enumerate(drawn.scenarios)), ())


def domain_lasting(name: str, seconds: float) -> Domain:
    """Returns a domain model whose scenarios last `seconds` (0: as long as it says)."""
    model = DOMAINS.get(name)
    return replace(model, base=_lasting(model.base, seconds))


def _read(files: Sequence[str], seconds: float) -> ScenarioSet:
    sets = [read_scenarios(Path(name)) for name in files]
    found = [replace(each, scenario=_lasting(each.scenario, seconds)) for one in sets for each in one.scenarios]
    skipped = tuple(each for one in sets for each in one.skipped)
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise SkidpadError(f"each scenario has a name of its own; got {', '.join(names)}")
    if not found:
        raise BadScenarioError(f"none of the {len(skipped)} scenarios can be used; the first: {skipped[0].reason}")
    return ScenarioSet(tuple(found), skipped)


def features_of(table: Mapping[str, Any]) -> str:
    """Words what matters in a scenario for keeping a lane, from its table: road, speed, weather, who else is there."""
    road, conditions, ego = table["road"], table["conditions"], table["ego"]
    bend = f", {road['side']} {road['radius_m']:.0f} m" if road["kind"] == RoadKind.CURVED.value else ""
    lane = f", lane {ego['lane']} of {road['lanes']}" if road["lanes"] > 1 else ""
    sunny = conditions["weather"] == Weather.SUNNY.value
    weather = conditions["weather"] if sunny else f"{conditions['weather']} {conditions['intensity']:.0%}"
    time = " at night" if conditions["night"] else ""
    counts = [(len(table.get(group, ())), group) for group in ("vehicles", "pedestrians")]
    others = "".join(f", {count} {group if count > 1 else group[:-1]}" for count, group in counts if count)
    return f"{road['kind']}{bend}{lane}, {ego['speed_m_s']:.0f} m/s, {weather}{time}{others}"


def _lasting(scenario: Scenario, seconds: float) -> Scenario:
    return replace(scenario, duration_s=seconds) if seconds else scenario
