"""The columns of a run's records: each kind of campaign has its own, and three that all share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skidpad.core.errors import BadRunError, UnknownNameError
from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.core.stimuli import Recipe

REQUIRED = pa.schema(
    [
        pa.field("case_id", pa.string(), nullable=False),
        pa.field("excess", pa.float64(), nullable=False),
        pa.field("violated", pa.bool_(), nullable=False),
    ]
)
"""What every record has. case_id: hexadecimal digits that name the case in any run. excess: how many times the tolerated error
was reached, NaN where the case cannot be judged. violated: whether the record is a finding."""

_TYPES = {
    str(kind): kind
    for kind in (pa.string(), pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.binary(), pa.list_(pa.float64()))
}


def check_schema(schema: pa.Schema) -> None:
    """Refuses a schema that lacks a shared column, names one twice or has a type that a run does not store."""
    if len(set(schema.names)) != len(schema.names):
        raise ValueError(f"every column of a run's records needs its own name; got {', '.join(schema.names)}")
    for wanted in REQUIRED:
        if wanted.name not in schema.names or not schema.field(wanted.name).equals(wanted):
            raise ValueError(f"the records of a run need the column {_words(wanted)}; got {', '.join(map(_words, schema))}")
    for column in schema:
        if str(column.type) not in _TYPES:
            raise ValueError(f"a record's column has one of the types {', '.join(_TYPES)}; got {column.name!r} of {column.type}")


def _words(column: pa.Field) -> str:
    return f"{column.name}: {column.type}{'' if column.nullable else ' not null'}"


def schema_to_json(schema: pa.Schema) -> str:
    """Writes the columns so that a person can read them."""
    columns = [{"name": column.name, "type": str(column.type), "nullable": column.nullable} for column in schema]
    return json.dumps({"columns": columns}, indent=2) + "\n"


def schema_from_json(text: str, where: str) -> pa.Schema:
    """Reads what `schema_to_json` wrote; `where` names the folder in errors."""
    try:
        columns = json.loads(text)["columns"]
        schema = pa.schema([pa.field(column["name"], _TYPES[column["type"]], nullable=column["nullable"]) for column in columns])
        check_schema(schema)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRunError(f"the columns of {where} are damaged ({error}); restore schema.json from a copy") from error
    return schema


def no_rows(schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns the table of a schema, or of some of its columns, without rows."""
    return schema.empty_table() if columns is None else with_referee(schema.empty_table()).select(list(columns))


def with_referee(records: pa.Table) -> pa.Table:
    """Returns records with the referee's columns, which those of a former version lack: it was not asked."""
    for column in REFEREE:
        if column.name not in records.column_names:
            records = records.append_column(column, pa.nulls(records.num_rows, column.type))
    return records


def check_columns(schema: pa.Schema, columns: Sequence[str] | None) -> None:
    """Refuses names that no column has."""
    for name in columns or ():
        if name not in schema.names and name not in _REFEREE:
            raise UnknownNameError.among("record column", name, schema.names)


ORIGINALS = "originals"
"""The phase of the frames as they are; every other phase bears the name of its search."""

REFEREE = (pa.field("referee", pa.string()), pa.field("reason", pa.string()))
"""What the referee said of a mutant that broke its relation: kept, refused or unclear, and why; null where it was not asked, as in runs
of former versions, which lack the columns. What it did not keep is not judged: no finding, and without an excess."""

_REFEREE = frozenset(column.name for column in REFEREE)

SCHEMA = pa.schema(
    [
        pa.field("case_id", pa.string(), nullable=False),
        pa.field("frame_index", pa.int64(), nullable=False),
        pa.field("frame_id", pa.string(), nullable=False),
        pa.field("stimulus", pa.string(), nullable=False),
        pa.field("recipe", pa.string(), nullable=False),
        pa.field("label", pa.float64(), nullable=False),
        pa.field("original", pa.float64(), nullable=False),
        pa.field("mutant", pa.float64(), nullable=False),
        pa.field("excess", pa.float64(), nullable=False),
        pa.field("violated", pa.bool_(), nullable=False),
        pa.field("active_neurons", pa.int32(), nullable=False),
        pa.field("picture", pa.string()),
        pa.field("activated", pa.binary()),
        *REFEREE,
    ]
)
"""One answer of the subject on the original and on the mutant, and the human's: angles in radians, else the unit of that output.
NaN is a value here (no label, not judged); null means not stored (`picture`, `activated`)."""

CASE_ID_DIGITS = 12


def holds_pictures(schema: pa.Schema) -> bool:
    """Tells whether records are cases over pictures: whether they have the columns that every such case needs."""
    needed = [SCHEMA.field(column.name) for column in fields(Record) if column.default is MISSING]
    return all(column.name in schema.names and schema.field(column.name).type == column.type for column in needed)


def may_count(records: pa.Table) -> BoolArray:
    """Tells which rows the referee left: those that it kept or was not asked about, (N,)."""
    return np.array([word in {None, "kept"} for word in records["referee"].to_pylist()], np.bool_)


@dataclass(frozen=True, slots=True)
class Record:
    """One row, typed: answers as in SCHEMA, `picture` the pixel hash of the mutant, `activated` packed NC bits."""

    case_id: str
    frame_index: int
    frame_id: str
    recipe: Recipe
    label: float
    original: float
    mutant: float
    excess: float
    violated: bool
    active_neurons: int = 0
    picture: str | None = None
    activated: bytes | None = None
    referee: str | None = None
    reason: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Reads one row of `Table.to_pylist`; columns of a newer or an older version are left out, or have their default."""
        values = {column.name: row[column.name] for column in fields(cls) if column.name in row}
        return cls(**{**values, "recipe": Recipe.from_json(row["recipe"])})


def case_id(frame_id: str, recipe: Recipe) -> str:
    """Names a case, 12 hexadecimal digits: the same frame and recipe have the same name in every run."""
    return _case_id(storable(frame_id), recipe.to_json())


def case_ids(frame_ids: Sequence[str], recipe: Recipe) -> list[str]:
    """Names the cases of many frames under one recipe, which is written out once."""
    text = recipe.to_json()
    return [_case_id(storable(each), text) for each in frame_ids]


def _case_id(frame_id: str, recipe_json: str) -> str:
    # JSON escapes control characters, so the separator cannot occur in the recipe and no two cases share a text.
    return blake2b(f"{frame_id}\x1f{recipe_json}".encode(), digest_size=CASE_ID_DIGITS // 2).hexdigest()


def storable(text: str) -> str:
    r"""Returns the text as UTF-8 can hold it: what stands for raw bytes of a file name becomes `\udcff`, spelt out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def build_records(
    *,
    frame_index: IntArray | Sequence[int],
    frame_ids: Sequence[str],
    recipes: Sequence[Recipe],
    label: FloatArray,
    original: FloatArray,
    mutant: FloatArray,
    excess: FloatArray,
    violated: BoolArray,
    active_neurons: IntArray,
    picture: Sequence[str | None] | None = None,
    activated: Sequence[bytes | None] | None = None,
    referee: Sequence[str | None] | None = None,
    reason: Sequence[str | None] | None = None,
) -> pa.Table:
    """Builds the table of N cases from columns of length N; `case_id` and `stimulus` follow from the rest.

    Reuse recipe objects where rows share one: each object is written as JSON once.
    """
    distinct = {id(recipe): recipe for recipe in recipes}
    written = {key: (recipe.to_json(), recipe.name) for key, recipe in distinct.items()}
    texts = [written[id(recipe)] for recipe in recipes]
    ids = [storable(frame_id) for frame_id in frame_ids]
    rows = len(ids)
    columns: dict[str, Any] = {
        "case_id": [_case_id(frame_id, text) for frame_id, (text, _) in zip(ids, texts, strict=False)],
        "frame_index": np.asarray(frame_index, np.int64),
        "frame_id": ids,
        "stimulus": [name for _, name in texts],
        "recipe": [text for text, _ in texts],
        "label": np.asarray(label, np.float64),
        "original": np.asarray(original, np.float64),
        "mutant": np.asarray(mutant, np.float64),
        "excess": np.asarray(excess, np.float64),
        "violated": np.asarray(violated, np.bool_),
        "active_neurons": np.asarray(active_neurons, np.int32),
        "picture": [None] * rows if picture is None else list(picture),
        "activated": [None] * rows if activated is None else list(activated),
        "referee": [None] * rows if referee is None else list(referee),
        "reason": [None] * rows if reason is None else list(reason),
    }
    for name, column in columns.items():
        if len(column) != rows:
            raise ValueError(f"column {name!r} has {len(column)} rows; frame_ids has {rows}, and every column needs as many")
    return pa.table(columns, schema=SCHEMA)


def no_records() -> pa.Table:
    """Returns the table without rows."""
    return SCHEMA.empty_table()


def findings_of(records: pa.Table) -> pa.Table:
    """Returns the rows whose relation is violated, in their order."""
    return records.filter(records["violated"])


def worst_first(records: pa.Table, limit: int | None = None) -> pa.Table:
    """Sorts by excess, infinite first and not judged last, equals in their order; then keeps the first `limit` rows."""
    # NumPy puts NaN last and sorts stably, so one command gives one order.
    order = np.argsort(-records["excess"].to_numpy(), kind="stable")
    return records.take(pa.array(order if limit is None else order[:limit]))
