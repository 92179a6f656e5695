"""Runs under a bundled weather: looked at in the page, made smaller, exported."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ui_runs import Server, serve

from skidpad.kinds.bundles import export_finding
from skidpad.kinds.exhibits import PictureSide
from skidpad.kinds.kind import kind_of, load_campaign
from skidpad.kinds.pictures.styles.campaign import TacticSettings
from skidpad.kinds.pictures.weather.campaign import DeepRoadSettings
from skidpad.kinds.shrinking import shrink_finding
from skidpad.page.writing import render_page
from skidpad.runs.folder import Run
from skidpad.runs.tags import Tag, Tags
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.subjects.description import subject_path

DRIVE = "rendered?frames=12&seed=3"
KINDS = ("deeproad", "tactic")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shelf")
    subject, weather = str(subject_path("demo")), str(weather_path("night").absolute())
    settings = (
        DeepRoadSettings(subject=subject, drive=DRIVE, weathers=(weather,), thresholds_deg=(1.0,)),
        TacticSettings(subject=subject, drive=DRIVE, weather=weather, conditions=1, frames=8, iterations=2, patience=2, bounds_deg=(1.0,)),
    )
    for name, one in zip(KINDS, settings, strict=True):
        campaign = load_campaign(one.to_config(), "the test")
        campaign.execute(campaign.start(root / name))
    return root


@pytest.fixture(scope="module")
def server(shelf: Path) -> Iterator[Server]:
    with serve(shelf) as served:
        yield served


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_shows_the_frame_in_the_weather(server: Server, kind: str) -> None:
    view = server.library.view(server.key(kind))
    row = view.run.findings(limit=1).to_pylist()[0]
    original, mutant = (view.exhibit.picture(row, side) for side in (PictureSide.ORIGINAL, PictureSide.MUTANT))
    assert original.shape == mutant.shape
    assert np.abs(original.astype(int) - mutant.astype(int)).mean() > 3.0
    assert "style_0" not in view.exhibit.title(row), "eight numbers say nothing to a reader"
    assert view.rule().words == "steers-alike, within 1°"
    answer = server.get(f"/runs/{server.key(kind)}/cases/{row['case_id']}/mutant.jpg")
    assert answer.headers["content-type"] == "image/jpeg"


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_in_the_browser_is_the_page_of_the_run_with_its_tags(server: Server, shelf: Path, kind: str) -> None:
    address, run = f"/runs/{server.key(kind)}/report", Run.open(shelf / kind)
    page = kind_of(run).page(load_campaign(run.config, kind, run.manifest), run)
    assert server.get(address).text == render_page(page)
    (run.path / "report.html").write_text("written by the command")
    assert server.get(address).text == "written by the command"
    shown = page.pictures[0].case_id
    Tags.of(run.path).put(shown, Tag.FALSE_ALARM)
    tagged = server.get(address).text
    assert "rate without false alarms" in tagged, "the stored page is older than the tag"
    Tags.of(run.path).put(shown, None)
    (run.path / "report.html").unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_a_finding_is_made_smaller_and_exported(shelf: Path, kind: str, tmp_path: Path) -> None:
    run = Run.open(shelf / kind)
    campaign = load_campaign(run.config, kind)
    case = run.findings(limit=1).to_pylist()[0]["case_id"]
    shrunk = shrink_finding(campaign, run, case)
    assert shrunk.smallest["violated"]
    export_finding(campaign, run, case, tmp_path / "bundle")
    assert {path.name for path in (tmp_path / "bundle").glob("frames/*.png")} >= {"original.png", "mutant.png"}
    assert "def test_" in next((tmp_path / "bundle").glob("test_*.py")).read_text(encoding="utf-8")
