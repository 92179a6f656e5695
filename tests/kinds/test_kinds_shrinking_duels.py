"""Crashes made smaller: the fewest actions of the front vehicle, judged by driving every smaller script."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from duel_toys import made, only_tested

from skidpad.core.errors import SkidpadError
from skidpad.highway.layout import CRASH, Action
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.records import LETTERS, actions_of
from skidpad.kinds.duels.shrinking import play_scripts
from skidpad.kinds.shrinking import shrink_finding


@pytest.fixture(scope="module")
def duels(tmp_path_factory: pytest.TempPathFactory):
    work = made(only_tested(test_episodes=40), tmp_path_factory.mktemp("duel") / "run")
    return Duel.load(work.settings), work


def test_playing_what_the_front_did_drives_the_same_episode(duels) -> None:
    _, work = duels
    rows = [row for row in work.run.records("test-random").to_pylist() if not row["problem"]][:6]
    for row in rows:
        script = tuple(actions_of(row["front_actions"], row["steps"]).tolist())
        driven = play_scripts(
            work.arena.scenario, work.drivers.ego(row["ego"]), np.array(row["start"]), [script], row["seed"], row["episode"]
        )
        assert (driven.outcomes[0] == CRASH) == row["violated"]
        assert driven.steps[0] == row["steps"]
        assert "".join(LETTERS[action] for action in driven.ego_actions[0, : row["steps"]].tolist()) == row["ego_actions"]


def test_scripts_side_by_side_are_scripts_alone(duels) -> None:
    _, work = duels
    row = work.run.findings(limit=1, phase="test-random").to_pylist()[0]
    ego, start = work.drivers.ego(row["ego"]), np.array(row["start"])
    scripts = [(), (int(Action.LEFT),) * 3, (int(Action.SLOWER), int(Action.RIGHT)), (int(Action.IDLE),) * 9]
    together = play_scripts(work.arena.scenario, ego, start, scripts, row["seed"], row["episode"])
    alone = [play_scripts(work.arena.scenario, ego, start, [script], row["seed"], row["episode"]) for script in scripts]
    assert together.outcomes.tolist() == [int(each.outcomes[0]) for each in alone]
    assert together.steps.tolist() == [int(each.steps[0]) for each in alone]


def test_no_action_of_the_smallest_script_can_be_left_out(duels) -> None:
    campaign, work = duels
    idle, sizes = int(Action.IDLE), []
    for row in work.run.findings(phase="test-random").to_pylist()[:40]:
        shrunk = shrink_finding(campaign, work.run, row["case_id"])
        assert shrunk.smallest["violated"]
        script = actions_of(shrunk.smallest["front_actions"], shrunk.smallest["steps"]).tolist()
        busy = [at for at, action in enumerate(script) if action != idle]
        assert len(busy) <= sum(letter != "I" for letter in row["front_actions"])
        sizes.append(len(busy))
        smaller = [tuple(idle if at in gone else action for at, action in enumerate(script)) for gone in combinations(busy, 1)]
        if smaller:
            ego = work.drivers.ego(row["ego"])
            driven = play_scripts(work.arena.scenario, ego, np.array(row["start"]), smaller, row["seed"], row["episode"])
            assert not (driven.outcomes == CRASH).any()
    assert max(sizes) > 0, "some crash needs the front vehicle to do something"


def test_idm_has_no_actions_to_leave_out(duels) -> None:
    campaign, work = duels
    crashes = work.run.findings(phase="test-ego", limit=1).to_pylist()
    assert crashes
    with pytest.raises(SkidpadError, match="IDM drove the front vehicle"):
        shrink_finding(campaign, work.run, crashes[0]["case_id"])


def test_the_name_of_the_smallest_case_says_its_script(duels, tmp_path: Path) -> None:
    campaign, work = duels
    row = work.run.findings(limit=1, phase="test-random").to_pylist()[0]
    smallest = shrink_finding(campaign, work.run, row["case_id"]).smallest
    assert smallest["front"].startswith("script ")
    assert set(smallest) == set(work.run.schema.names)
