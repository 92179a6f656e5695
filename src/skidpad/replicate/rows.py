"""The scoreboard's types: the paper's figure, ours, the gap; and sheets, the plain tables that every output form shows."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
from typing import TypeAlias

Figure: TypeAlias = float | int | str | None
"""A number, a verdict in words, or nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the scoreboard.

    paper: of the model most like a subject of ours. others: the paper's other models, in words. gap: ours - paper for numbers
    of one unit, `same` or `differs` for verdicts, None where the two cannot be compared.
    """

    question: str
    quantity: str
    paper: Figure
    ours: Figure
    gap: Figure
    note: str = ""
    others: str = ""

    @classmethod
    def compared(cls, question: str, quantity: str, paper: Figure, ours: Figure, note: str = "", others: str = "") -> Row:
        """Makes a row and works out the gap."""
        return cls(question, quantity, paper, ours, gap_of(paper, ours), note, others)

    @classmethod
    def beside(cls, question: str, quantity: str, paper: Figure, ours: Figure, note: str = "", others: str = "") -> Row:
        """Makes a row of two figures that are not to be subtracted: another unit, or another number of pictures."""
        return cls(question, quantity, paper, ours, None, note, others)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with its title; a cell is a figure."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Figure, ...], ...]
    note: str = ""


def gap_of(paper: Figure, ours: Figure) -> Figure:
    """Returns ours - paper, or whether two verdicts are the same; None where one is missing or not finite."""
    if isinstance(paper, str) and isinstance(ours, str):
        return "same" if paper == ours else "differs"
    if isinstance(paper, str | None) or isinstance(ours, str | None) or not (isfinite(paper) and isfinite(ours)):
        return None
    return ours - paper


def ratio(part: float, whole: float) -> float:
    """Returns part / whole; NaN where the whole is nothing."""
    return part / whole if whole else nan


def increase_percent(after: float, before: float) -> float:
    """Returns by how many percent `after` is more than `before`; NaN where that was nothing."""
    return 100.0 * ratio(after - before, before)
