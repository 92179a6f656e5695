"""skidpad weather search and replicate tactic, from the command line to the report and back."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "kinds"))
from tactic_toys import CARD, toy_weights

from skidpad.stimuli.weather.files import save_weather


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("weather") / "toy-rain"
    save_weather(file, CARD, toy_weights())
    return file


def test_a_search_is_reported_replayed_and_resumed(
    skidpad: Callable[..., object], subject: Path, drive: Path, weather: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    words = ("--weather", weather, "--conditions", 2, "--patience", 2, "--search", "es,random-styles", "--repeats", 2)
    made = skidpad("weather", "search", subject, drive, *words, "--thresholds", "0.001,40", "--out", run, "--json")
    assert made.code == 0, made.err
    payload = json.loads(made.out)
    assert len(payload["conditions"]) == 2 * 2 * 2
    assert len(payload["conditions"][0]["style"]) == 3
    assert [test["metric"] for test in payload["tests"]["random-styles"]] == ["KMNC", "NBC", "0.001°", "40°"]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert page.count("condition 2") > 0
    again = skidpad("resume", run)
    assert again.code == 0, again.err
    # the terminal shows the repeat that the page shows, and both say which
    (shown,) = re.findall(r"By \(1\+1\)-ES \(repeat \d of 2, the one with the most errors\)\.", again.out)
    assert shown in page
    assert "warning: toy-rain was learned from rendered pictures, and this drive is not rendered" in " ".join(again.out.split())
    assert "warning: Learned at fewer pixels than the subject sees: toy-rain" in " ".join(again.out.split())
    assert len(payload["warnings"]) == 2
    assert "(1+1)-ES against random styles (R_c)" in again.out
    assert "worst finding: skidpad replay" in again.out
    finding = again.out.split("skidpad replay")[1].split()[1]
    replayed = skidpad("replay", run, finding, "--picture", tmp_path / "pair.png")
    assert replayed.code == 0, replayed.out
    assert "reproduced" in replayed.out
    rows = {line.split("│")[1].strip(): line for line in replayed.out.splitlines() if line.count("│") >= 3}
    assert rows["error"].count("× tolerance") == 2
    assert rows["verdict"].count("finding") == 2
    assert (tmp_path / "pair.png").stat().st_size > 1000
    assert json.loads(skidpad("replay", run, finding, "--json").out)["reproduced"] is True


def test_bad_words_end_in_clear_ones(skidpad: Callable[..., object], subject: Path, drive: Path, weather: Path, tmp_path: Path) -> None:
    for words, said in (
        (("--weather", tmp_path / "none"), "there is no weather"),
        (("--weather", ""), "a weather is a bundled name"),
        (("--weather", "rain", "--weather", "night"), "a search takes one weather; run it once for each of rain, night"),
        (("--weather", weather, "--criterion", "nc"), "no criterion that can guide"),
        (("--weather", weather, "--search", "evolution"), "no search over styles named 'evolution'"),
        (("--weather", weather, "--thresholds", "ten"), "thresholds are degrees"),
        (("--weather", weather, "--validity", tmp_path / "none"), "none"),
    ):
        ended = skidpad("weather", "search", subject, drive, *words, "--out", tmp_path / "run")
        assert ended.code == 2
        assert said in " ".join(ended.err.split())


def test_the_tables_are_made_by_one_command(
    skidpad: Callable[..., object], subject: Path, drive: Path, weather: Path, tmp_path: Path
) -> None:
    words = (
        "--drive",
        drive,
        "--weather",
        weather,
        "--repeats",
        1,
        "--conditions",
        1,
        "--patience",
        2,
        "--frames",
        4,
        "--out",
        tmp_path / "t",
    )
    made = skidpad("replicate", "tactic", subject, *words)
    assert made.code == 0, made.err
    assert "Means over repeats" in made.out
    assert (tmp_path / "t" / "tactic.md").exists()
    assert (tmp_path / "t" / "small" / "toy-rain" / "nbc" / "report.html").exists()
