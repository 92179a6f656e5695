"""DeepRoad's printed table, ours beside it, and what may stand in one table."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError, BadRunError
from skidpad.kinds.pictures.weather.campaign import DeepRoadSettings as Settings
from skidpad.oracles.doubts import Doubt, DoubtKind, doubts_of
from skidpad.papers.deeproad import paper
from skidpad.papers.deeproad import replication as tables
from skidpad.papers.deeproad.paper import FILE, WeatherCell, kept_cells
from skidpad.papers.deeproad.replication import RoadReplication, replicate

CELL = WeatherCell(
    subject="a",
    subject_sha256="sa",
    weather="snow_day",
    weather_sha256="w1",
    method="munit",
    rendered=False,
    style="mean",
    drive="ch2",
    drive_sha256="d",
    thresholds_deg=(10.0, 20.0, 30.0, 40.0),
    inconsistent=(40, 20, 10, 0),
    cases=100,
    mean_deg=6.0,
    worst_deg=35.0,
    correlation=0.5,
    rmse_rad=None,
    spread_deg=12.0,
    original_rmse_rad=None,
    device="cpu",
)
OTHER = replace(CELL, subject="b", inconsistent=(10, 5, 1, 0), spread_deg=0.0)
WET = {"weather": "wet", "weather_sha256": "w2"}
STILL = doubts_of(np.full(50, 0.1), np.linspace(-0.5, 0.5, 50))
FAILED = replace(CELL, subject="failed", inconsistent=(0, 0, 0, 0), spread_deg=0.0, doubts=STILL)
"""A network whose training failed: it always answers the same."""


def test_the_printed_table_is_the_papers() -> None:
    assert [row.counts[0] for row in paper.TABLE_2] == [11635, 4839, 334, 5279, 710, 656]
    assert all(tuple(sorted(row.counts, reverse=True)) == row.counts for row in paper.TABLE_2)
    assert paper.FRAMES == 15_212 + 5_614


def test_ours_stand_beside_the_weather_they_are_like() -> None:
    assert tables.counterpart(CELL) == "snowy"
    assert tables.counterpart(replace(CELL, weather="wet")) == "rainy"
    assert tables.counterpart(replace(CELL, weather="heavy-RAIN")) == "rainy"
    assert tables.counterpart(replace(CELL, weather="night")) is None
    rows = {row.quantity: row for row in tables.scoreboard([CELL, OTHER])}
    ten = rows["snowy, 10 degrees: inconsistent behaviours"]
    assert (ten.paper, ten.ours, ten.gap) == ("334 to 11,635", "10 to 40", None)
    assert rows["rainy, 10 degrees: inconsistent behaviours"].ours is None
    assert rows["snowy, 40 degrees: inconsistent behaviours"].ours == "0 to 0"
    assert rows["models rank alike in every weather, by the first bound"].ours is None


def test_ranks_are_compared_over_weathers() -> None:
    alike = [CELL, OTHER, replace(CELL, **WET), replace(OTHER, **WET)]
    quantity = "models rank alike in every weather, by the first bound"
    assert {row.quantity: row.gap for row in tables.scoreboard(alike)}[quantity] == "same"
    turned = [*alike[:3], replace(OTHER, **WET, inconsistent=(90, 0, 0, 0))]
    assert {row.quantity: row.gap for row in tables.scoreboard(turned)}[quantity] == "differs"
    sheet = tables.ranking(alike)
    assert [row[:3] for row in sheet.rows] == [(1, "b", 20), (2, "a", 80)]
    assert sheet.rows[1][-1] == pytest.approx(0.5)
    assert sheet.rows[0][-1] is None
    part = tables.ranking(alike[:3])
    assert [row[1] for row in part.rows] == ["a"]
    assert "not every weather was tried on them yet: b" in part.note


def test_a_network_that_always_answers_the_same_is_named_and_not_ranked() -> None:
    cells = (FAILED, CELL, OTHER, replace(FAILED, **WET), replace(CELL, **WET), replace(OTHER, **WET))
    sheet = tables.ranking(cells)
    assert [row[:2] for row in sheet.rows] == [(1, "b"), (2, "a")]
    assert sheet.note == "Not ranked: failed answers the same on every frame."
    rows = {row.quantity: row for row in tables.scoreboard(cells)}
    assert rows["snowy, 10 degrees: inconsistent behaviours"].ours == "10 to 40"
    assert "failed" not in rows["models rank alike in every weather, by the first bound"].note
    answer = RoadReplication(Settings(subject="", drive="d", weathers=("w",)), cells)
    (warning,) = (fact for fact in answer.facts() if fact.startswith("warning"))
    assert warning.startswith("warning: failed answers the same on every frame: its answers spread by 0°, while the labels spread by ")
    assert warning.endswith(" failed is left out of the scoreboard and the ranks.")
    page = answer.markdown()
    assert page.index(warning) < page.index("## Scoreboard")
    assert "| snow_day | MUNIT, mean | failed (in doubt) | 0 |" in page
    assert "failed (in doubt)" in str(tables.brief_table_2(cells).rows)
    assert answer.payload()["cells"][0]["doubts"] == [{"kind": "constant", "said": STILL[0].said}]


def test_where_every_network_answers_the_same_nothing_is_ranked() -> None:
    answer = RoadReplication(Settings(subject="", drive="d", weathers=("w",)), (FAILED,))
    assert tables.ranking(answer.cells).rows == ()
    assert {row.ours for row in answer.rows()} == {None}


def test_a_doubt_that_leaves_the_counts_their_meaning_is_said_and_ranks_stay() -> None:
    timid = replace(CELL, doubts=(Doubt(DoubtKind.SCALE, "The answers spread 9 times less than the labels."),))
    worse = replace(OTHER, doubts=(Doubt(DoubtKind.WORSE_THAN_MEAN, "On unchanged frames the network steers worse than the mean."),))
    assert [row[1] for row in tables.ranking((timid, worse)).rows] == ["b", "a"]
    answer = RoadReplication(Settings(subject="", drive="d", weathers=("w",)), (timid, worse))
    assert answer.facts()[3:] == (
        "warning: a: The answers spread 9 times less than the labels.",
        "warning: On unchanged frames b steers worse than the mean.",
    )


@pytest.mark.parametrize(("spread_deg", "kinds"), [(0.0, ["constant"]), (0.05, ["constant"]), (0.2, []), (12.0, []), (None, [])])
def test_a_cell_of_an_older_version_is_judged_by_its_spread(spread_deg: float | None, kinds: list[str]) -> None:
    older = json.loads(replace(CELL, spread_deg=spread_deg).to_json())
    del older["doubts"]
    assert [doubt.kind.value for doubt in WeatherCell.from_json(json.dumps(older), "x").doubts] == kinds
    assert WeatherCell.from_json(FAILED.to_json(), "x") == FAILED


def test_table_two_has_a_row_a_cell() -> None:
    sheet = tables.table_2([OTHER, CELL])
    assert [row[2] for row in sheet.rows] == ["a", "b"]
    assert sheet.rows[0][3:9] == (40, 20, 10, 0, 100, 40.0)
    drawn = replace(CELL, rendered=True, warnings=("it was drawn",))
    assert tables.table_2([drawn]).rows[0][0] == "snow_day (rendered)"
    assert tables.brief_table_2([drawn]).rows[0][0] == "snow_day (rendered) (MUNIT)"
    assert tables.scoreboard([drawn])[0].note.startswith("snow_day (rendered); ")
    both = RoadReplication(Settings(subject="", drive="d", weathers=("w",)), (drawn, replace(drawn, subject="b")))
    assert both.facts()[3:] == ("warning: it was drawn",)
    assert len(tables.brief_table_2([OTHER, CELL]).columns) == 7
    answer = RoadReplication(Settings(subject="", drive="d", weathers=("w",)), (CELL, OTHER))
    assert "| snow_day | MUNIT, mean | a | 40 |" in answer.markdown()


def test_cells_of_earlier_calls_join_where_they_belong(tmp_path: Path) -> None:
    for place, cell in enumerate((OTHER, replace(CELL, **WET), replace(CELL, weather="fog", drive_sha256="another"))):
        folder = tmp_path / str(place) / "w"
        folder.mkdir(parents=True)
        (folder / FILE).write_text(cell.to_json())
    found = kept_cells(tmp_path, [CELL])
    assert [(cell.subject, cell.weather) for cell in found] == [("a", "snow_day"), ("b", "snow_day"), ("a", "wet")]
    assert WeatherCell.from_json(CELL.to_json(), "x") == CELL
    older = json.loads(CELL.to_json())
    del older["warnings"]
    assert WeatherCell.from_json(json.dumps(older), "x") == CELL
    (tmp_path / "0" / "w" / FILE).write_text('{"subject": 1}')
    with pytest.raises(BadRunError, match="is damaged"):
        kept_cells(tmp_path, [CELL])


def test_files_need_names_of_their_own(tmp_path: Path) -> None:
    settings = Settings(subject="", drive="rendered?frames=2", weathers=("x/snow", "y/snow.toml"))
    with pytest.raises(BadParametersError, match="needs weathers with names of their own; got snow, snow"):
        replicate(["a.toml"], settings, tmp_path)
    with pytest.raises(BadParametersError, match="needs subjects with names of their own; got none"):
        replicate([], settings, tmp_path)
    with pytest.raises(BadParametersError, match="--frames is a number of frames, 0 for all; got -5"):
        replicate(["a.toml"], settings, tmp_path, -5)
