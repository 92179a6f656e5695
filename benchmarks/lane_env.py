"""How many camera frames a second an environment shows a learner: skidpad's lane environment beside highway-env and MetaDrive.

Every way drives with random actions, begins new episodes as old ones end, and shows a picture at every step: skidpad's a front camera's,
RGB 160 x 80, alone and as a vector; highway-env's grey pictures from above, 160 x 80, as its `GrayscaleObservation` gives them (the only
pictures that it has); MetaDrive's front camera, RGB 160 x 80, where it is installed. The ways take turns in rounds, so that a busy machine
disturbs all of them alike; a figure is the median over rounds, of frames a second of wall time and of processor time. Baking scenes and
compiling is not counted.

Run: python benchmarks/lane_env.py [--quick] [--rounds 5] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from statistics import median
from typing import Any

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # highway-env draws with pygame

import gymnasium
import numpy as np

from skidpad.core.camera import Camera
from skidpad.worlds.lane_env import ENV_ID

WIDTH_PX, HEIGHT_PX = 160, 80
LANE = {"scenarios": 8, "seconds": 10.0, "camera": Camera(WIDTH_PX, HEIGHT_PX)}


@dataclass
class Entry:
    """A way, how many frames one of its steps shows, how many steps a round has, and its frames a second in each round."""

    name: str
    step: Callable[[], object]
    frames: int
    steps: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Drives one round."""
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(self.steps):
            self.step()
        shown = self.frames * self.steps
        self.wall.append(shown / (time.perf_counter() - wall))
        self.cpu.append(shown / (time.process_time() - cpu))


def single(env: gymnasium.Env[Any, Any]) -> Callable[[], object]:
    """Steps one environment at random, and begins again where an episode ends."""
    env.reset(seed=0)
    env.action_space.seed(0)

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()

    return step


def vector(count: int, **more: Any) -> Callable[[], object]:
    """Steps many of ours together."""
    env = gymnasium.make_vec(ENV_ID, num_envs=count, **LANE, **more)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    return lambda: env.step(rng.uniform(-0.2, 0.2, (count, 1)).astype(np.float32))


def highway() -> gymnasium.Env[Any, Any]:
    """highway-env as it shows pictures."""
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


def metadrive() -> gymnasium.Env[Any, Any]:
    """MetaDrive's front camera, without traffic."""
    from metadrive import MetaDriveEnv  # noqa: PLC0415 - an optional package
    from metadrive.component.sensors.rgb_camera import RGBCamera  # noqa: PLC0415 - see above

    camera = {"sensors": {"rgb_camera": (RGBCamera, WIDTH_PX, HEIGHT_PX)}, "vehicle_config": {"image_source": "rgb_camera"}}
    return MetaDriveEnv({**camera, "image_observation": True, "use_render": False, "traffic_density": 0.0, "log_level": 50})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few steps and one round: does it run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    steps, rounds = (4, 1) if given.quick else (200, given.rounds)
    many = 16 if given.device == "cpu" else 256
    entries = [
        Entry("skidpad, one car", single(gymnasium.make(ENV_ID, **LANE)), 1, steps),
        Entry(f"skidpad, {many} cars", vector(many, device=given.device, threads=os.cpu_count() or 1), many, max(steps // 8, 2)),
        Entry("highway-env, from above", single(highway()), 1, steps),
    ]
    if find_spec("metadrive") is not None:
        entries.append(Entry("MetaDrive, front camera", single(metadrive()), 1, max(steps // 10, 2)))
    else:
        print("MetaDrive is not installed: it is not measured")
    for entry in entries:
        entry.measure()
        entry.wall.clear()
        entry.cpu.clear()
    for _ in range(rounds):
        for entry in entries:
            entry.measure()
    print(f"{'':26} {'frames/s':>10} {'per processor s':>16}")
    for entry in entries:
        print(f"{entry.name:26} {median(entry.wall):10.0f} {median(entry.cpu):16.0f}")
    one, batch, above = (median(entry.cpu) for entry in entries[:3])
    figures = {
        "frames_per_s": {entry.name: median(entry.wall) for entry in entries},
        "frames_per_cpu_s": {entry.name: median(entry.cpu) for entry in entries},
        "vs_highway": one / above,
        "vector_vs_one": batch / one,
        "cores": os.cpu_count(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
