"""The page of a search for critical conditions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "campaigns"))
from tactic_toys import run_of, toy_campaign, toy_drive

from skidpad.campaigns.tactic import Tactic
from skidpad.report.model import Tone
from skidpad.report.render import render_page
from skidpad.report.tactic import PAIRS, RANDOM, SCENES, tactic_page
from skidpad.runs.folder import Run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tactic, Run]:
    campaign = toy_campaign(toy_drive(12), searches=("es", "random-styles"), repeats=2, bounds_deg=(0.5, 1.0, 2.0, 90.0))
    return campaign, run_of(campaign, tmp_path_factory.mktemp("tactic") / "run")


def test_conditions_stand_beside_random_styles_on_the_same_scenes(finished: tuple[Tactic, Run]) -> None:
    page = tactic_page(*finished)
    (gallery,) = page.galleries
    assert [row.label for row in gallery.rows] == ["as recorded", "condition 1", "condition 2", "random style 1", "random style 2"]
    assert {len(row.pictures) for row in gallery.rows} == {SCENES}
    assert len({picture.source for row in gallery.rows for picture in row.pictures}) == SCENES * (3 + RANDOM)
    assert page.tone is Tone.ALARM
    assert 0 < len(page.pictures) <= PAIRS


def test_figures_curves_and_tests_are_on_the_page(finished: tuple[Tactic, Run]) -> None:
    page = tactic_page(*finished)
    assert [chart.title for chart in page.charts] == ["Fitness", "Answers that move by 0.5° or more"]
    assert [table.title for table in page.tables] == ["Conditions found", "Means over repeats", "(1+1)-ES against random styles (R_c)"]
    assert page.tables[2].rows[-1][3:5] == ("FAILED", "FAILED")  # nothing moves by 90 degrees
    assert "No filter of scenes was used" in " ".join(page.notes)
    html = render_page(page)
    assert "Critical conditions" in html
    assert "skidpad replay" in html


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    campaign = toy_campaign(toy_drive(6))
    run = campaign.start(tmp_path / "run")
    page = tactic_page(campaign, run)
    assert page.tone is Tone.UNKNOWN
    assert page.verdict == "Not finished yet. No condition was found yet."
    assert "skidpad resume" in page.commands[0]
