"""Records: ids, the table, the order of findings, and what a segment keeps."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs_toy_campaign import shard

from skidpad.core.stimuli import Params, Recipe, Step
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.runs.records import (
    SCHEMA,
    Record,
    Segment,
    ShardResult,
    build_records,
    case_id,
    encode_segment,
    findings_of,
    holds_pictures,
    storable,
    worst_first,
)

BLUR = Recipe.of("blur", Params(kind="median", size_px=3))
HOSTILE = [
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "a\x00b",
    "line\nbreak",
    "日本語 🚗.jpg",
    "\udcff\udc80.jpg",
    "",
    "x" * 5000,
    "\x1f[]",
]


def table(frame_ids, recipes, excess=None, **more):
    rows = len(frame_ids)
    excess = np.arange(rows, dtype=float) if excess is None else np.asarray(excess, float)
    columns = {
        "frame_index": np.arange(rows),
        "frame_ids": frame_ids,
        "recipes": recipes,
        "label": np.full(rows, np.nan),
        "original": np.zeros(rows),
        "mutant": np.ones(rows),
        "excess": excess,
        "violated": excess > 1.0,
        "active_neurons": np.arange(rows),
    }
    return build_records(**{**columns, **more})


def written(tmp_path, result):
    data = encode_segment(result)
    segment = Segment.of(result, data, tmp_path)
    segment.path.write_bytes(data)
    assert Segment.from_path(segment.path) == segment
    return segment


def test_records_are_matched_by_the_columns_that_they_need():
    more, fewer = SCHEMA.append(pa.field("mood", pa.string())), SCHEMA.remove(SCHEMA.get_field_index("activated"))
    assert holds_pictures(SCHEMA)
    assert holds_pictures(more)
    assert holds_pictures(fewer)
    label = SCHEMA.get_field_index("label")
    assert not holds_pictures(SCHEMA.remove(label))
    assert not holds_pictures(SCHEMA.set(label, pa.field("label", pa.string())))
    row = table(["a"], [BLUR]).to_pylist()[0]
    other = {name: value for name, value in row.items() if name != "activated"} | {"mood": "good"}
    assert str(Record.from_row(other)) == str(Record.from_row(row))


def test_a_case_id_is_the_same_in_every_run():
    # Goldens, as `printf 'FRAME\x1fJSON' | b2sum -l 48` gives them; another id would part stored findings from their names.
    assert case_id("1479425440130861480", BLUR) == "812ed57c85d4"
    assert case_id("1479425440130861480", Recipe()) == "3735312755a8"


@given(st.text(), st.text(), st.sampled_from([Recipe(), BLUR]), st.sampled_from([Recipe(), BLUR]))
def test_case_ids_differ_where_cases_do(frame_a, frame_b, recipe_a, recipe_b):
    same_case = (frame_a, recipe_a) == (frame_b, recipe_b)
    assert (case_id(frame_a, recipe_a) == case_id(frame_b, recipe_b)) == same_case


def test_the_table_has_the_schema_and_derived_columns():
    pair = Recipe((Step("shear", Params(factor=0.1)), Step("fog", Params(strength=0.5))))
    built = table(["a", "b"], [BLUR, pair], picture=[None, "0123"], activated=[b"\xff\x00", None])
    assert built.schema.equals(SCHEMA)
    assert built["stimulus"].to_pylist() == ["blur", "shear+fog"]
    assert built["recipe"].to_pylist() == [BLUR.to_json(), pair.to_json()]
    assert built["case_id"].to_pylist() == [case_id("a", BLUR), case_id("b", pair)]
    assert built["picture"].to_pylist() == [None, "0123"]
    assert built["activated"].to_pylist() == [b"\xff\x00", None]
    assert all(math.isnan(value) for value in built["label"].to_pylist())
    built.validate(full=True)


@pytest.mark.parametrize("column", ["recipes", "excess", "picture", "frame_index"])
def test_columns_of_another_length_are_refused(column):
    wrong = {"recipes": [BLUR], "excess": np.zeros(3), "picture": ["a"], "frame_index": [1, 2, 3]}[column]
    with pytest.raises(ValueError, match=r"2, and every column needs as many"):
        table(["a", "b"], **{"recipes": [BLUR, BLUR], "violated": [True, True], column: wrong})


@given(st.lists(st.floats(), max_size=30), st.integers(0, 40))
def test_worst_first_equals_sorting_by_hand(excess, limit):
    built = table([str(row) for row in range(len(excess))], [Recipe()] * len(excess), excess)
    by_hand = sorted(range(len(excess)), key=lambda row: (math.isnan(excess[row]), 0.0 if math.isnan(excess[row]) else -excess[row]))
    assert worst_first(built)["frame_index"].to_pylist() == by_hand
    assert worst_first(built, limit)["frame_index"].to_pylist() == by_hand[:limit]


def test_findings_are_the_violated_rows():
    built = table(list("abcd"), [Recipe()] * 4, [0.5, math.inf, math.nan, 1.5])
    assert findings_of(built)["frame_id"].to_pylist() == ["b", "d"]
    assert findings_of(SCHEMA.empty_table()).num_rows == 0


@pytest.mark.parametrize("index", [0, 999_999, 1_000_000])
def test_a_segment_is_found_by_its_name_alone(tmp_path, index):
    segment = Segment.of(ShardResult("a-1", index, SCHEMA.empty_table()), b"data", tmp_path)
    assert Segment.from_path(segment.path) == segment
    assert Segment.from_path(segment.path.with_name(segment.path.name.replace("1-", "1-0"))) is None  # no other name for the same shard


def test_hostile_names_survive_a_segment(tmp_path):
    problems = tuple(Problem(ProblemKind.MISSING_FILE, name, name) for name in HOSTILE)
    segment = written(tmp_path, ShardResult("mutants", 0, table(HOSTILE, [BLUR] * len(HOSTILE)), {"NC": b"", "é": b"\x00\xff"}, problems))
    assert segment.records()["frame_id"].to_pylist() == [storable(name) for name in HOSTILE]
    assert segment.records()["case_id"].to_pylist() == [case_id(name, BLUR) for name in HOSTILE]
    assert len(set(segment.records()["case_id"].to_pylist())) == len(HOSTILE)
    assert [problem.frame_id for problem in segment.problems()] == [storable(name) for name in HOSTILE]
    assert segment.coverage() == {"NC": b"", "é": b"\x00\xff"}
    assert [name for name in HOSTILE if storable(name) != name] == ["\udcff\udc80.jpg"]


@given(st.binary(max_size=3000), st.lists(st.sampled_from(ProblemKind), max_size=4))
def test_a_segment_gives_back_coverage_and_problems(tmp_path_factory, coverage, kinds):
    problems = tuple(Problem(kind, "f", "d") for kind in kinds)
    result = ShardResult("guided", 3, SCHEMA.empty_table(), {"KMNC": coverage}, problems)
    segment = written(tmp_path_factory.mktemp("segment"), result)
    assert (segment.phase, segment.index) == ("guided", 3)
    assert segment.coverage() == {"KMNC": coverage}
    assert segment.problems() == problems
    assert segment.records().equals(SCHEMA.empty_table())


def test_equal_shards_give_equal_bytes_however_they_are_chunked():
    whole = shard("mutants", 5)
    chunked = pa.concat_tables([whole.records.slice(0, 7), whole.records.slice(7)])
    assert encode_segment(shard("mutants", 5)) == encode_segment(whole)
    assert encode_segment(ShardResult("mutants", 5, chunked, whole.coverage, whole.problems)) == encode_segment(whole)
    assert encode_segment(shard("mutants", 6)) != encode_segment(whole)


def test_any_parquet_reader_finds_text_in_the_metadata(tmp_path):
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(written(tmp_path, shard("mutants", 9)).path).metadata
    assert metadata[b"skidpad.shard"].decode("ascii") == "mutants 9"
    assert json.loads(metadata[b"skidpad.problems"].decode("ascii")) == [["CORRUPT", "broken 9", "cut off"]]
    assert list(json.loads(metadata[b"skidpad.coverage"].decode("ascii"))) == ["NC"]


def test_a_column_order_is_kept(tmp_path):
    segment = written(tmp_path, shard("mutants", 0))
    assert segment.records(["violated", "case_id"]).column_names == ["violated", "case_id"]


def test_a_record_is_a_typed_row():
    record = Record.from_row(table(["a", "b"], [Recipe(), BLUR], picture=[None, "77"]).to_pylist()[1])
    assert (record.case_id, record.recipe, record.picture, record.activated) == (case_id("b", BLUR), BLUR, "77", None)
    assert math.isnan(record.label)


@pytest.mark.parametrize("phase", ["grid", "es-r00", "my_module:MySearch", "my.module:MySearch-r01"])
def test_the_name_of_a_segment_gives_its_phase_back(phase, tmp_path):
    segment = Segment.of(ShardResult(phase, 7, SCHEMA.empty_table()), b"", tmp_path)
    assert ":" not in segment.path.name
    assert Segment.from_path(segment.path) == segment


@pytest.mark.parametrize("phase", ["", "Mutants", "../x", "1st", "a b", "é"])
def test_phases_that_cannot_be_file_names_are_refused(phase):
    with pytest.raises(ValueError, match="a phase is"):
        ShardResult(phase, 0, SCHEMA.empty_table())


def test_a_shard_needs_an_index():
    with pytest.raises(ValueError, match="0 or more; got -1"):
        ShardResult("mutants", -1, SCHEMA.empty_table())
