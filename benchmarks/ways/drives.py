"""Drives for benchmarks: JPEG files in a folder, and one of any length that repeats a few pictures; with a campaign over the latter."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import cv2
import numpy as np
import torch
from torch import nn

from skidpad.core.images import NumpyFrames, decode, encode, write_image
from skidpad.core.stimuli import Params, Space
from skidpad.drives.drive import Drive
from skidpad.drives.frames import Names
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.runs.workers.protocol import Crew, Performer, Reload, Workers
from skidpad.stimuli.pictures.deeptest import Brightness
from skidpad.subjects.loading import load_subject

WIDTH_PX, HEIGHT_PX = 32, 24
_DISTINCT = 16
_NETWORK = """
file = "tiny.ts"
format = "torchscript"

[input]
width_px = 32
height_px = 24
colour = "rgb"
range = { low = 0.0, high = 1.0 }

[[outputs]]
name = "steering"
unit = "rad"
"""


def jpeg_drive(drive: Drive, folder: Path) -> str:
    """Writes the frames and labels as the reader `udacity` takes them, and returns the text that opens them."""
    (folder / "center").mkdir(parents=True)
    with (folder / "steering.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("frame_id", "steering_angle"))
        for batch in drive.batches(64):
            for frame_id, frame, steering_rad in zip(batch.frame_ids, batch.frames, batch.steering_rad.tolist(), strict=True):
                write_image(folder / "center" / f"{frame_id}.jpg", frame)
                table.writerow((frame_id, repr(steering_rad)))
    return f"udacity:{folder}"


@dataclass(frozen=True, eq=False)
class Repeating:
    """A source of the same few pictures over and over, each decoded when it is read, as a folder's are."""

    pictures: tuple[bytes, ...]

    def read(self, index: int) -> NumpyFrames:
        """Decodes one picture."""
        frame = decode(self.pictures[index % len(self.pictures)])
        if frame is None:
            raise RuntimeError("a picture of the benchmark is broken")
        return frame

    def fingerprint(self, index: int) -> str:
        """Returns the size of the picture, as a folder does."""
        return str(len(self.pictures[index % len(self.pictures)]))


@dataclass(frozen=True, slots=True)
class Brighter(Brightness):
    """Brightness with a grid of one, so that a million frames are a matter of minutes."""

    space: ClassVar[Space] = Space(Brightness.space.parameters, (Params(shift=20),))


def repeating_drive(count: int, width_px: int = WIDTH_PX, height_px: int = HEIGHT_PX) -> Drive:
    """Makes a drive of `count` frames: soft noise, since memory does not care what is on a picture."""
    rng = np.random.default_rng(7)
    coarse = rng.integers(0, 256, (_DISTINCT, 3, 4, 3), dtype=np.uint8)
    pictures = tuple(encode(cv2.resize(each, (width_px, height_px), interpolation=cv2.INTER_CUBIC), ".jpg") for each in coarse)
    places = np.arange(count)
    ids = Names.of(f"{place:09d}" for place in range(count))
    return Drive("repeating", ids, rng.normal(0.0, 0.1, _DISTINCT)[places % _DISTINCT], places / 20.0, Repeating(pictures))


def tiny_subject(folder: Path) -> Path:
    """Writes a network of one small convolution and returns its description."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 5 * 7, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer torch would rather export, but reads this as well as ever
        torch.jit.script(layers.eval()).save(str(folder / "tiny.ts"))
    path = folder / "tiny.toml"
    path.write_text(_NETWORK, encoding="utf-8")
    return path


def repeating_campaign(subject: str, frames: int) -> DeepTest:
    """Loads the campaign, here or in a worker."""
    settings = DeepTestSettings(
        subject=subject, drive="repeating", transforms=("brighter",), relation="steers-alike", tolerance=10.0, shard_frames=512
    )
    return DeepTest(settings, load_subject(subject, trust=True), repeating_drive(frames), {"brighter": Brighter()})


@dataclass(frozen=True, slots=True)
class Reloading:
    """Workers that load the campaign of a benchmark, which no config describes."""

    workers: Workers
    reload: Reload

    def start(self, performer: Performer, reload: Reload, scratch: Path) -> AbstractContextManager[Crew]:  # noqa: ARG002  theirs is ours
        """Begins."""
        return self.workers.start(performer, self.reload, scratch)


def reloading(workers: Workers, subject: str, frames: int) -> Reloading:
    """Makes workers load the campaign over the repeating drive."""
    return Reloading(workers, partial(repeating_campaign, subject, frames))


@dataclass(frozen=True, slots=True)
class AtWork:
    """Workers that began before the clock did, and serve one run after the other."""

    crew: Crew

    @contextmanager
    def start(self, performer: Performer, reload: Reload, scratch: Path) -> Iterator[Crew]:  # noqa: ARG002  they have begun
        """Hands out those who are there."""
        yield self.crew
