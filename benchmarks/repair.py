"""Repairs networks that were trained on the first 60 % of a drive, and judges them on the rest under families that no training saw.

python benchmarks/repair.py DRIVE --network pilotnet --seeds 0,1,2 --out FOLDER --device cuda

For each seed a network is trained and repaired twice: once without any condition of the air, precipitation, shadows and the
lens, and once without any of tone, sensor, glass and light. Every family but a moved camera is so judged by a network that never saw its
group. Pictures are rendered once, and all seeds run side by side as processes; FOLDER/repair.json has every outcome, FOLDER/table.md the
table over seeds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import skidpad as sp
from skidpad.drives import open_drive
from skidpad.repairs.families import families
from skidpad.repairs.outcome import search, written
from skidpad.repairs.plan import SearchSettings, Task
from skidpad.repairs.search import Repairs
from skidpad.repairs.source import referee_of
from skidpad.statistics.intervals import student_mean
from skidpad.subjects.description import Crop, History, HistoryKind, InputSpec
from skidpad.subjects.loading import load_network
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.fitting import TrainingSettings
from skidpad.subjects.training.training import train
from skidpad.subjects.zoo import ARCHITECTURES

FOLDS = {
    "without-air": ("atmosphere", "precipitation", "shadows", "lens"),
    "without-camera": ("tone", "sensor", "glass", "light"),
}


def net_folder(args: argparse.Namespace, seed: int) -> Path:
    """Where the network of a seed is."""
    return Path(args.out) / f"{args.network}-{seed}"


def spec_of(args: argparse.Namespace) -> InputSpec | None:
    """Returns the input of the network; a recurrent one sees half the size and two seconds, so that three fit beside one another."""
    if args.network != "chauffeur":
        return None
    usual = ARCHITECTURES.get("chauffeur").input
    return replace(usual, width_px=160, height_px=60, crop=Crop(top=0.5), history=History(20, HistoryKind.RECURRENT))


def train_one(args: argparse.Namespace, seed: int) -> None:
    """Trains the network of one seed on the first 60 % of the drive."""
    out = net_folder(args, seed)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "net.toml").exists():
        settings = TrainingSettings(epochs=args.train_epochs, patience=10, seed=seed, device=args.device)
        train(args.network, open_drive(f"{args.drive}?to=0.6"), out / "net", settings, spec=spec_of(args))


def repairs_of(args: argparse.Namespace, subject: NetworkSubject, fold: str, device: str) -> tuple[Task, SearchSettings]:
    """Returns what is repaired and how; all seeds are shown the same pictures."""
    settings = SearchSettings(
        families=tuple(families()),
        unseen=FOLDS[fold],
        ways=tuple(args.ways.split(",")),
        strengths=tuple(float(each) for each in args.strengths.split(",")),
        pictures=args.pictures,
        judged_frames=args.judged_frames,
        epochs=args.epochs,
        patience=args.epochs,
        learning_rate=args.learning_rate,
        batch_size=args.batch_size,
        weathers=tuple(filter(None, args.weathers.split(","))),
        seeds=1,
        device=device,
    )
    pool = Path(args.out) / "pools" / f"{args.network}-{fold}"
    task = Task(subject=subject, drive=open_drive(args.drive), relation=sp.SteersAlike(within_deg=10), judge=referee_of("cpu"), pool=pool)
    return task, settings


def render_one(args: argparse.Namespace, fold: str, name: str) -> None:
    """Renders one set of pictures; a network that was never trained stands in, since nobody asks it."""
    zoo = ARCHITECTURES.get(args.network)
    description = zoo.describe("stand-in", "none", spec_of(args))
    subject = NetworkSubject.of_module(zoo.build(description.input), description)
    task, settings = repairs_of(args, subject, fold, "cpu")
    repairs = Repairs(task, Path(args.out) / "none", settings)
    if name in {"random", "validation"}:
        getattr(repairs, name)
    else:
        repairs.judged_set(name, repairs.judged_recipes[name])


def repair_one(args: argparse.Namespace, seed: int, fold: str) -> None:
    """Repairs the network of one seed in one fold."""
    out = net_folder(args, seed) / fold
    if not (out / "repair.json").exists():
        subject = load_network(net_folder(args, seed) / "net.toml", args.device)
        task, settings = repairs_of(args, subject, fold, args.device)
        written(search(task, out, settings), out)


def sets_of(args: argparse.Namespace, fold: str) -> list[str]:
    """Names the sets of pictures of a fold."""
    weathers = [f"weather:{each}" for each in args.weathers.split(",") if each]
    return ["random", "seen families", *weathers, "validation", *(f"unseen: {group}" for group in FOLDS[fold])]


def gathered(args: argparse.Namespace) -> None:
    """Writes what all seeds brought, and the table."""
    found = {
        f"{args.network}-{seed}/{fold}": json.loads(path.read_text())
        for seed in args.seeds.split(",")
        for fold in FOLDS
        if (path := Path(args.out) / f"{args.network}-{seed}" / fold / "repair.json").exists()
    }
    Path(args.out, "repair.json").write_text(json.dumps(found))
    lines = ["| pictures | before | control | repaired | beyond control |", "| --- | --- | --- | --- | --- |"]
    names = dict.fromkeys(row["pictures"] for each in found.values() for row in each["rows"])
    for fold in FOLDS:
        mine = [each for key, each in found.items() if key.endswith(fold)]
        lines.append(f"| **{fold}** | | | | |")
        for name in names:
            rows = [row for each in mine for row in each["rows"] if row["pictures"] == name]
            if not rows:
                continue
            values = [
                np.array([row[column] if column == "before" else row[column]["estimate"] for row in rows], float)
                for column in ("before", "control", "repaired")
            ]
            change = student_mean(values[2] / values[1] - 1.0)
            cells = [f"{mean.estimate:.4f} ({mean.low:.4f} to {mean.high:.4f})" for mean in map(student_mean, values)]
            lines.append(f"| {name} | {' | '.join(cells)} | {change.estimate:+.1%} ({change.low:+.1%} to {change.high:+.1%}) |")
        lines += [f"| recommended: {', '.join(each['recommended'] or 'none' for each in mine)} | | | | |"]
    Path(args.out, "table.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Starts a process for each seed, or is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("drive")
    parser.add_argument("--network", default="pilotnet")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--folds", default=",".join(FOLDS))
    parser.add_argument("--ways", default="random,consistency,mix")
    parser.add_argument("--strengths", default="1,3")
    parser.add_argument("--pictures", type=int, default=8000)
    parser.add_argument("--judged-frames", type=int, default=12)
    parser.add_argument("--train-epochs", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--weathers", default="night,rain")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", required=True)
    parser.add_argument("--part", default="", help="train/SEED, render/FOLD/SET, repair/SEED/FOLD or gather: one part of the work")
    args = parser.parse_args()
    kind, *words = args.part.split("/")
    parts = {"train": lambda seed: train_one(args, int(seed)), "render": lambda fold, name: render_one(args, fold, name)}
    parts |= {"repair": lambda seed, fold: repair_one(args, int(seed), fold), "gather": lambda: gathered(args)}
    if kind:
        begun = time.monotonic()
        parts[kind](*words)
        print(f"{args.network} {args.part}: {time.monotonic() - begun:.0f} s", flush=True)
        return
    seeds, folds = args.seeds.split(","), args.folds.split(",")
    rounds = [
        [*(f"train/{seed}" for seed in seeds), *(f"render/{fold}/{name}" for fold in folds for name in sets_of(args, fold))],
        [f"repair/{seed}/{fold}" for seed in seeds for fold in folds],
        ["gather"],
    ]
    Path(args.out).mkdir(parents=True, exist_ok=True)
    for names in rounds:
        running = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--part", name]) for name in names]
        failed = [name for name, process in zip(names, running, strict=True) if process.wait()]
        if failed:
            print(f"failed: {', '.join(failed)}", flush=True)


if __name__ == "__main__":
    main()
