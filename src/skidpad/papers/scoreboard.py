"""The scoreboard's types: the paper's figure, ours, the gap; and sheets, the plain tables that every output form shows."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from skidpad.core.errors import BadParametersError, BadRunError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress
from skidpad.core.settings import jsonable
from skidpad.runs.folder import Run

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


SMALLEST_P = 2.2e-16
"""What R, and with it the paper, calls the smallest p-value."""


def brief_sheet(title: str, model: str, rows: Sequence[Row]) -> Sheet:
    """Lays the rows out as a table for a narrow terminal: without the notes and the paper's other models."""
    columns = ("question", "quantity", f"paper ({model})", "ours", "gap")
    return Sheet(title, columns, tuple((row.question, row.quantity, row.paper, row.ours, row.gap) for row in rows))


def scoreboard_sheet(title: str, model: str, rows: Sequence[Row]) -> Sheet:
    """Lays the rows out as a table."""
    columns = ("question", "quantity", f"paper ({model})", "paper's others", "ours", "gap", "note")
    return Sheet(title, columns, tuple((row.question, row.quantity, row.paper, row.others, row.ours, row.gap, row.note) for row in rows))


class Replication(ABC):
    """A paper's experiments repeated: the scoreboard, the tables behind it, and how they are written."""

    __slots__ = ()
    paper_name: ClassVar[str]
    title: ClassVar[str]
    beside: ClassVar[str]
    """Whose figures of the paper the scoreboard shows."""
    traps: ClassVar[tuple[str, ...]]
    """What is to be minded about the paper's figures."""
    settings: Any

    @abstractmethod
    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard."""

    @abstractmethod
    def behind(self) -> tuple[Sheet, ...]:
        """Returns the tables behind the scoreboard."""

    @abstractmethod
    def facts(self) -> tuple[str, ...]:
        """Returns what was done, in words."""

    def more(self) -> dict[str, object]:
        """Returns what else its JSON holds, by name."""
        return {}

    def sheets(self) -> tuple[Sheet, ...]:
        """Returns the scoreboard, and the tables behind it."""
        return (scoreboard_sheet("Scoreboard", self.beside, self.rows()), *self.behind())

    def payload(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        sheets = [{"title": sheet.title, "columns": list(sheet.columns), "rows": jsonable(sheet.rows)} for sheet in self.behind()]
        head = {"paper": self.paper_name, "settings": jsonable(self.settings), **jsonable(self.more())}
        return {**head, "rows": jsonable(self.rows()), "sheets": sheets, "traps": list(self.traps)}

    def markdown(self) -> str:
        """Returns the page for the docs."""
        return markdown(self.title, self.facts(), self.sheets(), self.traps)

    def write(self, folder: Path, name: str) -> None:
        """Writes FOLDER/NAME.json and FOLDER/NAME.md."""
        write_atomically(folder / f"{name}.json", (json.dumps(self.payload(), indent=2, allow_nan=False) + "\n").encode())
        write_atomically(folder / f"{name}.md", self.markdown().encode())


class _Settings(Protocol):
    """The settings of a campaign, a frozen dataclass."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self: ...


def run_at(path: Path, settings: _Settings, start: Callable[[Path], Run], free: Sequence[str] = ()) -> Run:
    """Opens the run at a path, or starts it; refuses one that was begun under other settings, and names them.

    free: settings that may differ from call to call.
    """
    if not (path / "manifest.json").exists():
        return start(path)
    run = Run.open(path)
    before, after = asdict(type(settings).from_config(run.config)), asdict(settings)  # type: ignore[call-overload]
    other = [f"{name} was {before[name]!r} and is {after[name]!r}" for name in after if name not in free and before[name] != after[name]]
    if other:
        raise BadRunError(
            f"{path} holds a run with other settings ({'; '.join(other)}); choose another --out, or repeat the settings of that run"
        )
    return run


def stem(file: str) -> str:
    """Returns the name of a subject's or weather's file, which its cells are called by."""
    return Path(file).name.removesuffix(".toml").removesuffix(".safetensors")


def check_names(**given: Sequence[str]) -> None:
    """Refuses none, or two of the same name, of what a replication goes through."""
    for what, names in given.items():
        if not names or len(set(names)) != len(names):
            raise BadParametersError(f"a replication needs {what} with names of their own; got {', '.join(names) or 'none'}")


def named(progress: Progress, name: str) -> Progress:
    """Returns a progress whose notes begin with a name."""

    def report(done: int, total: int, note: str = "") -> None:
        progress(done, total, f"{name}: {note}")

    return report


def markdown(title: str, facts: Sequence[str], sheets: Sequence[Sheet], remarks: Sequence[str] = ()) -> str:
    """Writes a page: facts as a list, each sheet as a table, remarks at the end."""
    parts = [f"# {title}", "\n".join(f"- {fact}" for fact in facts)]
    for sheet in sheets:
        parts.append(f"## {sheet.title}")
        lines = [_line(sheet.columns), _line(["---"] * len(sheet.columns)), *(_line([cell(value) for value in row]) for row in sheet.rows)]
        parts.append("\n".join(lines))
        if sheet.note:
            parts.append(sheet.note)
    if remarks:
        parts += ["## Traps", "\n".join(f"- {remark}" for remark in remarks)]
    return "\n\n".join(part for part in parts if part) + "\n"


def cell(value: Figure) -> str:
    """Writes a figure with three significant digits, whole numbers whole, nothing as a dash."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value


def p_text(p_value: float) -> str:
    """Writes a p-value as the paper does."""
    if not isfinite(p_value):
        return "p not defined"
    return "p < 2.2e-16" if p_value < SMALLEST_P else f"p = {p_value:.2g}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in cells) + " |"
