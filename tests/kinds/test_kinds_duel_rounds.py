"""A repair in rounds: its phases, its resumption, when a round is skipped, and the table that compares the repairs."""

from dataclasses import replace

import pytest
from duel_toys import made, segments, small

from skidpad.core.errors import BadRunError, InterruptedRunError, SkidpadError
from skidpad.highway.training import Validation
from skidpad.kinds.duels import rounds
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.figures import comparisons, duel_figures, frontier, repaired_egos
from skidpad.kinds.duels.names import POPULATION
from skidpad.kinds.duels.page import duel_page
from skidpad.kinds.duels.replaying import replay_episode
from skidpad.kinds.duels.rounds import Rounds
from skidpad.kinds.duels.summary import summarise
from skidpad.kinds.duels.tables import duel_tables
from skidpad.page.wording import percent
from skidpad.papers.duel.replication import DuelReplication, DuelReplicationSettings
from skidpad.runs.folder import Run

ROUNDS = {"rounds": 2, "round_episodes": 40, "pool_rewards": ("sound",), "after_rewards": ("sound",), "test_runs": 4}


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    return made(small(**ROUNDS), tmp_path_factory.mktemp("rounds") / "run")


def test_each_round_trains_adversaries_first_and_the_last_are_met_only_in_tests(repaired) -> None:
    names = [phase.name for phase in repaired.phases()]
    assert names[names.index("test-repair-sound-w0") + 1 :] == [
        *("train-sound-round1", "repair-population-round1", "train-sound-round2", "repair-population-round2"),
        *("train-sound-after-repaired-population", "test-all-repaired-population"),
        *("train-sound-after-repaired-sound", "test-all-repaired-sound", "test-all-ego", "test-oracle"),
    ]
    assert [phase.name for phase in Duel.load(small()).work(repaired.run).phases()] == names[: names.index("train-sound-round1")]


MANY = ROUNDS | {"rounds": 1, "adversaries_at_once": 2, "crash_cost": (10.0, 1.0), "test_runs": 1}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    return made(small(**MANY), tmp_path_factory.mktemp("crowded") / "run")


def test_a_repair_stopped_anywhere_goes_on_to_the_same_bytes(repaired, tmp_path) -> None:
    check_resumption(repaired, small(**ROUNDS), tmp_path)


def test_a_repair_against_two_at_once_for_two_costs_goes_on_to_the_same_bytes_too(crowded, tmp_path) -> None:
    check_resumption(crowded, small(**MANY), tmp_path)


def check_resumption(whole, settings, tmp_path) -> None:
    campaign = Duel.load(settings)
    run = campaign.start(tmp_path / "run")
    for limit in range(15, 400, 35):
        calls = []

        def stop(*_: object, calls=calls, limit=limit) -> None:
            calls.append(1)
            if len(calls) > limit:
                raise KeyboardInterrupt

        try:
            campaign.execute(run, stop)
            break
        except (KeyboardInterrupt, InterruptedRunError):
            run = Run.open(run.path)
    assert run.is_finished
    assert segments(run) == segments(whole.run)


def test_a_round_whose_adversaries_gain_little_leaves_the_ego_as_it_is(repaired, monkeypatch) -> None:
    drivers, work = repaired.drivers, Duel.load(repaired.settings).work(repaired.run)
    first = drivers.renamed("repair-population-round1-000", "x")
    monkeypatch.setattr(rounds, "LITTLE", 1.0)
    kept = Rounds(work).repair(2, 0, lambda *_: None)
    assert kept.coverage == drivers.renamed("repair-population-round1-000", "repair-population-round2-000")
    monkeypatch.setattr(rounds, "LITTLE", -1.0)
    trained = Rounds(work).repair(2, 0, lambda *_: None)
    assert trained.coverage["repair-population-round2-000.policy"] != first["x.policy"]


def test_the_table_compares_ego_and_both_repairs_against_everybody(repaired) -> None:
    summary = summarise(repaired)
    found = {comparison.front: comparison for comparison in comparisons(summary, repaired.settings)}
    assert list(found) == ["idm", "random", "search", "slow", "aggressive", "sound", "pool", "trained afterwards (sound)"]
    assert all(found[front].ego and found[front].paper for front in ("idm", "random", "search", "slow", "aggressive", "sound"))
    assert found["trained afterwards (sound)"].ego is None
    assert found["trained afterwards (sound)"].paper.family == "repaired-sound"
    assert [len(tests) for tests in found["slow"].population.rates] == [4]
    assert found["slow"].over_ego is not None
    assert found["search"].over_ego is None  # one test each decides nothing
    table = next(table for table in duel_tables(summary, repaired.settings) if table.key == "repairs")
    assert len(table.rows) == len(found)
    assert all(len(row) == len(table.columns) for row in table.rows)
    slow = dict(zip(table.columns[1:4], table.rows[list(found).index("slow")][1:4], strict=True))
    assert slow["SEM"] == f"{100.0 * found['slow'].ego.by_training[0].sem:.2f} %"  # one ego: over its tests
    kept = summary.unavoidable("ego", "sound"), summary.unavoidable("repaired-sound", "own"), summary.unavoidable(POPULATION, "sound")
    never = found["sound"]
    assert (never.unavoidable_before, never.unavoidable_paper, never.unavoidable) == kept
    figures = duel_figures(Duel.load(repaired.settings), repaired.run)["repairs"]
    assert [figure["population"]["family"] for figure in figures] == [POPULATION] * len(found)
    calm, after = (found[front].population for front in ("idm", "trained afterwards (sound)"))
    verdict = duel_page(repaired).verdict
    assert (
        f"Repaired against everybody, it crashes in {percent(calm.across_trainings.mean)} at {calm.speed.mean:.1f} m/s with IDM" in verdict
    )
    assert f"in {percent(after.across_trainings.mean)} at {after.speed.mean:.1f} m/s with the worst of the adversaries" in verdict


def test_a_replication_puts_the_repair_against_everybody_beside_the_papers_own_table(repaired) -> None:
    settings = DuelReplicationSettings(trainings=1, rounds=2)
    assert settings.campaign().rounds == 2
    sheets = {sheet.title: sheet for sheet in DuelReplication(settings, repaired.settings, summarise(repaired)).behind()}
    assert "Table I, the paper's" in sheets
    sheet = sheets["The paper's repair, and ours against everybody"]
    found = comparisons(summarise(repaired), repaired.settings)
    assert [row[0] for row in sheet.rows] == [comparison.front for comparison in found]
    assert [row[7] for row in sheet.rows] == [comparison.population.across_trainings.mean for comparison in found]
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    without = DuelReplication(settings, replace(repaired.settings, rounds=0), summarise(repaired)).behind()
    assert not any("everybody" in sheet.title for sheet in without)


def test_each_cost_of_a_crash_is_a_point_of_the_frontier(crowded) -> None:
    summary = summarise(crowded)
    trades = frontier(summary, crowded.settings)
    assert [trade.cost for trade in trades] == [1.0, 10.0]
    assert [{column.family for column in trade.columns} for trade in trades] == [{f"{POPULATION} cost 1"}, {POPULATION}]
    assert all(trade.with_front(front) for trade in trades for front in ("idm", "random", "pool", "trained afterwards (sound)"))
    assert trades[0].worst_rate == max(column.across_trainings.mean for column in trades[0].columns)
    rows = next(table for table in duel_tables(summary, crowded.settings) if table.key == "frontier").rows
    assert [row[0] for row in rows] == ["1", "10"]
    assert "Crash rate and speed" in duel_page(crowded).charts[-1].title
    figures = duel_figures(Duel.load(crowded.settings), crowded.run)["frontier"]
    assert [figure["crash_cost"] for figure in figures] == [1.0, 10.0]


def test_the_recommended_ego_is_chosen_by_its_validation_and_never_by_a_test(crowded) -> None:
    summary = summarise(crowded)
    egos = repaired_egos(summary, crowded.settings)
    assert [(ego.policy, ego.cost) for ego in egos] == [("repair-population-round1-000", 10.0), ("repair-population-round1-001", 1.0)]
    assert all(ego.worst("idm", "random") == max(ego.tests["idm"], ego.tests["random"]) for ego in egos)
    dear, cheap = (Validation(1, 0.0, 0.0, rate, mps) for rate, mps in ((0.01, 22.0), (0.015, 26.0)))
    risky, unsafe = Validation(1, 0.0, 0.0, 0.3, 29.0), Validation(1, 0.0, 0.0, 0.5, 20.0)
    old = Validation(1, 0.0, 0.0)
    pairs = [(dear, cheap, 1), (cheap, dear, 0), (dear, risky, 0), (unsafe, risky, 1), (dear, dear, 0), (old, unsafe, 1), (old, old, None)]
    for first, second, chosen in pairs:
        phase = summary.training("repair-population-round1")
        records = tuple(replace(record, validations=(seen,)) for record, seen in zip(phase.records, (first, second), strict=True))
        changed = replace(summary, trainings=(replace(phase, records=records),))
        assert [ego.is_recommended for ego in repaired_egos(changed, crowded.settings)] == [place == chosen for place in (0, 1)]
        rows = next(table for table in duel_tables(changed, crowded.settings) if table.key == "egos").rows
        assert [row[0].endswith("(recommended)") for row in rows] == [place == chosen for place in (0, 1)]
    figures = duel_figures(Duel.load(crowded.settings), crowded.run)["repaired_egos"]
    assert [figure["tests"]["idm"]["failure_rate"] for figure in figures] == [ego.tests["idm"][0] for ego in egos]


def test_records_hold_a_letter_for_each_front_vehicle_and_replay_to_the_same(crowded) -> None:
    rows = [row for table in crowded.run.iter_records("test-random") for row in table.to_pylist()]
    assert all(len(row["front_actions"]) == 2 * row["steps"] for row in rows)
    assert all(len(row["start"]) == 11 for row in rows)
    crash = next(row for row in rows if row["violated"])
    again = replay_episode(crowded, crash["case_id"])
    assert again.is_reproduced
    assert again.trace.states.shape[1] == 3
    assert again.again["ego_actions"] == crash["ego_actions"]


def test_the_oracle_is_tested_but_nobody_trains_against_it(repaired) -> None:
    columns = {column.column: column for column in summarise(repaired).columns if column.family == "oracle"}
    assert {"idm", "random", "slow", "aggressive", "sound", "trained afterwards (sound)"} == set(columns)
    assert columns["idm"].crashes == 0
    assert columns["idm"].ego_mps > 28.0
    with pytest.raises(BadRunError, match="nobody else can meet it"):
        repaired.drivers.ego("oracle")


def test_a_cost_of_a_crash_without_rounds_is_read_as_older_runs_have_it() -> None:
    assert small(crash_cost=(10.0,)).crash_cost == (10.0,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crash_cost": (1.0, 1.0)}, "each once"),
        ({"adversaries_at_once": 4}, "at most 3"),
        ({"rounds": 0, "env": "merge", "adversaries_at_once": 2}, "built-in highway only"),
    ],
)
def test_sweeps_and_crowds_that_cannot_be_are_refused(changes, message) -> None:
    with pytest.raises(SkidpadError, match=message):
        small(**(ROUNDS | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"repairs": 0}, "--repairs of at least 1"), ({"pool_rewards": ()}, "pool_rewards"), ({"env": "merge"}, "built-in highway only")],
)
def test_rounds_that_cannot_be_are_refused(changes, message) -> None:
    with pytest.raises(SkidpadError, match=message):
        small(**(ROUNDS | changes))
