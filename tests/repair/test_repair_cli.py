from __future__ import annotations

import json
from pathlib import Path

import pytest
from repair_toys import Garage, run_of, write_drive
from typer.testing import CliRunner

from skidpad.cli.main import app
from skidpad.core.errors import BadParametersError, BadRunError, SkidpadError, UnknownNameError


def command(garage: Garage, out: Path, *options: str) -> list[str]:
    quick = ["--preset", "deeptest", "--epochs", "1", "--max-mutants", "60", "--no-mirror"]
    return ["repair", str(garage.toml), str(garage.run.path), "--out", str(out), *quick, *options]


def test_json_has_the_figures_and_the_subject_is_written(garage: Garage, tmp_path: Path) -> None:
    answer = CliRunner().invoke(
        app, command(garage, tmp_path / "new", "--train-drive", garage.train_text, "--split", "time", "--referee", "off", "--json")
    )
    assert answer.exit_code == 0, answer.output
    payload = json.loads(answer.stdout)
    assert payload["settings"]["split"] == "time"
    assert payload["settings"]["kept_alone"] is False
    assert payload["training_frames"] == 60
    assert {row["pictures"] for row in payload["improvements"]} == {"originals", "deeptest-fog", "deeptest-rain", "all mutants"}
    assert (tmp_path / "new.toml").is_file()


def test_the_table_shows_before_and_after(garage: Garage, tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, command(garage, tmp_path / "new", "--transforms", "deeptest-rain"))
    assert answer.exit_code == 0, answer.output
    assert "held out" in answer.stdout
    assert "(rad^2)" in answer.stdout
    assert "deeptest-rain" in answer.stdout
    assert "note: no training drive" in answer.stdout.replace("\n", " ")
    assert f"new subject: {tmp_path / 'new.toml'}" in answer.stdout


@pytest.mark.parametrize(("option", "controlled"), [("--control", True), ("--no-control", False)])
def test_the_table_shows_the_control_unless_it_is_switched_off(garage: Garage, tmp_path: Path, option: str, controlled: bool) -> None:
    answer = CliRunner().invoke(app, command(garage, tmp_path / "new", option))
    assert answer.exit_code == 0, answer.output
    assert ("beyond" in answer.stdout) is controlled
    assert ("note: control: " in answer.stdout) is controlled
    assert ("note: no control: " in answer.stdout) is not controlled
    assert "nan" not in answer.stdout


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (["--split", "tme"], UnknownNameError, "did you mean 'time'"),
        (["--transforms", "deeptest-fogg"], UnknownNameError, "did you mean 'deeptest-fog'"),
        (["--transforms", "blur"], BadRunError, "it has deeptest-fog, deeptest-rain"),
        (["--share", "1.5"], SkidpadError, "above 0 and below 1"),
        (["--epochs", "0"], BadParametersError, "epochs"),
        (["--train-drive", "nowhere"], SkidpadError, "nowhere"),
    ],
)
def test_bad_use_is_one_clear_error(garage: Garage, tmp_path: Path, options: list[str], kind: type[SkidpadError], words: str) -> None:
    answer = CliRunner().invoke(app, command(garage, tmp_path / "new", *options))
    assert isinstance(answer.exception, kind)
    assert words in str(answer.exception)
    assert not list(tmp_path.glob("new*"))


def test_a_run_without_labels_is_one_clear_error(garage: Garage, tmp_path: Path) -> None:
    run_of(garage.toml, write_drive(tmp_path / "drive", 4, labels=False), tmp_path / "run", ("deeptest-fog",))
    answer = CliRunner().invoke(
        app, ["repair", str(garage.toml), str(tmp_path / "run"), "--preset", "deeptest", "--out", str(tmp_path / "new")]
    )
    assert isinstance(answer.exception, BadRunError)
    assert "has a label to train on" in str(answer.exception)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--transforms", "deeptest-fog"], "--transforms belongs to --preset deeptest; give that, or leave --transforms out"),
        (["--no-control", "--share", "0.5"], "--share and --control belong to --preset deeptest"),
        (["--preset", "deeptest", "--ways", "mix"], "--ways belongs to --preset search; give that, or leave --ways out"),
        (["--preset", "deeptest", "--from", "limits", "--seeds", "2"], "--from and --seeds belong to --preset search"),
    ],
)
def test_options_of_the_other_preset_are_refused(garage: Garage, tmp_path: Path, options: list[str], words: str) -> None:
    answer = CliRunner().invoke(app, ["repair", str(garage.toml), str(garage.run.path), "--out", str(tmp_path / "new"), *options])
    assert isinstance(answer.exception, SkidpadError)
    assert words in str(answer.exception)
    assert not list(tmp_path.glob("new*"))


def test_the_help_shows_defaults_whole_on_80_columns() -> None:
    shown = CliRunner().invoke(app, ["repair", "--help"], env={"COLUMNS": "80"}).stdout
    assert "…" not in shown
    assert "[default: (atmosphere, lens, shadows)]" in " ".join(shown.replace("│", " ").split())
