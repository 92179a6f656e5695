"""Names are a tuple of texts in less memory."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.drives.drive import Drive
from skidpad.drives.frames import Names
from skidpad.drives.opening import drive_from_arrays

# What stands for raw bytes of a file name is text as well.
TEXTS = st.lists(st.text(st.characters(exclude_categories=()), max_size=6), max_size=12)


@given(TEXTS, st.integers(-14, 14), st.slices(12))
def test_names_are_what_the_tuple_is(texts: list[str], place: int, part: slice) -> None:
    plain, names = tuple(texts), Names.of(text for text in texts)
    assert tuple(names) == plain
    assert len(names) == len(plain)
    assert names[part] == plain[part]
    assert names == plain
    assert plain == names
    assert names == Names.of(plain)
    assert hash(names) == hash(Names.of(plain))
    if -len(plain) <= place < len(plain):
        assert names[place] == plain[place]
    else:
        with pytest.raises(IndexError, match=f"{len(plain)} names"):
            names[place]


@given(TEXTS, TEXTS)
def test_names_differ_where_tuples_do(one: list[str], other: list[str]) -> None:
    assert (Names.of(one) == Names.of(other)) == (one == other)
    assert (Names.of(one) == other) == (one == other)


def test_where_one_name_ends_matters() -> None:
    assert Names.of(("ab", "c")) != Names.of(("a", "bc"))
    assert Names.of(("ab",)) != "ab"


def test_more_names_than_are_packed_at_once_keep_their_order() -> None:
    texts = tuple(str(place) for place in range(10_000))
    names = Names.of(texts)
    assert names == texts
    assert names.index("9999") == 9999
    assert pickle.loads(pickle.dumps(names)) == names
    assert Names.of(names) is names
    assert len(pickle.dumps(names, 5)) < 9 * len(texts)


def test_a_drive_keeps_its_ids_packed_however_they_are_given() -> None:
    drive = drive_from_arrays(np.zeros((3, 4, 5, 3), np.uint8), frame_ids=["a", "b", "c"])
    again = Drive("again", ("a", "b", "c"), drive.steering_rad, None, drive.source)
    for each in (drive, again, drive[1:]):
        assert isinstance(each.frame_ids, Names)
    assert drive.frame_ids == again.frame_ids
    assert drive[1:].frame_ids == ("b", "c")
