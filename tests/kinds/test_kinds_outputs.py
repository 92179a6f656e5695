"""Outputs beyond steering, and black boxes."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bar_world import BAR_PX, WIDTH_PX, BarSubject, bar_campaign, bar_drive, described

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.units import AngleUnit, PlainUnit
from skidpad.kinds.kind import KINDS, campaign_name, load_campaign
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.judging import JudgedOutput
from skidpad.kinds.pictures.page import deeptest_page, relation_sentence
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.summary import summarise
from skidpad.page.writing import render_page
from skidpad.runs.folder import Run
from skidpad.subjects.description import Output

STEERING = Output("steering", AngleUnit.RAD)
LOOKS = BarSubject(description=described(STEERING, Output("brightness", PlainUnit.PROBABILITY)))
BOX = BarSubject(left_threshold=60, layers=())


def run_of(campaign: DeepTest, path: Path) -> Run:
    run = campaign.start(path)
    campaign.execute(run)
    return run


def loaded(monkeypatch: pytest.MonkeyPatch, subject: BarSubject, drive=None, **settings: object) -> DeepTest:
    monkeypatch.setattr("skidpad.subjects.loading.load_subject", lambda *_: subject)
    monkeypatch.setattr("skidpad.drives.opening.open_drive", lambda _text: bar_drive() if drive is None else drive)
    return DeepTest.load(DeepTestSettings(subject="toy", drive="toy", transforms=("brightness",), **settings))


def test_a_decision_is_judged_and_shown_in_its_own_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mean = (20 * (WIDTH_PX - BAR_PX) + 44 * BAR_PX) / WIDTH_PX
    campaign = loaded(monkeypatch, LOOKS, output="brightness", threshold=(mean + 45) / 255)
    run = run_of(campaign, tmp_path / "run")
    config = tomllib.loads((run.path / "config.toml").read_text())
    assert (config["output"], config["unit"], config["relation"]) == ("brightness", "probability", "decides-alike")
    rows = run.records("grid").to_pylist()
    assert {row["violated"] for row in rows if "50" in row["recipe"] or "100" in row["recipe"]} == {True}
    assert run.findings().num_rows == 12 * 6  # shifts of 50 to 100 lift the mean over the threshold, 10 to 40 do not
    assert all(np.isnan(row["label"]) for row in rows)
    page = render_page(deeptest_page(campaign, run))
    assert "decides brightness (at least" in page
    assert "decides otherwise" in page
    assert "brightness (probability)" in page
    assert "°" not in page
    assert 'class="arrow' not in page


def test_numbers_that_are_no_angles_have_a_tolerance_in_their_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = BarSubject(description=described(Output("brightness", PlainUnit.METRES_PER_SECOND)))
    campaign = loaded(monkeypatch, subject, output="brightness", tolerance=30.5 / 255)
    run = run_of(campaign, tmp_path / "run")
    assert campaign.settings.relation == "answers-alike"
    assert run.findings().num_rows == 12 * 7
    page = render_page(deeptest_page(campaign, run))
    assert "within 0.119608 m/s of its answer" in page
    assert "|mutant − original|, m/s" in page
    with pytest.raises(SkidpadError, match="needs a tolerance for 'brightness'; give --within in m/s"):
        loaded(monkeypatch, subject, output="brightness")


def test_a_subject_that_does_not_steer_can_be_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = BarSubject(description=described(Output("brightness", PlainUnit.FRACTION)))
    assert loaded(monkeypatch, subject, output="brightness").settings.tolerance == 0.1
    with pytest.raises(UnknownNameError, match="no output of 'toy' named 'steering'; known: brightness"):
        loaded(monkeypatch, subject)


@pytest.mark.parametrize(
    ("output", "relation", "message"),
    [
        ("brightness", "label-mse", "drives hold no labels of 'brightness'; use --relation decides-alike or answers-alike"),
        ("brightness", "steers-alike", "'brightness' is no angle; use --relation decides-alike or answers-alike"),
        ("steering", "decides-alike", "'steering' is one; use --relation steers-alike"),
        ("steering", "answers-alike", "'steering' is one; use --relation steers-alike"),
        ("brightnes", "", "did you mean 'brightness'"),
        ("steering", "steers-alik", "did you mean 'steers-alike'"),
    ],
)
def test_relations_that_do_not_suit_the_output_are_refused(
    output: str, relation: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SkidpadError, match=message):
        loaded(monkeypatch, LOOKS, output=output, relation=relation)


@pytest.mark.parametrize(
    ("output", "labels", "relation", "tolerance"),
    [
        (STEERING, True, "label-mse", 5.0),
        (STEERING, False, "steers-alike", 10.0),
        (Output("yaw", AngleUnit.DEG), True, "steers-alike", 10.0),
        (Output("collision", PlainUnit.PROBABILITY), True, "decides-alike", None),
        (Output("throttle", PlainUnit.FRACTION), True, "answers-alike", 0.1),
    ],
)
def test_output_and_labels_choose_the_relation(
    output: Output, labels: bool, relation: str, tolerance: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = bar_drive() if labels else replace(bar_drive(), steering_rad=np.full(12, np.nan))
    campaign = loaded(monkeypatch, BarSubject(description=described(output)), drive, output=output.name)
    assert (campaign.settings.relation, campaign.settings.tolerance) == (relation, tolerance)
    assert DeepTestSettings.from_config(campaign.settings.to_config()) == campaign.settings


@pytest.mark.parametrize("unit", [*AngleUnit, *PlainUnit, None])
def test_every_unit_is_stored_and_shown_as_itself(unit: AngleUnit | PlainUnit | None) -> None:
    judged = JudgedOutput.of(described(STEERING, Output("other", unit)), "other")
    assert (judged.column, judged.name, judged.is_steering) == (1, "other", False)
    if isinstance(unit, AngleUnit):
        assert (judged.stored_unit, judged.shown_unit) == ("rad", "deg")
        assert judged.shown(np.pi) == pytest.approx(180.0)
    else:
        assert judged.stored_unit == judged.shown_unit == (unit.value if unit else "")
        assert judged.shown(0.25) == 0.25
    assert list(judged.edges) == sorted(set(judged.edges))


def test_answers_that_are_not_finite_are_counted_for_any_output(tmp_path: Path) -> None:
    subject = BarSubject(description=described(STEERING, Output("silence")))
    campaign = bar_campaign(subject, output="silence", relation="decides-alike", transforms=("brightness",))
    run = run_of(campaign, tmp_path / "run")
    summary = summarise(run, campaign.blank_tracker(None), campaign.judged)
    assert summary.not_finite == summary.overall.cases == summary.overall.findings == 120
    assert "no finite answer" in render_page(deeptest_page(campaign, run))


def test_a_black_box_is_tested_without_coverage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = loaded(
        monkeypatch, BOX, relation="steers-alike", tolerance=2.0, searches=("grid", "random"), criteria=("nc", "kmnc"), seeds=3
    )
    run = run_of(campaign, tmp_path / "run")
    seen = run_of(
        bar_campaign(BarSubject(left_threshold=60), transforms=("brightness",), searches=("grid", "random"), seeds=3), tmp_path / "seen"
    )
    columns = [name for name in run.schema.names if name != "active_neurons"]
    for phase in ("grid", "random"):
        mine, theirs = (made.records(phase, columns).sort_by("case_id") for made in (run, seen))
        assert mine.equals(theirs)
        assert set(run.records(phase)["active_neurons"].to_pylist()) == {0}
    assert run.findings().num_rows > 0
    summary = summarise(run, campaign.blank_tracker(campaign.profile(run)), campaign.judged)
    assert summary.coverage == ()
    model = deeptest_page(campaign, run)
    page = render_page(model)
    assert "black box: its neurons cannot be seen, so there is no coverage" in page
    assert not {"coverage", "yields"} & {table.key for table in model.tables}
    assert "Coverage gained" not in page


def test_a_black_box_can_be_resumed_and_keep_activations(tmp_path: Path) -> None:
    campaign = bar_campaign(BOX, keep_activations=True, searches=("grid", "random"), max_failed_tries=1)
    run = run_of(campaign, tmp_path / "run")
    before = sorted(path.name for path in (run.path / "segments").iterdir())
    next(path for path in (run.path / "segments").iterdir() if path.name.startswith("random-000002")).unlink()
    again = Run.open(run.path)
    campaign.execute(again)
    assert sorted(path.name for path in (run.path / "segments").iterdir()) == before


def test_a_black_box_cannot_be_searched_greedily(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SkidpadError, match="'toy' is a black box whose neurons cannot be seen; use --search grid or --search random"):
        loaded(monkeypatch, BOX, searches=("grid", "greedy"))
    with pytest.raises(SkidpadError, match="needs a criterion; give one, as --criteria nc"):
        loaded(monkeypatch, BarSubject(), searches=("greedy",), criteria=())


def test_campaigns_are_found_by_name() -> None:
    assert "deeptest" in KINDS.names()
    assert campaign_name({"campaign": "deeptest"}, "run") == "deeptest"
    with pytest.raises(SkidpadError, match=r"a\.toml: no campaign named 'deeptst'; did you mean 'deeptest'"):
        load_campaign({"campaign": "deeptst"}, "a.toml")
    with pytest.raises(SkidpadError, match=r'a\.toml does not say what campaign it is; write campaign = one of .*"deeptest"'):
        load_campaign({}, "a.toml")


def test_relations_are_said_in_one_sentence() -> None:
    campaign = bar_campaign(LOOKS, output="brightness", relation="decides-alike", threshold=0.25)
    relation = campaign.relation(None)
    assert relation_sentence(relation, campaign.judged) == "decides brightness (at least 0.25) as on the original"
