"""The paper's figures are those printed, and ours stand beside the right one of its two subjects."""

from types import SimpleNamespace

import numpy as np
import pytest

from skidpad.core.units import AngleUnit
from skidpad.kinds.drives.compare.summary import Comparison, Matching, Pair, ScenarioResult
from skidpad.papers import offline_online
from skidpad.papers.offline_online import AUTUMN, CHAUFFEUR, SubjectAnswer


def found(*pairs: tuple[float, float], matching: Matching | None = None) -> Comparison:
    results = tuple(
        ScenarioResult(str(k), "{}", "a", "b", mae, mdcl, 0.1, np.array([mae]), np.zeros(1), float("nan"), "")
        for k, (mae, mdcl) in enumerate(pairs)
    )
    return Comparison(AngleUnit.RAD, 0.1, 0.7, results, matching, 0.05)


def test_the_papers_counts_give_the_papers_shares() -> None:
    assert AUTUMN.total == CHAUFFEUR.total == 50
    assert AUTUMN.disagreement == pytest.approx(0.44)
    assert CHAUFFEUR.disagreement == pytest.approx(0.34)
    assert AUTUMN.false_alarm == CHAUFFEUR.false_alarm == 0


def test_a_subject_that_looks_back_stands_beside_chauffeur() -> None:
    assert SubjectAnswer("lstm", 99, found()).model.name == "Chauffeur"
    assert SubjectAnswer("cnn", 0, found()).model.name == "Autumn"
    assert SubjectAnswer("cnn", 0, found()).other.name == "Chauffeur"


def test_the_gap_is_ours_less_the_papers() -> None:
    answer = SubjectAnswer("cnn", 0, found((0.05, 0.2), (0.05, 1.0), (0.2, 1.0), (0.02, 0.9)))
    rows = {row.quantity: row for row in offline_online.rq1_rows(answer)}
    differ = rows["scenarios on which offline and online differ (%)"]
    assert (differ.paper, differ.ours, differ.gap) == (pytest.approx(44.0), pytest.approx(50.0), pytest.approx(6.0))
    assert rows["which is more optimistic"].gap == "same"
    assert offline_online.rq0_rows(answer) == ()
    flipped = SubjectAnswer("cnn", 0, found((0.2, 0.2), (0.05, 0.1)))
    assert {row.quantity: row for row in offline_online.rq1_rows(flipped)}["which is more optimistic"].gap == "differs"


def test_rq0_counts_comparable_pairs() -> None:
    pairs = Matching((Pair("a", 0, 0.05, True, 0.1, 0.3), Pair("b", 3, 0.2, False, 0.1, 0.1), Pair("c", 5, 0.01, True, 0.1, 0.12)))
    rows = {row.quantity: row for row in offline_online.rq0_rows(SubjectAnswer("lstm", 5, found((0.05, 0.2), matching=pairs)))}
    assert rows["mean difference of MAE, simulated and recorded"].ours == pytest.approx(0.11)
    assert rows["pairs that differ by at most 0.1 (%)"].ours == pytest.approx(50.0)
    assert rows["mean difference of MAE, simulated and recorded"].paper == 0.079
    assert rows["MAE on the recorded drive"].gap is None


def test_table_three_has_both_and_the_sensitivity_every_pair_of_thresholds() -> None:
    answer = SubjectAnswer("cnn", 0, found((0.05, 0.2), (0.05, 1.0)))
    sheet = offline_online.table_3(answer)
    assert sheet.rows[0][2:] == (1, 0, 1)
    assert sheet.rows[3][2:] == (22, 24, 46)
    grid = offline_online.sensitivity(answer)
    assert len(grid.rows) == 30
    assert SimpleNamespace(deg=grid.rows[10][1]).deg == pytest.approx(2.5, abs=0.01)
