"""Every command and every block of Python on the pages about findings, the gate and pytest is run, in its order."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from test_cli_gate import PLUGIN, driver

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("replay.md", "gate.md", "pytest.md")


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page: str, kind: str) -> list[str]:
    lines = [line.strip().removeprefix("- ").removeprefix("run: ") for block in blocks(page, kind) for line in block.splitlines()]
    return [line for line in lines if line.startswith(("skidpad ", "pytest "))]


@pytest.fixture
def workshop(pytester: pytest.Pytester, drive: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages speak of: three drivers and a drive; Python knows one module of a name."""
    place = pytester.path
    names = {"my-net": ("docs_my", 0.62), "new-net": ("docs_new", 0.61), "mended": ("docs_mended", 9.0)}
    for name, (module, limit) in names.items():
        driver(place, f"{module}_{place.name.strip('0123456789')}", limit).rename(place / f"{name}.toml")
    (place / "my" / "drive").mkdir(parents=True)
    for path in drive.iterdir():
        (place / "my" / "drive" / path.name).write_bytes(path.read_bytes())
    for module in ("skidpad.pytest_plugin.assertions", "skidpad.report.evidence_duels", "skidpad.transforms.fog"):
        import_module(module)
    monkeypatch.syspath_prepend(place)
    return place


def run_all(page: str, skidpad, pytester: pytest.Pytester) -> None:
    for line in commands(page, "sh"):
        finding = worst(Path("runs/base")) if "FINDING" in line else ""
        words = shlex.split(line.replace("FINDING", finding))
        if words[0] == "pytest":
            done = pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *words[1:])
            assert done.ret in {0, 1}, line
        else:
            done = skidpad(*words[1:])
            assert done.code in ({0, 1} if words[1] == "gate" else {0}), (line, done.err)


def worst(run: Path) -> str:
    from skidpad.runs.folder import Run

    return Run.open(run).findings(limit=1).to_pylist()[0]["case_id"]


def test_the_page_about_findings(skidpad, workshop: Path, pytester: pytest.Pytester, capsys) -> None:
    run_all("replay.md", skidpad, pytester)
    assert {"finding.json", "README.md", "SHA256SUMS", "recipe.json"} <= {path.name for path in (workshop / "bundle").iterdir()}
    (script,) = blocks("replay.md", "python")
    exec(compile(script, "replay.md", "exec"), {})
    assert "Judgement(holds=True" in capsys.readouterr().out
    told = pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", "bundle", "--skidpad-subject", "mended.toml")
    told.assert_outcomes(passed=1)


def test_the_page_about_the_gate(skidpad, workshop: Path, pytester: pytest.Pytester, capsys) -> None:
    run_all("gate.md", skidpad, pytester)
    assert (workshop / "gate.xml").is_file()
    assert (workshop / "gate.md").is_file()
    (script,) = blocks("gate.md", "python")
    exec(compile(script, "gate.md", "exec"), {})
    tried = set(commands("gate.md", "sh"))
    examples = commands("gate.md", "yaml")
    assert len(examples) == 6
    assert set(examples) <= tried, "what the examples for CI systems call is called here"


def test_the_page_about_pytest(workshop: Path, pytester: pytest.Pytester) -> None:
    for number, block in enumerate(blocks("pytest.md", "python")):
        (workshop / f"test_page_{number}.py").write_text(block)
    (command,) = commands("pytest.md", "sh")
    done = pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *shlex.split(command)[1:])
    done.assert_outcomes(passed=7)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (DOCS / target).exists(), target
