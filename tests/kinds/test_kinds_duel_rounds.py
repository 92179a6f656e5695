"""A repair in rounds: its phases, its resumption, when a round is skipped, and the table that compares the repairs."""

import pytest
from duel_toys import made, segments, small

from skidpad.core.errors import InterruptedRunError, SkidpadError
from skidpad.kinds.duels import rounds
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.figures import comparisons, duel_figures
from skidpad.kinds.duels.names import POPULATION
from skidpad.kinds.duels.rounds import Rounds
from skidpad.kinds.duels.summary import summarise
from skidpad.kinds.duels.tables import duel_tables
from skidpad.runs.folder import Run

ROUNDS = {"rounds": 2, "round_episodes": 40, "pool_rewards": ("sound",), "test_runs": 4}


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


def test_a_repair_stopped_anywhere_goes_on_to_the_same_bytes(repaired, tmp_path) -> None:
    campaign = Duel.load(small(**ROUNDS))
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
    assert segments(run) == segments(repaired.run)


def test_a_round_whose_adversaries_gain_little_leaves_the_ego_as_it_is(repaired, monkeypatch) -> None:
    drivers, work = repaired.drivers, Duel.load(repaired.settings).work(repaired.run)
    first = drivers.renamed("repair-population-round1-000", "x")
    monkeypatch.setattr(rounds, "_LITTLE", 1.0)
    kept = Rounds(work).repair(2, 0, lambda *_: None)
    assert kept.coverage == drivers.renamed("repair-population-round1-000", "repair-population-round2-000")
    monkeypatch.setattr(rounds, "_LITTLE", -1.0)
    trained = Rounds(work).repair(2, 0, lambda *_: None)
    assert trained.coverage["repair-population-round2-000.policy"] != first["x.policy"]


def test_the_table_compares_ego_and_both_repairs_against_everybody(repaired) -> None:
    summary = summarise(repaired)
    found = {comparison.front: comparison for comparison in comparisons(summary, repaired.settings)}
    assert list(found) == ["idm", "random", "search", "slow", "aggressive", "sound", "pool", "trained afterwards"]
    assert all(found[front].ego and found[front].paper for front in ("idm", "random", "search", "slow", "aggressive", "sound"))
    assert found["trained afterwards"].ego is None
    assert found["trained afterwards"].paper.family == "repaired-sound"
    assert [len(tests) for tests in found["slow"].population.rates] == [4]
    assert found["slow"].over_ego is not None
    assert found["search"].over_ego is None  # one test each decides nothing
    rows = next(table for table in duel_tables(summary, repaired.settings) if table.key == "repairs").rows
    assert len(rows) == len(found)
    figures = duel_figures(Duel.load(repaired.settings), repaired.run)["repairs"]
    assert [figure["population"]["family"] for figure in figures] == [POPULATION] * len(found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"repairs": 0}, "--repairs of at least 1"), ({"pool_rewards": ()}, "pool_rewards"), ({"env": "merge"}, "built-in highway only")],
)
def test_rounds_that_cannot_be_are_refused(changes, message) -> None:
    with pytest.raises(SkidpadError, match=message):
        small(**(ROUNDS | changes))
