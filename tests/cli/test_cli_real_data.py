"""The commands on a recorded drive, where one is at hand."""

import json
from pathlib import Path

import pytest

from skidpad.subjects.description import pretrained

pytestmark = pytest.mark.real_data

LEADERBOARD_RAD = {
    "komanda": {"public": 0.0482910511682, "private": 0.0512445872957},
    "rambo": {"public": 0.0578777529417, "private": 0.0559772239809},
}
"""RMSE that the Udacity challenge 2 published."""


@pytest.mark.parametrize("team", list(LEADERBOARD_RAD))
def test_evaluate_reproduces_the_published_leaderboard(skidpad, shared_data: Path, team: str) -> None:
    drive = shared_data / "udacity-ch2-test"
    figures = json.loads(skidpad("evaluate", drive / f"predictions-{team}.csv", drive, "--json").out)
    assert figures["all"]["judged"] == 5614
    for split, rmse_rad in LEADERBOARD_RAD[team].items():
        assert figures[split]["rmse_rad"] == pytest.approx(rmse_rad, abs=1e-9)


def test_a_campaign_on_recorded_frames_finds_and_replays(skidpad, shared_data: Path, tmp_path: Path) -> None:
    drive = f"{shared_data / 'udacity-ch2-test'}?start=2000&stop=2006"
    subject = pretrained("pilotnet-rendered")
    done = skidpad("test", subject, drive, "--out", tmp_path / "run", "--preset", "deeptest", "--within-deg", "5", "--json")
    summary = json.loads(done.out)
    assert (summary["originals"], summary["overall"]["cases"], summary["problems"]) == (6, 540, 0)
    assert summary["overall"]["findings"] > 0
    from skidpad.runs.folder import Run

    worst = Run.open(tmp_path / "run").findings(limit=1)["case_id"][0].as_py()
    assert json.loads(skidpad("replay", tmp_path / "run", worst, "--json").out)["reproduced"] is True


@pytest.mark.parametrize(("network", "neurons"), [("dronet", 706), ("pulp-dronet", 706)])
def test_published_networks_run_through_a_whole_campaign(skidpad, shared_data: Path, tmp_path: Path, network: str, neurons: int) -> None:
    described = Path(__file__).parents[2] / "examples" / f"{network}.toml"
    if not (described.parent / "../../shared/data/models").resolve().is_dir():
        pytest.skip("the examples' files are looked for beside the repository, in ../shared/data/models")
    drive = f"{shared_data / 'udacity-ch2-test'}?start=2000&stop=2004"
    chosen = ("--transforms", "brightness,deeptest-rain", "--search", "grid,greedy", "--seeds", "1", "--max-failed-tries", "2")
    done = skidpad("test", described, drive, *chosen, "--out", tmp_path / "run", "--json")
    summary = json.loads(done.out)
    assert (summary["originals"], summary["problems"]) == (4, 0)
    assert summary["overall"]["cases"] >= 80
    assert next(row for row in summary["coverage"] if row["criterion"] == "nc")["total"] == neurons
    report = (tmp_path / "run" / "report.html").read_text()
    assert "coverage" in report
    assert "<img" in report
