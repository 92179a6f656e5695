"""How many camera frames a second an environment shows a learner: skidpad's lane environment beside highway-env and MetaDrive.

Every way drives with random actions, begins new episodes as old ones end, and shows a picture at every step: skidpad's a front camera's,
RGB 160 x 80, alone and as a vector; highway-env's grey pictures from above, 160 x 80, as its `GrayscaleObservation` gives them (the only
pictures that it has); MetaDrive's front camera, RGB 160 x 80, under the interpreter that SKIDPAD_METADRIVE_PYTHON names (docs/online.md),
as it cannot be imported beside skidpad. The ways take turns in rounds, so that a busy machine disturbs all of them alike; a figure is the
median over rounds, of frames a second of wall time and of processor time. Baking scenes and compiling is not counted.

On a GPU the frames of the vector stay there, or come to the CPU as Gymnasium wants them; both are measured. Without Gymnasium the vector
is measured alone, by the `LaneBatch` that it consists of.

Run: python benchmarks/lane_env.py [--quick] [--rounds 5] [--device cuda] [--cars 16,256]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # highway-env draws with pygame

import numpy as np

from skidpad.core.images import Camera, as_numpy
from skidpad.worlds.lane import Lane, LaneBatch

if TYPE_CHECKING:
    import gymnasium

WIDTH_PX, HEIGHT_PX = 160, 80
LANE = {"scenarios": 8, "seconds": 10.0, "camera": Camera(WIDTH_PX, HEIGHT_PX)}

Spent = tuple[float, float]
"""Seconds by the clock, and of the processor."""


@dataclass
class Entry:
    """A way: what drives some steps and says what they took, how many frames a step shows, how many steps a round has."""

    name: str
    drive: Callable[[int], Spent]
    frames: int
    steps: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Drives one round."""
        wall, cpu = self.drive(self.steps)
        self.wall.append(self.frames * self.steps / wall)
        self.cpu.append(self.frames * self.steps / cpu)


def timed(step: Callable[[], object], finish: Callable[[], object] = lambda: None) -> Callable[[int], Spent]:
    """Counts the time of steps in this process; finish: waits for what is still under way."""

    def drive(steps: int) -> Spent:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        finish()
        return time.perf_counter() - wall, time.process_time() - cpu

    return drive


def single(env: gymnasium.Env[Any, Any]) -> Callable[[int], Spent]:
    """Steps one environment at random, and begins again where an episode ends."""
    env.reset(seed=0)
    env.action_space.seed(0)

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()

    return timed(step)


def vector(count: int, device: str, *, stays: bool) -> Callable[[int], Spent]:
    """Steps many of ours together, as the vector environment does. stays: the frames are left where they were rendered."""
    batch = LaneBatch(Lane(**LANE, device=device, threads=os.cpu_count() or 1), count)
    batch.reset(range(count))
    rng = np.random.default_rng(0)

    def step() -> object:
        batch.drive_on(rng.uniform(-0.2, 0.2, (count, 1)))
        return batch.frames() if stays else as_numpy(batch.frames())

    def finish() -> None:
        if device != "cpu":
            import torch  # noqa: PLC0415 - for a GPU alone

            torch.cuda.synchronize(device)

    return timed(step, finish)


def highway() -> gymnasium.Env[Any, Any]:
    """highway-env as it shows pictures."""
    import gymnasium  # noqa: PLC0415 - not needed for a vector alone
    import highway_env  # noqa: F401, PLC0415 - registers its environments

    seen = {
        "type": "GrayscaleObservation",
        "observation_shape": (WIDTH_PX, HEIGHT_PX),
        "stack_size": 1,
        "weights": [0.2989, 0.5870, 0.1140],
        "scaling": 1.75,
    }
    shown = {"observation": seen, "offscreen_rendering": True, "screen_width": WIDTH_PX, "screen_height": HEIGHT_PX}
    return gymnasium.make("highway-fast-v0", config={**shown, "policy_frequency": 15, "simulation_frequency": 15})


def metadrive(python: str) -> Callable[[int], Spent]:
    """MetaDrive's front camera, without traffic, in a process of its own."""
    script = Path(__file__).with_name("metadrive_steps.py")
    process = subprocess.Popen([python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def drive(steps: int) -> Spent:
        assert process.stdin is not None
        assert process.stdout is not None
        print(steps, file=process.stdin, flush=True)
        wall, cpu = json.loads(process.stdout.readline())
        return wall, cpu

    return drive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few steps and one round: does it run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cars", default="", help="how many cars side by side; several with commas")
    given = parser.parse_args()
    steps, rounds = (4, 1) if given.quick else (200, given.rounds)
    fleets = [int(number) for number in (given.cars or ("16" if given.device == "cpu" else "16,256,1024")).split(",")]
    entries: list[Entry] = []
    if find_spec("gymnasium") is not None:
        import gymnasium  # noqa: PLC0415 - not needed for a vector alone

        from skidpad.worlds.lane_env import ENV_ID  # noqa: PLC0415 - see above

        entries.append(Entry("skidpad, one car", single(gymnasium.make(ENV_ID, **LANE)), 1, steps))
        entries.append(Entry("highway-env, from above", single(highway()), 1, steps))
    for many in fleets:
        turns = max(steps // 8, 2) if many < 256 else max(steps // 20, 2)
        entries.append(Entry(f"skidpad, {many} cars", vector(many, given.device, stays=False), many, turns))
        if given.device != "cpu":
            entries.append(Entry(f"skidpad, {many} cars, frames stay", vector(many, given.device, stays=True), many, turns))
    python = os.environ.get("SKIDPAD_METADRIVE_PYTHON", "")
    if python:
        entries.append(Entry("MetaDrive, front camera", metadrive(python), 1, max(steps // 10, 2)))
    else:
        print("SKIDPAD_METADRIVE_PYTHON names no interpreter: MetaDrive is not measured")
    for entry in entries:
        entry.measure()
        entry.wall.clear()
        entry.cpu.clear()
    for _ in range(rounds):
        for entry in entries:
            entry.measure()
    print(f"{'':34} {'frames/s':>10} {'per processor s':>16}")
    for entry in entries:
        print(f"{entry.name:34} {median(entry.wall):10.0f} {median(entry.cpu):16.0f}")
    cpu = {entry.name: median(entry.cpu) for entry in entries}

    def ratio(way: str, other: str) -> float | None:
        return cpu[way] / cpu[other] if way in cpu and other in cpu else None

    figures = {
        "frames_per_s": {entry.name: median(entry.wall) for entry in entries},
        "frames_per_cpu_s": cpu,
        "vs_highway": ratio("skidpad, one car", "highway-env, from above"),
        "vs_metadrive": ratio("skidpad, one car", "MetaDrive, front camera"),
        "vector_vs_one": ratio(f"skidpad, {fleets[0]} cars", "skidpad, one car"),
        "device": given.device,
        "cores": os.cpu_count(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
