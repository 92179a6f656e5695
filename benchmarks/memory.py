"""How the memory of a DeepTest campaign grows when its drive gets ten times longer.

The drive repeats a few frames, read lazily as from a disk, under few transforms; each length runs in a process of its own,
and its peak of resident memory (the most physical memory it ever held) is what the system kept count of.
memory_growth_mb is the peak of the long drive less the peak of the short one; it should be near the few bytes a frame that
ids, labels and answers need, and far below one batch of frames.

Run: python benchmarks/memory.py [--quick] [--frames 200]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from skidpad.campaigns.deeptest import DeepTest
from skidpad.campaigns.settings import DeepTestSettings
from skidpad.campaigns.summary import summarise
from skidpad.core.images import NumpyFrames
from skidpad.drives import open_drive
from skidpad.drives.drive import Drive
from skidpad.subjects.loading import load_subject
from skidpad.subjects.pretrained import pretrained
from skidpad.transforms import stimuli

TRANSFORMS = ("brightness", "rotation")
DISTINCT = 16
LONGER = 10


@dataclass(frozen=True, eq=False)
class Repeating:
    """A source that gives the same few frames over and over, each time as a fresh copy, as decoding does."""

    frames: NumpyFrames

    def read(self, index: int) -> NumpyFrames:
        """Copies a frame."""
        frame: NumpyFrames = self.frames[index % len(self.frames)].copy()
        return frame

    def fingerprint(self, index: int) -> str:
        """Names the frame."""
        return f"repeating {index % len(self.frames)}"


def repeating_drive(count: int, height_px: int) -> Drive:
    """Makes a drive of `count` frames, 320 wide, out of a few rendered ones."""
    seen = open_drive(f"rendered?frames={DISTINCT}&seed=7&width=320&height={height_px}").read(range(DISTINCT))
    places = np.arange(count)
    ids = tuple(f"{place:09d}" for place in places.tolist())
    return Drive("repeating", ids, seen.steering_rad[places % DISTINCT], places / 20.0, Repeating(seen.frames))


def campaign(frames: int, height_px: int, shard_frames: int) -> None:
    """Runs one campaign and prints its peak, as JSON."""
    settings = DeepTestSettings(
        subject=str(pretrained("pilotnet-rendered")),
        drive="repeating",
        transforms=TRANSFORMS,
        relation="steers-alike",
        tolerance=10.0,
        shard_frames=shard_frames,
    )
    drive = repeating_drive(frames, height_px)
    job = DeepTest(settings, load_subject(settings.subject), drive, stimuli(TRANSFORMS))
    before = peak_mb()
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        run = job.start(Path(folder) / "run")
        job.execute(run)
        executed = peak_mb()
        summary = summarise(run, job.blank_tracker(None))
    seconds = time.perf_counter() - started
    images = summary.originals + summary.overall.cases
    print(json.dumps({"images": images, "loaded": before, "executed": executed, "summarised": peak_mb(), "seconds": seconds}))


def peak_mb() -> float:
    """Returns the most memory that this process ever held, in MB."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / 1e6 if sys.platform == "darwin" else held * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of a campaign over a drive and over one ten times as long.")
    parser.add_argument("--quick", action="store_true", help="few and small frames: does it run?")
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--only", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    height_px, shard_frames, frames = (80, 4, 8) if given.quick else (240, 64, given.frames)
    if given.only:
        campaign(given.only, height_px, shard_frames)
        return
    peaks = []
    print(f"{'frames':>8}{'images':>9}{'seconds':>9}{'loaded, MB':>12}{'executed, MB':>14}{'summarised, MB':>16}")
    for count in (frames, LONGER * frames):
        command = [sys.executable, __file__, "--only", str(count), *(["--quick"] if given.quick else [])]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        seen = json.loads(done.stdout.splitlines()[-1])
        peaks.append(seen["summarised"])
        print(f"{count:8}{seen['images']:9}{seen['seconds']:9.1f}{seen['loaded']:12.1f}{seen['executed']:14.1f}{seen['summarised']:16.1f}")
    figures = {"memory_growth_mb": peaks[1] - peaks[0], "peak_mb": peaks[1], "frames": LONGER * frames}
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
