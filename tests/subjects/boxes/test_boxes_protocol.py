import json
import math
import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.subjects.boxes.protocol import ANSWER_MARK, AnswerScanner, BoxFailureError, longest_answer, question, read_answers

NOISE = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").replace(b"skidpad", b""))
ANSWER = st.binary(min_size=1, max_size=40).map(lambda data: data.replace(b"\n", b"").replace(b"skidpad", b""))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


@given(st.lists(st.tuples(NOISE, st.none() | ANSWER), max_size=8), st.lists(st.integers(0, 10_000), max_size=8))
def test_answers_are_found_in_noise_however_it_arrives(lines: list[tuple[bytes, bytes | None]], places: list[int]) -> None:
    stream = b"".join(noise + (b"" if answer is None else ANSWER_MARK + answer) + b"\n" for noise, answer in lines)
    scanner = AnswerScanner()
    found = [answer for part in cut(stream, places) for answer in scanner.feed(part, 100)]
    assert found == [answer for _, answer in lines if answer is not None]


@pytest.mark.parametrize("chunk", [1, 7, 4096, 50_000])
def test_a_mark_after_endless_noise_is_found_and_memory_is_bounded(chunk: int) -> None:
    stream = b"=" * 9001 + ANSWER_MARK + b"{}\n"
    scanner = AnswerScanner()
    found = []
    for start in range(0, len(stream), chunk):
        found += scanner.feed(stream[start : start + chunk], 100)
        assert len(scanner._pending) <= 4096 + chunk
    assert found == [b"{}"]
    assert len(scanner.noise.words()) < 1000


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_answer_without_end_is_refused(end: bytes) -> None:
    with pytest.raises(BoxFailureError, match="more than the 10 bytes"):
        AnswerScanner().feed(ANSWER_MARK + b"9" * 11 + end, 10)


def test_a_question_is_a_line_and_the_numbers() -> None:
    inputs = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(0, 2, 1)
    header, numbers = question(7, inputs, ("steering", "brake"))
    assert json.loads(header) == {"version": 1, "id": 7, "shape": [2, 4, 3], "dtype": "float32", "outputs": ["steering", "brake"]}
    assert header.endswith(b"\n")
    assert header.count(b"\n") == 1
    assert struct.unpack("<24f", numbers) == tuple(inputs.reshape(-1))


@given(st.lists(st.tuples(st.none() | st.floats(), st.none() | st.floats() | st.integers(-(10**30), 10**30)), max_size=6))
def test_every_answer_that_can_be_written_is_read(rows: list[tuple[float | None, float | None]]) -> None:
    text = json.dumps({"id": 3, "answers": rows}).encode()
    assert len(text) <= longest_answer(len(rows), 2)
    answers = read_answers(text, len(rows), 2, 3)
    expected = [[math.nan if number is None else float(number) for number in row] for row in rows]
    np.testing.assert_array_equal(answers, np.array(expected).reshape(len(rows), 2) if rows else answers)
    assert len(answers) == len(rows)


def test_one_output_needs_no_brackets_and_no_whole_number_is_too_big() -> None:
    assert read_answers(b'{"answers": [1, 2.5, NaN]}', 3, 1)[:2].tolist() == [[1.0], [2.5]]
    assert read_answers(b'{"answers": [1%s]}' % (b"0" * 400), 1, 1)[0, 0] == math.inf


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["answers", "id", "x"]), inner, max_size=3),
)


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_answered_is_read_or_refused_in_one_line(text: bytes) -> None:
    refusal = ""
    try:
        shape = read_answers(text, 2, 1, 0).shape
    except BoxFailureError as error:
        shape, refusal = (2, 1), str(error)
    assert shape == (2, 1)
    assert "\n" not in refusal
    assert len(refusal) < 400
