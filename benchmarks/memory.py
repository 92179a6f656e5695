"""How the memory of a DeepTest campaign grows when its drive gets ten times longer.

The drive repeats a few frames, read lazily as from a disk, under few transforms. Each length runs in a process of its own
(see `ways/repeating_campaign.py`), whose peak of resident memory the system has kept count of.
memory_growth_mb is the peak of the long drive less that of the short one. What may grow is some fifty bytes a frame for
ids, labels and answers; frames, activations and records may not.

Run: python benchmarks/memory.py [--quick] [--frames 200]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

JOB = Path(__file__).parent / "ways" / "repeating_campaign.py"
LONGER = 10


def peaks_of(frames: int, *, quick: bool) -> dict[str, float]:
    """Runs one campaign in a process of its own and returns what it printed."""
    command = [sys.executable, JOB, str(frames), *(["--quick"] if quick else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of a campaign over a drive and over one ten times as long.")
    parser.add_argument("--quick", action="store_true", help="few and small frames: does it run?")
    parser.add_argument("--frames", type=int, default=200)
    given = parser.parse_args()
    frames = 4 if given.quick else given.frames
    peaks = []
    print(f"{'frames':>8}{'images':>9}{'seconds':>9}{'loaded, MB':>12}{'executed, MB':>14}{'summarised, MB':>16}")
    for count in (frames, LONGER * frames):
        seen = peaks_of(count, quick=given.quick)
        print(
            f"{count:8}{seen['images']:9}{seen['seconds']:9.1f}"
            f"{seen['loaded_mb']:12.1f}{seen['executed_mb']:14.1f}{seen['summarised_mb']:16.1f}"
        )
        peaks.append(seen["summarised_mb"])
    figures = {"memory_growth_mb": peaks[1] - peaks[0], "peak_mb": peaks[1], "frames": LONGER * frames}
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
