"""From a planted fault to a gate that fails and a test that waits for the mending: shrink, export and gate on the command line."""

import json
import xml.etree.ElementTree as ET
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TOML = """
format = "box"
box = {{ function = "{module}:drive" }}

[input]
width_px = 80
height_px = 60
colour = "rgb"
range = {{ low = 0.0, high = 1.0 }}

[[outputs]]
name = "steering"
unit = "rad"
"""
DRIVER = """
import numpy as np

def drive(pictures):
    light = np.asarray(pictures).reshape(len(pictures), -1).mean(axis=1)
    return np.where(light > {limit}, 0.5, 0.1)[:, None]
"""
IS_INSTALLED = any(each.name == "skidpad" for each in entry_points(group="pytest11"))
PLUGIN = () if IS_INSTALLED else ("-p", "skidpad.pytest_plugin.plugin")
"""An installation from before the entry point loads the plugin by name."""


def driver(folder: Path, name: str, limit: float) -> Path:
    """Writes a driver that is dazzled where the mean light, 0..1, is above a limit."""
    (folder / f"{name}_of_gate.py").write_text(DRIVER.format(limit=limit))
    path = folder / f"{name}.toml"
    path.write_text(TOML.format(module=f"{name}_of_gate"))
    return path


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("drivers")  # one for all: Python knows one module of a name
    return {name: driver(folder, name, limit) for name, limit in (("bad", 0.62), ("worse", 0.55), ("mended", 9.0))}


def run_of(skidpad, subject: Path, drive_text: str, out: Path, *more: object) -> Path:
    done = skidpad("test", subject, drive_text, "--out", out, "--transforms", "brightness,blur", "--within-deg", "5", *more)
    assert done.code == 0, done.err
    return out


def worst(run: Path) -> str:
    from skidpad.runs.folder import Run

    return Run.open(run).findings(limit=1).to_pylist()[0]["case_id"]


def test_shrink_prints_before_and_after_and_writes_both(skidpad, drivers, drive_text: str, tmp_path: Path) -> None:
    run = run_of(skidpad, drivers["bad"], drive_text, tmp_path / "run")
    case = worst(run)
    done = skidpad("shrink", run, case)
    assert done.code == 0, done.err
    assert "brightness shift" in done.out
    assert {path.name for path in (run / "shrunk" / case).iterdir()} == {"shrunk.json", "before.png", "after.png"}
    told = json.loads(skidpad("shrink", run, case, "--out", tmp_path / "small", "--json").out)
    (change,) = told["changes"]
    assert int(change["after"]) < int(change["before"])
    assert skidpad("resume", run).code == 0, "what shrinking wrote does not disturb the run"
    assert skidpad("shrink", run, "ffffffffffff").code == 2


def test_the_exported_test_fails_until_the_subject_is_mended(skidpad, drivers, drive_text: str, tmp_path: Path, pytester) -> None:
    run = run_of(skidpad, drivers["bad"], drive_text, tmp_path / "run")
    told = json.loads(skidpad("export", run, worst(run), "--out", tmp_path / "bundle", "--smallest", "--json").out)
    test = Path(told["test"])
    import_module("skidpad.pytest_plugin.assertions")  # what an inner run imports first is forgotten at its end

    def pytest_of(*more: object) -> pytest.RunResult:
        return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", f"--rootdir={test.parent}", test, *map(str, more))

    bad = pytest_of("--junit-xml", tmp_path / "junit.xml")
    bad.assert_outcomes(failed=1)
    assert "steering 5.73 deg on the original, 28.65 deg on the mutant" in bad.stdout.str()
    assert f"picture: {test.parent / 'pair.png'}" in bad.stdout.str()
    named = ET.parse(tmp_path / "junit.xml").find(".//property[@name='skidpad_picture']")
    assert named is not None
    assert named.attrib["value"] == str(test.parent / "pair.png")
    pytest_of("--skidpad-subject", drivers["mended"]).assert_outcomes(passed=1)
    assert skidpad("export", run, worst(run), "--out", tmp_path / "bundle").code == 2


def test_gate_passes_the_same_subject_and_names_a_regression(skidpad, drivers, drive_text: str, tmp_path: Path) -> None:
    base = run_of(skidpad, drivers["bad"], drive_text, tmp_path / "base", "--seed", "1")
    again = run_of(skidpad, drivers["bad"], drive_text, tmp_path / "again", "--seed", "2")
    worse = run_of(skidpad, drivers["worse"], drive_text, tmp_path / "worse", "--seed", "3")
    passed = skidpad("gate", again, "--baseline", base, "--max-new", "0", "--max-rate", "0.9")
    assert (passed.code, passed.err) == (0, "")
    assert "passed: 5 limits are kept" in passed.out
    files = {name: tmp_path / f"gate.{name}" for name in ("xml", "md")}
    words = ("--baseline", base, "--max-new", "3", "--junit", files["xml"], "--markdown", files["md"])
    failed = skidpad("gate", worse, *words)
    assert failed.code == 1
    broken = [line for line in failed.out.splitlines() if line.startswith("broken: ")]
    assert len(broken) >= 1
    assert any("new findings, 3 allowed" in line for line in broken)
    root = ET.parse(files["xml"]).getroot()
    assert int(root.attrib["failures"]) == len(broken)
    assert files["md"].read_text().startswith("## skidpad gate: FAILED")
    told = json.loads(skidpad("gate", worse, *words, "--json").out)
    assert told["passed"] is False
    assert [f"broken: {line}" for line in told["broken"]] == broken
    replayed = skidpad("replay", worse, told["new"][0])
    assert replayed.code == 0


def test_gate_limits_of_groups_and_bad_use(skidpad, drivers, drive_text: str, tmp_path: Path) -> None:
    run = run_of(skidpad, drivers["bad"], drive_text, tmp_path / "run")
    assert skidpad("gate", run, "--max-rate", "blur=0").code == 0
    failed = skidpad("gate", run, "--max-rate", "brightness=0.1", "--max-rate", "blur=0")
    assert failed.code == 1
    assert failed.out.count("broken: ") == 1
    assert "failure rate of brightness is beyond 0.1" in failed.out
    for words in ((), ("--max-rate", "much"), ("--max-rate", "2"), ("--max-rate", "bluur=0.1"), ("--max-new", "1")):
        refused = skidpad("gate", run, *words)
        assert refused.code == 2, words
        assert refused.err.startswith("error: ")
    other = tmp_path / "other"
    assert skidpad("test", drivers["bad"], f"{drive_text}&to=0.5", "--out", other, "--transforms", "blur").code == 0
    refused = skidpad("gate", run, "--baseline", other)
    assert refused.code == 2
    assert "cannot be compared: the drive is another" in refused.err
