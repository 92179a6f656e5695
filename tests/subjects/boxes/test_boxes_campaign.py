import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from box_toys import program, write_toml

from skidpad.cli.main import main
from skidpad.runs.folder import Run
from skidpad.runs.records import ORIGINALS
from skidpad.subjects.description import Box

DRIVE = "rendered?frames=20&width=64&height=32"
STEER = "reply([[(mean - 0.5) / 3] for mean in means])"


@pytest.fixture
def skidpad(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Mapping[str, Any]]]:
    def call(*words: object) -> tuple[int, Mapping[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["skidpad", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    return call


def answers(path: Path, phase: str) -> np.ndarray:
    table = Run.open(path).records(phase, ("frame_index", "recipe", "mutant"))
    order = sorted(range(len(table)), key=lambda row: (str(table["recipe"][row]), int(table["frame_index"][row].as_py())))
    return table["mutant"].to_numpy()[order]


def test_a_whole_campaign_on_boxes_of_every_kind(
    skidpad: Callable[..., tuple[int, Mapping[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    program(tmp_path, STEER)
    (tmp_path / "boxed_campaign_mean.py").write_text("def steer(x):\n    return (x.mean((1, 2, 3), dtype=float) - 0.5) / 3\n")
    boxes = {"program": Box(command=(sys.executable, "-S", "serve.py")), "function": Box(function="boxed_campaign_mean:steer")}
    for name, box in boxes.items():
        code, _ = skidpad(
            "test", write_toml(tmp_path, box), DRIVE, "--transforms", "brightness", "--search", "grid,random", "--seeds", 2,
            "--max-failed-tries", 3, "--within-deg", 10, "--out", tmp_path / name, "--json",
        )  # fmt: skip
        assert code in {0, 1}
    for phase, at_least in ((ORIGINALS, 20), ("grid", 200), ("random", 2)):
        assert len(answers(tmp_path / "program", phase)) >= at_least
        np.testing.assert_allclose(answers(tmp_path / "program", phase), answers(tmp_path / "function", phase), atol=1e-6)


def test_a_box_that_dies_under_some_stimuli_does_not_end_the_campaign(
    skidpad: Callable[..., tuple[int, Mapping[str, Any]]], tmp_path: Path
) -> None:
    program(tmp_path, f"if max(means) > 1.8: os._exit(1)\n{STEER}")
    toml = write_toml(tmp_path, Box(command=(sys.executable, "-S", "serve.py"), restarts=1))
    skidpad("test", toml, DRIVE, "--transforms", "brightness", "--within-deg", 10, "--out", tmp_path / "run", "--json")
    assert np.isfinite(answers(tmp_path / "run", ORIGINALS)).all()
    mutants = answers(tmp_path / "run", "grid")
    assert 0 < np.isnan(mutants).sum() < len(mutants)
