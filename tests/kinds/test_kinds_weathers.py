"""What reports of tests and drives say of learned weathers: that one loses the road, and what is drawn on its pictures."""

from dataclasses import replace
from pathlib import Path

import pytest

from skidpad.kinds.drives.campaign import Online, OnlineSettings
from skidpad.kinds.drives.page import online_page
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.page import deeptest_page
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.weathers import cards_of, drawn_remarks, lost_roads
from skidpad.stimuli.registry import stimuli_of
from skidpad.stimuli.weather.files import load_weather, save_weather
from skidpad.stimuli.weather.pretrained import pretrained_weather
from skidpad.subjects.description import pretrained

SUBJECT = str(pretrained("pilotnet-rendered"))


@pytest.fixture
def lossy(tmp_path: Path) -> str:
    card, weights = load_weather(pretrained_weather("night"))
    save_weather(tmp_path / "murk", replace(card, name="murk", road_lost=0.75, drawn="lens-drops(share=0.1)"), weights)
    return f"weather:{tmp_path / 'murk'}"


def test_weathers_are_found_among_stimuli_narrowed_or_not(lossy: str) -> None:
    made = stimuli_of([lossy, "weather:night(style=2)", "fog"])
    assert [card.name for card in cards_of(made).values()] == ["murk", "night"]
    (warning,) = lost_roads(made)
    assert "murk moves or hides the road" in warning
    assert "75.0" in warning
    assert drawn_remarks(made) == (f"Drawn on top of the pictures of {lossy}: lens-drops(share=0.1).",)
    assert lost_roads(stimuli_of(["weather:night"])) == drawn_remarks(stimuli_of(["fog"])) == ()


def test_the_page_of_a_test_says_it(lossy: str, tmp_path: Path) -> None:
    settings = DeepTestSettings(
        subject=SUBJECT, drive="rendered?frames=2&width=64&height=48", transforms=(f"{lossy}(style=0)",), searches=("grid",), referee="off"
    )
    campaign = DeepTest.load(settings)
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    page = deeptest_page(campaign, run)
    assert any("moves or hides the road" in each for each in page.warnings)
    assert any("lens-drops(share=0.1)" in each for each in page.remarks)


def test_the_page_of_a_drive_says_it(lossy: str, tmp_path: Path) -> None:
    campaign = Online.load(OnlineSettings(subject=SUBJECT, scenarios=1, seconds=1.0, stimuli=(f"{lossy}(style=0)",)))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    page = online_page(campaign, run)
    assert any("moves or hides the road" in each for each in page.warnings)
    assert any("lens-drops(share=0.1)" in each for each in page.remarks)
