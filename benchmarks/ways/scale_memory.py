"""A campaign over a repeating drive of any length by two local workers; prints the peaks of everyone's memory as JSON.

Run: python benchmarks/ways/scale_memory.py FRAMES
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from skidpad.runs.workers.processes import Processes
from ways.drives import reloading, repeating_campaign, tiny_subject
from ways.family import peaks, processor_s


def main() -> None:
    frames = int(sys.argv[1])
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subject = str(tiny_subject(folder))
        started, used = time.perf_counter(), processor_s()
        with peaks() as seen:
            campaign = repeating_campaign(subject, frames)
            run = campaign.start(folder / "run")
            campaign.execute(run, workers=reloading(Processes(2), subject, frames))
        segments = len(run.segments())
    figures = {
        "frames": frames,
        "segments": segments,
        "seconds": time.perf_counter() - started,
        "driver_processor_s": processor_s() - used,
        "driver_mb": seen.driver_mb,
        "worker_mb": seen.worker_mb,
        "workers": len(seen.workers_mb),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
