"""The page's benchmark runs, and ends with the line that programs read."""

import json
import math
import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_page_is_timed_against_a_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["page.py", "--quick"])
    runpy.run_path(str(BENCHMARKS / "page.py"), run_name="__main__")
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["findings"] == 1000
    for name in ("list_s", "first_screen_s", "again_s", "worst_filter_s", "vs_script"):
        assert 0 < figures[name] < math.inf, name
