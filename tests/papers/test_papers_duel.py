"""The scoreboard of duels: the paper's table as printed, ours in the same shape, resumed."""

import json
from dataclasses import astuple, replace

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError, BadRunError
from skidpad.highway.rewards import REWARDS
from skidpad.kinds.duels.campaign import Duel
from skidpad.page.wording import percent
from skidpad.papers.duel import tables
from skidpad.papers.duel.replication import DuelReplicationSettings, replicate
from skidpad.runs.folder import Run

TINY = DuelReplicationSettings(
    trainings=2,
    train_episodes=6,
    tests=3,
    test_episodes=8,
    cross_episodes=8,
    search_episodes=2,
    keep_episodes=4,
    rewards=("sound", "paper"),
    repair_against=("sound",),
    seed=3,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicate")
    replicate(TINY, folder)
    return folder


def test_the_papers_rows_average_to_its_averages() -> None:
    means = np.mean([astuple(row) for row in tables.TABLE_1], axis=0)
    np.testing.assert_allclose(means, astuple(tables.AVERAGE), atol=0.0101)
    sem = 100 * np.std([row.front_test for row in tables.TABLE_1], ddof=1) / np.sqrt(10)
    assert sem == pytest.approx(tables.FRONT_SEM, abs=0.05)
    sem = 100 * np.std([row.ego_test for row in tables.TABLE_1], ddof=1) / np.sqrt(10)
    assert sem == pytest.approx(tables.EGO_SEM, abs=0.05)


def test_table_1_is_whole(folder) -> None:
    answer = replicate(TINY, folder)
    published, sound, printed = answer.behind()[:3]
    assert len(published.rows) == 12
    for sheet in (sound, printed):
        assert sheet.columns == published.columns
        assert len(sheet.rows) == 2 + 2, "a row a training, the average, the SEM"
        assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert sound.rows[0][-1] is not None
    assert printed.rows[0][-1] is None
    assert "No ego was retrained" in printed.note
    questions = {row.question for row in answer.rows()}
    assert questions == {"set-up", "RQ1", "RQ1, sound", "RQ1, paper", "RQ2, sound"}
    quantities = [row.quantity for row in answer.rows() if row.question == "RQ2, sound"]
    assert "repaired ego: failure rate, IDM in front" in quantities
    assert "speed lost, its adversary in front (%)" in quantities
    assert "speed lost, IDM in front (%)" in quantities
    few = [row for row in answer.rows() if row.quantity.startswith(("p-value", "A12")) and row.question == "RQ1, sound"]
    assert len(few) == 2
    assert all("too few trainings" in row.note for row in few), "two trainings cannot show a difference"
    assert any(row.paper == 0.95 for row in answer.rows())
    every = next(row for row in answer.rows() if "every ego" in row.quantity)
    assert 0.0 <= every.ours <= 1.0
    assert "over 2 trainings, 16 episodes" in every.note


def test_the_scoreboard_shows_every_reward() -> None:
    assert set(DuelReplicationSettings().rewards) == set(REWARDS.names())


def test_ours_are_the_means_of_the_table(folder) -> None:
    answer = replicate(TINY, folder)
    table = answer.behind()[1]
    column = table.columns.index("adversary test")
    means = [row[column] for row in table.rows[:2]]
    board = next(row for row in answer.rows() if row.quantity == "adversary: test failure rate" and row.question == "RQ1, sound")
    assert board.ours == pytest.approx(np.mean(means))
    assert table.rows[2][column] == pytest.approx(np.mean(means))
    assert table.rows[3][column] == pytest.approx(100 * abs(means[0] - means[1]) / 2)


def test_another_seed_gives_another_table(folder, tmp_path) -> None:
    other = replicate(replace(TINY, seed=4, rewards=("sound",), search_episodes=0), tmp_path)
    seeded = [row for row in other.behind()[1].rows if row[0] in {1, 2}]
    assert seeded != [row for row in replicate(TINY, folder).behind()[1].rows if row[0] in {1, 2}]


def test_a_finished_folder_is_read_and_another_setting_refused(folder) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "run" / "segments").iterdir()}
    replicate(TINY, folder)
    assert before == {path.name: path.stat().st_mtime_ns for path in (folder / "run" / "segments").iterdir()}
    with pytest.raises(BadRunError, match="other settings"):
        replicate(replace(TINY, tests=2), folder)
    with pytest.raises(BadParametersError, match="at least one training"):
        replace(TINY, trainings=0)


def test_egos_are_kept_by_the_papers_rule_and_everyone_else_by_validation(folder) -> None:
    work = Duel.load(TINY.campaign()).work(Run.open(folder / "run"))
    assert work.settings.ego_selection == "window"
    assert work.drivers.training("train-ego-000").validations == ()
    assert len(work.drivers.training("train-sound-000").validations) == 1
    assert len(work.drivers.training("repair-sound-w0-000").validations) == 1


def test_what_is_written_can_be_read(folder) -> None:
    payload = json.loads((folder / "duel.json").read_text())
    assert payload["settings"]["trainings"] == 2
    assert len(payload["sheets"]) == 5
    page = (folder / "duel.md").read_text()
    assert "## Table I, ours: reward `sound`" in page
    assert "## Traps" in page
    assert f"An ego that always chooses SLOWER crashes in {percent(0.0)} with IDM, in {percent(0.0)} with random" in page
    assert (folder / "report.html").is_file()
