"""How a campaign grows: two workers beside one, Ray beside local processes, memory beside the length of the drive, a night on a cluster.

two_workers: the same DeepTest campaign (the grids of all nine transforms, PilotNet, JPEGs on disk) by `--workers 1` and by `--workers 2`,
in turns; the ratio of the wall times is taken turn by turn, and the figure is the median. ray_overhead_share: what the same workers under
Ray take longer than local processes do, in turns as well. Everyone has begun before the clock starts; what beginning costs stands apart.
On a busy machine wall times say more about the others than about us (Linux may give all processes of a session one share together), so
two measures stand beside them that others do not disturb: the processor seconds that the driver, the workers and Ray used together, and the
share of the time in which workers were busy, with a core or waiting for one, rather than waiting for work. All ways must leave the same
segments, byte by byte.

memory_growth_mb: the peak of resident memory (of the driver or of its fullest worker, whichever grew more) at the longest drive, less that
at the shortest. The drive repeats a few small pictures, decoded anew each time; subject and transform are as cheap as can be.

Then what a million frames under 70 mutants each would take on 64 cores and on 8 GPUs, with what is assumed.

Run: python benchmarks/scale.py [--quick] [--frames 192] [--rounds 3] [--lengths 10000,100000,1000000] [--gpu-images-per-s N]
         [--only workers|memory]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from skidpad.core.errors import MissingExtraError
from skidpad.core.stimuli import grid_recipes
from skidpad.drives import open_drive
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.runs.workers.here import Here, cores
from skidpad.runs.workers.processes import Processes
from skidpad.runs.workers.protocol import Workers
from skidpad.runs.workers.ray_cluster import RayCluster
from skidpad.subjects.description import pretrained
from ways.drives import AtWork, jpeg_drive
from ways.family import business, processor_s

MEMORY = Path(__file__).parent / "ways" / "scale_memory.py"
ONE, TWO, RAY = "1 worker", "2 local processes", "Ray, 2 workers"
NIGHT_FRAMES, NIGHT_MUTANTS, NIGHT_CORES, NIGHT_GPUS = 1_000_000, 70, 64, 8


@dataclass
class Way:
    """Who computes, begun already, and what each round took."""

    workers: Workers
    begin_s: float
    is_here: bool
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)


class Bout:
    """One campaign by several ways in turns."""

    def __init__(self, campaign: DeepTest, folder: Path) -> None:
        self.campaign = campaign
        self.folder = folder
        self.segments: set[tuple[str, ...]] = set()
        self._runs = 0

    @property
    def images(self) -> int:
        """How many pictures the subject sees: originals and mutants."""
        return len(self.campaign.drive) * (1 + len(grid_recipes(self.campaign.stimuli)))

    @contextmanager
    def begun(self, workers: Workers) -> Iterator[Way]:
        """Begins workers and lets them compute once, so that all is loaded and compiled; says how much longer that took than again."""
        few = DeepTest(self.campaign.settings, self.campaign.subject, self.campaign.drive.head(64), self.campaign.stimuli)
        reload = partial(load_campaign, self.campaign.settings.to_config(), "the benchmark")
        started = time.perf_counter()
        with workers.start(self.campaign, reload, self.folder) as crew:
            way = Way(AtWork(crew), 0.0, is_here=isinstance(workers, Here))
            self._execute(few, way.workers)
            first_s, started = time.perf_counter() - started, time.perf_counter()
            self._execute(few, way.workers)
            way.begin_s = max(0.0, first_s - (time.perf_counter() - started))
            yield way

    def turn(self, way: Way) -> None:
        """Runs the campaign once and notes what it took."""
        cpu, wall = processor_s(), time.perf_counter()
        with business(is_here=way.is_here) as seen:
            segments = self._execute(self.campaign, way.workers)
        way.wall_s.append(time.perf_counter() - wall)
        way.cpu_s.append(processor_s() - cpu)
        way.busy.append(seen.share)
        self.segments.add(segments)

    def _execute(self, campaign: DeepTest, workers: Workers) -> tuple[str, ...]:
        self._runs += 1
        run = campaign.start(self.folder / f"run-{self._runs}")
        campaign.execute(run, workers=workers)
        return tuple(segment.path.name for segment in run.segments())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Two workers, Ray, memory, and a night on a cluster.")
    parser.add_argument("--quick", action="store_true", help="a few small frames and one round: does it run?")
    parser.add_argument("--frames", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", default="10000,100000,1000000", help="of the drives whose memory is measured")
    parser.add_argument("--gpu-images-per-s", type=float, default=0.0, help="of one GPU, from benchmarks/gpu_campaigns.py")
    parser.add_argument("--only", choices=("workers", "memory"), default="")
    parser.add_argument("--no-ray", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.frames, given.rounds, given.lengths = 8, 1, "600,2400"
    return given


def campaign_of(given: argparse.Namespace, folder: Path) -> DeepTest:
    drive = open_drive(f"rendered?frames={given.frames}&seed=7&width=320&height={80 if given.quick else 240}")
    settings = DeepTestSettings(
        subject=str(pretrained("pilotnet-rendered")),
        drive=jpeg_drive(drive, folder / "drive"),
        transforms=("contrast", "rotation") if given.quick else (),
        relation="steers-alike",
        tolerance=10.0,
    )
    return DeepTest.load(settings)


def workers_figures(given: argparse.Namespace) -> dict[str, float]:
    with TemporaryDirectory() as temporary:
        bout = Bout(campaign_of(given, Path(temporary)), Path(temporary))
        print(f"{given.frames} frames, {bout.images:,} images a run, {given.rounds} rounds; {machine()}", flush=True)
        with ExitStack() as stack:
            ways = {ONE: stack.enter_context(bout.begun(Here(1))), TWO: stack.enter_context(bout.begun(Processes(2)))}
            take_turns(bout, list(ways.values()), given.rounds)
        figures = compared(ways, bout.images)
        if not given.no_ray:
            figures |= ray_figures(given, bout)
        if len(bout.segments) != 1:
            raise SystemExit(f"the ways left {len(bout.segments)} different runs; they must be the same")
        print("all runs have the same segments, byte by byte")
        return figures


def ray_figures(given: argparse.Namespace, bout: Bout) -> dict[str, float]:
    with ExitStack() as stack:
        try:
            ray = stack.enter_context(bout.begun(RayCluster(most=2)))
        except MissingExtraError as error:
            print(f"without Ray: {error}")
            return {}
        local = stack.enter_context(bout.begun(Processes(min(2, cores()))))
        take_turns(bout, [local, ray], given.rounds)
    table({TWO: local, RAY: ray}, bout.images)
    share = median(theirs / ours for ours, theirs in zip(local.wall_s, ray.wall_s, strict=True)) - 1.0
    cpu_share = median(theirs / ours for ours, theirs in zip(local.cpu_s, ray.cpu_s, strict=True)) - 1.0
    print(f"beside local processes, Ray takes {share:+.1%} wall time and {cpu_share:+.1%} processor time\n", flush=True)
    return {"ray_overhead_share": share, "ray_processor_overhead_share": cpu_share, "ray_begin_s": ray.begin_s}


def take_turns(bout: Bout, ways: list[Way], rounds: int) -> None:
    for number in range(rounds):
        # whoever is first meets the machine as the round before left it, so they take turns at that too
        for way in ways if number % 2 == 0 else ways[::-1]:
            bout.turn(way)


def compared(ways: Mapping[str, Way], images: int) -> dict[str, float]:
    table(ways, images)
    one, two = ways[ONE], ways[TWO]
    faster = [alone / both for alone, both in zip(one.wall_s, two.wall_s, strict=True)]
    dearer = median(both / alone for alone, both in zip(one.cpu_s, two.cpu_s, strict=True))
    print(f"two workers are {median(faster):.2f}x as fast as one (by round: {' '.join(f'{each:.2f}' for each in faster)})")
    free = 2 * median(two.busy) / dearer
    print(
        f"and use {dearer:.2f} of its processor seconds, busy {median(two.busy):.1%} of the time: {free:.2f}x on free cores\n", flush=True
    )
    return {
        "two_workers": median(faster),
        "two_workers_on_free_cores": free,
        "two_workers_processor_share": dearer,
        "two_workers_busy_share": median(two.busy),
        "begin_s": two.begin_s,
        "images_per_s_core": images / median(one.cpu_s),
    }


def table(ways: Mapping[str, Way], images: int) -> None:
    print(f"\n{'':20}{'images/s':>10}{'wall, s':>9}{'processor, s':>14}{'busy':>7}{'to begin, s':>13}  wall in each round")
    for name, way in ways.items():
        wall_s, cpu_s = median(way.wall_s), median(way.cpu_s)
        rounds = " ".join(f"{each:.1f}" for each in way.wall_s)
        print(f"{name:20}{images / wall_s:10.0f}{wall_s:9.1f}{cpu_s:14.1f}{median(way.busy):7.1%}{way.begin_s:13.1f}  {rounds}")


def memory_figures(given: argparse.Namespace) -> dict[str, float]:
    print(f"{'frames':>9}{'seconds':>9}{'driver, MB':>12}{'worker, MB':>12}   (peaks; two local processes)")
    rows = []
    for frames in map(int, given.lengths.split(",")):
        done = subprocess.run([sys.executable, MEMORY, str(frames)], check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout)
        rows.append(row)
        print(f"{frames:9,}{row['seconds']:9.0f}{row['driver_mb']:12.1f}{row['worker_mb']:12.1f}", flush=True)
    growth = max(rows[-1][who] - rows[0][who] for who in ("driver_mb", "worker_mb"))
    more = rows[-1]["frames"] - rows[0]["frames"]
    print(f"{growth:+.1f} MB for {more:,} frames more: {growth * 1e6 / more:.0f} bytes a frame (its id, label, time and answer)\n")
    return {"memory_growth_mb": growth, "peak_mb": max(rows[-1]["driver_mb"], rows[-1]["worker_mb"]), "frames": rows[-1]["frames"]}


def projection(figures: Mapping[str, float], given: argparse.Namespace) -> dict[str, float]:
    """Reckons a night on a cluster from what was measured."""
    images = NIGHT_FRAMES * (1 + NIGHT_MUTANTS)
    efficiency = min(1.0, figures["two_workers_on_free_cores"] / 2.0)
    rate = figures["images_per_s_core"] * efficiency * NIGHT_CORES
    hours = images / rate / 3600.0
    print(f"{NIGHT_FRAMES:,} frames x {NIGHT_MUTANTS} mutants, {images:,} images; assumed: frames and network as here, cores as these,")
    print("the overhead of two workers for every number of them, storage that gives each core its frames, no other program on the cores")
    print(f"  {NIGHT_CORES} cores: {hours:.1f} hours ({figures['images_per_s_core']:.0f} images/s a core x {efficiency:.2f})")
    found = {"hours_on_64_cores": hours}
    if given.gpu_images_per_s:
        found["hours_on_8_gpus"] = images / given.gpu_images_per_s / NIGHT_GPUS / 3600.0
        print(
            f"  {NIGHT_GPUS} GPUs:  {found['hours_on_8_gpus']:.1f} hours ({given.gpu_images_per_s:.0f} images/s a GPU, fed as the one was)"
        )
    else:
        print(f"  {NIGHT_GPUS} GPUs:  give --gpu-images-per-s, which benchmarks/gpu_campaigns.py --device cuda measures")
    return found


def machine() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {cores()} cores, so wall times are {'disturbed' if os.getloadavg()[0] > 0.5 else 'our own'}"


def main() -> None:
    given = arguments()
    figures: dict[str, float] = {}
    if given.only != "memory":
        figures |= workers_figures(given)
    if given.only != "workers":
        figures |= memory_figures(given)
    if given.only != "memory":
        figures |= projection(figures, given)
    print(f"load at the end: {os.getloadavg()[0]:.1f} on {cores()} cores")
    print(json.dumps({name: round(value, 4) for name, value in (figures | {"load": os.getloadavg()[0]}).items()}))


if __name__ == "__main__":
    main()
