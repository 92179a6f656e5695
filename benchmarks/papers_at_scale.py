"""TACTIC and DeepRoad's Table 2 at the papers' scale, cut to minutes of one GPU; called again it goes on.

networks  dave-orig, dave-dropout and chauffeur of the zoo, trained on the first 60 % of the drive, side by side; rounded to half precision.
          Of four trainings of chauffeur the best by validation is taken
whole     TACTIC: one weather, every scene, four conditions under either criterion, (1+1)-ES beside random styles; a search ends after
          --tries (the paper: after 100 without anything better, which takes about 250)
share     TACTIC: ten repeats of (1+1)-ES, random styles and random search on --scenes of them, the same weather, guided by NBC, a search
          ends after --share-tries
table     DeepRoad: every network under every weather, every frame, the mean style of real pictures

Scenes that the referee does not keep count neither as errors nor as covered; how many of each condition there were stands in
FOLDER/refused.json, beside those of random styles. Every network goes through the parts by itself, with a process for each criterion and
each repeat, whose number is its seed, or with --processes that take them in turns; all share the GPU, so that one computes there while
another judges on the CPU. When the minutes are over, searches stop as they are, with tables of what is finished.

Run: python benchmarks/papers_at_scale.py --drive udacity:FOLDER --weather night --weather wet --weather snow --weather fog --out FOLDER
         --device cuda [--parts networks,whole,share,table] [--guides nbc,kmnc] [--processes 5] [--minutes 6] [--quick]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from safetensors.torch import load_file, save_file

from skidpad.drives import open_drive
from skidpad.kinds.pictures.styles.campaign import TacticSettings, condition_file, phase_name
from skidpad.kinds.pictures.styles.condition import Condition
from skidpad.kinds.pictures.weather.campaign import DeepRoadSettings
from skidpad.papers.deeproad import replication as deeproad
from skidpad.papers.tactic import replication as tactic
from skidpad.papers.tactic.tables import SearchCell, Searched
from skidpad.runs.folder import Run
from skidpad.stimuli.weather.files import load_weather
from skidpad.stimuli.weather.pretrained import weather_path

NETWORKS = ("dave-orig", "dave-dropout", "chauffeur")
EPOCHS = {"dave-orig": 30, "dave-dropout": 30, "chauffeur": 8}
SLOW = {"chauffeur": 2}
"""Networks that get so many times fewer tries: each answer looks at 100 frames."""
CANDIDATES = {"chauffeur": ((0, 1e-3), (1, 1e-3), (0, 3e-4), (1, 3e-4))}
"""Seeds and learning rates of networks whose training now and then ends at one answer to everything; the best by validation is taken."""
PARTS = ("networks", "whole", "share", "table")
SEARCHED = ("whole", "share")
GUIDES = {"whole": "nbc,kmnc", "share": "nbc"}
"""What guides the searches of a part."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="TACTIC and DeepRoad at scale.")
    parser.add_argument("--drive", default="", help="a few rendered frames unless given: does it run?")
    parser.add_argument("--weather", action="append", help="the first one is TACTIC's")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--network", action="append", help="of the zoo; may be repeated")
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--tries", type=int, default=30)
    parser.add_argument("--scenes", type=int, default=256)
    parser.add_argument("--share-tries", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--guides", default="", help="of both searches; whole: nbc,kmnc, and share: nbc unless given")
    parser.add_argument("--processes", type=int, default=0, help="of a network at a time; 0: one for each criterion and repeat")
    parser.add_argument("--minutes", type=float, default=0.0, help="from the beginning, until searches stop; 0: when all is done")
    parser.add_argument("--quick", action="store_true", help="a few frames: does it run?")
    parser.add_argument("--alone", default="", help="for the processes that this one starts")
    parser.add_argument("--ends", type=float, default=0.0, help="for them, the minutes as seconds since 1970")
    given = parser.parse_args()
    given.quick = given.quick or not given.drive
    given.network = given.network or list(NETWORKS[:1] if given.quick else NETWORKS)
    given.drive = given.drive or "rendered?frames=40&width=128&height=96"
    given.weather = given.weather or [str(weather_path("rain"))]
    given.out = given.out or Path(mkdtemp())
    if given.quick:
        given.epochs, given.tries, given.scenes, given.share_tries, given.repeats = 1, 2, 4, 2, 2
    return given


def network_file(given: argparse.Namespace, name: str) -> Path:
    return Path(given.out) / "networks" / f"{name}.toml"


def train(given: argparse.Namespace, name: str) -> None:
    """Trains a network that is not there yet, and rounds its weights so that they fit through a narrow gate."""
    file = network_file(given, name)
    if file.exists():
        return
    epochs = given.epochs or EPOCHS.get(name, 30)
    words = [sys.executable, "-m", "skidpad.cli.main", "train", name, f"{given.drive}{'&' if '?' in given.drive else '?'}to=0.6"]
    words += ["--epochs", str(epochs), "--patience", "8", "--device", given.device, "--json"]
    tried: list[Path] = []
    running = []
    for seed, rate in CANDIDATES.get(name, ((0, 1e-3),)):
        tried.append(file.parent / f"seed-{seed}-rate-{rate:g}" / name)
        own = [*words, "--seed", str(seed), "--learning-rate", str(rate), "--out", str(tried[-1])]
        running.append(subprocess.Popen(own, stdout=subprocess.DEVNULL))
    if sum(abs(process.wait()) for process in running):  # all of them are waited for
        raise SystemExit(f"a training of {name} failed")
    errors = [json.loads(out.with_suffix(".training.json").read_text())["validation_rmse_rad"] for out in tried]
    print(
        f"{name}: validation RMSE {', '.join(f'{out.parent.name} {error:.4f}' for out, error in zip(tried, errors, strict=True))}",
        flush=True,
    )
    best = tried[int(np.argmin(errors))]
    for suffix in (".safetensors", ".training.json", ".toml"):  # the description last, since it says that all is there
        best.with_suffix(suffix).replace(file.with_suffix(suffix))
    weights = file.with_suffix(".safetensors")
    state = load_file(weights)
    save_file({key: value.half() if value.is_floating_point() else value for key, value in state.items()}, weights)


def tactic_settings(given: argparse.Namespace, part: str, name: str = "", seed: int = 0) -> TacticSettings:
    whole = part == "whole"
    tries = given.tries if whole else given.share_tries
    return TacticSettings(
        subject="",
        drive=open_drive(given.drive).origin or given.drive,
        weather="",
        frames=(4 if given.quick else 0) if whole else given.scenes,
        conditions=2 if given.quick else 4,
        searches=("es", "random-styles") if whole else ("es", "random-styles", "random-search"),
        iterations=max(1, tries // SLOW.get(name, 1)),
        seed=seed,
        device=given.device,
    )


def search(given: argparse.Namespace, part: str, name: str, criterion: str, seed: int) -> None:
    minutes = (given.ends - time.time()) / 60.0 if given.ends else 0.0
    if minutes >= 0.0:
        own, settings = Path(given.out) / part / str(seed), tactic_settings(given, part, name, seed)
        tactic.replicate([str(network_file(given, name))], given.weather[:1], [criterion], settings, own, minutes)


def table(given: argparse.Namespace, name: str) -> None:
    settings = DeepRoadSettings(
        subject="",
        drive=open_drive(given.drive).origin or given.drive,
        weathers=tuple(str(Path(file).absolute()) for file in given.weather),
        style="mean" if load_weather(Path(given.weather[0]))[0].styles is not None else "random",
        device=given.device,
    )
    deeproad.replicate([str(network_file(given, name))], settings, Path(given.out) / "table", 4 if given.quick else 0)


def refused(given: argparse.Namespace) -> list[dict[str, object]]:
    """Counts, for every condition of every cell, the scenes that the referee does not keep."""
    found: list[dict[str, object]] = []
    for manifest in sorted(path for part in SEARCHED for path in (Path(given.out) / part).rglob("manifest.json")):
        run = Run.open(manifest.parent)
        settings = TacticSettings.from_config(run.config)
        subject, _, criterion = manifest.parent.parts[-3:]
        for search_name in settings.searches:
            phase = phase_name(search_name, 0)
            files = [run.path / "state" / condition_file(phase, number) for number in range(len(run.completed(phase)))]
            counts = [Condition.from_json(file.read_bytes()).refused for file in files]
            if counts:
                part, seed = manifest.parent.parts[-5:-3]
                row = {"part": part, "seed": seed, "subject": subject, "criterion": criterion, "search": search_name}
                found.append({**row, "conditions": len(counts), "mean_refused": float(np.mean(counts)), "refused": counts})
    return found


def alone(given: argparse.Namespace) -> None:
    part, name, jobs = given.alone.split("/")
    if part == "networks":
        train(given, name)
    elif part == "table":
        table(given, name)
    else:
        for job in jobs.split(","):
            criterion, seed = job.split(":")
            search(given, part, name, criterion, int(seed))


def jobs_of(given: argparse.Namespace, part: str) -> list[str]:
    """Returns what each process of a network does: for searches CRITERION:SEED, several behind commas."""
    if part not in SEARCHED:
        return [""]
    guides = (given.guides or GUIDES[part]).split(",")
    jobs = [f"{criterion}:{seed}" for criterion in guides for seed in range(given.repeats if part == "share" else 1)]
    processes = min(given.processes or len(jobs), len(jobs))
    return [",".join(jobs[first::processes]) for first in range(processes)]


def chain(given: argparse.Namespace, name: str) -> dict[str, float]:
    """Takes one network through the parts; returns the seconds of each."""
    seconds: dict[str, float] = {}
    words = [sys.executable, __file__, *sys.argv[1:], "--out", str(given.out), "--ends", str(given.ends), "--alone"]
    for part in given.parts.split(","):
        began = time.perf_counter()
        started = [subprocess.Popen([*words, f"{part}/{name}/{jobs}"]) for jobs in jobs_of(given, part)]
        failed = [process.returncode for process in started if process.wait()]
        seconds[part] = round(time.perf_counter() - began, 1)
        print(f"{name}, {part}: {seconds[part]:.1f} s{f'; FAILED: {failed}' if failed else ''}", flush=True)
    return seconds


def main() -> None:
    given = arguments()
    if given.alone:
        alone(given)
        return
    given.ends = time.time() + 60.0 * given.minutes if given.minutes else 0.0
    with ThreadPoolExecutor(len(given.network)) as chains:
        seconds = dict(zip(given.network, chains.map(lambda name: chain(given, name), given.network), strict=True))
    for part in SEARCHED:
        if (Path(given.out) / part).is_dir():
            together(given, part)
    (Path(given.out) / "refused.json").write_text(json.dumps(refused(given), indent=1) + "\n")
    (Path(given.out) / "seconds.json").write_text(json.dumps(seconds) + "\n")
    print(json.dumps({"seconds": seconds, "out": str(given.out)}))


def joined(repeats: list[Searched]) -> tuple[Searched, ...]:
    """Puts the repeats of each search together, which had a process each."""
    found: list[Searched] = []
    for search_name in dict.fromkeys(each.search for each in repeats if each.values):
        mine = [each for each in repeats if each.search == search_name and each.values]
        one = tuple(float(value) for value in np.mean([each.one for each in mine], axis=0))
        tries, seconds = (float(np.mean([getattr(each, name) for each in mine])) for name in ("tries", "seconds"))
        found.append(Searched(search_name, tuple(row for each in mine for row in each.values), one, tries, seconds))
    return tuple(found)


def together(given: argparse.Namespace, part: str) -> None:
    """Writes FOLDER/PART/tactic.json and .md of all cells that have a finished repeat, whichever process measured them."""
    folder = Path(given.out) / part
    cells = [SearchCell.from_json(path.read_text(encoding="utf-8"), str(path)) for path in sorted(folder.rglob("cell.json"))]
    alike: dict[tuple[str, ...], list[SearchCell]] = {}
    for cell in cells:
        alike.setdefault((cell.subject, cell.weather, cell.criterion), []).append(cell)
    cells = [replace(some[0], searches=joined([each for cell in some for each in cell.searches])) for some in alike.values()]
    answer = tactic.TacticReplication(tactic_settings(given, part), tuple(cells))
    (folder / "tactic.json").write_text(json.dumps(answer.payload(), indent=2) + "\n")
    (folder / "tactic.md").write_text(answer.markdown())
    print(answer.markdown(), flush=True)


if __name__ == "__main__":
    main()
