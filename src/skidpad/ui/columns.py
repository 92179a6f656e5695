"""The columns of a run's records as the page shows them: what is text, what is a number, and in which unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import degrees, isfinite, isnan
from typing import TYPE_CHECKING, Any

from skidpad.core.errors import UnknownNameError
from skidpad.core.stimuli import Recipe
from skidpad.report.wording import NOTHING, plain

if TYPE_CHECKING:
    import pyarrow as pa

_RAD = "rad"
_ANSWERS = frozenset({"original", "mutant", "label"})
"""Columns of runs over pictures whose unit stands in the config."""
_RECIPE = "recipe"
_MAX_TEXT = 240


class Form(Enum):
    """How a column's values are written and compared."""

    TEXT = "text"
    WHOLE = "whole"
    REAL = "real"
    TRUTH = "truth"
    LIST = "list"
    HIDDEN = "hidden"
    """Packed bytes, which say nothing to a reader."""


_FORMS = {
    "string": Form.TEXT,
    "bool": Form.TRUTH,
    "int32": Form.WHOLE,
    "int64": Form.WHOLE,
    "float": Form.REAL,
    "double": Form.REAL,
    "list<element: double>": Form.LIST,
    "list<item: double>": Form.LIST,
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its place in the schema, its name there, the title it is shown under, and whether radians become degrees."""

    place: int
    name: str
    title: str
    form: Form
    in_degrees: bool = False

    @property
    def is_number(self) -> bool:
        """Whether its values stand to the right."""
        return self.form in {Form.WHOLE, Form.REAL}

    def word(self, value: Any) -> str:
        """Writes one value."""
        if value is None:
            return NOTHING
        if self.form is Form.TRUTH:
            return "yes" if value else "no"
        if self.form is Form.REAL:
            return _real(degrees(value) if self.in_degrees else float(value))
        if self.form is Form.LIST:
            return plain(", ".join(_real(float(item)) for item in value[:16]), _MAX_TEXT)
        return plain(_recipe_words(str(value)) if self.name == _RECIPE else str(value), _MAX_TEXT)


def columns_of(schema: pa.Schema, config: Mapping[str, Any]) -> tuple[Column, ...]:
    """Reads the columns of a run from its own schema; angles are degrees at the surface."""
    answers_rad = config.get("unit") == _RAD
    return tuple(_column(place, field.name, str(field.type), answers_rad=answers_rad) for place, field in enumerate(schema))


def column_named(columns: tuple[Column, ...], name: str) -> Column:
    """Returns the column of a name that is shown."""
    shown = {column.name: column for column in columns if column.form is not Form.HIDDEN}
    if name not in shown:
        raise UnknownNameError.among("record column", plain(name, 80), shown)
    return shown[name]


def _column(place: int, name: str, kind: str, *, answers_rad: bool) -> Column:
    form = _FORMS.get(kind, Form.HIDDEN)
    in_degrees = form is Form.REAL and (name.endswith(f"_{_RAD}") or (answers_rad and name in _ANSWERS))
    title = plain(name.removesuffix(f"_{_RAD}"), 60).replace("_", " ")
    return Column(place, name, f"{title} (°)" if in_degrees else title, form, in_degrees)


def _recipe_words(text: str) -> str:
    try:
        return str(Recipe.from_json(text))
    except (ValueError, TypeError, RecursionError):
        return text  # of another kind of campaign, or damaged


def _real(value: float) -> str:
    if isnan(value):
        return NOTHING
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.4g}".replace("-", "−")
