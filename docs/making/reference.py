"""The reference pages, written from the code: commands with their options, everything that has a name, and the formats of files.

`pages()` is all of them by path under docs; the build adds them (see `hook`), and nothing of them is kept, so that none is ever old.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from making.formats import file_formats
from making.markdown import page, table
from skidpad.cli.listing import _LISTS as LISTS  # what `skidpad list` prints, row for row
from skidpad.cli.listing import Rows, parts_of
from skidpad.cli.main import app


def pages() -> Mapping[str, str]:
    """Writes every page of the reference, by its path under docs."""
    return {
        "reference/index.md": _index(),
        "reference/commands.md": _commands(),
        "reference/lists.md": _lists(),
        "reference/file-formats.md": file_formats(),
    }


def _index() -> str:
    names = [" ".join(words) for words, _ in commands()]
    return page(
        "Reference",
        "Written from the code of this very version, so it cannot be out of date.",
        table(
            ("page", "what it has"),
            [
                ("[Commands](commands.md)", f"{len(names)} commands with their arguments, options and defaults"),
                ("[Names](lists.md)", f"what can be named in an option or a file: {', '.join(LISTS)}"),
                ("[File formats](file-formats.md)", "descriptions of networks, campaigns, scenarios, the run folder, exit codes"),
            ],
        ),
        "In the terminal `skidpad COMMAND --help` and `skidpad list WHAT` say the same.",
    )


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields each command that does something, as its words and typer's object; a group that does nothing by itself is left out."""

    def walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        children: Mapping[str, Any] = getattr(command, "commands", {})
        if len(words) > 1 and (not children or getattr(command, "invoke_without_command", False)):
            yield words, command
        for name, child in children.items():
            yield from walk((*words, name), child)

    yield from walk(("skidpad",), typer.main.get_command(app))


def _commands() -> str:
    parts = ["One noun a command; `--json` prints one object for programs. [Exit codes](file-formats.md#exit-codes) are 0, 1, 2 and 130."]
    for words, command in commands():
        arguments = [one for one in command.params if not one.opts[0].startswith("-")]
        options = [
            one for one in command.params if one.opts[0].startswith("-") and one.name != "help" and not getattr(one, "hidden", False)
        ]
        usage = " ".join([*words, *(_usage(one) for one in arguments), *(f"{one.opts[0]} {_word(one)}" for one in options if one.required)])
        parts += [f"## {' '.join(words)}", inspect.cleandoc(command.help or ""), f"    {usage}{' [OPTIONS]' if options else ''}"]
        if arguments:
            parts.append(
                table(("argument", "what it is"), [(f"`{_word(one)}`", one.help or _KNOWN.get(_word(one), "")) for one in arguments])
            )
        if options:
            parts.append(table(("option", "default", "what it does"), [(_names(one), _default(one), one.help or "") for one in options]))
    return page("Commands", *parts)


_KNOWN = {
    "SUBJECT": "A description of a network, e.g. model.toml.",
    "DRIVE": "A recorded drive: a path, READER:PATH, or `rendered`.",
    "SUBJECT|DRIVE": "A description of a network or its file; a folder of a drive.",
}
"""Arguments that their commands leave to the text above."""


def _word(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper().replace("_", "-")).strip("{}[]")


def _usage(argument: Any) -> str:
    word = _word(argument) + (" ..." if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def _names(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _default(option: Any) -> str:
    value = option.default() if callable(option.default) else option.default
    if option.required:
        return "required"
    if isinstance(value, bool):
        return ("on" if value else "off") if option.secondary_opts else ""
    if value is None or value == "" or (isinstance(value, Sequence) and not value):
        return ""
    return f"`{value}`"


_INTRODUCTIONS: Mapping[str, str] = {
    "transforms": "For `--transforms`, `--stimulus` and the pytest plugin. Adding one: [My transform](../how-to/transform.md).",
    "criteria": "For `--criteria`; the first one guides the greedy search.",
    "relations": "For `--relation`: [when an answer is wrong](../papers/deeptest.md#when-is-an-answer-wrong).",
    "searches": "For `--search` of `test`, `weather search` and `drive`; a search of your own serves all three.",
    "campaigns": 'What `campaign = "..."` names in a file for `skidpad run`; [their settings](file-formats.md#campaigns).',
    "units": "Of an output in the description of a network.",
    "readers": "Of drives, with their options: [My drive](../how-to/drive.md).",
    "architectures": "For `skidpad train`; layers and sources in [The zoo](../zoo.md).",
    "weathers": "Bundled weathers, and those that can be rendered. More in [Weather](../weather.md).",
    "worlds": "For `skidpad drive --world`. Adding one: [My world](../how-to/world.md).",
    "domains": "For `--domain`: what is varied, within which ranges. More in [Scenarios](../scenarios.md).",
    "constraints": "What must hold in a scenario, and the way out.",
}


def _lists() -> str:
    added = "transforms, criteria, relations, searches, campaigns, readers, architectures, worlds, domains, constraints"
    parts = [f"What `skidpad list WHAT` prints. A package of your own adds {added} by an entry point of the group `skidpad.WHAT`."]
    for name in LISTS:
        parts += [f"## {name}", _INTRODUCTIONS.get(name, "")]
        for heading, rows in parts_of(name).values():
            parts += ["" if heading == name else f"**{heading[0].upper()}{heading[1:]}**", _rows(rows)]
    return page("Names", *(part for part in parts if part))


def _rows(rows: Rows) -> str:
    return table(("name", "what it is"), [(f"`{name}`", re.sub(r"\s+", " ", text)) for name, text in rows])
