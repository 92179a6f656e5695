"""The verdict where there is none: labels in a wrong unit make a tolerance that everything keeps, and that must not look calm."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "kinds"))
from bar_world import BarSubject, bar_campaign, bar_drive

from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.pictures.page import deeptest_page, is_undecided, verdict_words, warnings_of
from skidpad.kinds.pictures.summary import Rate, Summary
from skidpad.oracles.relations import LabelMse, SteersAlike
from skidpad.page.model import Tone

FRAMES = 6


def run_of(tmp_path: Path, times: float):
    """A run on the toy's drive, the labels so many times what the human steered."""
    plain = bar_drive(FRAMES)
    drive = drive_from_arrays(plain.read(range(FRAMES)).frames, times * (plain.steering_rad + 0.1))
    campaign = bar_campaign(BarSubject(), drive=drive, relation="label-mse", tolerance=5.0, transforms=("brightness",))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    return campaign, run


def test_degrees_read_as_radians_are_no_green_verdict(tmp_path: Path) -> None:
    campaign, run = run_of(tmp_path, times=180.0 / np.pi)
    report = deeptest_page(campaign, run)
    assert run.findings().num_rows == 0
    assert report.tone is Tone.UNKNOWN
    assert report.verdict.startswith("Undecided: ")
    assert "e+" not in report.verdict
    assert any("further than a steering wheel turns" in warning for warning in report.warnings)


def test_the_same_run_with_the_right_unit_is_calm(tmp_path: Path) -> None:
    campaign, run = run_of(tmp_path, times=1.0)
    report = deeptest_page(campaign, run)
    assert run.findings().num_rows == 0
    assert report.tone is Tone.CALM
    assert report.verdict.startswith("No findings: ")
    assert not any("steering wheel" in warning for warning in report.warnings)


def summary(findings: int, cases: int = 100) -> Summary:
    rate = Rate.of("fog", "", cases, findings)
    return Summary(4, 0.1, replace(rate, name="all"), (rate,), (), (), np.zeros(1, np.int64), 0, 0, ())


def originals(label_rad: float, error_rad: float) -> Originals:
    label = np.array([0.0, 0.1, label_rad, np.nan] * 4)
    return Originals(label + error_rad, label, np.ones(len(label), np.bool_))


def test_a_label_beyond_any_wheel_leaves_findings_but_no_calm() -> None:
    odd, relation = originals(label_rad=9.0, error_rad=0.1), LabelMse(5.0, 0.01)
    assert is_undecided(relation, odd, summary(findings=0))
    assert not is_undecided(relation, odd, summary(findings=1)), "what is found is found"
    assert not is_undecided(relation, originals(0.2, 0.1), summary(findings=0))
    assert not is_undecided(SteersAlike(10.0), odd, summary(findings=0)), "labels judge nothing there"
    assert is_undecided(LabelMse(5.0, 20.0), originals(0.2, 0.1), summary(findings=1)), "574 degrees of tolerance"


@pytest.mark.parametrize(("findings", "said"), [(0, "almost everything"), (81, "64°, which is much")])
def test_a_bad_network_is_not_said_to_pass_everything_where_much_fails(findings: int, said: str) -> None:
    bad = originals(label_rad=0.2, error_rad=0.5)
    (warning,) = warnings_of(LabelMse(5.0, bad.mse_rad2), bad, summary(findings))
    assert f"tolerates {said}." in warning


def test_a_verdict_without_cases_is_not_undecided_but_empty(tmp_path: Path) -> None:
    del tmp_path
    words = verdict_words(summary(0, cases=0), LabelMse(5.0, 20.0), originals(0.2, 0.1), bar_campaign(BarSubject()).judged)
    assert words == "No changed picture was judged."
