"""Drives MetaDrive at random and says how long it took: for `lane_env.py`, which starts it under the interpreter that has MetaDrive.

A line on standard input is a number of steps; the answer is one line of JSON: seconds by the clock, and of the processor.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src" / "skidpad" / "worlds" / "metadrive"))

from server import Simulator  # how skidpad's own adapter sets MetaDrive up where there is no display

WIDTH_PX, HEIGHT_PX = 160, 80


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # MetaDrive prints as it likes
    camera = {"width_px": WIDTH_PX, "height_px": HEIGHT_PX, "fov_deg": 70.0, "pitch_deg": 4.0, "height_m": 1.3, "forward_m": 1.6}
    env = Simulator(camera)._env  # noqa: SLF001 - the plain environment, as a learner has it
    env.reset()
    draw = random.Random(0)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            seen, _, over, *_ = env.step([draw.uniform(-0.2, 0.2), 0.5])
            if seen["image"].shape[:2] != (HEIGHT_PX, WIDTH_PX):
                raise SystemExit(f"MetaDrive shows {seen['image'].shape}")
            if over:
                env.reset()
        print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]), file=answers, flush=True)


if __name__ == "__main__":
    main()
