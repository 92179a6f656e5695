"""How many images a second a DeepTest campaign tests, beside the ways it would be done without skidpad, and how much of it is overhead.

Every way gets the same frames, mutants (the grids of all nine transforms), network (PilotNet), neuron bounds and tolerance, and
does the same work: transform, predict, coverage (NC, KMNC with 1000 sections, NBC), oracle. Before the clock starts, every way tests a
few frames; where one covers or finds something else than skidpad does, the benchmark fails.

(a) DeepTest's way: one image at a time, a Python loop over layers and neurons; measured on fewer images. The authors' program
    made a pass through the network for each layer; that is a row of its own, and the headline spares it those.
(b) assembled: OpenCV in a DataLoader, batched torch with hooks, dnn-tip.
floor: skidpad's own transforms, preprocessing and network on the batches of the campaign, and nothing else.

The ways take turns in rounds. A way that can use more or fewer threads or processes does what was fastest in a trial before.
images_per_s and how much faster skidpad is go by wall time, overhead_share by processor time of this process and its children:
overhead_share = (campaign - floor) / campaign, round by round. A figure is the median over rounds, with their range beside it.
Frames are in memory for every way but skidpad, which reads its drive of JPEGs from disk and writes its run to disk.

A run that other programs disturb ends with `disturbed: ...` and without figures.

Run: python benchmarks/campaign.py [--quick] [--frames 64] [--rounds 7] [--drive DRIVE] [--subject SUBJECT]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from math import radians
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from skidpad.core.stimuli import grid_recipes
from skidpad.coverage.profile import profile_of
from skidpad.drives import open_drive
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.subjects.description import pretrained
from skidpad.subjects.network_subject import NetworkSubject
from ways.assembled import Assembled, Setting
from ways.case import Case, Found, threads
from ways.deeptest_way import DeepTestWay, Passes
from ways.drives import jpeg_drive
from ways.family import processor_s
from ways.skidpad_way import Floor, SkidpadWay

WITHIN_DEG = 10.0
COMPARED_FRAMES = 4
"""Frames that every way tests before the clock starts: seconds for (a)."""

BEYOND = 1e-5
"""How much wider than the frames gave them the neurons' bounds are, as a share; rounding changes a tenth of that."""

APART = 0.005
"""By which share of what skidpad covered a way may differ: batches of another size round the last bits of an activation otherwise."""

LEAST_CORES = 0.85
"""The share of its cores that the floor gets on a machine of its own; it reads nothing and waits for nobody."""

WIDEST = 0.15
"""The range of the rounds' processor times, as a share of their median, that a machine of one's own stays within."""

OURS, OURS_NC, FLOOR = "skidpad", "skidpad, NC only", "floor"
THEIRS = {
    "vs_deeptest_way": ("(a) DeepTest's way", OURS),
    "vs_best_assembled": ("(b) assembled", OURS),
    "vs_deeptest_way_nc": ("(a) DeepTest's way, NC only", OURS_NC),
    "vs_deeptest_program_nc": ("(a) NC only, a pass a layer", OURS_NC),
    "vs_best_assembled_nc": ("(b) assembled, NC only", OURS_NC),
}
"""How much faster skidpad is: the other way, and what of skidpad it is compared with."""


@dataclass(frozen=True)
class Rounds:
    """One contender: `run` tests images and returns how many; wall and processor seconds an image, one entry a round."""

    run: Callable[[], int]
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Runs once and notes the time an image."""
        cpu, wall = processor_s(), time.perf_counter()
        images = self.run()
        self.wall_s.append((time.perf_counter() - wall) / images)
        self.cpu_s.append((processor_s() - cpu) / images)


@dataclass(frozen=True)
class Spread:
    """The median over rounds, and their range."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Sums up one value a round."""
        return cls(median(values), min(values), max(values))

    def text(self, form: str) -> str:
        """Writes the median and, in brackets, the range."""
        return f"{self.middle:{form}} ({self.least:{form}} to {self.most:{form}})"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Images a second through a DeepTest campaign, against the other ways.")
    parser.add_argument("--quick", action="store_true", help="a few small frames and one round: does it run?")
    parser.add_argument("--frames", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--drive", default="", help="as `skidpad test` takes it; by default a rendered one of 320 x 240")
    parser.add_argument("--subject", default="", help="a PilotNet's description; the bundled one by default")
    parser.add_argument("--transforms", default="", help="comma-separated; all nine by default")
    given = parser.parse_args()
    if given.quick:
        given.frames, given.rounds, given.transforms = 4, 1, given.transforms or "contrast,rotation"
    given.drive = given.drive or f"rendered?frames={given.frames}&seed=7&width=320&height={80 if given.quick else 240}"
    return given


@dataclass(frozen=True)
class Prepared:
    """The campaign and the same as the other ways take it; profile: the file with the neuron bounds."""

    case: Case
    campaign: DeepTest
    subject: NetworkSubject
    profile: Path

    def head(self, frames: int) -> Prepared:
        """Returns the same with the first frames alone."""
        return replace(
            self,
            case=replace(self.case, frames=self.case.frames[:frames]),
            campaign=replace(self.campaign, drive=self.campaign.drive.head(frames)),
        )


def prepare(given: argparse.Namespace, folder: Path) -> Prepared:
    drive = jpeg_drive(open_drive(given.drive).head(given.frames), folder / "drive")
    settings = DeepTestSettings(
        subject=given.subject or str(pretrained("pilotnet-rendered")),
        drive=drive,
        transforms=tuple(filter(None, given.transforms.split(","))),
        preset="deeptest",
        referee="off",
        relation="steers-alike",
        tolerance=WITHIN_DEG,
        criteria=("nc", "kmnc", "nbc"),
        profile_drive=drive,
    )
    campaign = DeepTest.load(settings)
    subject = campaign.subject
    if not isinstance(subject, NetworkSubject) or not isinstance(subject.module, torch.nn.Sequential):
        raise SystemExit("the other ways know PilotNet of the zoo alone; give --subject such a one")
    # every second frame gives the bounds, so that the others reach beyond them and NBC has something to count
    half = campaign.drive[::2]
    profile = profile_of(subject, half.batches(64), campaign.drive.sha256)
    # no value may lie on a bound: there its last bits decide, and dnn-tip counts it as outside, which covers all of NBC at once
    margin = BEYOND * torch.maximum(profile.low.abs(), profile.high.abs()) + BEYOND
    profile.low, profile.high = profile.low - margin, profile.high + margin
    profile.save(folder / "profile.safetensors")
    case = Case(
        frames=campaign.drive.read(range(len(campaign.drive))).frames,
        recipes=grid_recipes(campaign.stimuli),
        module=subject.module,
        profile=profile,
        layer_widths=tuple(layer.stop - layer.start for layer in subject.layers),
        within_rad=radians(WITHIN_DEG),
    )
    return Prepared(case, campaign, subject, folder / "profile.safetensors")


def found_by_each(few: Prepared) -> dict[str, Found]:
    """Lets every way test a few frames."""
    alone = DeepTestWay(few.case, nc_only=False)
    together = Assembled(few.case, workers=1)
    with threads(1, 1):
        alone.run(range(len(few.case.frames)))
    together.run(Setting(1, 1), nc_only=False)
    return {OURS: SkidpadWay(few.campaign, few.profile).found(), "(a)": alone.found, "(b)": together.found}


def check_same_work(found: Mapping[str, Found]) -> None:
    """Ends the benchmark where a way did other work than skidpad."""
    ours = asdict(found[OURS])
    for name, theirs in found.items():
        for what, count in asdict(theirs).items():
            if abs(count - ours[what]) > max(1.0, APART * ours[what]):
                raise SystemExit(
                    f"{name} does other work than skidpad: it counts {count:,} {what}, skidpad {ours[what]:,}; they may be {APART:.1%} "
                    "apart. Compare the mutants and the activations of the two before you believe any timing."
                )


def fastest(runs: Sequence[Callable[[], int]]) -> int:
    """Returns which of several runs is the fastest; each runs twice, in turns."""
    trials = [Rounds(run) for run in runs]
    if len(trials) > 1:
        for trial in trials * 2:
            trial.measure()
    return min(range(len(trials)), key=lambda place: min(trials[place].wall_s, default=0.0))


def tuned_assembled(case: Case, cores: int, *, trials: bool) -> tuple[Assembled, Setting]:
    """Returns the assembled way with the setting that was fastest on a part of the images."""
    counts = sorted({1, max(1, cores // 2), cores}) if trials else [1]
    few = replace(case, frames=case.frames[:16], recipes=case.recipes[:: max(1, len(case.recipes) // 16)])
    small = {workers: Assembled(few, workers) for workers in counts}
    settings = [Setting(*chosen) for chosen in product(counts, counts)]
    chosen = settings[fastest([partial(_assembled, small[setting.workers], setting, few.images, nc_only=True) for setting in settings])]
    return Assembled(case, chosen.workers), chosen


def _assembled(way: Assembled, setting: Setting, images: int, *, nc_only: bool) -> int:
    way.run(setting, nc_only=nc_only)
    return images


def _deeptest(case: Case, torch_threads: int, images: int, *, nc_only: bool, passes: Passes = "one") -> int:
    # whole frames, so that every transform is there in its share
    places = range(max(1, min(len(case.frames), images // (len(case.recipes) + 1))))
    way = DeepTestWay(case, nc_only=nc_only, passes=passes)
    with threads(torch_threads, torch_threads):
        way.run(places)
    return way.images


def _skidpad(way: SkidpadWay, images: int, *, nc_only: bool) -> int:
    way.run(nc_only=nc_only)
    return images


def disturbance(rounds: Mapping[str, Rounds], usable_cores: float) -> str:
    """Says how other programs disturbed the rounds so far; empty where they did not."""
    floor = rounds[FLOOR]
    share = min(cpu_s / wall_s for cpu_s, wall_s in zip(floor.cpu_s, floor.wall_s, strict=True)) / usable_cores
    if share < LEAST_CORES:
        return f"in one round the floor had {share:.0%} of its cores; a machine of its own gives it {LEAST_CORES:.0%} or more"
    for name in (OURS, OURS_NC, FLOOR):
        cpu = Spread.of(rounds[name].cpu_s)
        if cpu.most - cpu.least > WIDEST * cpu.middle:
            span = f"{cpu.least * 1e3:.2f} to {cpu.most * 1e3:.2f} CPU ms an image"
            return f"the rounds of '{name}' took {span}; a machine of its own stays within {WIDEST:.0%} of the median"
    return ""


def figures_of(rounds: Mapping[str, Rounds]) -> dict[str, Spread]:
    """Returns the headline figures: rates and ratios by wall time, the overhead by processor time, all round by round."""

    def ratios(theirs: Sequence[float], ours: Sequence[float]) -> list[float]:
        return [other / own for other, own in zip(theirs, ours, strict=True)]

    found = {key: ratios(rounds[other].wall_s, rounds[own].wall_s) for key, (other, own) in THEIRS.items()}
    found["floor_vs_deeptest_way"] = ratios(rounds[THEIRS["vs_deeptest_way"][0]].wall_s, rounds[FLOOR].wall_s)
    for key, own in (("", OURS), ("_nc", OURS_NC)):
        found[f"overhead_share{key}"] = [1.0 - share for share in ratios(rounds[FLOOR].cpu_s, rounds[own].cpu_s)]
        found[f"images_per_s{key}"] = [1.0 / wall_s for wall_s in rounds[own].wall_s]
        found[f"cpu_ms_per_image{key}"] = [cpu_s * 1e3 for cpu_s in rounds[own].cpu_s]
    return {key: Spread.of(values) for key, values in found.items()}


def report(rounds: Mapping[str, Rounds], disturbed: str) -> dict[str, float | bool | None]:
    """Prints the table, or what disturbed it, and returns what programs read: no figure of a disturbed run."""
    figures = figures_of(rounds)
    if disturbed:
        print(f"\ndisturbed: {disturbed}.\nNo figure of this run is worth anything; run it again when nothing else runs.")
        return {"disturbed": True} | dict.fromkeys(figures)
    print(f"\n{'median (range of the rounds)':30}{'images/s':>26}{'CPU ms an image':>26}   skidpad is faster")
    times = {other: figures[key].text(".1f") + "x" for key, (other, _) in THEIRS.items()}
    for name, each in rounds.items():
        rate = Spread.of([1.0 / wall_s for wall_s in each.wall_s]).text(",.0f")
        cpu_ms = Spread.of([cpu_s * 1e3 for cpu_s in each.cpu_s]).text(".2f")
        print(f"{name:30}{rate:>26}{cpu_ms:>26}   {times.get(name, '')}")
    print(f"\noverhead: {figures['overhead_share'].text('.1%')} of skidpad's processor time lies above the floor", end="")
    print(f", {figures['overhead_share_nc'].text('.1%')} with NC alone")
    print(f"the floor is {figures['floor_vs_deeptest_way'].text('.1f')}x as fast as (a): no way with this network on these cores is faster")
    return {"disturbed": False} | {key: round(spread.middle, 4) for key, spread in figures.items()}


def main() -> None:
    given = arguments()
    cores = torch.get_num_threads()
    print(f"load at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; torch {torch.__version__}")
    with TemporaryDirectory() as temporary:
        prepared = prepare(given, Path(temporary))
        case = prepared.case
        print(f"{len(case.frames)} frames of {case.frames.shape[2]} x {case.frames.shape[1]}, {case.images:,} images, {cores} threads")
        found = found_by_each(prepared.head(COMPARED_FRAMES))
        print(f"covered and found on the first {min(COMPARED_FRAMES, len(case.frames))} frames:")
        for name, what in found.items():
            print(f"  {name:8} " + ", ".join(f"{key} {count:,}" for key, count in asdict(what).items()), flush=True)
        check_same_work(found)
        theirs, setting = tuned_assembled(case, cores, trials=not given.quick)
        alone = partial(_deeptest, case, images=1 if given.quick else 100)
        counts = sorted({1, cores})
        count = counts[fastest([partial(alone, each, nc_only=True) for each in counts])]
        print(f"fastest settings: (a) {count} torch threads; (b) {setting}", flush=True)
        ours = SkidpadWay(prepared.campaign, prepared.profile)
        floor = Floor(prepared.campaign, prepared.subject, case.frames)
        runs: dict[str, Callable[[], int]] = {
            OURS: partial(_skidpad, ours, case.images, nc_only=False),
            FLOOR: floor.run,
            OURS_NC: partial(_skidpad, ours, case.images, nc_only=True),
            "(b) assembled": partial(_assembled, theirs, setting, case.images, nc_only=False),
            "(b) assembled, NC only": partial(_assembled, theirs, setting, case.images, nc_only=True),
            "(a) DeepTest's way": partial(alone, count, nc_only=False),
            "(a) DeepTest's way, NC only": partial(alone, count, nc_only=True),
            "(a) NC only, a pass a layer": partial(alone, count, nc_only=True, passes="each layer"),
        }
        for run in (runs[OURS], runs[FLOOR], runs["(b) assembled, NC only"]):
            run()  # workers begin and caches fill before the clock starts
        rounds = {name: Rounds(run) for name, run in runs.items()}
        disturbed = ""
        for _ in range(given.rounds):
            for each in rounds.values():
                each.measure()
            disturbed = disturbance(rounds, floor.usable_cores)
            if disturbed:
                break  # more rounds cannot take it back
        figures = report(rounds, disturbed)
    load = os.getloadavg()[0]
    print(f"load at the end: {load:.1f} on {os.cpu_count()} cores")
    print(json.dumps(figures | {"images": case.images, "rounds": given.rounds, "load": round(load, 2)}))


if __name__ == "__main__":
    main()
