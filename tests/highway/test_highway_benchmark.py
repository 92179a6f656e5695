"""The duel benchmarks run, and end with the line that programs read."""

import json
import math
import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def figures_of(monkeypatch, capsys):
    """Runs a benchmark quickly in this process, where its libraries are loaded already, and reads its last line."""
    monkeypatch.syspath_prepend(BENCHMARKS)

    def run(name: str) -> dict[str, float]:
        monkeypatch.setattr(sys, "argv", [name, "--quick"])
        runpy.run_path(str(BENCHMARKS / name), run_name="__main__")
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


def test_the_engine_is_compared_with_highway_env(figures_of) -> None:
    pytest.importorskip("highway_env")
    figures = figures_of("duel.py")
    for name in ("vs_highway_env", "vs_highway_env_plain", "engine_steps_per_cpu_s", "highway_env_steps_per_cpu_s"):
        assert 0 < figures[name] < math.inf, name
    assert figures["simulation_hz"] == 5


def test_the_learner_is_compared_with_stable_baselines3(figures_of) -> None:
    pytest.importorskip("stable_baselines3")
    import torch

    threads = torch.get_num_threads()
    try:
        figures = figures_of("duel_learner.py")
    finally:
        torch.set_num_threads(threads)
    for name in ("vs_stable_baselines3", "updates_per_cpu_s", "stable_baselines3_training_steps_per_cpu_s"):
        assert 0 < figures[name] < math.inf, name
