"""Every relative link and anchor of README, CONTRIBUTING and the pages leads somewhere; every command that they show exists."""

import re
import shlex
import sys
import tomllib
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from docs_running import DOCS, ROOT, blocks_of

sys.path.insert(0, str(DOCS))

from making.reference import commands, pages

SOURCES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
OURS = (DOCS / "tutorial.md", DOCS / "index.md", *sorted((DOCS / "how-to").glob("*.md")))
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`|^    .*$", re.MULTILINE | re.DOTALL)
_MAX_PICTURE_BYTES = 240_000


@cache
def text_of(path: Path) -> str:
    """Returns what a page says, from its file or, for the reference, from the code."""
    if path.is_file():
        return path.read_text(encoding="utf-8")
    return generated().get(path.relative_to(DOCS).as_posix(), "")


@cache
def generated() -> dict[str, str]:
    return dict(pages())


@cache
def anchors_of(path: Path) -> frozenset[str]:
    """Returns the anchors of a page's headings, named as the site and as forges name them."""
    found: dict[str, int] = {}
    names = set()
    plain = re.sub(r"^```.*?^```$", "", text_of(path), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6} (.+)$", plain, re.MULTILINE):
        words = unicodedata.normalize("NFKD", re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)).encode("ascii", "ignore").decode()
        name = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())
        names.add(name if name not in found else f"{name}_{found[name]}")
        found[name] = found.get(name, 0) + 1
    return frozenset(names)


def dead_links(place: Path, text: str) -> list[str]:
    """Returns the links of a page that lead nowhere; `place` is where the page lies.

    Pages of the site alone may link to one another; those in the tree may not link to them, because they are read in a clone, too.
    """
    on_site = generated() if place.relative_to(ROOT).as_posix().startswith("docs/reference/") else {}
    dead = []
    for match in _LINK.finditer(_CODE.sub("", text)):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (place.parent / target).resolve() if target else place
        is_there = path.exists() or (path.is_relative_to(DOCS) and path.relative_to(DOCS).as_posix() in on_site)
        if not is_there or (anchor and anchor not in anchors_of(path)):
            dead.append(match["target"])
    return dead


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(source: Path) -> None:
    assert not dead_links(source, text_of(source))


def test_links_of_the_generated_pages_lead_somewhere() -> None:
    assert {name: dead_links(DOCS / name, text) for name, text in generated().items()} == {name: [] for name in generated()}


def test_dead_links_are_noticed() -> None:
    text = "[a](gate.md) [b](nowhere.md) [c](gate.md#gitlab) [d](gate.md#nothing) ![e](pictures/none.jpg) [f](https://a.org) `[g](no.md)`"
    assert dead_links(DOCS / "page-of-a-test.md", text) == ["nowhere.md", "gate.md#nothing", "pictures/none.jpg"]
    assert dead_links(DOCS / "page-of-a-test.md", "[a](reference/commands.md)") == ["reference/commands.md"], "it is not in a clone"
    assert not dead_links(DOCS / "reference" / "index.md", "[a](commands.md) [b](../gate.md)")


def test_the_extras_that_pages_name_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {name for source in SOURCES for some in re.findall(r"skidpad\[([\w,-]+)\]", text_of(source)) for name in some.split(",")}
    assert {"onnx", "ui", "search"} <= named <= set(extras)
    assert set(extras) - {"dev"} <= set(re.findall(r"`(\w+)`", text_of(ROOT / "README.md"))), "the README lists every extra"


def test_pictures_are_small_and_each_is_shown() -> None:
    shown = "".join(text_of(source) for source in SOURCES)
    for picture in (DOCS / "pictures").iterdir():
        assert picture.stat().st_size <= _MAX_PICTURE_BYTES, picture.name
        assert picture.name in shown, f"{picture.name} is shown nowhere"


@cache
def known_commands() -> dict[tuple[str, ...], frozenset[str]]:
    """Returns the options of each command by its words."""
    return {words: frozenset(name for one in command.params for name in (*one.opts, *one.secondary_opts)) for words, command in commands()}


def shown_commands(source: Path) -> list[str]:
    """Returns every line of a block, and every `code`, that calls skidpad."""
    lines = [line for block in blocks_of(source) if block.kind in {"", "sh", "console", "yaml"} for line in block.text.splitlines()]
    lines += re.findall(r"(?<=`)skidpad [^`\n]+(?=`)", _CODE.sub(lambda found: "" if "```" in found[0] else found[0], text_of(source)))
    starts = (re.sub(r"^(?:\$ |- |run: |[A-Z_]+=\S+ )+", "", line.strip()) for line in lines)
    return [re.split(r"\s{2,}| · |  #|\|", line)[0] for line in starts if re.match(r"skidpad [a-z]", line)]


def complaint_about(line: str) -> str:
    """Returns what is wrong with a call of skidpad, an unknown command or option; an empty text where nothing is."""
    words = shlex.split(line.replace("'", '"') if line.count("'") % 2 else line, comments=True)
    fitting = [name for name in known_commands() if tuple(words[: len(name)]) == name]
    if not fitting:
        is_group = any(name[:2] == tuple(words[:2]) for name in known_commands())
        return "" if is_group and (len(words) == 2 or words[2].isupper()) else f"there is no such command: {line}"
    options = known_commands()[max(fitting, key=len)] | {"--help"}
    given = [word.partition("=")[0] for word in words if word.startswith("--")]
    unknown = [word for word in given if word not in options]
    return f"{line}: no such option {unknown}" if unknown else ""


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_shown_commands_and_their_options_exist(source: Path) -> None:
    assert not [complaint for line in shown_commands(source) if (complaint := complaint_about(line))]


def test_wrong_commands_are_noticed() -> None:
    assert "no such command" in complaint_about("skidpad tset my-net.toml my/drive")
    assert "no such command" in complaint_about("skidpad weather tset my-net.toml")
    assert "--epoch'" in complaint_about("skidpad train pilotnet my/drive --epoch 3 --out net")
    assert not complaint_about("skidpad duel --rewards released,sound")
    assert not complaint_about("skidpad weather")


def test_what_is_not_run_is_only_what_installs_or_never_ends() -> None:
    allowed = ("$ pip install ", "$ python3 -m venv ", "$ . .venv/bin/activate", "$ skidpad ui ")
    for page in OURS:
        for block in blocks_of(page):
            assert block.kind in {"sh", "text", "python", "toml", "csv", "console", ""}, (page.name, block)
            assert block.kind != "" or block.file, f"{page.name}:{block.line}: say what it is: sh, text, console, ..."
            for line in block.text.splitlines() if block.kind == "console" else ():
                assert line.startswith(allowed), f"{page.name}: {line} belongs into a block of sh, where it is run"
