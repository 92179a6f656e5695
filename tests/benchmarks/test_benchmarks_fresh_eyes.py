"""Pictures for viewers who are told nothing, and the grids of the docs."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from skidpad.core.images import decode, write_image

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DRIVE = "rendered?frames=60&width=96&height=64"


def run(name: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(BENCHMARKS / name), run_name="__main__")


def test_the_key_names_every_picture_once_and_stays_outside_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        write_image(tmp_path / "real" / f"{number}.jpg", np.full((60, 120, 3), 40 * number, np.uint8))
    folder = tmp_path / "sheets"
    shown = ["grey=saturation(factor=0)", "recorded=original", f"real=@{tmp_path / 'real'}:3"]
    run("fresh_eyes.py", ["sheets", str(folder), *shown, "--from", DRIVE, "--scenes", "4"], monkeypatch)
    key = json.loads((tmp_path / "sheets-key.json").read_text())
    assert sorted(key.values()) == ["grey"] * 4 + ["real"] * 3 + ["recorded"] * 4
    assert sorted(map(int, key)) == list(range(1, 12))
    assert sorted(file.name for file in folder.iterdir()) == ["sheet-01.png", "sheet-02.png"]
    first = decode((folder / "sheet-01.png").read_bytes())
    assert first is not None
    high, wide = first.shape[0] // 3, first.shape[1] // 3
    for number in range(1, 10):
        row, column = divmod(number - 1, 3)
        inside = first[row * high + 40 : (row + 1) * high - 20, column * wide + 20 : (column + 1) * wide - 20].astype(int)
        is_grey = np.abs(inside[..., 0] - inside[..., 2]).mean() < 2
        assert is_grey == (key[str(number)] != "recorded"), "the key says what a picture shows"
    capsys.readouterr()
    said = {"grey": "overcast day", "recorded": "clear day", "real": "night"}
    lines = [json.dumps({"n": int(number), "light_weather": said[name], "photo": "yes"}) for number, name in key.items()]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines) + "\n\n")
    run("fresh_eyes.py", ["count", str(folder), str(tmp_path / "answers.jsonl")], monkeypatch)
    told = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in told[:3]] == [
        "grey 4 overcast day 4; a photograph: yes 4",
        "real 3 night 3; a photograph: yes 3",
        "recorded 4 clear day 4; a photograph: yes 4",
    ]
    assert json.loads(told[3]) == {"grey": 4, "recorded": 4, "real": 3}


@pytest.mark.parametrize(("weathers", "rows"), [(["rain"], 5), (["exposure(ev=-2)", "saturation(factor=0)"], 3)])
def test_a_grid_has_a_row_for_each_look(weathers: list[str], rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(
        "weather_pictures.py",
        [*weathers, "--from", DRIVE, "--scenes", "2", "--rendered", "1", "--out", str(tmp_path / "grid.png")],
        monkeypatch,
    )
    grid = decode((tmp_path / "grid.png").read_bytes())
    assert grid is not None
    assert grid.shape == (rows * 165, 2 * 220, 3)
    looks = [grid[row * 165 : (row + 1) * 165] for row in range(rows)]
    assert all(not np.array_equal(looks[0], look) for look in looks[1:])
