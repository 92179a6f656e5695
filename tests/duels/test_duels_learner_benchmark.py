"""The learner's benchmark runs, and ends with the line that programs read."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "duel_learner.py"


def test_the_benchmark_compares_the_learner_with_stable_baselines3() -> None:
    pytest.importorskip("stable_baselines3")
    done = subprocess.run([sys.executable, BENCHMARK, "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    for name in ("vs_stable_baselines3", "updates_per_cpu_s", "stable_baselines3_training_steps_per_cpu_s"):
        assert 0 < figures[name] < math.inf, name
