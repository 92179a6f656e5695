"""Offline against online: matching as the paper prints it, tables as a plain count, and a planted disagreement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from online_toys import DEMO, LONGER, ROADS, demo, tampered

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.stimuli import Recipe
from skidpad.core.units import AngleUnit
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.drives.compare.campaign import OFFLINE, OfflineVsOnline, OfflineVsOnlineSettings
from skidpad.kinds.drives.compare.page import tone_of, verdict
from skidpad.kinds.drives.compare.summary import Comparison, ScenarioResult, best_part, match, summarise
from skidpad.kinds.drives.records import Case, unpack
from skidpad.page.model import Tone
from skidpad.runs.folder import Run
from skidpad.stimuli.registry import ORIGINAL
from skidpad.worlds.builtin import sim

labels = st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=12)


@given(labels, st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=40))
@settings(max_examples=60)
def test_the_best_part_is_that_of_a_plain_loop(simulated: list[float], recorded: list[float]) -> None:
    n = len(simulated)
    best, place = float("inf"), -1
    for x in range(len(recorded) - n + 1):
        total = sum(abs(simulated[j] - recorded[x + j]) for j in range(n)) / n
        if total < best - 1e-12:
            best, place = total, x
    start, apart = best_part(np.array(simulated), np.array(recorded))
    assert apart == pytest.approx(best)
    if start != place:  # equal to rounding
        assert sum(abs(simulated[j] - recorded[start + j]) for j in range(n)) / n == pytest.approx(best)


def test_a_part_without_labels_is_passed_over() -> None:
    recorded = np.array([0.5, np.nan, 0.5, 0.1, 0.1])
    assert best_part(np.array([0.5, 0.5]), recorded)[0] == 2
    assert best_part(np.array([0.5, 0.5]), recorded[:3])[0] == -1
    assert best_part(np.zeros(9), np.zeros(3)) == (-1, float("inf"))


def test_pairs_are_comparable_and_consistent_by_the_papers_conditions() -> None:
    recorded = np.concatenate([np.zeros(10), np.full(10, 0.5)])
    said = recorded + np.concatenate([np.full(10, 0.02), np.full(10, 0.4)])
    near, bend, far = np.full(4, 0.05), np.full(4, 0.52), np.full(4, 3.0)
    found = match(["near", "bend", "far"], [(near, near + 0.02), (bend, bend + 0.05), (far, far)], recorded, said, epsilon=0.1)
    assert [pair.is_comparable for pair in found.pairs] == [True, True, False]
    assert found.pairs[0].apart == pytest.approx(0.05)
    assert found.pairs[1].start == 10
    assert [pair.difference for pair in found.comparable] == pytest.approx([0.0, 0.35])
    assert found.consistent.estimate == 0.5
    assert found.worse_simulated == 0
    assert found.mean_difference == pytest.approx(0.175)


def result(name: str, mae: float, mdcl: float) -> ScenarioResult:
    return ScenarioResult(name, "{}", "a", "b", mae, mdcl, 0.1, np.array([mae]), np.zeros(1), float("nan"), "")


def comparison(*pairs: tuple[float, float]) -> Comparison:
    results = tuple(result(str(k), *pair) for k, pair in enumerate(pairs))
    return Comparison(AngleUnit.RAD, 0.1, 0.7, results, None, float("nan"))


def test_rates_are_shares_of_what_is_true_online_and_the_claim_is_tested() -> None:
    found = comparison((0.05, 0.2), (0.05, 1.0), (0.02, 0.9), (0.2, 1.0), (0.06, 0.8))
    assert (found.agreement.false_safe, found.agreement.unsafe_online) == (3, 4)
    assert found.false_safe.estimate == 0.75
    assert found.false_alarm.estimate == 0.0
    assert found.optimism_p == pytest.approx(1 / 8)
    assert found.telling is not None
    assert found.telling.name == "2"
    assert comparison((0.05, 0.2)).optimism_p == 1.0
    assert comparison((0.05, 0.2)).telling is None
    assert comparison((0.2, 0.2)).telling is not None  # a false alarm is told where there is no other
    at = {(each.mae_limit, each.mdcl_limit): each.agreement for each in found.sensitivity}
    assert at[0.05, 0.7].false_safe == 1
    assert at[0.1, 0.7] == found.agreement


@pytest.mark.parametrize(
    ("false_safe", "false_alarm", "p", "who", "said", "tone"),
    [
        (0, 1, 1.0, "neither", "too few to say which is the more optimistic (exact two-sided sign test, p = 1)", Tone.UNKNOWN),
        (0, 5, 0.0625, "neither", "too few to say", Tone.UNKNOWN),
        (0, 6, 0.03125, "online", "Online testing is the more optimistic, against the paper's finding", Tone.CALM),
        (6, 0, 0.03125, "offline", "Offline testing is the more optimistic (exact two-sided sign test, p = 0.031)", Tone.ALARM),
        (2, 2, 1.0, "neither", "Neither is more optimistic", Tone.ALARM),
        (0, 0, 1.0, "neither", "agree on the only scenario", Tone.CALM),
    ],
)
def test_who_is_the_more_optimistic_is_said_only_where_it_is_hardly_chance(false_safe, false_alarm, p, who, said, tone) -> None:
    found = comparison((0.05, 0.2), *[(0.05, 1.0)] * false_safe, *[(0.2, 0.2)] * false_alarm)
    assert found.two_sided_p == pytest.approx(p)
    assert found.optimist == who
    assert said in verdict(found)
    assert tone_of(found) is tone


def case(named) -> Case:
    return Case(named.name, named.scenario, ORIGINAL, Recipe())


def recorded_drive():
    """A recorded drive that is a simulated one, so that its matching part is known."""
    drive = sim(ROADS[1].scenario)
    frames = np.stack([drive.frame(position) for position in range(len(drive))])
    return drive_from_arrays(frames, drive.steering_rad, name="recorded")


def test_a_bias_that_offline_testing_tolerates_is_unsafe_online(tmp_path) -> None:
    # The truth corrects 0.37 rad a metre, so that a constant 0.6 rad leads 1.6 m astray.
    changes = {"mae_limit": 0.7, "mdcl_limit": 0.7, "scenarios": 2, "matched": 1, "seconds": 3.6}
    longer = tuple(case(each) for each in LONGER[:2])
    campaign = OfflineVsOnline(OfflineVsOnlineSettings(subject=DEMO, **changes), tampered(bias_rad=0.6), None, longer, ())
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    found = summarise(campaign, run)
    assert found.agreement.false_safe == 2
    assert found.agreement.false_alarm == 0
    assert found.matching is None
    for row in run.records(OFFLINE).to_pylist():
        assert not row["violated"]
        assert row["mae_rad"] == pytest.approx(0.6, abs=0.15)
        assert np.abs(unpack(row["lateral_m"])).max() < 0.7  # the truth was at the wheel


def test_a_simulated_drive_matches_itself_and_a_stopped_run_goes_on(tmp_path) -> None:
    drive = recorded_drive()
    settings_ = OfflineVsOnlineSettings(subject=DEMO, drive="memory", scenarios=1, matched=2)
    campaign = OfflineVsOnline(settings_, demo(), drive, (case(ROADS[0]),), (case(ROADS[1]), case(ROADS[2])))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    found = summarise(campaign, Run.open(tmp_path / "run"))
    assert found.matching is not None
    same = next(pair for pair in found.matching.pairs if pair.name == "left")
    assert (same.start, same.apart) == (0, 0.0)
    assert same.difference == pytest.approx(0.0, abs=1e-5)
    assert found.recorded_mae == pytest.approx(same.mae_real)
    before = campaign.recorded_answers(run)
    (run.path / "state" / "recorded-answers.bin").write_bytes(b"half")
    assert np.allclose(campaign.recorded_answers(run), before)
    campaign.execute(run)  # nothing is lacking


def test_settings_survive_their_config_and_nonsense_is_refused() -> None:
    given_ = OfflineVsOnlineSettings(subject="a.toml", unit="scaled25", epsilon=0.2)
    assert OfflineVsOnlineSettings.from_config(given_.to_config()) == given_
    assert given_.unit_rad == pytest.approx(np.radians(25.0))
    for wrong in ({"epsilon": 0.0}, {"scenarios": 0}, {"seconds": 0.0}, {"width": -2}):
        with pytest.raises(SkidpadError):
            OfflineVsOnlineSettings(subject="a.toml", **wrong)
    with pytest.raises(UnknownNameError, match="unit"):
        OfflineVsOnlineSettings(subject="a.toml", unit="gon")
