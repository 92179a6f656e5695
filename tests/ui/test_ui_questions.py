"""Questions: what is asked comes back from an address as it was, and answers are those of a plain reference."""

from dataclasses import replace
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ui_runs import MARKUP, make_odd_run, make_picture_run

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.runs.folder import Run
from skidpad.runs.tags import Tag, Tags
from skidpad.ui.library import Library, RunsFolder
from skidpad.ui.reading import UNTAGGED, Question, RecordReader, Show, View

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COLUMNS = ("case_id", "frame_index", "stimulus", "label", "original", "mutant", "excess", "violated", "active_neurons", "picture")


@given(
    show=st.sampled_from(Show),
    view=st.sampled_from(View),
    text=WORDS.map(str.strip),
    tag=st.sampled_from(["", UNTAGGED, *[tag.value for tag in Tag]]),
    phase=WORDS,
    equals=st.dictionaries(WORDS.filter(bool), WORDS.filter(bool), max_size=3),
    over=st.none() | st.integers(-50, 50).map(lambda number: number / 4),
    sort=st.sampled_from(COLUMNS),
    descending=st.booleans(),
    page=st.integers(0, 10**6),
)
def test_a_question_survives_its_address(**asked: Any) -> None:
    from urllib.parse import parse_qsl

    question = Question(**{**asked, "equals": tuple(sorted(asked["equals"].items()))})
    assert Question.of(dict(parse_qsl(question.parameters(), keep_blank_values=True))) == question


@pytest.mark.parametrize(
    ("given_", "message"),
    [({"page": "-1"}, "whole number"), ({"page": "x"}, "whole number"), ({"over": "nan"}, "number"), ({"over": "1;DROP"}, "number")],
)
def test_a_wrong_number_is_refused(given_: dict[str, str], message: str) -> None:
    with pytest.raises(BadParametersError, match=message):
        Question.of(given_)


@pytest.mark.parametrize("given_", [{"show": "everything"}, {"view": "x"}, {"tag": "nice"}])
def test_an_unknown_word_is_refused(given_: dict[str, str]) -> None:
    with pytest.raises(UnknownNameError, match=r"known|did you mean"):
        Question.of(given_)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_picture_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def reader(run: Run) -> Any:
    tags = Tags.of(run.path)
    for number, row in enumerate(run.findings(limit=9).to_pylist()):
        tags.put(row["case_id"], list(Tag)[number % 3])
    library = Library(RunsFolder(run.path))
    yield library.view(library.folder.scan()[0].key).reader()
    library.close()


@cache
def all_rows(path: Path) -> list[dict[str, Any]]:
    run = Run.open(path)
    tags = {case: tag.value for case, tag in Tags.of(path).current().items()}
    return [
        {**row, "phase": phase, "tag": tags.get(row["case_id"], "")} for phase in run.phases() for row in run.records(phase).to_pylist()
    ]


def reference(run: Run, question: Question) -> list[dict[str, Any]]:
    """Filters and sorts in plain Python."""
    rows = all_rows(run.path)
    if question.show is Show.FINDINGS:
        rows = [row for row in rows if row["violated"]]
    if question.phase != "originals":
        rows = [row for row in rows if row["phase"] != "originals"]
    text = question.text.lower()
    rows = [row for row in rows if any(text in str(value).lower() for value in row_texts(row))]
    if question.tag:
        rows = [row for row in rows if row["tag"] == ("" if question.tag == UNTAGGED else question.tag)]
    if question.phase:
        rows = [row for row in rows if row["phase"] == question.phase]
    for name, value in question.equals:
        rows = [row for row in rows if str(row[name]) == value]
    if question.over is not None:
        rows = [row for row in rows if isnan(row["excess"]) or row["excess"] >= question.over]

    def is_nan(row: dict[str, Any]) -> bool:
        return isinstance(row[question.sort], float) and isnan(row[question.sort])

    known = sorted([row for row in rows if not is_nan(row)], key=lambda row: row[question.sort], reverse=question.descending)
    return known + [row for row in rows if is_nan(row)]


def row_texts(row: dict[str, Any]) -> list[str]:
    return [row[name] for name in ("case_id", "frame_id", "stimulus", "recipe", "picture") if row[name] is not None]


@settings(max_examples=70)
@given(
    show=st.sampled_from(Show),
    text=st.sampled_from(["", "BRIGHT", "003.png", "%", "_", "' OR 1=1 --", "rot", "\\"]),
    tag=st.sampled_from(["", UNTAGGED, "real fault", "unclear"]),
    equals=st.sampled_from(
        [(), (("stimulus", "rotation"),), (("stimulus", "blur+contrast"), ("frame_id", "002.png")), (("stimulus", "'"),)]
    ),
    phase=st.sampled_from(["", "grid", "originals", "no such"]),
    sort=st.sampled_from(COLUMNS),
    descending=st.booleans(),
    page=st.integers(0, 3),
)
def test_answers_are_those_of_plain_python(run: Run, reader: RecordReader, **asked: Any) -> None:
    question = Question(**asked)
    expected = reference(run, question)
    answer = reader.page(question, rows=20)
    assert answer.total == len(expected)
    first = 20 * question.page
    assert [(line.case_id, line.phase, line.tag) for line in answer.lines] == [
        (row["case_id"], row["phase"], row["tag"]) for row in expected[first : first + 20]
    ]
    if expected:
        line = reader.at(question, len(expected) - 1)
        assert line is not None
        assert line.case_id == expected[-1]["case_id"]
    assert reader.at(question, len(expected)) is None


def test_what_lies_over_an_excess(run: Run, reader: RecordReader) -> None:
    found = reader.page(Question(over=2.0), rows=500)
    assert found.total == sum(row["excess"] >= 2.0 for row in run.findings(phase="grid").to_pylist())
    assert all(line.values["excess"] >= 2.0 for line in found.lines)


def test_rates_and_groups_add_up(run: Run, reader: RecordReader) -> None:
    rates = reader.rates()
    rows = run.records("grid").to_pylist()
    assert rates.findings == sum(row["violated"] for row in rows)
    assert rates.cases == sum(row["violated"] or not isnan(row["excess"]) for row in rows)
    groups = reader.rates_by(("stimulus",))
    assert {group.values for group in groups} == {("brightness",), ("rotation",), ("blur+contrast",)}
    assert sum(group.rates.findings for group in groups) == rates.findings
    assert sum(group.rates.real_faults for group in groups) == rates.real_faults > 0
    shares = [group.rates.rate.estimate for group in groups]
    assert shares == sorted(shares, reverse=True)


def test_the_worst_of_each_group_is_the_worst(run: Run, reader: RecordReader) -> None:
    worst = reader.worst_of_each(("stimulus",), 8)
    assert len({line.values["stimulus"] for line in worst}) == len(worst) == 3
    for line in worst:
        same = [row["excess"] for row in run.findings(phase="grid").to_pylist() if row["stimulus"] == line.values["stimulus"]]
        assert line.values["excess"] == max(same)


def test_choices_are_columns_of_few_words(reader: RecordReader) -> None:
    choices = {choice.column.name: choice.words for choice in reader.choices()}
    assert set(choices) == {"stimulus", "frame_id", "recipe"}
    assert sum(rows for _, _, rows in choices["stimulus"]) == 120
    assert sum(found for _, found, _ in choices["stimulus"]) == reader.rates().findings


def test_unknown_columns_are_refused_and_packed_ones_hidden(reader: RecordReader) -> None:
    for wrong in (Question(sort="c0; DROP TABLE t0"), Question(sort="activated"), Question(equals=(("nothing", "x"),))):
        with pytest.raises(UnknownNameError, match="record column"):
            reader.page(wrong)


@pytest.mark.parametrize("sort", ["case_id", MARKUP, '"; DROP TABLE t0; --', "flags", "speed_rad"])
def test_columns_of_any_name_are_sorted_and_filtered(tmp_path: Path, sort: str) -> None:
    make_odd_run(tmp_path / "odd")
    library = Library(RunsFolder(tmp_path))
    reader = library.view(library.folder.scan()[0].key).reader()
    everything = Question(show=Show.ALL, sort=sort)
    assert reader.page(everything).total == 5
    assert [line.case_id for line in reader.page(replace(everything, equals=((MARKUP, MARKUP),))).lines] == ["0000"]
    assert reader.page(replace(everything, text="%_")).total == 1
    library.close()
