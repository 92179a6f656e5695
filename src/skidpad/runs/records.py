"""The records of a run: their columns, of which each kind of campaign has its own and all share three, and the files that hold them.

A file, a segment, is one shard: records, coverage and problems together, named by the hash of its content. It is Parquet, with coverage and
problems as text in its key-value metadata, so that any Parquet reader opens it and one rename commits all three.
"""

from __future__ import annotations

import binascii
import json
import os
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from hashlib import blake2b, file_digest, sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skidpad.core.errors import BadRunError, UnknownNameError
from skidpad.core.files import open_plain
from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.core.stimuli import Recipe
from skidpad.drives.drive import Problem, ProblemKind

REQUIRED = pa.schema(
    [
        pa.field("case_id", pa.string(), nullable=False),
        pa.field("excess", pa.float64(), nullable=False),
        pa.field("violated", pa.bool_(), nullable=False),
    ]
)
"""What every record has. case_id: hexadecimal digits that name the case in any run. excess: how many times the tolerated error
was reached, NaN where the case cannot be judged. violated: whether the record is a finding."""

_STORED = (pa.string(), pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.binary(), pa.list_(pa.float64()))
_TYPES = {str(kind): kind for kind in _STORED}


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
        if name not in schema.names and all(name != column.name for column in REFEREE):
            raise UnknownNameError.among("record column", name, schema.names)


ORIGINALS = "originals"
"""The phase of the frames as they are; every other phase bears the name of its search."""

REFEREE = (pa.field("referee", pa.string()), pa.field("reason", pa.string()))
"""What the referee said of a mutant that broke its relation: kept, refused or unclear, and why; null where it was not asked, as in runs
of former versions, which lack the columns. What it did not keep is not judged: no finding, and without an excess."""

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
    }
    optional = {"picture": picture, "activated": activated, "referee": referee, "reason": reason}
    columns |= {name: [None] * rows if values is None else list(values) for name, values in optional.items()}
    for name, column in columns.items():
        if len(column) != rows:
            raise ValueError(f"column {name!r} has {len(column)} rows; frame_ids has {rows}, and every column needs as many")
    return pa.table(columns, schema=SCHEMA)


def findings_of(records: pa.Table) -> pa.Table:
    """Returns the rows whose relation is violated, in their order."""
    return records.filter(records["violated"])


def worst_first(records: pa.Table, limit: int | None = None) -> pa.Table:
    """Sorts by excess, infinite first and not judged last, equals in their order; then keeps the first `limit` rows."""
    # NumPy puts NaN last and sorts stably, so one command gives one order.
    order = np.argsort(-records["excess"].to_numpy(), kind="stable")
    return records.take(pa.array(order if limit is None else order[:limit]))


_NAME = re.compile(
    r"(?P<phase>[a-z][a-z0-9-]*|[A-Za-z_][\w.]*\+\w[\w-]*)-(?P<index>\d{6}|[1-9]\d{6,})-(?P<digest>[0-9a-f]{16})\.parquet", re.ASCII
)
_PHASE = re.compile(r"[a-z][a-z0-9-]*|[A-Za-z_][\w.]*:\w[\w-]*", re.ASCII)
"""A word, or `module:Name` of code that is not ours, whose colon is a plus in names of files."""
_DIGEST_DIGITS = 16
_ALL_DIFFERENT = frozenset({"case_id", "picture"})
"""Texts that hardly ever repeat, so that a dictionary of them would only cost."""
_FEW_ROWS = 1 << 20
_MAX_UNPACKED_BYTES = 4 << 30
"""A few bytes of Parquet may say that they unfold to any number of rows and bytes. Beyond a million rows, each takes a byte of the
file at least, as its case id does; and what one shard unfolds to fits into memory."""


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What one shard of a phase brought; the same shard gives the same result whenever and wherever it is computed.

    records: a table with the columns of the run. coverage: packed coverage states by name.
    """

    phase: str
    index: int
    records: pa.Table
    coverage: Mapping[str, bytes] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        if not _PHASE.fullmatch(self.phase):
            raise ValueError(f"a phase is lower-case letters, digits and hyphens, a letter first, or module:Name; got {self.phase!r}")
        if self.index < 0:
            raise ValueError(f"a shard's index must be 0 or more; got {self.index}")


def encode_segment(result: ShardResult) -> bytes:
    """Writes a shard as the bytes of a Parquet file: equal results give equal bytes."""
    sink = pa.BufferOutputStream()
    problems = [[problem.kind.name, storable(problem.frame_id), storable(problem.detail)] for problem in result.problems]
    schema = result.records.schema
    texts = [column.name for column in schema if pa.types.is_string(column.type) and column.name not in _ALL_DIFFERENT]
    # Parquet's own copy of the Arrow schema would say nothing that the columns do not.
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=texts, store_schema=False) as writer:
        writer.write_table(result.records.combine_chunks())
        writer.add_key_value_metadata(
            {
                "skidpad.shard": f"{result.phase} {result.index}",
                "skidpad.coverage": json.dumps({name: _pack(data) for name, data in sorted(result.coverage.items())}),
                "skidpad.problems": json.dumps(problems),
            }
        )
    return bytes(sink.getvalue())


@dataclass(frozen=True, slots=True)
class Segment:
    """A shard's file; a long run has tens of thousands, so the folder that they share is kept, not the path of each."""

    phase: str
    index: int
    digest: str
    folder: str

    @classmethod
    def of(cls, result: ShardResult, data: bytes, folder: Path) -> Self:
        """Names the file of a shard, given its bytes."""
        return cls(sys.intern(result.phase), result.index, sha256(data).hexdigest()[:_DIGEST_DIGITS], sys.intern(str(folder)))

    @classmethod
    def from_path(cls, path: Path) -> Self | None:
        """Reads the name; None where it is not one of ours."""
        match = _NAME.fullmatch(path.name)
        if match is None:
            return None
        return cls(sys.intern(match["phase"].replace("+", ":")), int(match["index"]), match["digest"], sys.intern(str(path.parent)))

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return Path(self.folder, f"{self.phase.replace(':', '+')}-{self.index:06d}-{self.digest}.parquet")

    def is_whole(self) -> bool:
        """Tells whether the content still has the hash that the name carries."""
        try:
            with os.fdopen(open_plain(self.path), "rb") as file:
                return file_digest(file, "sha256").hexdigest()[:_DIGEST_DIGITS] == self.digest
        except (OSError, BadRunError):
            return False

    def records(self, columns: Sequence[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
        """Reads the records, or some columns of them; schema: what the columns of the whole file must be."""
        # No threads: Arrow's reader threads sometimes abort the process at its very end, and exit codes are read.
        with self._open() as file:
            found = file.schema_arrow.remove_metadata()
            if schema is not None and not found.equals(schema):
                raise self._foreign(f"its columns are {', '.join(found.names)}, and those of the run {', '.join(schema.names)}")
            try:
                table = file.read(columns=None if columns is None else list(columns), use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise self._damaged(error) from error
        table = table.replace_schema_metadata(None)
        return table if columns is None else table.select(list(columns))

    def coverage(self) -> dict[str, bytes]:
        """Reads the packed coverage states by name."""
        try:
            return {name: _unpack(packed) for name, packed in self._metadata("skidpad.coverage").items()}
        except _UNREADABLE as error:
            raise self._foreign(f"its coverage cannot be read ({error!r})") from error

    def problems(self) -> tuple[Problem, ...]:
        """Reads the broken frames of the shard."""
        try:
            return tuple(Problem(ProblemKind[kind], str(frame), str(detail)) for kind, frame, detail in self._metadata("skidpad.problems"))
        except _UNREADABLE as error:
            raise self._foreign(f"its list of broken frames cannot be read ({error!r})") from error

    def _metadata(self, key: str) -> Any:
        with self._open() as file:
            return json.loads(file.metadata.metadata[key.encode()])

    def _open(self) -> pq.ParquetFile:
        try:
            file = pq.ParquetFile(self.path, pre_buffer=False)
            size = self.path.stat().st_size
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error
        metadata = file.metadata
        unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        if metadata.num_rows > max(size, _FEW_ROWS) or unpacked > _MAX_UNPACKED_BYTES:
            raise self._foreign(f"its {size} bytes say that they hold {metadata.num_rows} records of {unpacked} bytes")
        shard = (metadata.metadata or {}).get(b"skidpad.shard", b"").decode(errors="replace")
        if shard != f"{self.phase} {self.index}":
            raise self._foreign(f"it holds {f'shard {shard!r}' if shard else 'no shard'}")
        return file

    def _foreign(self, why: str) -> BadRunError:
        """Returns the error of a file whose hash is right and whose content is not one that skidpad has put there."""
        return BadRunError(f"the segment {self.path} was not written for this run: {why}; remove it and `skidpad resume` its run")

    def _damaged(self, error: Exception) -> BadRunError:
        return BadRunError(f"the segment {self.path} was damaged after it was checked ({error}); open the run again to set it aside")


_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, binascii.Error, pa.ArrowException, OSError)
"""What a segment raises whose metadata is not ours."""


def _pack(data: bytes) -> list[int | str]:
    return [len(data), b64encode(pa.compress(data, codec="zstd", asbytes=True)).decode("ascii")]


def _unpack(packed: list[Any]) -> bytes:
    size, text = packed
    if not 0 <= size <= _MAX_UNPACKED_BYTES:
        raise ValueError(f"{size} bytes of coverage")
    return bytes(pa.decompress(b64decode(text), decompressed_size=size, codec="zstd", asbytes=True))
