"""A run without findings shows what came nearest to one."""

from pathlib import Path

from bar_world import BarSubject, bar_campaign, bar_drive

from skidpad.core.images import write_image
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.nearest import nearest_galleries
from skidpad.kinds.pictures.page import deeptest_page
from skidpad.oracles.error import times_tolerated
from skidpad.runs.folder import Run

TITLE = "Nearest to a finding"


def ran(folder: Path, tolerance: float, **changes: object) -> tuple[DeepTest, Run]:
    campaign = bar_campaign(BarSubject(), transforms=("blur", "brightness"), tolerance=tolerance, **changes)
    run = campaign.start(folder)
    campaign.execute(run)
    return campaign, run


def test_the_largest_excess_of_each_stimulus_is_shown(tmp_path: Path) -> None:
    campaign, run = ran(tmp_path / "run", 500.0)
    page = deeptest_page(campaign, run)
    (gallery,) = (each for each in page.galleries if each.title == TITLE)
    largest: dict[str, float] = {}
    for row in run.records("grid").to_pylist():
        largest[row["stimulus"]] = max(largest.get(row["stimulus"], 0.0), row["excess"])
    assert [row.label for row in gallery.rows] == sorted(largest, key=lambda name: -largest[name])
    for row in gallery.rows:
        assert len(row.pictures) == 2
        assert row.note.endswith(times_tolerated(largest[row.label]))
        assert row.pictures[0].source != row.pictures[1].source


def test_frames_that_are_gone_are_left_out(tmp_path: Path) -> None:
    for number, frame in enumerate(bar_drive(6).read(range(6)).frames):
        write_image(tmp_path / "drive" / f"{number}.png", frame)
    campaign, run = ran(tmp_path / "run", 500.0, drive=open_drive(str(tmp_path / "drive")))
    assert nearest_galleries(run, campaign)
    for file in (tmp_path / "drive").iterdir():
        file.write_bytes(b"no picture")
    assert nearest_galleries(run, campaign) == ()


def test_a_run_with_findings_shows_those(tmp_path: Path) -> None:
    campaign, run = ran(tmp_path / "run", 0.01)
    page = deeptest_page(campaign, run)
    assert page.pictures
    assert TITLE not in {each.title for each in page.galleries}
