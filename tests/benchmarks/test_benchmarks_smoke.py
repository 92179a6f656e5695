"""The benchmarks run, and end with the line that programs read."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skidpad.referee.network import load_road_net

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def figures_of(name: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, BENCHMARKS / name, "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_campaign_benchmark_compares_all_ways() -> None:
    """It fails where a way covers or finds something else than skidpad; whether it was disturbed is up to the machine."""
    figures = figures_of("campaign.py")
    assert figures["images"] == 4 * (1 + 20)
    for name in ("vs_deeptest_way", "vs_best_assembled", "overhead_share", "images_per_s", "vs_deeptest_way_nc", "vs_best_assembled_nc"):
        assert (figures[name] is None) == figures["disturbed"], name


@pytest.mark.slow
def test_the_memory_benchmark_compares_two_lengths() -> None:
    figures = figures_of("memory.py")
    assert figures["frames"] == 40
    # far less than one batch of activations: what is left is the noise of the allocator
    assert abs(figures["memory_growth_mb"]) < 40
    assert figures["peak_mb"] > 50


@pytest.mark.slow
def test_the_subjects_benchmark_compares_formats() -> None:
    shares = figures_of("subjects.py")["overhead_share"]
    assert set(shares) >= {"safetensors", "torchscript", "export", "onnx"}
    assert all(math.isfinite(share) for share in shares.values())


@pytest.mark.slow
def test_the_style_search_benchmark_compares_with_one_frame_at_a_time() -> None:
    figures = figures_of("style_search.py")
    for name in ("minutes_per_condition", "vs_one_at_a_time", "decoder_frames_per_s", "search_frames_per_s"):
        assert 0 < figures[name] < math.inf, name
    assert figures["frames_share"] <= 1.2  # racing saves, running ahead may spend a little


@pytest.mark.slow
def test_the_papers_at_scale_make_their_cells_on_a_few_frames() -> None:
    figures = figures_of("papers_at_scale.py")
    assert {name: list(parts) for name, parts in figures["seconds"].items()} == {"dave-orig": ["networks", "whole", "share", "table"]}
    out = Path(figures["out"])
    assert len(list(out.glob("whole/0/*/*/*/cell.json"))) == 2  # one network and weather, both criteria
    assert len(list(out.glob("share/[01]/*/*/*/cell.json"))) == 2  # a process for each repeat
    both = json.loads((out / "share" / "tactic.json").read_text(encoding="utf-8"))["cells"]
    assert [len(search["values"]) for cell in both for search in cell["searches"]] == [2, 2, 2]
    assert len(list(out.glob("table/*/*/cell.json"))) == 1
    rows = json.loads((out / "refused.json").read_text(encoding="utf-8"))
    assert {row["search"] for row in rows} == {"es", "random-styles", "random-search"}
    assert all(0 <= refused <= 4 for row in rows for refused in row["refused"])


def test_the_lane_environments_benchmark_compares_with_highway_env() -> None:
    figures = figures_of("lane_env.py")
    assert {"skidpad, one car", "skidpad, 16 cars", "highway-env, from above"} <= set(figures["frames_per_s"])
    assert all(0 < figures[name] < math.inf for name in ("vs_highway", "vector_vs_one"))


@pytest.mark.slow
@pytest.mark.real_data
def test_the_judges_benchmark_tells_a_meadow_from_a_darker_road(shared_data: Path) -> None:
    words = [shared_data / "udacity-ch2-test" / "center", "--meadow", shared_data / "weather" / "clear", "--frames", "3"]
    done = subprocess.run([sys.executable, BENCHMARKS / "judges.py", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["lost: whole under meadow"]["iou"] < 0.5
    assert figures["kept: exposure -1 EV"]["iou"] > 0.85


@pytest.mark.slow
@pytest.mark.real_data
def test_a_judge_is_taught_and_scored_on_cameras_that_it_never_saw(shared_data: Path, tmp_path: Path) -> None:
    comma = shared_data / "comma10k"
    words = [
        "--labelled",
        f"{comma / 'imgs'}:{comma / 'masks'}",
        "--group",
        "_([0-9a-f]{16})_",
        "--drive",
        shared_data / "udacity-ch2-test",
    ]
    words += ["--every", "200", "--filters", "4", "--steps", "12", "--batch", "6", "--out", tmp_path / "judge.safetensors"]
    done = subprocess.run([sys.executable, BENCHMARKS / "train_judge.py", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["labelled"] == 1834 - 307
    assert all(0 <= figures[name] <= 1 for name in ("drivable_iou", "in_shadow", "steady_of_held_out_frames"))
    judge = load_road_net(tmp_path / "judge.safetensors")
    assert judge.filters == 4
