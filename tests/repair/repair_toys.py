"""A drive whose frames hold a bar, brighter than the road, that stands where the car must turn to; and a small network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from skidpad.core.images import encode
from skidpad.drives.drive import Drive
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.repairs.plan import Candidate, Trained
from skidpad.runs.folder import Run
from skidpad.subjects.inputs import Colour, InputSpec, Range
from skidpad.subjects.loading import load_subject
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.data import collect
from skidpad.subjects.training.fitting import TrainingSettings, fit
from skidpad.subjects.training.training import save_subject
from skidpad.subjects.zoo import Architecture

HEIGHT_PX, WIDTH_PX = 24, 32
SPEC = InputSpec(16, 8, Colour.GREY, Range((0.0,), (1.0,)))


def network(channels: int, height_px: int, width_px: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 6, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 3 * 7, 16), nn.ReLU(), nn.Linear(16, 1)
    )


TOY = Architecture("toy", network, SPEC)


def wide_network(channels: int, height_px: int, width_px: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 5, 48),
        nn.ReLU(),
        nn.Linear(48, 1),
    )


WIDE = Architecture("wide", wide_network, SPEC)
"""Large enough to learn that a bar is a bar in any light."""


def trained(way: str, clean: float, rate: float, best_epoch: int = 3) -> Trained:
    """Returns a candidate with made-up figures."""
    return Trained(Candidate(way, 1.0, 0), clean, rate, rate, best_epoch, 5, "")


@dataclass(frozen=True)
class Garage:
    """A trained toy, the drives it was trained and tested on, and the run of the test."""

    folder: Path
    toml: Path
    subject: NetworkSubject
    train_text: str
    train_drive: Drive
    test_text: str
    run: Run


def write_drive(folder: Path, frames: int, *, first: int = 0, labels: bool = True) -> str:
    """Writes PNG frames and labels; the bar wanders slowly, so that neighbours are alike. Returns the text that opens it."""
    folder.mkdir(parents=True)
    rows = ["frame_id,steering_angle"]
    for frame in range(first, first + frames):
        place = 0.5 + 0.45 * np.sin(0.37 * frame)
        picture = np.full((HEIGHT_PX, WIDTH_PX, 3), 60, np.uint8)
        column = round(place * (WIDTH_PX - 6))
        picture[4:, column : column + 6] = 150
        (folder / f"f{frame:04d}.png").write_bytes(encode(picture))
        rows.append(f"f{frame:04d}.png,{0.5 * (2 * place - 1)}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return f"folder:{folder}" + ("?csv=labels.csv&unit=rad" if labels else "")


def trained_subject(drive: Drive, path: Path, epochs: int = 40, architecture: Architecture = TOY) -> NetworkSubject:
    """Trains on clear frames only, so that fog and brightness are new to it."""
    with torch.random.fork_rng([]):
        torch.manual_seed(1)
        module = architecture.build()
    description = architecture.describe(path.name, path.name + ".safetensors")
    settings = TrainingSettings(epochs=epochs, batch_size=16, learning_rate=1e-2, patience=epochs, validation_fraction=0.0, mirror=False)
    fit(module, description, collect(drive, SPEC).data, None, settings)
    return load_subject(save_subject(module, description, path).toml)


def run_of(subject_toml: Path, drive: str, out: Path, transforms: tuple[str, ...] = ("deeptest-fog", "deeptest-rain")) -> Run:
    opened = open_drive(drive)
    settings = DeepTestSettings(
        subject=str(subject_toml),
        drive=opened.origin,
        transforms=transforms,
        relation="label-mse" if opened.has_labels else "steers-alike",
        shard_frames=16,
    )
    campaign = DeepTest.load(settings)
    run = campaign.start(out)
    campaign.execute(run)
    return run
