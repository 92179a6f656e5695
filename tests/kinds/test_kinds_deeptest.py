"""The whole chain on a world whose answer is known."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bar_world import BarSubject, bar_campaign, bar_drive, column_of

from skidpad.core.errors import BadRunError, InterruptedRunError, SkidpadError, UnknownNameError
from skidpad.core.images import pixel_hash
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.evidence import replay_case
from skidpad.kinds.pictures.guided import merged_coverage
from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.summary import Rate, Summary, summarise
from skidpad.runs.folder import Run
from skidpad.runs.records import ORIGINALS
from skidpad.runs.replay import PictureMatch

FAULTY = BarSubject(left_threshold=60)


def run_of(campaign, path: Path) -> Run:
    run = campaign.start(path)
    campaign.execute(run)
    return run


def test_a_perfect_subject_gives_no_findings(tmp_path: Path) -> None:
    # in pairs, brightness before contrast may saturate the bar away, where no subject can be perfect
    campaign = bar_campaign(BarSubject(), searches=("grid", "greedy", "random"), transforms=("brightness", "blur"))
    run = run_of(campaign, tmp_path / "run")
    assert run.is_finished
    assert run.records("grid").num_rows == 12 * 20
    assert run.records("random").num_rows > 0
    assert run.findings().num_rows == 0


def test_a_planted_fault_is_found_exactly_where_it_is(tmp_path: Path) -> None:
    run = run_of(bar_campaign(FAULTY), tmp_path / "run")
    found = run.findings().to_pylist()
    left = {frame for frame in range(12) if column_of(frame) < 32}
    assert {row["frame_index"] for row in found} == left
    assert {row["stimulus"] for row in found} == {"brightness", "contrast"}
    # the fault begins where the bar, 44, is lifted above 60
    shifts = {row["recipe"] for row in found if row["stimulus"] == "brightness"}
    assert len(shifts) == 9


@pytest.mark.parametrize("relation", ["steers-alike", "label-mse"])
def test_verdicts_equal_the_formula_on_stored_answers(tmp_path: Path, relation: str) -> None:
    campaign = bar_campaign(FAULTY, relation=relation, tolerance=2.0, transforms=("brightness", "rotation"))
    run = run_of(campaign, tmp_path / "run")
    records = run.records("grid")
    mutant, original, label = (records[name].to_numpy() for name in ("mutant", "original", "label"))
    if relation == "steers-alike":
        expected = np.abs(mutant - original) >= np.radians(2.0)
    else:
        originals = run.records(ORIGINALS)
        mse = np.mean((originals["original"].to_numpy() - originals["label"].to_numpy()) ** 2)
        expected = (label - mutant) ** 2 > 2.0 * mse
    assert np.array_equal(records["violated"].to_numpy(zero_copy_only=False), expected)
    assert expected.any()
    assert not expected.all()


@pytest.mark.parametrize("shard_frames", [1, 7, 64])
def test_the_size_of_a_shard_changes_nothing(tmp_path: Path, shard_frames: int) -> None:
    wanted = run_of(bar_campaign(FAULTY), tmp_path / "five")
    other = bar_campaign(FAULTY, shard_frames=shard_frames)
    got = run_of(other, tmp_path / "other")
    key = [("case_id", "ascending")]
    assert got.records("grid").sort_by(key).equals(wanted.records("grid").sort_by(key))
    blank = other.blank_tracker(None)
    theirs, ours = (merged_coverage(run, "grid", blank) for run in (wanted, got))
    assert {name: tracker.pack() for name, tracker in theirs.items()} == {name: tracker.pack() for name, tracker in ours.items()}


def test_stopped_anywhere_and_resumed_it_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = ("grid", "greedy", "random")
    run_of(bar_campaign(FAULTY, searches=searches), tmp_path / "whole")
    campaign = bar_campaign(FAULTY, searches=searches)
    run = campaign.start(tmp_path / "stopped")
    commit = Run.commit

    def stop_after_one(self: Run, result: object) -> None:
        commit(self, result)
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "commit", stop_after_one)
    for _ in range(3 + 3 + 4 + 4):
        assert not run.is_finished
        with pytest.raises(InterruptedRunError, match="skidpad resume"):
            campaign.execute(run)
        run = Run.open(tmp_path / "stopped")
    campaign.execute(run)
    assert run.is_finished
    # names carry the hash of the content
    assert sorted(path.name for path in (tmp_path / "stopped/segments").iterdir()) == sorted(
        path.name for path in (tmp_path / "whole/segments").iterdir()
    )


def test_guided_tests_each_raise_coverage(tmp_path: Path) -> None:
    campaign = bar_campaign(BarSubject(), searches=("greedy",), keep_activations=True, transforms=("brightness", "translation", "shear"))
    run = run_of(campaign, tmp_path / "run")
    seeds = run.records(ORIGINALS)["activated"].to_pylist()
    covered = np.zeros(8, bool)
    for packed in seeds:
        covered |= np.unpackbits(np.frombuffer(packed, np.uint8)).astype(bool)
    for packed in run.records("greedy")["activated"].to_pylist():
        after = covered | np.unpackbits(np.frombuffer(packed, np.uint8)).astype(bool)
        assert after.sum() > covered.sum()
        covered = after


def test_random_makes_as_many_tries_as_greedy(tmp_path: Path) -> None:
    campaign = bar_campaign(BarSubject(), searches=("greedy", "random"), transforms=("brightness", "shear"), max_failed_tries=3)
    run = run_of(campaign, tmp_path / "run")
    accepted = run.records("greedy").num_rows
    assert run.records("random").num_rows == accepted + 4 * (3 + 1)


def test_the_summary_counts_what_the_records_say(tmp_path: Path) -> None:
    campaign = bar_campaign(FAULTY)
    run = run_of(campaign, tmp_path / "run")
    summary = summarise(run, campaign.blank_tracker(None), campaign.judged)
    records = run.records("grid").to_pylist()
    assert summary.overall.cases == len(records)
    assert summary.overall.findings == sum(row["violated"] for row in records)
    for rate in summary.by_stimulus:
        mine = [row["violated"] for row in records if row["stimulus"] == rate.name]
        assert (rate.cases, rate.findings) == (len(mine), sum(mine))
        assert rate.low <= rate.rate <= rate.high
    assert [rate.parameters for rate in summary.by_parameters[:3]] == ["shift=10", "shift=20", "shift=30"]
    assert sum(summary.deviations) + summary.not_finite == len(records)
    together = next(gain for gain in summary.coverage if not gain.stimulus)
    assert together.originals <= together.together <= together.total


def test_a_finding_is_replayed_to_the_pixel(tmp_path: Path) -> None:
    campaign = bar_campaign(FAULTY)
    run = run_of(campaign, tmp_path / "run")
    worst = run.findings(limit=1).to_pylist()[0]
    result = replay_case(campaign, run, worst["case_id"][:8])
    assert result.is_reproduced()
    assert result.picture is PictureMatch.SAME
    assert pixel_hash(campaign.picture(worst["frame_index"], result.record.recipe)) == worst["picture"]


def test_replay_notices_a_mended_subject(tmp_path: Path) -> None:
    run = run_of(bar_campaign(FAULTY), tmp_path / "run")
    worst = run.findings(limit=1).to_pylist()[0]
    result = replay_case(bar_campaign(BarSubject()), run, worst["case_id"])
    assert not result.violated
    assert not result.is_reproduced()


def test_answers_that_are_not_numbers_are_findings_and_do_not_stop_the_run(tmp_path: Path) -> None:
    class Breaking(BarSubject):
        def _answers(self, frames):
            return np.where(frames.mean(axis=(1, 2, 3))[:, None] > 80, np.nan, super()._answers(frames))

    run = run_of(bar_campaign(Breaking()), tmp_path / "run")
    broken = run.findings().filter(pa.compute.is_nan(run.findings()["mutant"]))
    assert broken.num_rows > 0
    assert np.isinf(broken["excess"].to_numpy()).all()


def test_a_changed_subject_is_not_resumed_into_the_same_run(tmp_path: Path) -> None:
    run = bar_campaign(FAULTY).start(tmp_path / "run")
    with pytest.raises(BadRunError, match="the subject has changed"):
        bar_campaign(BarSubject(sha256="other")).execute(run)


def test_labels_are_needed_where_the_relation_needs_them(tmp_path: Path) -> None:
    campaign = bar_campaign(FAULTY, relation="label-mse")
    nothing = Originals(np.zeros(3), np.full(3, np.nan), np.ones(3, np.bool_))
    with pytest.raises(SkidpadError, match="use --relation steers-alike"):
        campaign.relation(nothing)


def test_bounds_come_from_the_profile_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skidpad.kinds.pictures.campaign.open_drive", lambda _text: bar_drive(20))
    campaign = bar_campaign(BarSubject(), criteria=("kmnc", "nbc"), profile_drive="toy")
    run = run_of(campaign, tmp_path / "run")
    gains = summarise(run, campaign.blank_tracker(campaign.profile(run)), campaign.judged).coverage
    nbc = next(gain for gain in gains if gain.criterion == "nbc" and not gain.stimulus)
    assert nbc.originals == 0
    assert nbc.together >= 4  # brightening lifts every quarter above its bounds
    monkeypatch.setattr("skidpad.subjects.loading.load_subject", lambda *_: BarSubject())
    with pytest.raises(SkidpadError, match="--profile-drive"):
        DeepTest.load(bar_campaign(BarSubject(), criteria=("kmnc",)).settings)


def test_settings_survive_the_config_and_refuse_strange_keys() -> None:
    settings = DeepTestSettings(subject="a.toml", drive="b", transforms=("fog",), seed=3)
    assert DeepTestSettings.from_config(settings.to_config()) == settings
    with pytest.raises(UnknownNameError, match="did you mean 'transforms'"):
        DeepTestSettings.from_config({**settings.to_config(), "transfroms": []})
    with pytest.raises(SkidpadError, match="lacks the setting 'drive'"):
        DeepTestSettings.from_config({"subject": "a"})
    with pytest.raises(SkidpadError, match="above 0"):
        DeepTestSettings(subject="a", drive="b", tolerance=0.0)


def test_eq_3_is_not_asked_about_fog_and_rain() -> None:
    def rate(name: str, mse_rad2: float) -> Rate:
        return Rate.of(name, "", 10, 2, mse_rad2)

    rates = (rate("blur", 0.1), rate("shear", 9.0), rate("deeptest-fog", 0.1), rate("deeptest-rain", 9.0))
    summary = Summary(4, 0.1, rate("all", 0.1), (), rates, (), np.zeros(1, np.int64), 0, 0, ())
    assert [each.name for each in summary.near_original()] == ["blur"]
    assert [each.name for each in summary.filtered] == ["blur", "shear"]
