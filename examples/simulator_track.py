"""Records a drive through the built-in world as the Udacity simulator does in its training mode: driving_log.csv and IMG.

A careful driver sits in that simulator's car, behind its camera; his hand shakes, so that the car strays and he leads it back. The log
has the simulator's columns, units and signs: steering is a share of 25 degrees of the road wheels, positive to the right. It has one
camera, so the columns of the other two stay empty.

Run: python examples/simulator_track.py track1 [--roads 120] [--seconds 4] [--seed 0]
"""

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from skidpad.core.images import encode
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.serve.simulators import MPH_M_S, UDACITY
from skidpad.worlds.world import STEP_S

SIDE_BY_SIDE = 20
SHAKES_DEG = 1.6
"""Of the road wheels; with it the car strays by half a metre, and sometimes by one."""
SHAKES_FOR_S = 1.0


def record(folder: Path, roads: int, seconds: float, seed: int) -> int:
    """Writes the log and its pictures, and returns how many frames it has."""
    (folder / "IMG").mkdir(parents=True)
    rng = np.random.default_rng(seed)
    model = DOMAINS.get("restricted")
    scenarios = sample(replace(model, base=replace(model.base, duration_s=seconds)), seed + 1000, roads).scenarios
    stays = np.exp(-STEP_S / SHAKES_FOR_S)
    rows = []
    for first in range(0, roads, SIDE_BY_SIDE):
        part = scenarios[first : first + SIDE_BY_SIDE]
        world = UDACITY.world(len(part))
        speed_m_s = float(rng.uniform(4.0, 13.0))
        world.reset(part, start_m_s=speed_m_s)
        shaking = np.zeros(len(part))
        for step in range(int(seconds / STEP_S)):
            careful = world.truth_rad()
            for place, (frame, steering_rad) in enumerate(zip(world.frames(), careful, strict=True)):
                clock = (first + place) * 60_000 + int(step * STEP_S * 1000)
                minutes, milliseconds = divmod(clock, 60_000)
                stamp = f"2026_01_01_{minutes // 60:02d}_{minutes % 60:02d}_{milliseconds // 1000:02d}_{milliseconds % 1000:03d}"
                name = f"center_{stamp}.jpg"
                (folder / "IMG" / name).write_bytes(encode(frame, ".jpg", 75))
                share = UDACITY.road_wheel_deg(float(steering_rad)) / UDACITY.max_steering_deg
                rows.append((f"IMG/{name}", "", "", f"{share:.7g}", "0.3", "0", f"{speed_m_s / MPH_M_S:.4f}"))
            shaking = stays * shaking + np.sqrt(1.0 - stays**2) * rng.normal(0.0, SHAKES_DEG, len(part))
            world.step(careful + np.radians(shaking) * UDACITY.bicycle.steering_ratio)
    with (folder / "driving_log.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(sorted(rows))
    return len(rows)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--roads", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"{record(given.folder, given.roads, given.seconds, given.seed)} frames in {given.folder}")


if __name__ == "__main__":
    main()
