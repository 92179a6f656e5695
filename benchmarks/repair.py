"""Repairs networks that were trained on the first 60 % of a drive, and judges them on the rest under families that no training saw.

python benchmarks/repair.py DRIVE --network pilotnet --seeds 0,1,2 --out FOLDER --device cuda

For each seed a network is trained and repaired twice: once without any condition of the air, precipitation, shadows and the
lens, and once without any of tone, sensor, glass and light. Every family but a moved camera is so judged by a network that never saw its
group. The network sees the first 51 %, and the 9 % after them choose the repair, so that they flatter neither it nor a repair. Pictures
are rendered once for all seeds, and --jobs processes run side by side. FOLDER/repair.json has every outcome, FOLDER/table.md the table over
seeds, FOLDER/ways.md how every candidate, chosen or not, fares on the last 40 %, and FOLDER/candidates.md how it fares on the stretch that
chooses. The same command continues after an interruption.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import skidpad as sp
from skidpad.drives import open_drive
from skidpad.repairs.families import Families, families
from skidpad.repairs.outcome import check_folder, search, written
from skidpad.repairs.plan import CLEAN, UNSEEN_SET, Candidate, SearchSettings, Task, Way
from skidpad.repairs.search import Repairs
from skidpad.repairs.source import referee_of
from skidpad.runs.workers.here import pinned
from skidpad.statistics.intervals import student_mean
from skidpad.subjects.inputs import Crop, Equalise, History, HistoryKind, InputSpec
from skidpad.subjects.loading import load_network
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.fitting import TrainingSettings
from skidpad.subjects.training.training import train
from skidpad.subjects.zoo import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.core.images import FloatArray

FOLDS = {
    "without-air": ("atmosphere", "precipitation", "shadows", "lens"),
    "without-camera": ("tone", "sensor", "glass", "light"),
}

_DEFAULTS = SearchSettings()

NETWORKS = ("before", "control", "repaired")

PICTURES_OF_A_PROCESS = {"random": 600, "looks": 2000, "validation": 2000}
"""How many pictures of a set are work for one process, so that none takes much longer than another; each other set is small and takes
one process."""

Judged = dict[str, dict[str, dict[str, float]]]
"""Networks, their sets of pictures, and the figures of each."""


def net_folder(args: argparse.Namespace, seed: int) -> Path:
    """Where the network of a seed is."""
    return Path(args.out) / f"{args.network}-{seed}"


def spec_of(args: argparse.Namespace) -> InputSpec | None:
    """Returns the input of the network; a recurrent one sees smaller and fewer pictures, so that three fit beside one another."""
    if args.network != "chauffeur":
        return None
    usual = ARCHITECTURES.get("chauffeur").input
    width, height, frames = map(int, args.window.split("x"))
    equalise = Equalise() if args.equalise else None
    history = History(frames, HistoryKind.RECURRENT)
    return replace(usual, width_px=width, height_px=height, crop=Crop(top=0.5), history=history, equalise=equalise)


def train_one(args: argparse.Namespace, seed: int) -> None:
    """Trains the network of one seed on the first 51 % of the drive: without the stretch on which repairs are chosen."""
    out = net_folder(args, seed)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "net.toml").exists():
        settings = TrainingSettings(epochs=args.train_epochs, patience=10, seed=seed, device=args.device)
        first, _ = open_drive(args.drive).split(_DEFAULTS.train_share)
        seen, _ = first.split(1.0 - _DEFAULTS.validation_share)
        train(args.network, seen, out / "net", settings, spec=spec_of(args))
    subject = load_network(out / "net.toml", args.device)
    for fold in args.folds.split(","):  # before two processes share a folder
        if not (out / fold / "repair.json").exists():
            task, repair = repairs_of(args, subject, fold, args.device)
            check_folder(task, out / fold, repair)


def unseen_of(fold: str) -> tuple[str, ...]:
    """Names the conditions that a fold never trains on."""
    return Families.of((), FOLDS[fold]).unseen


def settings_of(args: argparse.Namespace, fold: str, device: str) -> SearchSettings:
    """Returns how a network is repaired in a fold."""
    return SearchSettings(
        families=tuple(families()),
        unseen=FOLDS[fold],
        judged=unseen_of(fold) if args.unseen_only else (),
        ways=tuple(args.ways.split(",")),
        strengths=tuple(float(each) for each in args.strengths.split(",")),
        repaints=args.repaints,
        looks_each=args.looks_each,
        pictures=args.pictures,
        judged_frames=args.judged_frames,
        epochs=args.epochs,
        patience=args.epochs,
        learning_rate=args.learning_rate,
        learning_rates=tuple(float(each) for each in args.learning_rates.split(",") if each),
        mirror_choice=args.mirror_choice,
        batch_size=args.batch_size,
        weathers=tuple(filter(None, args.weathers.split(","))),
        train_weathers=tuple(filter(None, args.train_weathers.split(","))),
        seeds=1,
        device=device,
        half=args.half,
    )


def repairs_of(args: argparse.Namespace, subject: NetworkSubject, fold: str, device: str) -> tuple[Task, SearchSettings]:
    """Returns what is repaired and how; all seeds are shown the same pictures."""
    pool = Path(args.out) / "pools" / args.network
    task = Task(subject=subject, drive=open_drive(args.drive), relation=sp.SteersAlike(within_deg=10), judge=referee_of("cpu"), pool=pool)
    return task, settings_of(args, fold, device)


def render_one(args: argparse.Namespace, fold: str, name: str, part: int, parts: int) -> None:
    """Renders a share of one set of pictures; a network that was never trained stands in, since nobody asks it."""
    zoo = ARCHITECTURES.get(args.network)
    description = zoo.describe("stand-in", "none", spec_of(args))
    subject = NetworkSubject.of_module(zoo.build(description.input), description)
    task, settings = repairs_of(args, subject, fold, "cpu")
    repairs = Repairs(task, Path(args.out) / "none", settings, share=(part, parts))
    with pinned():
        if name in {"random", "looks", "validation"}:
            getattr(repairs, name)
        else:
            repairs.judged_set(name, repairs.judged_recipes[name])


def candidates_of(args: argparse.Namespace) -> list[Candidate]:
    """Returns every candidate, and the control of each; those that take longest come first."""
    settings = settings_of(args, next(iter(FOLDS)), args.device)
    found = settings.candidates(settings.ways)
    return sorted(dict.fromkeys([*found, *(each.control for each in found)]), key=lambda each: -each.strength)


def candidate_one(args: argparse.Namespace, seed: int, fold: str, name: str) -> None:
    """Trains one candidate or control of one seed and fold, in a process of its own."""
    subject = load_network(net_folder(args, seed) / "net.toml", args.device)
    task, settings = repairs_of(args, subject, fold, args.device)
    candidate = next(each for each in candidates_of(args) if each.name == name)
    Repairs(task, net_folder(args, seed) / fold, settings).train(candidate)


def repair_one(args: argparse.Namespace, seed: int, fold: str) -> None:
    """Repairs the network of one seed in one fold."""
    out = net_folder(args, seed) / fold
    if not (out / "repair.json").exists():
        subject = load_network(net_folder(args, seed) / "net.toml", args.device)
        task, settings = repairs_of(args, subject, fold, args.device)
        outcome = search(task, out, settings)
        repairs = Repairs(task, out, settings)
        best = next((each for each in outcome.candidates if each.candidate.name == outcome.recommended), None)
        control = repairs.train((best or outcome.candidates[0]).candidate.control)
        judged = {"before": repairs.rates(subject.module), "control": repairs.rates(repairs.module_of(control))}
        judged["repaired"] = judged["before"] if best is None else repairs.rates(repairs.module_of(best))
        judged |= {each.candidate.name: repairs.rates(repairs.module_of(each)) for each in outcome.candidates}
        rates = {name: {key: asdict(rate) for key, rate in found.items()} for name, found in judged.items()}
        (out / "judged.json").write_text(json.dumps(rates))
        written(outcome, out)


def sets_of(args: argparse.Namespace, fold: str) -> list[str]:
    """Names the sets of pictures of a fold."""
    weathers = [f"weather:{each}" for each in args.weathers.split(",") if each]
    # looks and weathers are the same in every fold
    shared = (
        [*(["looks"] if any(Way(way).has_looks for way in args.ways.split(",")) else []), *weathers]
        if fold == args.folds.split(",")[0]
        else []
    )
    return [
        *([] if args.unseen_only else ["seen families"]),  # the longest first
        "validation",
        *shared,
        "random",
        *(f"unseen: {group}" for group in FOLDS[fold]),
    ]


def rendered_by(args: argparse.Namespace, name: str) -> int:
    """Returns how many processes render a set of pictures."""
    pictures = args.pictures * (args.looks_each if name == "looks" else 1)
    return max(1, round(pictures / PICTURES_OF_A_PROCESS.get(name, pictures)))


def _together(found: Sequence[Judged], network: str, names: Sequence[str]) -> float:
    rates = [each[network][name] for each in found for name in names]
    return sum(rate["failures"] for rate in rates) / max(sum(rate["pictures"] for rate in rates), 1)


def gathered(args: argparse.Namespace) -> None:
    """Writes what all seeds brought, and the tables; where no repair was recommended, the network counts as it was."""
    listed(args)
    folders = {(seed, fold): net_folder(args, int(seed)) / fold for seed in args.seeds.split(",") for fold in args.folds.split(",")}
    done = {key: folder for key, folder in folders.items() if (folder / "judged.json").exists() and (folder / "repair.json").exists()}
    outcomes = {key: json.loads((folder / "repair.json").read_text()) for key, folder in done.items()}
    judged = {key: json.loads((folder / "judged.json").read_text()) for key, folder in done.items()}
    Path(args.out, "repair.json").write_text(json.dumps({"/".join(key): [outcomes[key], judged[key]] for key in done}))
    lines = ["| pictures | before | control | repaired | change | beyond control |", "| --- | --- | --- | --- | --- | --- |"]
    ways = ["| candidate | clean RMSE over before | unseen families | over before | learned weathers | over before |", "| --- " * 6 + "|"]
    for fold in args.folds.split(","):
        mine = {key: found for key, found in judged.items() if key[1] == fold}
        if not mine:
            continue
        blends = [_named(outcomes[key]) for key in mine]
        lines.append(f"| **{fold}**, recommended: {', '.join(blends)} | | | | | |")
        sets = next(iter(mine.values()))["before"]
        weathers = [name for name in sets if name.startswith("weather:")]
        lines.append(_row("clean RMSE (rad)", [[each[network][CLEAN]["rmse_rad"] for each in mine.values()] for network in NETWORKS]))
        groups = {name: [name] for name in sets if name != CLEAN} | ({"learned weathers": weathers} if weathers else {})
        for name, members in groups.items():
            lines.append(_row(name, [[_together([each], network, members) for each in mine.values()] for network in NETWORKS]))
        for name in [key for key in next(iter(mine.values())) if key not in NETWORKS]:
            found = [each for each in mine.values() if name in each]
            clean = student_mean([each[name][CLEAN]["rmse_rad"] / each["before"][CLEAN]["rmse_rad"] - 1.0 for each in found])
            cells = [f"{clean.estimate:+.1%}"]
            for members in ([UNSEEN_SET], weathers):
                rate = np.array([[_together([each], network, members) for each in found] for network in (name, "before")])
                cells += [f"{rate[0].mean():.2%}", f"{np.mean(rate[0] / np.maximum(rate[1], 1e-9)) - 1.0:+.0%}"]
            ways.append(f"| {fold}, {name} | {' | '.join(cells)} |")
    whole = {
        seed: [judged[seed, fold] for fold in args.folds.split(",")]
        for seed in args.seeds.split(",")
        if all((seed, fold) in judged for fold in args.folds.split(","))
    }
    if whole:
        lines.append("| **both folds** | | | | | |")
        folds = list(whole.values())
        clean = [[float(np.mean([each[network][CLEAN]["rmse_rad"] for each in pair])) for pair in folds] for network in NETWORKS]
        lines.append(_row("clean RMSE (rad)", clean))
        weathers = [name for name in folds[0][0]["before"] if name.startswith("weather:")]
        for name, members in {"unseen families": [UNSEEN_SET], "learned weathers": weathers}.items():
            lines.append(_row(name, [[_together(pair, network, members) for pair in folds] for network in NETWORKS]))
    Path(args.out, "table.md").write_text("\n".join(lines) + "\n")
    Path(args.out, "ways.md").write_text("\n".join(ways) + "\n")


def listed(args: argparse.Namespace) -> None:
    """Writes how every candidate that is trained so far fares on the stretch that chooses, whether or not its repair is finished."""
    figures = {
        "clean RMSE (rad)": "clean_rmse_rad",
        "mutants that fail": "failure_rate",
        "moved by (rad)": "stressed_rms_rad",
        "response": "response",
        "best epoch": "best_epoch",
        "blend": "blend",
    }
    lines = [f"| network, fold | candidate | {' | '.join(figures)} |", "| --- " * (2 + len(figures)) + "|"]
    for seed in args.seeds.split(","):
        for fold in args.folds.split(","):
            out = net_folder(args, int(seed)) / fold
            made = [json.loads(path.read_text()) for path in sorted((out / "candidates").glob("*.json"))]
            if (out / "repair.json").exists():
                made.insert(0, json.loads((out / "repair.json").read_text())["before"])
            for each in made:
                cells = [format(each[figure] if each[figure] is not None else nan, ".4g") for figure in figures.values()]
                lines.append(f"| {seed}, {fold} | {_file(each['candidate'])} | {' | '.join(cells)} |")
    Path(args.out, "candidates.md").write_text("\n".join(lines) + "\n")


def _named(outcome: dict[str, Any]) -> str:
    best = next((each for each in outcome["candidates"] if outcome["recommended"] == _file(each["candidate"])), None)
    return "none" if best is None else f"{outcome['recommended']} at {best['blend']:g}"


def _file(candidate: dict[str, Any]) -> str:
    return Candidate(**candidate).name


def _row(name: str, values: list[list[float]]) -> str:
    """Returns a row over seeds. A change is that of the means, since a mean of ratios of few failures hangs on the smallest."""
    before, control, repaired = (np.array(each, float) for each in values)
    said = "{:.4f} ({:.4f} to {:.4f})" if "RMSE" in name else "{:.2%} ({:.2%} to {:.2%})"
    cells = [said.format(found.estimate, max(0.0, found.low), found.high) for found in map(student_mean, (before, control, repaired))]
    cells += ["{:+.0%} ({:+.0%} to {:+.0%})".format(*changed(other, repaired)) for other in (before, control)]
    return f"| {name} | {' | '.join(cells)} |"


def changed(first: FloatArray, after: FloatArray) -> tuple[float, float, float]:
    """Returns by what share the mean changed, with the ratio estimator's interval: Student's t of the seeds' residuals, cut at -100 %."""
    if not first.mean():
        return nan, nan, nan
    ratio = after.mean() / first.mean()
    half = student_mean(after - ratio * first).high / first.mean()  # the residuals' mean is 0
    return ratio - 1.0, max(ratio - half, 0.0) - 1.0, ratio + half - 1.0


def run_parts(names: Sequence[str], jobs: int) -> None:
    """Runs parts in this order, each as a process, and at most `jobs` at a time."""
    waiting, running, failed = list(names), dict[str, "subprocess.Popen[bytes]"](), list[str]()
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            running[name] = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--part", name])
        for name in [each for each, process in running.items() if process.poll() is not None]:
            if running.pop(name).returncode:
                failed.append(name)
        time.sleep(0.05)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)


def main() -> None:
    """Starts the processes, or is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("drive")
    parser.add_argument("--network", default="pilotnet")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--folds", default=",".join(FOLDS))
    parser.add_argument("--ways", default="mix,looks,answers")
    parser.add_argument("--strengths", default="1,3")
    parser.add_argument("--repaints", type=float, default=_DEFAULTS.repaints, help="share of random looks that begin with a repaint")
    parser.add_argument("--looks-each", type=float, default=_DEFAULTS.looks_each, help="random looks for each random stimulus")
    parser.add_argument("--pictures", type=int, default=8000)
    parser.add_argument("--judged-frames", type=int, default=12)
    parser.add_argument("--train-epochs", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--learning-rates", default="", help="learning rates to try, separated by commas, in place of --learning-rate")
    parser.add_argument("--mirror-choice", action="store_true", help="measure clean error and response on mirrored frames, too, to choose")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--weathers", default="night,rain")
    parser.add_argument("--train-weathers", default="", help="learned weathers that are trained on")
    parser.add_argument("--unseen-only", action="store_true", help="judge no families that were trained on")
    parser.add_argument("--window", default="160x60x20", help="what a recurrent network sees: width, height and how many frames")
    parser.add_argument("--equalise", action="store_true", help="even out the histogram of the brightness of what a recurrent network sees")
    parser.add_argument("--half", action="store_true", help="train the repairs in bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time; by default one for each core")
    parser.add_argument("--out", required=True)
    parts_are = "train/SEED, render/FOLD/SET/PART/PARTS, candidate/SEED/FOLD/NAME, repair/SEED/FOLD or gather"
    parser.add_argument("--part", default="", help=f"{parts_are}: one part of the work")
    args = parser.parse_args()
    kind, *words = args.part.split("/")
    parts = {
        "train": lambda seed: train_one(args, int(seed)),
        "render": lambda fold, name, part, parts: render_one(args, fold, name, int(part), int(parts)),
        "candidate": lambda seed, fold, name: candidate_one(args, int(seed), fold, name),
        "repair": lambda seed, fold: repair_one(args, int(seed), fold),
        "gather": lambda: gathered(args),
    }
    if kind:
        begun = time.monotonic()
        parts[kind](*words)
        print(f"{args.network} {args.part}: {time.monotonic() - begun:.0f} s", flush=True)
        return
    seeds, folds = args.seeds.split(","), args.folds.split(",")
    pictures = [(fold, name, rendered_by(args, name)) for fold in folds for name in sets_of(args, fold)]
    rounds = [
        [
            *(f"train/{seed}" for seed in seeds),
            *(f"render/{fold}/{name}/{part}/{parts}" for fold, name, parts in pictures for part in range(parts)),
        ],
        [f"candidate/{seed}/{fold}/{each.name}" for each in candidates_of(args) for seed in seeds for fold in folds],
        [f"repair/{seed}/{fold}" for seed in seeds for fold in folds],
    ]
    Path(args.out).mkdir(parents=True, exist_ok=True)
    for names in rounds:
        run_parts(names, args.jobs)
        gathered(args)


if __name__ == "__main__":
    main()
