"""The duel benchmark runs, and ends with the line that programs read."""

import json
import math
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "duel.py"


def test_the_benchmark_compares_the_engine_with_highway_env() -> None:
    done = subprocess.run([sys.executable, BENCHMARK, "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    for name in ("vs_highway_env", "vs_highway_env_plain", "engine_steps_per_cpu_s", "highway_env_steps_per_cpu_s"):
        assert 0 < figures[name] < math.inf, name
    assert figures["simulation_hz"] == 5
