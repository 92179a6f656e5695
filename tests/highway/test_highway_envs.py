"""The learning environments: the libraries' own checkers, and that all of them play the same episodes."""

import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError, BadSubjectError
from skidpad.highway.gym_env import DuelEnv, DuelVectorEnv
from skidpad.highway.layout import Action, Outcome, Side
from skidpad.highway.opponents import ConstantActions, Driver, Idm, RandomActions
from skidpad.highway.parallel_env import DuelParallelEnv
from skidpad.highway.policies import CallablePolicy, random_policy
from skidpad.highway.rewards import driving_reward, released_reward, sound_reward
from skidpad.highway.scenes import PRETRAINING, RELEASED

FAST = replace(RELEASED, simulation_hz=5)
FASTER = ConstantActions(Action.FASTER)


def network(role: Side) -> Driver:
    return random_policy(role, FAST.observation.hash, FAST.observation.size, (8, 8), np.random.default_rng(0))


@pytest.mark.parametrize(
    "environment",
    [
        DuelEnv(FAST, Side.FRONT, FASTER, sound_reward()),
        DuelEnv(FAST, Side.EGO, RandomActions(), driving_reward()),
        DuelEnv(PRETRAINING, Side.EGO, Idm(), driving_reward()),
    ],
    ids=["front", "ego", "idm"],
)
def test_gymnasiums_checker_is_content(environment: DuelEnv) -> None:
    check_env(environment, skip_render_check=True)


def test_stable_baselines_checker_is_content() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(DuelEnv(FAST, Side.FRONT, FASTER, sound_reward()))


def test_pettingzoos_checkers_are_content(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its test module imports games of its own in a way it has given up
        from pettingzoo.test import parallel_api_test, parallel_seed_test

    parallel_api_test(DuelParallelEnv(FAST, driving_reward(), sound_reward()), num_cycles=150)
    parallel_seed_test(lambda: DuelParallelEnv(FAST, driving_reward(), sound_reward()), num_cycles=20)
    assert "Passed Parallel API test" in capsys.readouterr().out


def test_several_front_vehicles_are_agents_of_their_own_in_parallel_and_one_driver_in_gymnasium() -> None:
    crowd = FAST.crowded(3)
    environment = DuelParallelEnv(crowd, driving_reward(), sound_reward())
    seen, _ = environment.reset(seed=3)
    assert list(seen) == environment.possible_agents == ["ego", "front", "front 2", "front 3"]
    actions = {"ego": 4, "front": 1, "front 2": 1, "front 3": 4}
    after, rewards, *_ = environment.step(actions)
    width, vx = len(crowd.observation.features), 2
    assert [after[agent][vx] < seen[agent][vx] for agent in actions] == [True, False, False, True]
    assert rewards["front"] > rewards["front 3"]  # the slower one pays more for every step
    assert after["front 2"].shape == (4 * width,)
    ego = DuelEnv(crowd, Side.EGO, RandomActions(), driving_reward())
    assert played(ego, 4, seed=1)[2] == "overtaken"  # the three crash with each other, and the slowest ego passes their wrecks
    with pytest.raises(BadParametersError, match="DuelParallelEnv"):
        DuelEnv(crowd, Side.FRONT, FASTER, sound_reward())


Episode = tuple[list[NDArray[np.float32]], list[float], str]


def played(environment: DuelEnv, action: int, seed: int | None = None) -> Episode:
    """One episode with one action throughout: what was seen, what was paid, how it ended."""
    seen, _ = environment.reset(seed=seed)
    sights, rewards, is_over, info = [seen], [], False, {"outcome": ""}
    while not is_over:
        seen, reward, terminated, truncated, info = environment.step(np.int64(action))
        sights.append(seen)
        rewards.append(reward)
        is_over = terminated or truncated
        assert truncated == (info["outcome"] == "timeout")
        assert terminated == (info["outcome"] in {"crash", "overtaken", "error"})
    return sights, rewards, info["outcome"]


def test_the_same_seed_plays_the_same_episodes() -> None:
    environment = DuelEnv(FAST, Side.FRONT, RandomActions(), sound_reward())
    first = [played(environment, 4, seed=3), played(environment, 4)]
    again = [played(environment, 4, seed=3), played(environment, 4)]
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one[0], two[0])
        assert one[1:] == two[1:]
    assert not np.array_equal(first[0][0][0], first[1][0][0])  # but the second is another than the first


def test_a_crash_pays_the_sound_reward_and_ends_it() -> None:
    environment = DuelEnv(FAST, Side.FRONT, FASTER, sound_reward(), seed=1)
    episodes = [played(environment, int(Action.SLOWER)) for _ in range(12)]
    outcomes = [outcome for _, _, outcome in episodes]
    assert {"crash", "overtaken"} <= set(outcomes)
    for _, rewards, outcome in episodes:
        assert (rewards[-1] > 4) == (outcome == "crash")
        assert all(-0.1 <= reward <= 0 for reward in rewards[:-1])


@pytest.mark.parametrize("other", [RandomActions(), network(Side.EGO)], ids=["chance", "network"])
@pytest.mark.parametrize("seed", [6, [9, 2, 9]], ids=["one seed", "a seed each"])
def test_a_vector_of_duels_is_many_single_ones(other: Driver, seed: int | list[int | None]) -> None:
    settings = (FAST, Side.FRONT, other, sound_reward())
    ours = DuelVectorEnv(*settings, num_envs=3)
    theirs = SyncVectorEnv([lambda: DuelEnv(*settings)] * 3)
    endings = 0
    for given in (seed, [None, 4, None], None):  # a new seed begins anew, none goes on
        seen, _ = ours.reset(seed=given)
        expected, _ = theirs.reset(seed=given)
        assert ours.observation_space.contains(seen)
        assert np.array_equal(seen, expected)
        for _ in range(30):
            seen, *judged, info = ours.step(np.full(3, 4))
            expected, *expected_judged, expected_info = theirs.step(np.full(3, 4))
            assert np.array_equal(seen, expected)
            for one, two in zip(judged, expected_judged, strict=True):
                assert np.array_equal(one, two)
            for place in np.flatnonzero(judged[1] | judged[2]):
                outcome = Outcome.of_code(int(info["outcome"][place]))
                assert outcome is not None
                assert outcome.value == expected_info["outcome"][place]
                endings += 1
    assert endings >= 9


def test_every_seed_of_a_list_counts() -> None:
    vector = DuelVectorEnv(FAST, Side.FRONT, FASTER, sound_reward(), 3)
    seen, _ = vector.reset(seed=[5, 8, 5])
    alone = [DuelEnv(FAST, Side.FRONT, FASTER, sound_reward()).reset(seed=seed)[0] for seed in (5, 8, 5)]
    assert np.array_equal(seen, alone)
    assert not np.array_equal(seen[0], seen[1])
    with pytest.raises(BadParametersError, match="3 places take 3 seeds; got 2"):
        vector.reset(seed=[1, 2])
    with pytest.raises(BadParametersError, match="whole number from 0"):
        vector.reset(seed=[1, 2, -1])


MAKE = "skidpad.highway.gym_env:skidpad/Duel-v0"


def test_gymnasium_makes_a_duel_that_its_checkers_accept() -> None:
    environment = gymnasium.make(MAKE).unwrapped
    assert isinstance(environment, DuelEnv)
    check_env(environment)
    pytest.importorskip("stable_baselines3.common.env_checker").check_env(environment)


def test_gymnasium_makes_the_same_vector_of_duels_in_either_mode() -> None:
    settings = {"scenario": FAST, "side": Side.FRONT, "other": RandomActions(), "reward": sound_reward()}
    ours = gymnasium.make_vec(MAKE, num_envs=2, **settings)
    theirs = gymnasium.make_vec(MAKE, num_envs=2, vectorization_mode="sync", **settings)
    assert isinstance(ours, DuelVectorEnv)
    assert np.array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    for _ in range(20):
        one, two = ours.step(np.full(2, 4)), theirs.step(np.full(2, 4))
        assert all(np.array_equal(left, right) for left, right in zip(one[:4], two[:4], strict=True))


@pytest.mark.parametrize("action", [2.5, 2.0, 5, -1, np.array([1]), True, None])
def test_what_is_no_action_is_refused(action: object) -> None:
    single = DuelEnv(FAST, Side.FRONT, FASTER, sound_reward())
    single.reset(seed=0)
    with pytest.raises(InvalidAction, match="0 LEFT"):
        single.step(action)
    vector = DuelVectorEnv(FAST, Side.FRONT, FASTER, sound_reward(), 2)
    vector.reset(seed=0)
    with pytest.raises(InvalidAction, match="one for each of 2"):
        vector.step(np.array([action, action]))
    both = DuelParallelEnv(FAST, driving_reward(), sound_reward())
    both.reset(seed=0)
    if action is not True:  # Gymnasium's own space takes it for 1
        with pytest.raises(InvalidAction, match="'front' is a whole number"):
            both.step({"ego": 1, "front": action})


def test_a_step_needs_a_reset() -> None:
    single = DuelEnv(FAST, Side.FRONT, FASTER, sound_reward())
    for environment, action in (
        (single, 1),
        (DuelVectorEnv(FAST, Side.FRONT, FASTER, sound_reward(), 2), np.ones(2, int)),
        (DuelParallelEnv(FAST, driving_reward(), sound_reward()), {"ego": 1, "front": 1}),
    ):
        with pytest.raises(ResetNeeded, match="before the first step"):
            environment.step(action)
    played(single, 4, seed=0)
    with pytest.raises(ResetNeeded, match="has ended"):
        single.step(np.int64(1))


def test_both_sides_together_play_what_one_side_sees() -> None:
    both = DuelParallelEnv(FAST, driving_reward(), sound_reward())
    single = DuelEnv(FAST, Side.FRONT, FASTER, sound_reward())
    for seed in range(4):
        seen, _ = both.reset(seed=seed)
        sights, rewards, outcome = played(single, int(Action.SLOWER), seed=seed)
        assert np.array_equal(seen["front"], sights[0])
        for sight, reward in zip(sights[1:], rewards, strict=True):
            seen, paid, _, _, infos = both.step({"ego": int(Action.FASTER), "front": int(Action.SLOWER)})
            assert np.array_equal(seen["front"], sight)
            assert paid["front"] == reward
        assert infos["ego"]["outcome"] == outcome
        assert both.agents == []
        assert both.step({}) == ({}, {}, {}, {}, {})


def test_the_sum_that_is_never_cleared_grows_over_episodes() -> None:
    def bonuses(reward_name: str) -> list[float]:
        reward = {"kept": released_reward(), "cleared": replace(released_reward(), bonus=replace(released_reward().bonus, is_cleared=True))}
        environment = DuelEnv(FAST, Side.FRONT, FASTER, reward[reward_name], seed=1)
        episodes = [played(environment, int(Action.SLOWER)) for _ in range(25)]
        return [rewards[-1] for _, rewards, outcome in episodes if outcome == "crash"]

    assert bonuses("kept")[-1] > 2 * max(bonuses("cleared"))


def broken(observations: NDArray[np.float32]) -> object:
    """Fails for vehicles in the right lane, which the second number shows."""
    if (observations[:, 1] > 2).any():
        raise RuntimeError("cannot see to the right")
    return np.ones(len(observations), int)


def test_a_broken_opponent_costs_its_own_episodes_alone() -> None:
    vector = DuelVectorEnv(FAST, Side.FRONT, CallablePolicy(broken), sound_reward(), 16)
    vector.reset(seed=0)
    right = vector._batch.states[:, 0, 1] > 2
    assert 0 < right.sum() < 16
    _, rewards, terminated, _, info = vector.step(np.ones(16, int))
    assert np.array_equal(info["outcome"] == Outcome.ERROR.code, right)
    assert np.array_equal(terminated, right)
    assert (rewards[right] == 0).all()
    told = {vector._batch.problems[row] for row in np.flatnonzero(right)}
    assert told == {"the policy raised RuntimeError: cannot see to the right"}


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(BadParametersError, match="use Idm with a scenario that has IDM in front"):
        DuelEnv(FAST, Side.EGO, Idm(), driving_reward())
    with pytest.raises(BadParametersError, match="use Idm with a scenario that has IDM in front"):
        DuelEnv(PRETRAINING, Side.EGO, FASTER, driving_reward())
    with pytest.raises(BadParametersError, match="only the ego"):
        DuelEnv(PRETRAINING, Side.FRONT, Idm(), sound_reward())
    with pytest.raises(BadParametersError, match="at least 1; got 0"):
        DuelVectorEnv(FAST, Side.EGO, FASTER, driving_reward(), 0)
    with pytest.raises(BadParametersError, match="all vehicles are played"):
        DuelParallelEnv(PRETRAINING, driving_reward(), sound_reward())
    with pytest.raises(BadSubjectError, match="trained to drive the front"):
        DuelEnv(FAST, Side.FRONT, network(Side.FRONT), sound_reward())


def test_stable_baselines_trains_on_a_vector_of_duels() -> None:
    library = pytest.importorskip("stable_baselines3")
    from skidpad.highway.stable_baselines_env import StableBaselinesEnv

    environment = StableBaselinesEnv(FAST, Side.FRONT, FASTER, sound_reward(), 4, seed=1)
    first = environment.reset()
    assert first.shape == (4, FAST.observation.size)
    endings = []
    for _ in range(40):
        _, rewards, dones, infos = environment.step(np.full(4, int(Action.SLOWER)))
        for place in np.flatnonzero(dones):
            assert infos[place]["terminal_observation"].shape == (FAST.observation.size,)
            assert infos[place]["TimeLimit.truncated"] == (infos[place]["outcome"] == "timeout")
            assert (rewards[place] > 4) == (infos[place]["outcome"] == "crash")
            endings.append(infos[place]["outcome"])
    assert "crash" in endings
    environment.seed(1)
    assert np.array_equal(environment.reset(), first)
    alone = [DuelEnv(FAST, Side.FRONT, FASTER, sound_reward()).reset(seed=seed)[0] for seed in (1, 2, 3, 4)]
    assert np.array_equal(first, alone)
    with pytest.raises(InvalidAction):
        environment.step(np.full(4, 2.5))
    model = library.PPO("MlpPolicy", environment, n_steps=8, batch_size=32, n_epochs=1, device="cpu", seed=0)
    model.learn(64)
    assert model.num_timesteps == 64
