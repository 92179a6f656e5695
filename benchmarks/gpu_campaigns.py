"""The same campaigns on a device and on the CPU: images a second, how far apart the answers are, and how much of the device is used.

test      `skidpad test`: the grids of all nine transforms, PilotNet, NC; JPEGs of 320 x 240 on disk, a run folder on disk
weather   `skidpad weather test`: the weather that comes along (64 px, 12 filters), and one of the paper's size with random weights
drive     `skidpad drive`: scenarios of the built-in world; the answers are compared on the same frames, with the truth at the wheel

images/s is of the whole campaign, from disk to disk, when everything is compiled; `device` is of the same batches with frames that lie
there already and nothing kept, so that the distance between the two is what reading, judging and writing cost. What operations of torch
compute and move is counted, operation by operation, and held against the maker's data sheet and against a plain copy on this device.
In a drive the pictures are rendered, which is not counted.

Run: python benchmarks/gpu_campaigns.py [--device cuda] [--quick] [--frames 512] [--compared 32] [--only test,weather,drive]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from skidpad.campaigns.deeproad import DeepRoad
from skidpad.campaigns.deeproad_settings import DeepRoadSettings, StyleChoice
from skidpad.campaigns.deeproad_weathers import WeatherLooks, drawn_styles
from skidpad.campaigns.deeptest import DeepTest
from skidpad.campaigns.online import Online
from skidpad.campaigns.online_loop import Wheel
from skidpad.campaigns.online_settings import OnlineSettings
from skidpad.campaigns.settings import DeepTestSettings
from skidpad.core.stimuli import Recipe, grid_recipes
from skidpad.drives import open_drive
from skidpad.subjects.loading import load_subject
from skidpad.subjects.pretrained import pretrained
from skidpad.weather.files import WeatherCard, load_weather
from skidpad.weather.pretrained import weather_path
from skidpad.weather.translation import Weather
from style_search import random_weather
from ways.drive_on_disk import jpeg_drive
from ways.roofline import Cost, copied_bytes_per_s, cost_of, data_sheet, now

SUBJECT = str(pretrained("pilotnet-rendered"))


@dataclass
class Row:
    """One campaign. device_per_s: images a second of the device alone. largest_rad, mean_rad: distance of answers from the CPU's."""

    name: str
    images: int
    per_s: float
    device_per_s: float
    cost: Cost
    compared: int
    largest_rad: float
    mean_rad: float
    is_bf16: bool = False


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Campaigns on a device: speed, distance from the CPU, share of the roofline.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="a few small frames: does it run?")
    parser.add_argument("--frames", type=int, default=0, help="512 on a GPU, 16 else")
    parser.add_argument("--compared", type=int, default=0, help="frames that the CPU answers too; 32 on a GPU, 4 else")
    parser.add_argument("--only", default="test,weather,drive")
    given = parser.parse_args()
    cuda = given.device.startswith("cuda")
    given.frames = given.frames or (4 if given.quick else 512 if cuda else 16)
    given.compared = given.compared or (2 if given.quick else 32 if cuda else 4)
    given.size = "width=320&height=80" if given.quick else "width=320&height=240"
    return given


def executed(campaign: DeepTest, folder: Path) -> tuple[float, dict[str, float]]:
    """Runs a campaign; returns the seconds, and the answers on its mutants by case."""
    started = time.perf_counter()
    run = campaign.start(folder)
    campaign.execute(run)
    seconds = time.perf_counter() - started
    records = run.records("grid", ("case_id", "mutant"))
    return seconds, dict(zip(records["case_id"].to_pylist(), records["mutant"].to_pylist(), strict=True))


def grid_row(name: str, make: Callable[[str, str], DeepTest], given: argparse.Namespace, drives: tuple[str, str], folder: Path) -> Row:
    """Measures a campaign over a grid; make: loads it for a device and a drive. drives: the whole one, and the part that is compared."""
    whole, part = drives
    few = make(given.device, part)
    _, theirs = executed(few, folder / "device")  # which also compiles and loads all that a first run does
    _, ours = executed(make("cpu", part), folder / "cpu")
    distances = np.abs(np.array([theirs[case] - answer for case, answer in ours.items()]))
    campaign = make(given.device, whole)
    seconds, answers = executed(campaign, folder / "whole")
    images = len(answers) + len(campaign.drive)
    batch = torch.from_numpy(campaign.drive.read(range(min(256, len(campaign.drive)))).clip).to(given.device)
    recipes = (Recipe(), *grid_recipes(campaign.stimuli))

    def looked() -> None:
        for recipe in recipes:
            campaign.look(batch, recipe)

    shown = len(batch) * len(recipes)
    cost = cost_of(looked, shown)
    started = now(given.device)
    looked()
    alone_s = now(given.device) - started
    is_bf16 = isinstance(campaign, DeepRoad) and given.device.startswith("cuda")
    largest, mean = float(distances.max()), float(distances.mean())
    return Row(name, images, images / seconds, shown / alone_s, cost, len(ours), largest, mean, is_bf16)


def deeptest(shard_frames: int = 0, *, quick: bool = False) -> Callable[[str, str], DeepTest]:
    def make(device: str, drive: str) -> DeepTest:
        transforms = ("contrast", "blur") if quick else ()
        return DeepTest.load(
            DeepTestSettings(
                subject=SUBJECT,
                drive=drive,
                transforms=transforms,
                relation="steers-alike",
                tolerance=10.0,
                device=device,
                shard_frames=shard_frames,
            )
        )

    return make


def deeproad(card: WeatherCard, weights: dict[str, torch.Tensor]) -> Callable[[str, str], DeepTest]:
    choice = StyleChoice.MEAN if card.styles is not None else StyleChoice.RANDOM

    def make(device: str, drive: str) -> DeepTest:
        road = DeepRoadSettings(
            subject=SUBJECT, drive=drive, weathers=(card.name,), device=device, subject_device=device, shard_frames=256, style=choice.value
        )
        looks = WeatherLooks(Weather(card, weights, device), drawn_styles(card, choice, 1, 0))
        return DeepRoad.of(road, load_subject(SUBJECT, device), open_drive(drive), {card.name: looks})

    return make


def drive_row(given: argparse.Namespace, folder: Path) -> Row:
    """Measures closed-loop drives; compares answers to the frames of the same drives with the truth at the wheel."""

    def make(device: str) -> Online:
        cars, seconds = (2, 1.0) if given.quick else (16, 5.0) if device.startswith("cuda") else (4, 2.0)
        return Online.load(OnlineSettings(subject=SUBJECT, scenarios=cars, seconds=seconds, device=device))

    campaign = make(given.device)
    shown = [course.answers_rad for course in campaign.rides.courses(campaign.cases, Wheel.TRUTH)]
    on_cpu = Online(campaign.settings, load_subject(SUBJECT), campaign.scenarios, campaign.conditions, campaign.stimuli)
    ours = [course.answers_rad for course in on_cpu.rides.courses(campaign.cases, Wheel.TRUTH)]
    distances = np.abs(np.concatenate(shown) - np.concatenate(ours))
    started = time.perf_counter()
    run = campaign.start(folder / "loop")
    campaign.execute(run)
    seconds = time.perf_counter() - started
    images = sum(run.records(columns=("steps",))["steps"].to_pylist())
    frames = torch.from_numpy(open_drive("rendered?frames=8&width=320&height=160").read(range(8)).clip).to(given.device)
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
    rendered = open_drive(f"rendered?frames={given.frames}&seed=7&{given.size}")
    whole = jpeg_drive(rendered, folder / "drive")
    drives = (whole, f"{whole}?stop={given.compared}")
    rows: list[Row] = []

    def add(row: Row) -> None:
        rows.append(row)
        print(line_of(row), flush=True)

    if "test" in given.only:
        add(grid_row("test", deeptest(quick=given.quick), given, drives, folder / "test"))
        if cuda:
            add(grid_row("test, shards of 256", deeptest(256), given, drives, folder / "test256"))
    if "weather" in given.only:
        card, weights = load_weather(weather_path("demo-rain"))
        add(grid_row("weather test, 64 px", deeproad(card, weights), given, drives, folder / "rain"))
        if cuda:
            card, weights = random_weather(64, 256, 4)
            part = (whole, f"{whole}?stop={min(8, given.compared)}")
            add(grid_row("weather test, 256 px", deeproad(card, weights), given, part, folder / "large"))
    if "drive" in given.only:
        add(drive_row(given, folder))
    return rows


def line_of(row: Row) -> str:
    cost = f"{row.cost.flop / 1e9:9.2f}{row.cost.moved_bytes / 1e6:9.2f}"
    distance = f"{row.compared:10,}{row.largest_rad:12.6f}{row.mean_rad:12.8f}"
    return f"{row.name:22}{row.images:9,}{row.per_s:11,.0f}{row.device_per_s:11,.0f}{cost}{distance}"


def main() -> None:
    given = arguments()
    name = torch.cuda.get_device_name(given.device) if given.device.startswith("cuda") else "the CPU"
    print(f"{name}; torch {torch.__version__}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':22}{'images':>9}{'images/s':>11}{'device':>11}{'GFLOP':>9}{'MB':>9}{'compared':>10}{'largest rad':>12}{'mean rad':>12}")
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
        print(f"{row.name:22}" + "  ".join(f"{key} {value:.4f}" for key, value in shares.items()))
        found[row.name] = {**asdict(row), **shares}
    print(f"{time.perf_counter() - began:.0f} s in all")
    print(json.dumps({"device": name, "copy_tb_per_s": copied / 1e12, "seconds": time.perf_counter() - began, "campaigns": found}))


if __name__ == "__main__":
    main()
