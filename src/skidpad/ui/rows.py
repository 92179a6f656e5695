"""The records of runs, ready to be asked: copied once from their Parquet segments into tables of a DuckDB of the page's own.

A run may have thousands of small segments, too many to open for every keystroke. New segments of a running campaign are added as they
come. What does not fit into a gigabyte is put into a temporary folder, so that memory does not grow with the runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from skidpad.core.errors import BadRunError
from skidpad.kinds.exhibits import Column, Form
from skidpad.runs.records import Segment
from skidpad.runs.tags import Tag, TaggedRates

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_ROWS = 5_000_000
"""Beyond this many records a run is for `skidpad report`, not for a page."""
MAX_UNPACKED_BYTES = 8 << 30
_PATIENCE_S = 20.0
_FILE, _PLACE = "skidpad segment file", "file_row_number"

FAILURES = (duckdb.Error, pa.ArrowException)
"""What a damaged or hostile segment makes of a query."""


class Database:
    """One DuckDB that reads below one folder and nothing else; any thread may ask it."""

    def __init__(self, root: Path) -> None:
        self._folder = TemporaryDirectory(prefix="skidpad-ui-", ignore_cleanup_errors=True)
        self._open = [duckdb.connect(":memory:")]
        self._numbers = iter(range(1 << 62))
        self._lock = Lock()
        for setting in (
            f"SET temp_directory = {_literal(self._folder.name)}",
            "SET threads = 2",
            "SET preserve_insertion_order = false",  # rows carry their place
            "SET memory_limit = '1GB'",
            "SET max_temp_directory_size = '8GB'",
            "SET autoinstall_known_extensions = false",
            "SET autoload_known_extensions = false",
        ):
            self._open[0].execute(setting)
        folders = ", ".join(_literal(f"{folder}/") for folder in (root, self._folder.name))
        self._open[0].execute(f"SET allowed_directories = [{folders}]")
        self._open[0].execute("SET enable_external_access = false")
        self._open[0].execute("SET lock_configuration = true")

    def fresh_name(self) -> str:
        """Returns the name of a table that there has never been."""
        with self._lock:
            return f"t{next(self._numbers)}"

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns all rows of a query; one that takes too long is stopped."""
        with self._cursor() as cursor:
            rows: list[tuple[Any, ...]] = cursor.execute(sql, list(values)).fetchall()
        return rows

    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Runs a statement that answers nothing."""
        with self._cursor() as cursor:
            cursor.execute(sql, list(values))

    def replace(self, name: str, columns: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Puts new rows into a table in place of the old ones, at once; columns are given as kind and values."""
        taken = ", ".join(f"unnest(CAST(? AS {kind}[]))" for kind, _ in columns)
        with self._cursor() as cursor:
            cursor.begin()
            cursor.execute(f"DELETE FROM {name}")
            cursor.execute(f"INSERT INTO {name} SELECT {taken}", [list(values) for _, values in columns])
            cursor.commit()

    def close(self) -> None:
        """Lets go of the tables and removes the temporary folder."""
        # Nothing may be left of it when the interpreter ends, or its binding complains.
        while self._open:
            self._open.pop().close()
        self._folder.cleanup()

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._open[0].cursor()
        timer = Timer(_PATIENCE_S, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield cursor
        finally:
            timer.cancel()
            cursor.close()


class Rows:
    """The table of one run: c0, c1, ... are the columns of its schema; phase, shard and place say where a row stands.

    words: everything that is text in a row, in lower case, so that a search looks through one column instead of many.
    """

    def __init__(self, database: Database, columns: tuple[Column, ...]) -> None:
        self._database = database
        self._columns = columns
        self.name = database.fresh_name()
        self.tags = f"{self.name}_tags"
        self.kept: set[str] = set()
        self.count = 0
        self.is_tagged = False
        kinds = ", ".join(f"c{column.place} {_KINDS[column.form]}" for column in self.shown)
        database.tell(f"CREATE TABLE {self.name} ({kinds}, words VARCHAR, phase VARCHAR, shard BIGINT, place BIGINT)")
        database.tell(f"CREATE TABLE {self.tags} (case_id VARCHAR, tag VARCHAR)")

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that the table has; packed bytes stay in the segments."""
        return tuple(column for column in self._columns if column.form is not Form.HIDDEN)

    @property
    def source(self) -> str:
        """The table with the tag and the number of each row, for a FROM."""
        if not self.is_tagged:
            return f"(SELECT *, rowid AS number, CAST(NULL AS VARCHAR) AS tag FROM {self.name})"
        case = next(column.place for column in self._columns if column.name == "case_id")
        return f"(SELECT r.*, r.rowid AS number, g.tag FROM {self.name} r LEFT JOIN {self.tags} g ON r.c{case} = g.case_id)"

    def add(self, segments: Iterable[Segment]) -> None:
        """Copies the segments that are not in the table yet, all of them or none."""
        new = [segment for segment in segments if segment.path.name not in self.kept]
        if not new:
            return
        count = self.count + _rows_in(new, self.count)
        paths = [str(segment.path) for segment in new]
        read = ", ".join(f"s.{_quoted(column.name)}" for column in self.shown)
        texts = ", ".join(f"s.{_quoted(column.name)}" for column in self.shown if column.form is Form.TEXT)
        self._database.tell(
            f"INSERT INTO {self.name} SELECT {read}, lower(concat_ws(chr(31), {texts})), l.phase, l.shard, s.{_PLACE} "
            f"FROM read_parquet(?, filename = ?, file_row_number = true) s "
            "JOIN (SELECT unnest(CAST(? AS VARCHAR[])) AS file, unnest(CAST(? AS VARCHAR[])) AS phase, "
            f"unnest(CAST(? AS BIGINT[])) AS shard) l ON s.{_quoted(_FILE)} = l.file",
            [paths, _FILE, paths, [segment.phase for segment in new], [segment.index for segment in new]],
        )
        self.kept |= {segment.path.name for segment in new}
        self.count = count

    def tag(self, tags: Mapping[str, str]) -> None:
        """Replaces the tags by those given, by case id."""
        self.is_tagged = bool(tags)
        self._database.replace(self.tags, (("VARCHAR", list(tags)), ("VARCHAR", list(tags.values()))))

    def drop(self) -> None:
        """Removes the tables."""
        for name in (self.name, self.tags):
            self._database.tell(f"DROP TABLE IF EXISTS {name}")


def count_directly(database: Database, segments: Sequence[Segment], tags: Mapping[str, Tag]) -> TaggedRates:
    """Counts cases, findings and tags from the segments themselves, for a list of runs whose rows nobody asked for."""
    if not segments:
        return TaggedRates(0, 0)
    paths = [str(segment.path) for segment in segments]
    cases, findings = database.ask(
        "SELECT count(*) FILTER (violated OR NOT isnan(excess)), count(*) FILTER (violated) FROM read_parquet(?)", [paths]
    )[0]
    said: Counter[Tag] = Counter()
    if tags:
        found = database.ask(
            "SELECT case_id, count(*) FROM read_parquet(?) WHERE violated AND case_id IN (SELECT unnest(CAST(? AS VARCHAR[]))) GROUP BY 1",
            [paths, list(tags)],
        )
        for case_id, hits in found:
            said[tags[case_id]] += hits
    return TaggedRates(cases, findings, said[Tag.REAL_FAULT], said[Tag.FALSE_ALARM], said[Tag.UNCLEAR])


def mean_square(database: Database, segments: Sequence[Segment], one: str, other: str) -> float:
    """Returns the mean squared difference of two columns where both are finite, from the segments themselves; NaN where nowhere."""
    if not segments:
        return nan
    apart = f"{_quoted(one)} - {_quoted(other)}"
    paths = [str(segment.path) for segment in segments]
    found = database.ask(f"SELECT avg(power({apart}, 2)) FROM read_parquet(?) WHERE isfinite({apart})", [paths])[0][0]
    return nan if found is None else float(found)


def _rows_in(segments: Sequence[Segment], before: int) -> int:
    """Counts the rows of some segments by their footers; a file of a few bytes may say that it unfolds to far too much."""
    rows = unpacked = 0
    for segment in segments:
        metadata = pq.read_metadata(segment.path)
        rows += metadata.num_rows
        unpacked += sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        if before + rows > MAX_ROWS or unpacked > MAX_UNPACKED_BYTES:
            raise BadRunError(f"it holds more than {MAX_ROWS} records, too many for the page; `skidpad report` reads it")
    return rows


_KINDS = {
    Form.TEXT: "VARCHAR",
    Form.WHOLE: "BIGINT",
    Form.REAL: "DOUBLE",
    Form.TRUTH: "BOOLEAN",
    Form.LIST: "DOUBLE[]",
}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
