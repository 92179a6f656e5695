"""What a repair says to who used it wrongly, watches it in a file, or prints it in Python."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repair_toys import Garage, trained
from typer.testing import CliRunner

import skidpad as sp
from skidpad.api.results import Repaired
from skidpad.cli.main import app
from skidpad.drives.opening import drive_from_arrays
from skidpad.oracles.relations import SteersAlike
from skidpad.page.terminal import progress_lines
from skidpad.repairs.outcome import Outcome
from skidpad.repairs.plan import SearchSettings, Task, check_labels
from skidpad.repairs.runs import ClosedLoop
from skidpad.repairs.search import Repairs

SMALL = "--families gamma --unseen none --weathers none --ways random --strengths 1 --pictures 32 --judged-frames 1 --epochs 1 --seeds 1"


def refused(*words: object) -> str:
    answer = CliRunner().invoke(app, ["repair", *map(str, words)])
    assert isinstance(answer.exception, sp.SkidpadError), answer.output
    return str(answer.exception)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--families gama", "did you mean 'gamma'"),
        ("--weathers nigth", "nigth"),
        ("--ways findings --unseen deeptest-fog,gamma", "deeptest-fog"),
        ("--ways findings", "nothing is left to train on"),
        ("--closed-loop 2 --stimulus fogg", "fogg"),
        ("--closed-loop 2 --domain extendet", "did you mean 'extended'"),
    ],
)
def test_a_command_that_is_refused_leaves_no_folder(garage: Garage, tmp_path: Path, options: str, words: str) -> None:
    """The run of the garage found only what a repair does not train on."""
    assert words in refused(garage.toml, garage.run.path, "--out", tmp_path / "out", *options.split())
    assert not (tmp_path / "out").exists()


def test_a_refused_command_leaves_an_empty_folder_empty(garage: Garage, tmp_path: Path) -> None:
    refused(garage.toml, garage.run.path, "--out", tmp_path, "--ways", "findings")
    assert list(tmp_path.iterdir()) == []


def test_a_drive_in_place_of_a_run_is_to_be_tested_first(garage: Garage, tmp_path: Path) -> None:
    said = refused("demo", "rendered?frames=80&seed=3", "--out", tmp_path / "out")
    assert "'rendered?frames=80&seed=3' is a drive" not in said
    assert said.startswith("rendered?frames=80&seed=3 is a drive, and a repair begins with a run")
    assert "`skidpad test demo 'rendered?frames=80&seed=3' --out runs/first`" in said
    assert "no run folder at" in refused("demo", tmp_path / "nothing", "--out", tmp_path / "out")
    with pytest.raises(sp.SkidpadError, match=re.escape("give it as open_drive('rendered?frames=80&seed=3')")):
        sp.repair(garage.subject, "rendered?frames=80&seed=3", out=tmp_path / "out")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ways": ()}, r"^a repair needs at least one way; got none: see --ways$"),
        ({"strengths": ()}, r"at least one strength; got none"),
        ({"strengths": (3.0, -1.0)}, r"^strengths must be above 0; got 3,-1$"),
        ({"learning_rates": (1e-3, -0.5)}, r"got 0.001,-0.5$"),
        ({"ways": ("mix", "mix")}, r"got the ways mix,mix, the strengths 1,3 and the learning rates none$"),
    ],
)
def test_wrong_settings_are_repeated_as_they_were_typed(given: dict[str, Any], words: str) -> None:
    with pytest.raises(sp.SkidpadError, match=words):
        SearchSettings(**given)


def test_a_file_gets_a_line_for_each_stage_and_some_within(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    report = progress_lines(lambda: now)
    for done in (32, 64):
        report(done, 64, "rendering random")
    for done in range(1, 101):
        now += 1.0
        report(done, 100, f"random-3-seed0, epoch {1 + done // 50}")
    report(1, 10, "random-3-seed0, epoch 1")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "rendering random: 32 of 64"
    assert lines[1] == "random-3-seed0, epoch 1: 1 of 100"
    assert lines[2] == "random-3-seed0, epoch 1: 11 of 100"
    assert len(lines) == 1 + 10 + 1
    assert lines[-1].endswith("1 of 10")


def test_the_command_tells_a_file_how_far_it_is(garage: Garage, tmp_path: Path) -> None:
    words = ["repair", str(garage.toml), str(garage.run.path), "--out", str(tmp_path / "out"), "--referee", "off", *SMALL.split()]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    for stage in ("rendering random", "rendering validation", "random-1-seed0, epoch 1", "control-1-seed0, epoch 1"):
        assert len(re.findall(f"^{stage}", answer.stderr, re.MULTILINE)) == 1
    assert "rendering" not in answer.stdout
    said = refused(garage.toml, garage.run.path, "--out", tmp_path / "out", "--referee", "off", *SMALL.split())
    assert said == f"{tmp_path / 'out'} holds a finished repair: its report is {tmp_path / 'out' / 'report.html'}; choose another --out"
    other = refused(garage.toml, garage.run.path, "--out", tmp_path / "out", "--referee", "off", *SMALL.split(), "--epochs", "2")
    assert "(epochs was 1 and is 2)" in other


def test_few_frames_that_choose_are_noted(garage: Garage, tmp_path: Path) -> None:
    task = Task(garage.subject, garage.train_drive, SteersAlike(within_deg=6.0))
    notes = Repairs(task, tmp_path, SearchSettings(families=("gamma",), weathers=())).notes
    assert notes == ["only 5 frames choose among the candidates, so that chance decides much of it; use a longer drive"]


def test_a_module_of_ones_own_is_advised_what_python_has(garage: Garage) -> None:
    whole = garage.train_drive
    shuffled = drive_from_arrays(whole.read(range(len(whole))).frames, np.random.default_rng(3).permutation(whole.steering_rad))
    net = sp.wrap(garage.subject.module, width_px=16, height_px=8, colour="grey")
    assert "with `skidpad.evaluate(net, drive)`" in check_labels(net, shuffled)[0]  # type: ignore[arg-type] # a network in memory
    assert "with `skidpad evaluate`" in check_labels(garage.subject, shuffled)[0]
    assert repr(net) == "<network 'Sequential', 16 x 8 px>"


def test_printed_in_python_a_repair_shows_its_notes(garage: Garage, tmp_path: Path) -> None:
    best = trained("mix", 0.1, 0.2)
    outcome = Outcome("toy", "", "drive", "", SearchSettings(), (), (), (1, 1, 1), best, (best,), "mix-1-seed0", (), ("look here",))
    assert repr(Repaired(outcome, tmp_path, garage.subject)).splitlines() == ["Recommended: mix-1-seed0.", "note: look here"]
    assert repr(Repaired(replace(outcome, notes=()), tmp_path, garage.subject)) == outcome.verdict


def test_scenarios_of_a_closed_loop_are_checked_before_the_repair() -> None:
    assert ClosedLoop.asked(0, (), "nowhere") is None
    with pytest.raises(sp.SkidpadError, match="nowhere"):
        ClosedLoop.asked(2, (), "nowhere")
