"""Writes a page: as one HTML file that holds everything it shows and loads nothing, as Markdown and as JSON.

Names from outside stay inert in all of them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from skidpad import __version__
from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.page.model import Fact, Page, Table
from skidpad.page.svg import HEAT_STEPS
from skidpad.page.wording import plain
from skidpad.runs.folder import DISK_FULL

_SPECIAL = re.compile(r"([\\`*_\[\]<>&|#~!])")
_DRAWN = frozenset({"svg", "moving", "strip", "panels", "galleries"})


def page_markdown(page: Page) -> str:
    """Returns verdict, warnings, figures, findings, tables, settings and commands; pictures and plots are in the HTML page."""
    lines = [f"# {inert(page.title, 200)}", "", f"**{inert(page.verdict, 1000)}**", ""]
    lines += [f"> {inert(warning, 1000)}\n>" for warning in page.warnings]
    for headline in page.headlines:
        detail = f" ({inert(headline.detail, 200)})" if headline.detail else ""
        lines.append(f"- {inert(headline.label, 80)}: **{inert(headline.value, 60)}**{detail}")
    lines += _facts(page.context)
    for table in page.lead_tables:
        lines += _section(inert(table.title, 120), markdown_table(table))
    lines += _section("What happened", [f"- {inert(remark, 1000)}" for remark in page.remarks])
    lines += _section(inert(page.pictures_title, 120) or "Findings, the worst first", list(_findings(page)))
    for table in page.tables:
        lines += _section(inert(table.title, 120), markdown_table(table))
    lines += _section("How to read the figures", [f"- {inert(note, 1000)}" for note in page.notes])
    lines += _section("Settings", _facts(page.configuration))
    lines += _section("Versions and hashes", _facts(page.manifest))
    lines += _section("Commands", [f"- {code(command, 1000)}" for command in page.commands])
    return "\n".join(lines) + "\n"


def page_json(page: Page) -> str:
    """Returns everything that the page says as one JSON object; pictures and plots are left out."""
    return json.dumps(_spoken(asdict(page)), indent=2, default=str, ensure_ascii=False) + "\n"


def markdown_table(table: Table) -> list[str]:
    """Returns the lines of a table, numbers to the right."""
    marks = ["---" if place < table.numbers_from else "---:" for place in range(len(table.columns))]
    rows = ([*map(inert, table.columns)], marks, *([*map(inert, row)] for row in table.rows))
    return [*(f"| {' | '.join(row)} |" for row in rows), *(["", inert(table.note, 1000)] if table.note else [])]


def inert(text: str, limit: int = 400) -> str:
    """Returns a text in which nothing is a command of Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", plain(text, limit)).replace("\\_", "_")


def code(text: str, limit: int = 300) -> str:
    """Fences a text with more backticks than it holds in a row; inside such a span nothing else is special."""
    words = plain(text, limit)
    longest = max((len(run) for run in re.findall("`+", words)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{words}{pad}{fence}"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []


def _facts(facts: Sequence[Fact]) -> list[str]:
    return [f"- {inert(fact.name, 120)}: {code(fact.value, 600)}" for fact in facts]


def _findings(page: Page) -> Iterable[str]:
    for card in page.pictures:
        answers = " became ".join(panel.answer for panel in card.panels)
        said = ", ".join(filter(None, (answers, card.badge, card.mark, card.tag)))
        yield f"- {code(card.case_id, 40)} {inert(card.recipe, 240)}: {inert(said)}"
        yield from [f"  {code(card.replay)}"] if card.replay else []
    for film in page.films:
        yield f"- {code(film.case_id, 40)} {inert(film.title)}: {inert(film.said, 600)}"
        yield from [f"  {code(film.replay)}"] if film.replay else []


def _spoken(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _spoken(item) for name, item in value.items() if name not in _DRAWN}
    if isinstance(value, list | tuple):
        return [_spoken(item) for item in value]
    return getattr(value, "value", value)


class UnwrittenError(SkidpadError):
    """A page that could not be written; what it tells of is untouched."""


def render_page(page: Page) -> str:
    """Returns any page as HTML; the same page gives the same bytes."""
    style = files("skidpad.page").joinpath("templates", "style.css").read_text(encoding="utf-8")
    return templates("skidpad.page").get_template("page.jinja").render(page=page, style=style, version=__version__, heat_steps=HEAT_STEPS)


def write_page(path: Path, page: Page) -> None:
    """Writes a page as the ending of its file says: .md is Markdown, .json JSON, anything else HTML."""
    writer = {".md": page_markdown, ".json": page_json}.get(path.suffix.lower(), render_page)
    write_text_whole(path, writer(page))


def write_text_whole(path: Path, text: str) -> None:
    """Writes beside the path first and moves it into place, so that no reader meets half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        way_out = "free some space" if error.errno in DISK_FULL else "choose a file in a folder you may write to"
        raise UnwrittenError(f"cannot write the report to {str(path)!r} ({error.strerror}); {way_out}") from error


@cache
def templates(package: str) -> Environment:
    """Returns the templates of a package; they escape everything, and refuse what they were not given."""
    return Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
