"""What the benchmarks of scale and of GPUs count and reckon is right; and they run."""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import papers_at_scale
import scale
from skidpad.kinds.pictures.summary import summarise
from skidpad.runs.workers.here import Here
from ways.campaign_stages import Stages
from ways.drives import repeating_campaign, repeating_drive, tiny_subject
from ways.family import business, descendants, peaks, processor_s
from ways.roofline import cost_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def figures_of(name: str, *options: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, BENCHMARKS / name, "--quick", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_operations_cost_what_they_compute_and_move() -> None:
    one, two = torch.zeros(6, 5), torch.zeros(5, 4)
    product = cost_of(lambda: one @ two, images=2)
    assert product.flop == 2 * 6 * 5 * 4 / 2
    assert product.moved_bytes == 4 * (6 * 5 + 5 * 4 + 6 * 4) / 2
    assert cost_of(lambda: one.T[1:3] * 2, images=1).moved_bytes == 2 * 4 * 12  # the copy alone, not the views before it
    assert cost_of(lambda: one.permute(1, 0)[2], images=1).moved_bytes == 0


def test_a_night_is_reckoned_from_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    measured = {"images_per_s_core": 500.0, "two_workers_on_free_cores": 1.8}
    found = scale.projection(measured, argparse.Namespace(gpu_images_per_s=10_000.0))
    assert found["hours_on_64_cores"] == pytest.approx(71e6 / (500 * 0.9 * 64) / 3600)
    assert found["hours_on_8_gpus"] == pytest.approx(71e6 / 80_000 / 3600)
    assert "71,000,000 images" in capsys.readouterr().out
    assert "hours_on_8_gpus" not in scale.projection(measured, argparse.Namespace(gpu_images_per_s=0.0))
    # two workers that are faster than twice one are luck, which 64 cannot count on
    lucky = measured | {"two_workers_on_free_cores": 2.4}
    assert scale.projection(lucky, argparse.Namespace(gpu_images_per_s=0.0))["hours_on_64_cores"] == pytest.approx(71e6 / 32_000 / 3600)


def test_two_workers_are_compared_round_by_round() -> None:
    one = scale.Way(Here(1), 0.0, True, wall_s=[10.0, 30.0, 12.0], cpu_s=[10.0, 10.0, 10.0], busy=[1.0, 1.0, 1.0])
    two = scale.Way(Here(1), 2.0, False, wall_s=[5.0, 20.0, 6.0], cpu_s=[10.5, 12.5, 12.5], busy=[0.9, 1.0, 0.9])
    found = scale.compared({scale.ONE: one, scale.TWO: two}, images=1000)
    assert found["two_workers"] == pytest.approx(2.0)
    assert found["two_workers_on_free_cores"] == pytest.approx(2 * 0.9 / 1.25)
    assert found["images_per_s_core"] == pytest.approx(100.0)


def test_the_family_is_found_and_measured() -> None:
    used = processor_s()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child, peaks() as seen:
        assert child.pid in descendants()
        with business(is_here=True) as busy:
            while busy.looks < 5:
                np.linalg.svd(np.ones((64, 64)))
        while seen.workers_mb.get(child.pid, 0.0) < 1.0:  # it may be seen before it is anything
            pass
        child.communicate(b"\n")
    assert child.pid not in descendants()
    assert 0.0 < busy.share <= 1.0
    assert seen.worker_mb > 1.0
    assert seen.driver_mb > seen.worker_mb
    assert processor_s() > used


def test_the_repeating_drive_has_as_many_frames_as_asked_for_and_few_pictures(tmp_path: Path) -> None:
    drive = repeating_drive(40)
    assert len(drive) == 40
    assert drive.frame_ids[17] == "000000017"
    assert np.array_equal(drive.frame(3), drive.frame(19))
    assert not np.array_equal(drive.frame(3), drive.frame(4))
    campaign = repeating_campaign(str(tiny_subject(tmp_path)), 40)
    run = campaign.start(tmp_path / "run")
    campaign.execute(run, workers=Here(1))
    summary = summarise(run, campaign.blank_tracker(None), campaign.judged)
    assert (summary.originals, summary.overall.cases) == (40, 40)


@pytest.mark.slow
def test_the_gpu_benchmark_runs_on_a_cpu_and_finds_no_distance_from_it() -> None:
    found = figures_of("gpu_campaigns.py", "--device", "cpu", "--only", "test")["campaigns"]["test"]
    assert found["images"] == 4 * (1 + 10 + 10)
    assert (found["compared"], found["largest_rad"]) == (2 * 20, 0.0)
    assert found["per_s"] > 0
    assert found["device_per_s"] > 0
    assert found["cost"]["flop"] > 1e7
    stages = found["stages"]
    assert 0 < stages["read_s"] + stages["device_s"] + stages["judge_s"] + stages["write_s"] <= stages["wall_s"]
    assert min(stages.values()) > 0
    assert set(found["floors_s"]) == {"read", "judge", "write", "python", "device"}


def test_floors_grow_with_the_campaign_and_hashing_spreads_over_threads() -> None:
    stages = Stages(read_s=1.0, device_s=5.0, judge_s=4.0, write_s=0.5, wall_s=11.0)
    assert stages.rest_s == 0.5
    assert stages.floors_s(2.0, 3.0, 8) == {"read": 2.0, "judge": 1.0, "write": 1.0, "python": 1.0, "device": 3.0}
    assert Stages(read_s=3.0, wall_s=2.0).rest_s == 0.0


@pytest.mark.slow
def test_the_scale_benchmark_compares_one_worker_two_and_ray() -> None:
    """Slow: a dozen processes that load torch, and a Ray cluster."""
    figures = figures_of("scale.py")
    for name in ("two_workers", "ray_overhead_share", "memory_growth_mb", "images_per_s_core", "hours_on_64_cores"):
        assert math.isfinite(figures[name]), name
    assert figures["frames"] == 2400
    assert abs(figures["memory_growth_mb"]) < 40


@pytest.mark.parametrize(
    ("part", "guides", "processes", "jobs"),
    [
        ("share", "nbc,kmnc", 2, ["nbc:0,nbc:2,kmnc:1", "nbc:1,kmnc:0,kmnc:2"]),
        ("share", "", 0, ["nbc:0", "nbc:1", "nbc:2"]),
        ("whole", "", 9, ["nbc:0", "kmnc:0"]),
        ("table", "nbc", 2, [""]),
    ],
)
def test_processes_of_a_network_take_its_searches_in_turns(part: str, guides: str, processes: int, jobs: list[str]) -> None:
    given = argparse.Namespace(guides=guides, repeats=3, processes=processes)
    assert papers_at_scale.jobs_of(given, part) == jobs
