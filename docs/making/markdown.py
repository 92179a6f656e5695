"""Small pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`]*`)")


def page(title: str, *parts: str) -> str:
    """Joins a title and its paragraphs."""
    return "\n\n".join((f"# {title}", *parts)) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Writes a table; what would end a cell or begin a tag is escaped."""
    lines = [" | ".join(columns), " | ".join("---" for _ in columns), *(" | ".join(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(text: str) -> str:
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") and part.endswith("`") and len(part) > 1 else _escaped(part) for part in parts).replace(
        "|", "\\|"
    )


def _escaped(text: str) -> str:
    return text.replace("*", "\\*").replace("<", "&lt;")
