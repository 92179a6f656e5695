"""How fast a duel is learned in a second of processor time: the compiled learner beside stable-baselines3's DQN.

Both train the same network (two hidden layers of 256) with one update of 32 remembered steps after each policy step, on the same
compiled engine against IDM. `update` is the update alone, `training` the whole loop: act, drive, remember, update.
stable-baselines3 clips the norm of the gradient and takes the Huber loss where the compiled learner clamps its elements and squares;
the work is the same.

The ways take turns in rounds, so that a busy machine disturbs both alike; a figure is the best over rounds of process time with one
thread each. Compiling is not counted: it is done once and kept.

Run: python benchmarks/duel_learner.py [--quick] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from stable_baselines3 import DQN

from skidpad.highway.dense import Shape
from skidpad.highway.dqn import DqnSettings, draw, update
from skidpad.highway.gym_env import DuelEnv
from skidpad.highway.layout import ACTIONS, Side
from skidpad.highway.learning import Game, Trainee, learn, new_curve, new_game, new_trainee, sparring_of
from skidpad.highway.opponents import Idm
from skidpad.highway.policies import random_policy
from skidpad.highway.rewards import driving_reward
from skidpad.highway.scenes import PRETRAINING

SETTINGS = DqnSettings()
WARM_EPISODES = 10


def per_cpu_second(work: Callable[[], int]) -> float:
    start = time.process_time()
    done = work()
    return done / (time.process_time() - start)


def compiled_ways(updates: int) -> tuple[Callable[[], int], Callable[[], int]]:
    spec = PRETRAINING.observation
    policy = random_policy(Side.EGO, spec.hash, spec.size, SETTINGS.hidden, np.random.default_rng(0))
    game: Game = new_game(PRETRAINING.compiled(), driving_reward().compiled(), SETTINGS, Side.EGO, 0)
    trainee: Trainee = new_trainee(policy.weights, Shape(*policy.shape), SETTINGS)
    sparring, episodes = sparring_of(Idm(), Side.FRONT), max(2, updates // 30)
    assert sparring is not None
    learn(game, trainee, sparring, new_curve(WARM_EPISODES), 0, WARM_EPISODES)

    def update_alone() -> int:
        counter = 0
        for _ in range(updates):
            counter = draw(trainee.replay, np.uint64(1), counter, trainee.rows, trainee.batch)
            update(trainee.learner, game.rates, trainee.batch, ACTIONS)
        return updates

    def training() -> int:
        curve = new_curve(episodes)
        learn(game, trainee, sparring, curve, 0, episodes)
        return int(curve.steps.sum())

    return update_alone, training


def stable_baselines_ways(updates: int) -> tuple[Callable[[], int], Callable[[], int]]:
    model = DQN(
        "MlpPolicy",
        DuelEnv(PRETRAINING, Side.EGO, Idm(), driving_reward()),
        learning_rate=SETTINGS.learning_rate,
        buffer_size=SETTINGS.memory,
        learning_starts=SETTINGS.batch,
        batch_size=SETTINGS.batch,
        gamma=SETTINGS.discount,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=SETTINGS.target_every,
        policy_kwargs={"net_arch": list(SETTINGS.hidden)},
        seed=0,
        device="cpu",
    )
    model.learn(10 * SETTINGS.batch)

    def update_alone() -> int:
        model.train(gradient_steps=updates, batch_size=SETTINGS.batch)
        return updates

    def training() -> int:
        model.learn(updates, reset_num_timesteps=False)
        return updates

    return update_alone, training


def main() -> None:
    parser = argparse.ArgumentParser(description="Updates and training steps a processor second: compiled, and stable-baselines3.")
    parser.add_argument("--quick", action="store_true", help="few updates: does it run?")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rounds, updates = (1, 30) if given.quick else (given.rounds, 1500)
    ours, theirs = compiled_ways(updates), stable_baselines_ways(max(updates // 3, 20))
    best: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for learner, ways in (("skidpad", ours), ("stable-baselines3", theirs)):
            for name, way in zip(("update", "training"), ways, strict=True):
                best[learner, name] = max(best.get((learner, name), 0.0), per_cpu_second(way))
    print(f"{'a processor second':<20}{'skidpad':>12}{'stable-baselines3':>20}{'ratio':>8}")
    for name, unit in (("update", "updates"), ("training", "training steps")):
        mine, other = best["skidpad", name], best["stable-baselines3", name]
        print(f"{unit:<20}{mine:12.0f}{other:20.0f}{mine / other:8.1f}")
    figures = {
        "vs_stable_baselines3": best["skidpad", "training"] / best["stable-baselines3", "training"],
        "updates_per_cpu_s": best["skidpad", "update"],
        "training_steps_per_cpu_s": best["skidpad", "training"],
        "stable_baselines3_updates_per_cpu_s": best["stable-baselines3", "update"],
        "stable_baselines3_training_steps_per_cpu_s": best["stable-baselines3", "training"],
    }
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
