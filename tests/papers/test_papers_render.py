from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.settings import jsonable
from skidpad.papers.deeptest import paper
from skidpad.papers.scoreboard import (
    Row,
    Sheet,
    brief_sheet,
    cell,
    gap_of,
    increase_percent,
    markdown,
    p_text,
    ratio,
    scoreboard_sheet,
)


def test_the_paper_agrees_with_itself_where_it_does() -> None:
    simple = sum(found.chauffeur + found.epoch + found.rambo for found in paper.TABLE_8 if found.of_epoch is None)
    rest = {found.stimulus: found.chauffeur + found.epoch + found.rambo for found in paper.TABLE_8 if found.of_epoch is not None}
    at_five = paper.TABLE_7[4]
    assert simple == at_five.simple[2] == 330
    assert rest == {"deeptest-rain": at_five.rain, "deeptest-fog": at_five.fog, "guided": at_five.guided}
    assert simple + sum(rest.values()) == 6339
    assert [round(100 * row.baseline / row.neurons) for row in paper.TABLE_6] == [25, 46, 44, 30, 97]
    assert [round(100 * row.guided / row.neurons) for row in paper.TABLE_6] == [51, 88, 64, 70, 98]
    assert [round(increase_percent(row.guided, row.baseline), 0) for row in paper.TABLE_6] == [104, 90, 47, 134, 1]
    assert [round(increase_percent(row.guided, row.cumulative), 0) for row in paper.TABLE_6] == [22, 17, 12, 21, 1]
    assert [change.neurons / change.percent for change in paper.FIGURE_5] == pytest.approx([0.42] * 7, abs=0.01)


@given(paper_figure=st.floats(-1e6, 1e6), ours=st.floats(-1e6, 1e6))
def test_the_gap_is_ours_less_the_papers(paper_figure: float, ours: float) -> None:
    assert gap_of(paper_figure, ours) == ours - paper_figure
    assert Row.compared("q", "x", paper_figure, ours).gap == ours - paper_figure
    assert Row.beside("q", "x", paper_figure, ours).gap is None


@pytest.mark.parametrize(
    ("published", "ours", "gap"),
    [
        ("small", "small", "same"),
        ("small", "large", "differs"),
        (None, 1.0, None),
        (1.0, None, None),
        (1.0, math.nan, None),
        ("a", 1.0, None),
    ],
)
def test_what_cannot_be_subtracted_has_no_number_for_a_gap(published: object, ours: object, gap: object) -> None:
    assert gap_of(published, ours) == gap  # type: ignore[arg-type]  # any figure


def test_nothing_divided_by_nothing_is_not_a_number() -> None:
    assert math.isnan(ratio(0, 0))
    assert math.isnan(increase_percent(1, 0))
    assert increase_percent(3, 2) == pytest.approx(50)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (math.nan, "-"),
        (0.123456, "0.123"),
        (5614, "5,614"),
        (12345.6, "12,346"),
        ("left", "left"),
        (math.inf, "inf"),
        (0, "0"),
    ],
)
def test_cells(value: object, text: str) -> None:
    assert cell(value) == text  # type: ignore[arg-type]  # any figure


def test_p_values() -> None:
    assert p_text(0.0) == "p < 2.2e-16"
    assert p_text(0.0312) == "p = 0.031"
    assert p_text(math.nan) == "p not defined"


def test_markdown_is_one_line_a_row_and_keeps_bars_apart() -> None:
    page = markdown("T", ["a fact"], [Sheet("S", ("a", "b"), (("x|y", 1.5), ("two\nlines", None)), "why")], ["mind"])
    assert "| x\\|y | 1.5 |\n| two lines | - |\n\nwhy" in page
    assert page.startswith("# T\n\n- a fact\n\n## S\n\n| a | b |\n| --- | --- |\n")
    assert page.endswith("## Traps\n\n- mind\n")


def test_the_brief_board_leaves_out_notes_and_others() -> None:
    row = Row.compared("RQ1", "x", 1.0, 3.0, "why", "Rambo 2")
    assert brief_sheet("S", "Epoch", [row]).rows == (("RQ1", "x", 1.0, 3.0, 2.0),)
    assert scoreboard_sheet("S", "Epoch", [row]).rows == (("RQ1", "x", 1.0, "Rambo 2", 3.0, 2.0, "why"),)


def test_plain_values() -> None:
    class Colour(Enum):
        RED = "red"

    @dataclass(frozen=True)
    class Thing:
        part: tuple[object, ...]

    assert jsonable(Thing((Thing((1,)), Colour.RED, math.nan, {"a": math.inf}))) == {
        "part": [{"part": [1]}, "red", None, {"a": None}],
    }
