"""How many images a second a DeepTest campaign tests, beside the ways it would be done without skidpad.

Every way gets the same frames, mutants (the grids of all nine transforms), network (PilotNet), neuron bounds and tolerance, and
does the same work: transform, predict, coverage (NC, KMNC with 1000 sections, NBC), oracle.

(a) DeepTest's way: one image at a time, a Python loop over layers and neurons; measured on fewer images. The authors' program
    made a pass through the network for each layer; that is a row of its own, and the headline spares it those.
(b) assembled: OpenCV in a DataLoader, batched torch with hooks, dnn-tip; a trial before each round finds its fastest setting.
bare: transform, resize and forward alone, each over all images and all cores; their sum is what no way can be under.

The ways take turns in rounds, so that a busy machine disturbs all of them alike; a figure is the median over rounds.
Where a way can use one thread or all, both are tried in each round and the faster counts.
overhead_share = (time of skidpad - sum of the bare times) / time of skidpad, each the median of its wall time an image.
Frames are in memory for every way but skidpad, which reads its drive of JPEGs from disk and writes its run to disk.

Run: python benchmarks/campaign.py [--quick] [--frames 64] [--rounds 3] [--drive DRIVE] [--subject SUBJECT]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import radians
from multiprocessing import active_children
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from skidpad.core.stimuli import grid_recipes
from skidpad.coverage.profile import profile_of
from skidpad.drives import open_drive
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.pretrained import pretrained
from ways.assembled import Assembled, Setting
from ways.case import Case, threads
from ways.deeptest_way import DeepTestWay, Passes
from ways.drive_on_disk import jpeg_drive
from ways.skidpad_way import BareKernels, SkidpadWay

WITHIN_DEG = 10.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Timing:
    """Wall and processor seconds an image, one entry a round."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def image_s(self) -> float:
        """The median wall time of an image."""
        return median(self.wall_s)


@dataclass(frozen=True)
class Entry:
    """One contender: each of `runs` tests images and returns how many; the fastest of a round is its figure."""

    name: str
    runs: tuple[Callable[[], int], ...]
    timing: Timing = field(default_factory=Timing)

    def measure(self) -> None:
        """Runs once in every setting and notes the time an image of the fastest."""
        wall_s, cpu_s = min(_timed(run) for run in self.runs)
        self.timing.wall_s.append(wall_s)
        self.timing.cpu_s.append(cpu_s)


def _timed(run: Callable[[], int]) -> tuple[float, float]:
    cpu, wall = processor_s(), time.perf_counter()
    images = run()
    return (time.perf_counter() - wall) / images, (processor_s() - cpu) / images


def processor_s() -> float:
    """Returns the processor time of this process and its living children (Linux; elsewhere of this process alone)."""
    used = time.process_time()
    for child in active_children():
        stat = Path(f"/proc/{child.pid}/stat")
        if stat.exists():
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
            used += (int(user) + int(system)) / TICKS
    return used


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Images a second through a DeepTest campaign, against the other ways.")
    parser.add_argument("--quick", action="store_true", help="a few small frames and one round: does it run?")
    parser.add_argument("--frames", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--drive", default="", help="as `skidpad test` takes it; by default a rendered one of 320 x 240")
    parser.add_argument("--subject", default="", help="a PilotNet's description; by default the one that comes along")
    parser.add_argument("--transforms", default="", help="comma-separated; all nine by default")
    given = parser.parse_args()
    if given.quick:
        given.frames, given.rounds, given.transforms = 2, 1, given.transforms or "contrast,rotation"
    given.drive = given.drive or f"rendered?frames={given.frames}&seed=7&width=320&height={80 if given.quick else 240}"
    return given


def prepare(given: argparse.Namespace, folder: Path) -> tuple[Case, DeepTest, Path]:
    drive = jpeg_drive(open_drive(given.drive).head(given.frames), folder / "drive")
    settings = DeepTestSettings(
        subject=given.subject or str(pretrained("pilotnet-rendered")),
        drive=drive,
        transforms=tuple(filter(None, given.transforms.split(","))),
        relation="steers-alike",
        tolerance=WITHIN_DEG,
        criteria=("nc", "kmnc", "nbc"),
        profile_drive=drive,
    )
    campaign = DeepTest.load(settings)
    if not isinstance(campaign.subject, NetworkSubject) or not isinstance(campaign.subject.module, torch.nn.Sequential):
        raise SystemExit("the other ways know PilotNet of the zoo alone; give --subject such a one")
    # every second frame gives the bounds, so that the others reach beyond them and NBC has something to count
    half = campaign.drive[::2]
    profile = profile_of(campaign.subject, half.batches(64), campaign.drive.sha256)
    profile.save(folder / "profile.safetensors")
    case = Case(
        frames=campaign.drive.read(range(len(campaign.drive))).frames,
        recipes=grid_recipes(campaign.stimuli),
        module=campaign.subject.module,
        profile=profile,
        layer_widths=tuple(layer.stop - layer.start for layer in campaign.subject.layers),
        within_rad=radians(WITHIN_DEG),
    )
    return case, campaign, folder / "profile.safetensors"


class TunedAssembled:
    """The assembled way, in the setting that a trial on a part of the images found fastest just before."""

    def __init__(self, case: Case, cores: int, *, trials: bool) -> None:
        counts = sorted({1, max(1, cores // 2), cores}) if trials else [1]
        few = replace(case, frames=case.frames[:16], recipes=case.recipes[:: max(1, len(case.recipes) // 16)])
        self._images = case.images
        self._small = {workers: Assembled(few, workers) for workers in counts} if trials else {}
        self.whole = {workers: Assembled(case, workers) for workers in counts}
        self.settings = [Setting(*chosen) for chosen in product(counts, counts)]
        self.chosen = [self.settings[0]]
        for way in self._small.values():
            way.run(self.settings[0], nc_only=True)  # starts its workers

    def choose(self) -> None:
        """Tries every setting on a few images."""
        if self._small:
            entries = [Entry("", (partial(self._try, setting),)) for setting in self.settings]
            take_turns(entries, 2)
            self.chosen.append(min(zip(self.settings, entries, strict=True), key=lambda pair: min(pair[1].timing.wall_s))[0])

    def run(self, *, nc_only: bool) -> int:
        """Tests all mutants."""
        self.whole[self.chosen[-1].workers].run(self.chosen[-1], nc_only=nc_only)
        return self._images

    def _try(self, setting: Setting) -> int:
        self._small[setting.workers].run(setting, nc_only=True)
        return 1


def take_turns(entries: Iterable[Entry], rounds: int, before: Callable[[], None] = lambda: None) -> None:
    for _ in range(rounds):
        before()
        for entry in entries:
            entry.measure()


def _deeptest(case: Case, torch_threads: int, images: int, *, nc_only: bool, passes: Passes = "one") -> int:
    # whole frames, so that every transform is there in its share
    places = range(max(1, min(len(case.frames), images // (len(case.recipes) + 1))))
    way = DeepTestWay(case, nc_only=nc_only, passes=passes)
    with threads(torch_threads, torch_threads):
        way.run(places)
    return way.images


def _whole(work: Callable[[], object], images: int) -> Callable[[], int]:
    def run() -> int:
        work()
        return images

    return run


def main() -> None:
    given = arguments()
    cores = torch.get_num_threads()
    with TemporaryDirectory() as temporary:
        case, campaign, profile = prepare(given, Path(temporary))
        load = os.getloadavg()
        print(f"{len(case.frames)} frames of {case.frames.shape[2]} x {case.frames.shape[1]}, {case.images:,} images, {cores} cores")
        print(f"load at the start: {load[0]:.1f} of {os.cpu_count()}; torch {torch.__version__}")
        theirs = TunedAssembled(case, cores, trials=not given.quick)
        ours = SkidpadWay(campaign, profile)
        bare = BareKernels(case, cores)
        alone = partial(_deeptest, case, images=1 if given.quick else 100)
        counts = sorted({1, cores})
        entries = {
            "ours": Entry("skidpad", (_whole(lambda: ours.run(nc_only=False), case.images),)),
            "ours_nc": Entry("skidpad, NC only", (_whole(lambda: ours.run(nc_only=True), case.images),)),
            "transform": Entry("bare: transform", (_whole(bare.transform, case.images),)),
            "resize": Entry("bare: resize, colour, floats", (_whole(bare.resize, case.images),)),
            "forward": Entry("bare: forward", (_whole(bare.forward, case.images),)),
            "assembled": Entry("(b) assembled", (partial(theirs.run, nc_only=False),)),
            "assembled_nc": Entry("(b) assembled, NC only", (partial(theirs.run, nc_only=True),)),
            "deeptest": Entry("(a) DeepTest's way", tuple(partial(alone, count, nc_only=False) for count in counts)),
            "deeptest_nc": Entry("(a) DeepTest's way, NC only", tuple(partial(alone, count, nc_only=True) for count in counts)),
            "program_nc": Entry(
                "(a) NC only, a pass a layer", tuple(partial(alone, count, nc_only=True, passes="each layer") for count in counts)
            ),
        }
        ours.look()
        take_turns(entries.values(), given.rounds, theirs.choose)
        report(entries, case, ours, theirs, given)


def report(entries: dict[str, Entry], case: Case, ours: SkidpadWay, theirs: TunedAssembled, given: argparse.Namespace) -> None:
    image_s = {name: entry.timing.image_s for name, entry in entries.items()}
    print(f"\n{'':30}{'images/s':>9}{'ms/image':>10}{'CPU ms':>8}{'skidpad is':>15}  images/s in each round")
    for name, entry in entries.items():
        ratio = image_s[name] / image_s["ours_nc" if name.endswith("_nc") else "ours"]
        rounds = " ".join(f"{1 / wall_s:.0f}" for wall_s in entry.timing.wall_s)
        cpu_ms = median(entry.timing.cpu_s) * 1e3
        faster = "" if name.startswith("ours") or name in {"transform", "resize", "forward"} else f"{ratio:.1f}x faster"
        print(f"{entry.name:30}{1 / image_s[name]:9.0f}{image_s[name] * 1e3:10.3f}{cpu_ms:8.2f}{faster:>15}  {rounds}")
    bare_s = image_s["transform"] + image_s["resize"] + image_s["forward"]
    overhead = {name: (image_s[name] - bare_s) / image_s[name] for name in ("ours", "ours_nc")}
    print(f"\nsum of the bare kernels: {bare_s * 1e3:.3f} ms an image; skidpad spends {overhead['ours']:.1%} of its time above it")
    print(f"on these cores, no way with this network could be more than {image_s['deeptest'] / bare_s:.1f}x faster than (a)")
    print(f"settings of (b), fastest in its round: {'; '.join(map(str, theirs.chosen[1:] or theirs.chosen))}")
    way = theirs.whole[theirs.chosen[-1].workers]
    counted = {"nc": int(way.nc.sum()), "kmnc": int(way.kmnc.sum()), "nbc": int(way.nbc.sum())}
    print("covered regions, skidpad / assembled: " + ", ".join(f"{name} {ours.covered[name]} / {counted[name]}" for name in counted))
    print(f"findings, skidpad / assembled: {ours.findings} / {way.findings} of {case.images:,} (they differ where the resizing does)")
    print(f"load at the end: {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
    figures = {
        "vs_deeptest_way": image_s["deeptest"] / image_s["ours"],
        "vs_best_assembled": image_s["assembled"] / image_s["ours"],
        "overhead_share": overhead["ours"],
        "images_per_s": 1 / image_s["ours"],
        "images_per_s_nc": 1 / image_s["ours_nc"],
        "vs_deeptest_way_nc": image_s["deeptest_nc"] / image_s["ours_nc"],
        "vs_deeptest_program_nc": image_s["program_nc"] / image_s["ours_nc"],
        "vs_best_assembled_nc": image_s["assembled_nc"] / image_s["ours_nc"],
        "overhead_share_nc": overhead["ours_nc"],
        "bare_vs_deeptest_way": image_s["deeptest"] / bare_s,
        "cpu_ms_per_image": median(entries["ours"].timing.cpu_s) * 1e3,
        "images": case.images,
        "rounds": given.rounds,
        "load": os.getloadavg()[0],
    }
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
