from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import PageReader

from skidpad.page.charts import Curve, DeviationHistogram, Point, curves, histogram, scatter
from skidpad.page.svg import HEAT_STEPS, Axis, AxisUnit, Bar, Cell, HeatRow, PairedBar, bars, heat_map, heat_step, paired_bars, round_up

SHARES = st.floats(0.001, 1.0)


def drawn(svg: str) -> PageReader:
    reader = PageReader(svg)
    root = reader.elements[0]
    assert root[0] == "svg"
    assert root[1]["role"] == "img"
    assert reader.text("title")[0]
    assert root[1]["aria-labelledby"] == reader.all("title")[0]["id"]
    assert root[1]["aria-describedby"] == reader.all("desc")[0]["id"]
    for _, attributes in reader.elements:
        assert "nan" not in " ".join(value for name, value in attributes.items() if name not in {"class", "id"})
        assert all(float(attributes[name]) >= 0 for name in ("width", "height") if name in attributes)
    return reader


@given(st.lists(SHARES, min_size=1, max_size=8))
def test_bar_lengths_are_proportional(values: list[float]) -> None:
    reader = drawn(bars("k", "Rates", "said", [Bar(f"t{i}", value) for i, value in enumerate(values)]))
    lengths = [float(bar["width"]) for bar in reader.all("rect", class_="bar")]
    assert len(lengths) == len(values)
    top = values.index(max(values))
    for length, value in zip(lengths, values, strict=True):
        assert length == pytest.approx(lengths[top] * value / values[top], abs=0.02)


def test_whiskers_span_the_interval_on_the_bars_scale() -> None:
    reader = drawn(bars("k", "Rates", "said", [Bar("fog", 0.5, 0.25, 1.0)]))
    bar = reader.all("rect", class_="bar")[0]
    whisker = reader.all("line", class_="whisker")[0]
    start, half = float(bar["x"]), float(bar["width"])
    assert float(whisker["x1"]) == pytest.approx(start + half / 2, abs=0.02)
    assert float(whisker["x2"]) == pytest.approx(start + half * 2, abs=0.02)


def test_bars_without_a_number_say_so() -> None:
    reader = drawn(bars("k", "Rates", "said", [Bar("none", nan), Bar("wild", inf, nan, inf), Bar("zero", 0.0, 0.0, 0.001)]))
    assert len(reader.all("rect", class_="bar")) == 1
    assert reader.text("text", class_="value")[:2] == ["–", "–"]
    whisker = reader.all("line", class_="whisker")[0]
    assert float(whisker["x2"]) - float(whisker["x1"]) < 40, "the interval of zero failures must not look like a long bar"


def test_paired_bars_have_a_scale_for_each_side() -> None:
    rows = [PairedBar("fog", 0.02, 0.5), PairedBar("rain", 0.01, 0.25), PairedBar("none", nan, nan)]
    reader = drawn(paired_bars("k", "Both", "said", ("gained", "fail"), rows))
    left = [float(bar["width"]) for bar in reader.all("rect", class_="left")]
    right = [float(bar["width"]) for bar in reader.all("rect", class_="right")]
    assert left[0] == pytest.approx(2 * left[1], abs=0.05)
    assert right[0] == pytest.approx(2 * right[1], abs=0.05)
    assert left[2] == right[2] == 0
    ends = {float(bar["x"]) + float(bar["width"]) for bar in reader.all("rect", class_="left")}
    assert max(ends) == pytest.approx(min(ends), abs=0.05), "left bars grow from the middle"


def test_heat_map_cells_bear_their_number_and_their_step() -> None:
    rows = [HeatRow("fog", tuple(Cell(k / 9, f"p={k}") for k in range(10))), HeatRow("rain", (Cell(nan), Cell(0.001)))]
    reader = drawn(heat_map("k", "Heat", "said", rows))
    cells = reader.all("g", class_="cell")
    assert len(cells) == 12
    assert cells[0]["class"] == "cell heat-0"
    assert cells[9]["class"] == f"cell heat-{HEAT_STEPS - 1}"
    assert cells[10]["class"] == "cell heat-none"
    said = reader.text("g", class_="cell")
    assert said[9] == "p=9100"
    assert said[10].endswith("–")
    assert said[11].endswith("<1")


def test_cells_that_say_what_they_are_of_need_no_numbers_above() -> None:
    row = HeatRow("blur", (Cell(0.5, "", "3 ave"), Cell(0.25, "", "5 ave")))
    texts = drawn(heat_map("k", "Heat", "said", [row])).text("text")
    assert [text for text in texts if "ave" in text] == ["3 ave", "5 ave"]
    assert "1" not in texts
    assert {"1", "2"} <= set(drawn(heat_map("k", "Heat", "said", [HeatRow("blur", (Cell(0.5), Cell(0.25)))])).text("text"))


@given(st.floats(0, 1), st.floats(0, 1))
def test_heat_steps_rise_with_the_share(one: float, other: float) -> None:
    low, high = (int(heat_step(share).removeprefix("heat-")) for share in sorted((one, other)))
    assert 0 <= low <= high < HEAT_STEPS
    assert (low == 0) == (min(one, other) == 0)


def test_histogram_heights_and_colours() -> None:
    data = DeviationHistogram((-10.0, -5.0, 0.0, 5.0, 10.0), (10, 40, 0, 20), 5.0)
    reader = drawn(histogram("deviations", "Moves", "said", data))
    marks = reader.all("rect", class_="bar")
    assert [float(mark["height"]) / float(marks[0]["height"]) for mark in marks] == pytest.approx([1, 4, 2], abs=0.01)
    assert ["beyond" in mark["class"] for mark in marks] == [True, False, True]
    assert len(reader.all("line", class_="limit")) == 2
    assert float(marks[2]["x"]) - float(marks[1]["x"]) == pytest.approx(2 * (float(marks[1]["x"]) - float(marks[0]["x"])), abs=0.02)
    assert "mutant − original, left is positive" in reader.text("text")


def test_uneven_bins_are_equally_wide_with_every_edge_named() -> None:
    data = DeviationHistogram((0.0, 0.5, 2.0, 10.0, 180.0), (9, 8, 7, 6), 6.0)
    reader = drawn(histogram("deviations", "Moves", "said", data))
    marks = reader.all("rect", class_="bar")
    assert len({mark["width"] for mark in marks}) == 1
    assert {"0°", "0.5°", "2°", "10°", "180°", "|mutant − original|"} <= set(reader.text("text"))
    limit = float(reader.all("line", class_="limit")[0]["x1"])
    third = float(marks[2]["x"]) - 0.5
    assert limit == pytest.approx(third + (float(marks[3]["x"]) - 0.5 - third) / 2, abs=0.02), "6° is half way from 2° to 10°"


def test_histogram_of_rare_faults_is_logarithmic_and_says_so() -> None:
    reader = drawn(histogram("deviations", "Moves", "said", DeviationHistogram((0.0, 1.0, 2.0), (100_000, 1))))
    assert "cases (log scale)" in reader.text("text")
    assert float(reader.all("rect", class_="bar")[1]["height"]) > 10
    assert not reader.all("line", class_="limit")


def test_curves_break_at_nan_and_scatter_leaves_it_out() -> None:
    line = Curve("guided", (0.0, 1.0, 2.0, 3.0), (1.0, 2.0, nan, 4.0))
    reader = drawn(curves("k", "Growth", "said", ("cases", "regions"), [line, Curve("none", (), ())]))
    pieces = [mark["points"].split() for mark in reader.all("polyline")]
    assert [len(piece) for piece in pieces] == [2, 1]
    (x0, y0), (x1, y1) = (tuple(map(float, point.split(","))) for point in pieces[0])
    assert x1 > x0
    assert y1 < y0, "more is higher on the page"
    reader = drawn(
        scatter("k", "Agreement", "said", ("offline", "online"), [Point("a", 0.0, 1.0), Point("b", 2.0, inf), Point("c", 1.0, 3.0)])
    )
    assert len(reader.all("circle")) == 2


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=6))
def test_no_numbers_break_a_plot(points: list[tuple[float, float]]) -> None:
    drawn(scatter("k", "Any", "said", ("x", "y"), [Point("p", x, y) for x, y in points]))
    drawn(curves("k", "Any", "said", ("x", "y"), [Curve("c", tuple(x for x, _ in points), tuple(y for _, y in points))]))
    drawn(bars("k", "Any", "said", [Bar("b", x, y, x) for x, y in points]))
    drawn(heat_map("k", "Any", "said", [HeatRow("h", tuple(Cell(x) for x, _ in points))]))
    drawn(paired_bars("k", "Any", "said", ("x", "y"), [PairedBar("b", x, y) for x, y in points]))


def test_empty_plots_are_plots() -> None:
    for svg in (bars("k", "t", "d", []), paired_bars("k", "t", "d", ("a", "b"), []), heat_map("k", "t", "d", [])):
        drawn(svg)
    drawn(histogram("k", "t", "d", DeviationHistogram((), ())))


def test_markup_in_labels_stays_text() -> None:
    evil = '</svg><script>alert("x")</script>'
    reader = drawn(bars("k", evil, evil, [Bar(evil, 0.5, note=evil)]))
    assert not reader.all("script")
    assert reader.text("title")[0] == evil


@given(st.floats(-1e6, 1e6), st.floats(0.001, 1e6))
def test_ticks_are_few_round_and_within(low: float, span: float) -> None:
    axis = Axis(low, low + span, 0.0, 100.0)
    ticks = axis.ticks(5)
    assert 1 <= len(ticks) <= 11
    slack = 1e-6 * max(abs(low), span)
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)
    assert sorted(axis.at(tick) for tick in ticks) == [axis.at(tick) for tick in ticks]


def test_axis_ends_and_words() -> None:
    assert round_up(0.27) == pytest.approx(0.3)
    assert round_up(0.97, 1.0) == 1.0
    assert round_up(0.0) == 1.0
    assert round_up(nan) == 1.0
    assert Axis(0, 1, 0, 1, AxisUnit.PERCENT).word(0.25) == "25\N{NO-BREAK SPACE}%"
    assert Axis(-1, 1, 0, 1, AxisUnit.DEGREES).word(-5.0) == "−5°"


@given(st.integers(0, 50), st.integers(1, 5000))
def test_an_axis_that_counts_has_no_half_ticks(low: int, width: int) -> None:
    ticks = Axis(float(low), float(low + width), 0.0, 100.0, is_whole=True).ticks()
    assert ticks
    assert all(tick == round(tick) for tick in ticks)
    assert len(ticks) == len(set(ticks)) <= 8


def test_heights_that_are_amounts_begin_at_nothing() -> None:
    line = Curve("fog", (3.0, 5.0), (73.0, 67.0))
    low, high = (curves("k", "t", "d", ("bound", "share"), [line], reach=reach) for reach in ((0.0,), ()))
    assert ">0</text>" in low
    assert ">0</text>" not in high
    assert ">3.5</text>" not in low, "error bounds of whole degrees have whole ticks"
