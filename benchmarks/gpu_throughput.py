"""Closed-loop drives and picture tests on a GPU, end to end: by stage, and by how many threads and processes feed the device.

drive     `skidpad drive`: scenarios of the built-in world, 128 side by side, drawn to judged records on disk
test      `skidpad test`: as in `gpu_campaigns.py`, JPEGs on disk to a run on disk

Stages are measured in one thread, the device waited for after each, so that they add up; throughput without clocks. Local processes take
seconds to begin, each compiles for itself, so that theirs is what a second half adds: (2n - n) images over the difference in time.

Run: python benchmarks/gpu_throughput.py [--device cuda] [--quick] [--only drive,test] [--lanes 1,2,4] [--workers 2,4] [--switch-ms 5,0.5]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch

from gpu_campaigns import SUBJECT, deeptest
from skidpad.drives import open_drive
from skidpad.kinds.drives import work as drive_work
from skidpad.kinds.drives.campaign import Online, OnlineSettings
from skidpad.kinds.drives.loop import BATCHES, Eyes
from skidpad.runs.folder import Run
from skidpad.runs.workers.here import Here
from skidpad.runs.workers.processes import Processes
from skidpad.worlds import builtin
from skidpad.worlds.builtin import BuiltInWorld
from ways.drives import jpeg_drive
from ways.roofline import now


@contextmanager
def clocked(found: dict[str, float], places: dict[str, tuple[Any, str]], device: str) -> Iterator[None]:
    """Adds up the seconds within some functions, less those within others of them that they call."""
    inner: list[float] = []

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            inner.append(0.0)
            started = now(device)
            try:
                return work(*given, **named)
            finally:
                took = now(device) - started
                found[name] = found.get(name, 0.0) + took - inner.pop()
                if inner:
                    inner[-1] += took

        return call

    with ExitStack() as stack:
        for name, (owner, attribute) in places.items():
            stack.enter_context(patch.object(owner, attribute, timed(name, getattr(owner, attribute))))
        yield


def drives(given: argparse.Namespace, count: int) -> Online:
    return Online.load(OnlineSettings(subject=SUBJECT, scenarios=count, seconds=given.seconds, device=given.device, referee="off"))


def driven(campaign: Online, folder: Path, workers: Any) -> tuple[float, int]:
    """Executes a campaign; returns the seconds and the frames that a subject answered."""
    started = time.perf_counter()
    run = campaign.start(folder)
    campaign.execute(run, workers=workers)
    seconds = time.perf_counter() - started
    return seconds, sum(run.records(columns=("steps",))["steps"].to_pylist())


def drive_stages(given: argparse.Namespace, folder: Path) -> dict[str, float]:
    campaign = drives(given, given.side_by_side)
    places: dict[str, tuple[Any, str]] = {
        "scenes": (BuiltInWorld, "reset"),
        "bake and upload": (builtin, "GpuRayCaster"),
        "render": (BuiltInWorld, "frames"),
        "network": (Eyes, "answer"),
        "vehicle": (BuiltInWorld, "step"),
        "truth": (BuiltInWorld, "truth_rad"),
        "records": (drive_work, "build_records"),
        "write": (Run, "commit"),
    }
    found: dict[str, float] = {}
    with clocked(found, places, given.device):
        seconds, frames = driven(campaign, folder / "stages", Here(1))
    return {**found, "rest": seconds - sum(found.values()), "wall": seconds, "frames": frames}


def tested(given: argparse.Namespace, drive: str, folder: Path, workers: Any) -> tuple[float, int]:
    campaign = deeptest(quick=given.quick)(given.device, drive)
    run = campaign.start(folder)
    started = time.perf_counter()
    campaign.execute(run, workers=workers)
    return time.perf_counter() - started, sum(table.num_rows for table in run.iter_records(None, ("case_id",)))


def throughput(given: argparse.Namespace, name: str, work: Callable[[int, Path, Any], tuple[float, int]], folder: Path) -> dict[str, float]:
    """work: does so much (1 or 2 shares) into a folder by some workers."""
    found: dict[str, float] = {}
    usual = sys.getswitchinterval()
    for switch_ms in given.switch_ms:
        sys.setswitchinterval(switch_ms / 1000)
        for lanes in given.lanes:
            key = f"{lanes} threads, switched every {switch_ms:g} ms"
            seconds, images = work(2, folder / f"{name}-{lanes}-{switch_ms:g}", Here(lanes))
            found[key] = images / seconds
            print(f"{name:8}{key:42}{images:9,} images {seconds:8.2f} s {images / seconds:10,.0f} a second", flush=True)
    sys.setswitchinterval(usual)
    for processes in given.workers:
        key = f"{processes} processes"
        (half_s, half), (seconds, images) = (
            work(share, folder / f"{name}-processes-{processes}-{share}", Processes(processes)) for share in (1, 2)
        )
        found[key] = (images - half) / (seconds - half_s)
        print(f"{name:8}{key:42}{images - half:9,} images {seconds - half_s:8.2f} s {found[key]:10,.0f} a second; whole: {seconds:.1f} s")
    return found


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",") if part]


def main() -> None:
    parser = argparse.ArgumentParser(description="Drives and tests on a GPU, by stage and by who feeds the device.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="a few small ones: does it run?")
    parser.add_argument("--only", default="drive,test")
    parser.add_argument("--lanes", default="1,2,4")
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--switch-ms", default="5,0.5")
    parser.add_argument("--frames", type=int, default=2048)
    parser.add_argument("--shards", type=int, default=4, help="times 128 scenarios, of a whole measurement")
    given = parser.parse_args()
    given.lanes, given.workers = [int(each) for each in numbers(given.lanes)], [int(each) for each in numbers(given.workers)]
    given.switch_ms = numbers(given.switch_ms)
    given.side_by_side, given.seconds = (4, 1.0) if given.quick else (128, 20.0)
    given.frames = 8 if given.quick else given.frames
    name = torch.cuda.get_device_name(given.device) if given.device.startswith("cuda") else "the CPU"
    print(f"{name}; torch {torch.__version__}; {os.cpu_count()} cores; a network is shown {BATCHES['cuda']} frames of a drive at once")
    result: dict[str, Any] = {"device": name}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if "drive" in given.only:
            seconds, _ = driven(drives(given, given.side_by_side), folder / "first", Here(1))
            print(f"drive: the first, which compiles, {seconds:.2f} s")
            result["drive stages"] = stages = drive_stages(given, folder)
            print("drive, one thread, by stage: " + ", ".join(f"{stage} {value:.2f}" for stage, value in stages.items()), flush=True)
            shard = given.side_by_side

            def drive(share: int, out: Path, workers: Any) -> tuple[float, int]:
                return driven(drives(given, shard * share * max(given.shards // 2, 1)), out, workers)

            result["drive"] = throughput(given, "drive", drive, folder)
        if "test" in given.only:
            size = "width=320&height=80" if given.quick else "width=320&height=240"
            whole = jpeg_drive(open_drive(f"rendered?frames={given.frames}&seed=7&{size}"), folder / "drive")
            tested(given, f"{whole}?stop={min(given.frames, 256)}", folder / "test-first", Here(1))

            def test(share: int, out: Path, workers: Any) -> tuple[float, int]:
                return tested(given, whole if share == 2 else f"{whole}?stop={given.frames // 2}", out, workers)

            result["test"] = throughput(given, "test", test, folder)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
