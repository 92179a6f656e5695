"""The duel campaign: phases in order, resumed as if never stopped, every episode driven again exactly, failures counted."""

from dataclasses import replace
from math import isnan, nan

import numpy as np
import pytest
from duel_toys import made, only_tested, segments, small
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadRunError, BadSubjectError, InterruptedRunError, SkidpadError, UnknownNameError
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import Action, Outcome
from skidpad.highway.opponents import ConstantActions, Idm
from skidpad.highway.scenes import RELEASED
from skidpad.highway.training import Validation
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.drivers import TrainingRecord
from skidpad.kinds.duels.names import EGO, OTHER_REWARDS, OTHER_SEEDS, OWN, read_counts
from skidpad.kinds.duels.phases import _least
from skidpad.kinds.duels.records import LETTERS, SCHEMA, Bout, actions_of, build_records, case_id
from skidpad.kinds.duels.replaying import replay_episode
from skidpad.kinds.duels.settings import DuelSettings
from skidpad.kinds.duels.summary import WINDOW, Crashes, DuelColumn, Trainings, _versus, can_decide, summarise
from skidpad.kinds.kind import load_campaign
from skidpad.runs.folder import Run
from skidpad.runs.manifest import VersionChange
from skidpad.runs.records import check_schema
from skidpad.runs.replay import ReplayOutcome

WHOLE = {"egos": 2, "adversaries": 2, "repairs": 1, "rewards": ("sound", "paper"), "repair_against": ("sound",), "w_col": (-1.0, -0.1)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Everything once: two egos, two adversaries of two rewards, a repair with two weights."""
    return made(small(**WHOLE), tmp_path_factory.mktemp("duels") / "whole")


def test_phases_come_in_the_papers_order(whole) -> None:
    names = [phase.name for phase in whole.phases()]
    assert names == [
        *("train-ego", "test-ego", "train-sound", "test-sound", "train-paper", "test-paper", "test-random"),
        *("test-every-ego", "test-search", "test-slow"),
        *("repair-sound-w0", "test-repair-sound-w0", "repair-sound-w1", "test-repair-sound-w1"),
    ]
    assert whole.run.is_finished
    egos, fronts = ["train-ego-000", "train-ego-001"], [f"train-{reward}-00{index}" for reward in ("paper", "sound") for index in (0, 1)]
    repaired = ["repair-sound-w0-000", "repair-sound-w1-000"]
    assert sorted(path.stem for path in (whole.run.path / "policies").iterdir()) == [*repaired, *egos, *fronts]


def test_the_schema_is_one_that_runs_keep(whole) -> None:
    check_schema(SCHEMA)
    records = whole.run.records()
    assert records.schema.equals(SCHEMA)
    assert records.num_rows == sum(count.bout.episodes for phase in whole.run.phases() for count in counts(whole, phase))


def counts(work, phase):
    return read_counts(work.run, phase) if phase.startswith("test-") else []


def test_repaired_egos_meet_everyone(whole) -> None:
    met = {(count.bout.column, count.bout.front) for count in counts(whole, "test-repair-sound-w0")}
    best = whole.best_front("sound")
    assert {column for column, _ in met} == {OWN, "idm", "random", "search", OTHER_SEEDS, OTHER_REWARDS}
    assert {front for column, front in met if column == OWN} == {f"train-sound-00{best}"}
    assert {front for column, front in met if column == OTHER_SEEDS} == {f"train-sound-00{1 - best}"}
    assert {front for column, front in met if column == OTHER_REWARDS} == {"train-paper-000", "train-paper-001"}


def test_the_best_are_chosen_by_their_tests(whole) -> None:
    rates = {}
    for count in counts(whole, "test-ego"):
        rates.setdefault(count.bout.ego, []).append(count.failure_rate)
    assert whole.best_ego() == min(rates, key=lambda name: (np.mean(rates[name]), name))
    adversary = {count.bout.training: 0.0 for count in counts(whole, "test-sound")}
    for count in counts(whole, "test-sound"):
        adversary[count.bout.training] -= count.crashes
    assert whole.best_front("sound") == min(adversary, key=lambda index: (adversary[index], index))


def test_a_training_whose_tests_say_nothing_is_never_the_best(whole) -> None:
    tests = counts(whole, "test-sound")[:2]
    nothing = [replace(count, crashes=0, errors=count.bout.episodes) for count in tests]
    assert isnan(nothing[0].failure_rate)
    for sign in (1.0, -1.0):
        assert _least({0: nothing, 1: tests, 2: tests}, sign) == 1


def test_columns_share_their_starts(whole) -> None:
    records = whole.run.records(columns=["column", "family", "scenario", "training", "test", "episode", "start"]).to_pylist()
    starts = {}
    for row in records:
        if row["scenario"] == RELEASED.name:
            starts.setdefault((row["training"], row["test"], row["episode"]), set()).add(tuple(row["start"]))
    assert all(len(found) == 1 for found in starts.values())
    assert len(starts) > 40


def test_every_episode_is_driven_again_exactly(whole) -> None:
    rows = whole.run.records(columns=["case_id", "outcome"]).to_pylist()
    chosen = {row["outcome"]: row["case_id"] for row in rows} | {index: row["case_id"] for index, row in enumerate(rows[::25])}
    for name in chosen.values():
        result = replay_episode(whole, name)
        assert result.is_reproduced, result.differences
        assert result.trace is not None
        assert result.trace.impact_frame is not None or not result.row["violated"]
    forged = replace(result, row={**result.row, "steps": 99, "impact_s": 1.0})
    assert forged.differences == ("steps", "impact_s")
    elsewhere = (VersionChange("processor", "a", "b"),)
    rounded = replace(result, row={**result.row, "ego_mps": result.row["ego_mps"] * (1.0 + 1e-9)})
    assert rounded.reproduction.outcome is ReplayOutcome.DIFFERENT
    assert replace(rounded, version_changes=elsewhere).reproduction.outcome is ReplayOutcome.WITHIN_BOUND
    assert replace(forged, version_changes=elsewhere).reproduction.outcome is ReplayOutcome.DIFFERENT


def test_stopped_anywhere_and_resumed_it_ends_the_same(whole, tmp_path) -> None:
    campaign = Duel.load(small(**WHOLE))
    run = campaign.start(tmp_path / "stopped")
    limit = 0
    while not run.is_finished:
        limit += 150

        def stop(done: int, total: int, note: str = "", limit: int = limit) -> None:
            if done > limit:
                raise KeyboardInterrupt

        try:
            campaign.execute(run, stop)
        except (KeyboardInterrupt, InterruptedRunError):
            run = Run.open(run.path)
    assert segments(run) == segments(whole.run)


def test_another_seed_gives_other_results(tmp_path) -> None:
    first, again, other = (made(only_tested(seed=seed), tmp_path / f"{number}") for number, seed in enumerate((1, 1, 2)))
    assert segments(first.run) == segments(again.run)
    assert segments(first.run) != segments(other.run)


def test_summary_counts_what_happened(whole) -> None:
    summary = summarise(whole)
    slow = [column for column in summary.columns if column.family == "slow"]
    assert len(slow) == 5
    assert all(column.crashes == 0 and abs(column.ego_mps - 20.0) < 1.0 for column in slow)
    for column in summary.columns:
        assert column.crashes + column.overtaken + column.timeouts + column.errors == column.episodes
        assert column.interval.low <= column.interval.estimate <= column.interval.high
    ego = summary.column(EGO, "sound")
    assert ego is not None
    assert [len(tests) for tests in ego.rates] == [2, 2]
    assert summary.column("repaired-sound w_col -0.1", OWN) is not None
    assert [trainings.phase for trainings in summary.trainings] == sorted(trainings.phase for trainings in summary.trainings)
    assert {versus.group for versus in summary.versus} == {"sound", "paper"}
    crashed = sum(found.count for found in summary.crashes)
    assert crashed == sum(column.crashes for column in summary.columns), "every episode was kept, so every crash is judged"
    assert all(len(found.notice_s) + found.never + found.undecided == found.count for found in summary.crashes)
    assert all(sum(number for _, number in found.broken_by) == found.count for found in summary.crashes)


def test_kept_episodes_do_not_change_the_counts(tmp_path) -> None:
    work = made(only_tested(keep_episodes=3), tmp_path / "few")
    assert work.run.records().num_rows < summarise(work).episodes
    assert summarise(work).column(EGO, "random").episodes == 24


def test_a_broken_policy_costs_its_own_episodes_only(tmp_path) -> None:
    work = made(only_tested(ego="duel_toys:broken", test_episodes=30), tmp_path / "broken")
    column = summarise(work).column(EGO, "random")
    assert 0 < column.errors < column.episodes
    assert "the policy answered" in column.problem
    rows = [row for row in work.run.records().to_pylist() if row["outcome"] == Outcome.ERROR.value]
    assert all(isnan(row["excess"]) and not row["violated"] and "answer with whole numbers" in row["problem"] for row in rows)
    assert replay_episode(work, rows[0]["case_id"]).is_reproduced
    assert summarise(work).unmeasured == ""
    raising = summarise(made(only_tested(ego="duel_toys:raising"), tmp_path / "raising"))
    assert "out of petrol" in raising.unmeasured
    hopeless = raising.column(EGO, "idm")
    assert hopeless.errors == hopeless.episodes
    assert isnan(hopeless.across_trainings.mean)
    assert "out of petrol" in hopeless.problem


def test_own_policies_are_read_from_files(whole, tmp_path) -> None:
    policies = whole.run.path / "policies"
    settings = small(
        ego=str(policies / f"{whole.best_ego()}.safetensors"), fronts=(str(policies / "train-sound-000.safetensors"),), rewards=()
    )
    work = made(settings, tmp_path / "given")
    summary = summarise(work)
    assert summary.column(EGO, "given").episodes == 24
    assert summary.column("repaired-given", OWN) is not None
    assert work.best_ego() == "given"
    (policies / "copy.safetensors").write_bytes((policies / "train-sound-000.safetensors").read_bytes())
    with pytest.raises(BadSubjectError, match="front"):
        Duel.load(replace(settings, ego=str(policies / "copy.safetensors")))


def test_a_changed_policy_is_noticed(whole, tmp_path) -> None:
    path = tmp_path / "ego.safetensors"
    path.write_bytes((whole.run.path / "policies" / "train-ego-000.safetensors").read_bytes())
    settings = only_tested(ego=str(path))
    run = Duel.load(settings).start(tmp_path / "run")
    path.write_bytes((whole.run.path / "policies" / "train-ego-001.safetensors").read_bytes())
    with pytest.raises(BadRunError, match="the ego has changed"):
        Duel.load(settings).execute(run)


def test_settings_go_into_a_config_and_back(whole) -> None:
    assert DuelSettings.from_config(whole.run.config) == whole.settings
    assert isinstance(load_campaign(whole.run.config, "here"), Duel)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"w_col": (0.5,)}, "w_col"),
        ({"rewards": ("sound", "sound")}, "only once"),
        ({"repair_against": ("released",)}, "adversary to repair against"),
        ({"rewards": (), "repairs": 1}, "needs an adversary"),
        ({"test_runs": 0}, "test_runs must be at least 1"),
        ({"egos": 0}, "needs an ego"),
        ({"rewards": ("given",)}, "--front"),
        ({"ego_selection": "windw"}, "did you mean 'window'"),
        ({"ego_selection": "window", "env": "merge"}, "must be 'validation'"),
    ],
)
def test_bad_settings_are_refused(changes, words) -> None:
    with pytest.raises(SkidpadError, match=words):
        small(**changes)


def test_wrong_names_end_the_work_at_once() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'sound'"):
        Duel.load(small(rewards=("soud",)))
    with pytest.raises(UnknownNameError, match="scenario preset"):
        Duel.load(small(scenario="relased"))
    with pytest.raises(UnknownNameError, match="setting"):
        DuelSettings.from_config({"campaign": "duel", "speed": 1})
    with pytest.raises(BadSubjectError, match="cannot be retrained"):
        Duel.load(small(ego="duel_toys:reckless"))
    with pytest.raises(BadSubjectError, match="no policy at"):
        Duel.load(only_tested(ego="nothing.here"))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_letters_are_actions(actions) -> None:
    text = "".join(LETTERS[action] for action in actions)
    assert actions_of(text, len(actions)).tolist() == actions


def test_records_of_idm_have_no_letters() -> None:
    episodes = evaluate(RELEASED, ConstantActions(Action.FASTER), Idm(), 4, 5)
    rows = build_records(Bout("ego", "idm", "a", "b", 0, 0, 4, 5), episodes, "x", "y").to_pylist()
    assert all(row["front_actions"] == "" and set(row["ego_actions"]) == {"F"} for row in rows)
    assert (actions_of("", 3) == -1).all()
    assert all(row["case_id"] == case_id(episodes.scenario.to_json(), "x", "y", 5, row["episode"]) for row in rows)
    assert len({case_id("s", "x", "y", 5, number) for number in range(50)}) == 50


def test_findings_are_crashes_the_hardest_first(whole) -> None:
    found = whole.run.findings().to_pylist()
    assert all(row["outcome"] == "crash" for row in found)
    assert [row["excess"] for row in found] == sorted((row["excess"] for row in found), reverse=True)
    assert all(row["excess"] == 1.0 + row["closing_mps"] for row in found)


def test_training_records_survive_packing() -> None:
    rng = np.random.default_rng(0)
    record = TrainingRecord(
        rng.normal(size=7),
        rng.integers(1, 4, 7),
        rng.integers(1, 30, 7),
        (Validation(5, 1.5, 0.25, 0.5, 21.0), Validation(7, 2.0, 0.0, 0.0, 22.0)),
        321,
    )
    again = TrainingRecord.unpack(record.pack())
    assert again.pack() == record.pack()
    assert again.validations == record.validations
    assert again.updates == 321
    np.testing.assert_array_equal(again.returns, record.returns)


@given(st.integers(1, 130), st.integers(1, 3))
def test_training_curves_are_moving_means(episodes, trainings) -> None:
    rng = np.random.default_rng(episodes)
    records = tuple(
        TrainingRecord(rng.normal(size=episodes), rng.integers(1, 4, episodes), np.ones(episodes, np.int64), (), 0)
        for _ in range(trainings)
    )
    means = np.mean([record.returns for record in records], axis=0)
    wanted = [means[max(0, end - WINDOW) : end].mean() for end in range(1, episodes + 1)]
    np.testing.assert_allclose(Trainings("train", records).curve("returns"), wanted, atol=1e-12)


def column(rates):
    return DuelColumn("ego", "any", tuple(map(tuple, rates)), 100, 1, 1, 98, 0, 25.0, 25.0)


def test_complete_separation_gives_the_papers_p_value() -> None:
    adversary = column([[0.9 + 0.001 * test for test in range(10)] for _ in range(10)])
    chance = column([[0.39 + 0.001 * test for test in range(10)] for _ in range(10)])
    found = _versus("any", adversary, chance)
    for test, effect in (*found.by_training, found.over_trainings):
        assert effect.size == 1.0
        assert test.method == "exact"
    assert found.by_training[0][0].p_value == pytest.approx(2 / 184_756)


@pytest.mark.parametrize(("tests", "is_enough"), [(1, False), (3, False), (4, True), (10, True)])
def test_few_tests_cannot_decide(tests, is_enough) -> None:
    found = _versus("any", column([[0.9] * tests]), column([[0.1] * tests]))
    assert can_decide(found.by_training[0][0]) is is_enough
    assert (found.by_training[0][0].p_value < 0.05) is is_enough
    assert not can_decide(_versus("any", column([[nan] * 10]), column([[0.1] * 10])).by_training[0][0])


def test_before_the_repair_is_the_ego_that_was_retrained(whole) -> None:
    summary, best = summarise(whole), whole.best_ego()
    own = [count for count in counts(whole, "test-ego") if count.bout.ego == best]
    assert summary.before("idm").episodes == sum(count.bout.episodes for count in own) < summary.column(EGO, "idm").episodes
    assert summary.before("idm").crashes == sum(count.crashes for count in own)
    met = [count for count in counts(whole, "test-sound") if count.bout.training == whole.best_front("sound")]
    assert summary.before("sound").crashes == sum(count.crashes for count in met)
    assert summary.before("random") is summary.column(EGO, "random")
    assert summary.unmeasured == ""


def test_avoidable_shares() -> None:
    crashes = Crashes("ego", "x", 5, np.array([0.5, 1.0, 1.5, 2.5]), never=1, undecided=0, broken_by=())
    assert [crashes.avoidable_before(second) for second in (0.4, 1.0, 3.0)] == [0.0, 0.4, 0.8]
    assert isnan(Crashes("ego", "x", 1, np.array([]), never=0, undecided=1, broken_by=()).avoidable_before(1.0))
