"""Writes a page as Markdown and as JSON; names from outside stay inert in both."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from skidpad.page.model import Fact, Page, Table
from skidpad.page.wording import plain

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
    lines += _section("Findings, the worst first", list(_findings(page)))
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
