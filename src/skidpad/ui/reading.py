"""Questions about one run's table, answered: pages of rows, rates with tags, and the words worth choosing among.

A question becomes SQL whose every value is bound, and whose every name is one that this package made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.kinds.exhibits import Column, Form, column_named
from skidpad.page.wording import plain
from skidpad.runs.tags import Tag, TaggedRates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skidpad.ui.rows import Database

PAGE_ROWS = 50
MAX_PAGE = 1_000_000
MAX_TEXT = 200
UNTAGGED = "untagged"
_FILTER = "is."


class Show(Enum):
    """Which records count."""

    FINDINGS = "findings"
    ALL = "all"


class View(Enum):
    """How the rows are laid out."""

    PICTURES = "pictures"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Question:
    """Which rows of a run, in which order.

    text: what some column of words holds. equals: columns by name, with the word they must be. over: the smallest excess, None for any.
    tag: a tag's words, `untagged`, or "" for any. phase: "" for any.
    """

    show: Show = Show.FINDINGS
    view: View = View.TABLE
    text: str = ""
    tag: str = ""
    phase: str = ""
    equals: tuple[tuple[str, str], ...] = ()
    over: float | None = None
    sort: str = "excess"
    descending: bool = True
    page: int = 0

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Reads the parameters of an address; unknown ones are left alone, wrong ones are errors."""
        sort = given.get("sort", "-excess")
        tag = given.get("tag", "")
        if tag not in {"", UNTAGGED}:
            Tag.of(tag)
        return cls(
            show=_choice(Show, given.get("show", Show.FINDINGS.value), "kind of rows"),
            view=_choice(View, given.get("view", View.TABLE.value), "view"),
            text=given.get("q", "").strip()[:MAX_TEXT],
            tag=tag,
            phase=given.get("phase", ""),
            equals=tuple(
                sorted((name.removeprefix(_FILTER), value) for name, value in given.items() if name.startswith(_FILTER) and value)
            ),
            over=_number(given.get("over", "")),
            sort=sort.removeprefix("-"),
            descending=sort.startswith("-"),
            page=_page(given.get("page", "0")),
        )

    def parameters(self, **changed: Any) -> str:
        """Writes the question as the parameters of an address, without what is usual anyway."""
        asked = replace(self, **changed)
        written = {
            "show": "" if asked.show is Show.FINDINGS else asked.show.value,
            "view": "" if asked.view is View.TABLE else asked.view.value,
            "q": asked.text,
            "tag": asked.tag,
            "phase": asked.phase,
            "over": "" if asked.over is None else f"{asked.over:g}",
            "sort": "" if (asked.sort, asked.descending) == ("excess", True) else f"{'-' if asked.descending else ''}{asked.sort}",
            "page": str(asked.page) if asked.page else "",
            **{_FILTER + name: value for name, value in asked.equals},
        }
        return urlencode({name: value for name, value in written.items() if value})

    @property
    def is_filtered(self) -> bool:
        """Whether some rows are left out on purpose."""
        return bool(self.text or self.tag or self.phase or self.equals or self.over is not None)


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition and an order with their bound values."""

    where: str
    order: str
    values: tuple[Any, ...]


def sql_of(question: Question, columns: Sequence[Column], unjudged: Sequence[str]) -> Sql:
    """Writes a question over the page's own table, whose columns are c0, c1, ... in the order of the schema."""
    all_columns = tuple(columns)
    conditions: list[str] = []
    values: list[Any] = []
    if question.show is Show.FINDINGS:
        conditions.append(f"c{_place(all_columns, 'violated')}")
    if unjudged and question.phase not in unjudged:  # unless it is asked for by name
        conditions.append(f"phase NOT IN ({', '.join('?' * len(unjudged))})")
        values += unjudged
    if question.text:
        conditions.append("contains(words, lower(?))")  # lower as the table's words are, whatever the letter
        values.append(question.text)
    if question.tag:
        conditions.append("tag IS NULL" if question.tag == UNTAGGED else "tag = ?")
        values += [] if question.tag == UNTAGGED else [question.tag]
    if question.phase:
        conditions.append("phase = ?")
        values.append(question.phase)
    for name, value in question.equals:
        column = column_named(all_columns, name)
        conditions.append(f"CAST(c{column.place} AS VARCHAR) = ?")
        values.append(value)
    if question.over is not None:
        conditions.append(f"c{_place(all_columns, 'excess')} >= ?")
        values.append(question.over)
    return Sql(" AND ".join(conditions) or "true", _order(question, all_columns), tuple(values))


def _order(question: Question, columns: tuple[Column, ...]) -> str:
    way = "DESC" if question.descending else "ASC"
    if question.sort == "tag":
        first = [f"tag {way} NULLS LAST"]
    else:
        column = column_named(columns, question.sort)
        # What cannot be judged stands last whichever way the rest is turned.
        not_a_number = [f"isnan(c{column.place})"] if column.form is Form.REAL else []
        first = [*not_a_number, f"c{column.place} {way} NULLS LAST"]
    return ", ".join([*first, "phase", "shard", "place"])


def _place(columns: tuple[Column, ...], name: str) -> int:
    return column_named(columns, name).place


def _choice(kind: Any, text: str, noun: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise UnknownNameError.among(noun, text, [row.value for row in kind]) from None


def _number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise BadParametersError(f"the smallest excess is a number, as 1.5; got {text[:40]!r}")
    return value


def _page(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise BadParametersError(f"a page is a whole number from 0; got {text[:40]!r}")
    return min(int(text), MAX_PAGE)


MAX_CHOICES = 40
MAX_NUMBERED = 999
MAX_GROUPS = 16
_ROWS_A_WORD = 4
"""A column that hardly repeats itself is no choice."""
_CHOICE_LETTERS = 80


@dataclass(frozen=True, slots=True)
class Line:
    """One row of an answer: where it stands in the order, its values by column name, its phase and its tag ("": none)."""

    number: int
    values: Mapping[str, Any]
    phase: str
    tag: str

    @property
    def case_id(self) -> str:
        """Names the case."""
        return str(self.values["case_id"])


@dataclass(frozen=True, slots=True)
class RowsPage:
    """A page of rows, and how many there are in all."""

    lines: tuple[Line, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Choices:
    """The few words that a column holds, most frequent first, each with how many findings and how many rows have it."""

    column: Column
    words: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class ColumnsRate:
    """The rates of the rows that share the values of some columns."""

    values: tuple[str, ...]
    rates: TaggedRates


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Asks one table. Names in its SQL are the page's own (c0, c1, ..., phase, tag); values from outside are always bound.

    source: the table, for a FROM. unjudged: phases whose rows are no cases.
    """

    database: Database
    source: str
    columns: tuple[Column, ...]
    unjudged: tuple[str, ...] = ()

    def rates(self) -> TaggedRates:
        """Counts judged cases, findings and their tags."""
        return TaggedRates(*self.database.ask(f"SELECT {self._counts()} FROM {self.source} WHERE {self._judged()}", self.unjudged)[0])

    def rates_by(self, names: Sequence[str]) -> tuple[ColumnsRate, ...]:
        """Counts the same for the largest groups of equal values of some columns, the highest rate first."""
        columns = [column for column in self.columns if column.name in names]
        if not columns:
            return ()
        keys = ", ".join(f"c{column.place}" for column in columns)
        rows = self.database.ask(
            f"SELECT {keys}, {self._counts()} FROM {self.source} WHERE {self._judged()} GROUP BY {keys} "
            f"ORDER BY count(*) DESC, {keys} LIMIT ?",
            (*self.unjudged, MAX_GROUPS),
        )
        width = len(columns)
        groups = [
            ColumnsRate(tuple(column.word(value) for column, value in zip(columns, row, strict=False)), TaggedRates(*row[width:]))
            for row in rows
        ]
        return tuple(sorted(groups, key=lambda group: -group.rates.findings / max(group.rates.cases, 1)))

    def page(self, question: Question, rows: int = PAGE_ROWS) -> RowsPage:
        """Answers a question with one page of rows."""
        sql = sql_of(question, self.columns, self.unjudged)
        total = self.database.ask(f"SELECT count(*) FROM {self.source} WHERE {sql.where}", sql.values)[0][0]
        first = question.page * rows
        return RowsPage(self._lines(question, first, rows) if total > first else (), total)

    def at(self, question: Question, number: int) -> Line | None:
        """Returns the row at a place of an answer, None beyond its ends."""
        return next(iter(self._lines(question, number, 1)), None) if 0 <= number < MAX_PAGE * PAGE_ROWS else None

    def choices(self) -> tuple[Choices, ...]:
        """Returns the columns of words that hold only a few, which are worth a choice."""
        return tuple(self._choices())

    def already_broken(self, bound_rad2: float) -> int:
        """Counts the findings whose original is farther from its label than the rule allows, or has no finite answer."""
        original, label = (self._c(name) for name in ("original", "label"))
        broken = f"NOT isfinite({original}) OR power({original} - {label}, 2) > ?"
        rows = self.database.ask(
            f"SELECT count(*) FROM {self.source} WHERE {self._judged()} AND {self._c('violated')} AND ({broken})",
            (*self.unjudged, bound_rad2),
        )
        return int(rows[0][0])

    def numbered(self, name: str) -> Mapping[str, int]:
        """Numbers the values of a column from 1 by where they first stand among the judged rows; nothing where there are too many."""
        key = self._c(name)
        rows = self.database.ask(
            f"SELECT {key} FROM {self.source} WHERE {self._judged()} GROUP BY 1 ORDER BY min(phase), min(shard), min(place) LIMIT ?",
            (*self.unjudged, MAX_NUMBERED + 1),
        )
        return {str(row[0]): number for number, row in enumerate(rows, 1)} if len(rows) <= MAX_NUMBERED else {}

    def nearest(self, limit: int) -> tuple[Line, ...]:
        """Returns the judged cases that came nearest to being a finding, or are one."""
        return tuple(line for line in self._lines(Question(show=Show.ALL), 0, limit) if not isnan(line.values["excess"]))

    def worst_of_each(self, names: Sequence[str], limit: int) -> tuple[Line, ...]:
        """Returns the worst finding of each group of equal values of some columns, worst first; without columns the worst of all."""
        keys = [f"c{column.place}" for column in self.columns if column.name in names]
        if not keys:
            return self._lines(Question(), 0, limit)
        grouped, excess, found = ", ".join(keys), self._c("excess"), f"{self._judged()} AND {self._c('violated')}"
        same = " AND ".join([f"{excess} = top", *(f"{key} = k{place}" for place, key in enumerate(keys))])
        named = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys))
        source = (
            f"(SELECT * FROM {self.source} JOIN (SELECT {named}, max({excess}) AS top FROM {self.source} WHERE {found} GROUP BY {grouped}) "
            f"ON {same} WHERE {found} QUALIFY row_number() OVER (PARTITION BY {grouped} ORDER BY phase, shard, place) = 1)"
        )
        return self._rows_of(f"{source} ORDER BY {excess} DESC, phase, shard, place LIMIT ?", (*self.unjudged, *self.unjudged, limit), 0)

    def named(self, case_ids: Sequence[str]) -> Mapping[str, Line]:
        """Returns the rows of some cases by id; of one that was met more than once, a finding first."""
        if not case_ids:
            return {}
        marks = ", ".join("?" * len(case_ids))
        source = f"{self.source} WHERE {self._c('case_id')} IN ({marks}) ORDER BY {self._c('violated')}, phase DESC, shard DESC, place DESC"
        return {line.case_id: line for line in self._rows_of(source, case_ids, 0)}

    def whereabouts(self, case_id: str) -> tuple[str, int, int] | None:
        """Returns phase, shard and place of a case, of a finding first where it was met more than once; None where it is unknown."""
        rows = self.database.ask(
            f"SELECT phase, shard, place FROM {self.source} WHERE {self._c('case_id')} = ? "
            f"ORDER BY {self._c('violated')} DESC, phase, shard, place LIMIT 1",
            (case_id,),
        )
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    def _lines(self, question: Question, first: int, count: int) -> tuple[Line, ...]:
        sql = sql_of(question, self.columns, self.unjudged)
        # Sorted by what is sorted by alone: only the rows of the page are then read whole.
        chosen = f"SELECT number FROM {self.source} WHERE {sql.where} ORDER BY {sql.order} LIMIT ? OFFSET ?"
        return self._rows_of(f"{self.source} WHERE number IN ({chosen}) ORDER BY {sql.order}", (*sql.values, count, first), first)

    def _rows_of(self, source: str, values: Sequence[Any], first: int) -> tuple[Line, ...]:
        shown = [column for column in self.columns if column.form is not Form.HIDDEN]
        wanted = ", ".join(f"c{column.place}" for column in shown)
        rows = self.database.ask(f"SELECT {wanted}, phase, tag FROM {source}", values)
        names = [column.name for column in shown]
        return tuple(Line(first + index, dict(zip(names, row, strict=False)), row[-2], row[-1] or "") for index, row in enumerate(rows))

    def _choices(self) -> Iterator[Choices]:
        texts = [column for column in self.columns if column.form is Form.TEXT and not _is_a_name(column.name)]
        if not texts:
            return
        sizes = ", ".join(f"approx_count_distinct(c{column.place}), max(length(c{column.place}))" for column in texts)
        rows, *found = self.database.ask(f"SELECT count(*), {sizes} FROM {self.source} WHERE {self._judged()}", self.unjudged)[0]
        for place, column in enumerate(texts):
            distinct, letters = found[2 * place] or 0, found[2 * place + 1] or 0
            if not 1 < distinct <= min(MAX_CHOICES, rows / _ROWS_A_WORD) or letters > _CHOICE_LETTERS:
                continue
            key = f"c{column.place}"
            words = self.database.ask(
                f"SELECT {key}, count(*) FILTER ({self._c('violated')}), count(*) FROM {self.source} WHERE {self._judged()} "
                f"GROUP BY {key} ORDER BY 2 DESC, 3 DESC, 1 LIMIT ?",
                (*self.unjudged, MAX_CHOICES),
            )
            known = tuple((word, found, rows) for word, found, rows in words if word and plain(word) == word)
            if len(known) > 1:
                yield Choices(column, known)

    def _counts(self) -> str:
        excess, violated = self._c("excess"), self._c("violated")
        tags = ", ".join(f"count(*) FILTER ({violated} AND tag = '{tag.value}')" for tag in Tag)
        return f"count(*) FILTER ({violated} OR NOT isnan({excess})), count(*) FILTER ({violated}), {tags}"

    def _judged(self) -> str:
        return f"phase NOT IN ({', '.join('?' * len(self.unjudged))})" if self.unjudged else "true"

    def _c(self, name: str) -> str:
        return f"c{next(column.place for column in self.columns if column.name == name)}"


def _is_a_name(column: str) -> bool:
    """Tells whether a column holds hashes, which nobody chooses among."""
    return column in {"case_id", "picture"} or column.endswith("_hash")
