"""What is written as TOML is read back by the standard library as it was."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.settings import write_toml as dumps

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
plain = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts)
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8)


@given(st.dictionaries(texts, values, max_size=5))
def test_tables_survive(table: dict[str, object]) -> None:
    assert tomllib.loads(dumps(table)) == table


def test_it_reads_like_a_person_wrote_it() -> None:
    table = {"name": "a", "input": {"width_px": 200, "range": [0.0, 1.0]}, "outputs": [{"name": "steering"}, {"name": "brake"}]}
    assert dumps(table) == (
        'name = "a"\n\n[input]\nwidth_px = 200\nrange = [0.0, 1.0]\n\n[[outputs]]\nname = "steering"\n\n[[outputs]]\nname = "brake"\n'
    )


def test_what_toml_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError, match="got None"):
        dumps({"a": None})
