"""Ranking frames and scenarios by what a subject makes of them."""

import numpy as np
import pytest
from online_toys import LONGER, demo, online, tampered
from typer.testing import CliRunner

from skidpad.cli.main import app
from skidpad.core.errors import SkidpadError
from skidpad.drives import open_drive
from skidpad.kinds.ranking import Ranking, rank_frames, rank_scenarios


def test_frames_are_ranked_in_four_ways_and_scored_against_their_labels():
    drive = open_drive("rendered?frames=24&seed=3&width=96&height=72")
    ranking = rank_frames(tampered(bias_rad=0.4), drive, within_deg=20.0)
    assert set(ranking.orders) == {"uncertainty", "distance", "coverage", "geometry"}
    for name, order in ranking.orders.items():
        assert sorted(order.tolist()) == list(range(24)), name
        assert ranking.apfd(name) <= ranking.apfd("ideal")
    assert ranking.failed is not None
    assert ranking.failed.any()
    scores = [ranking.apfd(name) for name in ranking.orders]
    assert scores == sorted(scores, reverse=True)


def test_scenarios_of_a_run_are_ranked_and_a_run_without_drives_is_refused(tmp_path):
    campaign = online(tampered(bias_rad=1.5), LONGER)
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    ranking = rank_scenarios(demo(), run)
    assert set(ranking.names) == {"straight", "left", "right"}
    assert ranking.names[ranking.orders["geometry"][-1]] == "straight"
    assert ranking.failed is not None
    said = CliRunner().invoke(app, ["rank", "demo", str(run.path)], catch_exceptions=False)
    assert "is a run of another subject than demo" in said.stderr

    class Pictures:
        schema = type("Schema", (), {"names": ["case_id"]})
        path = tmp_path

    with pytest.raises(SkidpadError, match="holds no drives"):
        rank_scenarios(demo(), Pictures())


def test_without_verdicts_there_is_no_score():
    ranking = Ranking(("a", "b"), {"geometry": np.array([1, 0])}, np.ones(2))
    assert np.isnan(ranking.apfd("geometry"))
