"""What a reader wants to see of a run's records: which rows, in which order, which page of them.

A question becomes SQL whose every value is bound, and whose every name is one that this package made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import isfinite
from typing import Any, Self
from urllib.parse import urlencode

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.kinds.exhibits import Column, Form, column_named
from skidpad.runs.tags import Tag

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
