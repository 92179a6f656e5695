"""Drives MetaDrive at random and says how long it took: for `lane_env.py`, which starts it under the interpreter that has MetaDrive.

It is set up as skidpad's own adapter does it (no anisotropic filtering, nothing rendered that nobody looks at): where a processor
renders, the plain
environment takes twenty times as long.

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

from server import Simulator

WIDTH_PX, HEIGHT_PX = 160, 80


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # MetaDrive prints as it likes
    camera = {"width_px": WIDTH_PX, "height_px": HEIGHT_PX, "fov_deg": 70.0, "pitch_deg": 4.0, "height_m": 1.3, "forward_m": 1.6}
    simulator = Simulator(camera)

    def begin() -> None:
        simulator.reset({"lanes": 1, "lane_width_m": 3.5, "lane": 1, "first_m": 400.0, "blocks": []}, [10.0, -1.75, 0.0], 10.0, [])

    begin()
    draw = random.Random(0)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            told = simulator.step(draw.uniform(-0.02, 0.02), [])
            if len(simulator.frame()) != 3 * WIDTH_PX * HEIGHT_PX:
                raise SystemExit("MetaDrive shows pictures of another size")
            if told["pose"][0] > 350.0 or abs(told["pose"][1]) > 10.0:
                begin()
        print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]), file=answers, flush=True)


if __name__ == "__main__":
    main()
