"""The same campaigns on a device and on the CPU: images a second, how far apart the answers are, and how much of the device is used.

test      `skidpad test`: the grids of all nine transforms, PilotNet, NC; JPEGs of 320 x 240 on disk, a run folder on disk
weather   `skidpad weather test`: a bundled weather (160 px, 16 filters)
paper     the same with a weather of the paper's size (256 px, 64 filters) under four styles, random weights, detail from the frames;
          beside it the frames a second at which `skidpad weather search` looks at the same scenes, and of the referee by itself: pictures
          a second, how many it names for a look at their corners, how often its reason is another on the CPU, its longest operations
drive     `skidpad drive`: scenarios of the built-in world; the answers are compared on the same frames, with the truth at the wheel

images/s is of the whole campaign, from disk to disk, when everything is compiled; `device` is of the same batches with frames that lie
there already, their operations back to back. What operations of torch compute and move is counted, operation by operation, and held
against the maker's data sheet and against a plain copy on this device. In a drive the pictures are rendered, which is not counted.

Stages are measured on a part of the drive in one thread, where they add up: reading and the way to the device, the device, judging (with
hashes of pictures that break the relation, and the referee), writing, and the rest in Python. What each would take by itself is a floor of
the campaign, whose lanes do them side by side; the highest floor bounds it. The referee shares a GPU with stimuli and subject, so that more
lanes do not make it faster; how long they waited for its word, and so for each other's work, is measured in the whole campaign.

Run: python benchmarks/gpu_campaigns.py [--device cuda] [--quick] [--frames 2048] [--staged 256] [--compared 32] [--lanes 8]
     [--only test,weather,paper,drive] [--drive udacity:FOLDER] [--bound-deg 10]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import torch

from skidpad.core.images import Frames, as_numpy
from skidpad.core.stimuli import Recipe, grid_recipes
from skidpad.drives import open_drive
from skidpad.kinds.drives.campaign import Online, OnlineSettings
from skidpad.kinds.drives.loop import BATCHES, Wheel
from skidpad.kinds.drives.work import GPU_WIDTH
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.weather.campaign import THRESHOLDS_DEG, DeepRoad, DeepRoadSettings, StyleChoice, drawn_styles
from skidpad.kinds.pictures.work import lanes
from skidpad.referee import network, verdict
from skidpad.referee.borders import may_have_border
from skidpad.referee.on_device import SeenOriginals
from skidpad.runs.folder import Run
from skidpad.runs.records import case_id
from skidpad.runs.workers.here import Here, default_lanes, pinned
from skidpad.stimuli.weather.files import WeatherCard, load_weather
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.stimuli.weather.stimulus import WeatherLooks
from skidpad.stimuli.weather.translation import Weather
from skidpad.subjects.description import pretrained
from skidpad.subjects.loading import load_subject
from style_search import random_weather
from ways.campaign_stages import Stages, staged
from ways.drives import jpeg_drive
from ways.roofline import Cost, busy_s, copied_bytes_per_s, cost_of, data_sheet, now
from ways.style_searching import looked, prepared

if TYPE_CHECKING:
    from skidpad.core.images import IntArray, NumpyFrames

SUBJECT = str(pretrained("pilotnet-rendered"))
STYLES = 4


@dataclass(frozen=True)
class RefereeAlone:
    """The referee by itself, on mutants that lie on the device.

    per_s: pictures judged a second. fresh_per_s: the same with originals that it sees for the first time. named: how many of `compared` may
    have a border; apart: of how many it says another reason on the CPU. operations_us: a picture, of the longest.
    """

    per_s: float
    fresh_per_s: float
    named: int
    apart: int
    compared: int
    operations_us: dict[str, float]


@dataclass
class Row:
    """One campaign. device_per_s: images a second of the device alone. largest_rad, mean_rad: distance of answers from the CPU's.

    launched_per_s: of the same batches, begun by one thread. stages: of a part of the drive; floors_s: of the whole, which took wall_s.
    lanes: threads that feed the device, each of which waited waited_s / lanes for the referee. referee: by itself. broken_share: of the
    mutants, which the referee was asked about. again_rad: distance of the answers of a second run; findings: of the first, and
    findings_apart: those that only one of the two has. search_per_s: frames that a search looks at.
    """

    name: str
    images: int
    per_s: float
    device_per_s: float
    cost: Cost
    compared: int
    largest_rad: float
    mean_rad: float
    is_bf16: bool = False
    launched_per_s: float = 0.0
    wall_s: float = 0.0
    stages: Stages | None = None
    floors_s: dict[str, float] = field(default_factory=dict)
    peak_memory_mb: float = 0.0
    lanes: int = 0
    waited_s: float = 0.0
    referee: RefereeAlone | None = None
    broken_share: float = 0.0
    again_rad: float = 0.0
    findings: int = 0
    findings_apart: int = 0
    search_per_s: float = 0.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Campaigns on a device: speed, distance from the CPU, share of the roofline.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="a few small frames: does it run?")
    parser.add_argument("--frames", type=int, default=0, help="2048 on a GPU, 16 else")
    parser.add_argument("--staged", type=int, default=0, help="frames whose stages are measured; 256 at most unless given")
    parser.add_argument("--compared", type=int, default=0, help="frames that the CPU answers too; 32 on a GPU, 4 else")
    parser.add_argument("--lanes", type=int, default=0, help="threads that feed the device; as campaigns choose unless given")
    parser.add_argument("--only", default="test,weather,paper,drive")
    parser.add_argument("--drive", default="", help="on disk, instead of rendered frames")
    parser.add_argument("--subject", default=SUBJECT, help="of `paper`, instead of a bundled network")
    bound_help = "of `paper`: degrees by which an inconsistent answer moves; the referee is asked about fewer pictures if this is larger"
    parser.add_argument("--bound-deg", type=float, default=THRESHOLDS_DEG[0], help=bound_help)
    parser.add_argument("--weather", default="", help="of `paper`, a learned weather beside the random one")
    given = parser.parse_args()
    cuda = given.device.startswith("cuda")
    given.frames = given.frames or (4 if given.quick else 2048 if cuda else 16)
    given.staged = min(given.staged or 256, given.frames)
    given.lanes = given.lanes or lanes(given.device)
    given.compared = given.compared or (2 if given.quick else 32 if cuda else 4)
    given.size = "width=320&height=80" if given.quick else "width=320&height=240"
    return given


def executed(campaign: DeepTest, folder: Path, threads: int) -> tuple[float, dict[str, float]]:
    """Runs a campaign; returns the seconds, and the answers on its mutants by case."""
    run = campaign.start(folder)
    started = time.perf_counter()
    campaign.execute(run, workers=Here(threads))
    seconds = time.perf_counter() - started
    records = run.records("grid", ("case_id", "mutant"))
    return seconds, dict(zip(records["case_id"].to_pylist(), records["mutant"].to_pylist(), strict=True))


@dataclass
class Asked:
    """What the referee was asked: pictures, and the seconds that all lanes together waited for its word."""

    pictures: int = 0
    waited_s: float = 0.0


@contextmanager
def asking(found: Asked) -> Iterator[None]:
    """Puts a clock around the referee, in every thread; it has seen none of the originals yet, as in a command that begins."""
    words, lock = DeepTest.words, Lock()

    def clocked_words(campaign: DeepTest, *given: object) -> object:
        ask = words(campaign, *given)  # type: ignore[arg-type] # what came in
        if ask is None:
            return None

        def asked(places: IntArray, mutants: Frames, pictures: Sequence[NumpyFrames]) -> verdict.Verdicts:
            started = time.perf_counter()
            said = ask(places, mutants, pictures)
            with lock:
                found.pictures += len(places)
                found.waited_s += time.perf_counter() - started
            return said

        return asked

    with patch.object(DeepTest, "words", clocked_words), patch.object(network, "_memory", type(network._memory)()):  # noqa: SLF001
        yield


def referee_alone(campaign: DeepTest, batch: torch.Tensor, recipes: tuple[Recipe, ...], device: str) -> RefereeAlone:
    """Asks the referee about all mutants of a batch on the device, after a round that finds kernels, and once on the CPU."""
    look = campaign.looker(batch)
    mutants = torch.cat([torch.as_tensor(look(recipe)[0]) for recipe in recipes])
    originals = batch.repeat(len(recipes), 1, 1, 1)
    seen = SeenOriginals(originals, device)
    took: list[float] = []
    with pinned():
        for asked in (seen, seen, SeenOriginals(originals, device)):
            started = now(device)
            there = asked.judge(mutants)
            took.append(now(device) - started)
        operations = longest_us(lambda: seen.judge(mutants), len(mutants), device)
    here = verdict.judge(as_numpy(originals), as_numpy(mutants))
    apart = sum(one is not other for one, other in zip(here.reasons, there.reasons, strict=True))
    named = int(may_have_border(originals, mutants).sum())
    return RefereeAlone(len(mutants) / took[1], len(mutants) / took[2], named, apart, len(mutants), operations)


def longest_us(work: Callable[[], object], images: int, device: str) -> dict[str, float]:
    """Returns the microseconds an image of the longest operations of `work`."""
    kind = torch.profiler.ProfilerActivity.CUDA if device.startswith("cuda") else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[kind]) as profiled:
        work()
        now(device)
    found: Counter[str] = Counter()
    for event in profiled.key_averages():
        took_us = event.self_device_time_total if device.startswith("cuda") else event.self_cpu_time_total
        found[event.key[:60]] += took_us / images
    return dict(found.most_common(12))


def found_by(run: Run) -> set[str]:
    """Returns the cases of a run that are findings."""
    records = run.records("grid", ("case_id", "violated"))
    return {case for case, broken in zip(records["case_id"].to_pylist(), records["violated"].to_pylist(), strict=True) if broken}


def answered(campaign: DeepTest) -> dict[str, float]:
    """Returns the answers on mutants by case; every operation gets all threads, which suits networks that are slow in one."""
    batch = campaign.read(range(len(campaign.drive)))
    look = campaign.looker(batch.clip)
    found: dict[str, float] = {}
    for recipe in grid_recipes(campaign.stimuli):
        answers = look(recipe)[1].answers[:, campaign.judged.column].tolist()
        found |= {case_id(frame_id, recipe): answer for frame_id, answer in zip(batch.frame_ids, answers, strict=True)}
    return found


@dataclass(frozen=True)
class Drives:
    """Drives of a row: the whole, the part whose stages are measured, the part that the CPU answers too.

    is_slow: whether a CPU needs seconds for a frame.
    """

    whole: str
    staged: str
    compared: str
    is_slow: bool = False


def grid_row(name: str, make: Callable[[str, str], DeepTest], given: argparse.Namespace, drives: Drives, folder: Path) -> Row:
    """Measures a campaign over a grid; make: loads it for a device and a drive."""
    cuda = given.device.startswith("cuda")
    _, theirs = executed(make(given.device, drives.compared), folder / "device", 1)  # which also compiles all that a first run does
    cpu = make("cpu", drives.compared)
    ours = answered(cpu) if drives.is_slow else executed(cpu, folder / "cpu", 0)[1]
    distances = np.abs(np.array([theirs[case] - answer for case, answer in ours.items()]))
    campaign = make(given.device, drives.staged)
    asked = Asked()
    with asking(asked):
        stages = staged(campaign, campaign.start(folder / "staged"), given.device)
    staged_images = len(campaign.drive) * (1 + len(grid_recipes(campaign.stimuli)))
    campaign = make(given.device, drives.whole)
    if cuda:
        torch.cuda.reset_peak_memory_stats(given.device)
    # the first of two also finds the memory that so many threads need
    times, waits = [], []
    for number in range(1 if given.quick else 2):
        waits.append(Asked())
        with asking(waits[-1]):
            times.append(executed(campaign, folder / f"whole-{number}", given.lanes))
    seconds, images = min(seconds for seconds, _ in times), len(times[0][1]) + len(campaign.drive)
    waited_s = next(wait.waited_s for wait, (took, _) in zip(waits, times, strict=True) if took == seconds)
    hashed = Run.open(folder / "whole-0").records("grid", ("picture",))["picture"]
    broken = len(hashed) - hashed.null_count
    again_rad = max(abs(answer - times[-1][1][case]) for case, answer in times[0][1].items())
    first, last = (found_by(Run.open(folder / f"whole-{number}")) for number in (0, len(times) - 1))
    peak_mb = torch.cuda.max_memory_allocated(given.device) / 1e6 if cuda else 0.0
    # as many as a weather translates at a time: what fills up a batch would be counted as pictures' work
    size = max(looks.group_frames for looks in campaign.weathers.values()) if isinstance(campaign, DeepRoad) else 256
    batch = torch.from_numpy(campaign.drive.read(range(min(size, len(campaign.drive)))).clip).to(given.device)
    recipes = (Recipe(), *grid_recipes(campaign.stimuli))

    def looked() -> None:
        look = campaign.looker(batch)
        for recipe in recipes:
            look(recipe)

    shown = len(batch) * len(recipes)
    alone = referee_alone(campaign, batch, recipes[1:5], given.device) if asked.pictures else None
    with pinned():  # as in a campaign: what is compiled minds the number of threads
        cost = cost_of(looked, shown)
        looked()
        started = now(given.device)
        looked()
        launched_s = now(given.device) - started
        device_s = busy_s(looked, given.device)
    return Row(
        name,
        images,
        images / seconds,
        shown / device_s,
        cost,
        len(ours),
        float(distances.max()),
        float(distances.mean()),
        isinstance(campaign, DeepRoad) and cuda,
        shown / launched_s,
        seconds,
        stages,
        floors_of(stages, asked, images / staged_images, images * device_s / shown, given),
        peak_mb,
        given.lanes or default_lanes(),
        waited_s,
        alone,
        broken / max(images - len(campaign.drive), 1),
        again_rad,
        len(first),
        len(first ^ last),
    )


def floors_of(stages: Stages, asked: Asked, images_share: float, device_s: float, given: argparse.Namespace) -> dict[str, float]:
    """Returns what each stage would take by itself; more lanes do not make a GPU faster, on which the referee is at work as well."""
    threads = given.lanes or default_lanes()
    if not asked.pictures:
        return stages.floors_s(images_share, device_s, threads)
    apart = replace(stages, judge_s=stages.judge_s - asked.waited_s, wall_s=stages.wall_s - asked.waited_s)
    referee_s = asked.waited_s * images_share / (threads if given.device == "cpu" else 1)
    return {**apart.floors_s(images_share, device_s, threads), "referee": referee_s}


def deeptest(*, quick: bool = False) -> Callable[[str, str], DeepTest]:
    def make(device: str, drive: str) -> DeepTest:
        transforms = ("contrast", "blur") if quick else ()
        return DeepTest.load(
            DeepTestSettings(
                subject=SUBJECT,
                drive=drive,
                transforms=transforms,
                preset="deeptest",
                referee="off",
                relation="steers-alike",
                tolerance=10.0,
                device=device,
            )
        )

    return make


def deeproad(
    card: WeatherCard, weights: dict[str, torch.Tensor], styles: int = 1, subject: str = SUBJECT, bound_deg: float = THRESHOLDS_DEG[0]
) -> Callable[[str, str], DeepTest]:
    choice = StyleChoice.RANDOM if card.styles is None else StyleChoice.MEAN if styles == 1 else StyleChoice.REAL

    def make(device: str, drive: str) -> DeepTest:
        road = DeepRoadSettings(
            subject=subject,
            drive=drive,
            weathers=(card.name,),
            device=device,
            subject_device=device,
            style=choice.value,
            styles=styles,
            thresholds_deg=(bound_deg,),
        )
        looks = WeatherLooks(Weather(card, weights, device), drawn_styles(card, choice, styles, 0))
        return DeepRoad.of(road, load_subject(subject, device), open_drive(drive), {card.name: looks})

    return make


def drive_row(given: argparse.Namespace, folder: Path) -> Row:
    """Measures closed-loop drives; compares answers to the frames of the same drives with the truth at the wheel."""
    cuda = given.device.startswith("cuda")
    cars, seconds = (2, 1.0) if given.quick else (GPU_WIDTH, 10.0) if cuda else (4, 2.0)
    campaign = Online.load(OnlineSettings(subject=SUBJECT, scenarios=cars, seconds=seconds, device=given.device))
    cases = campaign.cases[:16]
    shown = [course.answers_rad for course in campaign.runner.courses(cases, Wheel.TRUTH)]  # which also compiles
    on_cpu = replace(campaign.runner, subject=load_subject(SUBJECT), device="cpu")
    ours = [course.answers_rad for course in on_cpu.courses(cases, Wheel.TRUTH, os.cpu_count() or 1)]
    distances = np.abs(np.concatenate(shown) - np.concatenate(ours))
    started = time.perf_counter()
    run = campaign.start(folder / "loop")
    campaign.execute(run)
    seconds = time.perf_counter() - started
    images = sum(run.records(columns=("steps",))["steps"].to_pylist())
    batch = BATCHES["cuda" if cuda else "cpu"]
    frames = torch.from_numpy(open_drive(f"rendered?frames={batch}&width=320&height=160").read(range(batch)).clip).to(given.device)
    cost = cost_of(lambda: campaign.subject.predict(frames), len(frames))
    campaign.subject.predict(frames)
    started = now(given.device)
    for _ in range(20):
        campaign.subject.predict(frames)
    alone_s = (now(given.device) - started) / 20
    largest, mean = float(distances.max()), float(distances.mean())
    return Row("drive", images, images / seconds, len(frames) / alone_s, cost, len(distances), largest, mean)


def rows_of(given: argparse.Namespace, folder: Path) -> list[Row]:
    cuda = given.device.startswith("cuda")
    whole = given.drive or jpeg_drive(open_drive(f"rendered?frames={given.frames}&seed=7&{given.size}"), folder / "drive")
    drives = Drives(*(f"{whole}{'&' if '?' in str(whole) else '?'}stop={stop}" for stop in (given.frames, given.staged, given.compared)))
    rows: list[Row] = []

    def add(row: Row) -> None:
        rows.append(row)
        print(line_of(row), flush=True)

    if "test" in given.only:
        add(grid_row("test", deeptest(quick=given.quick), given, drives, folder / "test"))
    if "weather" in given.only:
        card, weights = load_weather(weather_path("rain"))
        add(grid_row("weather test, 160 px", deeproad(card, weights), given, drives, folder / "rain"))
    if "paper" in given.only:
        card, weights = random_weather(64, 256, 4) if cuda else random_weather(4, 64, 1)
        found = [("weather, 256 px", replace(card, detail=1.0), weights)]
        if given.weather:
            found.append((f"weather, {Path(given.weather).name}", *load_weather(Path(given.weather))))
        few = Drives(drives.whole, f"{whole}?stop={min(128, given.staged)}", f"{whole}?stop=2", is_slow=True)
        for name, card, weights in found:
            make = deeproad(card, weights, STYLES, given.subject, given.bound_deg)
            row = grid_row(f"{name}, {STYLES} styles", make, given, few, folder / card.name)
            subject = load_subject(given.subject, given.device)
            row.search_per_s = looked(prepared(card, weights, open_drive(few.whole), subject, given.device, "nbc"), 2)
            add(row)
    if "drive" in given.only:
        add(drive_row(given, folder))
    return rows


def line_of(row: Row) -> str:
    cost = f"{row.cost.flop / 1e9:9.2f}{row.cost.moved_bytes / 1e6:9.2f}"
    distance = f"{row.compared:10,}{row.largest_rad:12.6f}{row.mean_rad:12.8f}"
    line = f"{row.name:26}{row.images:9,}{row.per_s:11,.0f}{row.device_per_s:11,.0f}{cost}{distance}"
    if row.stages is None:
        return line
    stages, bound = row.stages, max(row.floors_s, key=lambda stage: row.floors_s[stage])
    apart = " ".join(f"{name} {value:.2f}" for name, value in asdict(stages).items())
    floors = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in row.floors_s.items())
    alone_s, total = row.floors_s[bound], row.wall_s
    said = [
        line,
        f"in one thread, a part of the drive: {apart} rest_s {stages.rest_s:.2f}",
        f"the whole: {total:.2f} s, and by itself {floors}: bound by {bound}, {alone_s / total:.2f} of the time",
        f"one thread begins {row.launched_per_s:,.0f} images/s; {row.peak_memory_mb:,.0f} MB on the device",
        f"a second run: answers within {row.again_rad:.6f} rad, {row.findings_apart} of {row.findings} findings differ",
    ]
    if row.search_per_s:
        decoded = row.per_s * STYLES / (STYLES + 1)
        times = decoded / row.search_per_s
        said.append(f"decoded frames/s: test {decoded:,.0f}, search {row.search_per_s:,.0f}; the test is {times:.2f} times as fast")
    if row.broken_share:
        waited_s = row.waited_s / row.lanes
        waited = f"the lanes waited for it {waited_s:.2f} s, {waited_s / total:.2f} of their time"
        said.append(f"the referee was asked about {row.broken_share:.2f} of the mutants; {waited}")
    if row.referee is not None:
        alone = row.referee
        operations = ", ".join(f"{name} {took:.2f}" for name, took in alone.operations_us.items())
        said += [
            f"the referee by itself: {alone.per_s:,.0f} pictures/s, {alone.fresh_per_s:,.0f} with originals that it has not seen yet",
            f"of {alone.compared} pictures it looked at the corners of {alone.named}, and gave {alone.apart} another reason than the CPU",
            f"its longest operations, us a picture: {operations}",
        ]
    return "\n  ".join(said)


def main() -> None:
    given = arguments()
    name = torch.cuda.get_device_name(given.device) if given.device.startswith("cuda") else "the CPU"
    print(f"{name}; torch {torch.__version__}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':26}{'images':>9}{'images/s':>11}{'device':>11}{'GFLOP':>9}{'MB':>9}{'compared':>10}{'largest rad':>12}{'mean rad':>12}")
    began = time.perf_counter()
    with TemporaryDirectory() as temporary:
        rows = rows_of(given, Path(temporary))
    copied = copied_bytes_per_s(given.device, (1 << 31) if given.device.startswith("cuda") else (1 << 26))
    sheet = data_sheet(given.device)
    print(f"\na plain copy moves {copied / 1e12:.3f} TB/s; shares of the device that each campaign uses, and that its batches alone do:")
    found = {}
    for row in rows:
        peak_flop = None if sheet is None else sheet.bf16_flop_per_s if row.is_bf16 else sheet.flop_per_s
        moved = row.cost.moved_bytes
        shares = {"copy_share": moved * row.per_s / copied, "device_copy_share": moved * row.device_per_s / copied}
        if sheet is not None and peak_flop is not None:
            shares |= {
                "bytes_share": moved * row.per_s / sheet.bytes_per_s,
                "device_bytes_share": moved * row.device_per_s / sheet.bytes_per_s,
                "flop_share": row.cost.flop * row.per_s / peak_flop,
                "device_flop_share": row.cost.flop * row.device_per_s / peak_flop,
            }
        print(f"{row.name:26}" + "  ".join(f"{key} {value:.4f}" for key, value in shares.items()))
        found[row.name] = {**asdict(row), **shares}
    print(f"{time.perf_counter() - began:.0f} s in all")
    print(json.dumps({"device": name, "copy_tb_per_s": copied / 1e12, "seconds": time.perf_counter() - began, "campaigns": found}))


if __name__ == "__main__":
    main()
