"""Run folders that the first version wrote stay readable, reportable, gateable and, for pictures, replayable."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skidpad.cli.main import app

WRITTEN = Path(__file__).parent / "first_version"
"""A network, a drive of four frames, a run of `test` and one of `drive`, made by 0.1.0 before manifests named processors and hashes.

@HERE@ stands for the folder in which they lay.
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    folder = tmp_path / "written"
    shutil.copytree(WRITTEN, folder)
    for file in (*folder.glob("*/config.toml"), *folder.glob("*/manifest.json")):
        file.write_text(file.read_text().replace("@HERE@", str(folder)))
    return folder


def skidpad(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.mark.parametrize(("kind", "key", "value"), [("test", "originals", 4), ("drive", "drives", 2)])
def test_a_run_of_the_first_version_is_reported(written: Path, kind: str, key: str, value: int) -> None:
    code, out = skidpad("report", written / kind, "--json")
    payload = json.loads(out)
    assert code == 0
    assert payload["evidence"] == "cannot be checked"
    assert payload[key] == value
    assert (written / kind / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_its_findings_are_replayed_and_gated(written: Path) -> None:
    assert json.loads(skidpad("report", written / "test", "--json")[1])["overall"]["findings"] == 55
    code, out = skidpad("replay", written / "test", "worst", "--json")
    assert code == 0
    assert json.loads(out)["reproduced"] is True
    assert skidpad("gate", written / "test", "--max-rate", "0.9", "--accept-doubts")[0] == 0
    assert skidpad("gate", written / "test", "--max-rate", "0.1", "--accept-doubts")[0] == 1
