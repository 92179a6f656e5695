"""The paper's tables as printed, ours beside them, stopped by the clock and gone on with."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "kinds"))
from tactic_toys import toy_campaign, toy_drive, toy_subject

from skidpad.core.errors import BadParametersError, BadRunError
from skidpad.kinds.pictures.styles.campaign import TacticSettings
from skidpad.oracles.doubts import Doubt, DoubtKind
from skidpad.papers.tactic import paper, replication, tables
from skidpad.papers.tactic.tables import SearchCell, Searched, kept_cells

SETTINGS = TacticSettings(
    subject="",
    drive="toy",
    weather="",
    conditions=1,
    patience=2,
    repeats=2,
    searches=("es", "random-styles"),
    bounds_deg=(0.5, 1.0, 2.0, 90.0),
)


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(settings: TacticSettings):  # type: ignore[no-untyped-def]
        return replace(toy_campaign(toy_drive(8)), settings=settings)

    monkeypatch.setattr(replication.Tactic, "load", staticmethod(load))


def made(folder: Path, **changes: object) -> replication.TacticReplication:
    settings = replace(SETTINGS, **changes.pop("settings", {}))  # type: ignore[arg-type]
    given = {"subjects": ["toy.toml"], "weathers": ["rain.toml"], "criteria": ["nbc"], **changes}
    return replication.replicate(settings=settings, folder=folder, **given)  # type: ignore[arg-type]


def cell(values: dict[str, list[list[float]]], **changes: object) -> SearchCell:
    searches = tuple(Searched(name, tuple(map(tuple, rows)), tuple(rows[0]), 9.0, 30.0) for name, rows in values.items())
    given = {
        "subject": "dave-orig", "subject_sha256": "a", "weather": "night", "weather_sha256": "b", "criterion": "nbc", "drive": "ud",
        "drive_sha256": "c", "scenes": 100, "conditions": 4, "patience": 100, "racing": True, "bounds_deg": (10.0, 20.0, 30.0, 40.0),
        "metrics": paper.METRICS, "searches": searches, "device": "cpu", **changes,
    }  # fmt: skip
    return SearchCell(**given)  # type: ignore[arg-type]


def test_the_papers_means_are_as_printed() -> None:
    assert {number: len(table.rows) for number, table in paper.MEANS.items()} == dict.fromkeys((5, 6, 7, 13, 14), 15)
    assert paper.MEANS[6].of("dave-orig", "night") == (73.68, 35.92, 18675.1, 13790, 8627.7, 4303.7)
    assert paper.MEANS[7].of("dave-dropout", "snow in daytime") == (37.83, 10.15, 701.3, 57.3, 5.5, 0)
    assert paper.MEANS[14].of("chauffeur", "snow in night") == (70.4, 23.59, 2461.3, 137.2, 0, 0)
    for table in paper.MEANS.values():
        for row in table.rows:
            assert 0 <= row[1] < row[0] <= 100
            assert row[2] >= row[3] >= row[4] >= row[5] >= 0  # a larger bound has fewer errors


def test_the_papers_shares_follow_from_its_tables() -> None:
    """The text claims 110 and 111 of 120 tests of errors; by its own criterion its tables hold 106 and 105. Coverage: 26 of 30, as said."""
    assert tables.paper_shares("random-styles") == (pytest.approx(106 / 110), pytest.approx(26 / 30))
    assert tables.paper_shares("random-search")[0] == pytest.approx(105 / 110)
    failed = sum(pair is None for table in paper.TESTS.values() for row in table.rows for pair in row)
    assert failed == 4 * 5


def test_cells_are_measured_written_and_kept(tmp_path: Path) -> None:
    answer = made(tmp_path)
    assert [each.search for each in answer.cells[0].searches] == ["es", "random-styles"]
    assert answer.cells[0].of_search("es").sample.shape == (2, 6)  # type: ignore[union-attr]
    payload = json.loads((tmp_path / "tactic.json").read_text())
    assert payload["paper"] == "TACTIC"
    text = (tmp_path / "tactic.md").read_text()
    assert "Tables 8 and 9" in text
    assert "FAILED" in text
    assert (tmp_path / "toy" / "rain" / "nbc" / "report.html").exists()
    before = (tmp_path / "toy" / "rain" / "nbc" / "cell.json").read_bytes()
    again = made(tmp_path)
    assert again.cells == answer.cells
    assert (tmp_path / "toy" / "rain" / "nbc" / "cell.json").read_bytes() == before


def test_a_finished_cell_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that another machine brought are put into one table without being measured, or drawn, again."""
    answer = made(tmp_path / "there")
    moved = tmp_path / "here"
    moved.mkdir()
    (tmp_path / "there" / "toy").rename(moved / "toy")
    (moved / "toy" / "rain" / "nbc" / "report.html").unlink()
    monkeypatch.setattr(replication.Tactic, "execute", lambda *_: pytest.fail("measured again"))
    assert made(moved, settings={"device": "cpu"}).cells == answer.cells
    assert not (moved / "toy" / "rain" / "nbc" / "report.html").exists()
    with pytest.raises(pytest.fail.Exception, match="measured again"):
        made(moved, settings={"repeats": 3})
    with pytest.raises(pytest.fail.Exception, match="measured again"):
        made(moved, settings={"repeats": 1})  # the table is then of one repeat


def test_more_repeats_and_more_weathers_grow_the_tables(tmp_path: Path) -> None:
    first = made(tmp_path, settings={"repeats": 1})
    more = made(tmp_path)
    assert more.cells[0].of_search("es").values[0] == first.cells[0].of_search("es").values[0]  # type: ignore[union-attr]
    assert len(more.cells[0].of_search("es").values) == 2  # type: ignore[union-attr]
    with pytest.raises(BadRunError, match=r"other settings \(patience was 2 and is 3\)"):
        made(tmp_path, settings={"patience": 3})


def test_the_clock_ends_the_work_and_the_same_call_goes_on(tmp_path: Path) -> None:
    stopped = made(tmp_path, minutes=1e-9)
    assert stopped.stopped
    assert stopped.cells == ()
    assert "the same command goes on" in stopped.facts()[-1]
    whole = made(tmp_path)
    assert not whole.stopped
    assert whole.cells


def test_a_replication_needs_names(tmp_path: Path) -> None:
    with pytest.raises(BadParametersError, match="weathers with names of their own"):
        made(tmp_path, weathers=["a/rain.toml", "b/rain.toml"])
    with pytest.raises(BadParametersError, match="subjects with names of their own; got none"):
        made(tmp_path, subjects=[])
    with pytest.raises(BadParametersError, match="--minutes is a number of minutes, 0 for no end; got -1"):
        made(tmp_path, minutes=-1.0)


def test_the_scoreboard_counts_significant_tests() -> None:
    better = [[0.5 + run / 100, 0.2 + run / 100, 90.0 + run, 50.0 + run, 0.0, 0.0] for run in range(6)]
    worse = [[0.3 + run / 100, 0.1 + run / 100, 20.0 + run, 10.0 + run, 0.0, 0.0] for run in range(6)]
    cells = [cell({"es": better, "random-styles": worse, "random-search": better})]
    rows = {(row.question, row.quantity): row for row in tables.scoreboard(cells)}
    assert rows["4.2", "share of tests with significantly more errors than R_c"].ours == 1.0  # of two; the other two FAILED
    assert rows["4.4", "share of tests with significantly more errors than RS"].ours == 0.0
    assert rows["4.2", "significantly fewer errors than R_c anywhere"].gap == "same"
    assert rows["4.2", "errors at all bounds, as a multiple of R_c's"].ours == pytest.approx(145 / 35)
    assert rows["4.2", "minutes a condition"].ours == 0.5


@pytest.mark.parametrize(("repeats", "known"), [(1, False), (2, False), (3, False), (4, True)])
def test_so_few_repeats_that_nothing_can_be_significant_claim_nothing(repeats: int, known: bool) -> None:
    """The least p is 1 / C(2n, n): 0.167 of two repeats, 0.05 of three, 0.014 of four; the first search is better in every one here."""
    runs = {"es": [[0.5 + run / 100, 0.2, 90.0 + run, 50.0, 9.0, 8.0] for run in range(repeats)]}
    runs |= {"random-styles": [[0.3 + run / 100, 0.1, 20.0 + run, 10.0, 1.0, 0.0] for run in range(repeats)]}
    rows = {row.quantity: row for row in tables.scoreboard([cell(runs)])}
    share = rows["share of tests with significantly more errors than R_c"]
    coverage = rows["share of tests with significantly higher coverage than R_c"]
    fewer = rows["significantly fewer errors than R_c anywhere"]
    if known:
        assert (share.ours, coverage.ours, fewer.gap) == (1.0, 1.0, "same")
        assert tables.few_repeats([cell(runs)]) == ""
    else:
        assert [(row.ours, row.gap) for row in (share, coverage, fewer)] == [(None, None)] * 3
        assert "With fewer than four repeats of each no p can be below 0.05" in share.note
        answer = replication.TacticReplication(SETTINGS, (cell(runs),))
        assert answer.facts()[-1] == "With fewer than four repeats of each no p can be below 0.05: what is significant is a dash"


def test_the_multiple_is_the_median_of_cells_also_of_an_even_number() -> None:
    cells = [cell({"es": [[0.5, 0.2, ours, 0.0, 0.0, 0.0]], "random-styles": [[0.5, 0.2, 10.0, 0.0, 0.0, 0.0]]}) for ours in (20.0, 40.0)]
    rows = {row.quantity: row for row in tables.scoreboard(cells)}
    assert rows["errors at all bounds, as a multiple of R_c's"].ours == pytest.approx(3.0)


def test_a_network_that_always_answers_the_same_is_named_and_counts_in_no_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = toy_subject()
    with torch.no_grad():
        for weight in list(subject.module.parameters())[-2:]:
            weight.zero_()
    campaign = toy_campaign(toy_drive(8), subject)
    monkeypatch.setattr(replication.Tactic, "load", staticmethod(lambda settings: replace(campaign, settings=settings)))
    answer = made(tmp_path)
    assert DoubtKind.CONSTANT in {doubt.kind for doubt in answer.cells[0].doubts}
    assert made(tmp_path).cells == answer.cells  # taken from the run that is there
    text = (tmp_path / "tactic.md").read_text()
    warning = "warning: toy answers the same on every frame: its answers spread by 0°, while "
    assert 0 < text.index(warning) < text.index("## Scoreboard")
    assert "toy is left out of the scoreboard." in text
    assert "| toy (in doubt) | toy-rain | NBC | (1+1)-ES |" in text
    assert {row.ours for row in answer.rows()} == {None}


def test_the_claims_are_those_of_the_other_subjects() -> None:
    better = [[0.5 + run / 100, 0.2 + run / 100, 90.0 + run, 50.0 + run, 0.0, 0.0] for run in range(6)]
    worse = [[0.3 + run / 100, 0.1 + run / 100, 20.0 + run, 10.0 + run, 0.0, 0.0] for run in range(6)]
    sound = cell({"es": better, "random-styles": worse})
    still = cell(
        {"es": worse, "random-styles": better}, subject="chauffeur", doubts=(Doubt(DoubtKind.CONSTANT, "The network answers the same."),)
    )
    assert tables.scoreboard([sound, still]) == tables.scoreboard([sound])
    facts = replication.TacticReplication(SETTINGS, (sound, still)).facts()
    assert "warning: chauffeur answers the same. chauffeur is left out of the scoreboard." in facts
    assert SearchCell.from_json(still.to_json(), "here") == still
    older = json.loads(still.to_json())
    del older["doubts"]
    assert SearchCell.from_json(json.dumps(older), "here").doubts == ()


def test_tests_stand_beside_the_papers() -> None:
    ours = [[0.5, 0.2 + run / 100, 90.0 + run, 50.0, 0.0, 0.0] for run in range(3)]
    sheet = tables.tests(
        [cell({"es": ours, "random-search": ours}), cell({"es": ours, "random-search": ours}, weather="fog")], "random-search"
    )
    night, fog = sheet.rows[:6], sheet.rows[6:]
    assert [row[3] for row in night] == list(paper.METRICS)
    assert night[2][6:] == (pytest.approx(0.7), 0.5, 0.00009, 1.0)
    assert night[4][6:] == ("FAILED", "FAILED", 0.00009, 1.0)
    assert {row[8] for row in fog} == {None}
    means = tables.paper_means([cell({"es": ours})])
    assert len(means.rows) == 3 * 3
    assert "Table 6" in means.rows[0]


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    whole = cell({"es": [[0.5, 0.2, 9.0, 5.0, 0.0, 0.0]]})
    assert SearchCell.from_json(whole.to_json(), "here") == whole
    with pytest.raises(BadRunError, match="here is damaged"):
        SearchCell.from_json(whole.to_json()[:-30], "here")
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    (folder / "cell.json").write_text(replace(whole, weather_sha256="z").to_json())
    assert len(kept_cells(tmp_path, [whole])) == 2
    assert len(kept_cells(tmp_path, [replace(whole, drive_sha256="other")])) == 1
