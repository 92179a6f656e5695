"""The camera environment: both checkers accept it, a careful driver is rewarded, and elements do not disturb each other."""

import copy
import csv
import pickle
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs import registration
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_for_stable_baselines

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera
from skidpad.oracles.lane_departure import CAP_M
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.lane import DEPARTED_M, LOST, MAX_STEERING_RAD
from skidpad.worlds.lane_env import ENV_ID, LaneEnv, LaneVectorEnv
from skidpad.worlds.scenario.scenario import Ego, OtherVehicle, RoadKind, RoadPlan, Scenario

SMALL = {"scenarios": 3, "seconds": 1.0, "camera": Camera(72, 36)}
MAKE = "skidpad.worlds.lane_env:skidpad/Lane-v0"


def driven(env: LaneEnv, action=None) -> list[tuple]:
    """Drives to the end of the episode, as the truth does where no action is given; returns every step."""
    steps = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(env.truth if action is None else np.array(action, np.float32)))
    return steps


@pytest.mark.parametrize("pedal", [False, True])
def test_gymnasium_and_stable_baselines_accept_it(pedal: bool) -> None:
    env = gymnasium.make(MAKE, pedal=pedal, render_mode="rgb_array", **SMALL)
    check_env(env.unwrapped)
    check_for_stable_baselines(env.unwrapped)
    assert env.action_space.shape == (2 if pedal else 1,)
    assert env.observation_space.shape == (36, 72, 3)


def test_the_package_names_its_environments_to_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    ((name, where),) = project["entry-points"]["gymnasium.envs"].items()
    monkeypatch.setattr(registration, "registry", {})
    with registration.namespace(name):
        EntryPoint(name, where, "gymnasium.envs").load()()
    assert set(registration.registry) == {ENV_ID, "skidpad/Duel-v0"}
    assert gymnasium.make(ENV_ID, **SMALL).unwrapped.__class__ is LaneEnv


def test_an_environment_can_be_sent_and_copied() -> None:
    env = LaneEnv(**SMALL)
    env.reset(seed=3)
    sent, copied = pickle.loads(pickle.dumps(env)), copy.deepcopy(env)
    step = env.step(env.truth)
    for other in (sent, copied):
        np.testing.assert_array_equal(other.step(other.truth)[0], step[0])


def test_a_careful_driver_gets_a_metre_for_a_metre() -> None:
    env = LaneEnv(**SMALL)
    env.reset(seed=2)
    steps = driven(env)
    assert len(steps) == 20
    assert steps[-1][2:4] == (False, True)
    came_m = 20 * 0.05 * env.scenario.ego.speed_m_s
    assert 0.9 * came_m < sum(step[1] for step in steps) <= came_m + 1e-6


def test_frames_and_poses_are_those_of_the_built_in_world() -> None:
    env, world = LaneEnv(**SMALL), BuiltInWorld(1, camera=SMALL["camera"])
    seen, _ = env.reset(seed=4)
    world.reset([env.scenario])
    assert np.array_equal(seen, world.frames()[0])
    for _ in range(5):
        action = np.array([0.3], np.float32)
        seen, _, _, _, info = env.step(action)
        world.step(np.asarray(action, np.float64) * MAX_STEERING_RAD)
    assert np.array_equal(seen, world.frames()[0])
    assert info["lateral_m"] == world.lateral_m()[0]


def test_leaving_the_lane_ends_the_episode_and_costs() -> None:
    assert DEPARTED_M == CAP_M
    env = LaneEnv(**{**SMALL, "seconds": 10.0})
    env.reset(seed=1)
    last = driven(env, [1.0])[-1]
    assert (last[1], last[2], last[3]) == (LOST, True, False)
    assert last[4]["lateral_m"] >= CAP_M, "positive steering turns left"
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(1, np.float32))


def test_touching_something_ends_the_episode() -> None:
    blocked = Scenario(ego=Ego(speed_m_s=15.0), vehicles=(OtherVehicle(1, 20.0, 0.0),), duration_s=5.0)
    env = LaneEnv(**SMALL)
    env.reset(options={"scenario": blocked})
    last = driven(env)[-1]
    assert last[2]
    assert last[4]["collided"]


def test_the_pedal_changes_the_speed() -> None:
    env = LaneEnv(pedal=True, **SMALL)
    speeds = [env.reset(seed=1)[1]["speed_m_s"]]
    speeds += [env.step(np.array([*env.truth, -1.0], np.float32))[4]["speed_m_s"] for _ in range(5)]
    assert all(later < earlier for earlier, later in pairwise(speeds))


def test_each_element_drives_what_it_would_drive_alone() -> None:
    vector = gymnasium.make_vec(MAKE, num_envs=3, **SMALL)
    alone = [LaneEnv(**SMALL) for _ in range(3)]
    frames, _ = vector.reset(seed=7)
    assert all(np.array_equal(frames[k], env.reset(seed=7 + k)[0]) for k, env in enumerate(alone))
    over = [False] * 3
    rng = np.random.default_rng(0)
    for _ in range(45):
        actions = rng.uniform(-1.0, 1.0, (3, 1)).astype(np.float32)
        frames, rewards, terminated, truncated, info = vector.step(actions)
        for k, env in enumerate(alone):
            if over[k]:
                seen, reward, ended, told = env.reset()[0], 0.0, (False, False), None
            else:
                seen, reward, *ended, told = env.step(actions[k])
            assert np.array_equal(frames[k], seen)
            assert rewards[k] == reward
            assert (terminated[k], truncated[k]) == tuple(ended)
            assert told is None or info["lateral_m"][k] == told["lateral_m"]
            over[k] = any(ended)


def test_options_choose_other_scenarios() -> None:
    env = LaneEnv(**SMALL)
    env.reset(options={"domain": "extended", "scenarios": 2, "pool_seed": 5})
    assert env.scenario.duration_s == 1.0
    bend = Scenario(RoadPlan(RoadKind.CURVED, 90.0), duration_s=2.0)
    env.reset(options={"scenario": bend})
    assert env.scenario == bend
    with pytest.raises(BadParametersError, match="no reset option named 'road'"):
        env.reset(options={"road": 1})


@pytest.mark.parametrize("action", [[np.nan], [0.0, 0.0], [[0.0]]])
def test_an_action_that_is_none_is_refused(action) -> None:
    env = LaneEnv(**SMALL)
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(1, np.float32))
    env.reset()
    with pytest.raises(InvalidAction):
        env.step(np.array(action))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_shows_the_same_roads() -> None:
    here, there = LaneVectorEnv(3, **SMALL), LaneVectorEnv(3, device="cuda", **SMALL)
    seen = [env.reset(seed=1)[0].astype(int) for env in (here, there)]
    assert np.abs(seen[0] - seen[1]).mean() < 1.0


def test_a_gpu_that_is_not_there_is_said() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(BadParametersError, match="cannot be rendered on 'cuda'"):
            LaneVectorEnv(2, device="cuda", **SMALL)


@pytest.mark.slow
def test_the_example_learns_to_keep_its_lane(tmp_path: Path) -> None:
    """Slow: three quarters of a minute of processor time."""
    example = Path(__file__).parents[2] / "examples" / "learn_lane.py"
    subprocess.run([sys.executable, example, "--curve", tmp_path / "curve.csv"], check=True, capture_output=True)
    with (tmp_path / "curve.csv").open(encoding="utf-8") as file:
        kept = {row["who"]: float(row["kept"]) for row in csv.DictReader(file)}
    assert kept["careful driver"] == 1.0
    assert kept["wheel straight"] < 0.7
    assert kept["after round 6"] > kept["wheel straight"] + 0.2
