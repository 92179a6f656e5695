"""How the commands speak: tables and progress for people, one JSON object for programs."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from skidpad.core.errors import InterruptedRunError
from skidpad.core.progress import Progress as ProgressCallback

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Prints one line for a person; the text is taken literally, brackets and all."""
    OUT.print(escape(text), soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table; numbers stand right."""
    grid = Table(title=escape(title), title_justify="left", title_style="bold", header_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        longest = max(map(len, column.split()), default=0)  # a heading broken within a word is unreadable
        grid.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric, min_width=longest)
    for row in rows:
        grid.add_row(*(escape(cell(value)) for value in row))
    OUT.print(grid)


def facts(title: str, rows: Sequence[tuple[str, object]]) -> None:
    """Prints names with their values; what is None is left out."""
    grid = Table(title=escape(title), title_justify="left", title_style="bold", show_header=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(escape(name), escape(cell(value)))
    OUT.print(grid)


def cell(value: object) -> str:
    """Writes a value as a table shows it: four significant digits, a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value)
    return str(value)


def print_json(payload: Any) -> None:
    """Prints one JSON object; what is not a finite number becomes null."""
    OUT.print(json.dumps(_finite(payload), indent=2, ensure_ascii=False), soft_wrap=True, markup=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def progress_bar(label: str, go_on: str = "") -> Iterator[ProgressCallback]:
    """Shows a bar on standard error while the block runs; `go_on` says what to do after Ctrl-C, where the work itself does not."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as bar:
        task = bar.add_task(label, total=None, note="")

        def report(done: int, total: int, note: str = "") -> None:
            bar.update(task, completed=done, total=total, note=escape(note))

        try:
            yield report
        except (KeyboardInterrupt, InterruptedRunError) as error:
            if isinstance(error, InterruptedRunError) and not go_on:
                raise
            raise InterruptedRunError(f"stopped; {go_on or 'nothing was written'}") from error
