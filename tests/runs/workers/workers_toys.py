"""A performer without torch, so that a worker begins in a moment; and a program that can be interrupted, `main RUN WORKERS FREE`."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from skidpad.core.errors import BadRunError, SkidpadError
from skidpad.kinds.shards import run_shards, workers_of
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import SCHEMA, ShardResult

MANIFEST = Manifest({"skidpad": "0"}, "toy", "cpu", 7, {}, ("toy",), "2020-01-01T00:00:00+00:00")
SHARDS = 6


@dataclass(frozen=True)
class Toy:
    """Squares numbers, and does what goes wrong; folder: where marks are left of what has happened."""

    folder: Path
    hashes: dict

    def step(self, name, given):
        if name == "unprepared":
            raise BadRunError("this step cannot begin")
        return partial(getattr(self, name), given)

    def item_name(self, step, item):
        return f"{step} of {item}"

    def square(self, given, item, progress):
        progress(1, 2, f"half of {item}")
        return item * item + (0 if given is None else int(given[0]))

    def total(self, given, item, progress):
        return float(given.sum()) + item, given.flags.writeable, os.getpid()

    def breaks(self, given, item, progress):
        if item == given:
            raise BadRunError(f"item {item} is broken")
        return item

    def divides(self, given, item, progress):
        return 1 // item

    def dies(self, given, item, progress):
        """Kills its process at the items given: the first time, or always."""
        mark = self.folder / f"died-{item}"
        if item in given["always"] or (item in given["once"] and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    def shard(self, given, item, progress):
        """Computes a shard; those beyond `given` never end, until the mark `go` lets them."""
        (self.folder / f"begun-{item}-{os.getpid()}").touch()
        while item >= given and not (self.folder / "go").exists():
            time.sleep(0.01)
        return ShardResult("toy", item, SCHEMA.empty_table(), {"number": bytes([item])})


def load(folder, hashes=None):
    return Toy(Path(folder), {"toy": "1"} if hashes is None else hashes)


def fail_to_load():
    raise SkidpadError("nothing to load here")


def die_while_loading():
    os._exit(3)


def make(path):
    return Run.create(path, {"toy": True}, MANIFEST)


def execute(run, workers, free=SHARDS):
    """Computes the shards of the toy's run; those from `free` on wait for the mark `go` in the run's folder."""
    with run.lock(), workers.start(load(run.path), partial(load, str(run.path)), run.path / "state") as crew:
        run_shards(run, "toy", SHARDS, lambda indices: (result for _, result in crew.map("shard", free, indices)))
        run.finish({"toy": SHARDS})


def segments(path):
    return sorted(entry.name for entry in (path / "segments").glob("*.parquet"))


def workers_at_work(path):
    """The processes that have begun a shard and are still there."""
    pids = {int(entry.name.rpartition("-")[2]) for entry in path.glob("begun-*")}
    return {pid for pid in pids if Path(f"/proc/{pid}").exists() and "(zombie)" not in _state(pid)}


def _state(pid):
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "(zombie)"


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts jobs in the background ignores it
    try:
        execute(Run.open(Path(sys.argv[1])), workers_of(sys.argv[2]), int(sys.argv[3]))
    except SkidpadError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)


ARRAY = np.arange(1 << 18, dtype=np.float64)
"""Two mebibytes, which are shared rather than sent."""
