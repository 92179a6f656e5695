"""Estimating how likely an ego crashes: duels that an estimator asks for, beside as many that a plain test drives."""

from dataclasses import replace

import numpy as np
import pytest
from duel_toys import made, only_tested
from typer.testing import CliRunner

from skidpad.cli.main import app
from skidpad.core.errors import SkidpadError
from skidpad.highway.episodes import least_gaps_m, trace
from skidpad.highway.evaluation import drawn_starts, evaluate, evaluate_starts, starts_from
from skidpad.highway.layout import Outcome
from skidpad.highway.opponents import Idm
from skidpad.highway.randomness import START_STREAM, stream_key, uniform
from skidpad.highway.scenes import preset
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.estimate import DuelSimulation, duel_estimate, nearness
from skidpad.kinds.duels.figures import duel_figures
from skidpad.kinds.duels.page import campaign_page
from skidpad.kinds.duels.replaying import replay_episode
from skidpad.kinds.estimating import PHASE
from skidpad.runs.folder import Run


def estimated(**changes):
    return replace(
        only_tested(),
        **({"ego": "duel_toys:reckless", "is_tested": False, "estimate": "monte-carlo", "budget": 600, "within": 0.2} | changes),
    )


def test_even_numbers_make_the_starts_that_a_seed_draws():
    scenario = preset("released")
    drawn = np.array([[uniform(np.uint64(stream_key(7, number, START_STREAM)), place) for place in range(8)] for number in range(20)])
    assert np.array_equal(starts_from(scenario, drawn), drawn_starts(scenario, 7, np.arange(20)))


def test_the_least_gap_is_that_of_the_traces():
    episodes = evaluate(preset("released"), Duel.load(only_tested()).drivers.ego("given"), Idm(), 6, 3)
    for row, found in enumerate(least_gaps_m(episodes)):
        steps = int(episodes.steps[row])
        sides = (side[row, :steps].astype(np.int64) for side in (episodes.ego_actions, episodes.front_actions))
        states = trace(episodes.scenario, episodes.starts[row], *sides).states[1:]
        apart = np.abs(states[:, 1, :2] - states[:, 0, :2])
        beside = apart[apart[:, 1] < 2.5, 0]
        assert found == pytest.approx(max(beside.min() - 5.0, 0.0) if len(beside) else 1000.0)
    near = nearness(episodes)
    assert np.array_equal(near >= 1.0, episodes.outcomes == Outcome.CRASH.code)


def test_an_estimate_agrees_with_a_plain_test_and_is_read_from_its_run(tmp_path):
    work = made(estimated(), tmp_path / "run")
    found = duel_estimate(work).read(work.run)
    assert found.simulations == work.run.records(PHASE).num_rows
    plain = evaluate(work.arena.scenario, work.drivers.ego("given"), work.drivers.front("random"), 2000, 5)
    assert found.interval.low <= plain.failure_rate <= found.interval.high
    campaign = Duel.load(work.settings)
    assert duel_figures(campaign, work.run)["estimate"]["duels"] == found.simulations
    page = campaign_page(campaign, work.run)
    assert "fails with a probability of" in page.verdict
    assert page.films
    crash = next(row for row in work.run.records(PHASE).to_pylist() if row["violated"])
    assert replay_episode(work, crash["case_id"]).is_reproduced


def test_opponents_are_as_likely_as_each_other_and_their_rows_keep_the_order_of_the_points(tmp_path):
    settings = estimated(against=("idm", "slow", "random"), budget=50)
    work = made(settings, tmp_path / "run")
    rows = work.run.records(PHASE).to_pylist()
    assert [row["episode"] for row in rows] == list(range(len(rows)))
    assert {row["column"] for row in rows} == {"idm", "slow", "random"}
    simulation = DuelSimulation(work, ("idm", "slow", "random"))
    points = np.random.default_rng(0).random((9, simulation.dimensions))
    points[:, 0] = np.arange(9) / 9
    assert {name: places.tolist() for name, _, places in simulation.driven(points)} == {
        "idm": [0, 1, 2],
        "slow": [3, 4, 5],
        "random": [6, 7, 8],
    }


def test_a_random_front_plays_its_numbers(tmp_path):
    campaign = Duel.load(estimated())
    work = campaign.work(campaign.start(tmp_path / "run"))
    simulation = DuelSimulation(work, ("random",))
    point = np.full((1, simulation.dimensions), 0.5)
    point[0, 8:] = 0.99  # slower, always
    ((_, episodes, _),) = simulation.driven(point)
    steps = int(episodes.steps[0])
    assert (episodes.front_actions[0, :steps] == 4).all()
    slow = evaluate_starts(work.arena.scenario, work.drivers.ego("given"), work.drivers.front("slow"), episodes.starts, 0, np.arange(1))
    assert np.array_equal(slow.ego_actions, episodes.ego_actions)


def test_what_an_estimate_cannot_do_is_refused(tmp_path):
    with pytest.raises(SkidpadError, match="neither trains adversaries"):
        estimated(is_tested=True)
    with pytest.raises(SkidpadError, match="got given, search"):
        Duel.load(estimated(against=("given", "search")))
    asked = CliRunner().invoke(app, ["duel", "--against", "idm"])
    assert asked.exit_code
    assert "--estimate" in str(asked.exception)


def test_the_command_says_how_likely_a_crash_is(tmp_path):
    done = CliRunner().invoke(
        app,
        ["duel", "--estimate", "--ego", "duel_toys:reckless", "--budget", "60", "--method", "monte-carlo", "--out", str(tmp_path / "run")],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    assert "fails with a probability of" in " ".join(done.output.split())
    assert Run.open(tmp_path / "run").records(PHASE).num_rows == 60
