"""Settings that no campaign can live to see the end of are one sentence, before anything is loaded or reserved."""

import tomllib

import pytest

from skidpad.core.errors import BadSubjectError, SkidpadError
from skidpad.core.settings import read_toml
from skidpad.kinds.kind import MOST, load_campaign
from skidpad.subjects.description import parse_description


@pytest.mark.parametrize(
    ("campaign", "setting"),
    [
        ("deeptest", "seeds"),
        ("online", "scenarios"),
        ("compare", "matched"),
        ("duel", "train_episodes"),
        ("duel", "egos"),
        ("tactic", "repeats"),
    ],
)
@pytest.mark.parametrize("number", [10**12, -(10**12), 10**40])
def test_a_number_without_end_is_refused(campaign: str, setting: str, number: int) -> None:
    with pytest.raises(SkidpadError, match=rf"my\.toml: {setting} is .*; a setting is at most {MOST}"):
        load_campaign({"campaign": campaign, setting: number}, "my.toml")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("-inf")]])
def test_a_number_that_is_not_finite_is_refused(value: object) -> None:
    with pytest.raises(SkidpadError, match=r"my\.toml: tolerance is (nan|-?inf); write a finite number"):
        load_campaign({"campaign": "deeptest", "tolerance": value}, "my.toml")


BOX = 'format = "box"\n[box]\ncommand = ["x"]\n{}\n[input]\nwidth = 8\nheight = 8\n[[outputs]]\nname = "steering"\nunit = "rad"\n'


@pytest.mark.parametrize("setting", ["restarts = 1000000000000", "timeout_s = 1e300", "timeout_s = nan"])
def test_a_box_is_not_waited_for_without_end(setting: str) -> None:
    with pytest.raises(BadSubjectError, match=r"(timeout_s|restarts) of a box (is|are)|timeout_s must be a finite number"):
        parse_description(BOX.format(setting))


@pytest.mark.parametrize("text", ["a = " + "[" * 50_000, "a = " + "9" * 5000])
def test_a_description_without_end_is_one_sentence(text: str) -> None:
    with pytest.raises(BadSubjectError, match="is not TOML"):
        parse_description(text)
    with pytest.raises(tomllib.TOMLDecodeError):
        read_toml(text)
