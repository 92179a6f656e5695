"""From a planted fault to a gate that fails and a test that waits for the mending: shrink, export and gate on the command line."""

import json
import xml.etree.ElementTree as ET
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from shutil import copytree

import pytest

from skidpad.kinds.kind import KINDS

pytest_plugins = ["pytester"]

IS_INSTALLED = any(each.name == "skidpad" for each in entry_points(group="pytest11"))
PLUGIN = () if IS_INSTALLED else ("-p", "skidpad.pytest_plugin.plugin")
"""An installation from before the entry point loads the plugin by name."""


@pytest.fixture(scope="module", autouse=True)
def registries() -> None:
    """Fills them here: what a test with an inner run imports first is forgotten at its end, but not by the registries."""
    for name in ("skidpad.pytest_plugin.assertions", "skidpad.kinds.bundles"):
        import_module(name)
    KINDS.names()


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory, write_driver) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("drivers")  # one for all: Python knows one module of a name
    return {name: write_driver(folder, f"{name}-of-gate", limit) for name, limit in (("bad", 0.62), ("worse", 0.55), ("mended", 9.0))}


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
    assert "× tolerance before, " in done.out
    assert "without any change" not in done.out
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

    def pytest_of(*more: object) -> pytest.RunResult:
        return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", f"--rootdir={test.parent}", test, *map(str, more))

    bad = pytest_of("--junit-xml", tmp_path / "junit.xml")
    bad.assert_outcomes(failed=1)
    assert "steering 5.7 deg left on the original, 28.6 deg left on the mutant" in bad.stdout.str()
    named = ET.parse(tmp_path / "junit.xml").find(".//property[@name='skidpad_picture']")
    assert named is not None
    assert f"picture: {named.attrib['value']}" in bad.stdout.str()
    assert Path(named.attrib["value"]).read_bytes() != (test.parent / "pair.png").read_bytes(), "drawn anew, with its own words"
    pytest_of("--skidpad-subject", drivers["mended"]).assert_outcomes(passed=1)
    assert skidpad("export", run, worst(run), "--out", tmp_path / "bundle").code == 2


def test_a_bundle_moves_with_its_subject_and_says_when_that_is_gone(skidpad, drivers, drive_text: str, tmp_path: Path, pytester) -> None:
    run = run_of(skidpad, drivers["bad"], drive_text, tmp_path / "run")
    told = json.loads(skidpad("export", run, "worst", "--out", tmp_path / "deep" / "bundle", "--json").out)
    test = Path(told["test"])
    (named,) = (line for line in test.read_text().splitlines() if line.startswith("SKIDPAD_SUBJECT"))
    assert str(drivers["bad"]) not in test.read_text()
    assert (test.parent / named.split('"' if '"' in named else "'")[1]).resolve() == drivers["bad"]
    words = (*PLUGIN, "-p", "no:cacheprovider", f"--rootdir={tmp_path}")
    pytester.runpytest_inprocess(*words, test).assert_outcomes(failed=1)
    moved = tmp_path / "elsewhere" / "far" / "away" / "bundle"
    moved.parent.mkdir(parents=True)
    test.parent.rename(moved)
    lost = pytester.runpytest_inprocess(*words, moved / test.name)
    lost.assert_outcomes(errors=1)
    lost.stdout.fnmatch_lines(["the network that this test names is not at *; name the one to ask with --skidpad-subject FILE"])
    assert "Traceback" not in lost.stdout.str()


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
    listed = [line for line in failed.out.splitlines() if line.startswith("new finding: ")]
    assert len(listed) == 5
    assert all("brightness(shift=" in line and " became " in line and f"skidpad replay {worse} " in line for line in listed)
    assert "the worst 5 of " in failed.out
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
    twice = skidpad("gate", run, "--max-rate", "blur=0", "--max-rate", "blur=0.5")
    assert (twice.code, "two limits for 'blur', 0 and 0.5" in twice.err) == (2, True)
    itself = skidpad("gate", run, "--baseline", run.parent / "." / run.name)
    assert (itself.code, "is its own baseline" in itself.err) == (2, True)
    printed = skidpad("gate", run, "--max-rate", "blur=0", "--markdown", "-")
    assert (printed.code, printed.out.startswith("## skidpad gate: passed")) == (0, True)
    assert "┃" not in printed.out
    assert skidpad("gate", run, "--max-rate", "blur=0", "--markdown", "-", "--json").code == 2
    assert not Path("-").exists()
    other = tmp_path / "other"
    assert skidpad("test", drivers["bad"], f"{drive_text}&to=0.5", "--out", other, "--transforms", "blur").code == 0
    refused = skidpad("gate", run, "--baseline", other)
    assert refused.code == 2
    assert "cannot be compared: the drive is another" in refused.err


def test_a_gate_leaves_out_false_alarms_only_when_asked(skidpad, drivers, drive_text: str, tmp_path: Path) -> None:
    from skidpad.runs.folder import Run
    from skidpad.runs.tags import Tag, Tags

    run = run_of(skidpad, drivers["bad"], drive_text, tmp_path / "run")
    found = [row["case_id"] for row in Run.open(run).findings().to_pylist()]
    for case in found:
        Tags.of(run).put(case, Tag.FALSE_ALARM)
    raw = skidpad("gate", run, "--max-rate", "0.01", "--json")
    cleared = skidpad("gate", run, "--max-rate", "0.01", "--without-false-alarms", "--json")
    assert (raw.code, cleared.code) == (1, 0)
    told = json.loads(raw.out)
    assert json.loads(cleared.out)["rates"] == told["rates"], "both rates are told either way"
    (whole,) = [rate for rate in told["rates"] if rate["group"] == "all"]
    assert (whole["findings"], whole["false_alarms"], whole["without_false_alarms"]["estimate"]) == (len(found), len(found), 0.0)
    shown = skidpad("gate", run, "--max-rate", "1").out
    assert "false alarms" in shown
    assert "counted all the same" in shown
    report = json.loads(skidpad("report", run, "--json").out)
    assert report["tags"]["false_alarms"] == len(found)
    assert report["tags"]["rate_without_false_alarms"]["estimate"] == 0.0
    assert report["overall"]["already_broken"] == 0


def test_a_gate_refuses_a_constant_network_that_has_no_findings(skidpad, drivers, drive: Path, drive_text: str, tmp_path: Path) -> None:
    run, winding = tmp_path / "run", tmp_path / "drive"
    copytree(drive, winding)
    rows = [f"{frame:03d}.png,{angle}" for frame, angle in enumerate((-90, 40, 80, -20, 60, -70, 30, 90))]
    (winding / "angles.csv").write_text("\n".join(["frame,angle", *rows]))
    text = drive_text.replace(str(drive), str(winding))
    tested = skidpad("test", drivers["mended"], text, "--out", run, "--transforms", "brightness", "--within-deg", "10")
    assert tested.out.startswith("doubt: The network answers the same on every frame"), "before any figure"
    assert skidpad("report", run).out.startswith("doubt: ")
    files = {name: tmp_path / f"gate.{name}" for name in ("xml", "md")}
    refused = skidpad("gate", run, "--max-rate", "0.05", "--junit", files["xml"], "--markdown", files["md"])
    assert refused.code == 1
    assert refused.out.startswith("doubt: ")
    assert "broken: the answers on unchanged frames make no sense (constant)" in refused.out
    assert "0 of 80" not in refused.out
    assert "In doubt: The network answers the same" in files["md"].read_text()
    assert "doubt: The network answers the same" in files["xml"].read_text()
    told = json.loads(skidpad("gate", run, "--max-rate", "0.05", "--json").out)
    assert (told["passed"], [doubt["kind"] for doubt in told["doubts"]]) == (False, ["constant"])
    accepted = skidpad("gate", run, "--max-rate", "0.05", "--accept-doubts")
    assert accepted.code == 0
    assert accepted.out.startswith("doubt: ")
    assert json.loads(skidpad("report", run, "--json").out)["doubts"][0]["kind"] == "constant"
