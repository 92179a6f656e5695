"""Every command and every block of Python on the tutorial, the how-to pages and some guides is tried, in its order."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from docs_running import DOCS, ROOT, Shell, blocks_of, lines_of

import skidpad


@dataclass(frozen=True)
class PageCase:
    """A page, and how it is made short enough for every build.

    bare: it begins in an empty folder. python: its blocks of Python that are no files are run as well.
    """

    name: str
    smaller: dict[str, str] = field(default_factory=dict)
    either: tuple[str, ...] = ()
    bare: bool = False
    python: bool = True


TUTORIAL = PageCase(
    "tutorial.md",
    {
        "frames=600": "frames=64",
        "frames=120": "frames=8",
        "frames=80": "frames=8",
        "--epochs 8": "--epochs 3",
        "--epochs 6": "--epochs 1",
        "--max-mutants 1600": "--max-mutants 60",
        "--within-deg 10": "--within-deg 0.01",  # so small a network hardly moves, and something must be found
    },
    either=("skidpad gate", "pytest"),
    bare=True,
)
CASES = (
    TUTORIAL,
    PageCase("index.md", {"skidpad demo": "skidpad demo --frames 8"}),
    PageCase("how-to/model.md"),
    PageCase("how-to/drive.md"),
    PageCase("how-to/transform.md"),
    PageCase("how-to/world.md", {"pytest test_dirty_lens.py": "pytest test_dirty_lens.py -k 'shapes or signs'"}),
    PageCase("how-to/ci.md"),
    PageCase("cluster.md"),
    PageCase("replay.md", either=("pytest",)),
    PageCase("gate.md", either=("skidpad gate",)),
    PageCase("pytest.md"),
    PageCase("api.md", {"frames=40": "frames=4"}),
    PageCase("serve.md"),
    PageCase("scenarios.md", {"--count 50": "--count 2"}, python=False),
    PageCase("duels.md", {"--ego my_policy:drive": "--ego my_policy:drive --rewards '' --test-episodes 4"}, python=False),
)


@pytest.fixture
def shell(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch, write_driver, write_drive) -> Iterator[Shell]:
    """A folder with what pages take for granted: a drive, and three drivers, dazzled above some mean light (0..1) or never."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.syspath_prepend(tmp_path)
    for name, limit in (("my-net", 0.62), ("new-net", 0.61), ("mended", 9.0)):
        write_driver(tmp_path, name, limit)
    write_drive(tmp_path / "my" / "drive")
    shell = Shell(tmp_path, capsys, monkeypatch)
    yield shell
    shell.forget()


@pytest.mark.usefixtures("referee_on")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_page_says_works(case: PageCase, shell: Shell) -> None:
    if case.bare:
        shell.empty()
    shell.follow(DOCS / case.name, case.smaller, case.either, python=case.python)


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "api.md"], ids=lambda page: page.name)
def test_the_python_of_a_page_prints_what_stands_below_it(page: Path, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    (block, *_), (shown, *_) = blocks_of(page, "python"), [each for each in blocks_of(page, "") if each.text.lstrip().startswith("cases")]
    exec(compile(block.text.replace("frames=40", "frames=4"), page.name, "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out.splitlines()
    # the figures are of more frames, and hang on the bundled network
    assert [line.split()[0] for line in printed] == [line.split()[0] for line in shown.text.splitlines()]


def test_the_page_about_python_has_every_public_name() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert [name for name in skidpad.__all__ if f"`{name}" not in page] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorial_at_its_full_size_has_the_outcome_that_it_tells(shell: Shell) -> None:
    """Slow: two minutes of processor time, because a network is trained and repaired."""
    shell.empty()
    shell.follow(DOCS / TUTORIAL.name, {})


def test_a_bundle_of_the_page_about_findings_passes_for_a_mended_network(shell: Shell) -> None:
    for line in (
        "skidpad test my-net.toml my/drive --preset deeptest --within-deg 10 --out runs/base",
        "skidpad export runs/base FINDING --out bundle",
    ):
        shell.run(line, "here")
    assert "1 passed" in shell.run("pytest bundle --skidpad-subject mended.toml", "here")


def test_the_examples_for_ci_systems_call_what_the_page_of_the_gate_calls() -> None:
    tried = {line for block in blocks_of(DOCS / "gate.md", "sh") for line in lines_of(block)}
    shown = [line.removeprefix("- ").removeprefix("run: ") for block in blocks_of(DOCS / "gate.md", "yaml") for line in lines_of(block)]
    called = [line for line in shown if line.startswith("skidpad ")]
    assert len(called) == 6
    assert set(called) <= tried


def test_the_runner_notices_what_is_wrong(shell: Shell, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text, complaint in (
        ("```sh\nskidpad list nonsense\n```\n", "ended with 2"),
        ("```sh\nskidpad list units\n```\n\n```text\nfurlong\n```\n", "furlong"),
        ("```sh\nskidpad list units  # exit code 1\n```\n", "ended with 0"),
    ):
        page.write_text(text)
        with pytest.raises(AssertionError, match=complaint):
            shell.follow(page, {})
    with pytest.raises(AssertionError, match="any more"):
        shell.follow(page, {"frames=600": "frames=6"})
    assert shlex.split("skidpad list units  # exit code 1", comments=True) == ["skidpad", "list", "units"]


def test_the_finding_of_the_page_about_shrinking_comes_out_as_shown(shell: Shell) -> None:
    page = (DOCS / "replay.md").read_text(encoding="utf-8")
    shown = page[page.index("06477245aa17, smaller") :].partition("```")[0].strip().splitlines()
    shell.run(
        "skidpad test demo 'rendered?frames=300&seed=3&start=50&stop=51' --transforms contrast --within-deg 10 --out runs/contrast", "here"
    )
    printed = [" ".join(line.split()) for line in shell.run("skidpad shrink runs/contrast worst", "here").splitlines()]
    assert [line for line in shown if " ".join(line.split()) not in printed] == []
