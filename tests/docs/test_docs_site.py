"""The site is built whole and without a warning, and its reference has everything that the code has."""

import inspect
import logging
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from docs_running import DOCS, ROOT

sys.path.insert(0, str(DOCS))

from making.formats import SETTINGS, keys, meanings
from making.markdown import table
from making.reference import commands, pages

from skidpad.coverage.criteria import CRITERIA
from skidpad.drives import READERS
from skidpad.kinds.kind import KINDS
from skidpad.oracles.relations import RELATIONS
from skidpad.search.protocol import SEARCHES
from skidpad.stimuli.pictures import TRANSFORMS


def test_every_command_and_option_is_in_the_reference() -> None:
    text = pages()["reference/commands.md"]
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    for words, command in commands():
        section = sections.pop(" ".join(words))
        for parameter in command.params:
            if parameter.name != "help" and not getattr(parameter, "hidden", False) and parameter.opts[0].startswith("-"):
                assert f"`{parameter.opts[0]}`" in section, (words, parameter.opts)
                assert parameter.help, f"{' '.join(words)} {parameter.opts[0]} does not say what it does"
    assert not sections


def test_every_row_of_every_registry_is_in_the_reference() -> None:
    text = pages()["reference/lists.md"]
    for registry in (TRANSFORMS, CRITERIA, RELATIONS, SEARCHES, KINDS, READERS):
        for name in registry.names():
            assert f"| `{name}` |" in text, f"{registry.noun} {name}"


def test_every_campaign_has_its_settings_in_the_reference() -> None:
    assert set(SETTINGS) == set(KINDS.names()), "add the settings of a new campaign to docs/making/formats.py"
    text = pages()["reference/file-formats.md"]
    for kind in SETTINGS.values():
        assert keys(kind) in text


def test_meanings_come_from_docstrings() -> None:
    @dataclass
    class Car:
        """A car.

        wheels: how many; usually four. colour, shade: what it looks like.
        """

        wheels: int = 4
        colour: str = "red"
        shade: str = ""
        doors: int | None = None

    assert meanings(Car) == {
        "wheels": "how many; usually four",
        "colour": "what it looks like",
        "shade": "what it looks like",
    }
    assert keys(Car).splitlines()[2:] == [
        "| `wheels` | whole number | `4` | how many; usually four |",
        "| `colour` | text | `red` | what it looks like |",
        "| `shade` | text |  | what it looks like |",
        "| `doors` | whole number |  |  |",
    ]


def test_cells_cannot_break_a_table() -> None:
    assert table(("a",), [("x | y * <b> `|*<`",)]).splitlines()[2] == "| x \\| y \\* &lt;b> `\\|*<` |"


def test_the_site_is_built_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mkdocs = pytest.importorskip("mkdocs.commands.build")
    config = pytest.importorskip("mkdocs.config").load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path))
    with caplog.at_level(logging.WARNING, logger="mkdocs"):
        mkdocs.build(config)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    pages_made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "tutorial.html", "reference/commands.html", "how-to/ci.html", "papers/tactic.html"} <= pages_made
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", home), "nothing comes from elsewhere"
    linked = set(re.findall(r'href="([\w/-]+\.html)"', home))
    for path in DOCS.rglob("*.md"):
        assert path.relative_to(DOCS).with_suffix(".html").as_posix() in linked, f"{path.name} cannot be reached from the first page"
    assert inspect.cleandoc("skidpad gate") in (tmp_path / "reference/commands.html").read_text(encoding="utf-8")
