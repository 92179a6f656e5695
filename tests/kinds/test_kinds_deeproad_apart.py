"""What the referee refuses under a weather: in no figure of `weather test`, and shown apart."""

from pathlib import Path

import numpy as np
import pytest
from bar_world import BarSubject
from deeproad_toys import FAULTY, road, run_of

from skidpad.kinds.pictures.weather.campaign import DeepRoad
from skidpad.kinds.pictures.weather.page import deeproad_page
from skidpad.kinds.pictures.weather.summary import summarise_road
from skidpad.referee.verdict import Reason, Verdicts


def test_what_the_referee_refuses_is_in_no_figure_and_shown_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses every second finding: errors, histogram and counts are over the others, and the page shows the refused ones."""

    def words(*_: object):
        def said(places, _mutants, _pictures):
            reasons = tuple(Reason.OTHER_SCENE if number % 2 else Reason.SAME_SCENE for number in range(len(places)))
            return Verdicts(reasons, np.ones(len(places)), np.ones(len(places)))

        return said

    monkeypatch.setattr(DeepRoad, "words", words)
    campaign = road(FAULTY, 30.0, frames=24)
    run = run_of(campaign, tmp_path / "run")
    rows = run.records("grid").to_pylist()
    counted = [row for row in rows if row["referee"] in {None, "kept"}]
    refused = [row for row in rows if row["referee"] == "refused"]
    assert refused
    assert counted
    found = summarise_road(run, campaign)
    assert found.overall.cases == int(found.deviations.sum()) == len(counted)
    for name, figure in (("mutant", found.overall.rmse_rad), ("original", found.overall.original_rmse_rad)):
        assert figure == pytest.approx(np.sqrt(np.mean([(row[name] - row["label"]) ** 2 for row in counted])))
    page = deeproad_page(campaign, run)
    (row,) = page.galleries[-1].rows
    assert (page.galleries[-1].title, row.label) == ("Set apart by the referee", f"another scene ({len(refused)})")
    assert len(row.pictures) == 2 * min(2, len(refused))
    assert set(row.note.split("; ")) <= {f"glare on {each['frame_id']}" for each in refused}
    columns, (cells,) = page.tables[0].columns, page.tables[0].rows
    errors = [f"{np.degrees(value):.1f}°" for value in (found.overall.rmse_rad, found.overall.original_rmse_rad)]
    assert dict(zip(columns[-2:], cells[-2:], strict=True)) == {"RMSE in the weather": errors[0], "RMSE as recorded": errors[1]}
    assert any(f"{errors[0]} under weather, {errors[1]} on the same frames as recorded" in remark for remark in page.remarks)
    kept_all = road(BarSubject(), 30.0)
    assert [each.title for each in deeproad_page(kept_all, run_of(kept_all, tmp_path / "calm")).galleries] == ["What the subject is shown"]
