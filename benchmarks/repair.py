"""Repairs networks that were trained on the first 60 % of a drive, and judges them on the rest under families that no training saw.

python benchmarks/repair.py DRIVE --network pilotnet --seeds 0,1,2 --out FOLDER --device cuda

For each seed a network is trained and tested, and repaired twice: once without any condition of the air, precipitation, shadows and the
lens, and once without any of tone, sensor, glass and light. Every family but a moved camera is so judged by a network that never saw its
group. All seeds run side by side as processes; FOLDER/repair.json has every outcome, FOLDER/table.md the table over seeds.
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
from skidpad.repairs.outcome import written
from skidpad.repairs.runs import repair_run
from skidpad.repairs.search import SearchSettings
from skidpad.runs.folder import Run
from skidpad.statistics.intervals import student_mean
from skidpad.subjects.description import Crop, History, HistoryKind
from skidpad.subjects.loading import load_network
from skidpad.subjects.training.fitting import TrainingSettings
from skidpad.subjects.training.training import train
from skidpad.subjects.zoo import ARCHITECTURES

FOLDS = {
    "without-air": ("atmosphere", "precipitation", "shadows", "lens"),
    "without-camera": ("tone", "sensor", "glass", "light"),
}
TESTED = (
    "exposure(ev=-2.5)",
    "exposure(ev=2)",
    "dusk(illuminance_lx=20)",
    "sensor-noise(iso=12800)",
    "lens-dirt(share=0.4)",
    "fog(visibility_m=80)",
    "rain(mm_per_h=30)",
    "motion-blur(shutter_ms=60)",
    "cast-shadows(share=0.5)",
)
"""What each network is tested under before its repair, so that there are findings."""


def one(args: argparse.Namespace, seed: int) -> None:
    """Trains, tests and repairs the network of one seed."""
    begun = time.monotonic()

    def said(what: str) -> None:
        print(f"{args.network} {seed}: {what} after {time.monotonic() - begun:.0f} s", flush=True)

    out = Path(args.out) / f"{args.network}-{seed}"
    out.mkdir(parents=True, exist_ok=True)
    drive = open_drive(args.drive)
    spec = None
    if args.network == "chauffeur":  # of half the size, and two seconds of memory
        spec = replace(
            ARCHITECTURES.get("chauffeur").input, width_px=160, height_px=60, crop=Crop(top=0.5), history=History(20, HistoryKind.RECURRENT)
        )
    if not (out / "net.toml").exists():
        settings = TrainingSettings(epochs=args.train_epochs, patience=10, seed=seed, device=args.device)
        train(args.network, open_drive(f"{args.drive}?to=0.6"), out / "net", settings, spec=spec)
    said("trained")
    if not (out / "run").exists():
        sp.test(out / "net.toml", drive, list(TESTED), sp.SteersAlike(within_deg=10), out=out / "run", device=args.device, criteria=())
    said("tested")
    for fold, unseen in FOLDS.items():
        if fold not in args.folds.split(","):
            continue
        settings = SearchSettings(
            families=tuple(families()),
            unseen=unseen,
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
            seed=seed,
            device=args.device,
        )
        if not (out / fold / "repair.json").exists():
            network = load_network(out / "net.toml", args.device)
            outcome = repair_run(network, Run.open(out / "run"), out / fold, settings)
            written(outcome, out / fold)
        said(f"repaired {fold}")


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
    parser.add_argument("--ways", default="findings,random,consistency,mix")
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
    parser.add_argument("--one", type=int)
    parser.add_argument("--gather", action="store_true", help="only write the table of what is there")
    args = parser.parse_args()
    if args.gather:
        gathered(args)
        return
    if args.one is not None:
        one(args, args.one)
        return
    tasks = [(seed, fold) for seed in args.seeds.split(",") for fold in args.folds.split(",")]
    Path(args.out).mkdir(parents=True, exist_ok=True)
    # The first fold of a seed trains and tests its network; the second begins when that is there.
    firsts = [[sys.executable, __file__, *sys.argv[1:], "--one", seed, "--folds", "none"] for seed in args.seeds.split(",")]
    for batch in (firsts, [[sys.executable, __file__, *sys.argv[1:], "--one", seed, "--folds", fold] for seed, fold in tasks]):
        running = [subprocess.Popen(command) for command in batch]
        if any(process.wait() for process in running):
            print("a seed failed", flush=True)
    gathered(args)


if __name__ == "__main__":
    main()
