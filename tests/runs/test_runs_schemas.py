"""Runs whose records have columns of their own."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs_toy_campaign import MANIFEST, make, shard

from skidpad.core.errors import BadRunError, UnknownNameError
from skidpad.runs.folder import Run
from skidpad.runs.records import REQUIRED, SCHEMA, ShardResult, check_columns, check_schema, no_rows, schema_from_json, schema_to_json

DUELS = pa.schema(
    [
        *REQUIRED,
        pa.field("episode", pa.int64(), nullable=False),
        pa.field("opponent", pa.string()),
        pa.field("gap_m", pa.float32(), nullable=False),
        pa.field("speeds", pa.list_(pa.float64())),
        pa.field("trace", pa.binary()),
        pa.field("turns", pa.int32(), nullable=False),
    ]
)


def duels(index, rows=6):
    excess = np.arange(rows) / 3.0 + index
    return pa.table(
        {
            "case_id": [f"{index:06x}{row:06x}" for row in range(rows)],
            "excess": excess,
            "violated": excess > 1.0,
            "episode": np.arange(rows) + rows * index,
            "opponent": [None if row % 2 else "adversary" for row in range(rows)],
            "gap_m": np.arange(rows, dtype=np.float32),
            "speeds": [[1.0, 2.0], [], None, [3.5], None, [4.0]][:rows],
            "trace": [b"\x00\xff"] * rows,
            "turns": np.arange(rows, dtype=np.int32),
        },
        schema=DUELS,
    )


def test_a_run_keeps_records_of_its_own_columns(tmp_path):
    run = Run.create(tmp_path / "run", {"campaign": "duel"}, MANIFEST, schema=DUELS)
    for index in (1, 0):
        run.commit(ShardResult("episodes", index, duels(index)))
    opened = Run.open(tmp_path / "run")
    assert opened.schema.equals(DUELS)
    assert opened.records().equals(pa.concat_tables([duels(0), duels(1)]).combine_chunks())
    assert opened.records("never").schema.equals(DUELS)
    assert [table.column_names for table in opened.iter_records(columns=["turns", "case_id"])] == [["turns", "case_id"]] * 2
    assert opened.findings(limit=3, columns=["episode"])["episode"].to_pylist() == [11, 10, 9]
    assert opened.find_row("000001000002") == duels(1).to_pylist()[2]
    with pytest.raises(UnknownNameError, match=r"12 cases in .* begin with '0000'"):
        opened.find_row("0000")
    with pytest.raises(UnknownNameError, match="no record column named 'gap'; did you mean 'gap_m'"):
        opened.records(columns=["gap"])
    with pytest.raises(BadRunError, match="no cases of pictures"):
        opened.find("000001000002")


def test_a_shard_of_other_columns_is_refused(tmp_path):
    run = Run.create(tmp_path / "run", {}, MANIFEST, schema=DUELS)
    with pytest.raises(ValueError, match="need the columns"):
        run.commit(shard("mutants", 0))
    with pytest.raises(ValueError, match="need the columns"):
        make(tmp_path / "pictures").commit(ShardResult("mutants", 0, duels(0)))
    assert run.completed("mutants") == set()


def test_pictures_are_the_default(tmp_path):
    assert make(tmp_path / "run").schema.equals(SCHEMA)
    assert Run.open(tmp_path / "run").schema.equals(SCHEMA)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (SCHEMA.remove(0), "need the column case_id: string not null"),
        (SCHEMA.set(8, pa.field("excess", pa.float32(), nullable=False)), "need the column excess: double not null"),
        (SCHEMA.set(9, pa.field("violated", pa.bool_())), "need the column violated: bool not null"),
        (SCHEMA.append(pa.field("label", pa.int64())), "its own name"),
        (SCHEMA.append(pa.field("when", pa.timestamp("us"))), r"one of the types .*; got 'when' of timestamp"),
    ],
)
def test_schemas_that_a_run_cannot_keep_are_refused(schema, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Run.create(tmp_path / "run", {}, MANIFEST, schema=schema)
    assert not (tmp_path / "run").exists()


TYPES = st.sampled_from([pa.string(), pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.binary(), pa.list_(pa.float64())])
NAMES = st.lists(st.text("abcdefgh_é", min_size=1), unique=True, max_size=6)


@given(NAMES, st.data())
def test_a_schema_comes_back_from_its_json(names, data):
    fields = [pa.field(name, data.draw(TYPES), nullable=data.draw(st.booleans())) for name in names]
    schema = pa.schema([*REQUIRED, *fields])
    check_schema(schema)
    assert schema_from_json(schema_to_json(schema), "run").equals(schema)
    assert no_rows(schema).schema.equals(schema)


def test_unknown_columns_get_a_hint():
    check_columns(SCHEMA, None)
    check_columns(SCHEMA, ["case_id", "excess"])
    with pytest.raises(UnknownNameError, match=r"no record column named 'exces'; did you mean 'excess'"):
        check_columns(SCHEMA, ["case_id", "exces"])
