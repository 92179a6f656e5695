"""`skidpad limits`, `odd` and `gate --hold` from the command line and from Python."""

import json
import sys
from math import log2
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parents[1] / name) for name in ("kinds", "ui")]
from limit_toys import CONDITIONS, STEPS, Planted, toy_drive
from ui_runs import serve

from skidpad import api
from skidpad.core.errors import BadParametersError
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.limits.page import side_by_side
from skidpad.kinds.limits.summary import Found
from skidpad.pytest_plugin import assert_holds
from skidpad.runs.folder import Run
from skidpad.stimuli.registry import TRANSFORMS


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy conditions as if they were installed."""
    TRANSFORMS.names()
    monkeypatch.setattr(TRANSFORMS, "_rows", dict(TRANSFORMS._rows) | {name: type(each) for name, each in CONDITIONS.items()})


def test_the_limits_of_two_networks_stand_side_by_side(skidpad: Any, tmp_path: Path) -> None:
    runs = []
    for number, dark in enumerate((40.0, 60.0)):
        run = tmp_path / f"run{number}"
        result = api.limits(Planted(dark=dark), toy_drive(), ("toy-dark", "toy-fog"), out=run, stretch_frames=4, referee="off")
        assert result.limits["toy-dark"]["holds_to"] == pytest.approx(log2(dark / 127.5), abs=4.0 / STEPS)
        runs.append(result.run)
    table = side_by_side(runs)
    assert [row[0] for row in table.rows] == ["toy-dark", "toy-fog"]
    assert table.rows[0][1:] == ("-1.62 EV", "-1.75 EV", "-1 EV", "-1.12 EV")
    with serve(tmp_path) as server:
        shown = server.get(f"/compare?run={server.key('run0')}&run={server.key('run1')}").text
    assert "<td>-1.62 EV</td><td>-1.75 EV</td>" in shown
    doubted = skidpad("gate", runs[0].path, "--hold", "toy-dark.ev=-1.6")
    assert doubted.code == 1  # it answers the same on every unchanged frame, so that holding means nothing
    assert "make no sense (constant" in doubted.out
    kept = skidpad("gate", runs[0].path, "--hold", "toy-dark.ev=-1.6", "--hold", "toy-fog=20", "--accept-doubts")
    assert kept.code == 0, kept.err
    assert "passed: 2 limits are kept" in kept.out
    assert "unsure: toy-fog holds to 20 m: the run holds to 20 m, but it has too few frames to be sure" in kept.out
    worse = skidpad("gate", runs[1].path, "--hold", "toy-dark.ev=-1.6", "--accept-doubts")
    assert worse.code == 1
    assert "broken: toy-dark holds to -1 EV only, which is worse than -1.6 EV" in worse.out
    assert skidpad("gate", runs[1].path, "--hold", "toy-dark.ev=9").code == 2


def test_the_command_prints_the_table_and_writes_the_statement(skidpad: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    given = ("--conditions", "toy-fog,toy-dark", "--frames", "24", "--steps", "8", "--referee", "off")
    done = skidpad("limits", "demo", "rendered?frames=40", *given, "--out", run, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [row["name"] for row in told["limits"]] == ["toy-fog", "toy-dark"]
    for row in told["limits"]:
        assert {"holds_to", "fails_from", "unit", "interval", "kept_share", "curve"} <= set(row)
        assert {"value", "share", "low", "high", "frames", "standing"} <= set(row["curve"][0])
    assert told["frames"] == 24
    assert "Not tested" in (run / "odd.md").read_text()
    assert json.loads((run / "odd.json").read_text())["frames"] == 24
    assert skidpad("odd", run, "--out", tmp_path / "again.md").code == 0
    assert (tmp_path / "again.md").read_text() == (run / "odd.md").read_text()
    shown = skidpad("report", run)
    assert shown.code == 0, shown.err
    found = Found.of(load_campaign(Run.open(run).config, "here"), Run.open(run))
    row = found.run.records("round-00").to_pylist()[0]
    assert skidpad("replay", run, row["case_id"], "--picture", tmp_path / "pair.png").code == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--conditions", "toy-frog"), "no condition named 'toy-frog'; did you mean 'toy-fog'?"),
        (("--conditions", "shear"), "'shear' is no condition in physical units"),
        (("--conditions", "fog-toy(visibility_m=100)"), "name the condition alone, as fog"),
        (("--conditions", "fog-toy,toy-fog"), "each condition is named once"),
        (("--conditions", ""), "--conditions is empty"),
        (("--share", "2"), "accepted_share must be"),
        (("--steps", "10"), "steps is a multiple of 4"),
        (("--pairs", "toy-fog"), "two conditions with a comma"),
        (("--frames", "4"), "`limits` needs at least 8 frames here; 'rendered-0' gives 4: take a longer drive"),
        (("--conditions", "toy-fog.visibility_km"), "name the condition alone, as fog"),
        (("--referee", "perhaps"), "no setting of the referee named 'perhaps'"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(skidpad: Any, tmp_path: Path, given: tuple[str, str], sentence: str) -> None:
    done = skidpad("limits", "demo", "rendered?frames=20", *given, "--out", tmp_path / "run")
    assert done.code == 2
    assert sentence in done.err
    assert not (tmp_path / "run").exists()


def test_a_run_of_another_kind_holds_no_severity_and_states_no_domain(skidpad: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert skidpad("test", "demo", "rendered?frames=8", "--stimulus", "brightness(shift=10)", "--out", run).code == 0
    assert "those of `skidpad limits` can" in skidpad("gate", run, "--hold", "fog=1").err
    assert "no run of `skidpad limits`" in skidpad("odd", run).err


def test_a_test_holds_a_severity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where its picture goes
    drive = toy_drive()
    with pytest.warns(UserWarning, match=r"none of 64 frames fails, but up to .* could on a longer drive"):
        assert_holds(Planted(dark=40.0), drive, "exposure-toy(ev=-1.5)", referee=False)
    with pytest.raises(AssertionError) as caught:
        assert_holds(Planted(dark=40.0), drive, "exposure-toy(ev=-2)", referee=False)
    assert "exposure-toy(ev=-2) does not hold: 100 % of 64 frames fail" in str(caught.value).replace("\u00a0", " ")
    assert "0.0° straight became 30.0° left" in str(caught.value) or "became 30.0° left" in str(caught.value)
    with pytest.raises(BadParametersError, match=r"takes ev in \[-4, 2\]; got ev=-9"):
        assert_holds(Planted(), drive, "exposure-toy(ev=-9)", referee=False)
    with pytest.raises(BadParametersError, match="one condition in physical units"):
        assert_holds(Planted(), drive, "shear", referee=False)
