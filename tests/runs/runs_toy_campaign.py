"""A toy campaign of two phases on NumPy alone; also a program that can be killed: `runs_toy_campaign.py RUN [PAUSE_AFTER]`.

The phase `mutants` has independent shards; each shard of `guided` builds on the coverage of those before it.
"""

import sys
from pathlib import Path

import numpy as np

from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params, Recipe
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.kinds.shards import one_by_one, run_shards
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ShardResult, build_records

NEURONS = 4096
SHARDS = {"guided": 40, "mutants": 40}
MANIFEST = Manifest({"skidpad": "0"}, "toy", "cpu", 7, {"subject": "ab", "drive": "cd"}, ("toy",), "2020-01-01T00:00:00+00:00")


def shard(phase, index, carried=None, rows=20):
    """Computes a shard from its phase and index alone, and the coverage carried where there is one."""
    rng = child_rng(7, phase, index)
    fresh = rng.random(NEURONS) < 0.01
    covered = fresh if carried is None else fresh | carried
    angles = rng.normal(size=(3, rows))
    excess = rng.exponential(size=rows) + (0.0 if carried is None else carried.mean())
    violated = excess > 1.0
    recipes = [Recipe.of("turn", Params(angle_deg=float(rng.normal()))) for _ in range(rows)]
    records = build_records(
        frame_index=np.arange(rows) + index * rows,
        frame_ids=[f"{phase}/frame {index * rows + row} é.jpg" for row in range(rows)],
        recipes=recipes,
        label=angles[0],
        original=angles[1],
        mutant=angles[2],
        excess=excess,
        violated=violated,
        active_neurons=np.full(rows, int(covered.sum())),
        picture=[f"{index:016x}" if bad else None for bad in violated],
    )
    problems = (Problem(ProblemKind.CORRUPT, f"broken {index}", "cut off"),) if index % 9 == 0 else ()
    return ShardResult(phase, index, records, {"NC": np.packbits(covered).tobytes()}, problems)


def unpack(data):
    return np.unpackbits(np.frombuffer(data, np.uint8)).astype(bool)


def merged(run, phase, before=None):
    return run.coverage(phase, unpack, np.logical_or, before).get("NC", np.zeros(NEURONS, bool))


def campaign(run, progress=lambda done, total, note="": None, shards=SHARDS):
    """Runs or resumes both phases."""
    with run.lock():
        run_shards(run, "mutants", shards["mutants"], one_by_one(lambda index: shard("mutants", index)), progress)
        guided = one_by_one(lambda index: shard("guided", index, merged(run, "guided", index)))
        run_shards(run, "guided", shards["guided"], guided, progress)
        run.finish(shards)


def make(path, config=None):
    return Run.create(path, {"toy": True} if config is None else config, MANIFEST)


def main():
    path = Path(sys.argv[1])
    pause_after = int(sys.argv[2]) if len(sys.argv) > 2 else None
    calls = 0

    def progress(done, total, note=""):
        nonlocal calls
        calls += 1
        if calls == pause_after:
            sys.stdin.read()  # nobody writes: here the program waits to be killed, however late the killer comes

    campaign(Run.open(path), progress)


if __name__ == "__main__":
    main()
