from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.units import AngleUnit, Axle
from skidpad.oracles.error import ErrorScale, scale_of, scale_of_run, times_tolerated
from skidpad.page import wording
from skidpad.subjects.description import Output


@given(st.text(st.characters(codec=None)), st.integers(4, 60))
def test_plain_text_can_be_written_printed_and_is_short(text: str, limit: int) -> None:
    words = wording.plain(text, limit)
    words.encode("utf-8")
    assert len(words) <= limit
    assert not any(ord(letter) < 32 or letter in "\u202e\u2066\x7f\x85\u2028" for letter in words)


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=40))
def test_plain_keeps_what_is_readable(text: str) -> None:
    assert wording.plain(text, 40) == text


def test_long_names_keep_both_ends() -> None:
    words = wording.plain("start" + "x" * 1000 + "end", 40)
    assert words.startswith("start")
    assert words.endswith("end")
    assert "…" in words


@pytest.mark.parametrize(
    ("angle", "words"),
    [
        (3.21, "3.2° left"),
        (-14.3, "14.3° right"),
        (0.0, "0.0° straight"),
        (-0.0, "0.0° straight"),
        (-0.04, "0.0° straight"),
        (-0.06, "0.1° right"),
        (nan, "no finite answer"),
        (inf, "no finite answer"),
    ],
)
def test_positive_steers_left(angle: float, words: str) -> None:
    assert wording.steering(angle) == words


@pytest.mark.parametrize(("share", "words"), [(0.0, "0 %"), (1.0, "100 %"), (0.1234, "12.3 %"), (0.0002, "0.02 %"), (nan, "–"), (inf, "–")])
def test_percent(share: float, words: str) -> None:
    assert wording.percent(share).replace("\N{NO-BREAK SPACE}", " ") == words


def test_intervals_counts_and_excess() -> None:
    assert wording.interval(nan, 0.5) == "–"
    assert wording.interval(0.0, 0.5).replace("\N{NO-BREAK SPACE}", " ") == "0 % to 50.0 %"
    assert wording.count(1234567) == "1\u202f234\u202f567"
    assert times_tolerated(2.84) == "2.8× tolerance"
    assert times_tolerated(inf) == "no finite answer"
    assert times_tolerated(nan) == "not judged"
    assert times_tolerated(3.083) == times_tolerated(3.083, scale_of_run({"campaign": "deeproad"})) == "3.1× tolerance"
    assert times_tolerated(1.5e9) == "1.5e+09× tolerance"
    assert wording.difference(2.0, -12.0) == "14.0° apart"
    assert wording.difference(nan, 1.0) == "no finite answer"


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (3.21, "deg", "3.2° left"),
        (0.93217, "probability", "0.9322"),
        (0.5, "fraction", "0.5"),
        (12.25, "m/s", "12.25 m/s"),
        (-3.0, "m/s2", "-3 m/s2"),
        (7.0, "", "7"),
        (nan, "m/s", "no finite answer"),
        (inf, "deg", "no finite answer"),
    ],
)
def test_answers_are_worded_in_their_unit(value: float, unit: str, words: str) -> None:
    assert wording.answer(value, unit).replace("\N{NO-BREAK SPACE}", " ") == words


def test_moves_and_decisions_are_worded_without_a_tolerance() -> None:
    assert wording.difference(0.1, 0.9, "probability") == "0.8 apart"
    assert wording.difference(3.0, 1.0, "m/s").replace("\N{NO-BREAK SPACE}", " ") == "2 m/s apart"
    assert wording.difference(nan, 1.0, "m/s") == "no finite answer"
    decides = scale_of("decides-alike")
    assert times_tolerated(1.9, decides) == "decides otherwise"
    assert times_tolerated(0.9, decides) == "decides alike"
    assert times_tolerated(inf, decides) == "no finite answer"


def test_under_label_mse_times_are_of_squares_and_said_so() -> None:
    assert scale_of("steers-alike") is ErrorScale.ERRORS
    assert times_tolerated(9.0, scale_of("label-mse")) == "3.0× tolerance (9.0× in squares)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rendered?frames=48&seed=1000", "rendered, 48 frames, seed 1000"),
        ("folder:/a/pics?csv=w.csv&id=image&steering=deg&unit=deg&start=0&stop=146&step=5", "pics, to frame 146, every 5th"),
        ("udacity:/data/ch2/?from=0.2&to=0.6", "ch2, from 0.2, to 0.6"),
        ("C:\\drives\\one", "one"),
        ("s3://bucket/drives/two?start=3&step=1", "two, from frame 3"),
        ("", ""),
    ],
)
def test_a_drive_is_called_by_its_folder_and_frames(text: str, words: str) -> None:
    assert wording.drive_words(text) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 limits"), (1, "1 limit"), (2, "2 limits"), (1200, "1\u202f200 limits")])
def test_one_is_no_plural(number: int, words: str) -> None:
    assert wording.counted(number, "limit") == words
    assert wording.counted(1, "story", "stories") == "1 story"


@pytest.mark.parametrize(
    ("excess", "words"), [(1.02, "1.02×"), (1.0004, "1.0004×"), (0.97, "0.97×"), (1.0, "1.0×"), (1.06, "1.1×"), (3.0, "3.0×")]
)
def test_just_beyond_the_tolerance_is_told_from_the_tolerance(excess: float, words: str) -> None:
    assert times_tolerated(excess) == f"{words} tolerance"


def test_a_report_says_which_axle_its_angles_are_of() -> None:
    wheel = wording.angles_sentence(Output("steering", AngleUnit.RAD))
    assert wheel == "Angles are degrees of the steering wheel, positive is left. "
    turned = wording.angles_sentence(Output("steering", AngleUnit.SCALED_25, -1.0, Axle.ROAD_WHEEL, 16.5))
    assert turned == wheel + "The network answers with angles of the road wheels; they are multiplied by 16.5. "
    assert wording.angles_sentence(Output("brake")) == ""
