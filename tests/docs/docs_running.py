"""The one way in which what a page says is tried: its files are written, its commands called in their order, in this process.

- A block whose first line is `# NAME.EXT` is that file. A block of Python with `def test_` in it is a test of the reader's; others are run.
- Every line of a block of `sh` is run: `skidpad`, `pytest`, `python FILE`, `cat FILE`, with `> FILE` behind and `NAME=VALUE` before it. It
  ends with exit code 0, or with the one that its comment names, as in `# exit code 1`. `FINDING` is the worst one of the run named before.
- A block of `text` is what the block of `sh` before it printed, shortened: each of its words must have been.
- A block of `console` is not run: installing, and what never ends. `pip install --editable .` makes the package of the page known.
"""

from __future__ import annotations

import importlib
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from skidpad.cli.main import main
from skidpad.core.registry import Registry
from skidpad.runs.folder import Run
from skidpad.stimuli.pictures import TRANSFORMS
from skidpad.worlds.world import WORLDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

IS_INSTALLED = any(each.name == "skidpad" for each in entry_points(group="pytest11"))
PLUGIN = () if IS_INSTALLED else ("-p", "skidpad.pytest_plugin.plugin")
"""An installation from before the entry point loads the plugin by name."""

REGISTRIES: Mapping[str, Registry] = {"skidpad.transforms": TRANSFORMS, "skidpad.worlds": WORLDS}
"""What packages on pages add to, by the group of their entry point."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[\w-]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>[\w/-]+\.[a-z]+)\n")
_EXIT = re.compile(r"#.*\bexit code (\d+)")
_WORD = re.compile(r"\b[A-Za-z]{4,}\b")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page: its language, its text, and the line where it begins."""

    kind: str
    text: str
    line: int

    @property
    def is_test(self) -> bool:
        """Whether it is a test that a reader would keep in a file."""
        return self.kind == "python" and "def test_" in self.text

    @property
    def file(self) -> str:
        """The name in its first line, or an empty text."""
        match = _FILE.match(self.text)
        return match["name"] if match else ""


def blocks_of(page: Path, kind: str | None = None) -> list[Block]:
    """Returns the fenced blocks of a page, or those of one language."""
    text = page.read_text(encoding="utf-8")
    found = [Block(match["kind"], match["text"], text.count("\n", 0, match.start()) + 1) for match in _FENCE.finditer(text)]
    return [block for block in found if kind is None or block.kind == kind]


def lines_of(block: Block) -> list[str]:
    """Returns the commands of a block, those that go on in the next line in one piece."""
    return [line.strip() for line in block.text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]


@dataclass
class Shell:
    """A folder in which pages are tried."""

    place: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.known = {registry: dict(registry._rows) for registry in REGISTRIES.values() if registry.names()}
        self.forget()

    def forget(self) -> None:
        """Forgets what was imported from the folder, and leaves in the registries what skidpad itself has."""
        for name in [name for name, module in sys.modules.items() if str(self.place) in str(getattr(module, "__file__", ""))]:
            del sys.modules[name]
        for registry, rows in self.known.items():
            self.monkeypatch.setattr(registry, "_rows", dict(rows))

    def empty(self) -> None:
        """Removes all that lies in the folder."""
        shutil.rmtree(self.place)
        self.place.mkdir()
        self.monkeypatch.chdir(self.place)

    def follow(self, page: Path, smaller: Mapping[str, str], either: tuple[str, ...] = (), *, python: bool = True) -> None:
        """Does what a page says.

        smaller: shortens what takes long, such as the number of frames; each must be met. either: commands by their beginning that may also
        end with 1, because their outcome hangs on the sizes. python: whether blocks of Python that are no files are run.
        """
        blocks = [replace(block, text=_shortened(block.text, smaller)) for block in blocks_of(page)]
        unmet = {large for large in smaller if large not in page.read_text(encoding="utf-8")}
        assert not unmet, f"{page.name} does not have {sorted(unmet)} any more"
        for block in blocks:
            if block.is_test:
                (self.place / (block.file or f"test_line_{block.line}.py")).write_text(block.text, encoding="utf-8")
        said = ""
        for block in blocks:
            where = f"{page.name}:{block.line}"
            if block.file:
                (self.place / block.file).write_text(block.text, encoding="utf-8")
            elif block.kind == "sh":
                said = "\n".join(self.run(line, where, either) for line in lines_of(block))
                said = "" if any(line.startswith(either) for line in lines_of(block) if either) else said
            elif block.kind == "python" and not block.is_test and python:
                exec(compile(block.text, where, "exec"), {"__name__": "page"})
            elif block.kind == "text" and said:
                missing = set(_WORD.findall(block.text)) - set(_WORD.findall(said))
                assert not missing, f"{where} shows {sorted(missing)}, which the commands above did not print:\n{said}"
            elif block.kind == "console" and "pip install --editable ." in block.text:
                self.install()

    def run(self, line: str, where: str, either: tuple[str, ...] = ()) -> str:
        """Runs one line and returns what it printed; it must end with the exit code that it says."""
        wanted = {int(match[1])} if (match := _EXIT.search(line)) else {0}
        if either and line.startswith(either):
            wanted |= {0, 1}
        words = shlex.split(self.with_finding(line), comments=True)
        with self.monkeypatch.context() as patch:
            while re.fullmatch(r"[A-Z_]+=.*", words[0]):
                name, _, value = words.pop(0).partition("=")
                patch.setenv(name, value)
            out = self.place / words.pop() if len(words) > 2 and words[-2] == ">" else None
            if out:
                words.pop()
                out.write_text("")  # as a shell does before the command begins
            code, said = self.call(words, patch)
        assert code in wanted, f"{where}: `{line}` ended with {code}:\n{said}"
        if out:
            out.write_text(said, encoding="utf-8")
        return "" if out else said

    def call(self, words: list[str], patch: pytest.MonkeyPatch) -> tuple[int, str]:
        """Calls one of the programs that pages use."""
        program, *rest = words
        self.capsys.readouterr()
        code = 0
        if program == "skidpad":
            patch.setattr(sys, "argv", words)
            with pytest.raises(SystemExit) as ended:
                main()
            code = ended.value.code if isinstance(ended.value.code, int) else 0
        elif program == "pytest":
            code = int(pytest.main([*PLUGIN, "-p", "no:cacheprovider", "--rootdir", str(self.place), *rest]))
            self.forget()
        elif program == "python":
            runpy.run_path(str(self.place / rest[0]), run_name="__main__")
        elif program == "cat":
            return 0, "".join((self.place / name).read_text(encoding="utf-8") for name in rest)
        else:
            pytest.fail(f"a page calls {program!r}, which nothing here runs: {words}")
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def install(self) -> None:
        """Writes what `pip install --editable .` leaves of the page's package for those who look for entry points."""
        project = tomllib.loads((self.place / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        folder = self.place / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
        groups = project["entry-points"]
        lines = [
            line for group, points in groups.items() for line in (f"[{group}]", *(f"{name} = {where}" for name, where in points.items()))
        ]
        (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
        importlib.invalidate_caches()
        self.forget()
        for group in groups:
            self.monkeypatch.setattr(REGISTRIES[group], "_loaded", False)

    def with_finding(self, line: str) -> str:
        """Puts the worst finding of the run that stands before it in the place of FINDING."""
        match = re.search(r"(\S+) FINDING\b", line)
        if not match:
            return line
        worst = Run.open(self.place / match[1]).findings(limit=1).to_pylist()[0]["case_id"]
        return line.replace("FINDING", worst)


def _shortened(text: str, smaller: Mapping[str, str]) -> str:
    for large, small in smaller.items():
        text = text.replace(large, small)
    return text
