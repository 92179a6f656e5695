"""A campaign over a drive of any length that repeats a few frames; prints the peaks of its memory as JSON.

Run: python benchmarks/ways/repeating_campaign.py FRAMES [--quick]
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from skidpad.core.images import NumpyFrames
from skidpad.drives.drive import Drive
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.summary import summarise
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.loading import load_subject
from skidpad.subjects.pretrained import pretrained

TRANSFORMS = ("brightness", "rotation")
DISTINCT = 16


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
    """Makes a drive of `count` frames, 320 wide: soft noise, since memory does not care what is on a picture."""
    rng = np.random.default_rng(7)
    coarse = rng.integers(0, 256, (DISTINCT, 12, 16, 3), dtype=np.uint8)
    frames = np.stack([cv2.resize(frame, (320, height_px), interpolation=cv2.INTER_CUBIC) for frame in coarse])
    places = np.arange(count)
    ids = tuple(f"{place:09d}" for place in places.tolist())
    return Drive("repeating", ids, rng.normal(0.0, 0.1, DISTINCT)[places % DISTINCT], places / 20.0, Repeating(frames))


def peak_mb() -> float:
    """Returns the most physical memory that this process ever held."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / 1e6 if sys.platform == "darwin" else held * 1024 / 1e6


def main() -> None:
    frames, quick = int(sys.argv[1]), "--quick" in sys.argv
    settings = DeepTestSettings(
        subject=str(pretrained("pilotnet-rendered")),
        drive="repeating",
        transforms=TRANSFORMS,
        relation="steers-alike",
        tolerance=10.0,
        shard_frames=4 if quick else 64,
    )
    drive = repeating_drive(frames, 80 if quick else 240)
    campaign = DeepTest(settings, load_subject(settings.subject), drive, stimuli(TRANSFORMS))
    loaded_mb = peak_mb()
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        run = campaign.start(Path(folder) / "run")
        campaign.execute(run)
        executed_mb = peak_mb()
        summary = summarise(run, campaign.blank_tracker(None), campaign.judged)
    figures = {
        "images": summary.originals + summary.overall.cases,
        "seconds": time.perf_counter() - started,
        "loaded_mb": loaded_mb,
        "executed_mb": executed_mb,
        "summarised_mb": peak_mb(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
