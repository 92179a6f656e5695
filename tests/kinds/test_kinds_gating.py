"""The gate on real small runs: the same subject under other seeds passes, a planted regression fails and is named."""

from dataclasses import replace
from pathlib import Path

import pytest
from bar_world import BarSubject, bar_campaign
from duel_toys import made, only_tested
from online_toys import ROADS, online, tampered

from skidpad.core.errors import BadRunError
from skidpad.highway.scenes import PAPER
from skidpad.kinds.gating import check_gate, columns_of, differences, judged_cases
from skidpad.runs.folder import Run
from skidpad.runs.gate import ALL, Limits
from skidpad.runs.manifest import Processor
from skidpad.runs.tags import Tag, Tags
from skidpad.worlds.scenario.files import NamedScenario

FRAMES = 40


def bar_run(path: Path, subject: BarSubject, **changes) -> Run:
    campaign = bar_campaign(subject, frames=FRAMES, **{"transforms": ("brightness", "blur"), "criteria": (), **changes})
    run = campaign.start(path)
    campaign.execute(run)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("runs")
    searched = {"searches": ("grid", "random"), "seeds": 20, "max_failed_tries": 5}
    return {
        "base": bar_run(folder / "base", BarSubject(left_threshold=130), seed=1, **searched),
        "other seed": bar_run(folder / "seed", BarSubject(left_threshold=130), seed=2, **searched),
        "worse": bar_run(folder / "worse", BarSubject(left_threshold=80, sha256="worse"), seed=3, **searched),
        "grid alone": bar_run(folder / "grid", BarSubject(left_threshold=130)),
    }


def test_the_same_subject_under_another_seed_passes(runs) -> None:
    verdict = check_gate(runs["other seed"], Limits({ALL: 0.5}, max_new=0), runs["base"])
    assert verdict.is_passed
    assert verdict.changes[0].persisting > 0
    assert {each.group for each in verdict.rates} == {"all", "brightness", "blur", "random"}


def test_a_planted_regression_fails_and_is_named(runs) -> None:
    verdict = check_gate(runs["worse"], Limits(max_new=0), runs["base"])
    names = [outcome.name for outcome in verdict.broken]
    assert "brightness against the baseline" in names
    assert "new findings" in names
    assert not any(name.startswith("blur") for name in names)
    fresh = {row["case_id"]: row for row in runs["worse"].findings().to_pylist()}
    assert fresh[verdict.new[0]]["stimulus"] == "brightness"
    assert all(not runs["base"].find_row(case)["violated"] for case in verdict.new[:5])


def test_the_regressions_mending_passes_and_is_counted(runs) -> None:
    verdict = check_gate(runs["base"], Limits(max_new=0), runs["worse"])
    assert verdict.is_passed
    assert verdict.changes[0].fixed > 10


def test_a_baseline_of_another_processor_is_noted(runs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("processor" in note for note in check_gate(runs["other seed"], Limits(max_new=0), runs["base"]).notes)
    monkeypatch.setattr(runs["base"], "manifest", replace(runs["base"].manifest, processor=Processor("Some CPU", "SomeVendor", "AVX2")))
    verdict = check_gate(runs["other seed"], Limits(max_new=0), runs["base"])
    here = runs["other seed"].manifest.processor
    assert f"the baseline was made by another processor: Some CPU (SomeVendor, AVX2) then, {here} now" in verdict.notes
    worse = check_gate(runs["worse"], Limits(max_new=0), runs["base"])
    assert not worse.is_passed  # a regression is far beyond what a processor rounds


def test_two_networks_are_not_measured_by_their_own_errors(tmp_path: Path) -> None:
    good = bar_run(tmp_path / "good", BarSubject(left_threshold=130), relation="label-mse")
    again = bar_run(tmp_path / "again", BarSubject(left_threshold=130), relation="label-mse", seed=2)
    worse = bar_run(tmp_path / "worse", BarSubject(left_threshold=80, sha256="worse"), relation="label-mse")
    assert differences(again, good) == ()
    with pytest.raises(BadRunError, match="each network's own error"):
        check_gate(worse, Limits(), good)


def test_rates_are_those_of_the_records_that_could_be_judged(runs) -> None:
    run = runs["grid alone"]
    rows = run.records("grid").to_pylist()
    failed = sum(row["violated"] for row in rows)
    rate = check_gate(run, Limits({ALL: 1.0})).rates[0]
    assert (rate.group, rate.findings, rate.rate.n) == (ALL, failed, len(rows))


def test_a_case_that_was_drawn_again_counts_once_and_that_is_said(runs, tmp_path: Path) -> None:
    searched = {"searches": ("grid", "random"), "seeds": 40, "max_failed_tries": 20}
    run = bar_run(tmp_path / "run", BarSubject(left_threshold=130), transforms=("blur",), seed=1, **searched)
    ids = [case for phase in searched["searches"] for case in run.records(phase, ("case_id",))["case_id"].to_pylist()]
    verdict = check_gate(run, Limits({ALL: 1.0}))
    assert len(ids) > len(set(ids)) == verdict.rates[0].rate.n
    (said,) = verdict.notes
    assert said.startswith(f"{len(ids) - len(set(ids))} cases were drawn again and count once here")
    assert check_gate(runs["grid alone"], Limits({ALL: 1.0})).notes == ()


def test_tags_of_the_run_are_in_its_cases(tmp_path: Path) -> None:
    run = bar_run(tmp_path / "tagged", BarSubject(left_threshold=80))
    found = [row["case_id"] for row in run.findings().to_pylist()]
    for case in found[:-1]:
        Tags.of(run.path).put(case, Tag.FALSE_ALARM)
    Tags.of(run.path).put(found[-1], Tag.REAL_FAULT)
    rate = check_gate(run, Limits({ALL: 1.0})).rates[0]
    assert (rate.findings, rate.false_alarms) == (len(found), len(found) - 1)
    assert check_gate(run, Limits({ALL: 0.01}, without_false_alarms=True)).is_passed
    assert not check_gate(run, Limits({ALL: 0.01})).is_passed


def test_runs_that_cannot_be_compared_say_why(runs, tmp_path: Path) -> None:
    other = bar_run(tmp_path / "tolerance", BarSubject(left_threshold=130), tolerance=3.0)
    with pytest.raises(BadRunError, match=r"cannot be compared: tolerance is 3.0 here and 2.0 there"):
        check_gate(other, Limits(), runs["grid alone"])
    campaign = bar_campaign(BarSubject(), frames=FRAMES - 1, transforms=("blur",))
    short = campaign.start(tmp_path / "short")
    assert differences(short, runs["grid alone"])[0] == "the drive is another"
    with pytest.raises(BadRunError, match="is not finished"):
        check_gate(short, Limits({ALL: 0.1}))
    with pytest.raises(BadRunError, match="is not finished"):
        check_gate(runs["base"], Limits(), short)


def test_a_run_without_a_judged_case_does_not_pass(tmp_path: Path) -> None:
    run = bar_run(tmp_path / "empty", BarSubject(), searches=())
    with pytest.raises(BadRunError, match="no case that could be judged"):
        check_gate(run, Limits({ALL: 1.0}))


def test_drives_are_matched_by_scenario_though_the_subject_is_another(tmp_path: Path) -> None:
    lasting = tuple(NamedScenario(each.name, replace(each.scenario, duration_s=1.0)) for each in ROADS)
    runs = []
    for name, bias_rad in (("straight", 0.0), ("astray", 6.0)):
        campaign = online(tampered(bias_rad=bias_rad), lasting, repeats=2)
        runs.append(campaign.start(tmp_path / name))
        campaign.execute(runs[-1])
    verdict = check_gate(runs[1], Limits(max_new=0), runs[0])
    assert verdict.changes[0].common == len(lasting), "repeats of a drive are one case"
    assert verdict.changes[0].new == len(lasting)
    assert [outcome.name for outcome in verdict.broken] == ["new findings"], "three drives are too few to tell a rate from chance"
    assert check_gate(runs[0], Limits(max_new=0), runs[1]).is_passed


def test_duels_are_matched_by_episode(tmp_path: Path) -> None:
    work = made(only_tested(test_episodes=20, search_episodes=0), tmp_path / "duel")
    cases = judged_cases(work.run)
    assert len(cases) > 20
    verdict = check_gate(work.run, Limits(max_new=0), work.run)
    assert verdict.is_passed
    assert verdict.changes[0].common == len(cases)
    assert set(cases.groups) >= {"idm", "random"}


def test_crashes_that_nobody_could_avoid_count_in_no_rate_and_are_said(tmp_path: Path) -> None:
    bumper = replace(PAPER, name="bumper", spacing=(0.1, 0.2), ego_speed_mps=(30.0, 30.0), front_speed_mps=(20.0, 20.0))
    (tmp_path / "bumper.toml").write_text(bumper.to_toml(), encoding="utf-8")
    work = made(only_tested(scenario=str(tmp_path / "bumper.toml"), test_episodes=20, search_episodes=0), tmp_path / "duel")
    rows = [row for table in work.run.iter_records() for row in table.to_pylist()]
    hopeless = [row for row in rows if row["avoidable"] == "never"]
    assert hopeless
    assert len(judged_cases(work.run)) == len({(row["family"], row["column"], row["test"], row["episode"]) for row in rows}) - len(hopeless)
    notes = check_gate(work.run, Limits({ALL: 1.0})).notes
    assert any(f"{len(hopeless)} failure" in note and "nobody could avoid" in note for note in notes)


def test_campaigns_that_nobody_described_are_read_by_their_case_ids(runs) -> None:
    run = runs["grid alone"]
    foreign = Run(run.path, {**run.config, "campaign": "somebody-elses"}, run.manifest, run.schema)
    foreign.refresh()
    assert columns_of(foreign).key == ("case_id",)
    assert judged_cases(foreign).groups == ("blur", "brightness")
    assert check_gate(foreign, Limits(max_new=0), foreign).is_passed
