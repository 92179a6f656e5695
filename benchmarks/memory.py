"""How the memory of a DeepTest campaign grows when its drive gets ten times longer.

The drive repeats a few pictures, decoded anew each time as from a disk, under few transforms. Each length runs in a process of its own,
whose peak of resident memory the system has kept count of.
memory_growth_mb is the peak of the long drive less that of the short one. What may grow is some fifty bytes a frame for
ids, labels and answers; frames, activations and records may not.

Run: python benchmarks/memory.py [--quick] [--frames 200]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.summary import summarise
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.description import pretrained
from skidpad.subjects.loading import load_subject
from ways.drives import repeating_drive

LONGER = 10
TRANSFORMS = ("brightness", "rotation")


def peak_mb() -> float:
    """Returns the most physical memory that this process ever held."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / 1e6 if sys.platform == "darwin" else held * 1024 / 1e6


def run_campaign(frames: int, *, quick: bool) -> dict[str, float]:
    """Runs one campaign in this process and returns its peaks."""
    settings = DeepTestSettings(
        subject=str(pretrained("pilotnet-rendered")),
        drive="repeating",
        transforms=TRANSFORMS,
        relation="steers-alike",
        tolerance=10.0,
        shard_frames=4 if quick else 64,
    )
    drive = repeating_drive(frames, 320, 80 if quick else 240)
    campaign = DeepTest(settings, load_subject(settings.subject), drive, stimuli(TRANSFORMS))
    loaded_mb = peak_mb()
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        run = campaign.start(Path(folder) / "run")
        campaign.execute(run)
        executed_mb = peak_mb()
        summary = summarise(run, campaign.blank_tracker(None), campaign.judged)
    return {
        "images": summary.originals + summary.overall.cases,
        "seconds": time.perf_counter() - started,
        "loaded_mb": loaded_mb,
        "executed_mb": executed_mb,
        "summarised_mb": peak_mb(),
    }


def in_a_process(frames: int, *, quick: bool) -> dict[str, float]:
    """Runs one campaign in a process of its own and returns what it printed."""
    command = [sys.executable, __file__, "--frames", str(frames), "--one", *(["--quick"] if quick else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of a campaign over a drive and over one ten times as long.")
    parser.add_argument("--quick", action="store_true", help="few and small frames: does it run?")
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--one", action="store_true", help="this length alone, in this process; prints its peaks as JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run_campaign(given.frames, quick=given.quick)))
        return
    frames = 4 if given.quick else given.frames
    peaks = []
    print(f"{'frames':>8}{'images':>9}{'seconds':>9}{'loaded, MB':>12}{'executed, MB':>14}{'summarised, MB':>16}")
    for count in (frames, LONGER * frames):
        seen = in_a_process(count, quick=given.quick)
        print(
            f"{count:8}{seen['images']:9}{seen['seconds']:9.1f}"
            f"{seen['loaded_mb']:12.1f}{seen['executed_mb']:14.1f}{seen['summarised_mb']:16.1f}",
            flush=True,
        )
        peaks.append(seen["summarised_mb"])
    figures = {"memory_growth_mb": peaks[1] - peaks[0], "peak_mb": peaks[1], "frames": LONGER * frames}
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
