"""Teaches a small network to keep its lane from camera frames alone, and prints how it gets better on roads that it has not seen.

DAgger (Ross et al. 2011): the network drives, a careful driver says at every frame what he would do, and the network learns that; so it
sees the places that its own errors lead to. Needs the extra `duel` for Gymnasium.

Run: python examples/learn_lane.py [--rounds 6] [--steps 100] [--cars 8] [--seed 0] [--curve curve.csv]
"""

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import nn

from skidpad.core.images import Camera
from skidpad.worlds.lane_env import ENV_ID

LANE = {"scenarios": 16, "seconds": 10.0, "camera": Camera(72, 36)}
UNSEEN = {**LANE, "scenarios": 8, "pool_seed": 1}
JUDGED = 8


def small_network() -> nn.Module:
    """36 x 72 RGB to one action; 68,000 parameters."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 5, 2), nn.ELU(), nn.Conv2d(16, 24, 5, 2), nn.ELU(), nn.Conv2d(24, 32, 3, 2), nn.ELU(), nn.Flatten()),
        *(nn.LazyLinear(64), nn.ELU(), nn.Linear(64, 1)),
    )


def as_input(frames: np.ndarray) -> torch.Tensor:
    """Turns frames into what the network takes."""
    return torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)


def answer(network: nn.Module, frames: np.ndarray) -> np.ndarray:
    """Returns the network's actions, (N, 1)."""
    with torch.no_grad():
        return network(as_input(frames)).clamp(-1.0, 1.0).numpy()


def collect(cars: gymnasium.vector.VectorEnv, frames: np.ndarray, network: nn.Module | None, steps: int, rng: np.random.Generator) -> tuple:
    """Drives all cars some steps, a shaky careful driver where there is no network yet; returns frames, labels and the last frames."""
    seen, labels = [], []
    for _ in range(steps):
        truth = cars.unwrapped.truth
        seen.append(frames)
        labels.append(truth)
        action = truth + rng.normal(0.0, 0.15, truth.shape) if network is None else answer(network, frames)
        frames = cars.step(action.astype(np.float32))[0]
    return np.concatenate(seen), np.concatenate(labels), frames


def teach(network: nn.Module, frames: np.ndarray, labels: np.ndarray, epochs: int, rng: np.random.Generator) -> None:
    """Fits the network to the labels."""
    learner = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(epochs):
        for part in np.array_split(rng.permutation(len(frames)), max(len(frames) // 64, 1)):
            loss = nn.functional.mse_loss(network(as_input(frames[part])), torch.from_numpy(labels[part]))
            learner.zero_grad()
            loss.backward()
            learner.step()


Driver = Callable[[gymnasium.vector.VectorEnv, np.ndarray], np.ndarray]
"""Given the cars and what they see, their actions, (N, 1)."""


def judge(driver: Driver) -> tuple[float, float, float]:
    """Drives roads that nobody has learned on; returns the mean reward, the seconds driven, and the share that kept the lane."""
    cars = gymnasium.make_vec(ENV_ID, num_envs=JUDGED, **UNSEEN)
    frames, _ = cars.reset(seed=0)
    running, kept = np.ones(JUDGED, bool), np.zeros(JUDGED, bool)
    rewards, seconds = np.zeros(JUDGED), np.zeros(JUDGED)
    while running.any():
        frames, reward, terminated, truncated, _ = cars.step(driver(cars, frames))
        rewards += np.where(running, reward, 0.0)
        seconds += np.where(running, 0.05, 0.0)
        kept |= running & truncated
        running &= ~(terminated | truncated)
    return float(rewards.mean()), float(seconds.mean()), float(kept.mean())


def main() -> None:
    """Teaches, judges, prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("rounds", 6), ("steps", 100), ("cars", 8), ("epochs", 4), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--curve", type=Path, help="write the curve as a csv file")
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(given.seed)
    cars = gymnasium.make_vec(ENV_ID, num_envs=given.cars, **LANE)
    frames, _ = cars.reset(seed=given.seed)
    network = small_network()
    all_frames, all_labels = [], []
    began, rows = time.process_time(), []

    def say(who: str, frames: int, driver: Driver) -> None:
        reward, seconds, kept = judge(driver)
        rows.append((who, frames, reward, seconds, kept))
        spent = time.process_time() - began
        told = f"{reward:6.1f} m, drives {seconds:4.1f} s of 10, keeps its lane in {kept:4.0%} ({spent:.0f} s of one core)"
        print(f"{who:15} {told}", flush=True)

    say("careful driver", 0, lambda cars, _: cars.unwrapped.truth)
    say("wheel straight", 0, lambda cars, _: np.zeros((cars.num_envs, 1), np.float32))
    for number in range(given.rounds):
        seen, labels, frames = collect(cars, frames, network if number else None, given.steps, rng)
        all_frames.append(seen)
        all_labels.append(labels)
        teach(network, np.concatenate(all_frames), np.concatenate(all_labels), given.epochs, rng)
        say(f"after round {number + 1}", (number + 1) * given.steps * given.cars, lambda _, frames: answer(network, frames))
    if given.curve is not None:
        with given.curve.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("who", "frames", "reward_m", "seconds", "kept"), *rows])


if __name__ == "__main__":
    main()
