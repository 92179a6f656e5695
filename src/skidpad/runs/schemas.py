"""The columns of a run's records: each kind of campaign has its own, and three that all share."""

import json
from collections.abc import Sequence

import pyarrow as pa

from skidpad.core.errors import BadRunError, UnknownNameError

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
    return schema.empty_table() if columns is None else schema.empty_table().select(list(columns))


def check_columns(schema: pa.Schema, columns: Sequence[str] | None) -> None:
    """Refuses names that no column has."""
    for name in columns or ():
        if name not in schema.names:
            raise UnknownNameError.among("record column", name, schema.names)
