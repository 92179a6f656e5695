"""How long the page takes over a run of 100,000 findings: the first screen, and one filter after another.

The run is made up: findings of all nine transforms' grids, without a network, in segments as a campaign writes them. The page is asked
over HTTP on this machine, as a browser would. What a user would otherwise do is a script: read the segments with pyarrow, filter and
sort, and print the first rows; it is timed on the same questions in turn with the page, and every figure is the median of its rounds.
Beside the time on the clock stands the time of the processors, of server and asking together: on a quiet machine the clock shows less.

Run: python benchmarks/page.py [--quick] [--findings 100000] [--segments 25]
"""

from __future__ import annotations

import argparse
import http.client
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.stimuli import grid_recipes
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ShardResult, build_records
from skidpad.stimuli.pictures import stimuli
from skidpad.ui.app import HOST, bound_socket, make_app, server_of
from skidpad.ui.library import Library, RunsFolder

FILTERS = {
    "words in any column": "q=0042",
    "one transform": "is.stimulus=deeptest-rain",
    "one transform, by answer": "is.stimulus=deeptest-fog&sort=mutant",
    "excess from 5": "over=5",
    "by frame, page 400": "sort=frame_index&page=400",
    "not tagged": "tag=untagged&q=blur",
}


def make_run(path: Path, findings: int, segments: int) -> Run:
    """Makes up a run whose every case is a finding."""
    recipes = grid_recipes(stimuli(None))
    rng = np.random.default_rng(0)
    config = {"campaign": "deeptest", "subject": "net.toml", "drive": "rendered?frames=64", "unit": "rad", "relation": "steers-alike"}
    run = Run.create(path, config, Manifest.collect(device="cpu", seed=0, hashes={}, command=("benchmark",)))
    edges = np.linspace(0, findings, segments + 1).round().astype(int)
    with run.lock():
        for shard, (first, last) in enumerate(pairwise(edges.tolist())):
            places = np.arange(first, last)
            count = len(places)
            excess = 1.001 + rng.exponential(2.0, count)
            original = rng.normal(0.0, 0.1, count)
            records = build_records(
                frame_index=places // len(recipes),
                frame_ids=[f"{place // len(recipes):06d}.jpg" for place in places.tolist()],
                recipes=[recipes[place % len(recipes)] for place in places.tolist()],
                label=np.full(count, np.nan),
                original=original,
                mutant=original + 0.17 * excess,
                excess=excess,
                violated=np.ones(count, np.bool_),
                active_neurons=rng.integers(0, 1000, count),
                picture=[f"{value:016x}" for value in rng.integers(0, 2**62, count).tolist()],
            )
            run.commit(ShardResult("grid", shard, records))
        run.finish({"grid": segments})
    return run


def by_script(run: Run, question: str) -> list[dict[str, object]]:
    """Answers a question as a script would, from the segments."""
    asked = dict(part.split("=") for part in question.split("&"))
    names = ["case_id", "frame_index", "frame_id", "stimulus", "recipe", "original", "mutant", "excess", "violated", "picture"]
    table = run.records(columns=names)
    table = table.filter(table["violated"])
    if "q" in asked:
        texts = [table[name] for name in ("case_id", "frame_id", "stimulus", "recipe", "picture")]
        hits = [pc.match_substring(text, asked["q"]) for text in texts]
        table = table.filter(pc.or_(hits[0], pc.or_(hits[1], pc.or_(hits[2], pc.or_(hits[3], hits[4])))))
    if "is.stimulus" in asked:
        table = table.filter(pc.equal(table["stimulus"], asked["is.stimulus"]))
    if "over" in asked:
        table = table.filter(pc.greater_equal(table["excess"], pa.scalar(float(asked["over"]))))
    order = "ascending" if "sort" in asked else "descending"
    first = 50 * int(asked.get("page", "0"))
    rows: list[dict[str, object]] = table.sort_by([(asked.get("sort", "excess"), order)]).slice(first, 50).to_pylist()
    return rows


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds on the clock and of the processors."""

    clock_s: float
    cpu_s: float


def middle(times: Sequence[Took]) -> Took:
    """Returns the median of each."""
    return Took(median(each.clock_s for each in times), median(each.cpu_s for each in times))


def fetched(port: int, address: str) -> Took:
    """Asks the page, which must answer."""
    begin, worked = perf_counter(), process_time()
    connection = http.client.HTTPConnection(HOST, port)
    connection.request("GET", address)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{address} answers {answer.status}: {text[:200]}")
    return Took(perf_counter() - begin, process_time() - worked)


def measured(root: Path, run: Run, rounds: int) -> tuple[dict[str, Took], dict[str, tuple[Took, Took]]]:
    """Returns what the first screens took, each of a fresh server, and every filter by page and by script."""
    screens: dict[str, list[Took]] = {"list of runs": [], "findings, first time": [], "findings, again": []}
    filters: dict[str, tuple[list[Took], list[Took]]] = {name: ([], []) for name in FILTERS}
    for _ in range(rounds):
        with bound_socket(0) as taken, closing(Library(RunsFolder(root))) as library:
            server = server_of(make_app(library))
            thread = Thread(target=server.run, args=([taken],), daemon=True)
            thread.start()
            port = taken.getsockname()[1]
            key = library.folder.scan()[0].key
            fetched(port, "/static/page.css")  # answered once the server runs
            for name, address in zip(screens, ("/", f"/runs/{key}", f"/runs/{key}"), strict=True):
                screens[name].append(fetched(port, address))
            for name, question in FILTERS.items():
                filters[name][0].append(fetched(port, f"/runs/{key}/rows?{question}"))
                begin, worked = perf_counter(), process_time()
                by_script(run, question)
                filters[name][1].append(Took(perf_counter() - begin, process_time() - worked))
            server.should_exit = True
            thread.join()
    return {name: middle(times) for name, times in screens.items()}, {name: (middle(a), middle(b)) for name, (a, b) in filters.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="The page over a run of many findings.")
    parser.add_argument("--quick", action="store_true", help="few findings, one round: does it run?")
    parser.add_argument("--findings", type=int, default=100_000)
    parser.add_argument("--segments", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    findings, segments, rounds = (1000, 3, 1) if given.quick else (given.findings, given.segments, given.rounds)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        run = make_run(root / "run", findings, segments)
        screens, filters = measured(root, run, rounds)
    print(f"{findings} findings in {segments} segments, median of {rounds}")
    for name, took in screens.items():
        print(f"{name:28}{1000 * took.clock_s:8.0f} ms{1000 * took.cpu_s:8.0f} ms of the processors")
    print(f"\n{'filter':28}{'page':>11}{'cpu':>11}{'script':>11}{'cpu':>11}{'ratio':>8}")
    for name, (page, script) in filters.items():
        times = "".join(f"{1000 * each:8.0f} ms" for each in (page.clock_s, page.cpu_s, script.clock_s, script.cpu_s))
        print(f"{name:28}{times}{script.clock_s / page.clock_s:8.1f}")
    figures = {
        "findings": findings,
        "list_s": screens["list of runs"].clock_s,
        "first_screen_s": screens["findings, first time"].clock_s,
        "first_screen_cpu_s": screens["findings, first time"].cpu_s,
        "again_s": screens["findings, again"].clock_s,
        "worst_filter_s": max(page.clock_s for page, _ in filters.values()),
        "worst_filter_cpu_s": max(page.cpu_s for page, _ in filters.values()),
        "vs_script": median(script.clock_s / page.clock_s for page, script in filters.values()),
    }
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
