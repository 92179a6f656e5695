"""The page of file formats: keys, types and defaults of the dataclasses that read the files, and the columns of records."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from making.markdown import page, table
from skidpad.core.errors import SkidpadError
from skidpad.kinds.drives import records as online_records
from skidpad.kinds.drives.campaign import OnlineSettings
from skidpad.kinds.drives.compare.campaign import OfflineVsOnlineSettings
from skidpad.kinds.drives.served import campaign as served_campaign
from skidpad.kinds.drives.served.campaign import ServedSettings
from skidpad.kinds.duels import records as duel_records
from skidpad.kinds.duels.settings import DuelSettings
from skidpad.kinds.limits import probes as limits_records
from skidpad.kinds.limits.campaign import LimitsSettings
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.styles.campaign import TacticSettings
from skidpad.kinds.pictures.weather.campaign import DeepRoadSettings
from skidpad.runs import folder, records
from skidpad.subjects.description import Box, Description, Output
from skidpad.subjects.inputs import Crop, History, InputSpec, Range
from skidpad.worlds.scenario.scenario import Conditions, Ego, OtherVehicle, Pedestrian, RoadPlan, Scenario, Surroundings

SETTINGS: Mapping[str, type] = {
    "deeptest": DeepTestSettings,
    "deeproad": DeepRoadSettings,
    "tactic": TacticSettings,
    "duel": DuelSettings,
    "online": OnlineSettings,
    "compare": OfflineVsOnlineSettings,
    "limits": LimitsSettings,
    "served": ServedSettings,
}
"""The settings of each row of KINDS."""

_SUBJECT: Mapping[str, type] = {
    "The file": Description,
    "[input]": InputSpec,
    "crop": Crop,
    "range": Range,
    "history": History,
    "[[outputs]]": Output,
    "[box]": Box,
}
_SCENARIO: Mapping[str, type] = {
    "The file": Scenario,
    "[road]": RoadPlan,
    "[conditions]": Conditions,
    "[surroundings]": Surroundings,
    "[ego]": Ego,
    "[[vehicles]]": OtherVehicle,
    "[[pedestrians]]": Pedestrian,
}
_RECORDS: Mapping[str, pa.Schema] = {
    "deeptest, deeproad, tactic": records.SCHEMA,
    "online, compare": online_records.SCHEMA,
    "served": served_campaign.SERVED_SCHEMA,
    "duel": duel_records.SCHEMA,
    "limits": limits_records.SCHEMA,
}


def file_formats() -> str:
    """Writes the page."""
    parts = ["All files that people write are TOML; unknown keys are errors, with the nearest known one named."]
    parts += ["## Networks", "`my-net.toml` beside the weights; told in words in [Describing a network](../subjects.md)."]
    for name, kind in _SUBJECT.items():
        parts += [f"### {name}", summary(kind), keys(kind)]
    parts += [
        "## Campaigns",
        "A file for `skidpad run`, and `config.toml` of every run: the key `campaign` and its settings. What is left out has its default.",
    ]
    for name, kind in SETTINGS.items():
        parts += [f'### campaign = "{name}"', summary(kind), keys(kind)]
    parts += ["## Scenarios", "For `skidpad drive --scenario`; told in words in [Scenarios](../scenarios.md)."]
    for name, kind in _SCENARIO.items():
        parts += [f"### {name} in a scenario", summary(kind), keys(kind)]
    parts += ["## The run folder", _indented(folder.__doc__ or ""), "Columns of the records (`Run.findings()` is an Arrow table of them):"]
    for name, schema in _RECORDS.items():
        parts += [f"### Records of {name}", table(("column", "type", "may be empty"), [_column(one) for one in schema])]
    parts += ["## Exit codes", table(("code", "class", "when"), [("0", "", "done; a gate that holds, a replay that matches"), *_errors()])]
    return page("File formats", *(part for part in parts if part))


def summary(kind: type) -> str:
    """Returns the first sentence of a class, as `[input]` is explained."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]


def keys(kind: type) -> str:
    """Writes the fields of a dataclass with their kinds, defaults and, from its docstring, meanings."""
    if not is_dataclass(kind):
        raise TypeError(f"only the fields of a dataclass can be listed; got {kind}")
    told, hints = meanings(kind), get_type_hints(kind)
    rows = [(f"`{one.name}`", _kind(hints[one.name]), _default(one), told.get(one.name, "")) for one in fields(kind)]
    columns = ("key", "kind", "default", "meaning") if told else ("key", "kind", "default")
    return table(columns, [row[: len(columns)] for row in rows])


def meanings(kind: type) -> Mapping[str, str]:
    """Reads `name: meaning.` out of a docstring; several names before one colon share it."""
    text = " ".join(inspect.cleandoc(kind.__doc__ or "").partition("Reference:")[0].split())
    names = "|".join(one.name for one in fields(kind))
    marks = list(re.finditer(rf"(?<![\w`])((?:{names})(?:, (?:{names}))*): ", text))
    told: dict[str, str] = {}
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=False):
        meaning = text[mark.end() : end].strip(" .;")
        told |= dict.fromkeys(mark[1].split(", "), meaning)
    return told


_WORDS: Mapping[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def _kind(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(_kind(one) for one in get_args(hint) if one is not NoneType))
    if get_origin(hint) is tuple:
        return "list" if get_args(hint)[0] is not str else "list of texts"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f"`{one.value}`" for one in hint)
    return _WORDS.get(hint, "table" if is_dataclass(hint) else "text")


def _default(one: Field[Any]) -> str:
    value = one.default_factory() if one.default_factory is not MISSING else one.default
    if value is MISSING:
        return "required"
    if value is None or value in ("", ()) or is_dataclass(value):
        return ""
    if isinstance(value, Enum):
        return f"`{value.value}`"
    if isinstance(value, tuple):
        return "" if any(is_dataclass(item) for item in value) else f"`{list(value)}`"
    if isinstance(value, float):
        return f"`{value:.6g}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _column(one: pa.Field) -> tuple[str, str, str]:
    return f"`{one.name}`", str(one.type), "yes" if one.nullable else ""


def _indented(text: str) -> str:
    """Returns the first paragraph as it is and the rest as code."""
    first, _, rest = text.strip().partition("\n")
    return first + "\n\n" + "\n".join(f"    {line}" if line else "" for line in rest.strip().splitlines())


def _errors() -> list[tuple[str, str, str]]:
    rows = []
    queue: list[type[SkidpadError]] = [SkidpadError]
    while queue:
        kind = queue.pop(0)
        if kind.__module__.startswith("skidpad.core"):
            rows.append((str(kind.exit_code), f"`{kind.__name__}`", summary(kind)))
        queue += kind.__subclasses__()
    return [*rows, ("1", "", "a gate with a broken limit, a replay that differs, scenarios that cannot be used")]
