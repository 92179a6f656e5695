"""How the commands speak: tables and progress for people, one JSON object for programs."""

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skidpad.core.errors import InterruptedRunError
from skidpad.core.progress import Progress
from skidpad.core.settings import jsonable

if TYPE_CHECKING:
    from skidpad.page.model import Page

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)
_APART_S = 10.0
_GROUPING = "\N{NARROW NO-BREAK SPACE}"
"""What the words of reports have between groups of three digits."""


_COMMANDS = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f"  # C0, DEL and C1: they move the cursor, set colours and titles, and answer for the user
    "\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"  # they hide and reorder letters
    "\\ud800-\\udfff\\U000e0000-\\U000e007f]"  # bytes of a file name that are no letters, and letters without a shape
)
"""Characters that a terminal obeys rather than shows. Those that join the letters of some scripts are not among them."""


def harmless(text: str, *, lines: bool = False) -> str:
    r"""Returns the text with every character that a terminal would obey spelt out, as `\u001b`; names from outside may hold any.

    lines: whether line breaks are our own and stay; in a name one would begin a line that looks like ours.
    """
    return _COMMANDS.sub(lambda found: found[0] if lines and found[0] == "\n" else _spelt(found[0]), text)


def _spelt(character: str) -> str:
    # as JSON and TOML spell it too, so that what is printed as one of them still is; JSON itself leaves DEL alone
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def say(text: str) -> None:
    """Prints one line for a person; the text is taken literally, brackets and all, but numbers are not grouped, as in tables."""
    OUT.print(escape(harmless(text.replace(_GROUPING, ""))), soft_wrap=True)


def say_lines(text: str) -> None:
    """Prints a text of several lines as it is, for people and for files alike."""
    OUT.file.write(harmless(text, lines=True))


def tell(text: str, style: str | None = None, *, lines: bool = False) -> None:
    """Prints one line on standard error, where it does not get into what a program reads; lines: whether it may have several."""
    ERR.print(harmless(text, lines=lines), style=style, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Prints one warning on standard error."""
    tell(f"warning: {text}", "yellow")


_LONGEST_WORD = 40
"""A longer one, such as a path or a hash of 64 digits, may be broken in a narrow terminal; ids, names and numbers may not."""


def say_bold(text: str) -> None:
    """Prints a heading, taken literally; one that is longer than a line goes on beyond it."""
    OUT.print(escape(harmless(text.replace(_GROUPING, ""))), style="bold", soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], numbers_from: int | None = None) -> None:
    """Prints a table; numbers stand right, and no id, name or number is broken, if need be beyond the width of the terminal.

    numbers_from: the first of the columns that stand right although they are worded already; None for those that are numbers.
    """
    say_bold(title)
    texts = [[harmless(cell(value).replace(_GROUPING, "")) for value in row] for row in rows]
    columns = [harmless(column) for column in columns]
    down = [[column, *(row[index] for row in texts)] for index, column in enumerate(columns)]
    whole = [max(map(len, cells)) for cells in down]
    least = [max((len(word) for text in cells for word in text.split() if len(word) <= _LONGEST_WORD), default=1) for cells in down]
    is_wide = sum(least) + 3 * len(columns) + 1 > OUT.width
    # without the lines between columns it may fit
    grid = Table(header_style="bold", box=box.SIMPLE_HEAD, show_edge=False, padding=0) if is_wide else Table(header_style="bold")
    between = len(columns) - 1 if is_wide else 3 * len(columns) + 1
    widths = _shared(OUT.width - between, least, whole)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        numeric = numeric or (numbers_from is not None and index >= numbers_from)
        width = widths[index]
        grid.add_column(escape(column), justify="right" if numeric else "left", overflow="fold", min_width=width, max_width=width)
    for row in texts:
        grid.add_row(*map(escape, row))
    OUT.print(grid, crop=False)


def _shared(room: int, least: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Returns how wide each column is: what it needs at least, and its share of the room that is left of what it would need at most."""
    wishes = [max(most - few, 0) for most, few in zip(whole, least, strict=True)]
    left = max(room - sum(least), 0)
    share = 1.0 if sum(wishes) <= left else left / sum(wishes)
    return [few + int(share * wish) for few, wish in zip(least, wishes, strict=True)]


_ROWS, _TABLES, _LONGEST = 20, 3, 100
"""What a terminal shows of a page: the first rows of its first tables, but of those that go on and on; the report has the rest."""


def show_page(page: "Page") -> None:
    """Prints what matters of a page: the verdict, what to know before believing it, figures, remarks, the first tables, and commands."""
    say_bold(page.verdict)
    for warning in page.warnings:
        say(f"warning: {warning}")
    for line in page.headlines:
        say(f"{line.label}: {line.value}{f' ({line.detail})' if line.detail else ''}")
    for remark in page.remarks:
        say(remark)
    for each in (*page.lead_tables, *[found for found in page.tables if len(found.rows) <= _LONGEST][:_TABLES]):
        shown = each.rows if each in page.lead_tables else each.rows[:_ROWS]
        table(each.title, each.columns, shown, each.numbers_from)
        if len(shown) < len(each.rows):
            say(f"and {len(each.rows) - len(shown)} more rows in the report")
        if each.note:
            say(each.note)
    if page.commands:
        say_bold("How to reproduce")
    for command in page.commands:
        OUT.print(escape(harmless(f"  {command}")), style="dim", soft_wrap=True)


def facts(title: str, rows: Sequence[tuple[str, object]]) -> None:
    """Prints names with their values; what is None is left out."""
    say_bold(title)
    grid = Table(show_header=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(escape(harmless(name)), escape(harmless(cell(value))))
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
    # JSON spells out the first 32 control characters itself; the others may be spelt the same way
    OUT.print(harmless(json.dumps(jsonable(payload), indent=2, ensure_ascii=False), lines=True), soft_wrap=True, markup=False)


def progress_lines(clock: Callable[[], float] = time.monotonic) -> Progress:
    """Returns a progress for what is no terminal, as a log file: a line where a stage begins, and then one every twentieth of its way.

    A stage is what the note says before an epoch or a colon. Lines of one stage are at least ten seconds apart.
    """
    stage, before, next_line, last = "", 0, 0.0, 0.0

    def report(done: int, total: int, note: str = "") -> None:
        nonlocal stage, before, next_line, last
        now = note.partition(", epoch")[0].partition(":")[0]
        is_new, before = now != stage or done < before, done
        if is_new or (done >= next_line and clock() >= last + _APART_S):
            tell(f"{note}: {done} of {total}" if note else f"{done} of {total}")
            stage, next_line, last = now, done + total / 20, clock()

    return report


@contextmanager
def progress_bar(label: str, go_on: str = "") -> Iterator[Progress]:
    """Shows a bar on standard error while the block runs; `go_on` says what to do after Ctrl-C, where the work itself does not."""
    from rich import progress as bars  # noqa: PLC0415  most commands that only look need none

    columns = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.fields[note]}"),
    )
    with bars.Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as bar:
        task = bar.add_task(escape(harmless(label)), total=None, note="")

        def report(done: int, total: int, note: str = "") -> None:
            bar.update(task, completed=done, total=total, note=escape(harmless(note)))

        try:
            yield report
        except (KeyboardInterrupt, InterruptedRunError) as error:
            if isinstance(error, InterruptedRunError) and not go_on:
                raise
            raise InterruptedRunError(f"stopped: {go_on or 'nothing was written'}") from error
